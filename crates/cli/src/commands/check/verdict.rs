//! What a check found, and how it is told.

use countersign_format::json::{JsonError, Value};
use countersign_format::shape::{Fault, Faults, shown_pointer};
use countersign_runtime::task::TaskFault;
use serde::Serialize;

use super::kind::Kind;
use super::task::TaskSummary;
use crate::commands::flow::FlowSummary;
use crate::{CommandError, Exit, Format, Output};

/// What a check found.
pub(super) enum Verdict {
    Valid(Findings),
    Invalid(Refusal),
    Migrated(Migrated),
}

/// What is said of a valid document.
#[derive(Default, Serialize)]
pub(super) struct Findings {
    /// What is printed, exactly; nothing is said to be valid by printing nothing.
    #[serde(skip)]
    pub(super) data: Option<Vec<u8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) form: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) receipt_kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_phase: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) canonical: Option<String>,
    #[serde(flatten)]
    pub(super) task: Option<TaskSummary>,
    #[serde(flatten)]
    pub(super) flow: Option<FlowSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hints: Vec<PlacedFault>,
}

/// An envelope in the present form.
#[derive(Serialize)]
pub(super) struct Migrated {
    /// What the document should be.
    #[serde(skip)]
    pub(super) what: &'static str,
    /// What is printed, exactly.
    #[serde(skip)]
    pub(super) text: String,
    pub(super) envelope: Value,
    pub(super) changes: Vec<PlacedFault>,
    pub(super) by_hand: Vec<PlacedFault>,
    /// Whether the text is a valid envelope.
    pub(super) valid: bool,
    pub(super) faults: FoundFaults,
}

/// Why a document is not valid.
#[derive(Serialize)]
pub(super) struct Refusal {
    /// What is said first.
    #[serde(skip)]
    headline: String,
    #[serde(skip)]
    hints: Vec<String>,
    faults: FoundFaults,
    /// Whether the headline already says all that the faults say.
    #[serde(skip)]
    listed: Listed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    InTheHeadline,
    BelowIt,
}

/// Everything that is wrong with a document: what is listed of it, and how much it is.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub(super) struct FoundFaults {
    listed: Vec<PlacedFault>,
    #[serde(skip)]
    count: usize,
}

/// A fault, and where in the text it was noticed if it is one of the text itself.
#[derive(Serialize)]
pub(super) struct PlacedFault {
    #[serde(flatten)]
    place: Place,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

/// What a fault is about.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    /// A value of a JSON document.
    Pointer(String),
    /// A key of a task file.
    Path(String),
}

#[derive(Serialize)]
struct Answer<'a, T> {
    valid: bool,
    kind: Kind,
    #[serde(flatten)]
    rest: &'a T,
}

impl Verdict {
    /// Prints the verdict in the form that was asked for.
    pub(super) fn tell(self, kind: Kind, output: &mut Output) -> Result<Exit, CommandError> {
        match (self, output.format()) {
            (Self::Valid(findings), Format::Json) => {
                output.json(&Answer { valid: true, kind, rest: &findings })?;
                Ok(Exit::Done)
            }
            (Self::Invalid(refusal), Format::Json) => {
                output.json(&Answer { valid: false, kind, rest: &refusal })?;
                Ok(Exit::No)
            }
            (Self::Valid(findings), Format::Text) => {
                match findings.data {
                    Some(data) => output.data_bytes(&data)?,
                    None => output.success("valid"),
                }
                findings.hints.iter().for_each(|hint| output.hint(hint.text()));
                Ok(Exit::Done)
            }
            (Self::Invalid(refusal), Format::Text) => Err(refusal.into_error()),
            (Self::Migrated(migrated), Format::Json) => {
                output.json(&migrated)?;
                Ok(if migrated.valid { Exit::Done } else { Exit::No })
            }
            (Self::Migrated(migrated), Format::Text) => migrated.tell(output),
        }
    }
}

