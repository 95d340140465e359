//! `init --claude-code`: the settings of Claude Code.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::workspace;
use crate::place::Place;

#[test]
fn claude_code_is_told_of_the_hooks_in_a_new_or_an_old_workspace() {
    for place in [Place::empty(), workspace()] {
        let told = place.run(&["init", "--claude-code"]);
        assert_eq!(told.code, 0, "{told}");
        let file = place.path().join(".claude/settings.json");
        let text = fs::read_to_string(&file).unwrap();
        let home = place.path().canonicalize().unwrap().join(".countersign");
        let program = env!("CARGO_BIN_EXE_countersign");
        let line = format!("'{program}' --home '{}' hook claude-code", home.display());
        let hook = json!({ "type": "command", "command": line, "timeout": 60 });
        let blocking = json!({
            "type": "command", "command": format!("{line} || exit 2"), "timeout": 60,
            "onFailure": "block",
        });
        let expected = json!({ "hooks": {
            "PreToolUse": [{ "matcher": "*", "hooks": [blocking] }],
            "PostToolUse": [{ "matcher": "*", "hooks": [hook] }],
            "PostToolUseFailure": [{ "matcher": "*", "hooks": [hook] }],
            "SessionStart": [{ "hooks": [hook] }],
            "SessionEnd": [{ "hooks": [hook] }],
            "SubagentStop": [{ "hooks": [hook] }],
        } });
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        let again = place.run(&["init", "--claude-code"]);
        assert_eq!((again.code, &*again.stderr), (0, "nothing to change\n"));
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        let undone = place.run(&["init", "--claude-code", "--undo"]);
        assert_eq!(undone.code, 0, "{undone}");
        assert!(!place.path().join(".claude").exists());
    }
}

#[test]
fn everything_else_in_the_settings_stays_byte_for_byte() {
    let place = workspace();
    let file = place.path().join("mine.json");
    let theirs = "{\n    \"model\" : \"x\",\n    \"hooks\": {\n        \"PreToolUse\": [\n            {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"lint\", \"timeout\": 5.0}]}\n        ]\n    },\n    \"permissions\": { \"deny\": [\"Read(./.env)\"] }\n}";
    fs::write(&file, theirs).unwrap();
    let told = place.run(&["init", "--claude-code", "--settings", "mine.json", "--keep-prompts"]);
    assert_snapshot!(told, @r"
    exit 0
    --- stdout
    settings  $PLACE/mine.json

    --- stderr
    start Claude Code anew; `/hooks` in it shows them
    what it may do is decided by the policy: `countersign gate policy`
    ");
    let made = fs::read_to_string(&file).unwrap();
    assert!(made.starts_with(&theirs[..theirs.find("        ]").unwrap() - 1]), "{made}");
    assert_eq!(made.matches("hook claude-code --keep-prompts").count(), 6, "{made}");
    // Another choice replaces the first one.
    assert_eq!(place.run(&["init", "--claude-code", "--settings", "mine.json"]).code, 0);
    let made = fs::read_to_string(&file).unwrap();
    assert_eq!(
        (made.matches("--keep-prompts").count(), made.matches(" hook claude-code").count()),
        (0, 6)
    );
    let undone = place.run(&["init", "--claude-code", "--settings", "mine.json", "--undo"]);
    assert_snapshot!(undone, @r"
    exit 0
    --- stdout
    settings  $PLACE/mine.json

    --- stderr
    our hooks were taken out
    ");
    assert_eq!(fs::read_to_string(&file).unwrap(), theirs);
}

#[test]
fn a_file_that_holds_no_settings_is_left_as_it_is() {
    let place = workspace();
    fs::create_dir(place.path().join(".claude")).unwrap();
    fs::write(place.path().join(".claude/settings.json"), "{\"hooks\": [1]}").unwrap();
    assert_snapshot!(place.run(&["init", "--claude-code"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: left `$PLACE/.claude/settings.json` as it is
      caused by: `hooks` in it is not an object
    ");
    let text = fs::read_to_string(place.path().join(".claude/settings.json")).unwrap();
    assert_eq!(text, "{\"hooks\": [1]}");
}

#[test]
fn settings_that_keep_hooks_from_running_are_told_of() {
    let place = workspace();
    fs::create_dir(place.path().join(".claude")).unwrap();
    let theirs = "{}\n";
    fs::write(place.path().join(".claude/settings.json"), theirs).unwrap();
    let local = place.path().join(".claude/settings.local.json");
    fs::write(&local, "{\"disableAllHooks\": true}").unwrap();
    let told = place.run(&["init", "--claude-code"]);
    assert_eq!(told.code, 0, "{told}");
    let words = "Claude Code runs no hooks: `disableAllHooks` is set in ";
    assert!(told.stderr.contains(words), "{told}");
    let doctor = place.run(&["doctor"]).to_string();
    assert!(doctor.contains(words), "{doctor}");
    fs::write(&local, "{\"disableAllHooks\": false}").unwrap();
    assert!(!place.run(&["doctor"]).to_string().contains(words));
    // What was there stays, empty as it was.
    assert_eq!(place.run(&["init", "--claude-code", "--undo"]).code, 0);
    let text = fs::read_to_string(place.path().join(".claude/settings.json")).unwrap();
    assert_eq!(text, theirs);
}

#[test]
fn undo_makes_no_workspace() {
    let place = Place::empty();
    let undone = place.run(&["init", "--claude-code", "--undo"]);
    assert_eq!(undone.code, 0, "{undone}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    for options in [["init", "--undo"], ["init", "--keep-prompts"]] {
        assert_eq!(place.run(&options).code, 2);
    }
    assert_eq!(place.run(&["init", "--mcp", "--claude-code"]).code, 2);
}
