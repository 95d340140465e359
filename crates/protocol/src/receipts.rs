//! Receipts of actions: what an intent says of the action that may come of it, how its reviews
//! leave it, and the chain that receipts form within a trace.
//!
//! A receipt's place is that of its event. The hash is the twelve-field form; what it covers beside
//! the action itself is decided by those who end an execution.

use countersign_format::event::{ArtifactDescriptor, Event, EventType};
use countersign_format::hash::Hash;
use countersign_format::json::INTEGER_MAX;
use countersign_format::receipt::{self, ActionType, GateDecision, PolicyVerdict};
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::parts::{member, object};
use crate::{Refusal, ReviewDecision};

/// Characters of a description that a receipt repeats; the intent has all of it.
pub(crate) const DESCRIPTION_CHARS_MAX: usize = 500;
/// Paths that a receipt repeats; the intent has all of them.
const PATHS_MAX: usize = 100;

/// How the ids of actions begin.
const ID_PREFIX: &str = "act_";

/// What is known of an action before it takes its place in the chain.
#[derive(Debug, Clone)]
pub struct ActionFacts {
    /// What sort of action it is.
    pub action_type: ActionType,
    /// Hash of what led to it.
    pub instruction_hash: Hash,
    /// Hash of the stored input.
    pub input_hash: Hash,
    /// Hash of the stored output, or of nothing.
    pub output_hash: Hash,
    /// How likely the gate took it to fail.
    pub gate_score: Option<f64>,
    /// What the gate said, and what came of that.
    pub gate_decision: Option<GateDecision>,
    /// Whether the gate's word was binding.
    pub policy_verdict: PolicyVerdict,
    /// Whether it did what it was meant to do.
    pub success: bool,
    /// How long it took.
    pub duration_ms: u64,
    /// What else is worth showing; outside of the hash.
    pub metadata: Map<String, Value>,
    /// The action before it.
    pub parent: Parent,
}

/// The action before an action.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Parent {
    /// The last one of the trace.
    #[default]
    Last,
    /// The one that the caller names, which must be the last one.
    Given {
        /// Its id; none for the first action.
        action_id: Option<String>,
        /// Its receipt hash; none for the first action.
        receipt_hash: Option<Hash>,
    },
}

/// The last receipt of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastReceipt {
    /// The id of its action.
    pub action_id: String,
    /// Its hash.
    pub receipt_hash: Hash,
}

/// Where the chain of a trace's receipts stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptHead {
    /// How many there are.
    pub count: u64,
    /// The last of them.
    pub last: Option<LastReceipt>,
}

impl ReceiptHead {
    /// The id of the next action.
    #[must_use]
    pub fn next_id(&self) -> String {
        format!("{ID_PREFIX}{:04}", self.count.saturating_add(1))
    }

    /// The head of a chain that ends in this receipt; none if the id is not one of ours.
    #[must_use]
    pub fn at(action_id: &str, receipt_hash: Hash) -> Option<Self> {
        let count = action_id.strip_prefix(ID_PREFIX)?.parse().ok()?;
        let last = LastReceipt { action_id: action_id.to_owned(), receipt_hash };
        Some(Self { count, last: Some(last) })
    }

