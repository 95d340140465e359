//! Recordings: what an outside agent did, as the recorder saw it.
//!
//! There are no proposals and no duty to claim. The state holds open intents and executions only,
//! so that it stays small however long the recording grows.

mod command;
mod draft;
mod verdicts;

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventRef, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::role::Role;
use countersign_format::trace_session::TraceStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parts::{no_such, optional, place, reference};
use crate::receipts::{Gating, IntendedAction, ReceiptHead};
use crate::{Act, Context, Refusal, ReviewDecision, Stage, State, ending, roles};
pub use command::{
    AskedInput, CallOutcome, EndedCall, GatedIntent, RecordedAction, RecordingCommand, Reporter,
    StoredInput,
};
use verdicts::{INTENTS_MAX, admit_gate};
pub use verdicts::{OpenIntent, Taker};

/// The channel of an answer that was given in the agent's own program.
pub const CLIENT_PROMPT: &str = "client-prompt";

/// What the events of a recording come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingState {
    /// Whether it has begun.
    pub begun: bool,
    /// Whom the recorder writes for.
    pub on_behalf_of: Option<String>,
    /// Intents that have not started, by place.
    pub intents: BTreeMap<u64, OpenIntent>,
    /// Executions under way, by place.
    pub executions: BTreeMap<u64, OpenExecution>,
    /// Where the chain of receipts stands.
    pub receipts: ReceiptHead,
    /// The policy and the model by which the gate decided last: events after the first need not
    /// list them again.
    pub gate_basis: Vec<Hash>,
    /// The stage of its end.
    pub stage: Stage,
    /// How it ended. The first end stands, whatever another audit says later.
    pub ended: Option<TraceStatus>,
}

/// An execution under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenExecution {
    /// The id of its start.
    pub event_id: String,
    /// What its intent says of the action.
    pub action: IntendedAction,
    /// How it is tied to a verdict.
    pub gating: Option<Gating>,
}

impl RecordingState {
    fn intent(&self, event: &Event, member: &'static str) -> Result<(u64, &OpenIntent), Refusal> {
        let reference = reference(event, member)?;
        self.intents
            .get(&reference.seq)
            .filter(|intent| intent.event_id == reference.event_id)
            .map(|intent| (reference.seq, intent))
            .ok_or_else(|| no_such(event, &reference, "intent"))
    }

    fn admit_body(&self, event: &Event) -> Result<(), Refusal> {
        use EventType as T;
        match event.event_type {
            T::ToolIntentReviewed => self.admit_review(event),
            T::ToolExecutionStarted => {
                let (seq, intent) = self.intent(event, "intent")?;
                match intent.decision {
                    _ if intent.has_expired(event.created_at) => Err(Refusal::VerdictExpired {
                        intent: seq,
                        expired: intent.expires_at.unwrap_or(event.created_at),
                    }),
                    Some(ReviewDecision::Asked) => Err(Refusal::IntentUndecided { intent: seq }),
                    // What was refused can only be recorded as done despite that.
                    Some(ReviewDecision::Blocked) => Err(Refusal::IntentBlocked { intent: seq }),
                    _ => Ok(()),
                }
            }
            T::ToolExecutionCompleted | T::ToolExecutionFailed => {
                let reference = reference(event, "execution")?;
                match self.executions.get(&reference.seq) {
                    Some(open) if open.event_id == reference.event_id => Ok(()),
                    _ => Err(no_such(event, &reference, "execution")),
                }
            }
            T::FinalStatementSigned => match self.executions.keys().next() {
                None => Ok(()),
                Some(&first) => {
                    Err(Refusal::ExecutionsOpen { count: self.executions.len(), first })
                }
            },
            _ => Ok(()),
        }
    }

    /// A person's word is the last one, and comes in time.
    fn admit_review(&self, event: &Event) -> Result<(), Refusal> {
        let (seq, intent) = self.intent(event, "subject")?;
        let by_person = event.actor.role == Role::Operator;
        admit_gate(event, seq, intent)?;
        match (intent.decision, intent.deadline) {
            (Some(ReviewDecision::Blocked), _) => Err(Refusal::IntentBlocked { intent: seq }),
            (Some(ReviewDecision::Asked), Some(deadline))
                if by_person && event.created_at >= deadline && !blocks(event) =>
            {
                Err(Refusal::AnswerTooLate { intent: seq, deadline })
            }
            (Some(ReviewDecision::Asked), _) if !by_person && !blocks(event) => {
                Err(Refusal::IntentUndecided { intent: seq })
            }
            _ => Ok(()),
        }
    }

    /// What may still be recorded, by stage.
    fn admit_stage(&self, event: &Event) -> Result<(), Refusal> {
        use EventType as T;
        let found = event.event_type;
        let afterwards = matches!(found, T::ArtifactRedacted | T::SessionRecovered);
        match (&self.stage, found) {
            (Stage::Open, T::VerificationRunStarted) => Err(Refusal::NoFinalStatement),
            (Stage::Open | Stage::Concluded, T::VerificationRunCompleted) => {
                Err(Refusal::NoAuditUnderWay)
            }
            (Stage::Open, _) => Ok(()),
            (_, _) if afterwards => Ok(()),
            (
                Stage::Concluded,
                T::VerificationRunStarted | T::SessionAborted | T::SessionFailed,
            ) => Ok(()),
            (Stage::Auditing(run), T::VerificationRunCompleted) => {
                let named = reference(event, "run")?;
                if named == *run { Ok(()) } else { Err(no_such(event, &named, "run")) }
            }
            (Stage::Auditing(_), T::SessionFailed) => Ok(()),
            // Once it is over, only another audit, a coverage report or a redaction may follow.
            (Stage::Ended, T::VerificationRunStarted | T::CoverageReported) => Ok(()),
            _ => Err(Refusal::Ended { found }),
        }
    }
}

