//! What a task file means.

use std::collections::BTreeMap;

use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_protocol::session::Confidence;
use countersign_runtime::task::{
    Action, AgentKind, AgentSpec, ClaimTemplate, EvidenceSource, IsolationLevel, Limits,
    PolicyProfile, SandboxWish, Step, Task, TaskPolicy,
};
use countersign_runtime::tools::ToolCall;

use crate::LEAST;

/// Every key, and most of the forms in which TOML lets them be written.
pub(crate) const WHOLE: &str = r#"# A task with everything.
task_id = "fix-parser.2"
objective = """
Make the parser accept cafe\u0301
"""
input_artifacts = ["README.md", ".claude/skills/x.md"]
constraints = ["keep the public API", 'no new dependency']
policy_profile = "strict"
requested_roles = ["planner", "critic", "executor"]
tags = ["parser"]

[limits]
time_seconds = 7_200
tool_calls = 50
tool_seconds = 0x3c
output_bytes = 1048576
memory_bytes = 2_147_483_648
parallel = 32

[sandbox]
require = "full"
network = true
write = ["/var/cache/build/", "/opt/out"]
pass_env = ["CARGO_HOME", "_X1"]

[policy]
fallbacks = false
revisions = 0
min_evidence = 2
question_seconds = 0
agent_tries = 10

[agents]
executor = { kind = "built-in", time_seconds = 1 }

[agents.planner]
kind = "prompt"
command = ["my-model", "--flag", ""]
time_seconds = 60
output_bytes = 1000
pass_env = ["API_KEY"]

[agents.critic]
kind = "command"
command = ["./critic.py"]

[[steps]]
id = "build"
objective = "Build it"
assumptions = ["a compiler is there"]
expected_evidence = ["the log of the build"]

[[steps.actions]]
tool = "exec"
argv = ["make", "all", ""]
cwd = "src/core"
env = { CC = "clang", "weird name" = "" }
stdin = "yes\u0000\n"
risk = "critical"
justification = "the only way"
idempotent = true
retries = 10
success = [0, 3, -15]

[[steps.actions]]
tool = "exec"
shell = "make check | tee log"

[[steps.claims]]
text = "It builds"
confidence = "medium"
evidence = ["stdout", "input"]

[[steps.claims]]
text = "It is checked"

[[steps]]
id = "write"
objective = "Write it down"
after = ["build"]
actions = [
    { tool = "file_read", path = "notes.md" },
    { tool = "file_write", path = "notes.md", content = "", idempotent = true },
    { tool = "file_delete", path = "old notes.md" },
]

[[steps]]
id = "write-elsewhere"
objective = "Say it otherwise"
after = ["build"]
fallback_for = "write"
[[steps.actions]]
tool = "file_write"
path = "other.md"
content = "x"
risk = "low"
"#;

fn strings<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
}

fn exec<const N: usize>(argv: [&str; N]) -> ToolCall {
    let env = BTreeMap::new();
    ToolCall::Exec { argv: strings(argv), shell: None, cwd: None, env, stdin: None }
}

fn usual(call: ToolCall, justification: &str) -> Action {
    Action {
        risk: call.usual_risk(),
        justification: justification.to_owned(),
        idempotent: matches!(call, ToolCall::FileRead { .. }),
        retries: 0,
        success: vec![0],
        call,
    }
}

fn step(id: &str, objective: &str, actions: Vec<Action>) -> Step {
    Step {
        id: id.to_owned(),
        objective: objective.to_owned(),
        assumptions: Vec::new(),
        expected_evidence: Vec::new(),
        after: Vec::new(),
        fallback_for: None,
        actions,
        claims: Vec::new(),
    }
}

fn least() -> Task {
    Task {
        task_id: "t".to_owned(),
        objective: "o".to_owned(),
        input_artifacts: Vec::new(),
        constraints: Vec::new(),
        policy_profile: PolicyProfile::Default,
        requested_roles: vec![Role::Planner, Role::Executor, Role::Critic, Role::Auditor],
        tags: Vec::new(),
        limits: Limits {
            time_seconds: 3600,
            tool_calls: 1000,
            tool_seconds: 600,
            output_bytes: 8 * 1024 * 1024,
            memory_bytes: 4 * 1024 * 1024 * 1024,
            parallel: 4,
        },
        sandbox: SandboxWish {
            require: IsolationLevel::None,
            network: false,
            write: Vec::new(),
            pass_env: Vec::new(),
        },
        policy: TaskPolicy {
            fallbacks: true,
            revisions: 1,
            min_evidence: 1,
            question_seconds: 300,
            agent_tries: 2,
        },
        agents: BTreeMap::new(),
        steps: vec![step("s", "so", vec![usual(exec(["true"]), "so")])],
    }
}

