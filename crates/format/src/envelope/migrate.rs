//! Envelopes of former versions, written in the present form.
//!
//! Decides where each former member goes, and in which words a report becomes a note. A document
//! that has every member of an envelope keeps those that no table names; in any other they are
//! taken for members of the agent's own. Makes nothing up: what has no counterpart is left where
//! it is, for a person. Leaves out whether the outcome is valid.

use std::borrow::Cow;

use serde_json::Value;

use super::input::{FLAT, INPUT_ENVELOPE_FIELDS, INPUT_TASK_FIELDS};
use super::output::{OUTPUT_ENVELOPE_FIELDS, Recommendation, is_former_report};
use super::walk::{self, Members};
use super::{LABEL_BYTES_MAX, NOTE_BYTES_MAX, NOTES_MAX};
use crate::json;
use crate::shape::{Fault, Fields, Need, Shape};
use crate::text;

/// Bytes of a note that is made of a report. Whoever reads notes reads all of them.
const REPORT_BYTES_MAX: usize = 2048;
/// Bytes that are kept free in a cut note for the mark that says so.
const MARK_BYTES_MAX: usize = 64;

/// An envelope in the present form, and what was done to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Migration {
    /// The envelope. It need not be valid.
    pub value: Value,
    /// What was changed, by its place in the former document.
    pub changes: Vec<Fault>,
    /// What a person has still to do.
    pub by_hand: Vec<Fault>,
}

/// An input envelope in the present form. Anything but an object stays as it is.
#[must_use]
pub fn migrate_input(value: Value) -> Migration {
    let mut migration = Migration::of(value);
    let whole = has_every_member(&migration.value, &INPUT_ENVELOPE_FIELDS);
    for (key, to, _) in FLAT {
        if !(key == "params" && migration.merge_params()) {
            migration.relocate(&[key], to);
        }
    }
    migration.relocate(&["task", "mode"], &["task", "action"]);
    migration.relocate(&["context", "plugin"], &["task", "params", "plugin"]);
    if !whole {
        migration.gather_params();
        migration.fill(&["paths"], Value::Object(Members::new()));
        migration.fill(&["task", "params"], Value::Object(Members::new()));
    }
    migration.arranged(&INPUT_ENVELOPE_FIELDS)
}

/// An output envelope in the present form. Anything but an object stays as it is.
#[must_use]
pub fn migrate_output(value: Value) -> Migration {
    let mut migration = Migration::of(value);
    let whole = has_every_member(&migration.value, &OUTPUT_ENVELOPE_FIELDS);
    migration.rename_recommendation();
    migration.rename_operations();
    migration.note_state_updates();
    migration.note_reports(|key| is_former_report(key) || !whole);
    if !whole {
        migration.fill(&["artifacts"], Value::Array(Vec::new()));
    }
    migration.arranged(&OUTPUT_ENVELOPE_FIELDS)
}

impl Migration {
    const fn of(value: Value) -> Self {
        Self { value, changes: Vec::new(), by_hand: Vec::new() }
    }

    fn changed(&mut self, place: &[&str], message: impl Into<String>) {
        self.changes.push(Fault { pointer: walk::pointer(place), message: message.into() });
    }

    fn left(&mut self, place: &[&str], message: impl Into<String>) {
        self.by_hand.push(Fault { pointer: walk::pointer(place), message: message.into() });
    }

    /// Moves the member at `from` to `to`, unless something else is there or in the way.
    fn relocate(&mut self, from: &[&str], to: &[&str]) {
        let Some(value) = at(&self.value, from) else {
            return;
        };
        let there = walk::pointer(to);
        if let Some(present) = at(&self.value, to) {
            if present == value {
                take(&mut self.value, from);
                self.changed(from, format!("dropped: `{there}` says the same"));
            } else {
                self.left(from, format!("says something else than `{there}`: keep one of them"));
            }
        } else if let Some(obstacle) = obstacle(&self.value, to) {
            self.left(from, format!("belongs at `{there}`, but `{obstacle}` is not an object"));
        } else if let Some(value) = take(&mut self.value, from) {
            put(&mut self.value, to, value);
            self.changed(from, format!("moved to `{there}`"));
        }
    }

