//! Random flows with agents that answer anything: they always end, within their bounds, and the
//! events alone say how.

use countersign_format::envelope::Recommendation as R;
use countersign_format::event::EventType;
use countersign_protocol::State as _;
use countersign_protocol::flow::{
    FileFact, FlowCommand, FlowOutcome, FlowState, StepBy, StepPhase, WayOut,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::trace::{Flow, approval, plan, returned, step};

/// Where random choices come from: the bytes of a case, over and over.
struct Dice<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Dice<'_> {
    fn roll(&mut self, sides: usize) -> usize {
        let byte = self.bytes.get(self.at % self.bytes.len()).copied().unwrap_or_default();
        self.at += 1;
        (usize::from(byte) ^ (self.at * 31)) % sides
    }
}

fn random_plan(dice: &mut Dice<'_>, count: usize) -> Value {
    let mut steps = Vec::new();
    for at in 0..count {
        let id = format!("s{at}");
        let mut needs: Vec<String> = Vec::new();
        for other in 0..at {
            if dice.roll(3) == 0 {
                needs.push(format!("s{other}"));
            }
        }
        let named: Vec<&str> = needs.iter().map(String::as_str).collect();
        // A way back must lead to something before.
        let back = needs.first().cloned();
        if dice.roll(5) == 0 {
            let on_no = match (dice.roll(3), back) {
                (0, Some(back)) => back,
                (1, _) => "continue".to_owned(),
                _ => "stop".to_owned(),
            };
            let mut more = json!({ "on_no": on_no });
            if dice.roll(2) == 0 {
                more["default"] = json!(dice.roll(2) == 0);
            }
            steps.push(approval(&id, &named, more));
            continue;
        }
        let on_retry = match (dice.roll(3), back) {
            (0, Some(back)) => back,
            (1, _) => "continue".to_owned(),
            _ => "self".to_owned(),
        };
        let on_escalate = ["ask", "continue", "stop"][dice.roll(3)];
        let mut more = json!({
            "on_retry": on_retry,
            "on_escalate": on_escalate,
            "max_iterations": 1 + dice.roll(3),
            "attempts": 1 + dice.roll(2),
        });
        if let (true, Some(first)) = (dice.roll(4) == 0, needs.first()) {
            more["when"] = json!({ "any": [
                { "step": { "id": first, "success": true } },
                { "file": { "path": "f", "exists": true } },
            ] });
        }
        steps.push(step(&id, &named, more));
    }
    let mut plan = plan(&steps);
    if dice.roll(3) == 0 {
        plan["budget"] = json!({ "calls": 1 + dice.roll(2 * count) });
    }
    if dice.roll(4) == 0 {
        plan["budget"]["time_seconds"] = json!(5 + dice.roll(60));
    }
    plan
}

/// Lets one thing happen that can. False when nothing can but the end.
fn happen(flow: &mut Flow, dice: &mut Dice<'_>) -> bool {
    flow.now += i64::try_from(dice.roll(5_000)).unwrap();
    let mut can: Vec<usize> = flow.state.ready();
    let under_way = flow.state.steps.iter().enumerate();
    can.extend(under_way.filter(|(_, it)| it.phase.is_under_way()).map(|(at, _)| at));
    let fed = |at: &usize| {
        let waits = matches!(flow.state.phase(*at), Some(StepPhase::Waiting { .. }));
        let unfed = flow.state.route.agent(*at).is_some() && flow.state.used_up().is_some();
        let returns = matches!(flow.state.phase(*at), Some(StepPhase::Returning { .. }));
        !(returns || (waits && unfed))
    };
    can.retain(fed);
    if can.is_empty() {
        return false;
    }
    let at = can[dice.roll(can.len())];
    let id = flow.state.route.step(at).unwrap().id.clone();
    match flow.state.phase(at).cloned().unwrap() {
        StepPhase::Waiting { .. } => begin(flow, at, &id, dice),
        StepPhase::Running { .. } => {
            // Cut off now and then, which calls it again.
            if dice.roll(6) == 0 {
                if flow.call(&id).is_err() {
                    // It cannot be paid for once more, and that is the end of the call.
                    let mut back = returned(false, R::Retry);
                    back.protocol_error = Some("cut off".to_owned());
                    back.elapsed_millis = 0;
                    flow.give(&id, back).unwrap();
                }
                return true;
            }
            let says = [R::Proceed, R::Retry, R::Escalate][dice.roll(3)];
            let mut back = returned(says == R::Proceed || dice.roll(2) == 0, says);
            back.elapsed_millis = dice.roll(12_000) as u64;
            if dice.roll(5) == 0 {
                (back.success, back.recommendation) = (false, R::Retry);
                back.protocol_error = Some("garbage".to_owned());
            }
            flow.give(&id, back).unwrap();
        }
        StepPhase::Stuck { .. } => flow.ask(&id).unwrap(),
        StepPhase::Asked(open) => {
            if dice.roll(3) == 0 {
                flow.now = flow.now.max(open.deadline.unwrap().as_millis());
                flow.submit(FlowCommand::Miss { question: open.event }).unwrap();
                return true;
            }
            let answer = match (
                dice.roll(3),
                matches!(flow.state.route.step(at).unwrap().by, StepBy::Approval(_)),
            ) {
                (it, true) => json!(it == 0),
                (0, false) => WayOut::Retry { answer: json!("more") }.to_value(),
                (1, false) => WayOut::Continue {}.to_value(),
                (_, false) => WayOut::Stop {}.to_value(),
            };
            // The clock may have passed the deadline meanwhile, or no iteration is left.
            if flow.reply(&id, answer).is_err()
                && flow.submit(FlowCommand::Miss { question: open.event }).is_err()
            {
                flow.reply(&id, WayOut::Stop {}.to_value()).unwrap();
            }
        }
        other => panic!("{id} is {}", other.as_str()),
    }
    true
}

