//! Artifacts: absent, changed, redacted, and something else in their place.

#![cfg(test)]

use std::fs::{self, File};
use std::io::{self, BufRead};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_format::event::artifact::storage_uri;
use countersign_format::event::{Draft, EventType};
use countersign_format::hash::Hash;
use countersign_format::report::{CheckStatus, Closed, Failure, VerificationReport};
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_protocol::session::SessionCommand;
use countersign_testkit::SessionStory;
use countersign_testkit::session::SEPARATE;
use countersign_verify::{FileSource, OpenTraces, Profile, Source, exit_status, verify};
use serde_json::json;

const EXISTENCE: &str = "CHK_ARTIFACT_EXISTENCE";
const MATCH: &str = "CHK_ARTIFACT_HASH_MATCH";

fn check<'r>(report: &'r VerificationReport, id: &str) -> (CheckStatus, &'r str) {
    let check = report.checks.iter().find(|it| it.check_id == id).unwrap();
    (check.status, &check.scope)
}

/// What is said of artifacts, without the claims that rest on them.
fn of_artifacts(report: &VerificationReport) -> Vec<&Failure> {
    report.failures.iter().filter(|it| it.check_id.starts_with("CHK_ARTIFACT")).collect()
}

/// A session in files, and where its output lies.
fn in_files() -> (tempfile::TempDir, SessionStory, PathBuf) {
    let story = SessionStory::whole();
    let dir = tempfile::tempdir().unwrap();
    story.write_to(dir.path());
    let output = dir.path().join(storage_uri(&Hash::of(b"output")));
    (dir, story, output)
}

fn judge(home: &Path, story: &SessionStory) -> VerificationReport {
    let events = home.join("traces").join(story.id().to_string()).join("events.jsonl");
    verify(&FileSource::in_home(home, events), &story.options(Profile::DEFAULT)).unwrap()
}

#[test]
fn files_with_the_recorded_bytes_pass() {
    let (dir, story, _) = in_files();
    let report = judge(dir.path(), &story);
    assert_eq!((report.failures.as_slice(), report.warnings.as_slice()), (&[][..], &[][..]));
    assert_eq!(check(&report, EXISTENCE), (CheckStatus::Pass, "3 artifacts"));
}

