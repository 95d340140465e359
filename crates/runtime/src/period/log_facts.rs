//! What the workspace log tells: which traces there are, how far they came, and what became of keys.

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use serde_json::Value;

use super::trace_facts::{recovered, removed};
use super::{KeyChange, KeyChangeKind, Newest, Period, RecoveredTail, RemovedArtifact};

/// A trace as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoggedTrace {
    pub(super) kind: Option<TraceKind>,
    /// Events that the log knows of.
    pub(super) size: u64,
    /// The first entry about it.
    pub(super) first_at: Timestamp,
    /// The last that an entry tells of it.
    pub(super) last_at: Timestamp,
    /// Whether it has ended.
    pub(super) closed: bool,
}

/// Everything that is taken from the log.
#[derive(Debug, Default)]
pub(super) struct LogFacts {
    pub(super) entries: u64,
    pub(super) entries_in_period: u64,
    pub(super) traces: BTreeMap<String, LoggedTrace>,
    pub(super) keys: Newest<KeyChange>,
    pub(super) redactions: Newest<RemovedArtifact>,
    pub(super) recovered: Newest<RecoveredTail>,
    /// Whose a key is: later entries name the key alone.
    holders: BTreeMap<String, (String, Vec<Role>)>,
}

impl LogFacts {
    /// Takes in the next entry.
    pub(super) fn push(&mut self, event: &Event, period: &Period) {
        self.entries += 1;
        let inside = period.contains(event.created_at);
        self.entries_in_period += u64::from(inside);
        match event.event_type {
            EventType::TraceOpened | EventType::TraceCheckpointed | EventType::TraceClosed => {
                self.trace(event);
            }
            EventType::LogOpened
            | EventType::KeyAdded
            | EventType::KeyRotated
            | EventType::KeyRevoked => {
                if let Some(change) = self.key(event)
                    && inside
                {
                    self.keys.add(event.created_at, change);
                }
            }
            EventType::ArtifactRedacted if inside => {
                self.redactions.add(event.created_at, removed(event, "log"));
            }
            EventType::SessionRecovered if inside => {
                self.recovered.add(event.created_at, recovered(event, "log"));
            }
            _ => {}
        }
    }

    fn trace(&mut self, event: &Event) {
        let member = |name: &str| event.payload.get(name).and_then(Value::as_str);
        let Some(trace_id) = member("trace_id") else { return };
        let kind = member("kind").and_then(TraceKind::parse);
        let at = event.created_at;
        let last = member("last_event_at").and_then(|time| time.parse().ok()).unwrap_or(at);
        let size = event.payload.get("size").and_then(Value::as_u64).unwrap_or(1);
        let known = self.traces.entry(trace_id.to_owned()).or_insert(LoggedTrace {
            kind,
            size: 1,
            first_at: at,
            last_at: at,
            closed: false,
        });
        known.closed |= event.event_type == EventType::TraceClosed;
        known.kind = known.kind.or(kind);
        known.size = known.size.max(size);
        known.first_at = known.first_at.min(at);
        known.last_at = known.last_at.max(last).max(at);
    }

    fn key(&mut self, event: &Event) -> Option<KeyChange> {
        let text =
            |place: &str| event.payload.pointer(place).and_then(Value::as_str).map(str::to_owned);
        let change = match event.event_type {
            EventType::KeyRevoked => KeyChangeKind::Revoked,
            EventType::KeyRotated => KeyChangeKind::Rotated,
            _ => KeyChangeKind::Added,
        };
        let key_id = text("/identity/key_id").or_else(|| text("/key_id"))?;
        if let Some(agent_id) = text("/identity/agent_id") {
            let roles = event.payload.pointer("/identity/role_capabilities").cloned();
            let roles = roles.and_then(|roles| serde_json::from_value(roles).ok());
            self.holders.insert(key_id.clone(), (agent_id, roles.unwrap_or_default()));
        }
        let holder = self.holders.get(&key_id).cloned();
        let (agent_id, roles) = holder.map_or((None, Vec::new()), |(id, roles)| (Some(id), roles));
        Some(KeyChange {
            at: event.created_at,
            event_id: event.event_id.clone(),
            change,
            key_id,
            agent_id,
            roles,
            replaces: text("/rotated_key_id"),
            reason: text("/reason"),
        })
    }
}
