//! What the events of one trace come to, as far as a period is concerned. One event at a time.

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::flow::WordsForNo;
use countersign_protocol::{ending, kind_of};
use serde_json::Value;

use super::action::{DecidedAction, cut, stated};
use super::decision::{Decider, PeriodDecision, Ruling, heard};
use super::{
    BrokenOff, ChannelCounts, Newest, Period, RecoveredTail, RemovedArtifact, ReportedCoverage,
};

/// Things that can still be decided about and are remembered; the oldest are forgotten beyond it.
const SUBJECTS_MAX: usize = 10_000;
/// Participants and sources that are named.
const NAMED_MAX: usize = 20;
/// Characters of a title, a reason or another text.
const TEXT_CHARACTERS_MAX: usize = 1_000;

/// The lists to which the traces of a period add.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) denials: Newest<PeriodDecision>,
    pub(super) approvals: Newest<PeriodDecision>,
    pub(super) broken_off: Newest<BrokenOff>,
    pub(super) coverage: Newest<ReportedCoverage>,
    pub(super) redactions: Newest<RemovedArtifact>,
    pub(super) recovered: Newest<RecoveredTail>,
    pub(super) passed_by_gate: u64,
    pub(super) passed_by_critic: u64,
    pub(super) asked: u64,
    pub(super) coverage_gaps: u64,
    pub(super) channels: ChannelCounts,
}

/// One trace, up to some event.
#[derive(Debug, Default)]
pub(super) struct TraceFacts {
    pub(super) kind: Option<TraceKind>,
    pub(super) title: Option<String>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) last_at: Option<Timestamp>,
    pub(super) status: Option<TraceStatus>,
    pub(super) outcome: Option<String>,
    pub(super) events_in_period: u64,
    pub(super) participants: Vec<String>,
    pub(super) denials: u64,
    pub(super) approvals: u64,
    /// What can be decided about, by its place.
    subjects: BTreeMap<u64, DecidedAction>,
    /// What blocked a work item.
    blocked: Option<DecidedAction>,
    coverage: Option<u64>,
    words_for_no: WordsForNo,
}

impl TraceFacts {
    /// Takes in the next event.
    pub(super) fn push(&mut self, event: &Event, period: &Period, lists: &mut Lists) {
        if self.started_at.is_none() {
            self.begin(event);
        }
        self.last_at = self.last_at.max(Some(event.created_at));
        let who = by(event);
        if !self.participants.contains(&who) && self.participants.len() < NAMED_MAX {
            self.participants.push(who);
        }
        let ended = self.status == Some(TraceStatus::Running);
        let ending = self.kind.and_then(|kind| ending(kind, event)).filter(|_| ended);
        if let Some(status) = ending {
            self.status = Some(status);
        }
        if matches!(event.event_type, EventType::FinalStatementSigned | EventType::FlowFinished) {
            self.outcome = text(event, "outcome").or(self.outcome.take());
        }
        self.remember(event);
        if period.contains(event.created_at) {
            self.events_in_period += 1;
            self.tell(event, ending, lists);
        }
    }

    fn begin(&mut self, first: &Event) {
        self.kind = kind_of(first);
        self.started_at = Some(first.created_at);
        self.status = Some(TraceStatus::Running);
        let names = ["/task_id", "/title", "/objective", "/workflow", "/on_behalf_of/agent_id"];
        self.title = names.into_iter().find_map(|place| {
            let found = first.payload.pointer(place).and_then(Value::as_str)?;
            Some(cut(found, TEXT_CHARACTERS_MAX))
        });
    }

    fn remember(&mut self, event: &Event) {
        self.words_for_no.take(event);
        match event.event_type {
            EventType::ToolIntentSigned | EventType::ProposalCreated | EventType::StepEscalated => {
                if let Some(seq) = event.seq {
                    self.subjects.insert(seq, stated(event));
                }
                if self.subjects.len() > SUBJECTS_MAX {
                    self.subjects.pop_first();
                }
            }
            EventType::AgentSessionCompleted => {
                let blocked = text(event, "next_phase").as_deref() == Some("BLOCKED");
                self.blocked = blocked.then(|| stated(event));
            }
            _ => {}
        }
    }

