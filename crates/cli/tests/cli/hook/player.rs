//! Plays Claude Code: runs the configured line, reads the answer by Claude Code's rules, and runs the
//! command only if they let it.

use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use super::{after, before, workspace};
use crate::place::Place;

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Ran,
    Refused(String),
    Asked(String),
}

/// Claude Code in a workspace whose hooks are set up.
pub(super) struct Player {
    pub(super) place: Place,
}

impl Player {
    pub(super) fn new() -> Self {
        let place = workspace();
        let told = place.run(&["init", "--claude-code"]);
        assert_eq!(told.code, 0, "{told}");
        Self { place }
    }

    /// The line that is configured for an event.
    pub(super) fn line(&self, event: &str) -> String {
        let text = fs::read_to_string(self.place.path().join(".claude/settings.json")).unwrap();
        let settings: Value = serde_json::from_str(&text).unwrap();
        let hook = &settings["hooks"][event][0]["hooks"][0];
        hook["command"].as_str().unwrap().to_owned()
    }

    /// Starts a line with this input; `prelude` comes before it in the same shell.
    pub(super) fn start(&self, line: &str, prelude: &str, input: &Value) -> Child {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{prelude}{line}"));
        shell.current_dir(self.place.path());
        shell.env("COUNTERSIGN_CONFIG", self.place.path().join("config"));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        // Whoever was killed does not read it.
        let _ = child.stdin.take().unwrap().write_all(input.to_string().as_bytes());
        child
    }

    /// What Claude Code makes of an answer, and whether the tool ran for it.
    pub(super) fn fate(ended: &Output) -> Fate {
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        match ended.status.code() {
            Some(0) => {}
            Some(2) => return Fate::Refused(stderr),
            // Any other code, a kill: an error that stops nothing.
            _ => return Fate::Ran,
        }
        let answer: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
        let said = &answer["hookSpecificOutput"];
        let reason = said["permissionDecisionReason"].as_str().unwrap_or_default().to_owned();
        match said["permissionDecision"].as_str() {
            Some("deny") => Fate::Refused(reason),
            Some("ask") => Fate::Asked(reason),
            _ => Fate::Ran,
        }
    }

    /// A command that the agent wants to run.
    pub(super) fn bash(&self, id: &str, command: &str) -> Fate {
        self.bash_after("", id, command)
    }

    /// The same, with something before the line in its shell.
    pub(super) fn bash_after(&self, prelude: &str, id: &str, command: &str) -> Fate {
        let input = json!({ "command": command });
        let asked = before(&self.place, id, "Bash", &input);
        let child = self.start(&self.line("PreToolUse"), prelude, &asked);
        let fate = Self::fate(&child.wait_with_output().unwrap());
        if fate == Fate::Ran {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(command).current_dir(self.place.path());
            let _ = shell.output().unwrap();
        }
        fate
    }

    /// Tells that a command ran.
    pub(super) fn ran(&self, id: &str, command: &str) -> Output {
        let input = json!({ "command": command });
        let told = after(&self.place, id, "Bash", &input, &json!({ "stdout": "" }));
        self.start(&self.line("PostToolUse"), "", &told).wait_with_output().unwrap()
    }
}

#[test]
fn an_allowed_command_runs_and_a_denied_one_does_not() {
    let player = Player::new();
    assert_eq!(player.bash("toolu_01", "touch made"), Fate::Ran);
    assert!(player.place.path().join("made").exists());
    assert_eq!(player.ran("toolu_01", "touch made").status.code(), Some(0));
    let refused = player.bash("toolu_02", "rm -rf .countersign; touch denied");
    assert!(matches!(refused, Fate::Refused(_)), "{refused:?}");
    assert!(player.place.path().join(".countersign/log/events.jsonl").exists());
    assert!(!player.place.path().join("denied").exists());
    super::verify_all(&player.place);
}

#[test]
fn a_program_that_is_gone_denies() {
    let player = Player::new();
    let file = player.place.path().join(".claude/settings.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("countersign' --home", "countersign-gone' --home")).unwrap();
    assert!(matches!(player.bash("toolu_01", "touch made"), Fate::Refused(_)));
    assert!(!player.place.path().join("made").exists());
}

#[test]
fn a_place_with_quotes_and_spaces_is_one_word_in_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("it's a $HOME; dir");
    fs::create_dir(&odd).unwrap();
    let countersign = |arguments: &[&str]| {
        let mut command = crate::binary::command(arguments);
        command.current_dir(&odd).env("COUNTERSIGN_CONFIG", dir.path().join("config"));
        command.output().unwrap()
    };
    assert!(countersign(&["init", "--claude-code"]).status.success());
    let text = fs::read_to_string(odd.join(".claude/settings.json")).unwrap();
    let settings: Value = serde_json::from_str(&text).unwrap();
    let line = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line).current_dir("/");
    shell.env("COUNTERSIGN_CONFIG", dir.path().join("config"));
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let input = json!({
        "session_id": "s", "cwd": odd, "hook_event_name": "PreToolUse", "tool_name": "Read",
        "tool_use_id": "t", "tool_input": { "file_path": odd.join("a.txt") },
    });
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(String::from_utf8_lossy(&ended.stdout).contains(r#""permissionDecision":"allow""#));
}
