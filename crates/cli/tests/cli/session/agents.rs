//! Agents that are programs, good ones and bad ones.

use serde_json::json;

use super::stage::Stage;

/// Reads the request and answers with what `answers` holds for its action, else with an empty list.
const ANSWERING: &str = r#"
import json, sys
request = json.load(sys.stdin)
action, params = request["task"]["action"], request["task"]["params"]
def answer(value):
    json.dump({"success": True, "summary": "done", "recommendation": "proceed", "artifacts": [
        {"path": params["answer_file"], "operation": "create", "content": json.dumps(value)}]},
        sys.stdout)
"#;

const STEP: &str = r#"
[[steps]]
id = "only"
objective = "Say hello"
actions = [{ tool = "exec", argv = ["echo", "hello"] }]
claims = [{ text = "Hello was said", evidence = ["stdout"] }]
"#;

/// A session whose `role` is played by this Python program.
fn with_agent(stage: &Stage, role: &str, program: &str, more: &str) -> crate::binary::Screen {
    stage.write("agent.py", &format!("{ANSWERING}{program}"));
    stage.run_task(&format!(
        r#"
        task_id = "outside"
        objective = "Have somebody else do it"
        policy = {{ agent_tries = 1 }}
        agents.{role} = {{ kind = "command", command = ["python3", "agent.py"], {more} }}
        {STEP}
        "#
    ))
}

/// What is recorded of an agent that fails.
fn failure(stage: &Stage) -> String {
    let failed = &stage.payloads("session_failed")[0];
    assert_eq!(failed["failure_code"], "AGENT_FAILED");
    assert_eq!(stage.verify().code, 0);
    failed["reason"].as_str().unwrap().to_owned()
}

