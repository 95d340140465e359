//! The shared case files.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use base64::Engine as _;
use serde_json::Value;

/// The text of a file of cases.
pub(crate) fn text_of(name: &str) -> String {
    let path = format!("{}/../../tests/cases/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// The cases of a file with one on each line.
pub(crate) fn lines_of(name: &str) -> Vec<Value> {
    text_of(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The cases of the hostile documents that are for one of these readers.
pub(crate) fn hostile(layers: &[&str]) -> Vec<Value> {
    let mut cases = lines_of("hostile-json.jsonl");
    cases.retain(|case| layers.contains(&text(case, "layer")));
    assert!(!cases.is_empty());
    cases
}

/// A member that is a text; absent and `null` are empty.
pub(crate) fn text<'a>(case: &'a Value, member: &str) -> &'a str {
    case[member].as_str().unwrap_or_default()
}

/// A member that is base64.
pub(crate) fn bytes(case: &Value, member: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(text(case, member)).unwrap()
}

/// Tries every case, a few at a time. Starting the binary is most of the work.
pub(crate) fn each<T: Sync>(cases: &[T], try_one: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(2, usize::from).min(4);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    try_one(case);
                }
            });
        }
    });
}
