//! What a client is told that a server did not say: refusals, failures, questions.
//!
//! A refusal is the result of a tool, so that a model reads it and can go on; what is no call at all is
//! answered as the protocol has it.

use countersign_format::text::escape_block;
use serde_json::{Value, json};

use super::head::{Fault, Id};

/// Something of ours, or of the server's, failed.
const FAILED: i64 = -32000;
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
/// The parameters of a call make no sense.
pub(super) const INVALID_PARAMS: i64 = -32602;
/// Characters of a reason that are passed on.
const REASON_MAX: usize = 2_000;

/// The answer to a call that did not run, or whose result is not passed on. Where the client asked for
/// a task, a result would not have the shape that it expects.
pub(super) fn refusal(id: &Id, as_task: bool, text: &str) -> Vec<u8> {
    if as_task {
        return failure(id, text);
    }
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
    line(&json!({ "jsonrpc": "2.0", "id": id.to_json(), "result": result }))
}

/// The answer to a request that came to nothing.
pub(super) fn failure(id: &Id, text: &str) -> Vec<u8> {
    error(Some(id), FAILED, text)
}

/// The answer to a line that is no message.
pub(super) fn fault(id: Option<&Id>, fault: &Fault) -> Vec<u8> {
    let code = match fault {
        Fault::NotJson(_) => PARSE_ERROR,
        _ => INVALID_REQUEST,
    };
    error(id, code, &fault.to_string())
}

/// An answer that is an error.
pub(super) fn error(id: Option<&Id>, code: i64, text: &str) -> Vec<u8> {
    let id = id.map_or(Value::Null, Id::to_json);
    line(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } }))
}

/// An answer that says that a request is not taken.
pub(super) fn not_taken(id: &Id, why: &impl ToString) -> Vec<u8> {
    error(Some(id), INVALID_REQUEST, &why.to_string())
}

/// A question of ours to the client's user.
pub(super) fn question(id: &str, message: &str, form: &Value) -> Vec<u8> {
    line(&json!({
        "jsonrpc": "2.0", "id": id, "method": "elicitation/create",
        "params": { "message": message, "requestedSchema": form },
    }))
}

/// A question of ours to the server: which tools it has.
pub(super) fn list_request(id: &Id, cursor: Option<&str>) -> Vec<u8> {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
    line(&json!({
        "jsonrpc": "2.0", "id": id.to_json(), "method": "tools/list", "params": params,
    }))
}

/// Nobody needs the answer any more.
pub(super) fn cancelled(id: &Value, reason: &str) -> Vec<u8> {
    let params = json!({ "requestId": id, "reason": reason });
    line(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// The gate said no.
pub(super) fn denied(tool: &str, reasons: &[String]) -> String {
    format!(
        "countersign refused this call: `{}` was not run.\n{}What to do: do not try the same thing in \
         another way. Tell your user what you wanted to do and why it was refused.",
        shown(tool),
        whys(reasons)
    )
}

/// A person said no.
pub(super) fn declined(tool: &str) -> String {
    format!(
        "A person refused this call: `{}` was not run.\nWhat to do: do not try the same thing in \
         another way. Ask your user how to go on.",
        shown(tool)
    )
}

/// A person has not answered.
pub(super) fn unanswered(tool: &str, question: &str, reasons: &[String]) -> String {
    format!(
        "countersign holds this call: `{}` was not run. A person has to agree to it, and nobody has \
         answered yet.\n{}What to do: ask your user to run `countersign approve {question} --yes`. Then \
         make the same call again, with the same arguments.",
        shown(tool),
        whys(reasons)
    )
}

/// A person agreed to a tool that is another one by now.
pub(super) fn changed_meanwhile(tool: &str) -> String {
    format!(
        "countersign did not run `{}`: the tool changed after a person was asked about it.\nWhat to do: \
         make the same call again; a person is then asked about the tool as it is now.",
        shown(tool)
    )
}

/// We could not do our part.
pub(super) fn unrecorded(tool: &str, why: &str) -> String {
    format!(
        "countersign could not record this call, so `{}` was not run: {}\nWhat to do: tell your user; \
         `countersign doctor` may say more.",
        shown(tool),
        shown(why)
    )
}

/// It was still waiting for its turn, or for a person, when everything ended.
pub(super) fn unsent(tool: &str, why: &str) -> String {
    format!("`{}` was not run: {}", shown(tool), shown(why))
}

/// It ran, and what came of it could not be kept.
pub(super) fn unkept(tool: &str, why: &str) -> String {
    format!(
        "`{}` was run, but countersign could not record what came of it, so its result is not passed \
         on: {}\nWhat to do: tell your user; do not simply call it again, since it may have had its \
         effect.",
        shown(tool),
        shown(why)
    )
}

/// It went to the server, and nobody knows what came of it.
pub(super) fn unknown(tool: &str, why: &str) -> String {
    format!(
        "`{}` was sent to its server, and what came of it is not known: {}. It may have had its effect.",
        shown(tool),
        shown(why)
    )
}

fn whys(reasons: &[String]) -> String {
    reasons.iter().map(|reason| format!("Why: {}\n", shown(reason))).collect()
}

/// A text of somebody else as it can be shown.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.chars().take(REASON_MAX).collect();
    let cut = if short.len() < text.len() { " […]" } else { "" };
    format!("{}{cut}", escape_block(&short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_result_of_a_tool_and_an_error_where_a_task_is_expected() {
        let id = Id::Text("a".into());
        let said = |line: Vec<u8>| String::from_utf8(line).unwrap();
        assert_eq!(
            said(refusal(&id, false, "no")),
            "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"no\"}],\
             \"isError\":true}}\n"
        );
        assert_eq!(
            said(refusal(&Id::Number("7".into()), true, "no")),
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32000,\"message\":\"no\"}}\n"
        );
    }

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        let text = denied("a\u{1b}[2J", &["b\u{7}".to_owned()]);
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
        assert_eq!(shown(&"x".repeat(3_000)).chars().count(), REASON_MAX + 4);
    }
}
