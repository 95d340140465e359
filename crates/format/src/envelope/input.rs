//! What an agent is given: where it stands, which files there are, what to do.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::walk::{self, MISSING, Members};
use super::{EnvelopeError, LABEL_BYTES_MAX, PATHS_MAX};
use crate::json::INTEGER_MAX;
use crate::path;
use crate::shape::{Checker, Fault, Fields, Shape, Unknown, opt, req};
use crate::text;

/// The members of `context`.
pub static INPUT_CONTEXT_FIELDS: Fields = Fields {
    name: "InputContext",
    doc: "Which workflow this is, and where it stands.",
    fields: &[
        req("feature_id", Shape::Nullable(&Shape::NonEmptyText)),
        req("workflow", Shape::NonEmptyText),
        req("iteration", Shape::Integer(1, INTEGER_MAX)),
    ],
    unknown: Unknown::Kept,
};

/// The members of `task`.
pub static INPUT_TASK_FIELDS: Fields = Fields {
    name: "InputTask",
    doc: "What the agent should do.",
    fields: &[req("action", Shape::NonEmptyText), req("params", Shape::MapOf(&Shape::Any))],
    unknown: Unknown::Kept,
};

/// The members of an input envelope.
pub static INPUT_ENVELOPE_FIELDS: Fields = Fields {
    name: "InputEnvelope",
    doc: "What an agent is given. A value of `paths` is a string or an array of strings.",
    fields: &[
        req("context", Shape::Object(&INPUT_CONTEXT_FIELDS)),
        req("paths", Shape::MapOf(&Shape::Any)),
        req("task", Shape::Object(&INPUT_TASK_FIELDS)),
        opt("prior_context", Shape::List(&Shape::Text)),
    ],
    unknown: Unknown::Kept,
};

const FLAT_PROMPT: &str =
    "missing: write `feature_id`, `workflow` and `iteration` inside `context`";
const FLAT_KEYS: [&str; 4] = ["feature_id", "workflow", "iteration", "phase"];
const CONTEXT_KEYS: [&str; 3] = ["feature_id", "workflow", "iteration"];
const FLAT_PATHS: &str = "missing: write file paths as members of `paths`";
const FLAT_PATH_KEYS: [&str; 3] = ["artifact_paths", "spec_path", "check_module"];
const FLAT_TASK: &str = "missing: write `action` and `params` inside `task`";
const FLAT_TASK_KEYS: [&str; 3] = ["action", "params", "mode"];
const FLAT_MEMBER: &str = "missing: write it here instead of at the top";
const MODE: &str = "write `action` instead of `mode`";
const MODE_MISSING: &str = "missing: write `action` instead of `mode`";
const PLUGIN: &str = "write it as `task.params.plugin`";

/// Members of flat prompts, each with where it belongs and what is said of it.
pub(super) const FLAT: [(&str, &[&str], &str); 10] = [
    ("feature_id", &["context", "feature_id"], "write it as `context.feature_id`"),
    ("workflow", &["context", "workflow"], "write it as `context.workflow`"),
    ("iteration", &["context", "iteration"], "write it as `context.iteration`"),
    ("artifact_paths", &["paths", "artifacts"], "write it as `paths.artifacts`"),
    ("spec_path", &["paths", "spec"], "write it as `paths.spec`"),
    ("check_module", &["paths", "check_module"], "write it as `paths.check_module`"),
    ("action", &["task", "action"], "write it as `task.action`"),
    ("mode", &["task", "action"], "write it as `task.action`"),
    ("params", &["task", "params"], "write it as `task.params`"),
    ("phase", &["task", "params", "phase"], "write it as `task.params.phase`"),
];

/// What an agent is given.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputEnvelope {
    /// Which workflow this is, and where it stands.
    pub context: InputContext,
    /// The files that the agent may need, by name.
    pub paths: BTreeMap<String, InputPath>,
    /// What to do.
    pub task: InputTask,
    /// Notes of the steps before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior_context: Option<Vec<String>>,
    /// Members that no table names.
    #[serde(flatten)]
    pub extra: Members,
}

/// Which workflow an agent runs in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputContext {
    /// The feature, usable as one component of a path; `None` before there is one.
    pub feature_id: Option<String>,
    /// The workflow's name.
    pub workflow: String,
    /// Which attempt this is, from 1.
    pub iteration: u64,
    /// Members that no table names.
    #[serde(flatten)]
    pub extra: Members,
}

/// What an agent should do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputTask {
    /// A verb.
    pub action: String,
    /// What the verb needs.
    pub params: Members,
    /// Members that no table names.
    #[serde(flatten)]
    pub extra: Members,
}