#[test]
fn an_agent_that_prints_nonsense_is_a_recorded_failure_with_what_it_printed() {
    let stage = Stage::new();
    let screen =
        with_agent(&stage, "planner", "print('hello'); print('oops', file=sys.stderr)", "");
    assert_eq!(screen.code, 3, "{screen}");
    let reason = failure(&stage);
    assert!(reason.starts_with("the planner printed no output envelope: "), "{reason}");
    let event = stage.events().pop().unwrap();
    let kept: Vec<String> = event["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|artifact| stage.text(&artifact["artifact_hash"]))
        .collect();
    assert_eq!(&kept[1..], ["hello\n", "oops\n"]);
}

#[test]
fn an_agent_that_dies_is_a_recorded_failure() {
    let stage = Stage::new();
    let screen = with_agent(&stage, "critic", "sys.exit(9)", "");
    assert_eq!(screen.code, 3, "{screen}");
    assert_eq!(failure(&stage), "the critic did not answer: ended with status 9");
}

#[test]
fn an_agent_that_hangs_is_ended_and_is_a_recorded_failure() {
    let stage = Stage::new();
    let screen = with_agent(&stage, "executor", "import time; time.sleep(600)", "time_seconds = 1");
    assert_eq!(screen.code, 3, "{screen}");
    assert_eq!(failure(&stage), "the executor did not answer: no end within 1 s");
}

#[test]
fn an_agent_that_prints_too_much_is_a_recorded_failure() {
    let stage = Stage::new();
    let program = "sys.stdout.write('x' * 3_000_000)";
    let screen = with_agent(&stage, "planner", program, "output_bytes = 1000000");
    assert_eq!(screen.code, 3, "{screen}");
    let reason = failure(&stage);
    assert_eq!(reason, "the planner printed 3000000 bytes, which is more than it may");
}

#[test]
fn an_agent_that_answers_in_another_form_is_asked_again_and_both_are_recorded() {
    let stage = Stage::new();
    stage.write("agent.py", &format!("{ANSWERING}answer({{'steps': []}})"));
    let screen = stage.run_task(
        r#"
        task_id = "outside"
        objective = "Have somebody else do it"
        agents.planner = { kind = "command", command = ["python3", "agent.py"] }
        "#,
    );
    assert_eq!(screen.code, 3, "{screen}");
    assert_eq!(
        stage.story(),
        ["planner session_initialized", "executor artifact_recorded", "recorder session_failed",]
    );
    let reason = failure(&stage);
    assert!(reason.starts_with("the planner gave an answer of another form: "), "{reason}");
}

#[test]
fn an_executor_that_ignores_a_condition_breaks_a_rule_and_runs_nothing() {
    let stage = Stage::new();
    let program = r#"
if action == "act":
    answer([{"tool": "exec", "argv": ["touch", "made"], "justification": "why not"}])
"#;
    stage.write("agent.py", &format!("{ANSWERING}{program}"));
    let screen = stage.run_task(&format!(
        r#"
        task_id = "outside"
        objective = "Have somebody else do it"
        constraints = ["nothing is made"]
        agents.executor = {{ kind = "command", command = ["python3", "agent.py"] }}
        {STEP}
        "#
    ));
    assert_eq!(screen.code, 3, "{screen}");
    let failed = &stage.payloads("session_failed")[0];
    assert_eq!(failed["failure_code"], "RULE_BROKEN");
    assert_eq!(
        failed["reason"],
        "the executor wanted what the rules forbid: the intent does not acknowledge the condition \
         `constraint-1` of the proposal at 1"
    );
    assert!(!stage.path("made").exists());
    assert_eq!(stage.verify().code, 0);
}

#[test]
fn a_critic_can_block_an_intent_that_it_let_pass_as_a_proposal() {
    let stage = Stage::new();
    let program = r#"
if action == "review_proposals":
    answer([{"subject": p["id"], "decision": "approved"} for p in params["proposals"]])
elif action == "review_intent":
    answer({"decision": "blocked", "reasons": ["not on my watch"]})
"#;
    let screen = with_agent(&stage, "critic", program, "");
    assert_eq!(screen.code, 3, "{screen}");
    let review = &stage.payloads("tool_intent_reviewed")[0];
    assert_eq!(
        (&review["decision"], &review["reasons"]),
        (&json!("blocked"), &json!(["not on my watch"]))
    );
    assert_eq!(stage.payloads("tool_execution_started"), Vec::<serde_json::Value>::new());
    assert_eq!(stage.verify().code, 0);
}

#[test]
fn a_doubted_claim_is_superseded_and_the_final_statement_says_so() {
    let stage = Stage::new();
    stage.write(
        "critic.py",
        &format!(
            r#"{ANSWERING}
if action == "review_proposals":
    answer([{{"subject": p["id"], "decision": "approved"}} for p in params["proposals"]])
elif action == "review_intent":
    answer({{"decision": "approved"}})
elif action == "review_claims":
    answer([{{"claim_id": params["claims"][0]["claim_id"], "reason": "too bold"}}])
"#
        ),
    );
    stage.write(
        "executor.py",
        &format!(
            r#"{ANSWERING}
if action == "act":
    answer(params["step"]["actions"])
elif action in ("claim", "answer_doubts"):
    ran = params["outcomes"][0]["executions"][0]
    claim = {{"text": "Hello was certainly said", "executions": [ran["execution"]],
             "evidence": [ran["stdout"]["hash"]]}}
    if action == "claim":
        answer([claim])
    else:
        claim.update(text="The word hello was printed", confidence="medium",
                     supersedes=params["claims"][0]["claim_id"])
        answer({{"claims": [claim], "resolutions": []}})
"#
        ),
    );
    let screen = stage.run_task(&format!(
        r#"
        task_id = "outside"
        objective = "Have somebody else do it"
        [agents.critic]
        kind = "command"
        command = ["python3", "critic.py"]
        [agents.executor]
        kind = "command"
        command = ["python3", "executor.py"]
        {STEP}
        "#
    ));
    assert_eq!(screen.code, 0, "{screen}");
    let claims = stage.payloads("claim_issued");
    assert_eq!(claims[1]["supersedes"], claims[0]["claim_id"]);
    assert_eq!(stage.payloads("claim_challenged")[0]["reason"], "too bold");
    let statement = &stage.payloads("final_statement_signed")[0];
    assert_eq!(statement["consolidated_claim_ids"], json!([claims[1]["claim_id"]]));
    assert_eq!(
        statement["claim_resolutions"],
        json!([{ "claim_id": claims[0]["claim_id"], "status": "superseded" }])
    );
    assert_eq!(stage.verify().code, 0);
}

#[test]
fn a_coding_agent_is_prompted_with_text_and_its_envelope_is_found_in_what_it_prints() {
    let stage = Stage::new();
    stage.write(
        "coder.py",
        r#"
import json, re, sys
prompt = sys.stdin.read()
request = json.loads(re.search(r"```json\n(.*?)\n```", prompt, re.S).group(1))
assert "You play the role of the planner" in prompt
plan = [{"id": "greet", "objective": "Say hello", "actions":
         [{"tool": "exec", "argv": ["echo", "hello"]}], "claims": [{"text": "Hello was said"}]}]
print("Sure! Here is my plan {as asked}:\n```json")
print(json.dumps({"success": True, "summary": "planned", "recommendation": "proceed", "artifacts": [
    {"path": request["task"]["params"]["answer_file"], "operation": "create",
     "content": json.dumps(plan)}]}))
print("```\nAnything else?")
"#,
    );
    let screen = stage.run_task(
        r#"
        task_id = "prompted"
        objective = "Have a model plan"
        agents.planner = { kind = "prompt", command = ["python3", "coder.py"] }
        "#,
    );
    assert_eq!(screen.code, 0, "{screen}");
    assert_eq!(stage.payloads("proposal_created")[0]["proposal_id"], "greet");
    let kinds: Vec<_> = stage.payloads("session_initialized")[0]["participants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (one["role"].as_str().unwrap().to_owned(), one["kind"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(
        kinds,
        [
            ("planner", "prompt"),
            ("executor", "built-in"),
            ("critic", "built-in"),
            ("auditor", "built-in")
        ]
        .map(|(role, kind)| (role.to_owned(), kind.to_owned()))
    );
    assert_eq!(stage.verify().code, 0);
}
