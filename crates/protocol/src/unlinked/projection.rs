//! A session of schema 1.0 in the form of schema 1.1, with the links that were found.
//!
//! Derived and unsigned: it proves nothing, and no verifier takes it for a trace. The page on
//! projections among the formats describes it.

use countersign_format::event::{Event, EventRef, EventType, SCHEMA_VERSION, payload};
use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::shape::{Checker, Dialect, Need, Shape};
use serde_json::{Map, Value, json};

use super::UnlinkedSession;
use super::pairing::{self, Pair, Subject};
use super::words::{decision, text};
use crate::session::ProposalDecision;

/// What every projection says of itself.
const NOTE: &str = "derived and not signed: this proves nothing, verify the original";

/// The trace that is projected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// The schema of its first event.
    pub schema_version: String,
    /// Its id, as it is spelt there.
    pub trace_id: String,
    /// The hash of its last event.
    pub head: Hash,
    /// How many events it has.
    pub events: u64,
}

/// Makes a projection, event by event.
#[derive(Debug, Clone)]
pub struct Projection {
    session: UnlinkedSession,
    trace_id: String,
    head: Hash,
}

/// What a projected event has in its payload, and how it came there.
#[derive(Default)]
struct Findings {
    /// Members that the original does not have.
    members: Map<String, Value>,
    /// Names of those that were concluded rather than read.
    inferred: Vec<&'static str>,
}

impl Findings {
    fn add(&mut self, name: &'static str, value: Value, stated: bool) {
        self.members.insert(name.to_owned(), value);
        if !stated {
            self.inferred.push(name);
        }
    }
}

impl Projection {
    /// Begins a projection: its first line, which says what it is.
    #[must_use]
    pub fn begin(original: &Original) -> (Self, Value) {
        let header = json!({
            "derived_from": {
                "count": original.events,
                "head": original.head,
                "schema_version": original.schema_version,
                "trace_id": original.trace_id,
            },
            "document": "projection",
            "note": NOTE,
            "schema_version": SCHEMA_VERSION,
        });
        let trace_id = original.trace_id.to_ascii_lowercase();
        // The first event follows this line, so that without it the chain has no beginning.
        let head = Hash::of(&json::to_bytes(&header));
        (Self { session: UnlinkedSession::default(), trace_id, head }, header)
    }

    /// The trace of which a document is a projection, or a line of one.
    #[must_use]
    pub fn original_of(document: &Value) -> Option<&str> {
        let header = document.get("document").and_then(Value::as_str) == Some("projection");
        let trace_id = if header {
            document.pointer("/derived_from/trace_id")
        } else {
            document.get("original_line_hash").and_then(|_| document.get("trace_id"))
        };
        trace_id.and_then(Value::as_str)
    }

    /// The next event, which stands in a line of this hash.
    pub fn event(&mut self, event: &Event, line_hash: Hash) -> Value {
        let (event_type, found) = self.find(event);
        let inferred = found.inferred.clone();
        let (payload, unstated) = payload_of(event, event_type, found);
        let mut members = event.unknown.clone();
        let mut put = |name: &str, value: Value| {
            members.insert(name.to_owned(), value);
        };
        let artifacts = event.artifacts.iter().map(|artifact| {
            let mut artifact = artifact.clone();
            artifact.producer_event_id.make_ascii_lowercase();
            json!(artifact)
        });
        put("actor", json!(event.actor));
        put("artifacts", artifacts.collect());
        put("claims", event.claims.iter().map(|id| id.to_ascii_lowercase()).collect());
        put("created_at", json!(event.created_at));
        put("event_id", event.event_id.to_ascii_lowercase().into());
        put("event_type", event_type.as_str().into());
        put("payload_hash", json!(Hash::of(&json::to_bytes(&payload))));
        put("payload", payload);
        put("payload_type", event_type.as_str().into());
        put("prev_event_hash", json!(self.head));
        if let Some(raw_clock) = event.raw_clock {
            put("raw_clock", json!(raw_clock));
        }
        put("schema_version", SCHEMA_VERSION.into());
        put("seq", self.session.events.into());
        put("trace_id", self.trace_id.clone().into());
        put("inferred", json!(inferred));
        put("unstated", json!(unstated));
        put("original_event_hash", json!(event.event_hash));
        put("original_event_id", event.event_id.clone().into());
        put("original_event_type", event.event_type.as_str().into());
        put("original_line_hash", json!(line_hash));
        self.head = Hash::of(&json::to_bytes(&Value::Object(members.clone())));
        members.insert("event_hash".to_owned(), json!(self.head));
        self.session.apply(event);
        Value::Object(members)
    }

