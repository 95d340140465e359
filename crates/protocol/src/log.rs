//! The workspace log: which keys may sign, and how far each trace has come.
//!
//! The state holds every key but only open traces, so that it does not grow with history. What the
//! log says of one trace over time is the verifier's to collect.

mod open;

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::event::{Draft, Event, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::key::{AgentIdentity, KeyStatus};
use countersign_format::note::origin;
use countersign_format::role::Role;
use countersign_format::shape::Dialect;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use open::{EarlierOpen, OpenChange, OpenSet, OpenTrace, OpenUnreadable};

use crate::{Act, By, Context, Refusal, SetAside, State, roles};

/// What can be asked of the log.
#[derive(Debug, Clone)]
pub enum LogCommand {
    /// Begin the log with its root key.
    Open {
        /// The name under which checkpoints are signed.
        origin: String,
        /// The root key.
        root: Box<AgentIdentity>,
        /// What writes it.
        software: String,
    },
    /// Let a key sign.
    AddKey(Box<AgentIdentity>),
    /// Replace a key by another one of the same agent.
    RotateKey {
        /// The key to retire.
        key_id: String,
        /// Its replacement.
        identity: Box<AgentIdentity>,
        /// The open traces on which nobody can write meanwhile.
        held: Held,
    },
    /// Let a key sign no longer.
    RevokeKey {
        /// The key.
        key_id: String,
        /// Why.
        reason: String,
        /// The open traces on which nobody can write meanwhile.
        held: Held,
    },
    /// A trace has a first event.
    OpenTrace {
        /// The trace.
        trace_id: String,
        /// What it records.
        kind: TraceKind,
        /// Hash of its first event.
        first_event_hash: Hash,
        /// The last key event when its first event was signed.
        keys_head: Hash,
    },
    /// A trace has come this far.
    CheckpointTrace(Extent),
    /// A trace has ended.
    CloseTrace(Extent, TraceStatus),
}

/// Open traces on which nobody can write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Their ids.
    pub trace_ids: BTreeSet<String>,
    /// A time after all of their events. The end of a key lies no earlier: an event of the same
    /// millisecond must not lose its signature.
    pub after: Timestamp,
}

/// How far a trace has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// The trace.
    pub trace_id: String,
    /// Number of durable events.
    pub size: u64,
    /// Hash of the last of them.
    pub head: Hash,
    /// Merkle root over their hashes.
    pub merkle_root: Hash,
    /// Time of the last of them.
    pub last_event_at: Timestamp,
}

/// A key as the log knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownKey {
    /// The record, with its present status.
    pub identity: AgentIdentity,
}

/// What the log's events come to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LogState {
    /// The name under which checkpoints are signed.
    pub origin: String,
    /// The root key.
    pub root_key_id: String,
    /// Hash of the last key event.
    pub keys_head: Option<Hash>,
    /// All keys, by id.
    pub keys: BTreeMap<String, KnownKey>,
    /// Traces that have not ended. Stored apart from the rest: there may be many.
    #[serde(skip)]
    pub open: OpenSet,
    /// The latest time that any event has, here or in a trace as far as it was checkpointed.
    pub latest: Option<Timestamp>,
}

/// Whether `event` changes which keys may sign.
#[must_use]
pub const fn is_key_event(event: EventType) -> bool {
    matches!(
        event,
        EventType::LogOpened | EventType::KeyAdded | EventType::KeyRotated | EventType::KeyRevoked
    )
}

impl LogState {
    /// The active key of the agent that has `role`, the root key apart.
    #[must_use]
    pub fn active_key(&self, role: Role) -> Option<&AgentIdentity> {
        self.keys.values().map(|key| &key.identity).find(|identity| {
            identity.status == KeyStatus::Active
                && identity.key_id != self.root_key_id
                && identity.role_capabilities.contains(&role)
        })
    }

    /// The time before which nothing may be recorded: no key counts before it was made, so a clock
    /// that was set back must not date events before the newest key.
    #[must_use]
    pub fn floor(&self) -> Timestamp {
        let made = self.keys.values().map(|key| key.identity.created_at);
        made.max().unwrap_or(Timestamp::EPOCH)
    }

    fn active(&self, key_id: &str) -> Result<&AgentIdentity, Refusal> {
        self.keys
            .get(key_id)
            .map(|key| &key.identity)
            .filter(|identity| identity.status == KeyStatus::Active)
            .ok_or_else(|| Refusal::NoActiveKey { key_id: key_id.to_owned() })
    }

