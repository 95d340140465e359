//! What Claude Code's own tools do, in the words of the gate.
//!
//! A tool that is not known here, or whose arguments are not as they should be, is a tool call like
//! any other: no rule permits it by itself, so that a person is asked.

use serde_json::Value;

use countersign_gate::guard::secrets_like;

use super::places::Standpoint;
use crate::arguments::Facts;

/// Characters of a description.
const DESCRIPTION_CHARACTERS: usize = 500;
/// Characters of a command in one, so that the agent's own words are seen as well.
const COMMAND_CHARACTERS: usize = 380;
const WORDS_CHARACTERS: usize = 80;

/// What is known of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CallFacts {
    pub(super) action_type: &'static str,
    pub(super) description: String,
    pub(super) files: Vec<String>,
    pub(super) command: Option<String>,
    pub(super) diff: Option<String>,
    pub(super) content: Option<String>,
    /// Why a person should look at it, whatever else is known.
    pub(super) held: Option<String>,
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
const LOOKING: [&str; 5] =
    ["AgentOutputTool", "BashOutput", "ListMcpResourcesTool", "TaskOutput", "ToolSearch"];

/// What a call of `tool` with this input does.
pub(super) fn facts(tool: &str, input: &Value, raw: &str, standpoint: &Standpoint) -> CallFacts {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    let files = |names: &[&str]| standpoint.files(names.iter().filter_map(|name| text(name)));
    let known = match tool {
        "Bash" | "PowerShell" => text("command").map(|command| CallFacts {
            action_type: "shell_exec",
            description: described(command, text("description")),
            files: standpoint.notable(),
            command: Some(command.to_owned()),
            held: unconfined(input),
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
        "Read" | "NotebookRead" | "LS" | "LSP" => {
            const NAMES: [&str; 4] = ["file_path", "notebook_path", "path", "filePath"];
            let path = NAMES.iter().find_map(|name| text(name));
            path.filter(|_| are_texts(input, &NAMES)).map(|path| CallFacts {
                action_type: "file_read",
                description: short(&format!("{tool} {path}")),
                files: files(&NAMES),
                ..CallFacts::default()
            })
        }
        "Glob" | "Grep" => {
            let known = are_texts(input, &["path", "pattern", "glob"]);
            text("pattern").filter(|_| known).map(|pattern| CallFacts {
                action_type: "file_read",
                description: short(&format!("{tool} {pattern}")),
                files: searched(tool, input, standpoint),
                ..CallFacts::default()
            })
        }
        "ReadMcpResourceTool" => text("uri").map(|uri| CallFacts {
            action_type: "file_read",
            description: short(&format!("read {uri}")),
            files: standpoint.files(Facts::of(raw).paths.iter().map(String::as_str)),
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
    known.unwrap_or_else(|| unknown(tool, raw, standpoint))
}

fn unknown(tool: &str, raw: &str, standpoint: &Standpoint) -> CallFacts {
    let facts = Facts::from_within(raw, &|path| standpoint.holds(path));
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    CallFacts {
        action_type: match tool.strip_prefix("mcp__") {
            Some(tool) => facts.action_type(tool.rsplit("__").next().unwrap_or(tool)),
            // Of a tool of Claude Code's own that is not known, nobody knows what it can do.
            None => "unknown",
        },
        description: short(&format!("call {tool}")),
        files: standpoint.files(facts.paths.iter().map(String::as_str)),
        command: some(&facts.command),
        // What is not written anywhere is an argument like others.
        content: some(&facts.content).filter(|_| !facts.paths.is_empty()),
        held: facts.murk,
        diff: None,
    }
}

/// A command as a person should read it: what runs, and then what the agent says of it.
fn described(command: &str, words: Option<&str>) -> String {
    let command = cut(command, COMMAND_CHARACTERS);
    match words.map(str::trim).filter(|words| !words.is_empty()) {
        Some(words) => format!("{command} (the agent says: {})", cut(words, WORDS_CHARACTERS)),
        None => command,
    }
}

/// Why a command waits for a person that is to run without Claude Code's own walls.
fn unconfined(input: &Value) -> Option<String> {
    let asked = input.get("dangerouslyDisableSandbox");
    let asked = asked.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)));
    asked.then(|| "it would run outside of Claude Code's sandbox".to_owned())
}

/// Whether these members are texts where they are there.
fn are_texts(input: &Value, names: &[&str]) -> bool {
    let values = names.iter().filter_map(|name| input.get(name));
    input.is_object() && values.into_iter().all(|value| value.is_string() || value.is_null())
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
    let start = if below.is_some() { below.as_deref() } else { fixed };
    let mut files = standpoint.files(text("path").into_iter().chain(start));
    // What is searched is read: the files of secrets that the glob may mean, wherever they lie.
    for name in text("glob").filter(|_| tool == "Grep").map(secrets_like).unwrap_or_default() {
        let path = start.or_else(|| text("path")).unwrap_or(".");
        let secret = format!("{}/{name}", path.trim_end_matches('/'));
        files.extend(standpoint.files([secret.as_str()]));
    }
    files
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
    cut(text, DESCRIPTION_CHARACTERS)
}

fn cut(text: &str, characters: usize) -> String {
    let shown = |it: char| if it.is_control() || is_noncharacter(it) { ' ' } else { it };
    let mut line: String = text.trim().chars().take(characters).map(shown).collect();
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
        let standpoint = Standpoint::new(Path::new("/w/.countersign"), Some(Path::new("/w")));
        facts(tool, input, &input.to_string(), &standpoint)
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
            ("Grep", json!({ "pattern": "x", "glob": ".env" }), "file_read", vec![".env"]),
            ("Grep", json!({ "pattern": "x", "glob": "**/.env" }), "file_read", vec![".env"]),
            ("Grep", json!({ "pattern": "x", "glob": "src/*.rs" }), "file_read", vec!["src"]),
            (
                "ReadMcpResourceTool",
                json!({ "server": "s", "uri": "file:///etc/passwd" }),
                "file_read",
                vec!["/etc/passwd"],
            ),
            ("ReadMcpResourceTool", json!({ "server": "s", "uri": "x://a" }), "file_read", vec![]),
            ("mcp__fs__write", json!({ "path": "b", "text": "x" }), "file_write", vec!["b"]),
            ("mcp__fs__read", json!({ "path": "b" }), "tool_call", vec!["b"]),
            ("mcp__x__y", json!({ "program": "rm", "args": ["x"] }), "shell_exec", vec![]),
            ("mcp__x__y", json!({ "x": "/w/src/a" }), "tool_call", vec!["src/a"]),
            // A tool of the right name without its argument is anything.
            ("Bash", json!({ "script": "ls" }), "unknown", vec![]),
            ("Write", json!([]), "unknown", vec![]),
            ("Read", json!({ "file_path": ["/etc/passwd"] }), "unknown", vec!["/etc/passwd"]),
            ("Read", json!({}), "unknown", vec![]),
            ("Grep", json!({ "pattern": "x", "glob": [".env"] }), "unknown", vec![".env"]),
            ("ReadMcpResourceTool", json!({}), "unknown", vec![]),
            ("Dance", json!({}), "unknown", vec![]),
        ];
        for (tool, input, action_type, files) in table {
            let facts = told(tool, &input);
            assert_eq!(facts.action_type, action_type, "{tool} {input}");
            assert_eq!(facts.files, files, "{tool} {input}");
        }
    }

    #[test]
    fn a_command_is_described_by_itself_and_then_in_the_agents_words() {
        let told = |input| told("Bash", &input);
        let both = told(json!({ "command": "rm -rf x", "description": "List the files" }));
        assert_eq!(both.description, "rm -rf x (the agent says: List the files)");
        let long = "x".repeat(DESCRIPTION_CHARACTERS * 2);
        let long = told(json!({ "command": long, "description": "words" })).description;
        assert!(long.ends_with("x… (the agent says: words)"), "{long}");
        assert_eq!(told(json!({ "command": "ls", "description": " " })).description, "ls");
    }

    #[test]
    fn a_command_outside_of_the_sandbox_waits_for_a_person() {
        for (value, held) in [
            (json!(true), true),
            (json!("yes"), true),
            (json!(1), true),
            (json!(false), false),
            (json!(null), false),
        ] {
            let input = json!({ "command": "ls", "dangerouslyDisableSandbox": value });
            assert_eq!(told("Bash", &input).held.is_some(), held, "{input}");
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