    /// The action with its place in the chain, as it stands in an event, and its receipt hash.
    ///
    /// # Errors
    /// The parent that was given is not the last action.
    pub fn link(&self, facts: ActionFacts, now: Timestamp) -> Result<(Value, Hash), Refusal> {
        let last = self.last.as_ref();
        let (parent_id, parent_hash) =
            (last.map(|last| last.action_id.clone()), last.map(|last| last.receipt_hash));
        if let Parent::Given { action_id, receipt_hash } = &facts.parent
            && (*action_id != parent_id || *receipt_hash != parent_hash)
        {
            let named =
                |hash: Option<Hash>| hash.map_or_else(|| "none".to_owned(), |it| it.to_string());
            return Err(Refusal::OtherParent {
                expected: named(parent_hash),
                given: named(*receipt_hash),
            });
        }
        // Canonical JSON has no negative zero, and no number that is not finite.
        let fits = |score: f64| score.is_finite() && (score != 0.0 || score.is_sign_positive());
        if !facts.gate_score.is_none_or(fits) {
            return Err(Refusal::ActionUnfit);
        }
        let millis = i64::try_from(facts.duration_ms).unwrap_or(INTEGER_MAX).min(INTEGER_MAX);
        let value = object([
            ("action_id", self.next_id().into()),
            ("action_type", json!(facts.action_type.as_str())),
            ("instruction_hash", json!(facts.instruction_hash)),
            ("input_hash", json!(facts.input_hash)),
            ("output_hash", json!(facts.output_hash)),
            ("parent_action_id", parent_id.into()),
            ("parent_receipt_hash", json!(parent_hash)),
            ("gate_score", json!(facts.gate_score)),
            ("gate_decision", json!(facts.gate_decision.map(GateDecision::as_str))),
            ("policy_verdict", json!(facts.policy_verdict.as_str())),
            ("success", json!(facts.success)),
            ("duration_ms", json!(millis)),
            ("timestamp", json!(now)),
            ("metadata", Value::Object(facts.metadata)),
        ]);
        let receipt = receipt::recompute(&value).ok_or(Refusal::ActionUnfit)?;
        Ok((value, receipt))
    }

    /// Takes an event in, if it carries a receipt.
    pub fn apply(&mut self, event: &Event) {
        if !carries_receipt(event) {
            return;
        }
        let Ok(receipt_hash) = member::<Hash>(event, "receipt_hash") else { return };
        let action_id = event.payload.pointer("/action/action_id").and_then(Value::as_str);
        let Some(action_id) = action_id else { return };
        self.count = self.count.saturating_add(1);
        self.last = Some(LastReceipt { action_id: action_id.to_owned(), receipt_hash });
    }
}

/// Puts an action and its receipt into a payload.
///
/// # Errors
/// It has no place in the chain.
pub(crate) fn attach(
    payload: &mut Value,
    head: &ReceiptHead,
    facts: ActionFacts,
    now: Timestamp,
) -> Result<(), Refusal> {
    let (action, receipt) = head.link(facts, now)?;
    if let Value::Object(members) = payload {
        members.insert("action".to_owned(), action);
        members.insert("receipt_hash".to_owned(), json!(receipt));
    }
    Ok(())
}

/// How an execution is tied to a verdict of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gating {
    /// By the token that came with the verdict.
    Token,
    /// By equal type and files: the oldest verdict that was not used yet.
    Inferred,
    /// Not at all.
    Ungated,
}

impl Gating {
    /// Its name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Inferred => "inferred",
            Self::Ungated => "ungated",
        }
    }
}

/// What the reviews of an intent come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateStanding {
    /// The name of the decision in receipts.
    pub decision: String,
    /// How likely the gate took the action to fail.
    pub score: Option<f64>,
    /// Whether its word was binding.
    pub enforced: bool,
}

/// What an intent says of the action that may come of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntendedAction {
    /// The name of what sort of action it is.
    pub action_type: String,
    /// The tool.
    pub tool_name: String,
    /// What it is for, cut to what a receipt repeats.
    pub description: String,
    /// Files that it names.
    pub paths: Vec<String>,
    /// Hash of what it is for.
    pub instruction: Hash,
    /// Hash of the stored input.
    pub input: Hash,
    /// What was said of it, if anything was.
    pub standing: Option<GateStanding>,
}

impl IntendedAction {
    /// What an intent says.
    #[must_use]
    pub fn of(intent: &Event) -> Self {
        Self::from_payload(&intent.payload)
    }

