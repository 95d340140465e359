//! Requests as input envelopes, and answers out of output envelopes.

use countersign_format::envelope::{ENVELOPE_BYTES_MAX, OutputEnvelope, Recommendation};
use countersign_format::json;
use serde_json::{Map, Value, json};

use super::Request;

/// What every agent is told beside its request.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// The task's name.
    pub task_id: String,
    /// The task in short, for the parameters.
    pub task: Value,
    /// The task's input files, relative to the workspace root.
    pub inputs: Vec<String>,
    /// Where stored evidence lies.
    pub store: String,
}

/// The input envelope of a request.
pub(super) fn input(setting: &Setting, request: &Request<'_>, attempt: u32) -> Value {
    let mut params = match request.params() {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    params.insert("task".into(), setting.task.clone());
    params.insert("store".into(), json!(setting.store));
    params.insert("answer_file".into(), json!(request.file()));
    params.insert("answer_form".into(), json!(request.answer_form()));
    let mut paths = Map::new();
    if !setting.inputs.is_empty() {
        paths.insert("inputs".into(), json!(setting.inputs));
    }
    json!({
        "context": {
            "feature_id": setting.task_id,
            "workflow": "session",
            "iteration": attempt,
        },
        "paths": paths,
        "task": { "action": request.action(), "params": params },
    })
}

/// The answer that an output envelope holds, or why it holds none, as the end of a sentence.
pub(super) fn answer(printed: &[u8], request: &Request<'_>) -> Result<Value, String> {
    let envelope = OutputEnvelope::from_bytes(printed)
        .map_err(|error| format!("printed no output envelope: {error}"))?;
    match (envelope.success, envelope.recommendation) {
        (true, Recommendation::Proceed) => {}
        (true, Recommendation::Retry) => {
            return Err(format!("asks for another attempt: {}", envelope.summary));
        }
        (_, Recommendation::Escalate) => {
            return Err(format!("needs somebody else: {}", envelope.summary));
        }
        // A failure that recommends to proceed is no envelope at all.
        (false, Recommendation::Retry | Recommendation::Proceed) => {
            return Err(format!("could not do it: {}", envelope.summary));
        }
    }
    let wanted = request.file();
    let file = envelope
        .artifacts
        .iter()
        .find(|artifact| artifact.path.components().last() == Some(wanted))
        .ok_or_else(|| format!("gave no `{wanted}` among its artifacts"))?;
    json::read_up_to(file.content.as_bytes(), ENVELOPE_BYTES_MAX)
        .map_err(|error| format!("gave a `{wanted}` that cannot be read: {error}"))
}

/// How many places are tried as the beginning of an envelope.
const PLACES_MAX: usize = 10_000;

/// The last output envelope in what a model printed, which may stand among other text or inside the
/// JSON that a coding agent wraps around its result.
pub(crate) fn find(printed: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(printed);
    if let Ok(Value::Object(members)) = serde_json::from_str::<Value>(text.trim())
        && let Some(Value::String(inner)) = members.get("result")
    {
        return find_in(inner);
    }
    find_in(&text)
}

fn find_in(text: &str) -> Option<Vec<u8>> {
    let mut found = None;
    let mut from = 0;
    for _ in 0..PLACES_MAX {
        let Some(start) = text.get(from..).and_then(|rest| rest.find('{')) else { break };
        let start = from + start;
        let rest = text.get(start..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let end = values.byte_offset();
                if value.get("success").is_some() && value.get("recommendation").is_some() {
                    found = rest.get(..end).map(|text| text.as_bytes().to_vec());
                }
                from = start + end;
            }
            _ => from = start + 1,
        }
    }
    found
}

/// The whole of what a coding agent is told.
pub(super) fn prompt(input: &Value, request: &Request<'_>) -> String {
    let role = request.role().as_str();
    let envelope = serde_json::to_string_pretty(input).unwrap_or_default();
    let (file, form) = (request.file(), request.answer_form());
    format!(
        "You play the role of the {role} in a recorded session. Everything that you answer is \
         signed and kept.\n\n\
         Your input envelope:\n\n```json\n{envelope}\n```\n\n\
         Print one JSON object, your output envelope, and nothing after it:\n\n\
         ```json\n{{\"success\": true, \"summary\": \"what you did\", \"artifacts\": [{{\"path\": \
         \"{file}\", \"operation\": \"create\", \"content\": \"the JSON text of your answer\"}}], \
         \"notes\": [], \"recommendation\": \"proceed\"}}\n```\n\n\
         The content of `{file}` is JSON of this form: {form}\n\n\
         If you cannot do it: \"success\": false, the reason in \"summary\", an empty list of \
         artifacts, and \"recommendation\": \"escalate\".\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(success: bool, recommendation: &str, file: &str, content: &str) -> Vec<u8> {
        json!({
            "success": success,
            "summary": "why",
            "artifacts": [{ "path": file, "operation": "create", "content": content }],
            "recommendation": recommendation,
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn the_answer_is_the_file_that_the_request_names_in_whatever_directory() {
        let printed = envelope(true, "proceed", "out/proposals.json", r#"[{"id":"a"}]"#);
        assert_eq!(answer(&printed, &Request::Plan), Ok(json!([{ "id": "a" }])));
    }

    #[test]
    fn an_answer_that_cannot_be_used_is_told_in_words() {
        let table = [
            (envelope(true, "retry", "proposals.json", "[]"), "asks for another attempt: why"),
            (envelope(true, "escalate", "proposals.json", "[]"), "needs somebody else: why"),
            (envelope(false, "retry", "proposals.json", "[]"), "could not do it: why"),
            (envelope(false, "escalate", "proposals.json", "[]"), "needs somebody else: why"),
            (
                envelope(false, "proceed", "proposals.json", "[]"),
                "printed no output envelope: /recommendation: `proceed` contradicts `success: \
                 false`: write `retry` or `escalate`",
            ),
            (
                envelope(true, "proceed", "plan.json", "[]"),
                "gave no `proposals.json` among its artifacts",
            ),
        ];
        for (printed, reason) in table {
            assert_eq!(answer(&printed, &Request::Plan), Err(reason.to_owned()));
        }
        let unreadable = answer(b"hello", &Request::Plan).unwrap_err();
        assert!(unreadable.starts_with("printed no output envelope: "), "{unreadable}");
    }

    #[test]
    fn the_last_envelope_among_other_text_is_found() {
        let first = String::from_utf8(envelope(false, "escalate", "a.json", "{}")).unwrap();
        let last = String::from_utf8(envelope(true, "proceed", "b.json", "{}")).unwrap();
        let talk =
            format!("Let me see {{not json}} ```json\n{first}\n``` or {{\"x\":1}} {last} bye");
        assert_eq!(find(talk.as_bytes()), Some(last.clone().into_bytes()));
        let wrapped = json!({ "type": "result", "result": talk }).to_string();
        assert_eq!(find(wrapped.as_bytes()), Some(last.into_bytes()));
        assert_eq!(find(b"nothing {here"), None);
    }

    #[test]
    fn a_request_is_an_input_envelope() {
        let setting = Setting {
            task_id: "run-tests".into(),
            task: json!({ "objective": "x" }),
            inputs: vec!["src/a.py".into()],
            store: ".countersign".into(),
        };
        let value = input(&setting, &Request::Plan, 2);
        let bytes = json::to_bytes(&value);
        let read = countersign_format::envelope::InputEnvelope::from_bytes(&bytes).unwrap();
        assert_eq!((read.context.iteration, read.task.action.as_str()), (2, "plan"));
    }
}
