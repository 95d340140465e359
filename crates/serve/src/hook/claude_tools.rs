//! What Claude Code's own tools do, in the words of the gate.
//!
//! A tool that is not known here, or whose arguments are not as they should be, is a tool call like
//! any other: no rule permits it by itself, so that a person is asked.

use serde_json::Value;

use super::arguments::named_in;
use super::places::Standpoint;

/// Characters of a description.
const DESCRIPTION_CHARACTERS: usize = 500;

/// What is known of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CallFacts {
    pub(super) action_type: &'static str,
    pub(super) description: String,
    pub(super) files: Vec<String>,
    pub(super) command: Option<String>,
    pub(super) diff: Option<String>,
    pub(super) content: Option<String>,
}

/// Tools by which an agent keeps its plans or starts another agent, whose own calls are asked about.
const PLANNING: [&str; 18] = [
    "Agent",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "KillBash",
    "KillShell",
    "SendMessage",
    "Skill",
    "SlashCommand",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskStop",
    "TaskUpdate",
    "TodoRead",
    "TodoWrite",
    "exit_plan_mode",
];
/// Tools that only look at what Claude Code itself holds.
const LOOKING: [&str; 6] = [
    "AgentOutputTool",
    "BashOutput",
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
    "TaskOutput",
    "ToolSearch",
];

/// What a call of `tool` with this input does.
pub(super) fn facts(tool: &str, input: &Value, standpoint: &Standpoint) -> CallFacts {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    let files = |names: &[&str]| standpoint.files(names.iter().filter_map(|name| text(name)));
    let known = match tool {
        "Bash" | "PowerShell" => text("command").map(|command| CallFacts {
            action_type: "shell_exec",
            description: short(text("description").unwrap_or(command)),
            files: standpoint.notable(),
            command: Some(command.to_owned()),
            ..CallFacts::default()
        }),
        "Write" => text("file_path").map(|path| CallFacts {
            action_type: "file_write",
            description: short(&format!("write {path}")),
            files: files(&["file_path"]),
            content: text("content").map(str::to_owned),
            ..CallFacts::default()
        }),
        "Edit" | "MultiEdit" => text("file_path").map(|path| {
            let files = files(&["file_path"]);
            CallFacts {
                action_type: "code_edit",
                description: short(&format!("edit {path}")),
                diff: Some(diff(files.first().map_or(path, String::as_str), input)),
                files,
                ..CallFacts::default()
            }
        }),
        "NotebookEdit" => text("notebook_path").map(|path| CallFacts {
            action_type: "code_edit",
            description: short(&format!("edit {path}")),
            files: files(&["notebook_path"]),
            content: text("new_source").map(str::to_owned),
            ..CallFacts::default()
        }),
        "Read" | "NotebookRead" | "LS" | "LSP" => Some(CallFacts {
            action_type: "file_read",
            description: short(&format!(
                "{tool} {}",
                text("file_path").or_else(|| text("path")).unwrap_or_default()
            )),
            files: files(&["file_path", "notebook_path", "path", "filePath"]),
            ..CallFacts::default()
        }),
        "Glob" | "Grep" => Some(CallFacts {
            action_type: "file_read",
            description: short(&format!("{tool} {}", text("pattern").unwrap_or_default())),
            files: searched(tool, input, standpoint),
            ..CallFacts::default()
        }),
        "WebFetch" => text("url").map(|url| web(&format!("fetch {url}"))),
        "WebSearch" => text("query").map(|query| web(&format!("search for {query}"))),
        tool if PLANNING.contains(&tool) => Some(CallFacts {
            action_type: "decision",
            description: short(&format!("{tool} {}", text("description").unwrap_or_default())),
            ..CallFacts::default()
        }),
        tool if LOOKING.contains(&tool) => Some(CallFacts {
            action_type: "observation",
            description: short(tool),
            ..CallFacts::default()
        }),
        _ => None,
    };
    known.unwrap_or_else(|| unknown(tool, input, standpoint))
}

fn unknown(tool: &str, input: &Value, standpoint: &Standpoint) -> CallFacts {
    let named = named_in(input);
    CallFacts {
        // Of a tool of Claude Code's own that is not known, nobody knows what it can do.
        action_type: if tool.starts_with("mcp__") { "tool_call" } else { "unknown" },
        description: short(&format!("call {tool}")),
        files: standpoint.files(named.paths.iter().map(String::as_str)),
        command: named.command(),
        ..CallFacts::default()
    }
}

fn web(description: &str) -> CallFacts {
    CallFacts {
        action_type: "web_request",
        description: short(description),
        ..CallFacts::default()
    }
}