    /// What an intent with this payload would say.
    #[must_use]
    pub fn from_payload(payload: &Value) -> Self {
        let text = |name: &str| payload.get(name).and_then(Value::as_str);
        let justification = text("justification").unwrap_or_default();
        let paths = payload.get("paths").and_then(Value::as_array).into_iter().flatten();
        let paths = paths.filter_map(Value::as_str);
        let input = text("input_artifact").or_else(|| text("normalized_input_hash"));
        let input = input.and_then(|text| text.parse().ok());
        Self {
            action_type: text("action_type").unwrap_or(ActionType::ToolCall.as_str()).to_owned(),
            tool_name: text("tool_name").unwrap_or_default().to_owned(),
            description: justification.chars().take(DESCRIPTION_CHARS_MAX).collect(),
            paths: paths.map(str::to_owned).collect(),
            instruction: Hash::of(justification.as_bytes()),
            input: input.unwrap_or(Hash::GENESIS),
            standing: None,
        }
    }

    /// Takes a review of the intent in.
    pub fn review(&mut self, review: &Event) {
        let Ok(decision) = member::<ReviewDecision>(review, "decision") else { return };
        let before = self.standing.take();
        let gate = review.payload.get("gate");
        let enforced = gate.and_then(|gate| gate.get("enforced")).and_then(Value::as_bool);
        let said = gate.and_then(|gate| gate.get("decision")).and_then(Value::as_str);
        let score = gate.and_then(|gate| gate.get("score")).and_then(Value::as_f64);
        // What a gate that binds nobody said is told as it said it.
        let decision = match (decision, enforced, said) {
            (_, Some(false), Some("deny")) | (ReviewDecision::Blocked, _, _) => GateDecision::Skip,
            (_, Some(false), Some("ask")) | (ReviewDecision::Asked, _, _) => {
                GateDecision::HumanReview
            }
            (ReviewDecision::Approved, _, _) if review.actor.role == Role::Operator => {
                GateDecision::HumanApproved
            }
            (ReviewDecision::Approved, _, _) => GateDecision::Pass,
        };
        self.standing = Some(GateStanding {
            decision: decision.as_str().to_owned(),
            score: score.or(before.as_ref().and_then(|before| before.score)),
            enforced: enforced.or(before.map(|before| before.enforced)).unwrap_or(true),
        });
    }

    /// The action that came of it, for its receipt.
    #[must_use]
    pub fn facts(&self, how: ActionEnd) -> ActionFacts {
        let mut metadata = Map::with_capacity(4 + how.metadata.len());
        metadata.insert("tool_name".into(), json!(self.tool_name));
        metadata.insert("description".into(), json!(self.description));
        metadata.insert(
            "files_affected".into(),
            json!(self.paths.get(..PATHS_MAX).unwrap_or(&self.paths)),
        );
        if let Some(gating) = how.gating {
            metadata.insert("gating".into(), json!(gating.as_str()));
        }
        metadata.extend(how.metadata);
        let standing = self.standing.as_ref();
        let enforced = standing.is_some_and(|standing| standing.enforced);
        ActionFacts {
            action_type: ActionType::from_name(&self.action_type).unwrap_or(ActionType::Unknown),
            instruction_hash: self.instruction,
            input_hash: self.input,
            output_hash: how.output,
            gate_score: standing.and_then(|standing| standing.score),
            gate_decision: standing.and_then(|it| GateDecision::from_name(&it.decision)),
            policy_verdict: match enforced {
                true => PolicyVerdict::PolicyEnforced,
                false => PolicyVerdict::ProofOnly,
            },
            success: how.success,
            duration_ms: how.duration_ms,
            metadata,
            parent: how.parent,
        }
    }

    /// The receipt of an action that was refused: nothing came out, and it is over.
    #[must_use]
    pub fn refused(&self) -> ActionFacts {
        let mut facts = self.facts(ActionEnd::nothing());
        facts.gate_decision = Some(GateDecision::Skip);
        facts.policy_verdict = PolicyVerdict::PolicyEnforced;
        facts
    }
}

