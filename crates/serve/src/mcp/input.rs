//! What a model hands to a tool, read field by field.
//!
//! Decides which arguments are taken: their types and how large they may be. Fields that a tool does
//! not know are left alone, since models and clients add their own. What an argument means is not
//! decided here.

use rmcp::model::JsonObject;
use serde_json::Value;

/// Bytes of an action's type, a tool's name, a name of a session.
const NAME_BYTES_MAX: usize = 256;
/// Bytes of a description: it becomes a part of an event, which is one line of at most a mebibyte.
const DESCRIPTION_BYTES_MAX: usize = 16 << 10;
/// Bytes of a command line or an error text.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Bytes of a diff.
const DIFF_BYTES_MAX: usize = 1 << 20;
/// Bytes of what an action put out.
const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Files of one action, and bytes of a path and of all of them together.
const FILES_MAX: usize = 1000;
const PATH_BYTES_MAX: usize = 4096;
const PATHS_BYTES_MAX: usize = 256 << 10;
/// The largest number that JSON readers everywhere take for the same.
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Why an argument was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InputFault {
    #[error("`{field}` is missing; it must be {expected}")]
    Missing { field: &'static str, expected: &'static str },
    #[error("`{field}` must be {expected}, not {found}")]
    WrongType { field: String, expected: &'static str, found: &'static str },
    #[error("`{field}` has {found} bytes, more than the {limit} that it may have")]
    TooLong { field: String, found: usize, limit: usize },
    #[error("`{field}` lists {found} files, more than the {limit} that one action may touch")]
    TooMany { field: &'static str, found: usize, limit: usize },
}

/// What `capseal_gate` is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GateInput {
    pub(crate) action_type: String,
    pub(crate) description: String,
    pub(crate) files_affected: Vec<String>,
    pub(crate) diff_text: Option<String>,
    pub(crate) tool_name: Option<String>,
    pub(crate) command: Option<String>,
}

/// What `capseal_record` is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordInput {
    pub(crate) action_type: String,
    pub(crate) description: String,
    pub(crate) tool_name: String,
    pub(crate) success: bool,
    pub(crate) files_affected: Vec<String>,
    pub(crate) duration_ms: u64,
    pub(crate) output: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) gate_token: Option<String>,
}

/// What `capseal_seal` is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SealInput {
    pub(crate) session_name: Option<String>,
}

/// What `capseal_context` is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContextInput {
    pub(crate) file: String,
}

impl GateInput {
    pub(crate) fn read(arguments: &JsonObject) -> Result<Self, InputFault> {
        let fields = Fields(arguments);
        Ok(Self {
            action_type: fields.text("action_type", NAME_BYTES_MAX)?,
            description: fields.text("description", DESCRIPTION_BYTES_MAX)?,
            files_affected: fields.paths("files_affected")?,
            diff_text: fields.optional_text("diff_text", DIFF_BYTES_MAX)?,
            tool_name: fields.optional_text("tool_name", NAME_BYTES_MAX)?,
            command: fields.optional_text("command", TEXT_BYTES_MAX)?,
        })
    }
}

impl RecordInput {
    pub(crate) fn read(arguments: &JsonObject) -> Result<Self, InputFault> {
        let fields = Fields(arguments);
        Ok(Self {
            action_type: fields.text("action_type", NAME_BYTES_MAX)?,
            description: fields.text("description", DESCRIPTION_BYTES_MAX)?,
            tool_name: fields.text("tool_name", NAME_BYTES_MAX)?,
            success: fields.truth("success")?,
            files_affected: fields.paths("files_affected")?,
            duration_ms: fields.count("duration_ms")?,
            output: fields.optional_text("output", OUTPUT_BYTES_MAX)?,
            error: fields.optional_text("error", TEXT_BYTES_MAX)?,
            gate_token: fields.optional_text("gate_token", NAME_BYTES_MAX)?,
        })
    }
}

impl SealInput {
    pub(crate) fn read(arguments: &JsonObject) -> Result<Self, InputFault> {
        let fields = Fields(arguments);
        Ok(Self { session_name: fields.optional_text("session_name", NAME_BYTES_MAX)? })
    }
}

impl ContextInput {
    pub(crate) fn read(arguments: &JsonObject) -> Result<Self, InputFault> {
        Ok(Self { file: Fields(arguments).text("file", PATH_BYTES_MAX)? })
    }
}

const TEXT: &str = "a text";
const TRUTH: &str = "true or false";
const COUNT: &str = "a whole number from 0";
const FILES: &str = "a list of file paths";

struct Fields<'a>(&'a JsonObject);

