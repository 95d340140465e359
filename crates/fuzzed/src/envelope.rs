//! Envelopes, and the migration of former ones: written again they are the same, and nothing is lost.

use std::collections::BTreeSet;

use countersign_format::envelope::{
    EnvelopeError, InputEnvelope, InputPath, Migration, OutputEnvelope, migrate_input,
    migrate_output,
};
use countersign_format::json::{self, Value, to_bytes};
use countersign_format::path::check_readable;
use serde::Serialize;

use crate::Target;

pub(crate) const INPUT: Target = Target {
    name: "envelope_input",
    holds: |data| input_holds(data, migrate_input),
    twin: |data| input_holds(data, |value| forgetful(migrate_input(value))),
    tries: 12_000,
    words: WORDS,
};

pub(crate) const OUTPUT: Target = Target {
    name: "envelope_output",
    holds: |data| output_holds(data, migrate_output),
    twin: |data| output_holds(data, |value| forgetful(migrate_output(value))),
    tries: 12_000,
    words: WORDS,
};

const WORDS: &str = "{·}·[·]·,·:·\"·{}·[]·null·true·false·1·-1·\"context\":·\"feature_id\":·\
        \"workflow\":·\"iteration\":·\"paths\":·\"task\":·\"action\":·\"params\":·\"mode\":·\
        \"plugin\":·\"spec_path\":·\"prior_context\":·\"success\":·\"summary\":·\
        \"artifacts\":·\"path\":·\"operation\":·\"create\"·\"update\"·\"overwrite\"·\
        \"content\":·\"notes\":·\"recommendation\":·\"proceed\"·\"next_recommendation\":·\
        \"state_updates\":·\"result\":·\"report\":·\"../x\"·\"a/b\"·\"A/B\"·\"a/b/c\"·\"\"·\
        \\u0000·é";

/// Says that it has kept everything.
fn forgetful(mut migration: Migration) -> Migration {
    if let (false, Some(members)) = (migration.changes.is_empty(), migration.value.as_object_mut())
    {
        let last = members.keys().next_back().cloned().unwrap_or_default();
        members.remove(&last);
    }
    migration
}

fn input_holds(data: &[u8], migrate: fn(Value) -> Migration) {
    let read = InputEnvelope::from_bytes(data);
    again(&read, InputEnvelope::from_bytes);
    for path in read.iter().flat_map(|envelope| envelope.paths.values()) {
        let all = match path {
            InputPath::One(path) => std::slice::from_ref(path),
            InputPath::Many(paths) => paths.as_slice(),
        };
        assert!(all.iter().all(|path| check_readable(path).is_ok()), "{all:?}");
    }
    let new = read.is_ok_and(|envelope| envelope.legacy_hints().is_empty());
    migration_holds(data, migrate, new);
}

fn output_holds(data: &[u8], migrate: fn(Value) -> Migration) {
    let read = OutputEnvelope::from_bytes(data);
    again(&read, OutputEnvelope::from_bytes);
    if let Ok(envelope) = &read {
        let keys: BTreeSet<_> =
            envelope.artifacts.iter().map(|it| it.path.collision_key()).collect();
        assert_eq!(keys.len(), envelope.artifacts.len(), "two artifacts are one file");
        for (outer, inner) in keys.iter().zip(keys.iter().skip(1)) {
            assert!(!inner.starts_with(&format!("{outer}\0")), "a file lies inside a file");
        }
    }
    let new = read.is_ok_and(|envelope| envelope.legacy_hints().is_empty());
    migration_holds(data, migrate, new);
}

/// What was read, written, and read again.
fn again<T: Serialize>(
    read: &Result<T, EnvelopeError>,
    reader: fn(&[u8]) -> Result<T, EnvelopeError>,
) {
    match read {
        Ok(envelope) => {
            let written = |envelope: &T| {
                to_bytes(&serde_json::to_value(envelope).expect("an envelope can be written"))
            };
            // Compared as bytes: among members that nobody knows, `1.0` becomes `1`.
            let bytes = written(envelope);
            let again = reader(&bytes).map(|again| written(&again));
            assert_eq!(again.as_ref(), Ok(&bytes), "written, it differs");
        }
        Err(error) => assert!(!error.faults().is_empty(), "refused without a fault"),
    }
}

fn migration_holds(data: &[u8], migrate: fn(Value) -> Migration, new: bool) {
    let Ok(document) = json::read(data) else { return };
    let once = migrate(document.clone());
    let twice = migrate(once.value.clone());
    assert_eq!((&twice.value, twice.changes), (&once.value, Vec::new()), "it is not done at once");
    if new {
        assert_eq!((&once.value, once.changes.len()), (&document, 0), "a present one is changed");
    }
    let mut said = Vec::new();
    leaves(&once.value, &mut said);
    said.extend(once.changes.iter().chain(&once.by_hand).map(|fault| fault.message.clone()));
    let said = said.join("\n");
    let mut all = Vec::new();
    leaves(&document, &mut all);
    for leaf in all {
        // Inside of a report that is told as JSON, a text is escaped.
        let escaped = Value::from(leaf.as_str()).to_string();
        let kept = said.contains(&leaf) || said.contains(escaped.trim_matches('"'));
        assert!(kept, "{leaf:?} is lost");
    }
}

/// The texts of all values that are neither lists nor objects; of numbers the canonical one.
fn leaves(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| leaves(element, found)),
        Value::Object(members) => members.values().for_each(|member| leaves(member, found)),
        Value::String(text) => found.push(text.clone()),
        other => found.push(String::from_utf8_lossy(&to_bytes(other)).into_owned()),
    }
}
