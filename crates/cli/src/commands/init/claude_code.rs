//! `countersign init --claude-code`: Claude Code is told to run our hooks, or no longer.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::client::store;
use super::edited::{Done, edit, tell, text_of};
use super::our_command::OurCommand;
use super::settings_file::{OurHook, hooks_are_disabled, with_hooks, without_hooks};
use crate::{Caller, CommandError, Exit};

/// Where Claude Code looks for the settings of a project.
const SETTINGS_FILE: &str = ".claude/settings.json";
/// Seconds that Claude Code waits for a hook: more than the hook's own deadline, since Claude Code lets
/// the tool run when they are over.
const TIMEOUT_SECONDS: u64 = 60;
/// The event before a tool runs; only there may a failure keep anything from going on.
const BEFORE: &str = "PreToolUse";
/// All events, and whether they are told apart by a matcher.
const EVENTS: [(&str, bool); 6] = [
    (BEFORE, true),
    ("PostToolUse", true),
    ("PostToolUseFailure", true),
    ("SessionStart", false),
    ("SessionEnd", false),
    ("SubagentStop", false),
];

/// How the hooks behave.
#[derive(Debug, Clone, Copy)]
pub(super) struct HookChoice {
    /// They decide and record, but stop nothing.
    pub(super) shadow: bool,
    /// Claude Code asks as it would without us, also about what the gate allows.
    pub(super) keep_prompts: bool,
}

pub(super) fn run(
    settings: Option<&Path>,
    undo: bool,
    choice: HookChoice,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    let home = store(undo, caller)?;
    let beside = home.parent().unwrap_or(&home).join(SETTINGS_FILE);
    // A link leads to the file that Claude Code reads.
    let named = settings.map_or(beside, Path::to_owned);
    let file = named.canonicalize().unwrap_or(named);
    let text = text_of(&file)?;
    let hooks = hooks(&home, choice)?;
    let known = OurCommand { program: written(&program()?)?.to_owned(), home: quoted(&home)? };
    let new = match undo {
        true => without_hooks(&text, &known),
        false => with_hooks(&text, &hooks, &known).map(Some),
    };
    let done = edit(&file, &text, new)?;
    if done == Done::Removed {
        // The directory may be ours as well; one that holds anything stays.
        let _ = file.parent().map(fs::remove_dir);
    }
    if !undo {
        warn_if_disabled(&file, &text, caller);
    }
    let events: Vec<&str> = hooks.iter().filter(|_| !undo).map(|hook| hook.event).collect();
    let notes: &[&str] = match (undo, done) {
        (true, Done::Removed) => &["removed: nothing but our hooks was in it"],
        (true, _) => &["our hooks were taken out"],
        (false, _) => &[
            "start Claude Code anew; `/hooks` in it shows them",
            "what it may do is decided by the policy: `countersign gate policy`",
        ],
    };
    tell(caller, ("settings", &file), done, json!({ "hooks": events }), notes)
}

/// Says that the hooks will not run, where these settings or those beside them say so.
fn warn_if_disabled(file: &Path, text: &str, caller: &mut Caller) {
    let local = file.with_file_name("settings.local.json");
    let local_text = fs::read_to_string(&local).unwrap_or_default();
    for (file, text) in [(file, text), (&local, &local_text)] {
        if hooks_are_disabled(text) {
            let file = file.display();
            caller.output.warning(format_args!(
                "Claude Code runs no hooks: `disableAllHooks` is set in `{file}`"
            ));
        }
    }
}

fn program() -> Result<PathBuf, CommandError> {
    std::env::current_exe()
        .map_err(|error| CommandError::failed_doing("cannot tell where this program is", error))
}

/// Our hooks: this program, and this store, wherever Claude Code stands.
fn hooks(home: &Path, choice: HookChoice) -> Result<Vec<OurHook>, CommandError> {
    let mut line = format!("{} --home {} hook claude-code", quoted(&program()?)?, quoted(home)?);
    for (chosen, option) in [(choice.shadow, " --shadow"), (choice.keep_prompts, " --keep-prompts")]
    {
        if chosen {
            line.push_str(option);
        }
    }
    Ok(EVENTS
        .iter()
        .map(|&(event, matched)| OurHook { event, group: group(event, matched, &line) })
        .collect())
}

fn group(event: &str, matched: bool, line: &str) -> Value {
    let hook = match event {
        // Claude Code lets the tool run if the hook was killed, or is not there: the shell says
        // otherwise, and versions that know `onFailure` do so by themselves.
        BEFORE => json!({
            "command": format!("{line} || exit 2"),
            "onFailure": "block",
            "timeout": TIMEOUT_SECONDS,
            "type": "command",
        }),
        _ => json!({ "command": line, "timeout": TIMEOUT_SECONDS, "type": "command" }),
    };
    match matched {
        true => json!({ "hooks": [hook], "matcher": "*" }),
        false => json!({ "hooks": [hook] }),
    }
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> Result<String, CommandError> {
    Ok(format!("'{}'", written(path)?.replace('\'', r"'\''")))
}

fn written(path: &Path) -> Result<&str, CommandError> {
    path.to_str().ok_or_else(|| {
        let error = format!("`{}` cannot be written in JSON: it is not UTF-8", path.display());
        CommandError::failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        let words = |path: &str| quoted(Path::new(path)).unwrap();
        assert_eq!(words("/a b/c"), "'/a b/c'");
        assert_eq!(words("/it's/$HOME;x"), r"'/it'\''s/$HOME;x'");
    }

    #[test]
    fn only_before_a_tool_runs_does_a_failure_block() {
        let blocking: Vec<&str> = EVENTS
            .iter()
            .filter(|(event, matched)| group(event, *matched, "x").to_string().contains("exit 2"))
            .map(|(event, _)| *event)
            .collect();
        assert_eq!(blocking, [BEFORE]);
    }
}
