//! The events that commands bring.

use countersign_format::event::{Draft, Event, EventType};
use countersign_format::exit::{AgentSessionCompleted, ExitReason, ExitSignal, WorkPhase};
use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use serde_json::{Value, json};

use super::command::{
    Bearer, CiVerdict, Claimant, Releaser, SignalChannel, WorkCommand, WorkExit, WorkOpening,
};
use super::lease::{EXPIRED, Lease, Presented};
use super::{WorkRefusal, WorkState};
use crate::parts::{member, optional, produced, set};
use crate::{Act, By, Context, Refusal};

pub(super) fn acts(
    state: &WorkState,
    command: WorkCommand,
    context: &Context,
) -> Result<Vec<Act>, Refusal> {
    use WorkCommand as C;
    let moment = state.clock.at(context.now, context.raw);
    let draft = match command {
        C::Open(opening) => open(*opening),
        C::Claim { holder, session_id, millis, claimant } => {
            let now = moment.trusted()?;
            let ci = claimant == Claimant::Ci;
            state.check_claim(&holder, ci, now)?;
            let mut payload = json!({
                "holder": holder,
                "session_id": session_id,
                "epoch": state.epoch.saturating_add(1),
                "phase": state.phase,
                "expires_at": now.plus_millis(millis),
            });
            set(&mut payload, "ci", ci.then_some(true));
            let marks = [
                ("descriptor_only", claimant == Claimant::OnDescriptor),
                ("by_hand", claimant == Claimant::ByHand),
            ];
            for (name, holds) in marks {
                set(&mut payload, name, holds.then_some(true));
            }
            let granted = Act::by_recorder(Draft::new(EventType::LeaseGranted, payload));
            let mut acts = Vec::with_capacity(2);
            acts.extend(expired(state, now).map(Act::by_recorder));
            acts.push(granted);
            return Ok(acts);
        }
        C::Renew { epoch, by, millis } => {
            let now = moment.trusted()?;
            state.presented(Presented { epoch, by: Some(&by) }, now)?;
            let payload = json!({ "epoch": epoch, "expires_at": now.plus_millis(millis) });
            Draft::new(EventType::LeaseRenewed, payload)
        }
        C::Release { epoch, by, reason } => {
            let (bearer, operator) = match by {
                Releaser::Bearer(bearer) => (Some(bearer), None),
                Releaser::Operator(name) => (None, Some(name)),
            };
            state.presented(Presented { epoch, by: bearer.as_ref() }, moment.trusted()?)?;
            let mut payload = json!({ "epoch": epoch, "reason": reason });
            set(&mut payload, "released_by", operator);
            Draft::new(EventType::LeaseReleased, payload)
        }
        C::Expire => {
            let now = moment.trusted()?;
            let draft = expired(state, now);
            return Ok(draft.into_iter().map(Act::by_recorder).collect());
        }
        C::Exit(exit) => return leave(state, *exit, context),
        C::RefuseExit { reason, epoch, session_id, channel, signal } => {
            let mut payload = json!({ "reason": reason });
            set(&mut payload, "epoch", epoch);
            set(&mut payload, "session_id", session_id);
            set(&mut payload, "channel", channel);
            set(&mut payload, "signal_artifact", signal.as_ref().map(|it| it.artifact_hash));
            let artifacts = signal.into_iter().map(|signal| *signal).collect();
            Draft::new(EventType::ExitRefused, payload).with_artifacts(produced(artifacts, context))
        }
        C::Unblock { reason, channel } => {
            let Some(phase) = state.blocked_from else {
                return Err(WorkRefusal::NotBlocked { phase: state.phase }.into());
            };
            let payload = json!({ "phase": phase, "reason": reason, "channel": channel });
            return Ok(vec![by_operator(Draft::new(EventType::WorkUnblocked, payload))]);
        }
        C::ConfirmClock { reason } => {
            let payload = json!({ "raw_time": context.raw, "reason": reason });
            return Ok(vec![by_operator(Draft::new(EventType::ClockConfirmed, payload))]);
        }
        C::Redact { artifact_hash, reason } => {
            let payload = json!({ "artifact_hash": artifact_hash, "reason": reason });
            Draft::new(EventType::ArtifactRedacted, payload)
        }
    };
    Ok(vec![Act::by_recorder(draft)])
}