    /// Keys change only while nobody can write to an open trace: what a key signed before must be
    /// in the log, and nothing may be signed with it meanwhile.
    fn all_held(&self, held: &Held) -> Result<(), Refusal> {
        match self.open.all()?.into_keys().find(|trace_id| !held.trace_ids.contains(trace_id)) {
            None => Ok(()),
            Some(trace_id) => Err(Refusal::TraceNotHeld { trace_id }),
        }
    }

    /// When a key that is retired now ends: after every event that it may have signed.
    fn end_of_key(&self, context: &Context, held: &Held) -> Timestamp {
        let latest = self.latest.unwrap_or(Timestamp::EPOCH).plus_millis(1);
        context.now.max(held.after).max(latest)
    }

    fn keys_head(&self) -> String {
        self.keys_head.unwrap_or(Hash::GENESIS).to_hex()
    }

    fn extent(&self, extent: &Extent) -> Value {
        json!({
            "trace_id": extent.trace_id,
            "size": extent.size,
            "head": extent.head,
            "merkle_root": extent.merkle_root,
            "last_event_at": extent.last_event_at,
            "keys_head": self.keys_head(),
        })
    }

    fn usable(identity: &AgentIdentity) -> Result<(), Refusal> {
        let value = serde_json::to_value(identity).unwrap_or_default();
        let mut faults = AgentIdentity::check(&value, Dialect::V1_1).into_iter();
        let roles = &identity.role_capabilities;
        let fault = if let Some(fault) = faults.next() {
            fault.to_string()
        } else if roles.contains(&Role::Recorder) && roles.len() > 1 {
            // What the system itself recorded must not be mixed up with what an agent did.
            "a recorder key has no other role".to_owned()
        } else {
            return Ok(());
        };
        Err(Refusal::UnusableIdentity { key_id: identity.key_id.clone(), fault })
    }

    /// Key events form a chain of their own, and every other event names its end: so an extract
    /// of the log cannot leave out a revocation.
    fn admit_keys_head(&self, event: &Event) -> Result<(), Refusal> {
        let member = match event.event_type {
            EventType::LogOpened => return Ok(()),
            event_type if is_key_event(event_type) => "prev_key_event",
            _ => "keys_head",
        };
        let found = text(event, member)?;
        let wanted = self.keys_head();
        if found == wanted {
            Ok(())
        } else {
            let found = found.to_owned();
            Err(Refusal::KeysHeadDiffers { event: event.event_type, found, wanted })
        }
    }

    fn admit_signer(&self, event: &Event) -> Result<(), Refusal> {
        let key_id = &event.actor.key_id;
        if is_key_event(event.event_type) {
            let root = if event.event_type == EventType::LogOpened {
                identity(event)?.key_id
            } else {
                self.root_key_id.clone()
            };
            if *key_id != root {
                return Err(Refusal::NotTheRoot { root, found: key_id.clone() });
            }
            return Ok(());
        }
        // The root signs key events and nothing else: it can then be kept away from the rest.
        if *key_id == self.root_key_id {
            return Err(Refusal::NotForTheRoot { event: event.event_type });
        }
        self.active(key_id).map(|_| ())
    }

