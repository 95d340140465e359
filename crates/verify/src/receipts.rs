//! Whether receipts are those of the actions that the events tell of, and form one chain.
//!
//! The hash of each was computed where its line was examined. What an intent and its reviews say of
//! an action comes from the rules that are replayed; behind the first line that failed nothing is
//! known of it, and each receipt is compared with its own event only.

use std::collections::BTreeSet;

use countersign_format::event::{Event, EventType};
use countersign_format::hash::Hash;
use countersign_format::receipt::{GateDecision, PolicyVerdict};
use countersign_format::report::FailureCode;
use countersign_format::time::Timestamp;
use countersign_protocol::receipts::{IntendedAction, LastReceipt, ReceiptHead, carries_receipt};
use serde_json::Value;

use crate::findings::{CheckId, Findings, Place};
use crate::replay::Replay;
use crate::walk::Walk;

/// Intents that are remembered because they act against a verdict; more are not told.
const DESPITE_MAX: usize = 10_000;

/// Whether what is known of the events up to here can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No line has failed.
    None,
    /// One before this has.
    Before,
    /// This one has; that was told.
    Here,
}

impl Doubt {
    /// What is to be thought of the line at `index`, which was just read.
    pub(crate) fn at(index: u64, walk: &Walk) -> Self {
        if walk.failed_at(index) {
            Self::Here
        } else if walk.failed_before(index) {
            Self::Before
        } else {
            Self::None
        }
    }
}

/// The receipts of a trace so far.
#[derive(Debug)]
pub(crate) struct Receipts {
    count: u64,
    /// Where the chain stands; nothing where that was lost with a receipt that is wrong or missing.
    head: Option<ReceiptHead>,
    /// Events without the receipt that they should have, and the first of them.
    bare: u64,
    first_bare: Place,
    /// Intents that act against a verdict and have not started.
    despite: BTreeSet<u64>,
}

impl Default for Receipts {
    fn default() -> Self {
        Self {
            count: 0,
            head: Some(ReceiptHead::default()),
            bare: 0,
            first_bare: Place::default(),
            despite: BTreeSet::new(),
        }
    }
}

/// A receipt and the event that carries it.
struct Carried<'a> {
    event: &'a Event,
    action: &'a Value,
    stated: Hash,
    computed: Option<Hash>,
    is_1_0: bool,
}

type Faults = Vec<(FailureCode, String)>;

impl Receipts {
    /// Takes in an event, before the rules do.
    pub(crate) fn step(
        &mut self,
        event: &Event,
        computed: Option<Hash>,
        index: u64,
        replay: Option<&Replay>,
        doubt: Doubt,
        findings: &mut Findings,
    ) {
        if doubt == Doubt::Here {
            return;
        }
        if doubt == Doubt::None {
            self.meet_despite(event, index, replay, findings);
        }
        let faults = match self.carried(event, computed, index) {
            Ok(None) => return,
            Ok(Some(carried)) => {
                self.count += 1;
                let known = (doubt == Doubt::None).then(|| replay.and_then(|it| behind(it, event)));
                let faults = self.faults(&carried, known);
                self.head = match faults.is_empty() {
                    true => self.after(&carried),
                    false => None,
                };
                faults
            }
            Err(fault) => vec![fault],
        };
        let Some((code, _)) = faults.first() else { return };
        let code = *code;
        self.head = None;
        let messages: Vec<String> = faults.into_iter().map(|(_, message)| message).collect();
        findings.fail(CheckId::ReceiptChain, code, &Place::of(event, index), messages.join("; "));
    }

    /// Says what is missing, and how much was looked at.
    pub(crate) fn finish(&self, findings: &mut Findings) {
        let check = CheckId::ReceiptChain;
        if self.count == 0 {
            findings.skip(check, "no receipts");
            return;
        }
        if self.bare > 0 {
            let message = match self.bare {
                1 => "the end of this action has no receipt, others have one".to_owned(),
                count => {
                    format!("{count} ends of actions have no receipt, this is the first of them")
                }
            };
            findings.fail(check, FailureCode::SchemaInvalid, &self.first_bare, message);
        }
        findings.scope(check, format!("{} receipts", self.count));
    }