/// What is put where, the code and the check that find it, and the words.
type Row = (&'static str, fn(&Path), (&'static str, &'static str), String);

/// An artifact that two events name is one finding, at the first of them.
#[test]
fn whatever_is_in_the_place_of_an_artifact_is_found_once() {
    let hash = Hash::of(b"output");
    let missing = ("ARTIFACT_MISSING", EXISTENCE);
    let changed = ("ARTIFACT_HASH_MISMATCH", MATCH);
    let table: [Row; 9] = [
        ("absent", |_| {}, missing, "is not in the store".into()),
        ("empty", |at| put(at, b""), changed, "has 0 bytes, it should have 6".into()),
        (
            "changed",
            |at| put(at, b"0utput"),
            changed,
            format!("has other bytes, with the hash {}", Hash::of(b"0utput")),
        ),
        (
            "longer",
            |at| put(at, b"output "),
            changed,
            "has more than the 6 bytes it should have".into(),
        ),
        (
            // Nobody reads a terabyte to find out that it is not six bytes.
            "endless",
            |at| File::create(at).unwrap().set_len(1 << 40).unwrap(),
            changed,
            "has more than the 6 bytes it should have".into(),
        ),
        (
            "linked",
            |at| {
                let elsewhere = at.with_extension("elsewhere");
                put(&elsewhere, b"output");
                symlink(elsewhere, at).unwrap();
            },
            missing,
            "is no regular file in the store".into(),
        ),
        (
            "pipe",
            |at| assert!(Command::new("mkfifo").arg(at).status().unwrap().success()),
            missing,
            "is no regular file in the store".into(),
        ),
        (
            "socket",
            |at| drop(UnixListener::bind(at).unwrap()),
            missing,
            "is no regular file in the store".into(),
        ),
        (
            "directory",
            |at| fs::create_dir(at).unwrap(),
            missing,
            "is no regular file in the store".into(),
        ),
    ];
    for (name, change, (code, check_id), how) in table {
        let (dir, story, output) = in_files();
        fs::remove_file(&output).unwrap();
        change(&output);
        let report = judge(dir.path(), &story);
        let found = of_artifacts(&report);
        let [failure] = found.as_slice() else { panic!("{name}: {found:?}") };
        assert_eq!((failure.failure_code.as_str(), failure.check_id.as_str()), (code, check_id));
        assert_eq!(failure.message, format!("the artifact {hash} {how}"), "{name}");
        assert_eq!((failure.index, failure.artifact_hash), (Some(5), Some(hash)), "{name}");
    }
}

fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_link_on_the_way_to_an_artifact_is_not_followed() {
    let (dir, story, output) = in_files();
    for depth in 1..=4 {
        let place = output.ancestors().nth(depth).unwrap();
        let aside = dir.path().join("aside");
        fs::rename(place, &aside).unwrap();
        symlink(&aside, place).unwrap();
        let report = judge(dir.path(), &story);
        let found = of_artifacts(&report);
        assert!(!found.is_empty(), "{}", place.display());
        for failure in found {
            assert!(failure.message.ends_with("is no regular file in the store"));
        }
        fs::remove_file(place).unwrap();
        fs::rename(&aside, place).unwrap();
    }
    assert_eq!(judge(dir.path(), &story).failures, []);
    fs::remove_dir_all(output.ancestors().nth(4).unwrap()).unwrap();
    assert_eq!(of_artifacts(&judge(dir.path(), &story)).len(), 3);
}

#[test]
fn a_redaction_that_stands_in_the_trace_explains_an_absence() {
    let output = Hash::of(b"output");
    let redact = || SessionCommand::Redact { artifact_hash: output, reason: "personal".into() };
    let mut story = SessionStory::whole();
    story.submit(redact());
    // As long as the bytes are there, they are looked at.
    assert_eq!(codes(&story), (vec![], vec![]));
    story.blobs.insert(output, b"0utput".to_vec());
    // The audit had seen them as they were.
    let stale = vec!["RECORDED_VERDICT_STALE".to_owned()];
    assert_eq!(codes(&story), (vec!["ARTIFACT_HASH_MISMATCH", "CLAIM_UNPROVEN"], stale));
    story.blobs.remove(&output);
    assert_eq!(codes(&story), (vec![], vec!["REDACTION_LIMITED".to_owned()]));
    let warning = &story.verify(Profile::DEFAULT).warnings[0];
    assert_eq!(warning.message, format!("the artifact {output} was redacted: its bytes are gone"));
    // Under `strict` a claim needs something that can still be read.
    let strict = story.verify(Profile::STRICT);
    let unproven: Vec<_> = strict.failures.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(unproven, ["all evidence of the claim was redacted"]);

    // What was redacted before it was named is not what was named.
    let mut early = SessionStory::new(&SEPARATE);
    let proposal = early.plan();
    early.submit(redact());
    early.execute(&proposal, RiskClass::Low, "output");
    early.blobs.remove(&output);
    assert_eq!(codes(&early), (vec!["ARTIFACT_MISSING"], vec![]));
}

fn codes(story: &SessionStory) -> (Vec<&'static str>, Vec<String>) {
    let report = story.verify(Profile::DEFAULT);
    let failures = report.failures.iter().map(|it| it.failure_code.as_str()).collect();
    (failures, report.warnings.into_iter().map(|it| it.warning_code).collect())
}

/// An insider states a size that the bytes do not have; or two sizes for the same bytes.
#[test]
fn a_size_that_is_not_that_of_the_bytes_is_found() {
    let record = |story: &mut SessionStory, byte_size: u64| {
        let mut artifact = story.put(b"evidence");
        artifact.byte_size = byte_size;
        story.submit(SessionCommand::RecordArtifact {
            by: Role::Executor,
            purpose: "to see".into(),
            artifacts: vec![artifact],
        });
    };
    let mut story = SessionStory::new(&SEPARATE);
    story.plan();
    record(&mut story, 9);
    let report = story.verify(Profile::DEFAULT);
    let failure = &report.failures[0];
    let hash = Hash::of(b"evidence");
    assert_eq!(failure.message, format!("the artifact {hash} has 8 bytes, it should have 9"));
    assert_eq!((report.failures.len(), failure.index), (1, Some(3)));

    record(&mut story, 8);
    record(&mut story, 7);
    let report = story.verify(Profile::DEFAULT);
    let failure = &report.failures[0];
    let message = format!("the artifact {hash} has 8 bytes here, and 9 at event 3");
    assert_eq!((report.failures.len(), failure.index), (1, Some(4)));
    assert_eq!(failure.message, message);
}

/// A source that has events and nothing else.
struct EventsOnly<'a>(&'a SessionStory);