/// How an action ended.
#[derive(Debug, Clone)]
pub struct ActionEnd {
    /// Hash of what came out.
    pub output: Hash,
    /// Whether it did what it was meant to do.
    pub success: bool,
    /// How long it took.
    pub duration_ms: u64,
    /// How it is tied to the gate's verdict.
    pub gating: Option<Gating>,
    /// What else is worth showing.
    pub metadata: Map<String, Value>,
    /// The action before it.
    pub parent: Parent,
}

impl ActionEnd {
    /// Nothing happened.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            output: Hash::of(b""),
            success: false,
            duration_ms: 0,
            gating: None,
            metadata: Map::new(),
            parent: Parent::Last,
        }
    }
}

/// The hash that a receipt has for what came out: what was printed, else the first artifact, else
/// nothing.
#[must_use]
pub fn output_hash(stdout: Option<&ArtifactDescriptor>, artifacts: &[ArtifactDescriptor]) -> Hash {
    let first = stdout.or(artifacts.first());
    first.map_or_else(|| Hash::of(b""), |artifact| artifact.artifact_hash)
}

/// Whether events of this type end an execution, and so carry a receipt.
#[must_use]
pub const fn ends_execution(event_type: EventType) -> bool {
    matches!(event_type, EventType::ToolExecutionCompleted | EventType::ToolExecutionFailed)
}

/// Whether an event ends an action, by its end or by a refusal: then it carries a receipt.
#[must_use]
pub fn carries_receipt(event: &Event) -> bool {
    let blocks = || event.payload.get("decision").and_then(Value::as_str) == Some("blocked");
    ends_execution(event.event_type)
        || (event.event_type == EventType::ToolIntentReviewed && blocks())
}

#[cfg(test)]
mod tests {
    use countersign_format::receipt::{AgentAction, ReceiptForm};

    use super::*;

    fn facts(gate_score: Option<f64>, parent: Parent) -> ActionFacts {
        let intent = json!({
            "tool_name": "écrire", "justification": "to greet 🌍", "action_type": "file_write",
            "normalized_input_hash": Hash::of(b"input"), "paths": ["a", "b"],
        });
        let how = ActionEnd { success: true, duration_ms: 7, parent, ..ActionEnd::nothing() };
        ActionFacts { gate_score, ..IntendedAction::from_payload(&intent).facts(how) }
    }

    #[test]
    fn a_receipt_is_that_of_its_action_and_names_the_one_before() {
        let mut head = ReceiptHead::default();
        let mut parent = (Value::Null, Value::Null);
        for (number, score) in [None, Some(0.0), Some(1.0), Some(1e-7)].into_iter().enumerate() {
            let now = Timestamp::from_millis(1_000);
            let (action, receipt) = head.link(facts(score, Parent::Last), now).unwrap();
            let read = AgentAction::from_json(&action).unwrap();
            assert_eq!(read.receipt_hash(ReceiptForm::Twelve), receipt);
            assert_eq!(action["action_id"], format!("act_{:04}", number + 1));
            let named = |name: &str| action[name].clone();
            assert_eq!((named("parent_action_id"), named("parent_receipt_hash")), parent);
            parent = (named("action_id"), json!(receipt));
            head = ReceiptHead::at(action["action_id"].as_str().unwrap(), receipt).unwrap();
        }
    }

    #[test]
    fn a_parent_that_is_not_the_last_and_a_score_that_no_event_can_hold_are_refused() {
        let head = ReceiptHead::default();
        let now = Timestamp::from_millis(1_000);
        for score in [f64::NAN, f64::INFINITY, -0.0] {
            let refused = head.link(facts(Some(score), Parent::Last), now);
            assert!(matches!(refused, Err(Refusal::ActionUnfit)), "{score}");
        }
        let receipt_hash = Some(Hash::of(b"another"));
        let other = Parent::Given { action_id: Some("act_0001".to_owned()), receipt_hash };
        let refused = head.link(facts(None, other), now);
        assert!(matches!(refused, Err(Refusal::OtherParent { .. })));
        let none = Parent::Given { action_id: None, receipt_hash: None };
        assert!(head.link(facts(None, none), now).is_ok());
    }
}