    /// What an event carries; nothing if it carries no receipt and need not.
    fn carried<'a>(
        &mut self,
        event: &'a Event,
        computed: Option<Hash>,
        index: u64,
    ) -> Result<Option<Carried<'a>>, (FailureCode, String)> {
        let misplaced = |message: &str| Err((FailureCode::SchemaInvalid, message.to_owned()));
        let is_1_0 = event.schema_version.starts_with("1.0.");
        let action = event.payload.get("action");
        let stated = event.payload.get("receipt_hash").and_then(Value::as_str);
        let stated: Option<Hash> = stated.and_then(|text| text.parse().ok());
        let carries = carries_receipt(event);
        match (action, stated) {
            (None, None) if carries && !is_1_0 => {
                if self.bare == 0 {
                    self.first_bare = Place::of(event, index);
                }
                self.bare += 1;
                self.head = None;
                Ok(None)
            }
            (None, None) => Ok(None),
            _ if !carries && event.event_type == EventType::ToolIntentReviewed => {
                misplaced("a receipt of an action that was not refused")
            }
            _ if !carries => Ok(None),
            (Some(_), Some(_)) if computed.is_none() => misplaced("the action cannot be read"),
            (Some(action), Some(stated)) => {
                Ok(Some(Carried { event, action, stated, computed, is_1_0 }))
            }
            // Schema 1.0 has no member for the hash.
            (Some(action), None) if is_1_0 => match computed {
                Some(stated) => Ok(Some(Carried { event, action, stated, computed, is_1_0 })),
                None => misplaced("the action cannot be read"),
            },
            (Some(_), None) => misplaced("an action without its receipt hash"),
            (None, Some(_)) => misplaced("a receipt hash without its action"),
        }
    }

    /// Everything that is wrong with a receipt. `known` is there where no line has failed: what its
    /// intent says, if it has one.
    fn faults(&self, carried: &Carried<'_>, known: Option<Option<&IntendedAction>>) -> Faults {
        let mut faults = Faults::new();
        if carried.computed != Some(carried.stated) {
            let computed = carried.computed.map(|it| it.to_string()).unwrap_or_default();
            let message = format!("the action hashes to {computed}, it states {}", carried.stated);
            faults.push((FailureCode::HashMismatch, message));
        }
        if let (Some(_), Some(head)) = (known, &self.head) {
            chain(carried, head, &mut faults);
        }
        if let Some(Some(intended)) = known {
            of_intent(carried, intended, &mut faults);
        }
        of_event(carried, &mut faults);
        faults
    }

    /// Where the chain stands after a receipt that is in order.
    fn after(&self, carried: &Carried<'_>) -> Option<ReceiptHead> {
        let (action_id, receipt_hash) = (text(carried.action, "action_id"), carried.stated);
        match carried.is_1_0 {
            // Who wrote schema 1.0 may call its actions anything.
            true => {
                let last = LastReceipt { action_id: action_id.to_owned(), receipt_hash };
                Some(ReceiptHead { count: self.count, last: Some(last) })
            }
            false => ReceiptHead::at(action_id, receipt_hash),
        }
    }

    /// Tells of what was done against a verdict.
    fn meet_despite(
        &mut self,
        event: &Event,
        index: u64,
        replay: Option<&Replay>,
        findings: &mut Findings,
    ) {
        match event.event_type {
            EventType::ToolIntentSigned
                if event.payload.get("despite").is_some() && self.despite.len() < DESPITE_MAX =>
            {
                self.despite.insert(index);
            }
            EventType::ToolExecutionStarted => {
                let Some(intent) = referred(event, "intent") else { return };
                if self.despite.remove(&intent) {
                    let intended = replay.and_then(|replay| replay.intended(intent));
                    let standing = intended.and_then(|intended| intended.standing.as_ref());
                    let refused = standing.is_none_or(|it| it.decision == "skip");
                    let why = if refused { "the gate refused it" } else { "nobody had allowed it" };
                    let message = format!("recorded as done although {why}");
                    let place = Place::of(event, index);
                    findings.warn(CheckId::RolePolicy, "DENIED_ACTION_RECORDED", &place, message);
                }
            }
            _ => {}
        }
    }
}

/// What the intent behind an event says, as it stood before it.
fn behind<'r>(replay: &'r Replay, event: &Event) -> Option<&'r IntendedAction> {
    match event.event_type {
        EventType::ToolIntentReviewed => replay.intended(referred(event, "subject")?),
        _ => replay.under_way(referred(event, "execution")?),
    }
}

/// Steps three and four: the receipt names the one before, the first names none.
fn chain(carried: &Carried<'_>, head: &ReceiptHead, faults: &mut Faults) {
    let mut compare = |name: &str, wanted: Option<&str>| {
        let found = member(carried.action, name);
        if found != wanted {
            let (found, wanted) = (or_null(found), or_null(wanted));
            let message = format!("`{name}` is {found}, expected {wanted}");
            faults.push((FailureCode::ChainBreak, message));
        }
    };
    let last = head.last.as_ref();
    let parent = last.map(|last| last.receipt_hash.to_hex());
    compare("parent_receipt_hash", parent.as_deref());
    compare("parent_action_id", last.map(|last| last.action_id.as_str()));
    if !carried.is_1_0 {
        compare("action_id", Some(&head.next_id()));
    }
}