impl Source for EventsOnly<'_> {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        self.0.events()
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        self.0.log()
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        self.0.checkpoints()
    }
}

#[test]
fn without_a_store_the_report_says_that_artifacts_were_not_read() {
    let story = SessionStory::whole();
    let options = story.options(Profile::STRICT);
    let report = verify(&EventsOnly(&story), &options).unwrap();
    assert_eq!(report.failures, []);
    let warnings: Vec<_> = report.warnings.iter().map(|it| it.warning_code.as_str()).collect();
    assert_eq!(warnings, ["ARTIFACTS_UNREAD"]);
    assert_eq!(exit_status(&report, OpenTraces::Incomplete), 4);
    let skipped = (CheckStatus::NotChecked, "no store of artifacts was given");
    let rests = ["CHK_CLAIM_EVIDENCE_SUFFICIENCY", "CHK_FINALIZATION_INTEGRITY"];
    assert_eq!([EXISTENCE, MATCH, rests[0], rests[1]].map(|id| check(&report, id)), [skipped; 4]);
    let unread = "that the artifacts are there and whole: they were not read".to_owned();
    assert!(report.not_proven.contains(&unread));
    assert!(!story.verify(Profile::STRICT).not_proven.contains(&unread));

    // What events say of the same artifact is compared all the same.
    let mut story = SessionStory::claimed();
    let mut artifact = story.put(b"output");
    artifact.byte_size = 7;
    artifact.producer_event_id = story.id().to_string();
    let draft = Draft::new(EventType::ArtifactRecorded, json!({})).with_artifacts(vec![artifact]);
    story.force(Role::Executor, draft);
    let report = verify(&EventsOnly(&story), &options).unwrap();
    assert_eq!(check(&report, MATCH).0, CheckStatus::Fail);
}

/// Takes the signature off the last line, and makes its hash fit.
fn unsign_last(story: &mut SessionStory) {
    let lines = story.lines();
    let start = lines[..lines.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    let mut event: serde_json::Value = serde_json::from_slice(&lines[start..]).unwrap();
    for name in ["signature", "event_hash"] {
        event.as_object_mut().unwrap().remove(name);
    }
    event["event_hash"] = json!(Hash::of(&countersign_format::json::to_bytes(&event)));
    lines.truncate(start);
    lines.extend_from_slice(&countersign_format::json::to_bytes(&event));
    lines.push(b'\n');
}

/// Whoever can delete a file could otherwise append a line that excuses it, without any key.
#[test]
fn a_redaction_that_nobody_signed_excuses_nothing() {
    let hash = Hash::of(b"output");
    for signed in [true, false] {
        let mut story = SessionStory::whole();
        let redaction = json!({ "artifact_hash": hash, "reason": "personal data" });
        story.force(Role::Auditor, Draft::new(EventType::ArtifactRedacted, redaction));
        if !signed {
            unsign_last(&mut story);
        }
        story.blobs.remove(&hash).unwrap();
        let report = story.verify(Profile::DEFAULT);
        let codes: Vec<_> = report.failures.iter().map(|it| it.failure_code.as_str()).collect();
        let warnings: Vec<_> = report.warnings.iter().map(|it| it.warning_code.as_str()).collect();
        if signed {
            assert_eq!(
                (codes.as_slice(), warnings.as_slice()),
                (&[][..], &["REDACTION_LIMITED"][..])
            );
        } else {
            assert_eq!(codes, ["ARTIFACT_MISSING", "CLAIM_UNPROVEN"]);
            assert_eq!(warnings, ["SIG_ABSENT", "RECORDED_VERDICT_STALE"]);
        }
    }
}

/// An end that nobody signed ends nothing, and an approval permits nothing that is counted.
#[test]
fn an_abort_that_nobody_signed_does_not_close_a_session() {
    let mut story = SessionStory::claimed();
    let reason = json!({ "reason": "enough" });
    story.force(Role::Operator, Draft::new(EventType::SessionAborted, reason));
    story.close();
    assert_eq!(story.verify(Profile::DEFAULT).closed, Closed::Aborted);
    unsign_last(&mut story);
    let report = story.verify(Profile::DEFAULT);
    assert_eq!(report.closed, Closed::No);
}
