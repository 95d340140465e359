//! What the rules let happen, as signed bytes before the verifier.
//!
//! Depth first over the sessions of two proposals, two intents and two claims, over bare states;
//! those that are picked are written with real keys and verified whole. The twins of some have one
//! more event, which the rules refuse: the verifier is to say so, there and nowhere else.

#![cfg(test)]

mod reachable_moves;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use countersign_format::event::{Draft, Event};
use countersign_format::json::Value;
use countersign_format::report::{Closed, FailureCode, Signer, VerificationStatus};
use countersign_protocol::receipts::carries_receipt;
use countersign_protocol::session::{Lifecycle, ProposalDecision, SessionCommand, SessionState};
use countersign_protocol::{Context, Refusal, State as _};
use countersign_testkit::SessionStory;
use countersign_testkit::session::SEPARATE;
use countersign_verify::Profile;
use reachable_moves::*;

/// Of so many sessions one is verified, as bytes.
const STRIDE: usize = 53;

/// A session on its way, without bytes.
#[derive(Debug, Clone)]
struct Node {
    state: SessionState,
    context: Context,
    places: Places,
    moves: Vec<Move>,
}

impl Node {
    fn begun() -> Self {
        let story = begun();
        let (state, context) = (story.state().clone(), story.context());
        Self { state, context, places: Places::default(), moves: Vec::new() }
    }

    fn after(&self, tried: Move, event: &Event) -> Self {
        let mut next = self.clone();
        next.state.apply(event);
        next.places.note(tried, self.context.reference(0));
        next.moves.push(tried);
        let Context { now, raw, next_id, next_seq } = self.context;
        next.context = Context { now, raw, next_id: next_id.next(), next_seq: next_seq + 1 };
        next
    }

    /// What is tried here. The order is bounded: a second proposal comes when the first is decided,
    /// which happens once; a second intent when the first has started or is blocked.
    fn tries(&self) -> Vec<Move> {
        use ProposalDecision as P;
        let decision = |at: usize| self.state.proposals[&self.places.proposals[at].seq].decision;
        let undecided = (0..self.places.proposals.len()).any(|at| decision(at).is_none());
        let mut tries = self.places.moves();
        tries.retain(|tried| match *tried {
            Move::Propose => !undecided,
            Move::Judge(at, _) => !matches!(decision(at), Some(P::Approved | P::Conditional)),
            Move::Intend { .. } => self.state.intents.is_empty(),
            _ => true,
        });
        tries
    }

    /// The state with everything named by its number within its sort, for neither ids nor the order
    /// between the sorts decide about what may follow.
    fn key(&self) -> String {
        let Places { proposals, intents, executions, claims } = &self.places;
        let intents: Vec<_> = intents.iter().map(|(place, _)| place.clone()).collect();
        let executions: Vec<_> = executions.iter().map(|(place, _)| place.clone()).collect();
        let mut names = BTreeMap::new();
        for (sort, places) in [("p", proposals), ("i", &intents), ("e", &executions), ("c", claims)]
        {
            for (at, place) in places.iter().enumerate() {
                names.insert(place.seq.to_string(), format!("{sort}{at}"));
                names.insert(claim_id(place), format!("{sort}{at}"));
            }
        }
        // A blocked intent leaves no trace in the state, but there is one fewer to come.
        let state = renamed(&serde_json::to_value(&self.state).unwrap(), &names);
        format!("{} {state}", intents.len())
    }
}

fn renamed(value: &Value, names: &BTreeMap<String, String>) -> Value {
    let name = |text: &str| names.get(text).cloned();
    match value {
        Value::Object(members) => {
            // Receipts tell what happened; they do not decide about what may follow.
            let left_out = [
                "event_id",
                "rules",
                "starts",
                "artifacts",
                "last_artifact_at",
                "receipts",
                "instruction",
                "description",
                "action_type",
                "paths",
                "standing",
            ];
            let kept = members.iter().filter(|(key, _)| !left_out.contains(&key.as_str()));
            let named = kept.map(|(key, value)| {
                (name(key).unwrap_or_else(|| key.clone()), renamed(value, names))
            });
            Value::Object(named.collect())
        }
        Value::Array(items) => items.iter().map(|item| renamed(item, names)).collect(),
        Value::String(text) => name(text).unwrap_or_else(|| text.clone()).into(),
        // Places of anything else, such as a challenge.
        Value::Number(number) => name(&number.to_string()).unwrap_or_default().into(),
        other => other.clone(),
    }
}

