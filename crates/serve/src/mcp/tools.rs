//! The five tools: their names, what a model is told of them, and the shapes of what goes in.
//!
//! Names and fields are CapSeal's, so that agents and instructions written for it work here. What
//! comes out is described in `schemas`.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::schemas;

/// One of the five.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolName {
    Gate,
    Record,
    Seal,
    Status,
    Context,
}

impl ToolName {
    const ALL: [Self; 5] = [Self::Gate, Self::Record, Self::Seal, Self::Status, Self::Context];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Gate => "capseal_gate",
            Self::Record => "capseal_record",
            Self::Seal => "capseal_seal",
            Self::Status => "capseal_status",
            Self::Context => "capseal_context",
        }
    }

    /// Whether a call takes a few syncs and no more, however much was recorded before.
    pub(crate) const fn is_brief(self) -> bool {
        matches!(self, Self::Gate | Self::Record)
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }
}

/// The tools as `tools/list` gives them.
pub(crate) fn all() -> &'static [Tool] {
    static TOOLS: LazyLock<Vec<Tool>> =
        LazyLock::new(|| ToolName::ALL.into_iter().map(describe).collect());
    &TOOLS
}

const GATE: &str = "\
Ask whether an action may run, before you do it. Call this before every change to a file, every \
command and every other step with an effect, one call per file or command. The answer's `decision` \
is `approve` (go on), `flag` (ask your user and wait; `reasons` says why) or `deny` (do not do it; \
tell your user the `reasons`). Keep `gate_token` and hand it to capseal_record once you have acted: \
it is good for one action of the same type and files, until `expires_at`. Give the diff or the \
command you are about to run: the decision and the receipt are bound to it.";

const RECORD: &str = "\
Record an action that you have just done, whether it worked or not. Call this after every gated \
action, with the `gate_token` that capseal_gate gave you and the same `action_type` and \
`files_affected`. Report failures too, with `success` false and the `error`. The answer has the \
receipt's hash. What you did without asking the gate is recorded as `ungated`; record it all the same.";

const SEAL: &str = "\
Close this session's recording and write it into one `.cap` file that anybody can verify. Call this \
once, when your task is done and every action is recorded. The answer has the file's path and the \
command that verifies it. What you do afterwards begins a new recording.";

const STATUS: &str = "\
Show whether a recording is under way, how many actions it has, and the latest recordings of this \
workspace. Call this first. It changes nothing.";

const CONTEXT: &str = "\
Show what recorded agents have done to one file: the recordings and sessions that named it, with each \
action, how the gate decided, and how it ended. Call this before you change a file that you do not \
know. It changes nothing.";

fn describe(name: ToolName) -> Tool {
    let hints = ToolAnnotations::new().destructive(false).open_world(false);
    let (title, description, input, output, hints) = match name {
        ToolName::Gate => ("Ask before acting", GATE, gate(), schemas::gate(), hints),
        ToolName::Record => ("Record an action", RECORD, record(), schemas::record(), hints),
        ToolName::Seal => ("Seal the recording", SEAL, seal(), schemas::seal(), hints),
        ToolName::Status => {
            ("Show the recording", STATUS, status(), schemas::status(), hints.read_only(true))
        }
        ToolName::Context => {
            ("Show a file's history", CONTEXT, context(), schemas::context(), hints.read_only(true))
        }
    };
    Tool::new(name.as_str(), description, object(input))
        .with_title(title)
        .with_raw_output_schema(object(output))
        .with_annotations(hints)
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

fn action_type() -> Value {
    json!({
        "type": "string",
        "description": "What kind of action: tool_call, code_gen, code_edit, api_request, decision, \
            observation, file_read, file_write, file_delete, shell_exec, command, browser_action, \
            web_request or action",
    })
}

fn files_affected() -> Value {
    json!({
        "type": "array",
        "items": { "type": "string" },
        "description": "Paths of the files that the action touches, relative to the workspace",
    })
}

fn gate() -> Value {
    json!({
        "type": "object",
        "properties": {
            "action_type": action_type(),
            "description": {
                "type": "string",
                "description": "What you are about to do and why, in one or two sentences",
            },
            "files_affected": files_affected(),
            "diff_text": {
                "type": "string",
                "description": "The change as a unified diff, if the action changes files",
            },
            "tool_name": {
                "type": "string",
                "description": "The tool that you are about to use, if any",
            },
            "command": {
                "type": "string",
                "description": "The command line, if the action runs one",
            },
        },
        "required": ["action_type", "description"],
    })
}

fn record() -> Value {
    json!({
        "type": "object",
        "properties": {
            "action_type": action_type(),
            "description": { "type": "string", "description": "What you did" },
            "tool_name": { "type": "string", "description": "The tool that you did it with" },
            "success": { "type": "boolean", "description": "Whether it had the intended result" },
            "files_affected": files_affected(),
            "duration_ms": {
                "type": "integer",
                "minimum": 0,
                "description": "How long it took, in milliseconds",
            },
            "output": { "type": "string", "description": "What it put out" },
            "error": { "type": "string", "description": "What went wrong, if it failed" },
            "gate_token": {
                "type": "string",
                "description": "The `gate_token` that capseal_gate gave for this action",
            },
        },
        "required": ["action_type", "description", "tool_name", "success"],
    })
}

fn seal() -> Value {
    json!({
        "type": "object",
        "properties": {
            "session_name": {
                "type": "string",
                "description": "A name for the recording, for people",
            },
        },
    })
}

fn status() -> Value {
    json!({ "type": "object", "properties": {} })
}

fn context() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file": {
                "type": "string",
                "description": "The file's path, relative to the workspace",
            },
        },
        "required": ["file"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_exactly_five_tools_each_with_both_schemas() {
        let names: Vec<&str> = all().iter().map(|tool| tool.name.as_ref()).collect();
        let expected =
            ["capseal_gate", "capseal_record", "capseal_seal", "capseal_status", "capseal_context"];
        assert_eq!(names, expected);
        for tool in all() {
            let output = tool.output_schema.as_ref().unwrap();
            for schema in [&tool.input_schema, output] {
                assert_eq!(schema.get("type"), Some(&json!("object")), "{}", tool.name);
            }
            assert!(!output.contains_key("$ref"));
        }
    }

    #[test]
    fn a_tool_is_found_by_its_whole_name_only() {
        assert_eq!(ToolName::find("capseal_gate"), Some(ToolName::Gate));
        assert_eq!(ToolName::find("gate"), None);
    }
}