    fn admit_key_change(&self, event: &Event) -> Result<(), Refusal> {
        match event.event_type {
            EventType::KeyAdded => self.admit_new_key(&identity(event)?),
            EventType::KeyRotated => {
                let new = identity(event)?;
                self.admit_new_key(&new)?;
                admit_end(event, "rotated_at")?;
                let old = self.admit_retirement(text(event, "rotated_key_id")?)?;
                if old.agent_id == new.agent_id {
                    Ok(())
                } else {
                    Err(Refusal::OtherAgent {
                        new: new.key_id,
                        found: new.agent_id,
                        wanted: old.agent_id.clone(),
                    })
                }
            }
            EventType::KeyRevoked => {
                admit_end(event, "revoked_at")?;
                self.admit_retirement(text(event, "key_id")?).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    fn admit_new_key(&self, new: &AgentIdentity) -> Result<(), Refusal> {
        Self::usable(new)?;
        if self.keys.contains_key(&new.key_id) {
            return Err(Refusal::KeyKnown { key_id: new.key_id.clone() });
        }
        Ok(())
    }

    fn admit_retirement(&self, key_id: &str) -> Result<&AgentIdentity, Refusal> {
        if key_id == self.root_key_id {
            return Err(Refusal::RootIsFixed { root: self.root_key_id.clone() });
        }
        self.active(key_id)
    }

    fn admit_trace(&self, event: &Event) -> Result<(), Refusal> {
        let trace_id = text(event, "trace_id")?;
        let known = self.open.find(trace_id)?;
        match (event.event_type, known) {
            (EventType::TraceOpened, Some(_)) => {
                Err(Refusal::TraceKnown { trace_id: trace_id.to_owned() })
            }
            (EventType::TraceClosed, None) => {
                Err(Refusal::TraceNotOpen { trace_id: trace_id.to_owned() })
            }
            // A trace that has ended may still be checkpointed: a redaction lengthens it.
            (EventType::TraceCheckpointed | EventType::TraceClosed, Some(known)) => {
                let found = event.payload.get("size").and_then(Value::as_u64).unwrap_or(0);
                let enough = match event.event_type {
                    EventType::TraceClosed => found >= known.size,
                    _ => found > known.size,
                };
                if enough {
                    Ok(())
                } else {
                    let trace_id = trace_id.to_owned();
                    Err(Refusal::NotLonger { trace_id, known: known.size, found })
                }
            }
            _ => Ok(()),
        }
    }
}

impl State for LogState {
    type Command = LogCommand;
    const VERSION: u32 = 2;
    /// Traces name the hash of the last entry about keys.
    const READS_HASHES: bool = true;

    fn decide(&self, command: LogCommand, context: &Context) -> Result<Vec<Act>, Refusal> {
        let keys_head = self.keys_head();
        let draft = match command {
            LogCommand::Open { origin, root, software } => Draft::new(
                EventType::LogOpened,
                json!({ "kind": "log", "origin": origin, "identity": root, "software": software }),
            ),
            LogCommand::AddKey(identity) => {
                self.admit_new_key(&identity)?;
                let payload = json!({ "identity": identity, "prev_key_event": keys_head });
                Draft::new(EventType::KeyAdded, payload)
            }
            LogCommand::RotateKey { key_id, identity, held } => {
                self.all_held(&held)?;
                self.admit_retirement(&key_id)?;
                let payload = json!({
                    "identity": identity,
                    "rotated_key_id": key_id,
                    "rotated_at": self.end_of_key(context, &held),
                    "prev_key_event": keys_head,
                });
                Draft::new(EventType::KeyRotated, payload)
            }
            LogCommand::RevokeKey { key_id, reason, held } => {
                self.all_held(&held)?;
                self.admit_retirement(&key_id)?;
                let payload = json!({
                    "key_id": key_id,
                    "reason": reason,
                    "revoked_at": self.end_of_key(context, &held),
                    "prev_key_event": keys_head,
                });
                Draft::new(EventType::KeyRevoked, payload)
            }
            LogCommand::OpenTrace { trace_id, kind, first_event_hash, keys_head: signed_under } => {
                // A first event that was signed before a key change and recorded after it would
                // not count: its trace is given up before anything else is written to it.
                if Some(signed_under) != self.keys_head {
                    return Err(Refusal::KeysChanged { trace_id });
                }
                let payload = json!({
                    "trace_id": trace_id,
                    "kind": kind,
                    "first_event_hash": first_event_hash,
                    "keys_head": keys_head,
                });
                Draft::new(EventType::TraceOpened, payload)
            }
            LogCommand::CheckpointTrace(extent) => {
                Draft::new(EventType::TraceCheckpointed, self.extent(&extent))
            }
            LogCommand::CloseTrace(extent, status) => {
                let mut payload = self.extent(&extent);
                if let Some(members) = payload.as_object_mut() {
                    members.insert("status".into(), json!(status.as_str()));
                }
                Draft::new(EventType::TraceClosed, payload)
            }
        };
        let by = if is_key_event(draft.event_type) { By::Root } else { By::Role(Role::Recorder) };
        Ok(vec![Act { by, draft }])
    }

    fn admit(&self, event: &Event) -> Result<(), Refusal> {
        let found = event.event_type;
        match (self.keys_head.is_none(), found == EventType::LogOpened) {
            (true, false) => return Err(Refusal::WrongFirstEvent { found }),
            (false, true) => return Err(Refusal::BeganAlready { found }),
            _ => {}
        }
        roles::admit(TraceKind::Log, event)?;
        self.admit_keys_head(event)?;
        self.admit_signer(event)?;
        self.admit_key_change(event)?;
        match found {
            EventType::LogOpened => admit_opening(event),
            EventType::TraceOpened | EventType::TraceCheckpointed | EventType::TraceClosed => {
                self.admit_trace(event)
            }
            _ => Ok(()),
        }
    }

    fn apply(&mut self, event: &Event) {
        let payload = |member: &str| event.payload.get(member).and_then(Value::as_str);
        let entry = event.seq.unwrap_or_default();
        match event.event_type {
            EventType::LogOpened => {
                self.origin = payload("origin").unwrap_or_default().to_owned();
                self.root_key_id = event.actor.key_id.clone();
                self.add_key(event);
            }
            EventType::KeyAdded => self.add_key(event),
            EventType::KeyRotated => {
                self.retire(payload("rotated_key_id"), event, KeyStatus::Rotated);
                self.add_key(event);
            }
            EventType::KeyRevoked => self.retire(payload("key_id"), event, KeyStatus::Revoked),
            EventType::TraceOpened => {
                let kind = payload("kind").and_then(TraceKind::parse);
                let first = payload("first_event_hash").and_then(|hash| hash.parse().ok());
                if let (Some(trace_id), Some(kind), Some(first_event_hash)) =
                    (payload("trace_id"), kind, first)
                {
                    let trace = OpenTrace { kind, first_event_hash, size: 1 };
                    self.open.open(entry, trace_id, trace);
                }
            }
            EventType::TraceCheckpointed => {
                let size = event.payload.get("size").and_then(Value::as_u64).unwrap_or(0);
                self.open.grow(entry, payload("trace_id").unwrap_or_default(), size);
            }
            EventType::TraceClosed => {
                self.open.close(entry, payload("trace_id").unwrap_or_default());
            }
            _ => {}
        }
        if is_key_event(event.event_type) {
            self.keys_head = Some(event.event_hash);
        }
        let told = payload("last_event_at").and_then(|text| text.parse().ok());
        self.latest = self.latest.max(Some(event.created_at)).max(told);
    }

    fn ended(&self) -> Option<TraceStatus> {
        None
    }

    fn recovered(&self, torn: &SetAside) -> Act {
        let mut payload = torn.payload();
        if let Some(members) = payload.as_object_mut() {
            members.insert("keys_head".into(), json!(self.keys_head()));
        }
        Act::by_recorder(Draft::new(EventType::SessionRecovered, payload))
    }
}

/// A log is named after its root, and the root is a key.
fn admit_opening(event: &Event) -> Result<(), Refusal> {
    let root = identity(event)?;
    LogState::usable(&root)?;
    let wanted = origin(&root.public_key.fingerprint());
    let found = text(event, "origin")?;
    if found == wanted {
        Ok(())
    } else {
        Err(Refusal::WrongOrigin { found: found.to_owned(), wanted })
    }
}

/// A key cannot end before the event that ends it.
fn admit_end(event: &Event, member: &'static str) -> Result<(), Refusal> {
    match text(event, member)?.parse::<Timestamp>() {
        Ok(at) if at >= event.created_at => Ok(()),
        _ => Err(Refusal::UnusablePayload { event: event.event_type, member }),
    }
}

impl LogState {
    fn add_key(&mut self, event: &Event) {
        if let Ok(identity) = identity(event) {
            self.keys.insert(identity.key_id.clone(), KnownKey { identity });
        }
    }

    fn retire(&mut self, key_id: Option<&str>, event: &Event, status: KeyStatus) {
        let Some(known) = key_id.and_then(|key_id| self.keys.get_mut(key_id)) else { return };
        let time = |name: &str| event.payload.get(name).and_then(Value::as_str)?.parse().ok();
        let at = time("revoked_at").or_else(|| time("rotated_at")).unwrap_or(event.created_at);
        known.identity.status = status;
        known.identity.updated_at = at;
        match status {
            KeyStatus::Revoked => {
                known.identity.revoked_at = Some(at);
                let reason = event.payload.get("reason").and_then(Value::as_str);
                known.identity.revoked_reason = reason.map(str::to_owned);
            }
            KeyStatus::Rotated => known.identity.rotated_at = Some(at),
            KeyStatus::Active => {}
        }
    }
}

fn text<'e>(event: &'e Event, member: &'static str) -> Result<&'e str, Refusal> {
    let found = event.payload.get(member).and_then(Value::as_str);
    found.ok_or(Refusal::UnusablePayload { event: event.event_type, member })
}

fn identity(event: &Event) -> Result<AgentIdentity, Refusal> {
    let member = "identity";
    event
        .payload
        .get(member)
        .and_then(|identity| serde_json::from_value(identity.clone()).ok())
        .ok_or(Refusal::UnusablePayload { event: event.event_type, member })
}
