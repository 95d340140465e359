//! The rules, one by one.

use countersign_format::envelope::{Operation, Recommendation as R};
use countersign_format::event::EventType;
use countersign_format::hash::Hash;
use countersign_format::role::Role;
use countersign_protocol::flow::{
    FileChange, FileFact, FlowCommand, FlowOutcome, FlowRefusal, PlanFault, StepPhase,
};
use countersign_protocol::{Refusal, State as _};
use serde_json::{Value, json};

use crate::trace::{Flow, approval, plan, returned, step};

fn refused(what: Result<(), Refusal>) -> FlowRefusal {
    match what {
        Err(Refusal::Flow(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_leads_where_the_table_says() {
    // success, recommendation, on_retry, on_escalate, where the step then stands
    let table = [
        (true, R::Proceed, "self", "ask", "done"),
        (true, R::Retry, "self", "ask", "waiting"),
        (true, R::Retry, "continue", "ask", "done"),
        (true, R::Escalate, "self", "ask", "stuck"),
        (true, R::Escalate, "self", "continue", "done"),
        (true, R::Escalate, "self", "stop", "failed"),
        (false, R::Retry, "self", "ask", "waiting"),
        (false, R::Retry, "continue", "ask", "done"),
        (false, R::Escalate, "self", "ask", "stuck"),
        (false, R::Escalate, "self", "continue", "done"),
        (false, R::Escalate, "self", "stop", "failed"),
    ];
    for (success, says, on_retry, on_escalate, stands) in table {
        let more = json!({ "on_retry": on_retry, "on_escalate": on_escalate });
        let mut flow = Flow::begun(plan(&[step("a", &[], more)])).unwrap();
        flow.run("a", success, says).unwrap();
        assert_eq!(flow.stands("a"), stands, "{success} {says:?} {on_retry} {on_escalate}");
    }
    let mut flow = Flow::begun(plan(&[step("a", &[], json!({}))])).unwrap();
    let contradiction = refused(flow.run("a", false, R::Proceed));
    assert_eq!(contradiction, FlowRefusal::FailureProceeds { step: "a".into() });
}

#[test]
fn a_step_runs_only_when_what_it_needs_is_done_and_only_once() {
    let steps = [step("a", &[], json!({})), step("b", &["a"], json!({}))];
    let mut flow = Flow::begun(plan(&steps)).unwrap();
    let needs = FlowRefusal::Needs { step: "b".into(), needed: "a".into() };
    assert_eq!(refused(flow.call("b")), needs);
    flow.run("a", true, R::Proceed).unwrap();
    let again = FlowRefusal::NotNow { step: "a".into(), what: "called", phase: "done" };
    assert_eq!(refused(flow.call("a")), again);
    assert_eq!(flow.state.due_outcome(), None);
    flow.run("b", true, R::Proceed).unwrap();
    flow.submit(FlowCommand::Finish).unwrap();
    assert_eq!(flow.state.outcome, Some(FlowOutcome::Completed));
    let types = [
        "flow_started",
        "step_dispatched",
        "step_answered",
        "step_dispatched",
        "step_answered",
        "flow_finished",
    ];
    assert_eq!(flow.types(), types);
    assert!(matches!(flow.call("a"), Err(Refusal::Ended { .. })));
}

#[test]
fn at_the_bound_of_iterations_a_retry_ends_exhausted_and_asks_nobody() {
    let more = json!({ "max_iterations": 2 });
    let mut flow = Flow::begun(plan(&[step("a", &[], more)])).unwrap();
    flow.run("a", true, R::Retry).unwrap();
    flow.run("a", true, R::Retry).unwrap();
    assert_eq!(flow.stands("a"), "stuck");
    flow.ask("a").unwrap();
    let reason = "`a` ran 2 times, which is its bound".to_owned();
    assert_eq!(flow.phase("a"), &StepPhase::Exhausted { reason });
    assert_eq!(flow.state.questions().count(), 0);
    let completed = flow.event(
        Role::Recorder,
        EventType::FlowFinished,
        json!({ "outcome": "completed", "summary": "" }),
    );
    let other = FlowRefusal::OtherOutcome { due: "exhausted", stated: "completed".into() };
    assert_eq!(flow.state.admit(&completed), Err(Refusal::Flow(other)));
    flow.submit(FlowCommand::Finish).unwrap();
    assert_eq!(flow.state.outcome, Some(FlowOutcome::Exhausted));
}

#[test]
fn a_retry_that_leads_back_runs_its_loop_again_and_what_follows_waits_for_it() {
    let steps = [
        step("write", &[], json!({})),
        step("lint", &["write"], json!({})),
        step("validate", &["write"], json!({ "on_retry": "write" })),
        step("publish", &["lint", "validate"], json!({})),
    ];
    let mut flow = Flow::begun(plan(&steps)).unwrap();
    flow.run("write", true, R::Proceed).unwrap();
    // What was written may still be sent back.
    let waits = FlowRefusal::Needs { step: "lint".into(), needed: "validate".into() };
    assert_eq!(refused(flow.call("lint")), waits);
    flow.run("validate", true, R::Retry).unwrap();
    let stand = |flow: &Flow| {
        ["write", "lint", "validate", "publish"].map(|step| flow.stands(step).to_owned())
    };
    assert_eq!(stand(&flow), ["waiting", "waiting", "waiting", "waiting"]);
    assert_eq!(flow.state.steps[0].heard.len(), 1, "the writer is told what the validator said");
    flow.run("write", true, R::Proceed).unwrap();
    flow.run("validate", true, R::Proceed).unwrap();
    flow.run("lint", true, R::Proceed).unwrap();
    flow.run("publish", true, R::Proceed).unwrap();
    flow.submit(FlowCommand::Finish).unwrap();
    let iterations: Vec<u64> = flow.state.steps.iter().map(|step| step.iteration).collect();
    assert_eq!((flow.state.outcome, iterations), (Some(FlowOutcome::Completed), vec![2, 1, 2, 1]));
}

#[test]
fn an_inner_loop_goes_round_within_each_round_of_the_outer_one() {
    let steps = [
        step("plan", &[], json!({})),
        step("write", &["plan"], json!({})),
        step("check", &["write"], json!({ "on_retry": "write" })),
        step("audit", &["check"], json!({ "on_retry": "plan" })),
    ];
    let mut flow = Flow::begun(plan(&steps)).unwrap();
    for (step, says) in [
        ("plan", R::Proceed),
        ("write", R::Proceed),
        ("check", R::Retry),
        ("write", R::Proceed),
        ("check", R::Proceed),
        ("audit", R::Retry),
        ("plan", R::Proceed),
        ("write", R::Proceed),
        ("check", R::Proceed),
        ("audit", R::Proceed),
    ] {
        flow.run(step, true, says).unwrap();
    }
    let iterations: Vec<u64> = flow.state.steps.iter().map(|step| step.iteration).collect();
    assert_eq!(iterations, [2, 3, 3, 2]);
    assert_eq!(flow.state.due_outcome(), Some(FlowOutcome::Completed));
}

#[test]
fn what_waits_for_a_loop_also_waits_for_the_loop_that_lets_it_go_round_again() {
    // `late` may send `judge` back, and `judge` may send `first` back, which `beside` needs.
    let steps = [
        step("first", &[], json!({ "max_iterations": 2 })),
        step("judge", &["first"], json!({ "max_iterations": 3, "on_retry": "first" })),
        step("beside", &["first"], json!({})),
        step("late", &["judge"], json!({ "max_iterations": 3, "on_retry": "judge" })),
    ];
    let mut flow = Flow::begun(plan(&steps)).unwrap();
    flow.run("first", true, R::Proceed).unwrap();
    flow.run("judge", true, R::Proceed).unwrap();
    let needs = FlowRefusal::Needs { step: "beside".into(), needed: "late".into() };
    assert_eq!(refused(flow.call("beside")), needs);
    flow.run("late", true, R::Retry).unwrap();
    flow.run("judge", true, R::Retry).unwrap();
    for id in ["first", "judge", "late", "beside"] {
        flow.run(id, true, R::Proceed).unwrap();
    }
    assert_eq!(flow.state.due_outcome(), Some(FlowOutcome::Completed));
    assert_eq!(flow.state.steps[flow.at("beside")].iteration, 1);
}

#[test]
fn what_a_later_loop_needs_does_not_wait_for_that_loop() {
    let steps = [
        step("first", &[], json!({ "max_iterations": 3 })),
        step("judge", &["first"], json!({ "max_iterations": 3, "on_retry": "first" })),
        step("beside", &["first"], json!({ "max_iterations": 3 })),
        step("late", &["judge", "beside"], json!({ "max_iterations": 3, "on_retry": "judge" })),
    ];
    let mut flow = Flow::begun(plan(&steps)).unwrap();
    for id in ["first", "judge", "beside"] {
        flow.run(id, true, R::Proceed).unwrap();
    }
    flow.run("late", true, R::Retry).unwrap();
    for id in ["judge", "late"] {
        flow.run(id, true, R::Proceed).unwrap();
    }
    assert_eq!(flow.state.due_outcome(), Some(FlowOutcome::Completed));
}

#[test]
fn a_loop_does_not_go_round_for_nothing_once_one_of_its_steps_has_failed() {
    let steps = [
        step("write", &[], json!({})),
        step("a", &["write"], json!({ "on_retry": "write" })),
        step("b", &["write"], json!({ "on_retry": "write", "on_escalate": "stop" })),
    ];
    let mut flow = Flow::begun(plan(&steps)).unwrap();
    flow.run("write", true, R::Proceed).unwrap();
    flow.run("a", true, R::Retry).unwrap();
    assert_eq!(flow.stands("a"), "sent back");
    flow.run("b", false, R::Escalate).unwrap();
    assert_eq!((flow.stands("a"), flow.state.due_outcome()), ("failed", Some(FlowOutcome::Failed)));
}

#[test]
fn a_loop_ends_when_any_of_its_steps_has_no_iteration_left() {
    let steps = [
        step("write", &[], json!({ "max_iterations": 9 })),
        step("check", &["write"], json!({ "max_iterations": 1 })),
        step("validate", &["check"], json!({ "on_retry": "write", "max_iterations": 9 })),
    ];
    let mut flow = Flow::begun(plan(&steps)).unwrap();
    for step in ["write", "check"] {
        flow.run(step, true, R::Proceed).unwrap();
    }
    flow.run("validate", true, R::Retry).unwrap();
    flow.ask("validate").unwrap();
    let reason = "`check` ran once, which is its bound".to_owned();
    assert_eq!(flow.phase("validate"), &StepPhase::Exhausted { reason });
}

#[test]
fn two_that_send_back_to_the_same_step_send_it_back_once() {
    let steps = [
        step("write", &[], json!({})),
        step("a", &["write"], json!({ "on_retry": "write" })),
        step("b", &["write"], json!({ "on_retry": "write" })),
    ];
    let mut flow = Flow::begun(plan(&steps)).unwrap();
    flow.run("write", true, R::Proceed).unwrap();
    flow.call("a").unwrap();
    flow.call("b").unwrap();
    flow.give("a", returned(true, R::Retry)).unwrap();
    flow.give("b", returned(true, R::Retry)).unwrap();
    assert_eq!(flow.stands("write"), "waiting");
    assert_eq!((flow.state.turn(0), flow.state.steps[0].heard.len()), (Some((2, 1)), 2));
}

#[test]
fn what_is_no_answer_counts_against_attempts_and_then_a_person_is_asked() {
    let mut flow = Flow::begun(plan(&[step("a", &[], json!({}))])).unwrap();
    let mut garbage = returned(false, R::Retry);
    garbage.protocol_error = Some("it printed nothing".to_owned());
    flow.call("a").unwrap();
    flow.give("a", garbage.clone()).unwrap();
    assert_eq!(flow.state.turn(0), Some((1, 2)), "another attempt at the same iteration");
    flow.call("a").unwrap();
    flow.give("a", garbage).unwrap();
    assert_eq!(flow.stands("a"), "stuck");
    flow.ask("a").unwrap();
    flow.reply("a", json!({ "decision": "retry", "answer": "try harder" })).unwrap();
    assert_eq!(flow.state.turn(0), Some((2, 1)));
    let told = &flow.state.steps[0].told;
    assert_eq!(told.iter().map(|it| it.answer.clone()).collect::<Vec<_>>(), [json!("try harder")]);
    flow.run("a", true, R::Proceed).unwrap();
    assert_eq!(flow.state.steps[0].told, []);
}

#[test]
fn a_person_lets_a_stuck_step_go_on_or_ends_it() {
    for (decision, stands, outcome) in [
        (json!({ "decision": "continue" }), "done", FlowOutcome::Completed),
        (json!({ "decision": "stop" }), "failed", FlowOutcome::Failed),
    ] {
        let mut flow = Flow::begun(plan(&[step("a", &[], json!({}))])).unwrap();
        flow.run("a", true, R::Escalate).unwrap();
        flow.ask("a").unwrap();
        let nonsense = refused(flow.reply("a", json!("yes")));
        assert!(matches!(nonsense, FlowRefusal::Answer { .. }), "{nonsense:?}");
        flow.reply("a", decision).unwrap();
        assert_eq!(flow.stands("a"), stands);
        flow.submit(FlowCommand::Finish).unwrap();
        assert_eq!(flow.state.outcome, Some(outcome));
    }
}

#[test]
fn an_approval_takes_answers_of_its_form_until_its_deadline() {
    let more = json!({
        "answers": { "choice": ["a", "b", "none"] }, "reject": ["none"], "default": "b",
    });
    let begun = || {
        let mut flow = Flow::begun(plan(&[approval("pick", &[], more.clone())])).unwrap();
        flow.ask("pick").unwrap();
        flow
    };
    let mut flow = begun();
    let wrong = FlowRefusal::Answer { reason: "must be one of: a, b, none".into() };
    assert_eq!(refused(flow.reply("pick", json!("c"))), wrong);
    flow.reply("pick", json!("a")).unwrap();
    assert_eq!(
        (flow.stands("pick"), flow.state.steps[0].answer.clone()),
        ("done", Some(json!("a")))
    );
    let mut flow = begun();
    flow.reply("pick", json!("none")).unwrap();
    assert_eq!(flow.stands("pick"), "failed");
    // Nobody answers: not before the deadline, and then what the plan says.
    let mut flow = begun();
    let question = flow.question("pick");
    let early = refused(flow.submit(FlowCommand::Miss { question: question.clone() }));
    assert_eq!(early, FlowRefusal::TooEarly { id: question.event_id.clone() });
    flow.now += 60_000;
    let late = refused(flow.reply("pick", json!("a")));
    assert_eq!(late, FlowRefusal::TooLate { id: question.event_id.clone() });
    flow.submit(FlowCommand::Miss { question }).unwrap();
    assert_eq!(flow.state.steps[0].answer, Some(json!("b")));
    assert_eq!(flow.stands("pick"), "done");
}

#[test]
fn a_no_leads_back_with_the_persons_words_and_silence_is_a_no_that_stops() {
    let steps =
        [step("write", &[], json!({})), approval("ok", &["write"], json!({ "on_no": "write" }))];
    let mut flow = Flow::begun(plan(&steps)).unwrap();
    flow.run("write", true, R::Proceed).unwrap();
    flow.ask("ok").unwrap();
    flow.reply("ok", json!(false)).unwrap();
    assert_eq!((flow.stands("write"), flow.stands("ok")), ("waiting", "waiting"));
    assert_eq!(flow.state.steps[0].told.len(), 1);
    flow.run("write", true, R::Proceed).unwrap();
    flow.ask("ok").unwrap();
    flow.now += 60_000;
    let question = flow.question("ok");
    flow.submit(FlowCommand::Miss { question }).unwrap();
    assert_eq!(flow.stands("ok"), "failed");
}

#[test]
fn a_recorder_cannot_answer_for_a_person_nor_a_person_for_the_clock() {
    let mut flow = Flow::begun(plan(&[approval("ok", &[], json!({}))])).unwrap();
    flow.ask("ok").unwrap();
    let answer = |channel: &str| json!({ "question": flow.question("ok"), "answer": true, "channel": channel });
    for (role, channel) in [(Role::Recorder, "unprotected-key"), (Role::Operator, "deadline")] {
        let event = flow.event(role, EventType::AnswerGiven, answer(channel));
        let refusal = flow.state.admit(&event).unwrap_err();
        assert!(matches!(refusal, Refusal::Flow(FlowRefusal::Channel { .. })), "{refusal:?}");
    }
}

#[test]
fn a_condition_decides_by_what_is_recorded_whether_a_step_runs_or_is_skipped() {
    let when = json!({ "all": [
        { "step": { "id": "a", "success": true } },
        { "file": { "path": "r.json", "pointer": "/failed", "at_least": 1.0 } },
    ] });
    let steps = [step("a", &[], json!({})), step("fix", &["a"], json!({ "when": when }))];
    let fact = |failed: Value| FileFact {
        path: "r.json".into(),
        pointer: Some("/failed".into()),
        exists: true,
        value: Some(failed),
        missing: None,
    };
    let begun = || {
        let mut flow = Flow::begun(plan(&steps)).unwrap();
        flow.run("a", true, R::Proceed).unwrap();
        flow
    };
    let skip =
        |flow: &mut Flow, facts| flow.submit(FlowCommand::Skip { step: "fix".into(), facts });
    let mut flow = begun();
    assert_eq!(refused(flow.call("fix")), FlowRefusal::FactMissing { step: "fix".into() });
    let called = FlowRefusal::Condition { step: "fix".into(), what: "called" };
    assert_eq!(refused(flow.call_knowing("fix", vec![fact(json!(0))])), called);
    let skipped = FlowRefusal::Condition { step: "fix".into(), what: "skipped" };
    assert_eq!(refused(skip(&mut flow, vec![fact(json!(2))])), skipped);
    flow.call_knowing("fix", vec![fact(json!(2))]).unwrap();
    let mut flow = begun();
    skip(&mut flow, vec![fact(json!(0))]).unwrap();
    flow.submit(FlowCommand::Finish).unwrap();
    assert_eq!(flow.state.outcome, Some(FlowOutcome::Completed));
}

#[test]
fn two_branches_cannot_call_more_often_or_longer_than_the_budget_allows() {
    let steps: Vec<Value> = ["a", "b", "c"].map(|id| step(id, &[], json!({}))).into();
    let mut calls = plan(&steps);
    calls["budget"] = json!({ "calls": 2 });
    let mut flow = Flow::begun(calls).unwrap();
    flow.call("a").unwrap();
    flow.call("b").unwrap();
    let over = FlowRefusal::Budget { step: "c".into(), what: "calls" };
    assert_eq!(refused(flow.call("c")), over);
    flow.give("a", returned(true, R::Proceed)).unwrap();
    flow.give("b", returned(true, R::Proceed)).unwrap();
    flow.submit(FlowCommand::Finish).unwrap();
    assert_eq!(flow.state.outcome, Some(FlowOutcome::Exhausted));

    let mut time = plan(&steps);
    time["budget"] = json!({ "time_seconds": 15 });
    let mut flow = Flow::begun(time).unwrap();
    flow.call("a").unwrap();
    assert_eq!(flow.state.millis_left(), Some(5_000));
    flow.call("b").unwrap();
    assert_eq!((flow.state.millis_left(), flow.state.used_up()), (Some(0), Some("time")));
    let over = FlowRefusal::Budget { step: "c".into(), what: "time" };
    assert_eq!(refused(flow.call("c")), over);
    flow.give("a", returned(true, R::Proceed)).unwrap();
    assert_eq!(flow.state.millis_left(), Some(9_000), "what was not used is there again");
    flow.call("c").unwrap();
}

#[test]
fn a_call_that_was_cut_off_is_another_attempt_and_costs_what_it_took() {
    let mut one = plan(&[step("a", &[], json!({}))]);
    one["budget"] = json!({ "calls": 3, "time_seconds": 20 });
    let mut flow = Flow::begun(one).unwrap();
    flow.call("a").unwrap();
    flow.now += 4_000;
    flow.call("a").unwrap();
    let step = &flow.state.steps[0];
    assert_eq!((step.iteration, step.attempt, step.failures), (1, 2, 0));
    assert_eq!((flow.state.calls, flow.state.spent_millis), (2, 4_000));
    assert_eq!(flow.events[2].payload["interrupted"], json!(true));
}

#[test]
fn files_are_routed_on_only_once_they_are_applied_and_only_within_the_scope() {
    let mut flow = Flow::begun(plan(&[step("a", &[], json!({}))])).unwrap();
    let file = |path: &str| FileChange {
        path: path.to_owned(),
        operation: Operation::Create,
        before: None,
        after: Hash::of(b"x"),
    };
    let with = |path: &str| {
        let mut back = returned(true, R::Proceed);
        back.files = vec![file(path)];
        back
    };
    flow.call("a").unwrap();
    let outside = FlowRefusal::OutsideScope { step: "a".into(), path: "src/x".into() };
    assert_eq!(refused(flow.give("a", with("src/x"))), outside);
    let mut failed = with("out/x");
    failed.success = false;
    failed.recommendation = R::Retry;
    let none = FlowRefusal::NoFiles { step: "a".into() };
    assert_eq!(refused(flow.give("a", failed)), none);
    flow.give("a", with("out/x")).unwrap();
    let StepPhase::Applying { answer, .. } = flow.phase("a").clone() else { panic!() };
    let applied = |refused: Option<&str>| FlowCommand::Applied {
        answer: answer.clone(),
        refused: refused.map(str::to_owned),
        kept: Vec::new(),
    };
    let mut other = flow.clone();
    other.submit(applied(Some("`out/x` changed"))).unwrap();
    assert_eq!(other.state.turn(0), Some((1, 2)), "a conflict is another attempt");
    assert!(other.state.written.is_empty());
    flow.submit(applied(None)).unwrap();
    assert_eq!((flow.stands("a"), flow.state.written.len()), ("done", 1));
}

#[test]
fn without_a_feature_only_the_step_that_gives_it_runs() {
    let steps = [
        step("scaffold", &[], json!({ "scaffold": true, "writes": ["specs/{feature_id}/**"] })),
        step("write", &["scaffold"], json!({})),
        step("aside", &[], json!({})),
    ];
    let mut flow = Flow::begun_for(plan(&steps), None).unwrap();
    assert_eq!(refused(flow.call("aside")), FlowRefusal::NoFeature { step: "aside".into() });
    flow.call("scaffold").unwrap();
    let without = refused(flow.give("scaffold", returned(true, R::Proceed)));
    assert_eq!(without, FlowRefusal::NoFeature { step: "scaffold".into() });
    let mut back = returned(true, R::Proceed);
    back.feature_id = Some("006".to_owned());
    back.files = vec![FileChange {
        path: "specs/006/a.md".into(),
        operation: Operation::Create,
        before: None,
        after: Hash::of(b"x"),
    }];
    flow.give("scaffold", back).unwrap();
    assert_eq!(flow.state.feature_id.as_deref(), Some("006"));
}

#[test]
fn one_failed_branch_does_not_stop_the_other() {
    let steps = [
        step("a", &[], json!({ "on_escalate": "stop" })),
        step("after-a", &["a"], json!({})),
        step("b", &[], json!({})),
        step("after-b", &["b"], json!({})),
    ];
    let mut flow = Flow::begun(plan(&steps)).unwrap();
    flow.run("a", false, R::Escalate).unwrap();
    assert_eq!(flow.state.due_outcome(), None);
    flow.run("b", true, R::Proceed).unwrap();
    flow.run("after-b", true, R::Proceed).unwrap();
    assert_eq!(flow.state.due_outcome(), Some(FlowOutcome::Failed));
    assert_eq!(flow.stands("after-a"), "waiting");
}

#[test]
fn a_plan_that_cannot_be_carried_out_is_refused() {
    let table = [
        (plan(&[]), PlanFault::Steps(0)),
        (
            plan(&[step("a", &[], json!({})), step("a", &[], json!({}))]),
            PlanFault::Twice("a".into()),
        ),
        (plan(&[step("self", &[], json!({}))]), PlanFault::Reserved("self".into())),
        (
            plan(&[step("a", &["b"], json!({}))]),
            PlanFault::Unknown { step: "a".into(), named: "b".into() },
        ),
        (
            plan(&[step("a", &["b"], json!({})), step("b", &["a"], json!({}))]),
            PlanFault::Circle("a".into()),
        ),
        (
            plan(&[step("a", &[], json!({ "on_retry": "b" })), step("b", &["a"], json!({}))]),
            PlanFault::NotBefore { step: "a".into(), to: "b".into() },
        ),
        (
            plan(&[
                step("plan", &[], json!({})),
                step("write", &["plan"], json!({})),
                step("check", &["write"], json!({ "on_retry": "write" })),
                step("audit", &["write"], json!({ "on_retry": "plan" })),
            ]),
            PlanFault::Overlap("check".into()),
        ),
        (plan(&[step("a", &[], json!({ "attempts": 0 }))]), PlanFault::NoBound("a".into())),
    ];
    for (plan, fault) in table {
        let refusal = Flow::begun(plan).unwrap_err();
        assert_eq!(refusal, Refusal::Flow(FlowRefusal::Plan(fault)));
    }
}
