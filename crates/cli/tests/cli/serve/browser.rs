//! The page in a real browser, the API under a fuzzer, and the second verifier on sealed files. The
//! checks themselves are scripts beside the page, which anybody can run by hand.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use countersign_testkit::second_reader::{node, repository};
use serde_json::{Value, json};

use super::viewer::{Viewer, with_session};
use crate::place::Place;

const BINARY: &str = env!("CARGO_BIN_EXE_countersign");
/// Requests of the fuzzer for each operation, and where its dice begin.
const EXAMPLES: &str = "6";
const SEED: &str = "7";
/// Faults that are put between the fuzzer and the server; by hand all of them are tried.
const FAULTS: [&str; 3] = ["adds-a-member", "changes-on-get", "loses-a-line"];
/// Sealed files that are changed and judged by both verifiers.
const CHANGED_FILES: &str = "350";

fn browser() -> OsString {
    std::env::var_os("COUNTERSIGN_TEST_BROWSER").unwrap_or_else(|| "chromium".into())
}

fn script(name: &str) -> PathBuf {
    repository().join("tests/browser").join(name)
}

fn told(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}\n{said}", String::from_utf8_lossy(&output.stdout)))
}

/// Browsers at once would measure each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the checks of these groups; says what failed, and how many passed.
fn judged(groups: &[&str]) -> (Value, usize) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("checks");
    let mut command = node();
    command.arg(script("viewer.mjs")).arg(BINARY).arg(browser()).arg(&place).args(groups);
    let output = command.output().expect("this test needs `node` and `chromium`");
    let told = told(&output);
    assert_eq!(output.status.success(), told["failed"] == json!([]));
    (told["failed"].clone(), told["passed"].as_array().unwrap().len())
}

/// Every check of these groups must hold, and there must be so many.
fn holds(groups: &[&str], least: usize) {
    let (failed, passed) = judged(groups);
    assert_eq!(failed, json!([]));
    assert!(passed >= least, "{passed}");
}

#[test]
fn every_page_shows_what_is_there() {
    holds(&["pages", "evidence"], 28);
}

#[test]
fn states_of_proposals_and_the_history_of_work_are_shown_from_real_runs() {
    holds(&["states", "work"], 14);
}

#[test]
fn every_page_can_be_used_by_keyboard_alone_and_at_any_width() {
    holds(&["access", "layout"], 30);
}

#[test]
fn tampering_is_shown_where_it_is_and_a_dropped_file_is_verified_in_the_browser() {
    holds(&["tamper", "doubt", "files"], 20);
}

#[test]
fn answers_are_taken_and_nothing_runs_that_a_trace_holds() {
    holds(&["answers", "hostile"], 30);
}

#[test]
fn a_broken_page_is_caught_by_the_checks() {
    holds(&["twins"], 6);
}

/// The best of a few runs counts: others use this machine, too.
#[test]
fn what_is_recorded_is_on_the_page_within_a_second() {
    let mut failed = Value::Null;
    for _ in 0..3 {
        let (now, passed) = judged(&["live"]);
        if now == json!([]) {
            assert!(passed >= 5, "{passed}");
            return;
        }
        failed = now;
    }
    panic!("{failed}");
}

/// A workspace with something of everything, below `dir`, and a viewer of it.
fn rich(dir: &Path) -> Viewer {
    let module = script("workspace.mjs");
    let make = format!(
        "import {{ makeWorkspace }} from {:?}; await makeWorkspace({BINARY:?}, {:?});",
        module.display().to_string(),
        dir.display().to_string(),
    );
    let made = node().args(["--input-type=module", "-e", &make]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let home = dir.join("workspace/.countersign");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args(arguments).arg("--home").arg(&home);
        command.env("COUNTERSIGN_CONFIG", dir.join("config"));
        command
    };
    // So that reports lie beside the traces.
    command(&["verify", "--all"]).output().unwrap();
    Viewer::of(command(&["serve", "--port", "0", "--json"]))
}

fn python() -> Command {
    let python = std::env::var_os("COUNTERSIGN_TEST_API_PYTHON");
    Command::new(python.expect("COUNTERSIGN_TEST_API_PYTHON: run `cargo xtask test`"))
}

#[test]
fn the_api_keeps_its_word_under_a_fuzzer_and_the_fuzzer_notices_faults() {
    let dir = tempfile::tempdir().unwrap();
    let viewer = rich(&dir.path().join("rich"));
    let base = format!("http://{}", viewer.address);
    let tests = repository().join("tests/api");
    let mut twins = python();
    twins.arg(tests.join("twins.py")).args([&base, &viewer.token, SEED]).args(FAULTS);
    let caught = told(&twins.output().unwrap());
    assert_eq!(caught["missed"], json!([]), "{caught}");
    assert_eq!(caught["caught"].as_array().unwrap().len(), FAULTS.len());
    let mut fuzz = python();
    fuzz.arg(tests.join("fuzz.py")).args([&base, &viewer.token, EXAMPLES, SEED]);
    let found = told(&fuzz.output().unwrap());
    assert_eq!((&found["failures"], &found["unreached"]), (&json!([]), &json!([])));
    assert!(found["requests"].as_u64().unwrap() > 300, "{found}");
}

/// What the comparison sees, it sees: each weakness lets something pass.
#[test]
fn a_weakened_verifier_is_caught_by_sealed_files_that_were_changed() {
    let (place, caps) = sealed();
    for (file, old, new) in [
        ("gzip.mjs", "if (hex(input.hasher.digest()) !== seal) {", "if (false) {"),
        ("keys.mjs", "if (!await verified) return invalid('the signature does not verify');", ""),
    ] {
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(repository().join("web/verifier")).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        let text = std::fs::read_to_string(copy.path().join(file)).unwrap();
        assert_eq!(text.matches(old).count(), 1, "{file}: {old}");
        std::fs::write(copy.path().join(file), text.replace(old, new)).unwrap();
        let found = compare_caps(&place, &caps, Some(copy.path()));
        assert_ne!(found["disagreements"], json!([]), "{file} without `{old}` passes");
    }
}

/// A directory with a sealed file of a session.
fn sealed() -> (Place, PathBuf) {
    let (place, id) = with_session();
    let caps = place.path().join("caps");
    std::fs::create_dir(&caps).unwrap();
    let sealed = place.run(&["seal", &id, "-o", "caps/session.cap"]);
    assert_eq!(sealed.code, 0, "{sealed}");
    (place, caps)
}

fn compare_caps(place: &Place, caps: &Path, verifier: Option<&Path>) -> Value {
    let mut compare = node();
    compare.arg(script("cap.mjs")).arg(BINARY).arg(caps).args([CHANGED_FILES, SEED]).args(verifier);
    compare.env("COUNTERSIGN_CONFIG", place.path().join("config"));
    told(&compare.output().unwrap())
}

#[test]
fn both_verifiers_say_the_same_of_sealed_files_that_were_changed() {
    let (place, caps) = sealed();
    let found = compare_caps(&place, &caps, None);
    assert_eq!(found["disagreements"], json!([]));
    assert!(found["compared"].as_u64().unwrap() >= 100, "{found}");
    assert!(found["failed"].as_u64().unwrap() >= 50, "most changes are noticed: {found}");
}
