//! Which events are decisions, who made them and how they came out.
//!
//! A review of an intent, a review of a plan, an answer to a question of a flow and the word that
//! lets a blocked item go on. Told from the event, and from the flow's words for no; what it was
//! about is the caller's to add.

use countersign_format::event::{Event, EventType};
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_protocol::flow::WordsForNo;
use serde::Serialize;
use serde_json::Value;

use super::action::DecidedAction;

/// Reasons of one decision that are kept, and characters of each.
const REASONS_MAX: usize = 10;
const REASON_CHARACTERS_MAX: usize = 1_000;

/// How a decision came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ruling {
    /// It may happen.
    Allowed,
    /// It may not.
    Denied,
    /// A person is to say.
    Asked,
}

impl Ruling {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Asked => "asked",
        }
    }
}

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decider {
    /// A person, with the operator's key or at a prompt.
    Person,
    /// The gate.
    Gate,
    /// The critic of a session.
    Critic,
    /// The recorder, by a rule: nobody answered in time, or something was out of order.
    Rule,
}

impl Decider {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Gate => "gate",
            Self::Critic => "critic",
            Self::Rule => "rule",
        }
    }
}

/// A decision of the period.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PeriodDecision {
    /// When.
    pub at: Timestamp,
    /// The trace.
    pub trace_id: String,
    /// The event.
    pub event_id: String,
    /// Its place.
    pub seq: Option<u64>,
    /// How it came out.
    pub ruling: Ruling,
    /// Who decided.
    pub by: Decider,
    /// The agent that recorded it, and its role.
    pub agent_id: String,
    /// The role.
    pub role: Role,
    /// By which channel a person answered; none if it is not stated, or nobody did.
    pub channel: Option<String>,
    /// Why.
    pub reasons: Vec<String>,
    /// False where the gate only watched, so that what it denied could happen all the same.
    pub enforced: bool,
    /// What it was about.
    pub action: DecidedAction,
}

/// A decision as its event tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeardDecision {
    pub(crate) ruling: Ruling,
    pub(crate) by: Decider,
    pub(crate) channel: Option<String>,
    pub(crate) reasons: Vec<String>,
    pub(crate) enforced: bool,
    /// The place of the event that it is about.
    pub(crate) subject: Option<u64>,
}

/// The decision that `event` records, if it records one.
pub(crate) fn heard(event: &Event, words_for_no: &WordsForNo) -> Option<HeardDecision> {
    let text = |name: &str| event.payload.get(name).and_then(Value::as_str);
    let place = |name: &str| event.payload.get(name)?.get("seq")?.as_u64();
    let channel = text("channel").map(str::to_owned);
    match event.event_type {
        EventType::ToolIntentReviewed => Some(intent_review(event, channel, place("subject"))),
        EventType::ProposalReviewed => {
            let ruling = match text("decision")? {
                "rejected" => Ruling::Denied,
                _ => Ruling::Allowed,
            };
            Some(HeardDecision {
                ruling,
                by: by(event, false),
                channel,
                reasons: one_reason(text("rationale")),
                enforced: true,
                subject: place("subject"),
            })
        }
        EventType::AnswerGiven => {
            let no = words_for_no.is_no(event);
            let ruling = if no { Ruling::Denied } else { Ruling::Allowed };
            let answer = answer(event.payload.get("answer")?);
            let late = channel.as_deref() == Some("deadline");
            let by = if late { Decider::Rule } else { by(event, false) };
            let mut reasons = vec![short(&answer)];
            reasons.extend(one_reason(text("reason")));
            if late {
                reasons.push("nobody answered in time".to_owned());
            }
            let channel = channel.filter(|_| !late);
            Some(HeardDecision {
                ruling,
                by,
                channel,
                reasons,
                enforced: true,
                subject: place("question"),
            })
        }
        EventType::WorkUnblocked => Some(HeardDecision {
            ruling: Ruling::Allowed,
            by: by(event, false),
            channel,
            reasons: one_reason(text("reason")),
            enforced: true,
            subject: None,
        }),
        _ => None,
    }
}

fn intent_review(event: &Event, channel: Option<String>, subject: Option<u64>) -> HeardDecision {
    let decision = event.payload.get("decision").and_then(Value::as_str);
    let gate = event.payload.get("gate").filter(|gate| gate.is_object());
    let said = gate.and_then(|gate| gate.get("decision")).and_then(Value::as_str);
    let enforced = gate.and_then(|gate| gate.get("enforced")).and_then(Value::as_bool);
    let only_watched = enforced == Some(false) && said == Some("deny");
    let ruling = match decision {
        // What the gate would have refused is told as refused, with the remark that it was not.
        Some("approved") if only_watched => Ruling::Denied,
        Some("approved") => Ruling::Allowed,
        Some("asked") => Ruling::Asked,
        _ => Ruling::Denied,
    };
    let reasons = event.payload.get("reasons").and_then(Value::as_array);
    let reasons = reasons.into_iter().flatten().filter_map(Value::as_str);
    HeardDecision {
        ruling,
        by: match (by(event, gate.is_some()), said, decision) {
            // A critic signs what the gate wanted as well.
            (Decider::Critic, Some("ask"), Some("asked"))
            | (Decider::Critic, Some("deny"), Some("blocked")) => Decider::Gate,
            (by, ..) => by,
        },
        channel,
        reasons: reasons.take(REASONS_MAX).map(short).collect(),
        enforced: !(only_watched && decision == Some("approved")),
        subject,
    }
}

const fn by(event: &Event, gate: bool) -> Decider {
    match event.actor.role {
        Role::Operator => Decider::Person,
        Role::Critic => Decider::Critic,
        _ if gate => Decider::Gate,
        _ => Decider::Rule,
    }
}

/// The words of an answer to a flow.
fn answer(answer: &Value) -> String {
    match (answer, answer.get("decision").and_then(Value::as_str)) {
        (Value::Null, _) => "no answer".to_owned(),
        (Value::Bool(false), _) => "no".to_owned(),
        (Value::Bool(true), _) => "yes".to_owned(),
        (_, Some("stop")) => "stop".to_owned(),
        (_, Some("continue")) => "go on".to_owned(),
        (_, Some("retry")) => {
            let words = answer.get("answer").map(words).unwrap_or_default();
            format!("again: {words}")
        }
        (other, _) => words(other),
    }
}

fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn one_reason(reason: Option<&str>) -> Vec<String> {
    reason.filter(|reason| !reason.is_empty()).map(short).into_iter().collect()
}

fn short(reason: &str) -> String {
    super::action::cut(reason, REASON_CHARACTERS_MAX)
}
