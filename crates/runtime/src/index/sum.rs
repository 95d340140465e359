//! What the events of a trace come to, one event at a time.
//!
//! Comes to the same as [`crate::inspect::summarise`], but can be put away and continued. Distinct
//! artifacts are counted by the caller, who has a place to keep them.

use countersign_format::event::{Event, EventType, SCHEMA_VERSION, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::{Participant, TraceSession, TraceStatus};
use countersign_protocol::{ending, kind_of};
use serde_json::{Map, Value};

/// A trace up to some event.
#[derive(Debug, Clone)]
pub(super) struct TraceSum {
    pub(super) session: TraceSession,
    pub(super) title: Option<String>,
    pub(super) last_at: Timestamp,
}

impl TraceSum {
    /// What is known before the first event is counted.
    pub(super) fn begin(first: &Event) -> Self {
        let session = TraceSession {
            schema_version: SCHEMA_VERSION.to_owned(),
            trace_id: first.trace_id.clone(),
            kind: kind_of(first).unwrap_or(TraceKind::Session),
            task_id: text(&first.payload, "/task_id"),
            started_at: first.created_at,
            ended_at: None,
            status: TraceStatus::Running,
            participants: Vec::new(),
            head_event_hash: Hash::GENESIS,
            event_count: 0,
            artifact_count: 0,
            unknown: Map::new(),
        };
        Self { session, title: title(&first.payload), last_at: first.created_at }
    }

    /// Counts an event.
    pub(super) fn push(&mut self, event: &Event) {
        let session = &mut self.session;
        session.event_count += 1;
        session.head_event_hash = event.event_hash;
        self.last_at = event.created_at;
        // The first end stands, whatever another audit says later.
        if session.ended_at.is_none()
            && let Some(status) = ending(session.kind, event)
        {
            session.status = status;
            session.ended_at = Some(event.created_at);
        }
        if matches!(event.event_type, EventType::FinalStatementSigned | EventType::FlowFinished)
            && let Some(outcome) = event.payload.get("outcome")
        {
            session.unknown.insert("outcome".into(), outcome.clone());
        }
        let agent = (event.actor.agent_id.as_str(), event.actor.role);
        let known =
            session.participants.binary_search_by(|it| (it.agent_id.as_str(), it.role).cmp(&agent));
        if let Err(place) = known {
            let (agent_id, role) = (event.actor.agent_id.clone(), event.actor.role);
            session.participants.insert(place, Participant { agent_id, role });
        }
    }
}

impl TraceSum {
    /// What a search looks in.
    pub(super) fn words(&self) -> String {
        let session = &self.session;
        let agents = session.participants.iter().map(|it| it.agent_id.as_str());
        let words: Vec<&str> = [self.title.as_deref(), session.task_id.as_deref()]
            .into_iter()
            .flatten()
            .chain([session.trace_id.as_str()])
            .chain(agents)
            .collect();
        words.join("\n").to_lowercase()
    }
}

/// What people would call a trace, by its first event: its task, its title, its aim, else for whom
/// it was recorded.
fn title(first: &Value) -> Option<String> {
    ["/task_id", "/title", "/objective", "/workflow", "/on_behalf_of/agent_id"]
        .into_iter()
        .find_map(|place| text(first, place))
}

fn text(payload: &Value, place: &str) -> Option<String> {
    payload.pointer(place).and_then(Value::as_str).map(str::to_owned)
}