const fn by_operator(draft: Draft) -> Act {
    Act { by: By::Role(Role::Operator), draft }
}

fn open(opening: WorkOpening) -> Draft {
    let mut payload = json!({
        "kind": "work",
        "title": opening.title,
        "phase": opening.phase,
        "log": opening.log,
    });
    set(&mut payload, "label", opening.label);
    set(&mut payload, "author_may_review", opening.author_may_review.then_some(true));
    set(&mut payload, "links", opening.links);
    Draft::new(EventType::WorkOpened, payload)
}

/// The release of the lease that ran out, if there is one.
fn expired(state: &WorkState, now: Timestamp) -> Option<Draft> {
    let lease = state.lease.as_ref().filter(|lease| now >= lease.expires_at)?;
    let payload = json!({ "epoch": lease.epoch, "reason": EXPIRED });
    Some(Draft::new(EventType::LeaseReleased, payload))
}

/// The hash by which a signal is known again, however its JSON was written.
pub(super) fn signal_hash(signal: &ExitSignal) -> Hash {
    Hash::of(&json::to_bytes(&serde_json::to_value(signal).unwrap_or_default()))
}

fn leave(state: &WorkState, exit: WorkExit, context: &Context) -> Result<Vec<Act>, Refusal> {
    let hash = signal_hash(&exit.signal);
    if state.past_exit(exit.epoch, &exit.by, hash).is_some() {
        return Ok(Vec::new());
    }
    let facts = ExitFacts {
        epoch: exit.epoch,
        by: &exit.by,
        signal: &exit.signal,
        channel: exit.channel,
        ci: exit.ci.as_ref(),
    };
    let checked = state.exit_objection(&facts, context.now, context.raw);
    let checked = checked.map_err(|refusal| refusal.to_string()).and_then(|(lease, next)| {
        let (session_id, holder) = (&lease.session_id, &lease.holder);
        let said = AgentSessionCompleted::from_exit_signal(session_id, holder, exit.signal.clone());
        Ok((said.map_err(|error| error.to_string())?, next))
    });
    let draft = match checked {
        Ok((said, next)) => completed(said, next, hash, exit, context),
        Err(reason) => refused(&reason, state.session_of(exit.epoch, &exit.by), exit, context),
    };
    Ok(vec![Act::by_recorder(draft)])
}

fn completed(
    said: AgentSessionCompleted,
    next_phase: WorkPhase,
    signal_hash: Hash,
    exit: WorkExit,
    context: &Context,
) -> Draft {
    let mut payload = serde_json::to_value(&said).unwrap_or_default();
    set(&mut payload, "next_phase", Some(next_phase));
    set(&mut payload, "source", Some("agent_exit_protocol"));
    set(&mut payload, "epoch", Some(exit.epoch));
    set(&mut payload, "channel", Some(exit.channel));
    set(&mut payload, "signal_hash", Some(signal_hash));
    set(&mut payload, "signal_artifact", exit.stored.as_ref().map(|it| it.artifact_hash));
    set(&mut payload, "commit", exit.commit);
    set(&mut payload, "ci", exit.ci);
    set(&mut payload, "links", exit.links);
    let mut artifacts: Vec<_> = exit.stored.into_iter().collect();
    if let Some((evidence, reference)) = exit.evidence {
        set(&mut payload, "evidence_artifact", Some(evidence.artifact_hash));
        if said.evidence_bundle_ref.is_none() {
            set(&mut payload, "evidence_bundle_ref", reference);
        }
        if !artifacts.iter().any(|it| it.artifact_hash == evidence.artifact_hash) {
            artifacts.push(evidence);
        }
    }
    Draft::new(EventType::AgentSessionCompleted, payload)
        .with_artifacts(produced(artifacts, context))
}