/// How often something was refused, and sessions that end in it.
type Twins = (usize, Vec<Vec<Move>>);

/// What was found.
#[derive(Debug, Default)]
struct Explored {
    open: usize,
    ended: usize,
    transitions: usize,
    refusals: usize,
    /// The sessions to verify, and where each stands.
    picked: Vec<(Lifecycle, Vec<Move>)>,
    /// How often something led where.
    admitted: BTreeMap<(Lifecycle, String), usize>,
    /// What was refused, by what was tried and why.
    refused: BTreeMap<(String, String), Twins>,
}

impl Explored {
    /// Takes a new state in. After the end only audits may follow: that all else may not is tried
    /// in the sessions that are verified.
    fn meet(&mut self, node: &Node) -> Vec<Move> {
        let lifecycle = node.state.lifecycle();
        let count = if lifecycle.is_terminal() { &mut self.ended } else { &mut self.open };
        *count += 1;
        if count.is_multiple_of(STRIDE) {
            self.picked.push((lifecycle, node.moves.clone()));
        } else if lifecycle.is_terminal() {
            return vec![Move::StartAudit, Move::CompleteAudit];
        }
        node.tries()
    }

    /// Also where it leads to a state that is known: ever rarer, so that they come from everywhere.
    fn admit(&mut self, tried: Move, next: &Node) {
        self.transitions += 1;
        let lifecycle = next.state.lifecycle();
        let count = self.admitted.entry((lifecycle, tried.name())).or_default();
        *count += 1;
        if count.is_power_of_two() {
            self.picked.push((lifecycle, next.moves.clone()));
        }
    }

    fn refuse(&mut self, tried: Move, node: &Node, refusal: &Refusal) {
        self.refusals += 1;
        let why = format!("{refusal:?}").split(' ').next().unwrap().to_owned();
        let (count, twins) = self.refused.entry((tried.name(), why)).or_default();
        *count += 1;
        if count.is_power_of_two() {
            twins.push([node.moves.as_slice(), &[tried]].concat());
        }
    }
}

static EXPLORED: LazyLock<Explored> = LazyLock::new(|| {
    let mut found = Explored::default();
    let mut known = BTreeSet::from([Node::begun().key()]);
    let mut waiting = vec![Node::begun()];
    while let Some(node) = waiting.pop() {
        for tried in found.meet(&node) {
            let offered = offer(&node.state, &node.places, tried, &node.context);
            let Some(event) = offered else { continue };
            if let Err(refusal) = node.state.admit(&event) {
                found.refuse(tried, &node, &refusal);
                continue;
            }
            let next = node.after(tried, &event);
            found.admit(tried, &next);
            if known.insert(next.key()) {
                waiting.push(next);
            }
        }
    }
    found
});

/// A session with its first event, and everything that a later one may name.
fn begun() -> SessionStory {
    let mut story = SessionStory::new(&SEPARATE);
    story.submit(SessionCommand::Open(Box::new(story.opening())));
    for number in 0..INTENTS_MAX {
        story.put(input(number).as_bytes());
        story.put(output(number).as_bytes());
    }
    story.put(ANALYSIS);
    story
}

/// The same session with real keys and real audits.
fn write(moves: &[Move]) -> (SessionStory, Places) {
    let (mut story, mut places) = (begun(), Places::default());
    for &tried in moves {
        let place = match tried {
            Move::CompleteAudit => {
                let report = story.verify(Profile::DEFAULT);
                story.complete_audit(&report)
            }
            _ => story.submit(places.command(story.state(), tried)),
        };
        places.note(tried, place);
    }
    (story, places)
}

fn close(story: &mut SessionStory) {
    if story.state().ended().is_some() {
        story.close();
    }
}

