//! What an agent gives back: how it went, the files to write, what should happen next.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::walk::{self, MISSING, Members};
use super::{ARTIFACTS_MAX, EnvelopeError, NOTE_BYTES_MAX};
use crate::path::WorkspacePath;
use crate::shape::{Checker, Fault, Fields, Shape, Unknown, opt, req};

/// The members of an artifact.
pub static ARTIFACT_FIELDS: Fields = Fields {
    name: "Artifact",
    doc: "A file to write, with its whole content.",
    fields: &[
        req("path", Shape::NonEmptyText),
        req("operation", Shape::OneOf(&Operation::NAMES)),
        req("content", Shape::Text),
    ],
    unknown: Unknown::Kept,
};

/// The members of an output envelope.
pub static OUTPUT_ENVELOPE_FIELDS: Fields = Fields {
    name: "OutputEnvelope",
    doc: "What an agent gives back.",
    fields: &[
        req("success", Shape::Bool),
        req("summary", Shape::NonEmptyText),
        req("artifacts", Shape::List(&Shape::Object(&ARTIFACT_FIELDS))),
        opt("notes", Shape::List(&Shape::Text)),
        req("recommendation", Shape::OneOf(&Recommendation::NAMES)),
    ],
    unknown: Unknown::Kept,
};

const STATE_UPDATES: &str = "return the updated file in `artifacts` instead of `state_updates`";
const STATE_UPDATES_MISSING: &str =
    "missing: return the updated file in `artifacts` instead of `state_updates`";
const NEXT_RECOMMENDATION: &str = "write `recommendation` instead of `next_recommendation`";
const NEXT_RECOMMENDATION_MISSING: &str =
    "missing: write `recommendation` instead of `next_recommendation`";
const RESULT: &str = "say it in `success`, `summary` and `notes` instead of `result`";
const RESULT_MISSING: &str = "missing: say it in `success` and `summary` instead of `result`";
const REPORT: &str = "summarise it in `notes`";

/// Whether agents of former versions reported in a member of this name what belongs in `notes`.
pub(super) fn is_former_report(key: &str) -> bool {
    const NAMES: [&str; 3] = ["result", "collision_risks", "clarification_count"];
    NAMES.contains(&key) || key.ends_with("_report")
}

/// What an agent gives back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutputEnvelope {
    /// Whether the agent did its task.
    pub success: bool,
    /// What happened, for people; on failure the reason.
    pub summary: String,
    /// Files to write. No two of them can be the same file or lie inside each other.
    pub artifacts: Vec<Artifact>,
    /// For the next agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Vec<String>>,
    /// What should happen next.
    pub recommendation: Recommendation,
    /// Members that no table names.
    #[serde(flatten)]
    pub extra: Members,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Artifact {
    /// Where, below the workspace root.
    pub path: WorkspacePath,
    /// Whether the file is new.
    pub operation: Operation,
    /// Its whole content; its UTF-8 bytes are written as they are.
    pub content: String,
    /// Members that no table names.
    #[serde(flatten)]
    pub extra: Members,
}

/// Whether an artifact is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// The file is not there yet.
    Create,
    /// The file is there.
    Update,
}

impl Operation {
    /// The names of the operations.
    pub const NAMES: [&'static str; 2] = ["create", "update"];

    /// The operation of exactly this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Create, Self::Update].into_iter().find(|operation| operation.as_str() == name)
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
        }
    }
}

/// What an agent thinks should happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recommendation {
    /// Go on.
    Proceed,
    /// Try again.
    Retry,
    /// Ask a person.
    Escalate,
}

impl Recommendation {
    /// The names of the recommendations.
    pub const NAMES: [&'static str; 3] = ["proceed", "retry", "escalate"];

    /// The recommendation of exactly this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Proceed, Self::Retry, Self::Escalate]
            .into_iter()
            .find(|recommendation| recommendation.as_str() == name)
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proceed => "proceed",
            Self::Retry => "retry",
            Self::Escalate => "escalate",
        }
    }
}