fn begin(flow: &mut Flow, at: usize, id: &str, dice: &mut Dice<'_>) {
    let exists = dice.roll(2) == 0;
    let fact = FileFact { path: "f".into(), pointer: None, exists, value: None, missing: None };
    let facts: Vec<FileFact> =
        flow.state.facts_needed(at).first().map(|_| fact).into_iter().collect();
    match (flow.state.runs(at, &facts).unwrap(), flow.state.route.agent(at)) {
        (false, _) => flow.submit(FlowCommand::Skip { step: id.to_owned(), facts }).unwrap(),
        (true, Some(_)) => flow.call_knowing(id, facts).unwrap(),
        (true, None) => flow.ask(id).unwrap(),
    }
}

/// More than any flow of this size can take: every step as often as it may, every attempt, every
/// question, and interruptions.
fn bound(flow: &Flow) -> usize {
    let steps = flow.state.route.plan().steps.iter();
    let calls: u64 = steps
        .map(|step| match &step.by {
            StepBy::Agent(agent) => step.max_iterations * (agent.attempts + 1) * 12,
            StepBy::Approval(_) => step.max_iterations * 12,
        })
        .sum();
    usize::try_from(calls).unwrap() + 10
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3_000) })]

    #[test]
    fn a_random_flow_ends_within_its_bounds_and_its_events_say_how(
        bytes in proptest::collection::vec(any::<u8>(), 16..200),
        count in 1_usize..9,
    ) {
        let mut dice = Dice { bytes: &bytes, at: 0 };
        let Ok(mut flow) = Flow::begun(random_plan(&mut dice, count)) else { return Ok(()) };
        let most = bound(&flow);
        let mut happened = 0;
        while happen(&mut flow, &mut dice) {
            happened += 1;
            prop_assert!(happened <= most, "{} things happened, {most} were expected at most", happened);
            let plan = flow.state.route.plan();
            if let Some(calls) = plan.budget.calls {
                prop_assert!(flow.state.calls <= calls);
            }
            if let Some(seconds) = plan.budget.time_seconds {
                let reserved: u64 = flow.state.steps.iter().map(|step| match step.phase {
                    StepPhase::Running { seconds, .. } => seconds * 1_000,
                    _ => 0,
                }).sum();
                prop_assert!(flow.state.spent_millis + reserved <= seconds * 1_000);
            }
            for (step, run) in plan.steps.iter().zip(&flow.state.steps) {
                prop_assert!(run.iteration <= step.max_iterations);
            }
        }
        flow.submit(FlowCommand::Finish).unwrap();
        let all = flow.state.steps.iter().all(|it| matches!(it.phase, StepPhase::Done | StepPhase::Skipped));
        prop_assert_eq!(flow.state.outcome == Some(FlowOutcome::Completed), all);
        // Whoever reads the events alone comes to the same, and finds nothing that was not allowed.
        let mut replayed = FlowState::default();
        for event in &flow.events {
            prop_assert_eq!(replayed.admit(event), Ok(()));
            replayed.apply(event);
            let kept = serde_json::to_string(&replayed).unwrap();
            prop_assert_eq!(&serde_json::from_str::<FlowState>(&kept).unwrap(), &replayed);
        }
        prop_assert_eq!(&replayed, &flow.state);
        // An event left out shows by the rules alone; but for a step that was skipped, where the budget
        // would not have let it run.
        if flow.events.len() > 3 {
            let gone = 1 + dice.roll(flow.events.len() - 2);
            let mut other = FlowState::default();
            let mut refused = false;
            for (_, event) in flow.events.iter().enumerate().filter(|(at, _)| *at != gone) {
                refused |= other.admit(event).is_err();
                other.apply(event);
            }
            let unfed = flow.events[gone].event_type == EventType::StepSkipped
                && flow.state.outcome == Some(FlowOutcome::Exhausted);
            prop_assert!(refused || unfed, "{:?}", flow.events[gone].event_type);
        }
    }

    /// What agents and people answer depends on the step and its turn alone; who is faster does not
    /// matter then.
    #[test]
    fn a_random_flow_comes_to_the_same_end_in_whatever_order_its_steps_answer(
        bytes in proptest::collection::vec(any::<u8>(), 16..200),
        one in proptest::collection::vec(any::<u8>(), 16..64),
        two in proptest::collection::vec(any::<u8>(), 16..64),
        count in 1_usize..9,
    ) {
        let mut dice = Dice { bytes: &bytes, at: 0 };
        let mut plan = random_plan(&mut dice, count);
        plan.as_object_mut().unwrap().remove("budget");
        // Some plans have loops that overlap.
        prop_assume!(Flow::begun(plan.clone()).is_ok());
        let end = |order: &[u8]| {
            let mut order = Dice { bytes: order, at: 0 };
            let mut flow = Flow::begun(plan.clone()).unwrap();
            while answer_in_turn(&mut flow, &mut order, &bytes) {}
            flow.submit(FlowCommand::Finish).unwrap();
            let stand = |it: &countersign_protocol::flow::StepRun| {
                (it.phase.as_str(), it.iteration, it.said.clone(), it.answer.clone())
            };
            let steps: Vec<_> = flow.state.steps.iter().map(stand).collect();
            (flow.state.outcome, flow.state.calls, steps)
        };
        prop_assert_eq!(end(&one), end(&two));
    }
}