#[test]
fn whatever_the_rules_let_happen_passes_the_verifier() {
    let found = &*EXPLORED;
    for (lifecycle, moves) in &found.picked {
        let (mut story, _) = write(moves);
        close(&mut story);
        let closed = match lifecycle {
            Lifecycle::Completed | Lifecycle::Failed => Closed::Yes,
            Lifecycle::Aborted => Closed::Aborted,
            _ => Closed::No,
        };
        // To the strict a dispute is a failure; everything else passes there too.
        let disputed = story.state().disputed.len();
        let (profile, status) = match disputed {
            0 => (Profile::STRICT, VerificationStatus::Pass),
            _ => (Profile::DEFAULT, VerificationStatus::PassWithWarnings),
        };
        let report = story.verify(profile);
        let told: Vec<_> = report.warnings.iter().map(|it| it.warning_code.as_str()).collect();
        let warnings = vec!["CLAIM_DISPUTED"; disputed];
        assert_eq!((&*report.failures, told), (&[][..], warnings), "{moves:?}");
        let stands = (story.state().lifecycle(), report.closed, report.verification_status);
        assert_eq!(stands, (*lifecycle, closed, status), "{moves:?}");
        let read = (report.signer, report.metrics.events, report.head);
        let events = moves.len() as u64 + 1;
        assert_eq!(read, (Signer::Pinned, events, Some(story.head())), "{moves:?}");
    }
    let (open, ended, transitions) = (found.open, found.ended, found.transitions);
    let verified = found.picked.len();
    let closed = found.picked.iter().filter(|(lifecycle, _)| lifecycle.is_terminal()).count();
    println!("{open} open and {ended} ended states, {transitions} transitions");
    println!("{verified} sessions verified, {closed} of them ended");
    let lifecycles: BTreeSet<_> = found.admitted.keys().map(|(lifecycle, _)| *lifecycle).collect();
    let all = Lifecycle::ALL.into_iter();
    let later = all.filter(|it| *it > Lifecycle::Planning).collect();
    assert_eq!(lifecycles, later);
    let admitted: BTreeSet<_> = found.admitted.keys().map(|(_, name)| name.as_str()).collect();
    let refused: BTreeSet<_> = found.refused.keys().map(|(name, _)| name.as_str()).collect();
    let never: Vec<_> = refused.difference(&admitted).copied().collect();
    assert_eq!(never, ["claimbarely", "review executor approved", "usurp"]);
    assert_eq!(admitted.len(), 27);
    // An exploration that became smaller proves less than it did.
    assert!(open >= 38_000 && ended >= 89_000 && transitions >= 300_000);
    assert!(verified >= 2_800, "{verified} sessions verified");
}

/// The broken twins: one event too many, signed by whoever holds the key.
#[test]
fn whatever_the_rules_refuse_is_reported_where_it_stands() {
    let refused = &EXPLORED.refused;
    for moves in refused.values().flat_map(|(_, twins)| twins) {
        let (&tried, before) = moves.split_last().unwrap();
        let (mut story, places) = write(before);
        let event = offer(story.state(), &places, tried, &story.context()).unwrap();
        let refusal = story.state().admit(&event).unwrap_err().to_string();
        let offered = event.clone();
        let draft = Draft::new(event.event_type, event.payload).with_artifacts(event.artifacts);
        let place = story.force(event.actor.role, Draft { claims: event.claims, ..draft });
        close(&mut story);
        let report = story.verify(Profile::DEFAULT);
        let mut failures = report.failures.iter();
        let first = failures.next().map(|it| (it.index, it.message.as_str()));
        assert_eq!(first, Some((Some(place.seq), refusal.as_str())), "{moves:?}");
        // A claim that comes where it may not can lack its evidence as well, and the end of nothing
        // the receipt that the end of an execution has.
        let more: Vec<_> = failures.map(|it| (it.index, it.failure_code)).collect();
        let at = Some(place.seq);
        let unproven = more == [(at, FailureCode::ClaimUnproven)];
        let bare = more == [(at, FailureCode::SchemaInvalid)] && carries_receipt(&offered);
        assert!(more.is_empty() || unproven || bare, "{moves:?}: {more:?}");
    }
    let twins: usize = refused.values().map(|(_, twins)| twins.len()).sum();
    let (kinds, refusals) = (refused.len(), EXPLORED.refusals);
    println!("{refusals} refusals of {kinds} kinds, {twins} broken twins");
    for (name, why) in [
        ("usurp", "NotForThisRole"),
        ("review executor approved", "NotForThisRole"),
        ("start", "ApprovalMissing"),
        ("start", "OutcomeUnknown"),
        ("claimbarely", "EvidenceTooThin"),
        ("conclude none", "NotInThisState"),
        ("abort", "Ended"),
    ] {
        assert!(refused.contains_key(&(name.to_owned(), why.to_owned())), "{name}: {why}");
    }
    assert!(kinds >= 90 && twins >= 1_050, "{kinds} kinds, {twins} twins");
}
