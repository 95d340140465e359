//! The signal itself: made in code, or read from what an agent printed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::checks;
use super::error::{ExitSignalError, HandlerRefusal, echo};
use super::{
    EXIT_SIGNAL_PROTOCOL, EXIT_SIGNAL_VERSION, ExitFlag, ExitReason, INPUT_BYTES_MAX, WorkPhase,
};
use crate::json;
use crate::shape::{Fields, Shape, Unknown, opt, req};

/// The members of an exit signal.
pub static EXIT_SIGNAL_FIELDS: Fields = Fields {
    name: "ExitSignal",
    doc: "What an agent emits when it is done with a phase of a work item.",
    fields: &[
        req("protocol", Shape::OneOf(&[EXIT_SIGNAL_PROTOCOL])),
        req("version", Shape::Version),
        req("phase_completed", Shape::OneOf(&WorkPhase::NAMES)),
        req("exit_reason", Shape::OneOf(&ExitReason::NAMES)),
        opt("pr_url", Shape::Nullable(&Shape::Text)),
        opt("evidence_bundle_ref", Shape::Nullable(&Shape::Text)),
        opt("notes", Shape::Nullable(&Shape::Text)),
    ],
    unknown: Unknown::Refused,
};

/// What an agent emits when it is done with a phase. Read ones are valid; made ones are checked
/// with [`ExitSignal::validate`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct ExitSignal {
    /// Always [`EXIT_SIGNAL_PROTOCOL`].
    pub protocol: String,
    /// `1.` and two more numbers.
    pub version: String,
    /// The phase that was worked on.
    pub phase_completed: WorkPhase,
    /// Why the session ends.
    pub exit_reason: ExitReason,
    /// The pull request, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pr_url: Option<String>,
    /// Relative path of the evidence for this phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence_bundle_ref: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

impl ExitSignal {
    /// A signal of the current version without optional fields.
    #[must_use]
    pub fn new(phase_completed: WorkPhase, exit_reason: ExitReason) -> Self {
        Self {
            protocol: EXIT_SIGNAL_PROTOCOL.to_owned(),
            version: EXIT_SIGNAL_VERSION.to_owned(),
            phase_completed,
            exit_reason,
            pr_url: None,
            evidence_bundle_ref: None,
            notes: None,
        }
    }

    /// The same with a pull request.
    #[must_use]
    pub fn with_pr_url(mut self, url: impl Into<String>) -> Self {
        self.pr_url = Some(url.into());
        self
    }

    /// The same with evidence.
    #[must_use]
    pub fn with_evidence_bundle_ref(mut self, reference: impl Into<String>) -> Self {
        self.evidence_bundle_ref = Some(reference.into());
        self
    }

    /// The same with notes.
    #[must_use]
    pub fn with_notes(mut self, notes: impl Into<String>) -> Self {
        self.notes = Some(notes.into());
        self
    }

    /// Checks every field, and that the phase may be left for this reason.
    pub fn validate(&self) -> Result<(), ExitSignalError> {
        checks::protocol(&self.protocol, Some(&self.version))?;
        self.pr_url.as_deref().map_or(Ok(()), checks::pr_url)?;
        self.evidence_bundle_ref.as_deref().map_or(Ok(()), checks::evidence)?;
        self.notes.as_deref().map_or(Ok(()), checks::notes)?;
        self.next_phase().map(|_| ())
    }

    /// Reads one signal: the whole text, nothing before or after it but white space.
    pub fn from_json(text: &str) -> Result<Self, ExitSignalError> {
        Self::from_json_bytes(text.as_bytes())
    }

    /// As [`ExitSignal::from_json`], for bytes that may not even be text.
    pub fn from_json_bytes(bytes: &[u8]) -> Result<Self, ExitSignalError> {
        if bytes.len() > INPUT_BYTES_MAX {
            let (actual, max) = (bytes.len(), INPUT_BYTES_MAX);
            return Err(ExitSignalError::InputTooLarge { actual, max });
        }
        json::read(bytes)?.try_into()
    }

    /// As [`ExitSignal::from_json`], where signals are switched on; otherwise refuses unread.
    pub fn from_json_if_enabled(text: &str, flag: ExitFlag) -> Result<Self, ExitSignalError> {
        match flag {
            ExitFlag::Enabled => Self::from_json(text),
            ExitFlag::Disabled => Err(ExitSignalError::ValidationDisabled),
        }
    }