    /// Adds an empty container where the form wants one. Only a document in which something was
    /// found to be former is given it: in any other the container was forgotten.
    fn fill(&mut self, place: &[&str], empty: Value) {
        let filled = at(&self.value, place).is_some() || obstacle(&self.value, place).is_some();
        if filled || self.changes.is_empty() {
            return;
        }
        self.changed(place, format!("added, empty: {empty}"));
        put(&mut self.value, place, empty);
    }

    /// The same, its members in the order of the table; other members follow by name.
    fn arranged(mut self, fields: &Fields) -> Self {
        if let (false, Value::Object(members)) = (self.changes.is_empty(), &mut self.value) {
            arrange(members, fields);
        }
        self
    }

    /// Puts the members of flat `params` among those of a task, if it has its own.
    fn merge_params(&mut self) -> bool {
        let flat = at(&self.value, &["params"]).and_then(Value::as_object);
        let inner = at(&self.value, &["task", "params"]).and_then(Value::as_object);
        let (Some(flat), Some(_)) = (flat, inner) else {
            return false;
        };
        for key in names(flat) {
            self.relocate(&["params", &key], &["task", "params", &key]);
        }
        if at(&self.value, &["params"]).and_then(Value::as_object).is_some_and(Members::is_empty) {
            take(&mut self.value, &["params"]);
            self.changed(&["params"], "dropped: `/task/params` has its members");
        }
        true
    }

    /// Members of the agent's own, at the top and in `task`: files into `paths`, the rest into
    /// `task.params`.
    fn gather_params(&mut self) {
        let Value::Object(members) = &self.value else {
            return;
        };
        let is_flat = |key: &str| FLAT.iter().any(|(flat, ..)| *flat == key);
        let mut own = names(members);
        own.retain(|key| !is_named(&INPUT_ENVELOPE_FIELDS, key) && !is_flat(key));
        for key in own {
            match at(&self.value, &[&key]).and_then(|value| path_name(&key, value)) {
                Some(name) => self.relocate(&[&key], &["paths", &name]),
                None => self.relocate(&[&key], &["task", "params", &key]),
            }
        }
        let task = at(&self.value, &["task"]).and_then(Value::as_object);
        let mut own = task.map(names).unwrap_or_default();
        own.retain(|key| !is_named(&INPUT_TASK_FIELDS, key) && key != "mode");
        for key in own {
            self.relocate(&["task", &key], &["task", "params", &key]);
        }
    }

    fn rename_recommendation(&mut self) {
        let place = ["next_recommendation"];
        let Some(former) = at(&self.value, &place) else {
            return;
        };
        let said = former.as_str().map(|text| text.trim().to_ascii_lowercase());
        let Some(name) = said.filter(|name| Recommendation::parse(name).is_some()) else {
            let names = Recommendation::NAMES.join(", ");
            return self.left(&place, format!("has no counterpart among {names}"));
        };
        if former.as_str() != Some(&name) {
            let message = format!("{} is written `{name}`", compact(former));
            self.changed(&place, message);
            put(&mut self.value, &place, Value::String(name));
        }
        self.relocate(&place, &["recommendation"]);
    }

    fn rename_operations(&mut self) {
        let Some(Value::Array(artifacts)) = self.value.get_mut("artifacts") else {
            return;
        };
        let mut renamed = Vec::new();
        for (index, artifact) in artifacts.iter_mut().enumerate() {
            if let Some(operation) = artifact.get_mut("operation").filter(|o| *o == "overwrite") {
                *operation = Value::String("update".to_owned());
                renamed.push(index.to_string());
            }
        }
        for index in renamed {
            self.changed(&["artifacts", &index, "operation"], "`overwrite` is written `update`");
        }
    }

    fn note_state_updates(&mut self) {
        let place = ["state_updates"];
        let Some(updates) = at(&self.value, &place) else {
            return;
        };
        let content = compact(updates);
        if ["{}", "[]", "null"].contains(&content.as_str()) {
            take(&mut self.value, &place);
            return self.changed(&place, format!("dropped: it is empty: {content}"));
        }
        let note = Note::bounded(format!("State updates: {content}"), NOTE_BYTES_MAX);
        let Some(noted) = self.note(&place, note.text) else {
            return;
        };
        self.changed(&place, format!("kept as a note at `{noted}`"));
        let whole = if note.whole { String::new() } else { format!("; it is {content}") };
        self.left(&place, format!("return the updated file as an artifact{whole}"));
    }

