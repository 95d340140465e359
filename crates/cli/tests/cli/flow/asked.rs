//! Questions: approvals, escalations, answers, deadlines.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{events, flow, ran, recommends, run, says, workspace, writes};
use crate::place::Place;
use crate::verify::approvals;

/// Starts `flow.toml`, and answers its questions one after the other.
fn answered(place: &Place, answers: &[&[&str]]) -> super::Ran {
    let mut command = place.command(&["flow", "run", "flow.toml", "--json"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    for arguments in answers {
        let question = waiting(place);
        let id = question["id"].as_str().unwrap();
        let given = place.run(&[&["approve", id][..], arguments].concat());
        assert_eq!(given.code, 0, "{given}");
    }
    let output = child.wait_with_output().unwrap();
    let screen = crate::binary::Screen {
        code: output.status.code().unwrap(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    ran(place, screen)
}

/// The question that waits, as soon as one does.
fn waiting(place: &Place) -> Value {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let listed = place.run(&["approve", "--json"]);
        let questions: Value = serde_json::from_str(listed.stdout()).unwrap();
        if let Some(question) = questions.as_array().and_then(|all| all.first()) {
            return question.clone();
        }
        assert!(Instant::now() < until, "{listed}");
    }
}

#[test]
fn an_escalation_reaches_a_person_and_the_answer_reaches_the_agent() {
    let place = workspace();
    let mut stuck = writes(&[("out/draft.md", "draft")]);
    stuck["recommendation"] = json!("escalate");
    stuck["summary"] = json!("Which database?");
    stuck["notes"] = json!(["C1.1: Postgres or SQLite"]);
    says(&place, "ask", &stuck);
    says(&place, "ask-2", &recommends(true, "proceed", &[]));
    flow(
        &place,
        "[[steps]]\nid = \"ask\"\nagent = \"a\"\naction = \"ask\"\nwrites = [\"out/**\"]\n",
    );
    let ran = answered(&place, &[&["--answer", "Postgres", "--reason", "we run it already"]]);
    assert_eq!((ran.screen.code, ran.outcome()), (0, "completed"), "{}", ran.screen);
    // What came with the question was written before it was asked.
    assert_eq!(std::fs::read_to_string(place.path().join("out/draft.md")).unwrap(), "draft");
    let asked = ran.of("step_escalated")[0];
    assert_eq!(asked["question"], json!("Which database?\n- C1.1: Postgres or SQLite"));
    let given = ran.of("answer_given")[0];
    assert_eq!(
        (&given["answer"], &given["channel"], &given["reason"]),
        (
            &json!({ "decision": "retry", "answer": "Postgres" }),
            &json!("unprotected-key"),
            &json!("we run it already"),
        )
    );
    let answers = &ran.input(&place, 1)["task"]["params"]["answers"];
    assert_eq!(answers, &json!([{ "question": asked["question"], "answer": "Postgres" }]));
    ran.holds(&place, 0);
}

#[test]
fn typed_answers_are_checked_and_a_no_leads_back() {
    let place = workspace();
    says(&place, "write", &recommends(true, "proceed", &["written"]));
    says(&place, "ship", &recommends(true, "proceed", &[]));
    flow(
        &place,
        "[[steps]]\nid = \"write\"\nagent = \"a\"\naction = \"write\"\nmax_iterations = 3\n\
         [[steps]]\nid = \"pick\"\nneeds = [\"write\"]\n\
         approval = { question = \"which?\", answers = [\"fast\", \"safe\", \"none\"], \
         reject = [\"none\"], on_no = \"write\" }\n\
         [[steps]]\nid = \"ship\"\nagent = \"a\"\naction = \"ship\"\nneeds = [\"pick\"]\n\
         when = { step = \"pick\", answer = \"safe\" }\n",
    );
    let ran = answered(&place, &[&["--answer", "none"], &["--answer", "safe"]]);
    assert_eq!((ran.screen.code, ran.outcome()), (0, "completed"), "{}", ran.screen);
    assert_eq!(ran.called(), ["write#1", "write#2", "ship#1"]);
    let told = |call: usize| ran.input(&place, call)["task"]["params"]["answers"].clone();
    assert_eq!(told(1), json!([{ "question": "which?", "answer": "none" }]));
    assert_eq!(told(2), json!([{ "id": "pick", "question": "which?", "answer": "safe" }]));
    assert_eq!(ran.input(&place, 2)["prior_context"], json!(["written"]));
    ran.holds(&place, 0);
    // Of the two words one is a no, for whoever verifies and for whoever reads of the period.
    assert_eq!(approvals(&place, &ran.trace)["unprotected_key"], json!(1));
    let told = place.run(&["report", "--from", "2020-01-01", "--to", "2100-01-01", "--json"]);
    let told = told.answer();
    let said = |list: &str| {
        let rows = told[list]["rows"].as_array().unwrap();
        rows.iter().map(|row| row["reasons"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (said("denials"), said("approvals")),
        (vec![json!(["none"])], vec![json!(["safe"])])
    );
}

#[test]
fn a_yes_to_a_flow_is_counted_as_an_approval_and_a_no_is_not() {
    let place = workspace();
    let mut stuck = recommends(true, "escalate", &[]);
    stuck["summary"] = json!("go on?");
    says(&place, "ask", &stuck);
    flow(
        &place,
        "[[steps]]\nid = \"one\"\napproval = { question = \"one?\", on_no = \"continue\" }\n\
         [[steps]]\nid = \"two\"\nneeds = [\"one\"]\napproval = { question = \"two?\" }\n\
         [[steps]]\nid = \"ask\"\nneeds = [\"two\"]\nagent = \"a\"\naction = \"ask\"\n",
    );
    let ran = answered(&place, &[&["--no"], &["--yes"], &["--no"]]);
    assert_eq!(ran.of("answer_given")[2]["answer"], json!({ "decision": "stop" }));
    let counted = json!({
        "protected_key": 0, "unprotected_key": 1, "client_prompt": 0, "unstated": 0
    });
    assert_eq!(approvals(&place, &ran.trace), counted);
    let told = place.run(&["verify", &ran.trace, "--no-write"]);
    let line = "\napprovals: 1 with an unprotected key (an agent under the same user could have \
                used it)\n";
    assert!(told.stdout().contains(line), "{told}");
}

#[test]
fn an_answer_of_the_wrong_form_is_refused_with_the_right_ones() {
    let place = workspace();
    flow(
        &place,
        "[[steps]]\nid = \"n\"\napproval = { question = \"how many?\", answers = \"number\" }\n",
    );
    let mut command = place.command(&["flow", "run", "flow.toml", "--json"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let question = waiting(&place);
    let id = question["id"].as_str().unwrap();
    for (arguments, code, said) in [
        (["--answer", "many"], 3, "the answer must be a number"),
        (["--yes", "--reason=x"], 3, "must be a number"),
    ] {
        let given = place.run(&[&["approve", id][..], &arguments].concat());
        assert!(given.code == code && given.stderr.contains(said), "{given}");
    }
    let given = place.run(&["approve", id, "--answer", "3"]);
    assert_eq!(given.code, 0, "{given}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let trace = question["trace_id"].as_str().unwrap();
    let answer = events(&place, trace).into_iter().find(|it| it["event_type"] == "answer_given");
    assert_eq!(answer.unwrap()["payload"]["answer"], json!(3));
}

#[test]
fn silence_is_a_no_unless_the_flow_says_otherwise_and_a_reminder_comes_before() {
    let place = workspace();
    for (default, outcome) in [("", "failed"), ("default = true,", "completed")] {
        flow(
            &place,
            &format!(
                "[[steps]]\nid = \"ok\"\napproval = {{ question = \"ship?\", {default} \
                 deadline_seconds = 2, reminder_seconds = 1 }}\n"
            ),
        );
        let ran = run(&place);
        assert_eq!(ran.outcome(), outcome, "{}", ran.screen);
        assert_eq!(ran.of("answer_given")[0]["channel"], json!("deadline"));
        assert!(ran.screen.stderr.contains("reminder: ship?"), "{}", ran.screen);
        ran.holds(&place, 0);
    }
}