    /// The phase that follows, by the table of transitions alone.
    pub fn next_phase(&self) -> Result<WorkPhase, ExitSignalError> {
        match self.exit_reason {
            ExitReason::Blocked | ExitReason::Error => Ok(WorkPhase::Blocked),
            ExitReason::Completed => self
                .phase_completed
                .after_completion()
                .ok_or(ExitSignalError::NoTransition(self.phase_completed)),
        }
    }

    /// The phase to which an agent's session moves its work item, if it holds `active`.
    pub fn check_for_phase(&self, active: Option<WorkPhase>) -> Result<WorkPhase, HandlerRefusal> {
        let next = self.check_for_ci_runner(active)?;
        // Otherwise an agent could declare its own CI passed.
        if self.phase_completed == WorkPhase::CiPending && self.exit_reason == ExitReason::Completed
        {
            return Err(HandlerRefusal::OnlyCiRunner);
        }
        Ok(next)
    }

    /// As [`ExitSignal::check_for_phase`], for the CI runner, which alone completes CI_PENDING.
    pub fn check_for_ci_runner(
        &self,
        active: Option<WorkPhase>,
    ) -> Result<WorkPhase, HandlerRefusal> {
        let actual = active.ok_or(HandlerRefusal::NoActivePhase)?;
        let claimed = self.phase_completed;
        if claimed != actual {
            return Err(HandlerRefusal::PhaseMismatch { claimed, actual });
        }
        match actual {
            WorkPhase::Completed => Err(HandlerRefusal::AlreadyCompleted),
            WorkPhase::Blocked => Err(HandlerRefusal::Blocked),
            _ => self.next_phase().map_err(|_| HandlerRefusal::Blocked),
        }
    }
}

/// Reads a signal from a value that the strict reader gave.
impl TryFrom<Value> for ExitSignal {
    type Error = ExitSignalError;

    fn try_from(value: Value) -> Result<Self, ExitSignalError> {
        let Value::Object(members) = value else {
            return Err(ExitSignalError::shape(format!(
                "expected an object, found {}",
                kind(&value)
            )));
        };
        // Protocol and version come first: a message of another protocol, or of a later version
        // with more fields, should be called that, not a signal with an unknown field.
        let protocol = text(&members, "protocol")?;
        checks::protocol(protocol, members.get("version").and_then(Value::as_str))?;
        let version = text(&members, "version")?;
        let known = |key: &&String| EXIT_SIGNAL_FIELDS.fields.iter().any(|f| f.name == *key);
        if let Some(key) = members.keys().find(|key| !known(key)) {
            let names: Vec<&str> = EXIT_SIGNAL_FIELDS.fields.iter().map(|f| f.name).collect();
            return Err(ExitSignalError::shape(format!(
                "unknown field `{}`, expected one of: {}",
                echo(key),
                names.join(", ")
            )));
        }
        let signal = Self {
            protocol: protocol.to_owned(),
            version: version.to_owned(),
            phase_completed: named(&members, "phase_completed", WorkPhase::parse)?,
            exit_reason: named(&members, "exit_reason", ExitReason::parse)?,
            pr_url: optional_text(&members, "pr_url")?,
            evidence_bundle_ref: optional_text(&members, "evidence_bundle_ref")?,
            notes: optional_text(&members, "notes")?,
        };
        signal.validate()?;
        Ok(signal)
    }
}

fn text<'a>(members: &'a Map<String, Value>, key: &str) -> Result<&'a str, ExitSignalError> {
    match members.get(key) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(wrong_type(key, other)),
        None => Err(ExitSignalError::shape(format!("missing field `{key}`"))),
    }
}

fn named<T, E: std::fmt::Display>(
    members: &Map<String, Value>,
    key: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, ExitSignalError> {
    let name = text(members, key)?;
    parse(name).map_err(|error| {
        ExitSignalError::shape(format!("unknown value `{}` of `{key}`: {error}", echo(name)))
    })
}

/// `null` counts as absent.
fn optional_text(
    members: &Map<String, Value>,
    key: &str,
) -> Result<Option<String>, ExitSignalError> {
    match members.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong_type(key, other)),
    }
}

fn wrong_type(key: &str, found: &Value) -> ExitSignalError {
    ExitSignalError::shape(format!("field `{key}` must be a string, found {}", kind(found)))
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