    /// Says in notes what members that `is_report` are about: reports, then lists, then the rest,
    /// each by name, so that the order in which they are written does not count.
    fn note_reports(&mut self, is_report: impl Fn(&str) -> bool) {
        let Value::Object(members) = &self.value else {
            return;
        };
        let mut reports = names(members);
        reports.retain(|key| {
            let kept = ["state_updates", "next_recommendation"].contains(&key.as_str());
            !is_named(&OUTPUT_ENVELOPE_FIELDS, key) && !kept && is_report(key)
        });
        reports.sort_by_key(|key| match members.get(key) {
            Some(Value::Object(_)) => 0,
            Some(Value::Array(_)) => 1,
            _ => 2,
        });
        for key in reports {
            let Some(value) = at(&self.value, &[&key]) else {
                continue;
            };
            let (note, content) = (Note::of_report(&key, value), compact(value));
            if let Some(noted) = self.note(&[&key], note.text) {
                let whole = if note.whole { String::new() } else { format!("; it is {content}") };
                self.changed(&[&key], format!("said in a note at `{noted}`{whole}"));
            }
        }
    }

    /// Puts a note in the place of the member at `from`, and gives the note's place.
    fn note(&mut self, from: &[&str], note: String) -> Option<String> {
        let count = match at(&self.value, &["notes"]) {
            None => 0,
            Some(Value::Array(notes)) if notes.len() < NOTES_MAX => notes.len(),
            Some(Value::Array(_)) => {
                self.left(from, "belongs in `notes`, which is full");
                return None;
            }
            Some(_) => {
                self.left(from, "belongs in `notes`, which is not an array");
                return None;
            }
        };
        take(&mut self.value, from);
        let notes = self.value.as_object_mut()?.entry("notes");
        notes.or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?.push(note.into());
        Some(walk::pointer(&["notes", &count.to_string()]))
    }
}

/// What is said of a member in a note.
struct Note {
    text: String,
    /// Whether every value of the member is in the text.
    whole: bool,
}

impl Note {
    /// `text`, cut with a mark if it is longer than `max`.
    fn bounded(text: String, max: usize) -> Self {
        // A note that no event could hold would be a fault of its own.
        let seen = match text::check(&text::to_nfc(&text)) {
            Ok(()) => Cow::Borrowed(text.as_str()),
            Err(_) => Cow::Owned(text::admissible(&text)),
        };
        if seen.len() <= max {
            return Self { whole: seen == text, text: seen.into_owned() };
        }
        let end = seen.floor_char_boundary(max.saturating_sub(MARK_BYTES_MAX));
        let shown = seen.get(..end).unwrap_or_default();
        Self { text: format!("{shown}… (cut, {} bytes in all)", seen.len()), whole: false }
    }

    fn of_report(key: &str, value: &Value) -> Self {
        let name = key.replace(['_', '-'], " ").trim().to_owned();
        let label = capitalised(name.strip_suffix(" report").unwrap_or(&name));
        let text = match value {
            Value::Array(entries) => {
                let text = counted(&name, &label, entries.len());
                let note = Self::bounded(text, REPORT_BYTES_MAX);
                return Self { whole: note.whole && entries.is_empty(), ..note };
            }
            Value::Object(members) => {
                let content = counts(members).unwrap_or_else(|| compact(value));
                format!("{label}: {content}")
            }
            Value::String(text) => format!("{label}: {text}"),
            other => format!("{label}: {}", compact(other)),
        };
        Self::bounded(text, REPORT_BYTES_MAX)
    }
}

/// How many there are: `2 collision risks detected` where the name is a plural.
fn counted(name: &str, label: &str, count: usize) -> String {
    let singular = ["ss", "us", "is"].iter().any(|ending| name.ends_with(ending));
    match (name.strip_suffix('s'), count) {
        (Some(one), 1) if !singular => {
            let one = one.strip_suffix("ie").map_or(one.to_owned(), |stem| format!("{stem}y"));
            format!("1 {one} detected")
        }
        (Some(_), count) if !singular => format!("{count} {name} detected"),
        (_, 1) => format!("{label}: 1 entry"),
        (_, count) => format!("{label}: {count} entries"),
    }
}

