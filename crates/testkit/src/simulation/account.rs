//! What agents were told, and what must therefore be so.
//!
//! The account knows the rules of leases and phases in its own words, and nothing of how the product
//! decides them.

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::event::{Event, EventType};
use countersign_format::exit::{ExitReason, WorkPhase};
use countersign_format::id::Ulid;
use countersign_protocol::work::Lease;
use serde_json::{Value, json};

/// An event that somebody was told of.
#[derive(Debug)]
struct Fact {
    trace: Ulid,
    event_type: Option<EventType>,
    event_id: Option<String>,
    payload: Value,
}

/// What is known of a work item by whoever heard every answer.
#[derive(Debug, Default)]
struct ItemView {
    /// The newest lease that anybody was told of, and until when it holds.
    lease: Option<(u64, i64)>,
    /// Whether that lease was ended by an answer.
    ended: bool,
    /// Somebody died in the middle of something that may have ended it.
    unsure: bool,
}

/// What agents were told.
#[derive(Debug, Default)]
pub(super) struct Account {
    facts: Vec<Fact>,
    items: BTreeMap<Ulid, ItemView>,
    /// The time that has truly passed, whatever clocks say.
    pub(super) now: i64,
    /// Whether the clock was ever set back: then it decides less than the time.
    pub(super) set_back: bool,
}

/// The phase after an exit, by the published table.
fn after(phase: &str, reason: &str) -> Option<&'static str> {
    match (phase, reason) {
        (_, "blocked" | "error") => Some("BLOCKED"),
        ("DRAFT", _) => Some("IMPLEMENTATION"),
        ("IMPLEMENTATION", _) => Some("CI_PENDING"),
        ("CI_PENDING", _) => Some("READY_FOR_REVIEW"),
        ("READY_FOR_REVIEW", _) => Some("REVIEW"),
        ("REVIEW", _) => Some("READY_FOR_MERGE"),
        ("READY_FOR_MERGE", _) => Some("COMPLETED"),
        _ => None,
    }
}

impl Account {
    /// How many events were acknowledged.
    pub(super) fn facts(&self) -> usize {
        self.facts.len()
    }

    pub(super) fn events_told<'e>(
        &mut self,
        trace: Ulid,
        events: impl IntoIterator<Item = &'e Event>,
    ) {
        for event in events {
            self.told(trace, Some(event.event_type), Some(event.event_id.clone()), Value::Null);
        }
    }

    fn told(
        &mut self,
        trace: Ulid,
        event_type: Option<EventType>,
        event_id: Option<String>,
        payload: Value,
    ) {
        self.facts.push(Fact { trace, event_type, event_id, payload });
    }

    pub(super) fn begun(&mut self, trace: Ulid, event_type: EventType) {
        self.told(trace, Some(event_type), None, Value::Null);
    }

    /// Somebody died while it did something to the item.
    pub(super) fn unsure(&mut self, item: Ulid) {
        self.items.entry(item).or_default().unsure = true;
    }

    pub(super) fn claimed(&mut self, item: Ulid, lease: &Lease) -> Result<(), String> {
        let now = self.now;
        let view = self.items.entry(item).or_default();
        if let Some((epoch, until)) = view.lease {
            if lease.epoch <= epoch {
                return Err(format!("lease {} was granted after lease {epoch}", lease.epoch));
            }
            if !view.ended && !view.unsure && now < until {
                let left = until - now;
                return Err(format!(
                    "lease {} was granted while lease {epoch} held for another {left} ms",
                    lease.epoch
                ));
            }
        }
        let lease_end = lease.expires_at.as_millis();
        *view =
            ItemView { lease: Some((lease.epoch, lease_end)), ended: false, unsure: view.unsure };
        view.unsure = false;
        self.told(
            item,
            Some(EventType::LeaseGranted),
            None,
            json!({ "epoch": lease.epoch, "holder": lease.holder, "session_id": lease.session_id }),
        );
        Ok(())
    }

    /// A lease was used, and that was accepted.
    fn used(&mut self, item: Ulid, epoch: u64, how: &str) -> Result<&mut ItemView, String> {
        let view = self.items.entry(item).or_default();
        match view.lease {
            Some((newest, _)) if epoch < newest => {
                Err(format!("{how} with lease {epoch} was taken, and lease {newest} was granted"))
            }
            _ if view.ended => Err(format!("{how} with lease {epoch} was taken after its end was")),
            _ => Ok(view),
        }
    }

    pub(super) fn renewed(&mut self, item: Ulid, epoch: u64, until: i64) -> Result<(), String> {
        self.used(item, epoch, "a renewal")?.lease = Some((epoch, until));
        self.told(item, Some(EventType::LeaseRenewed), None, json!({ "epoch": epoch }));
        Ok(())
    }

    pub(super) fn released(&mut self, item: Ulid, epoch: u64) -> Result<(), String> {
        self.used(item, epoch, "a release")?.ended = true;
        self.told(item, Some(EventType::LeaseReleased), None, json!({ "epoch": epoch }));
        Ok(())
    }

    /// An exit was accepted for the first time.
    pub(super) fn exited(
        &mut self,
        item: Ulid,
        (epoch, session): (u64, &str),
        (phase, reason): (WorkPhase, ExitReason),
        (event_id, next): (&str, WorkPhase),
    ) -> Result<(), String> {
        self.used(item, epoch, "an exit")?.ended = true;
        let due = after(phase.as_str(), reason.as_str());
        if due != Some(next.as_str()) {
            return Err(format!("{reason:?} in {phase} led to {next}, not to {due:?}"));
        }
        let payload = json!({ "epoch": epoch, "session_id": session, "next_phase": next });
        let id = Some(event_id.to_owned());
        self.told(item, Some(EventType::AgentSessionCompleted), id, payload);
        Ok(())
    }

    /// An exit was accepted, and had been before.
    pub(super) fn repeated(&mut self, item: Ulid, event_id: &str) {
        let event_type = Some(EventType::AgentSessionCompleted);
        self.told(item, event_type, Some(event_id.to_owned()), Value::Null);
    }

    /// An exit was refused: nobody who holds the item may be.
    pub(super) fn refused(&self, item: Ulid, epoch: u64, why: &str) -> Result<(), String> {
        let Some(view) = self.items.get(&item) else { return Ok(()) };
        let holds = view.lease.is_some_and(|(newest, until)| newest == epoch && self.now < until);
        if holds && !view.ended && !view.unsure && !self.set_back {
            return Err(format!("the holder's exit with lease {epoch} was refused: {why}"));
        }
        Ok(())
    }

    /// Compares what was told with the events of a trace.
    pub(super) fn check(&self, trace: Ulid, events: &[Event]) -> Result<(), String> {
        let mut ids = BTreeSet::new();
        for (at, event) in events.iter().enumerate() {
            if event.seq != Some(at as u64) || !ids.insert(event.event_id.as_str()) {
                return Err(format!("event {at} of {trace} is {:?}", event.seq));
            }
        }
        for fact in self.facts.iter().filter(|fact| fact.trace == trace) {
            let found = events.iter().any(|event| fact.is(event));
            if !found {
                return Err(format!("acknowledged, and not there: {fact:?}"));
            }
        }
        if events.first().is_some_and(|first| first.event_type == EventType::WorkOpened) {
            one_holder(events).map_err(|why| format!("work item {trace}: {why}"))?;
        }
        Ok(())
    }

    /// The traces that somebody was told of.
    pub(super) fn traces(&self) -> BTreeSet<Ulid> {
        self.facts.iter().map(|fact| fact.trace).collect()
    }
}

