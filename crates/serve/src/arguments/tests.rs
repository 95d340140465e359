//! What is found in arguments, and what is left alone.

use serde_json::{Value, json};

use super::*;

fn facts(arguments: &Value) -> Facts {
    Facts::of(&arguments.to_string())
}

#[test]
fn paths_are_found_by_the_names_of_their_members_at_any_depth() {
    for (arguments, expected) in [
        (json!({ "path": "a" }), vec!["a"]),
        (json!({ "paths": ["a", "b"], "n": 1 }), vec!["a", "b"]),
        (json!({ "source": "a", "destination": "b" }), vec!["a", "b"]),
        (
            json!({ "edits": [{ "file_path": "a" }, { "deep": { "filePath": "b" } }] }),
            vec!["a", "b"],
        ),
        (json!({ "repo_path": "/r", "outputFile": "o" }), vec!["/r", "o"]),
        (json!({ "uri": "file:///etc/pass%77d" }), vec!["/etc/passwd"]),
        (json!({ "anything": "file://host/a%20b" }), vec!["/a b"]),
        (json!({ "path": "/etc/passwd\n" }), vec!["/etc/passwd"]),
        (json!({ "path": { "value": "/etc/passwd" } }), vec!["/etc/passwd"]),
        (json!({ "files": { "/etc/passwd": "text" } }), vec!["/etc/passwd"]),
        (json!({ "location": "/etc/passwd" }), vec!["/etc/passwd"]),
        (json!({ "x": "FILE:///etc/passwd" }), vec!["/etc/passwd"]),
        (json!({ "x": "file://localhost/etc/passwd" }), vec!["/etc/passwd"]),
        (json!({ "x": "file:///w/%2eclaude/settings.json" }), vec!["/w/.claude/settings.json"]),
        (json!({ "anything": ".claude/settings.json" }), vec![".claude/settings.json"]),
        (json!({ "anything": "a/%2eclaude/x" }), vec!["a/.claude/x"]),
        (json!({ "uri": "https://example.org/x" }), vec![]),
        (json!({ "excludePatterns": [".git", "node_modules"] }), vec![]),
    ] {
        assert_eq!(facts(&arguments).paths, expected, "{arguments}");
    }
    let mut deep = json!({ "path": "/etc/passwd" });
    for _ in 0..60 {
        deep = json!({ "in": deep });
    }
    assert_eq!(facts(&deep).paths, ["/etc/passwd"]);
}

#[test]
fn a_member_that_is_there_twice_counts_twice() {
    let found = Facts::of(r#"{"path":"ok.txt","path":"/etc/passwd","p\u0061th":"c"}"#);
    assert_eq!(found.paths, ["ok.txt", "/etc/passwd", "c"]);
}

#[test]
fn commands_come_as_shell_text() {
    for (arguments, expected) in [
        (json!({ "command": "ls -l" }), "ls -l"),
        (json!({ "cmd": ["rm", "-rf", "a b", "it's"] }), r"rm -rf 'a b' 'it'\''s'"),
        (json!({ "args": ["push", "--force"], "command": "git" }), "git push --force"),
        (json!({ "program": "rm", "args": ["-rf", "/"] }), "rm -rf /"),
        (json!({ "steps": [{ "command": "a" }, { "script": "b" }] }), "a\nb"),
        (json!({ "args": ["x"] }), ""),
        (json!({ "bash": "rm -rf /" }), "rm -rf /"),
        (json!({ "tool": "run", "arguments": { "command": "rm x" } }), "rm x"),
    ] {
        assert_eq!(facts(&arguments).command, expected, "{arguments}");
    }
}

#[test]
fn what_looks_like_a_path_elsewhere_or_a_command_waits_for_a_person() {
    for arguments in [
        json!({ "code": "rm -rf /" }),
        json!({ "args": ["rm", "-rf", "/"] }),
        json!({ "list": ["rm", "-rf", "/"] }),
        json!({ "code": "#\nrm -rf /" }),
        json!({ "rm -rf /": 1 }),
        json!({ "x": "/etc/passwd" }),
        json!({ "text": "/etc/passwd" }),
        json!({ "x": "/srv/me/my secrets.txt" }),
        json!({ "x": "../../etc/passwd" }),
        json!({ "x": "%2e%2e/x" }),
        json!({ "x": "~/notes.txt" }),
        json!({ "x": "C:\\Windows" }),
        json!({ "path": "a\n/etc/passwd" }),
        json!({ "x": "git push --force" }),
    ] {
        assert!(facts(&arguments).murk.is_some(), "{arguments}");
    }
}

#[test]
fn plain_texts_and_code_are_left_alone() {
    for arguments in [
        json!({ "text": "Never run rm -rf / on a server; see /etc for more." }),
        json!({ "body": "# Install\n\n    curl https://example.org/x | sh\n\n/etc/passwd\n" }),
        json!({ "path": "src/a.rs", "content": "fn main() { println!(\"/etc\"); }\n" }),
        json!({ "query": "how do I undo git reset" }),
        json!({ "title": "Python basics", "labels": ["bug", "good first issue"] }),
        json!({ "branch": "main..topic", "language": "sh", "n": 3, "s": "a/b" }),
        json!({ "url": "https://example.org/a/../b", "email": "ana@example.org" }),
        json!({ "code": "const x = items.map((it) => it + 1);\nconsole.log(x);\n" }),
        json!({ "sql": "SELECT name FROM users WHERE id > 5" }),
        json!({ "message": "fix: the parser reads .env files" }),
    ] {
        assert_eq!(facts(&arguments).murk, None, "{arguments}");
    }
}

#[test]
fn what_lies_in_the_workspace_is_a_path_by_any_name() {
    let inside = |path: &str| path.starts_with("/w/");
    let found = Facts::from_within(r#"{"x":"/w/src/a.rs"}"#, &inside);
    assert_eq!((found.paths, found.murk), (vec!["/w/src/a.rs".to_owned()], None));
}

#[test]
fn what_a_call_is_taken_for_is_never_milder_than_a_tool_call() {
    for (tool, arguments, expected) in [
        ("read_file", json!({ "path": "a" }), "tool_call"),
        ("write_file", json!({ "path": "a", "content": "b" }), "file_write"),
        ("edit_file", json!({ "path": "a", "edits": [{ "newText": "b" }] }), "file_write"),
        ("Delete", json!({ "path": "a" }), "file_delete"),
        ("run", json!({ "command": "ls" }), "shell_exec"),
        ("echo", json!({ "text": "hello" }), "tool_call"),
    ] {
        assert_eq!(facts(&arguments).action_type(tool), expected, "{tool} {arguments}");
    }
}

#[test]
fn what_is_too_deep_or_too_much_is_said_to_be() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    assert!(Facts::of(&deep).murk.is_some());
    for unreadable in [r#"{"a":"\ud800"}"#, r#"{"a":1e999}"#] {
        assert!(Facts::of(unreadable).murk.is_some(), "{unreadable}");
    }
    let long = facts(&json!({ "command": "x".repeat(COMMAND_BYTES_MAX * 2) }));
    assert_eq!(long.command.len(), COMMAND_BYTES_MAX + 1);
    assert!(facts(&json!({ "x": "x ".repeat(COMMAND_BYTES_MAX) })).murk.is_some());
    assert!(facts(&json!({ "path": "x".repeat(5_000) })).murk.is_some());
    assert_eq!(facts(&json!({ "a": [1, true, null, 1.5, -1] })), Facts::default());
}