impl OutputEnvelope {
    /// Reads an envelope, or lists everything that is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        walk::document(bytes, Self::read)
    }

    /// As [`OutputEnvelope::from_bytes`], from a value that the strict reader gave.
    pub fn from_value(value: Value) -> Result<Self, EnvelopeError> {
        walk::value(value, Self::read)
    }

    /// Hints on members that former versions of the protocol had and this one does not act on.
    #[must_use]
    pub fn legacy_hints(&self) -> Vec<Fault> {
        let mut former =
            vec![("state_updates", STATE_UPDATES), ("next_recommendation", NEXT_RECOMMENDATION)];
        let mut reports: Vec<&str> = self.extra.keys().map(String::as_str).collect();
        reports.retain(|key| is_former_report(key));
        reports.sort_unstable();
        let said = |key| if key == "result" { (key, RESULT) } else { (key, REPORT) };
        former.extend(reports.into_iter().map(said));
        walk::legacy_hints("", &self.extra, &former)
    }

    fn read(checker: &mut Checker, value: Value) -> Option<Self> {
        let mut members = walk::object(checker, value)?;
        let missing = if members.contains_key("result") { RESULT_MISSING } else { MISSING };
        let success = walk::required(checker, &mut members, "success", missing, walk::boolean);
        let summary =
            walk::required(checker, &mut members, "summary", MISSING, |checker, value| {
                walk::said(checker, value, NOTE_BYTES_MAX)
            });
        let missing =
            if members.contains_key("state_updates") { STATE_UPDATES_MISSING } else { MISSING };
        let artifacts = walk::required(checker, &mut members, "artifacts", missing, read_artifacts);
        let notes = walk::optional(checker, &mut members, "notes", walk::notes);
        let missing = if members.contains_key("next_recommendation") {
            NEXT_RECOMMENDATION_MISSING
        } else {
            MISSING
        };
        let recommendation =
            walk::required(checker, &mut members, "recommendation", missing, |checker, value| {
                read_name(checker, value, Recommendation::parse, |_| {
                    format!("must be one of: {}", Recommendation::NAMES.join(", "))
                })
            });
        if success == Some(false) && recommendation == Some(Recommendation::Proceed) {
            checker.below("recommendation", |checker| {
                checker
                    .fault("`proceed` contradicts `success: false`: write `retry` or `escalate`");
            });
        }
        Some(Self {
            success: success?,
            summary: summary?,
            artifacts: artifacts?,
            notes: notes?,
            recommendation: recommendation?,
            extra: members,
        })
    }
}

fn read_name<T>(
    checker: &mut Checker,
    value: Value,
    parse: impl FnOnce(&str) -> Option<T>,
    otherwise: impl FnOnce(&str) -> String,
) -> Option<T> {
    let name = walk::raw_text(checker, value)?;
    let made = parse(&name);
    if made.is_none() {
        checker.fault(otherwise(&name));
    }
    made
}

fn read_artifacts(checker: &mut Checker, value: Value) -> Option<Vec<Artifact>> {
    let mut index = 0;
    let mut keys = Vec::new();
    let artifacts = walk::list(checker, value, ARTIFACTS_MAX, |checker, value| {
        let place = index;
        index += 1;
        read_artifact(checker, value, |path| keys.push((path.collision_key(), place)))
    });
    checker.within_list(|checker| check_collisions(checker, keys));
    artifacts
}

/// Takes one artifact apart; `seen` is called with its path even if the rest is faulty.
fn read_artifact(
    checker: &mut Checker,
    value: Value,
    seen: impl FnOnce(&WorkspacePath),
) -> Option<Artifact> {
    let mut members = walk::object(checker, value)?;
    let path = walk::required(checker, &mut members, "path", MISSING, |checker, value| {
        let path = walk::raw_text(checker, value)?;
        match WorkspacePath::parse(&path) {
            Ok(path) => Some(path),
            Err(fault) => {
                checker.fault(fault.to_string());
                None
            }
        }
    });
    if let Some(path) = &path {
        seen(path);
    }
    let operation = walk::required(checker, &mut members, "operation", MISSING, read_operation);
    let content = walk::required(checker, &mut members, "content", MISSING, walk::raw_text);
    Some(Artifact { path: path?, operation: operation?, content: content?, extra: members })
}

fn read_operation(checker: &mut Checker, value: Value) -> Option<Operation> {
    read_name(checker, value, Operation::parse, |name| {
        let names = Operation::NAMES.join(", ");
        if name == "overwrite" {
            format!("must be one of: {names}; write `update` instead of `overwrite`")
        } else {
            format!("must be one of: {names}")
        }
    })
}

/// Notes every path that is an earlier one over again, in whatever case, or lies inside one.
fn check_collisions(checker: &mut Checker, mut keys: Vec<(String, usize)>) {
    // Sorted, everything inside a path follows it directly, so one look at each is enough.
    keys.sort();
    let mut outer: Option<(String, usize)> = None;
    for (key, place) in keys {
        let inside = outer.as_ref().and_then(|(file, first)| {
            let rest = key.strip_prefix(file.as_str())?;
            (rest.is_empty() || rest.starts_with('\0')).then_some((rest.is_empty(), *first))
        });
        let Some((same, first)) = inside else {
            outer = Some((key, place));
            continue;
        };
        checker.below(&place.to_string(), |checker| {
            checker.below("path", |checker| {
                checker.fault(if same {
                    format!("names the same file as `/artifacts/{first}/path`")
                } else {
                    format!("lies inside `/artifacts/{first}/path`, which is a file")
                });
            });
        });
    }
}