impl Migrated {
    /// Prints the envelope even if it is not valid yet: what is left to do is done on it.
    fn tell(self, output: &mut Output) -> Result<Exit, CommandError> {
        let Self { what, text, changes, by_hand, faults, .. } = self;
        output.data_bytes(text.as_bytes())?;
        changes.iter().for_each(|change| output.note(change.text()));
        by_hand.iter().for_each(|left| output.warning(left.text()));
        if !faults.is_empty() {
            return Err(Refusal::listed(what, faults).into_error());
        }
        let unchanged = changes.is_empty() && by_hand.is_empty();
        output.success(if unchanged { "nothing to change" } else { "valid" });
        Ok(Exit::Done)
    }
}

impl Refusal {
    /// A refusal for one reason, which the error itself says.
    pub(super) fn single(headline: impl Into<String>, fault: PlacedFault) -> Self {
        Self {
            headline: headline.into(),
            hints: Vec::new(),
            faults: fault.into(),
            listed: Listed::InTheHeadline,
        }
    }

    /// A refusal for every one of these reasons; `what` is what the document is not.
    pub(super) fn listed(what: &str, faults: FoundFaults) -> Self {
        let count = match faults.count {
            1 => "1 fault".to_owned(),
            count => format!("{count} faults"),
        };
        let headline = format!("not a valid {what}: {count}");
        Self { headline, hints: Vec::new(), faults, listed: Listed::BelowIt }
    }

    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    fn into_error(self) -> CommandError {
        let mut error = CommandError::no(self.headline);
        if self.listed == Listed::BelowIt {
            error = error.with_details(self.faults.listed.iter().map(PlacedFault::text));
        }
        error.hints = self.hints;
        error
    }
}

impl FoundFaults {
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl From<PlacedFault> for FoundFaults {
    fn from(fault: PlacedFault) -> Self {
        vec![fault].into()
    }
}

impl From<Vec<PlacedFault>> for FoundFaults {
    fn from(listed: Vec<PlacedFault>) -> Self {
        Self { count: listed.len(), listed }
    }
}

impl From<Faults> for FoundFaults {
    fn from(faults: Faults) -> Self {
        let count = faults.count();
        Self { count, listed: faults.into_vec().into_iter().map(PlacedFault::from).collect() }
    }
}

impl PlacedFault {
    /// A fault of the document as a whole.
    pub(super) fn of_document(message: impl Into<String>) -> Self {
        Fault { pointer: String::new(), message: message.into() }.into()
    }

    /// A fault of the text of a document, of which nothing was read.
    pub(super) fn at_the_beginning(message: String) -> Self {
        let place = Place::Pointer(String::new());
        Self { place, message, line: Some(1), column: Some(1) }
    }

    /// What is wrong, and where in the text.
    pub(super) fn said(&self) -> String {
        match (self.line, self.column) {
            (Some(line), Some(column)) => {
                format!("{} at line {line} column {column}", self.message)
            }
            _ => self.message.clone(),
        }
    }

    fn text(&self) -> String {
        match (&self.place, self.line, self.column) {
            (Place::Path(path), Some(line), Some(column)) => {
                let (path, message) = (path.clone(), self.message.clone());
                TaskFault { line, column, path, message }.to_string()
            }
            (place, ..) => format!("{}: {}", place.text(), self.said()),
        }
    }
}

impl Place {
    fn text(&self) -> &str {
        match self {
            Self::Pointer(place) | Self::Path(place) if place.is_empty() => "(document)",
            Self::Pointer(place) | Self::Path(place) => place,
        }
    }
}

impl From<Fault> for PlacedFault {
    fn from(Fault { pointer, message }: Fault) -> Self {
        Self { place: Place::Pointer(pointer), message, line: None, column: None }
    }
}

impl From<JsonError> for PlacedFault {
    fn from(error: JsonError) -> Self {
        Self {
            message: error.fault.to_string(),
            place: Place::Pointer(shown_pointer(&error.pointer)),
            line: Some(error.line),
            column: Some(error.column),
        }
    }
}

impl From<TaskFault> for PlacedFault {
    fn from(TaskFault { line, column, path, message }: TaskFault) -> Self {
        Self { place: Place::Path(path), message, line: Some(line), column: Some(column) }
    }
}
