//! What the recorder writes, read by a reader that shares no code with it.
#![cfg(test)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_protocol::recording::RecordingCommand;
use countersign_testkit::{TestHome, note};

const UNICODE: &str = "naïve café, Ω, 東京, עברית, 🧾 and a\u{2028}separator";

fn reader(home: &Path) -> Output {
    python("reader.py", &[home.as_os_str()])
}

fn python(script: &str, arguments: &[&OsStr]) -> Output {
    let python: OsString =
        std::env::var_os("COUNTERSIGN_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/independent");
    Command::new(python)
        .arg("-B")
        .arg(scripts.join(script))
        .args(arguments)
        .output()
        .expect("this test needs `python3` with `cryptography`")
}

/// What the reader says of a home: whether it holds, and its words.
fn judge(home: &Path) -> (bool, String) {
    let output = reader(home);
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    let crashed = said.contains("Traceback");
    assert!(!crashed, "{said}");
    (output.status.success(), said)
}

/// A workspace with everything that a recorder writes: several recordings, open and closed, before
/// and after keys changed, with artifacts, redactions, and a tool that ran; the longest with so many
/// notes.
fn written(rounds: u64) -> (TestHome, BTreeMap<Ulid, u64>) {
    let home = TestHome::new();
    let mut sizes = BTreeMap::new();
    let first = home.recording();
    let secret = first.put_artifact(UNICODE.as_bytes(), "text/plain; charset=utf-8").unwrap();
    let hash = secret.artifact_hash;
    let artifacts = vec![secret];
    first.submit(RecordingCommand::RecordArtifact { purpose: UNICODE.into(), artifacts }).unwrap();
    run_a_tool(&first);

    let open = home.workspace.begin_recording(Some("агент"), Some("objective: ünïcode")).unwrap();
    open.submit(note("before the keys change")).unwrap();
    home.clock.advance(1_500);
    let recorder = home.workspace.find_key("recorder").unwrap();
    home.workspace.rotate_key(&recorder.key_id).unwrap();
    let critic = home.workspace.find_key("critic").unwrap();
    home.workspace.revoke_key(&critic.key_id, "verloren — lost").unwrap();
    open.submit(note("after the keys changed")).unwrap();
    first.conclude("done ✓").unwrap();
    assert_eq!(home.workspace.redact(hash, "personal data").unwrap(), [first.id()]);

    let long = home.recording();
    for round in 0..rounds {
        long.submit(note(&round.to_string())).unwrap();
    }
    long.submit(RecordingCommand::Abort { reason: "enough".into() }).unwrap();
    sizes.insert(first.id(), 9);
    sizes.insert(open.id(), 3);
    sizes.insert(long.id(), rounds + 2);
    (home, sizes)
}

fn run_a_tool(recording: &countersign_runtime::Recording) {
    let refer = |event: &countersign_format::event::Event| EventRef {
        event_id: event.event_id.clone(),
        seq: event.seq.unwrap(),
    };
    let intend = RecordingCommand::Intend {
        tool_name: "exec".into(),
        input_hash: Hash::of(b"ls"),
        safety_classification: "low".into(),
        justification: "to see what is there".into(),
        artifacts: vec![],
    };
    let intent = refer(&recording.submit(intend).unwrap().events[0]);
    let started = recording.submit(RecordingCommand::Start { intent }).unwrap();
    let output = recording.put_artifact(&[0, 159, 146, 150], "application/octet-stream").unwrap();
    let complete = RecordingCommand::Complete {
        execution: refer(&started.events[0]),
        exit_status: 0,
        artifacts: vec![output],
    };
    recording.submit(complete).unwrap();
}

#[test]
fn an_independent_reader_agrees_with_what_the_recorder_wrote() {
    let (home, sizes) = written(1_030);
    let (holds, said) = judge(&home.path());
    assert!(holds, "{said}");
    let mut warned = Vec::new();
    for (id, size) in &sizes {
        let report = home.verify(*id);
        assert_eq!((report.failures, report.metrics.events), (Vec::new(), *size));
        warned.extend(report.warnings.iter().map(|it| format!("warning {id} {}", it.warning_code)));
        let head = home.events(*id).pop().unwrap().event_hash;
        assert!(said.contains(&format!("ok {id} {size} {head}\n")), "{said}");
    }
    // Both say that the bytes of what was redacted are gone, and nothing else.
    let by_reader: Vec<_> = said.lines().filter(|line| line.starts_with("warning ")).collect();
    let [of_reader] = by_reader.as_slice() else { panic!("{said}") };
    assert!(warned.len() == 1 && of_reader.starts_with(&warned[0]), "{warned:?}, {said}");
    assert_eq!(said.lines().count(), sizes.len() + 2, "{said}");
    assert_eq!(home.verify_log().failures, []);
}

/// Both readers see every edit, wherever it is.
#[test]
fn an_independent_reader_disagrees_once_a_byte_is_edited() {
    let (home, sizes) = written(5);
    let traces = sizes.keys().map(|id| home.workspace.trace_file(*id));
    let log = home.path().join("log/events.jsonl");
    for path in traces.chain([log, home.path().join("log/checkpoint")]) {
        let whole = std::fs::read(&path).unwrap();
        for place in [whole.len() / 3, whole.len() / 2, whole.len() - 20] {
            edit(&path, &whole, place);
            let (holds, said) = judge(&home.path());
            // A checkpoint that cannot be read any more counts as none, and both say so.
            let unreadable = "CHECKPOINT_UNREADABLE";
            assert!(
                !holds || said.contains(unreadable),
                "byte {place} of {}: {said}",
                path.display()
            );
            let reports: Vec<_> = sizes.keys().map(|id| home.verify(*id)).collect();
            let failed = reports.iter().any(|report| !report.failures.is_empty());
            let warned = reports
                .iter()
                .any(|report| report.warnings.iter().any(|it| it.warning_code == unreadable));
            assert_eq!(failed, !holds, "byte {place} of {}", path.display());
            assert!(failed || warned, "byte {place} of {}", path.display());
        }
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(judge(&home.path()).0, "as it was");
}

fn edit(path: &PathBuf, whole: &[u8], place: usize) {
    let mut bytes = whole.to_vec();
    bytes[place] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// They are in the repository so that nobody needs Python to read them; a change belongs into the
/// script.
#[test]
fn the_traces_of_schema_1_0_are_those_that_were_built_by_hand() {
    let traces =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/vectors/traces-1.0");
    let output = python("traces_1_0.py", &["--check".as_ref(), traces.as_os_str()]);
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}