impl Fact {
    fn is(&self, event: &Event) -> bool {
        self.event_type.is_none_or(|wanted| wanted == event.event_type)
            && self.event_id.as_ref().is_none_or(|id| *id == event.event_id)
            && self.payload.as_object().is_none_or(|members| {
                members.iter().all(|(name, value)| event.payload.get(name) == Some(value))
            })
    }
}

/// One holder at a time, each with the next number, and phases as the table has them.
fn one_holder(events: &[Event]) -> Result<(), String> {
    let text = |event: &Event, name: &str| event.payload[name].as_str().map(str::to_owned);
    let (mut phase, mut blocked_from) = (None, None);
    let (mut held, mut last) = (None, 0);
    for event in events {
        let epoch = event.payload["epoch"].as_u64();
        let seq = event.seq;
        let wrong = |what: &str| Err(format!("event {seq:?}: {what}"));
        match event.event_type {
            EventType::WorkOpened => phase = text(event, "phase"),
            EventType::LeaseGranted => {
                if held.is_some() || epoch != Some(last + 1) || text(event, "phase") != phase {
                    return wrong("a lease is granted that is not due");
                }
                (held, last) = (epoch, last + 1);
            }
            EventType::LeaseRenewed if epoch != held => return wrong("a renewal without a lease"),
            EventType::LeaseReleased => {
                if epoch != held {
                    return wrong("a release without a lease");
                }
                held = None;
            }
            EventType::AgentSessionCompleted => {
                let reason = text(event, "exit_reason").unwrap_or_default();
                let due = after(phase.as_deref().unwrap_or_default(), &reason);
                if epoch != held || text(event, "phase_completed") != phase {
                    return wrong("an exit without a lease of its phase");
                }
                if text(event, "next_phase").as_deref() != due {
                    return wrong("an exit against the table");
                }
                (held, blocked_from) = (None, phase);
                phase = due.map(str::to_owned);
            }
            EventType::WorkUnblocked => {
                if phase.as_deref() != Some("BLOCKED") || text(event, "phase") != blocked_from {
                    return wrong("unblocked from elsewhere");
                }
                phase.clone_from(&blocked_from);
            }
            _ => {}
        }
    }
    Ok(())
}