/// Lets one step go on that can, chosen by `order`; what it answers is decided by its turn.
fn answer_in_turn(flow: &mut Flow, order: &mut Dice<'_>, bytes: &[u8]) -> bool {
    let under_way = flow.state.steps.iter().enumerate();
    let mut can: Vec<usize> = under_way
        .filter(|(_, it)| {
            it.phase.is_under_way() && !matches!(it.phase, StepPhase::Returning { .. })
        })
        .map(|(at, _)| at)
        .collect();
    can.extend(flow.state.ready());
    if can.is_empty() {
        return false;
    }
    let at = can[order.roll(can.len())];
    let id = flow.state.route.step(at).unwrap().id.clone();
    let run = &flow.state.steps[at];
    let turn = usize::try_from(run.iteration * 7 + run.attempt * 3).unwrap() + at * 13;
    let mut fate = Dice { bytes, at: turn };
    match run.phase.clone() {
        StepPhase::Waiting { .. } => {
            let mut fixed = Dice { bytes, at: at * 5 };
            begin(flow, at, &id, &mut fixed);
        }
        StepPhase::Running { .. } => {
            let says = [R::Proceed, R::Retry, R::Escalate][fate.roll(3)];
            let mut back = returned(says == R::Proceed || fate.roll(2) == 0, says);
            if fate.roll(5) == 0 {
                (back.success, back.recommendation) = (false, R::Retry);
                back.protocol_error = Some("garbage".to_owned());
            }
            flow.give(&id, back).unwrap();
        }
        StepPhase::Stuck { .. } => flow.ask(&id).unwrap(),
        StepPhase::Asked(_) => {
            let person = matches!(flow.state.route.step(at).unwrap().by, StepBy::Approval(_));
            let answer = match (fate.roll(3), person) {
                (it, true) => json!(it == 0),
                (0, false) => WayOut::Retry { answer: json!("more") }.to_value(),
                (1, false) => WayOut::Continue {}.to_value(),
                (_, false) => WayOut::Stop {}.to_value(),
            };
            if flow.reply(&id, answer).is_err() {
                flow.reply(&id, WayOut::Stop {}.to_value()).unwrap();
            }
        }
        other => panic!("{id} is {}", other.as_str()),
    }
    true
}
