//! The task of one command: proof that it ran, and what it printed.

use std::collections::BTreeMap;

use countersign_format::id::NAME_BYTES_MAX;
use countersign_format::text;

use countersign_protocol::session::Confidence;

use super::choice::{EvidenceSource, PolicyProfile};
use super::{Action, ClaimTemplate, Limits, SandboxWish, Step, Task, TaskPolicy, agents};
use crate::tools::{ToolCall, typed};

/// Characters of a command that are shown; what ran is in the intent, whole.
const SHOWN_CHARS_MAX: usize = 1000;

impl Task {
    /// The task of running one command and claiming that it ended with exit status 0.
    ///
    /// Whether the command can be run at all is for [`ToolCall::check`] to say.
    #[must_use]
    pub fn for_command(argv: Vec<String>, cwd: Option<String>) -> Self {
        let shown = shown(&argv);
        let objective = format!("Run `{shown}`");
        let claim = ClaimTemplate {
            text: format!("The command `{shown}` ran and ended with exit status 0"),
            confidence: Confidence::High,
            evidence: EvidenceSource::OUTPUTS.to_vec(),
        };
        let task_id = task_id(argv.first().map(String::as_str).unwrap_or_default());
        let call = ToolCall::Exec { argv, shell: None, cwd, env: BTreeMap::new(), stdin: None };
        let action = Action {
            risk: call.usual_risk(),
            justification: objective.clone(),
            idempotent: false,
            retries: 0,
            success: vec![0],
            call,
        };
        let step = Step {
            id: "run".to_owned(),
            objective: objective.clone(),
            assumptions: Vec::new(),
            expected_evidence: vec!["standard output and standard error".to_owned()],
            after: Vec::new(),
            fallback_for: None,
            actions: vec![action],
            claims: vec![claim],
        };
        Self {
            task_id,
            objective,
            input_artifacts: Vec::new(),
            constraints: Vec::new(),
            policy_profile: PolicyProfile::Default,
            requested_roles: agents::ROLES.to_vec(),
            tags: Vec::new(),
            limits: Limits::default(),
            sandbox: SandboxWish::default(),
            policy: TaskPolicy::default(),
            agents: BTreeMap::new(),
            steps: vec![step],
        }
    }
}

impl Task {
    /// The file that describes the task of one command, so that it can be kept and read again.
    #[must_use]
    pub fn command_text(&self) -> String {
        let mut text = format!(
            "task_id = {}\nobjective = {}\n\n[limits]\ntool_seconds = {}\ntime_seconds = {}\n\n\
             [sandbox]\nrequire = {}\nnetwork = {}\nwrite = {}\npass_env = {}\n",
            quoted(&self.task_id),
            quoted(&self.objective),
            self.limits.tool_seconds,
            self.limits.time_seconds,
            quoted(self.sandbox.require.as_str()),
            self.sandbox.network,
            list(&self.sandbox.write),
            list(&self.sandbox.pass_env),
        );
        for step in &self.steps {
            text.push_str(&format!(
                "\n[[steps]]\nid = {}\nobjective = {}\nexpected_evidence = {}\n",
                quoted(&step.id),
                quoted(&step.objective),
                list(&step.expected_evidence),
            ));
            for action in &step.actions {
                if let ToolCall::Exec { argv, cwd, .. } = &action.call {
                    text.push_str(&format!(
                        "\n[[steps.actions]]\ntool = \"exec\"\nargv = {}\n",
                        list(argv)
                    ));
                    if let Some(cwd) = cwd {
                        text.push_str(&format!("cwd = {}\n", quoted(cwd)));
                    }
                }
            }
            for claim in &step.claims {
                text.push_str(&format!("\n[[steps.claims]]\ntext = {}\n", quoted(&claim.text)));
            }
        }
        text
    }
}

/// A string as TOML and JSON both write it.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    // JSON leaves this one as it is, TOML does not take it.
    json.replace('\u{7f}', "\\u007F")
}

fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// `run-` and what the name of the program leaves when it is written as an identifier.
fn task_id(program: &str) -> String {
    let name = program.rsplit('/').find(|name| !name.is_empty()).unwrap_or("command");
    let reduced = name.chars().map(|c| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9' | '_' | '.') => c,
        _ => '-',
    });
    format!("run-{}", reduced.collect::<String>()).chars().take(NAME_BYTES_MAX).collect()
}

/// The command as it would be typed, in a form that may stand in an event.
fn shown(argv: &[String]) -> String {
    let typed = argv.iter().map(|entry| typed(entry)).collect::<Vec<_>>().join(" ");
    let plain = |c: char| match text::check(c.encode_utf8(&mut [0; 4])) {
        Err(text::TextFault::Noncharacter(_)) => char::REPLACEMENT_CHARACTER,
        _ => c,
    };
    let mut shown: String = typed.chars().map(plain).take(SHOWN_CHARS_MAX).collect();
    if typed.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    text::to_nfc(&shown)
}

#[cfg(test)]
mod tests {
    use countersign_format::id::is_name;

    use super::*;

    fn task(argv: &[&str]) -> Task {
        Task::for_command(argv.iter().map(|&entry| entry.to_owned()).collect(), None)
    }

    #[test]
    fn a_command_is_a_task_with_one_step() {
        let file = r#"
            task_id = "run-cargo"
            objective = "Run `cargo test`"
            [[steps]]
            id = "run"
            objective = "Run `cargo test`"
            expected_evidence = ["standard output and standard error"]
            actions = [{ tool = "exec", argv = ["/usr/bin/cargo", "test"] }]
            claims = [{ text = "The command `cargo test` ran and ended with exit status 0" }]
        "#;
        let file = file.replace("`cargo test`", "`/usr/bin/cargo test`");
        assert_eq!(Ok(task(&["/usr/bin/cargo", "test"])), Task::parse(&file));
        assert_eq!(task(&["cargo", "test"]).objective, "Run `cargo test`");
    }

    #[test]
    fn the_task_of_a_command_can_be_kept_as_a_file() {
        for argv in [&["cargo", "test"][..], &["sh", "-c", "a \"b\" \\ \n\t\u{7f} é"]] {
            let mut task = task(argv);
            task.sandbox.network = true;
            task.sandbox.write = vec!["/var/x y".to_owned()];
            assert_eq!(Task::parse(&task.command_text()), Ok(task));
        }
    }

    #[test]
    fn every_program_gives_a_name() {
        let cases = [
            (&["/opt/My Tool/"][..], "run-my-tool"),
            (&["./a.sh"], "run-a.sh"),
            (&["café"], "run-caf-"),
            (&["/"], "run-command"),
            (&[""], "run-command"),
            (&[], "run-command"),
        ];
        for (argv, id) in cases {
            assert_eq!(task(argv).task_id, id);
            assert!(is_name(id));
        }
        assert!(is_name(&task(&[&"x".repeat(500)]).task_id));
    }

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let shown = |argv: &[&str]| task(argv).objective;
        assert_eq!(shown(&["sh", "-c", "a 'b' | c"]), "Run `sh -c 'a '\\''b'\\'' | c'`");
        assert_eq!(shown(&["x", "", "cafe\u{301}", "a\u{fffe}"]), "Run `x '' 'café' 'a\u{fffd}'`");
        assert_eq!(shown(&["x", "-a=b/c.d", "中文"]), "Run `x -a=b/c.d 中文`");
        let long = shown(&[&"x".repeat(2000)]);
        assert_eq!(long, format!("Run `{}…`", "x".repeat(1000)));
    }
}