impl Fields<'_> {
    /// The value of a field. Some clients write `null` for what was not given.
    fn value(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    fn text(&self, field: &'static str, limit: usize) -> Result<String, InputFault> {
        let given = self.optional_text(field, limit)?;
        given.ok_or(InputFault::Missing { field, expected: TEXT })
    }

    fn optional_text(
        &self,
        field: &'static str,
        limit: usize,
    ) -> Result<Option<String>, InputFault> {
        self.value(field).map(|value| bounded(value, || field.to_owned(), limit)).transpose()
    }

    fn truth(&self, field: &'static str) -> Result<bool, InputFault> {
        let value = self.value(field).ok_or(InputFault::Missing { field, expected: TRUTH })?;
        value.as_bool().ok_or_else(|| wrong(field.to_owned(), TRUTH, value))
    }

    /// A number of something; none where it is not given. A whole number that was written with a
    /// point is one all the same: JSON does not tell them apart.
    fn count(&self, field: &'static str) -> Result<u64, InputFault> {
        let Some(value) = self.value(field) else { return Ok(0) };
        let whole = value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole and not negative; what is too large is refused below"
        )]
        let number = value.as_u64().or(whole.map(|number| number as u64));
        number
            .filter(|number| *number <= INTEGER_MAX)
            .ok_or_else(|| wrong(field.to_owned(), COUNT, value))
    }

    fn paths(&self, field: &'static str) -> Result<Vec<String>, InputFault> {
        let Some(value) = self.value(field) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| wrong(field.to_owned(), FILES, value))?;
        if list.len() > FILES_MAX {
            return Err(InputFault::TooMany { field, found: list.len(), limit: FILES_MAX });
        }
        let each = list.iter().enumerate();
        let paths = each
            .map(|(at, value)| bounded(value, || format!("{field}[{at}]"), PATH_BYTES_MAX))
            .collect::<Result<Vec<_>, _>>()?;
        let found = paths.iter().map(String::len).sum();
        if found > PATHS_BYTES_MAX {
            let field = field.to_owned();
            return Err(InputFault::TooLong { field, found, limit: PATHS_BYTES_MAX });
        }
        Ok(paths)
    }
}

fn bounded(value: &Value, field: impl Fn() -> String, limit: usize) -> Result<String, InputFault> {
    let text = value.as_str().ok_or_else(|| wrong(field(), TEXT, value))?;
    if text.len() > limit {
        return Err(InputFault::TooLong { field: field(), found: text.len(), limit });
    }
    Ok(text.to_owned())
}

fn wrong(field: String, expected: &'static str, found: &Value) -> InputFault {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "this number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    InputFault::WrongType { field, expected, found }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> JsonObject {
        match value {
            Value::Object(object) => object,
            other => panic!("{other}"),
        }
    }

    fn record(change: &Value) -> Result<RecordInput, String> {
        let mut given = object(json!({
            "action_type": "code_edit", "description": "d", "tool_name": "t", "success": true,
        }));
        given.extend(object(change.clone()));
        RecordInput::read(&given).map_err(|fault| fault.to_string())
    }

    #[test]
    fn what_is_not_given_or_null_is_absent_and_unknown_fields_are_left_alone() {
        let bare = RecordInput {
            action_type: "code_edit".into(),
            description: "d".into(),
            tool_name: "t".into(),
            success: true,
            files_affected: vec![],
            duration_ms: 0,
            output: None,
            error: None,
            gate_token: None,
        };
        assert_eq!(record(&json!({})), Ok(bare.clone()));
        let null = json!({ "output": null, "files_affected": null, "duration_ms": null });
        assert_eq!(record(&null), Ok(bare.clone()));
        assert_eq!(record(&json!({ "mood": ["good"] })), Ok(bare.clone()));
        let whole = RecordInput { duration_ms: 12, ..bare };
        assert_eq!(record(&json!({ "duration_ms": 12.0 })), Ok(whole));
    }

    #[test]
    fn a_fault_names_the_field_and_what_it_should_be() {
        let faults = [
            (json!({ "description": null }), "`description` is missing; it must be a text"),
            (json!({ "success": "yes" }), "`success` must be true or false, not a text"),
            (json!({ "tool_name": 5 }), "`tool_name` must be a text, not this number"),
            (
                json!({ "duration_ms": -1 }),
                "`duration_ms` must be a whole number from 0, not this number",
            ),
            (
                json!({ "duration_ms": 1.5 }),
                "`duration_ms` must be a whole number from 0, not this number",
            ),
            (
                json!({ "files_affected": "a.rs" }),
                "`files_affected` must be a list of file paths, not a text",
            ),
            (
                json!({ "files_affected": ["a", {}] }),
                "`files_affected[1]` must be a text, not an object",
            ),
            (
                json!({ "output": "x".repeat(OUTPUT_BYTES_MAX + 1) }),
                "`output` has 4194305 bytes, more than the 4194304 that it may have",
            ),
            (
                json!({ "files_affected": vec!["a"; 1001] }),
                "`files_affected` lists 1001 files, more than the 1000 that one action may touch",
            ),
            (
                json!({ "files_affected": vec!["a".repeat(1000); 300] }),
                "`files_affected` has 300000 bytes, more than the 262144 that it may have",
            ),
        ];
        for (change, fault) in faults {
            assert_eq!(record(&change), Err(fault.to_owned()));
        }
    }

    #[test]
    fn what_is_just_within_the_limits_is_taken() {
        let diff = "x".repeat(DIFF_BYTES_MAX);
        let given = json!({ "action_type": "code_edit", "description": "", "diff_text": diff });
        let read = GateInput::read(&object(given)).map(|input| input.diff_text);
        assert_eq!(read, Ok(Some(diff)));
    }
}