fn whole_steps() -> Vec<Step> {
    let make = ToolCall::Exec {
        argv: strings(["make", "all", ""]),
        shell: None,
        cwd: Some("src/core".to_owned()),
        env: [("CC", "clang"), ("weird name", "")].map(|(k, v)| (k.into(), v.into())).into(),
        stdin: Some("yes\0\n".to_owned()),
    };
    let make = Action {
        call: make,
        risk: RiskClass::Critical,
        justification: "the only way".to_owned(),
        idempotent: true,
        retries: 10,
        success: vec![0, 3, -15],
    };
    let check = ToolCall::Exec {
        argv: Vec::new(),
        shell: Some("make check | tee log".to_owned()),
        cwd: None,
        env: BTreeMap::new(),
        stdin: None,
    };
    let path = |path: &str| path.to_owned();
    let read = ToolCall::FileRead { path: path("notes.md") };
    let write = ToolCall::FileWrite { path: path("notes.md"), content: String::new() };
    let delete = ToolCall::FileDelete { path: path("old notes.md") };
    let other = ToolCall::FileWrite { path: path("other.md"), content: "x".to_owned() };
    let claims = vec![
        ClaimTemplate {
            text: "It builds".to_owned(),
            confidence: Confidence::Medium,
            evidence: vec![EvidenceSource::Stdout, EvidenceSource::Input],
        },
        ClaimTemplate {
            text: "It is checked".to_owned(),
            confidence: Confidence::High,
            evidence: vec![EvidenceSource::Stdout, EvidenceSource::Stderr, EvidenceSource::Output],
        },
    ];
    let why = "Write it down";
    let write = Action { idempotent: true, ..usual(write, why) };
    let other = Action { risk: RiskClass::Low, ..usual(other, "Say it otherwise") };
    vec![
        Step {
            assumptions: strings(["a compiler is there"]),
            expected_evidence: strings(["the log of the build"]),
            claims,
            ..step("build", "Build it", vec![make, usual(check, "Build it")])
        },
        Step {
            after: strings(["build"]),
            ..step("write", why, vec![usual(read, why), write, usual(delete, why)])
        },
        Step {
            after: strings(["build"]),
            fallback_for: Some("write".to_owned()),
            ..step("write-elsewhere", "Say it otherwise", vec![other])
        },
    ]
}

#[test]
fn a_whole_task_file_is_read_as_it_was_meant() {
    let planner = AgentSpec {
        kind: AgentKind::Prompt,
        command: strings(["my-model", "--flag", ""]),
        time_seconds: 60,
        output_bytes: 1000,
        pass_env: strings(["API_KEY"]),
    };
    let built_in = AgentSpec {
        kind: AgentKind::BuiltIn,
        command: Vec::new(),
        time_seconds: 300,
        output_bytes: 4 * 1024 * 1024,
        pass_env: Vec::new(),
    };
    let critic = AgentSpec {
        kind: AgentKind::Command,
        command: strings(["./critic.py"]),
        ..built_in.clone()
    };
    let executor = AgentSpec { time_seconds: 1, ..built_in.clone() };
    let expected = Task {
        task_id: "fix-parser.2".to_owned(),
        objective: "Make the parser accept café".to_owned(),
        input_artifacts: strings(["README.md", ".claude/skills/x.md"]),
        constraints: strings(["keep the public API", "no new dependency"]),
        policy_profile: PolicyProfile::Strict,
        requested_roles: vec![Role::Planner, Role::Critic, Role::Executor],
        tags: strings(["parser"]),
        limits: Limits {
            time_seconds: 7200,
            tool_calls: 50,
            tool_seconds: 60,
            output_bytes: 1 << 20,
            memory_bytes: 2 << 30,
            parallel: 32,
        },
        sandbox: SandboxWish {
            require: IsolationLevel::Full,
            network: true,
            write: strings(["/var/cache/build", "/opt/out"]),
            pass_env: strings(["CARGO_HOME", "_X1"]),
        },
        policy: TaskPolicy {
            fallbacks: false,
            revisions: 0,
            min_evidence: 2,
            question_seconds: 0,
            agent_tries: 10,
        },
        agents: [(Role::Planner, planner), (Role::Critic, critic), (Role::Executor, executor)]
            .into(),
        steps: whole_steps(),
    };
    let task = Task::parse(WHOLE).unwrap();
    assert_eq!(task, expected);
    assert_eq!(task.agent(Role::Auditor), built_in);
    assert_eq!(Task::from_bytes(WHOLE.replace('\n', "\r\n").as_bytes()), Ok(expected));
}

#[test]
fn what_is_not_said_has_its_usual_value() {
    assert_eq!(Task::parse(LEAST), Ok(least()));
    let empty = "input_artifacts = []\nconstraints = []\ntags = []\n";
    let tables = "[limits]\n[sandbox]\n[policy]\n[agents]\n";
    assert_eq!(Task::parse(&format!("{empty}{LEAST}{tables}")), Ok(least()));
}

#[test]
fn steps_may_be_absent_if_the_planner_thinks_for_itself() {
    for kind in ["command", "prompt"] {
        let planner = format!("[agents.planner]\nkind = \"{kind}\"\ncommand = [\"x\"]\n");
        let task = Task::parse(&format!("task_id = \"t\"\nobjective = \"o\"\n{planner}")).unwrap();
        assert_eq!(task.steps, []);
        Task::parse(&format!("task_id = \"t\"\nobjective = \"o\"\nsteps = []\n{planner}")).unwrap();
    }
}

#[test]
fn text_is_normalised_and_what_tools_get_is_not() {
    let text = LEAST.replace("\"so\"", "\"cafe\u{301}\"").replace("true", "cafe\u{301}");
    let task = Task::parse(&text).unwrap();
    assert_eq!(task.steps[0], step("s", "café", vec![usual(exec(["cafe\u{301}"]), "café")]));
}

#[test]
fn the_example_of_the_format_page_is_valid() {
    let page = include_str!("../../../../docs/formats/task.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let task = Task::parse(example).unwrap();
    assert_eq!(
        task.steps.iter().map(|step| step.id.as_str()).collect::<Vec<_>>(),
        ["test", "note"]
    );
}