/// `8 passed, 1 failed`, if every member is a count. What passed comes first, as people say it.
fn counts(members: &Members) -> Option<String> {
    let mut keys = names(members);
    keys.sort_by_key(|key| match key.as_str() {
        "passed" => 0,
        "failed" => 1,
        _ => 2,
    });
    let count = |key: &String| {
        let count = members.get(key)?.as_u64()?;
        Some(format!("{count} {}", key.replace(['_', '-'], " ")))
    };
    let counts = keys.iter().map(count).collect::<Option<Vec<_>>>()?;
    (!counts.is_empty()).then(|| counts.join(", "))
}

/// The name in `paths` of a member that tells a file by its name and holds one, or several.
fn path_name(key: &str, value: &Value) -> Option<String> {
    let is_path = match value {
        Value::String(_) => true,
        Value::Array(paths) => !paths.is_empty() && paths.iter().all(Value::is_string),
        _ => false,
    };
    let name = match (key.strip_suffix("_path"), key.strip_suffix("_paths")) {
        (Some(name), _) if !name.is_empty() => name.to_owned(),
        (_, Some(name)) if !name.is_empty() => format!("{name}s"),
        _ => return None,
    };
    (is_path && name.len() <= LABEL_BYTES_MAX).then_some(name)
}

fn capitalised(name: &str) -> String {
    let mut rest = name.chars();
    match rest.next() {
        Some(first) => first.to_uppercase().chain(rest).collect(),
        None => "Unnamed".to_owned(),
    }
}

/// `value` in its one canonical form, whatever order its members came in.
fn compact(value: &Value) -> String {
    String::from_utf8_lossy(&json::to_bytes(value)).into_owned()
}

/// The keys of `members` in order.
fn names(members: &Members) -> Vec<String> {
    let mut names: Vec<String> = members.keys().cloned().collect();
    names.sort_unstable();
    names
}

fn is_named(fields: &Fields, key: &str) -> bool {
    fields.fields.iter().any(|field| field.name == key)
}

/// Whether `value` has all members that `fields` needs, of whatever type.
fn has_every_member(value: &Value, fields: &Fields) -> bool {
    fields.fields.iter().all(|field| match (value.get(field.name), &field.shape) {
        (Some(member), Shape::Object(inner)) => has_every_member(member, inner),
        (Some(_), _) => true,
        (None, _) => field.need == Need::Optional,
    })
}

fn at<'a>(value: &'a Value, place: &[&str]) -> Option<&'a Value> {
    place.iter().try_fold(value, |value, key| value.as_object()?.get(*key))
}

fn take(value: &mut Value, place: &[&str]) -> Option<Value> {
    let (last, parents) = place.split_last()?;
    let parent = parents.iter().try_fold(value, |value, key| value.as_object_mut()?.get_mut(*key));
    parent?.as_object_mut()?.remove(*last)
}

/// Puts `member` at `place`, and makes the objects that lead there.
fn put(value: &mut Value, place: &[&str], member: Value) {
    let Some((last, parents)) = place.split_last() else {
        return;
    };
    let parent = parents.iter().try_fold(value, |value, key| {
        let members = value.as_object_mut()?;
        Some(members.entry(*key).or_insert_with(|| Value::Object(Members::new())))
    });
    if let Some(Value::Object(members)) = parent {
        members.insert((*last).to_owned(), member);
    }
}

/// The pointer of the first thing on the way to `place` that is not an object.
fn obstacle(value: &Value, place: &[&str]) -> Option<String> {
    let (_, parents) = place.split_last()?;
    let mut value = value;
    let mut passed = Vec::new();
    for key in parents {
        let Value::Object(members) = value else {
            break;
        };
        value = members.get(*key)?;
        passed.push(*key);
    }
    (!value.is_object()).then(|| walk::pointer(&passed))
}

fn arrange(members: &mut Members, fields: &Fields) {
    let rank = |key: &str| {
        let place = fields.fields.iter().position(|field| field.name == key);
        place.unwrap_or(fields.fields.len())
    };
    let mut all: Vec<_> = std::mem::take(members).into_iter().collect();
    all.sort_by(|(a, _), (b, _)| (rank(a), a).cmp(&(rank(b), b)));
    for (key, mut member) in all {
        let field = fields.fields.iter().find(|field| field.name == key);
        if let (Some(Shape::Object(inner)), Value::Object(below)) =
            (field.map(|field| &field.shape), &mut member)
        {
            arrange(below, inner);
        }
        members.insert(key, member);
    }
}
