//! Facts of files, for conditions: whether a file is there, what stands at a place in its JSON.

use std::path::Path;

use countersign_format::json;
use countersign_protocol::flow::{FEATURE, FileAsked, FileFact};
use serde_json::Value;

use crate::secrets::Redactor;
use crate::tools::read_beneath;

/// Bytes of a file in whose JSON something is looked up.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a text that is recorded as a fact.
const TEXT_BYTES_MAX: usize = 1024;

/// The facts that are asked for, each once.
pub(super) fn look(
    root: &Path,
    asked: &[&FileAsked],
    feature_id: Option<&str>,
    redactor: &Redactor,
) -> Vec<FileFact> {
    let mut facts: Vec<FileFact> = Vec::new();
    for file in asked {
        let known = |fact: &FileFact| fact.path == file.path && fact.pointer == file.pointer;
        if !facts.iter().any(known) {
            facts.push(fact(root, file, feature_id, redactor));
        }
    }
    facts
}

fn fact(root: &Path, asked: &FileAsked, feature_id: Option<&str>, redactor: &Redactor) -> FileFact {
    let path = asked.path.replace(FEATURE, feature_id.unwrap_or(FEATURE));
    let place = root.join(path.trim_end_matches('/'));
    // A link is not what it leads to, as where files are written.
    let exists = std::fs::symlink_metadata(&place).is_ok_and(|data| !data.is_symlink());
    let (value, missing) = match (&asked.pointer, exists) {
        (Some(pointer), true) => match value(root, &path, pointer) {
            // What would be recorded must not be one.
            Ok(Value::String(text)) if !redactor.redact_text(&text).1.is_empty() => {
                (None, Some("a secret stands there".to_owned()))
            }
            Ok(value) => (Some(value), None),
            Err(reason) => (None, Some(reason)),
        },
        _ => (None, None),
    };
    FileFact { path: asked.path.clone(), pointer: asked.pointer.clone(), exists, value, missing }
}

fn value(root: &Path, path: &str, pointer: &str) -> Result<Value, String> {
    let bytes = read_beneath(root, path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let max = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX);
    let document =
        json::read_up_to(&bytes, max).map_err(|error| format!("it is not JSON: {error}"))?;
    match document.pointer(pointer) {
        None => Err("nothing stands there".to_owned()),
        Some(Value::Array(_)) => Err("an array stands there".to_owned()),
        Some(Value::Object(_)) => Err("an object stands there".to_owned()),
        Some(Value::String(text)) if text.len() > TEXT_BYTES_MAX => {
            Err(format!("a text of {} bytes stands there", text.len()))
        }
        Some(value) => Ok(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(path: &str, pointer: Option<&str>) -> FileAsked {
        FileAsked {
            path: path.to_owned(),
            pointer: pointer.map(str::to_owned),
            ..FileAsked::default()
        }
    }

    #[test]
    fn a_fact_says_what_stands_at_a_place_or_why_nothing_does() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("r-7.json"),
            format!(r#"{{"failed": 2, "all": [], "t": "ghp_{}"}}"#, "a1B2".repeat(9)),
        )
        .unwrap();
        std::fs::write(dir.path().join("no.json"), "hello").unwrap();
        std::os::unix::fs::symlink("r-7.json", dir.path().join("link.json")).unwrap();
        let wanted = [
            asked("r-{feature_id}.json", Some("/failed")),
            asked("r-{feature_id}.json", Some("/failed")),
            asked("r-{feature_id}.json", Some("/all")),
            asked("no.json", Some("/x")),
            asked("r-{feature_id}.json", Some("/t")),
            asked("link.json", None),
            asked("gone.json", Some("/x")),
        ];
        let wanted: Vec<&FileAsked> = wanted.iter().collect();
        let found = look(dir.path(), &wanted, Some("7"), &Redactor::none());
        let expected = json!([
            { "path": "r-{feature_id}.json", "pointer": "/failed", "exists": true, "value": 2 },
            {
                "path": "r-{feature_id}.json", "pointer": "/all", "exists": true,
                "missing": "an array stands there",
            },
            {
                "path": "no.json", "pointer": "/x", "exists": true,
                "missing": found.get(2).unwrap().missing,
            },
            {
                "path": "r-{feature_id}.json", "pointer": "/t", "exists": true,
                "missing": "a secret stands there",
            },
            { "path": "link.json", "exists": false },
            { "path": "gone.json", "pointer": "/x", "exists": false },
        ]);
        assert_eq!(serde_json::to_value(&found).unwrap(), expected);
        assert!(found.get(2).unwrap().missing.as_ref().unwrap().starts_with("it is not JSON"));
    }
}