/// One value of `paths`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum InputPath {
    /// One file or directory.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl InputEnvelope {
    /// Reads an envelope, or lists everything that is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        walk::document(bytes, Self::read)
    }

    /// As [`InputEnvelope::from_bytes`], from a value that the strict reader gave.
    pub fn from_value(value: Value) -> Result<Self, EnvelopeError> {
        walk::value(value, Self::read)
    }

    /// Hints on members that former versions of the protocol had and this one does not act on.
    #[must_use]
    pub fn legacy_hints(&self) -> Vec<Fault> {
        let flat = FLAT.map(|(key, _, hint)| (key, hint));
        let mut hints = walk::legacy_hints("", &self.extra, &flat);
        hints.extend(walk::legacy_hints("/context", &self.context.extra, &[("plugin", PLUGIN)]));
        hints.extend(walk::legacy_hints("/task", &self.task.extra, &[("mode", MODE)]));
        hints
    }

    fn read(checker: &mut Checker, value: Value) -> Option<Self> {
        let mut members = walk::object(checker, value)?;
        let hint = |members: &Members, keys: &[&str], hint| {
            if keys.iter().any(|key| members.contains_key(*key)) { hint } else { MISSING }
        };
        let missing = hint(&members, &FLAT_KEYS, FLAT_PROMPT);
        let inside = CONTEXT_KEYS.map(|key| hint(&members, &[key], FLAT_MEMBER));
        let context =
            walk::required(checker, &mut members, "context", missing, |checker, value| {
                read_context(checker, value, inside)
            });
        let missing = hint(&members, &FLAT_PATH_KEYS, FLAT_PATHS);
        let paths = walk::required(checker, &mut members, "paths", missing, read_paths);
        let missing = hint(&members, &FLAT_TASK_KEYS, FLAT_TASK);
        let inside = [
            hint(&members, &["action", "mode"], FLAT_MEMBER),
            hint(&members, &["params"], FLAT_MEMBER),
        ];
        let task = walk::required(checker, &mut members, "task", missing, |checker, value| {
            read_task(checker, value, inside)
        });
        let prior_context = walk::optional(checker, &mut members, "prior_context", walk::notes);
        Some(Self {
            context: context?,
            paths: paths?,
            task: task?,
            prior_context: prior_context?,
            extra: members,
        })
    }
}

/// `missing` is what to say of each member that is not there.
fn read_context(checker: &mut Checker, value: Value, missing: [&str; 3]) -> Option<InputContext> {
    let mut members = walk::object(checker, value)?;
    let [feature_id, workflow, iteration] = missing;
    let feature_id =
        walk::required(checker, &mut members, "feature_id", feature_id, read_feature_id);
    let workflow = walk::required(checker, &mut members, "workflow", workflow, read_label);
    let iteration = walk::required(checker, &mut members, "iteration", iteration, read_iteration);
    Some(InputContext {
        feature_id: feature_id?,
        workflow: workflow?,
        iteration: iteration?,
        extra: members,
    })
}

/// The id becomes a component of paths, so it must be safe as one.
fn read_feature_id(checker: &mut Checker, value: Value) -> Option<Option<String>> {
    match value {
        Value::Null => Some(None),
        Value::String(id) => match path::check_component(&id) {
            Ok(()) => Some(Some(id)),
            Err(fault) => {
                checker.fault(format!("not usable as a path component: {fault}"));
                None
            }
        },
        other => walk::wrong_type(checker, "a string or null", &other),
    }
}

fn read_label(checker: &mut Checker, value: Value) -> Option<String> {
    walk::said(checker, value, LABEL_BYTES_MAX)
}

/// A number with a fraction or exponent is not an integer, whatever its value.
fn read_iteration(checker: &mut Checker, value: Value) -> Option<u64> {
    let Value::Number(number) = value else {
        return walk::wrong_type(checker, "an integer", &value);
    };
    match number.as_i64() {
        Some(integer) if integer >= 1 => u64::try_from(integer).ok(),
        Some(_) => {
            checker.fault("must be at least 1");
            None
        }
        None => {
            checker.fault("must be an integer, found another number");
            None
        }
    }
}

fn read_paths(checker: &mut Checker, value: Value) -> Option<BTreeMap<String, InputPath>> {
    let members = walk::object(checker, value)?;
    checker.within_list(|checker| read_paths_of(checker, members))
}

fn read_paths_of(checker: &mut Checker, members: Members) -> Option<BTreeMap<String, InputPath>> {
    let mut made = Some(BTreeMap::new());
    for (key, member) in members {
        // Long keys would be repeated by every fault below them.
        if key.len() > LABEL_BYTES_MAX {
            checker.fault(format!(
                "a key is {} bytes long, the limit is {LABEL_BYTES_MAX}",
                key.len()
            ));
            made = None;
            continue;
        }
        let mut path = None;
        checker.below(&key, |checker| {
            if let Err(fault) = text::check(&text::to_nfc(&key)) {
                checker.fault(format!("key: {fault}"));
            }
            path = read_path_value(checker, member);
        });
        match (path, &mut made) {
            (Some(path), Some(made)) => {
                made.insert(key, path);
            }
            _ => made = None,
        }
    }
    made
}

fn read_path_value(checker: &mut Checker, value: Value) -> Option<InputPath> {
    match value {
        Value::String(_) => read_path(checker, value).map(InputPath::One),
        Value::Array(_) => walk::list(checker, value, PATHS_MAX, read_path).map(InputPath::Many),
        Value::Null => {
            checker.fault("must not be null: leave the key out instead");
            None
        }
        other => walk::wrong_type(checker, "a string or an array of strings", &other),
    }
}

fn read_path(checker: &mut Checker, value: Value) -> Option<String> {
    let path = walk::raw_text(checker, value)?;
    match path::check_readable(&path) {
        Ok(()) => Some(path),
        Err(fault) => {
            checker.fault(fault.to_string());
            None
        }
    }
}

/// `missing` is what to say of each member that is not there.
fn read_task(checker: &mut Checker, value: Value, missing: [&str; 2]) -> Option<InputTask> {
    let mut members = walk::object(checker, value)?;
    let [action, params] = missing;
    let action = if members.contains_key("mode") { MODE_MISSING } else { action };
    let action = walk::required(checker, &mut members, "action", action, read_label);
    let params = walk::required(checker, &mut members, "params", params, walk::object);
    Some(InputTask { action: action?, params: params?, extra: members })
}
