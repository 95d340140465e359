//! `when`: conditions as a file writes them.

use countersign_format::envelope::Recommendation;
use countersign_format::path::check_readable;
use countersign_protocol::flow::{FileAsked, StepAsked, StepCondition};

use crate::task::document::{Table, Value};

/// How deep conditions may stand in each other.
const DEPTH_MAX: usize = 8;
const STEP_KEYS: [&str; 5] = ["step", "success", "recommendation", "skipped", "answer"];
const FILE_KEYS: [&str; 6] = ["file", "exists", "pointer", "equals", "at_least", "at_most"];
const FORMS: &str = "must have one of: step, file, all, any, not";

/// A condition: one, or an array of which all must hold.
pub(super) fn read(value: &Value<'_>) -> Option<StepCondition> {
    nested(value, 0)
}

fn nested(value: &Value<'_>, depth: usize) -> Option<StepCondition> {
    if depth > DEPTH_MAX {
        return value.refuse(format!("conditions stand deeper than {DEPTH_MAX} in each other"));
    }
    if value.is_list() {
        return list(value, depth).map(StepCondition::All);
    }
    let table = value.table()?;
    let forms = ["step", "file", "all", "any", "not"];
    let given: Vec<&str> = forms.into_iter().filter(|key| table.get(key).is_some()).collect();
    match given.as_slice() {
        ["step"] => step(&table),
        ["file"] => file(&table),
        [form] => {
            table.only(&[form]);
            let inner = table.get(form)?;
            match *form {
                "all" => list(&inner, depth).map(StepCondition::All),
                "any" => list(&inner, depth).map(StepCondition::Any),
                _ => nested(&inner, depth + 1).map(|it| StepCondition::Not(Box::new(it))),
            }
        }
        [] => {
            table.only(&forms);
            value.refuse(FORMS)
        }
        several => value.refuse(format!("{FORMS}; found {}", several.join(" and "))),
    }
}

fn list(value: &Value<'_>, depth: usize) -> Option<Vec<StepCondition>> {
    let elements = value.list("an array of conditions")?;
    if elements.is_empty() {
        return value.refuse("must not be empty");
    }
    Some(elements.iter().filter_map(|element| nested(element, depth + 1)).collect())
}

fn step(table: &Table<'_>) -> Option<StepCondition> {
    table.only(&STEP_KEYS);
    let asked = StepAsked {
        id: table.get("step")?.name()?,
        success: table.flag("success"),
        recommendation: table.choice(
            "recommendation",
            &Recommendation::NAMES,
            Recommendation::parse,
        ),
        skipped: table.flag("skipped"),
        answer: table.get("answer").and_then(|value| value.json()),
    };
    let nothing = StepAsked { id: asked.id.clone(), ..StepAsked::default() };
    if asked == nothing {
        let keys = STEP_KEYS.get(1..).unwrap_or_default().join(", ");
        table.fault(format!("asks nothing of the step: give one of {keys}"));
    }
    Some(StepCondition::Step(asked))
}

fn file(table: &Table<'_>) -> Option<StepCondition> {
    table.only(&FILE_KEYS);
    let value = table.get("file")?;
    let path = value.any_string()?;
    super::check_braces(&value, path);
    if let Err(fault) = check_readable(path) {
        return value.refuse(fault.to_string());
    }
    let asked = FileAsked {
        path: path.to_owned(),
        exists: table.flag("exists"),
        pointer: table.get("pointer").and_then(|value| pointer(&value)),
        equals: table.get("equals").and_then(|value| scalar(&value)),
        at_least: table.get("at_least").and_then(|value| value.number()),
        at_most: table.get("at_most").and_then(|value| value.number()),
    };
    let compares = ["equals", "at_least", "at_most"].into_iter().find(|it| table.get(it).is_some());
    match (&asked.pointer, compares) {
        (None, Some(key)) => {
            table.fault_of(key, "needs a `pointer`, which says what is compared");
        }
        (Some(_), None) => table.fault("compares nothing: give equals, at_least or at_most"),
        (None, None) if asked.exists.is_none() => {
            table.fault("asks nothing of the file: give exists, or a pointer and a comparison");
        }
        _ => {}
    }
    Some(StepCondition::File(asked))
}

/// A JSON pointer, as RFC 6901 writes it.
fn pointer(value: &Value<'_>) -> Option<String> {
    let text = value.any_string()?;
    if text.is_empty() || text.starts_with('/') {
        return Some(text.to_owned());
    }
    value.refuse("must be a JSON pointer, which begins with `/`")
}

fn scalar(value: &Value<'_>) -> Option<serde_json::Value> {
    if value.is_table() || value.is_list() {
        return value.refuse("must be a text, a number, true or false");
    }
    value.json()
}
