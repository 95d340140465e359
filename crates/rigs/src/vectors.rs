//! What is generated: into `docs/formats` JSON Schemas, test vectors and the tables of `event.md`,
//! the tables of the second verifier, and the gate's policy in the form that it is used in.
//!
//! Everything comes from fixed seeds, times and ids, so a second run writes the same bytes. A test
//! fails where a checked-in file is not what would be generated.

mod canonical;
mod events;
mod home;
mod page;
mod portable;
mod projections;
mod proofs;
mod shapes;
mod signatures;
mod traces;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use countersign_format::schemas;
use countersign_gate::Policy;
use serde_json::Value;

use xtask::place;

const SCHEMAS: &str = "docs/formats/schemas";
const VECTORS: &str = "docs/formats/vectors";
/// Made by `tests/independent/traces_1_0.py`, without any code of ours.
const TRACES_1_0: &str = "docs/formats/vectors/traces-1.0";
const EVENT_PAGE: &str = "docs/formats/event.md";
/// The built-in policy, ready to be used.
const READY_POLICY: &str = "crates/gate/policy/default.json";

/// Generated files by their path from the root of the repository.
type Files = BTreeMap<String, Vec<u8>>;

/// Writes everything anew and removes what is no longer generated.
pub(crate) fn run() -> Result<(), String> {
    let root = place::root();
    let files = generate(&root)?;
    for path in present(&root)?.iter().filter(|path| !files.contains_key(*path)) {
        fs::remove_file(root.join(path))
            .map_err(|error| format!("cannot remove `{path}`: {error}"))?;
        println!("removed {path}");
    }
    for (path, bytes) in &files {
        let place = root.join(path);
        if fs::read(&place).is_ok_and(|old| old == *bytes) {
            continue;
        }
        let written = match place.parent() {
            Some(parent) => fs::create_dir_all(parent).and_then(|()| fs::write(&place, bytes)),
            None => fs::write(&place, bytes),
        };
        written.map_err(|error| format!("cannot write `{path}`: {error}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

fn generate(root: &Path) -> Result<Files, String> {
    let mut files = Files::new();
    for (name, schema) in schemas::all() {
        let path = format!("{SCHEMAS}/{}", schemas::file_name(name));
        files.insert(path, schemas::file_text(&schema).into_bytes());
    }
    let mut vector = |name: &str, value: &Value| {
        files.insert(format!("{VECTORS}/{name}"), schemas::file_text(value).into_bytes());
    };
    vector("canonical.json", &canonical::vectors()?);
    vector("event.json", &events::sealed()?);
    vector("malformed-events.json", &events::malformed()?);
    vector("ed25519.json", &signatures::vectors());
    vector("merkle.json", &proofs::merkle()?);
    vector("checkpoint.json", &proofs::checkpoint()?);
    files.insert(format!("{VECTORS}/checkpoint.txt"), proofs::note()?.into_bytes());
    for (path, bytes) in home::files()? {
        files.insert(format!("{VECTORS}/homes/{path}"), bytes);
    }
    for (name, bytes) in projections::files(&root.join(TRACES_1_0))? {
        files.insert(format!("{VECTORS}/projections/{name}"), bytes);
    }
    for (path, bytes) in portable::files()? {
        files.insert(format!("{VECTORS}/proofs/{path}"), bytes);
    }
    let page = fs::read_to_string(root.join(EVENT_PAGE))
        .map_err(|error| format!("cannot read `{EVENT_PAGE}`: {error}"))?;
    files.insert(EVENT_PAGE.to_owned(), page::with_tables(&page)?.into_bytes());
    files.insert(shapes::PATH.to_owned(), shapes::module().into_bytes());
    let policy = Policy::made_ready().map_err(|fault| cannot("make the policy ready", fault))?;
    files.insert(READY_POLICY.to_owned(), policy.into_bytes());
    Ok(files)
}

/// The files that stand where only generated ones may.
fn present(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut waiting = vec![SCHEMAS.to_owned(), VECTORS.to_owned()];
    while let Some(directory) = waiting.pop() {
        let Ok(entries) = fs::read_dir(root.join(&directory)) else { continue };
        for entry in entries {
            let entry = entry.map_err(|error| format!("cannot list `{directory}`: {error}"))?;
            let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
            if path == TRACES_1_0 {
                continue;
            }
            if entry.path().is_dir() {
                waiting.push(path);
            } else {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Sets a member of an object.
fn set(object: &mut Value, key: &str, member: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(key.to_owned(), member);
    }
}

/// What went wrong while something was generated.
fn cannot(doing: &str, error: impl std::fmt::Display) -> String {
    format!("cannot {doing}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_checked_in_is_what_is_generated() {
        let root = place::root();
        let files = generate(&root).unwrap();
        let mut present = present(&root).unwrap();
        present.extend([EVENT_PAGE, shapes::PATH, READY_POLICY].map(str::to_owned));
        present.sort();
        let expected: Vec<_> = files.keys().cloned().collect();
        assert_eq!(present, expected, "run `cargo xtask vectors`");
        for (path, bytes) in &files {
            let stored = fs::read(root.join(path)).unwrap();
            assert!(stored == *bytes, "{path} differs: run `cargo xtask vectors`");
        }
    }
}