/// What the receipt repeats of its intent, and of what was said of that.
fn of_intent(carried: &Carried<'_>, intended: &IntendedAction, faults: &mut Faults) {
    let mut compare = |code: FailureCode, name: &str, wanted: Option<&str>| {
        let found = member(carried.action, name);
        if found != wanted {
            let (found, wanted) = (or_null(found), or_null(wanted));
            let message = format!("`{name}` is {found}, by its intent it is {wanted}");
            faults.push((code, message));
        }
    };
    let (hash, statement) = (FailureCode::HashMismatch, FailureCode::SchemaInvalid);
    compare(hash, "input_hash", Some(&intended.input.to_hex()));
    compare(hash, "instruction_hash", Some(&intended.instruction.to_hex()));
    compare(statement, "action_type", Some(&intended.action_type));
    let standing = intended.standing.as_ref();
    let mut score = standing.and_then(|standing| standing.score);
    if carried.event.event_type == EventType::ToolIntentReviewed {
        let own = carried.event.payload.get("gate").and_then(|gate| gate.get("score"));
        score = own.and_then(Value::as_f64).or(score);
    } else {
        // Only what failed can have been given up.
        let given_up = carried.event.event_type == EventType::ToolExecutionFailed
            && text(carried.action, "gate_decision") == GateDecision::Skipped.as_str();
        if !given_up {
            let decision = standing.map(|standing| standing.decision.as_str());
            compare(statement, "gate_decision", decision);
        }
        let verdict = match standing.is_some_and(|standing| standing.enforced) {
            true => PolicyVerdict::PolicyEnforced,
            false => PolicyVerdict::ProofOnly,
        };
        compare(statement, "policy_verdict", Some(verdict.as_str()));
    }
    let found = carried.action.get("gate_score").and_then(Value::as_f64);
    if found.map(f64::to_bits) != score.map(f64::to_bits) {
        let number = |it: Option<f64>| it.map_or_else(|| "null".to_owned(), |it| it.to_string());
        let (found, score) = (number(found), number(score));
        let message = format!("`gate_score` is {found}, by its intent it is {score}");
        faults.push((statement, message));
    }
}

/// What the receipt repeats of the event that carries it.
fn of_event(carried: &Carried<'_>, faults: &mut Faults) {
    let Carried { event, action, is_1_0, .. } = carried;
    let mut contradicts = |code: FailureCode, name: &str| {
        let message = format!("`{name}` is not what the event says");
        faults.push((code, message));
    };
    let statement = FailureCode::SchemaInvalid;
    let completed = event.event_type == EventType::ToolExecutionCompleted;
    if action.get("success").and_then(Value::as_bool) != Some(completed) {
        contradicts(statement, "success");
    }
    if *is_1_0 {
        return;
    }
    if text(action, "output_hash") != output_of(event) {
        contradicts(FailureCode::HashMismatch, "output_hash");
    }
    let elapsed = event.payload.get("elapsed_ms").and_then(Value::as_u64).unwrap_or(0);
    if action.get("duration_ms").and_then(Value::as_u64) != Some(elapsed) {
        contradicts(statement, "duration_ms");
    }
    if text(action, "timestamp").parse::<Timestamp>() != Ok(event.created_at) {
        contradicts(statement, "timestamp");
    }
    let verdict = text(action, "policy_verdict");
    let enforced = verdict == PolicyVerdict::PolicyEnforced.as_str();
    let refused = event.event_type == EventType::ToolIntentReviewed;
    // That everything was verified, no event can say of itself.
    if !enforced && (refused || verdict != PolicyVerdict::ProofOnly.as_str()) {
        contradicts(statement, "policy_verdict");
    }
    if refused && text(action, "gate_decision") != GateDecision::Skip.as_str() {
        contradicts(statement, "gate_decision");
    }
}

/// The hash of what came out: what was printed, else the first artifact, else nothing.
fn output_of(event: &Event) -> &str {
    const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let first = || event.payload.get("output_artifacts")?.get(0)?.as_str();
    member(&event.payload, "stdout").or_else(first).unwrap_or(NOTHING)
}

/// The place that a member of the payload refers to.
fn referred(event: &Event, name: &str) -> Option<u64> {
    event.payload.get(name)?.get("seq")?.as_u64()
}

fn member<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str)
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    member(object, name).unwrap_or_default()
}

fn or_null(text: Option<&str>) -> &str {
    text.unwrap_or("null")
}