impl State for RecordingState {
    type Command = RecordingCommand;
    const VERSION: u32 = 5;

    fn decide(&self, command: RecordingCommand, context: &Context) -> Result<Vec<Act>, Refusal> {
        draft::acts(self, command, context)
    }

    fn admit(&self, event: &Event) -> Result<(), Refusal> {
        let found = event.event_type;
        match (self.begun, found == EventType::SessionInitialized) {
            (false, false) => return Err(Refusal::WrongFirstEvent { found }),
            (true, true) => return Err(Refusal::BeganAlready { found }),
            _ => {}
        }
        roles::admit(TraceKind::Recording, event)?;
        self.admit_stage(event)?;
        self.admit_body(event)
    }

    fn apply(&mut self, event: &Event) {
        use EventType as T;
        match event.event_type {
            T::SessionInitialized => {
                self.begun = true;
                let agent_id = event.payload.pointer("/on_behalf_of/agent_id");
                self.on_behalf_of = agent_id.and_then(Value::as_str).map(str::to_owned);
            }
            T::ToolIntentSigned => self.remember(event),
            T::ToolIntentReviewed => self.review(event),
            T::ToolExecutionStarted => self.start(event),
            T::ToolExecutionCompleted | T::ToolExecutionFailed => {
                if let Ok(execution) = reference(event, "execution") {
                    self.executions.remove(&execution.seq);
                }
            }
            T::FinalStatementSigned => self.stage = Stage::Concluded,
            T::VerificationRunStarted => self.stage = Stage::Auditing(place(event)),
            _ => {
                if let Some(status) = ending(TraceKind::Recording, event) {
                    self.stage = Stage::Ended;
                    self.ended = self.ended.or(Some(status));
                }
            }
        }
        self.receipts.apply(event);
    }

    fn ended(&self) -> Option<TraceStatus> {
        self.ended
    }
}

impl RecordingState {
    /// Takes an intent in, and lets go of what can no longer be used.
    fn remember(&mut self, event: &Event) {
        let now = event.created_at;
        let mut action = IntendedAction::of(event);
        if let Ok(Some(despite)) = optional(event, "despite") {
            // A verdict is used once, and by acting against it too; what it said stands all the same.
            let verdict = Some(despite);
            let used = self.intents.iter().find(|(_, intent)| intent.verdict == verdict);
            if let Some(used) = used.map(|(&seq, _)| seq).and_then(|seq| self.intents.remove(&seq))
            {
                action.standing = used.action.standing;
            }
        }
        if let Ok(Some(again)) = optional::<EventRef>(event, "retry_of")
            && let Some(answered) = self.intents.get_mut(&again.seq)
            && answered.by_person
        {
            answered.taken = Some(Taker { call_id: optional(event, "call_id").ok().flatten() });
        }
        self.intents.retain(|_, intent| intent.expires_at.is_none_or(|end| now < end));
        while self.intents.len() >= INTENTS_MAX {
            self.intents.pop_first();
        }
        self.intents.insert(place(event).seq, OpenIntent::new(event, action));
    }

    fn review(&mut self, event: &Event) {
        let Ok(subject) = reference(event, "subject") else { return };
        let gated = event.payload.get("gate").is_some();
        if gated {
            let hash = |name: &str| event.payload.get("gate")?.get(name)?.as_str()?.parse().ok();
            self.gate_basis = ["policy", "model"].into_iter().filter_map(hash).collect();
        }
        let Some(intent) = self.intents.get_mut(&subject.seq) else { return };
        intent.action.review(event);
        intent.decision = optional(event, "decision").ok().flatten();
        intent.by_person = event.actor.role == Role::Operator;
        // Whoever answers in the agent's own program answers the call that waits for it there.
        let there = event.payload.get("channel").and_then(Value::as_str) == Some(CLIENT_PROMPT);
        intent.taken = there.then(|| Taker { call_id: intent.call_id.clone() });
        intent.inputs.clear();
        if gated {
            intent.token = Some(event.event_id.clone());
            intent.verdict = Some(place(event));
            intent.expires_at = optional(event, "expires_at").ok().flatten();
            let request = event.payload.pointer("/gate/request").and_then(Value::as_str);
            intent.request = request.and_then(|hash| hash.parse().ok());
        }
        if intent.decision == Some(ReviewDecision::Asked) {
            intent.deadline = optional(event, "deadline").ok().flatten();
        }
        // Without a verdict that an action could be tied to, a refused intent is done with.
        if intent.token.is_none() && intent.decision == Some(ReviewDecision::Blocked) {
            self.intents.remove(&subject.seq);
        }
    }

    fn start(&mut self, event: &Event) {
        let Ok(intent) = reference(event, "intent") else { return };
        let Some(intent) = self.intents.remove(&intent.seq) else { return };
        let execution = OpenExecution {
            event_id: event.event_id.clone(),
            action: intent.action,
            gating: optional(event, "gating").ok().flatten(),
        };
        self.executions.insert(place(event).seq, execution);
    }
}

/// Whether a review says no.
fn blocks(event: &Event) -> bool {
    event.payload.get("decision").and_then(Value::as_str) == Some("blocked")
}