/// Where a search looks: the directory that it names, and what its pattern begins with, which may
/// lead elsewhere.
fn searched(tool: &str, input: &Value, standpoint: &Standpoint) -> Vec<String> {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    let pattern = if tool == "Glob" { text("pattern") } else { text("glob") };
    let fixed = pattern.map(|pattern| {
        let wild = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
        let fixed = pattern.get(..wild).unwrap_or_default();
        fixed.rfind('/').and_then(|end| fixed.get(..=end)).unwrap_or_default()
    });
    let fixed = fixed.filter(|fixed| !fixed.is_empty());
    let below = text("path").zip(fixed).filter(|(_, fixed)| !fixed.starts_with(['/', '~']));
    let below = below.map(|(path, fixed)| format!("{}/{fixed}", path.trim_end_matches('/')));
    let pattern = if below.is_some() { below.as_deref() } else { fixed };
    standpoint.files(text("path").into_iter().chain(pattern))
}

/// The edits as a diff. Where in the file they are is not known, and does not matter to the gate.
fn diff(path: &str, input: &Value) -> String {
    let mut diff = format!("--- a/{path}\n+++ b/{path}\n");
    let several = input.get("edits").and_then(Value::as_array);
    let one = std::slice::from_ref(input);
    for edit in several.map_or(one, Vec::as_slice) {
        let text = |name: &str| edit.get(name).and_then(Value::as_str).unwrap_or_default();
        let (old, new) = (text("old_string"), text("new_string"));
        let (gone, come) = (old.lines().count(), new.lines().count());
        diff.push_str(&format!("@@ -1,{gone} +1,{come} @@\n"));
        for (sign, lines) in [('-', old), ('+', new)] {
            for line in lines.lines() {
                diff.push(sign);
                diff.push_str(line);
                diff.push('\n');
            }
        }
    }
    diff
}

/// A text in one line of bounded length, without what cannot be shown.
pub(super) fn short(text: &str) -> String {
    let shown = |it: char| if it.is_control() || is_noncharacter(it) { ' ' } else { it };
    let mut line: String = text.trim().chars().take(DESCRIPTION_CHARACTERS).map(shown).collect();
    if line.chars().count() < text.trim().chars().count() {
        line.push('…');
    }
    line.trim_end().to_owned()
}

fn is_noncharacter(character: char) -> bool {
    let code = u32::from(character);
    (0xFDD0..=0xFDEF).contains(&code) || code & 0xFFFE == 0xFFFE
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn told(tool: &str, input: &Value) -> CallFacts {
        facts(tool, input, &Standpoint::new(Path::new("/w/.countersign"), Some(Path::new("/w"))))
    }

    #[test]
    fn each_tool_is_what_it_does() {
        let table = [
            ("Bash", json!({ "command": "ls" }), "shell_exec", vec![]),
            ("Write", json!({ "file_path": "/w/a", "content": "x" }), "file_write", vec!["a"]),
            ("Edit", json!({ "file_path": "a" }), "code_edit", vec!["a"]),
            ("NotebookEdit", json!({ "notebook_path": "n.ipynb" }), "code_edit", vec!["n.ipynb"]),
            ("Read", json!({ "file_path": "/w/.env" }), "file_read", vec![".env"]),
            ("Glob", json!({ "pattern": "**/*.rs" }), "file_read", vec![]),
            ("Glob", json!({ "pattern": "/etc/*.conf" }), "file_read", vec!["/etc"]),
            ("Glob", json!({ "pattern": "../*", "path": "/w" }), "file_read", vec![".", "/"]),
            ("Grep", json!({ "pattern": "/x/", "path": "src" }), "file_read", vec!["src"]),
            ("WebFetch", json!({ "url": "https://example.org" }), "web_request", vec![]),
            ("TodoWrite", json!({ "todos": [] }), "decision", vec![]),
            ("BashOutput", json!({ "bash_id": "1" }), "observation", vec![]),
            ("mcp__fs__write", json!({ "path": "b", "text": "x" }), "tool_call", vec!["b"]),
            // A tool of the right name without its argument is anything.
            ("Bash", json!({ "script": "ls" }), "unknown", vec![]),
            ("Write", json!([]), "unknown", vec![]),
            ("Dance", json!({}), "unknown", vec![]),
        ];
        for (tool, input, action_type, files) in table {
            let facts = told(tool, &input);
            assert_eq!(facts.action_type, action_type, "{tool} {input}");
            assert_eq!(facts.files, files, "{tool} {input}");
        }
    }

    #[test]
    fn edits_are_told_as_a_diff() {
        let input = json!({ "file_path": "a.rs", "edits": [
            { "old_string": "-- x\ny", "new_string": "z" }, { "old_string": "", "new_string": "w\n" },
        ] });
        let expected =
            "--- a/a.rs\n+++ b/a.rs\n@@ -1,2 +1,1 @@\n--- x\n-y\n+z\n@@ -1,0 +1,1 @@\n+w\n";
        assert_eq!(told("MultiEdit", &input).diff.as_deref(), Some(expected));
    }

    #[test]
    fn a_description_is_one_line_that_can_be_shown() {
        assert_eq!(short(" a\nb\u{1b}[2J\u{fffe} "), "a b [2J");
        let long = short(&"é".repeat(DESCRIPTION_CHARACTERS + 1));
        assert_eq!(long.chars().count(), DESCRIPTION_CHARACTERS + 1);
        assert!(long.ends_with("é…"));
    }
}