    /// What the event belongs to, and what else schema 1.1 would have it say.
    fn find(&self, event: &Event) -> (EventType, Findings) {
        use EventType as T;
        let mut found = Findings::default();
        let session = &self.session;
        match event.event_type {
            T::ProposalReviewed => return self.find_review(event),
            T::ToolIntentSigned => {
                let pair = pairing::proposal(session, event).ok();
                self.link(&mut found, "proposal", pair);
            }
            T::ToolExecutionStarted => {
                let pair = pairing::intent(session, event).ok();
                self.link(&mut found, "intent", pair);
            }
            T::ToolExecutionCompleted | T::ToolExecutionFailed => {
                let pair = pairing::execution(session, event).ok();
                self.link(&mut found, "execution", pair);
                if event.event_type == T::ToolExecutionFailed && !says(event, "outcome") {
                    found.add("outcome", "failed".into(), false);
                }
            }
            T::ClaimIssued => {
                if let Ok(pair) = pairing::executions(session, event) {
                    let places = pair.to.iter().filter_map(|&place| self.reference(place));
                    found.add("executions", places.collect(), pair.stated);
                }
                if let (false, Some(id)) = (says(event, "claim_id"), event.claims.first()) {
                    found.add("claim_id", id.as_str().into(), false);
                }
            }
            T::ClaimChallenged => {
                if let Ok(pair) = pairing::challenged(session, event) {
                    let claim = session.claims.get(&pair.to).map(|claim| lowered(&claim.at));
                    found.add("claim", claim.unwrap_or_default(), pair.stated);
                    found.add("challenged_claim_id", pair.to.into(), pair.stated);
                }
            }
            T::FinalStatementSigned => {
                let claims = pairing::claims(session, event);
                found.add("claims", claims.iter().map(lowered).collect(), true);
            }
            T::VerificationRunCompleted => {
                if let Some(run) = &session.run {
                    found.add("run", lowered(run), false);
                }
            }
            _ => {}
        }
        (event.event_type, found)
    }

    /// Schema 1.1 has a type of its own for reviews of intents.
    fn find_review(&self, event: &Event) -> (EventType, Findings) {
        let mut found = Findings::default();
        let decided = decision(event);
        let Ok(pair) = pairing::subject(&self.session, event) else {
            return (event.event_type, found);
        };
        let (event_type, place, word) = match pair.to {
            Subject::Proposal(place) => {
                (EventType::ProposalReviewed, place, decided.map(ProposalDecision::as_str))
            }
            Subject::Intent(place) => {
                let word = match decided {
                    Some(ProposalDecision::Approved) => Some("approved"),
                    Some(ProposalDecision::Rejected) => Some("blocked"),
                    // An intent is approved or it is not.
                    Some(ProposalDecision::Conditional) | None => None,
                };
                (EventType::ToolIntentReviewed, place, word)
            }
        };
        self.link(&mut found, "subject", Some(Pair { to: place, stated: pair.stated }));
        if let Some(word) = word {
            found.add("decision", word.into(), text(event, &["decision"]) == Some(word));
        }
        (event_type, found)
    }

    fn link(&self, found: &mut Findings, name: &'static str, pair: Option<Pair<u64>>) {
        let Some(pair) = pair else { return };
        if let Some(reference) = self.reference(pair.to) {
            found.add(name, reference, pair.stated);
        }
    }

    /// The event at `place`, as others refer to it.
    fn reference(&self, place: u64) -> Option<Value> {
        let session = &self.session;
        let id = (session.proposals.get(&place).map(|it| &it.event_id))
            .or_else(|| session.intents.get(&place).map(|it| &it.event_id))
            .or_else(|| session.running.get(&place).map(|it| &it.event_id))
            .or_else(|| session.ended.get(&place).map(|it| &it.event_id))?;
        Some(lowered(&EventRef { event_id: id.clone(), seq: place }))
    }
}

fn says(event: &Event, name: &str) -> bool {
    event.payload.get(name).is_some()
}

fn lowered(reference: &EventRef) -> Value {
    json!({ "event_id": reference.event_id.to_ascii_lowercase(), "seq": reference.seq })
}

/// The payload in the form of schema 1.1, and the members that it should have and has not.
fn payload_of(event: &Event, event_type: EventType, found: Findings) -> (Value, Vec<&'static str>) {
    let mut payload = event.payload.as_object().cloned().unwrap_or_default();
    if event.payload.is_null() {
        payload.insert("payload_artifact".to_owned(), json!(event.payload_hash));
    }
    let mut misfits = Map::new();
    for (name, value) in found.members {
        // What the original has under this name is not lost.
        if let Some(other) = payload.insert(name.clone(), value.clone()).filter(|it| *it != value) {
            misfits.insert(name, other);
        }
    }
    let mut unstated = Vec::new();
    for field in payload::fields(event_type).fields {
        if let Some(mut member) = payload.remove(field.name) {
            let original = member.clone();
            lower(&field.shape, &mut member);
            let mut checker = Checker::new(Dialect::V1_1);
            checker.check(&field.shape, &member);
            if checker.into_faults().is_empty() {
                payload.insert(field.name.to_owned(), member);
                continue;
            }
            misfits.entry(field.name).or_insert(original);
        }
        if field.need != Need::Optional {
            unstated.push(field.name);
        }
    }
    if !misfits.is_empty() {
        payload.insert("original_members".to_owned(), Value::Object(misfits));
    }
    (Value::Object(payload), unstated)
}

/// Puts ids into lower case, where the table has some.
fn lower(shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Ulid | Shape::ClaimId, Value::String(id)) => id.make_ascii_lowercase(),
        (Shape::List(inner), Value::Array(elements)) => {
            elements.iter_mut().for_each(|element| lower(inner, element));
        }
        (Shape::Nullable(inner), value) => lower(inner, value),
        (Shape::Object(fields), Value::Object(members)) => {
            for field in fields.fields {
                if let Some(member) = members.get_mut(field.name) {
                    lower(&field.shape, member);
                }
            }
        }
        _ => {}
    }
}