fn refused(reason: &str, session_id: Option<String>, exit: WorkExit, context: &Context) -> Draft {
    let mut payload = json!({ "reason": reason, "epoch": exit.epoch, "channel": exit.channel });
    set(&mut payload, "session_id", session_id);
    set(&mut payload, "signal_artifact", exit.stored.as_ref().map(|it| it.artifact_hash));
    let artifacts = exit.stored.into_iter().collect();
    Draft::new(EventType::ExitRefused, payload).with_artifacts(produced(artifacts, context))
}

/// What decides whether an exit is taken.
struct ExitFacts<'a> {
    epoch: u64,
    by: &'a Bearer,
    signal: &'a ExitSignal,
    channel: SignalChannel,
    ci: Option<&'a CiVerdict>,
}

impl WorkState {
    /// The lease that ends, and to which phase the item goes; or why not.
    fn exit_objection(
        &self,
        facts: &ExitFacts<'_>,
        created_at: Timestamp,
        raw: Timestamp,
    ) -> Result<(&Lease, WorkPhase), WorkRefusal> {
        let epoch = facts.epoch;
        if let Some(past) = self.exits.get(&epoch) {
            past.check_bearer(epoch, facts.by)?;
            return Err(WorkRefusal::ExitedOtherwise { epoch });
        }
        let now = self.clock.at(created_at, raw).trusted()?;
        let lease = self.presented(Presented { epoch, by: Some(facts.by) }, now)?;
        let channel = facts.channel;
        if lease.descriptor_only
            && !matches!(channel, SignalChannel::Descriptor | SignalChannel::Runner)
        {
            return Err(WorkRefusal::OtherChannel { epoch, channel });
        }
        let next = match lease.ci {
            true => facts.signal.check_for_ci_runner(Some(self.phase))?,
            false => facts.signal.check_for_phase(Some(self.phase))?,
        };
        check_ci(facts.signal.exit_reason, lease.ci, facts.ci)?;
        Ok((lease, next))
    }

    pub(super) fn admit_exit(&self, event: &Event) -> Result<(), Refusal> {
        let by = Bearer::Session(member(event, "session_id")?);
        let ci: Option<CiVerdict> = optional(event, "ci")?;
        let signal = ExitSignal::new(
            member(event, "phase_completed")?,
            member::<ExitReason>(event, "exit_reason")?,
        );
        let facts = ExitFacts {
            epoch: member(event, "epoch")?,
            by: &by,
            signal: &signal,
            channel: member(event, "channel")?,
            ci: ci.as_ref(),
        };
        let raw = event.raw_clock.unwrap_or(event.created_at);
        let (lease, due) = self.exit_objection(&facts, event.created_at, raw)?;
        let stated: WorkPhase = member(event, "next_phase")?;
        if stated != due {
            return Err(WorkRefusal::OtherNextPhase { stated, due }.into());
        }
        if event.payload.get("actor_id").and_then(Value::as_str) != Some(lease.holder.as_str()) {
            return Err(WorkRefusal::OtherSession { epoch: facts.epoch }.into());
        }
        Ok(())
    }
}

/// The exit status of CI is the verdict, whatever else is said.
fn check_ci(
    reason: ExitReason,
    holds_as_ci: bool,
    verdict: Option<&CiVerdict>,
) -> Result<(), WorkRefusal> {
    match (holds_as_ci, verdict) {
        (false, None) => Ok(()),
        (false, Some(_)) => Err(WorkRefusal::NoCi),
        (true, verdict) => {
            let passed = verdict.and_then(|verdict| verdict.exit_status) == Some(0);
            if verdict.is_some() && passed == (reason == ExitReason::Completed) {
                Ok(())
            } else {
                Err(WorkRefusal::OtherThanCi { reason })
            }
        }
    }
}