    fn tell(&mut self, event: &Event, ending: Option<TraceStatus>, lists: &mut Lists) {
        let at = event.created_at;
        self.decided(event, lists);
        match event.event_type {
            EventType::CoverageReported => {
                let told = coverage(event);
                // The comparison that found most counts: one with less finds less.
                let before = self.coverage.unwrap_or_default();
                let most = told.gaps.max(before);
                self.coverage = Some(most);
                lists.coverage_gaps += most - before;
                lists.coverage.add(at, told);
            }
            EventType::ArtifactRedacted => {
                lists.redactions.add(at, removed(event, &event.trace_id));
            }
            EventType::SessionRecovered => {
                lists.recovered.add(at, recovered(event, &event.trace_id));
            }
            _ => {}
        }
        if let Some(status @ (TraceStatus::Failed | TraceStatus::Aborted)) = ending {
            let reason = text(event, "reason").or_else(|| text(event, "summary"));
            let reason = reason.or_else(|| text(event, "verification_status"));
            lists.broken_off.add(
                at,
                BrokenOff {
                    at,
                    trace_id: event.trace_id.clone(),
                    event_id: event.event_id.clone(),
                    status,
                    by: by(event),
                    reason: reason.unwrap_or_default(),
                },
            );
        }
    }

    fn decided(&mut self, event: &Event, lists: &mut Lists) {
        let Some(heard) = heard(event, &self.words_for_no) else { return };
        let action = match heard.subject {
            // Asked first, a person decides about the same thing later.
            Some(seq) if heard.ruling == Ruling::Asked => self.subjects.get(&seq).cloned(),
            Some(seq) => self.subjects.remove(&seq),
            None => self.blocked.clone(),
        };
        let list = match (heard.ruling, heard.by) {
            (Ruling::Denied, _) => {
                self.denials += 1;
                &mut lists.denials
            }
            (Ruling::Allowed, Decider::Person) => {
                self.approvals += 1;
                lists.channels.count(heard.channel.as_deref());
                &mut lists.approvals
            }
            (Ruling::Asked, _) => return lists.asked += 1,
            (Ruling::Allowed, Decider::Gate) => return lists.passed_by_gate += 1,
            (Ruling::Allowed, Decider::Critic) => return lists.passed_by_critic += 1,
            (Ruling::Allowed, Decider::Rule) => return,
        };
        let missing = || DecidedAction {
            title: "something that this trace no longer tells".to_owned(),
            ..DecidedAction::default()
        };
        list.add(
            event.created_at,
            PeriodDecision {
                at: event.created_at,
                trace_id: event.trace_id.clone(),
                event_id: event.event_id.clone(),
                seq: event.seq,
                ruling: heard.ruling,
                by: heard.by,
                agent_id: event.actor.agent_id.clone(),
                role: event.actor.role,
                channel: heard.channel,
                reasons: heard.reasons,
                enforced: heard.enforced,
                action: action.unwrap_or_else(missing),
            },
        );
    }
}

/// Who recorded an event.
pub(super) fn by(event: &Event) -> String {
    let (role, agent) = (event.actor.role.as_str(), event.actor.agent_id.as_str());
    // Most agents of a workspace are called like their only role.
    if role == agent { role.to_owned() } else { format!("{role} {agent}") }
}

fn text(event: &Event, name: &str) -> Option<String> {
    let text = event.payload.get(name).and_then(Value::as_str)?;
    Some(cut(text, TEXT_CHARACTERS_MAX))
}

fn coverage(event: &Event) -> ReportedCoverage {
    let sources = event.payload.get("sources").and_then(Value::as_array);
    let sources = sources.into_iter().flatten().filter_map(Value::as_str);
    ReportedCoverage {
        at: event.created_at,
        trace_id: event.trace_id.clone(),
        event_id: event.event_id.clone(),
        gaps: event.payload.get("gaps").and_then(Value::as_u64).unwrap_or_default(),
        sources: sources.take(NAMED_MAX).map(|it| cut(it, TEXT_CHARACTERS_MAX)).collect(),
    }
}

/// What an `artifact_redacted` says.
pub(super) fn removed(event: &Event, trace_id: &str) -> RemovedArtifact {
    RemovedArtifact {
        at: event.created_at,
        trace_id: trace_id.to_owned(),
        event_id: event.event_id.clone(),
        artifact_hash: text(event, "artifact_hash").unwrap_or_default(),
        by: by(event),
        reason: text(event, "reason").unwrap_or_default(),
    }
}

/// What a `session_recovered` says.
pub(super) fn recovered(event: &Event, trace_id: &str) -> RecoveredTail {
    RecoveredTail {
        at: event.created_at,
        trace_id: trace_id.to_owned(),
        event_id: event.event_id.clone(),
        torn_bytes: event.payload.get("torn_bytes").and_then(Value::as_u64).unwrap_or_default(),
        torn_file: text(event, "torn_file").unwrap_or_default(),
        reason: text(event, "reason").unwrap_or_default(),
    }
}
