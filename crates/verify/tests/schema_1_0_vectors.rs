//! The published sessions of schema 1.0, which were made without any code of ours.

#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};

use countersign_format::key::AgentIdentity;
use countersign_format::report::{Closed, Signer, VerificationReport, VerificationStatus};
use countersign_verify::{FileSource, OpenTraces, Options, Profile, exit_status, verify};
use serde_json::{Value, json};

fn vectors() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/vectors/traces-1.0"))
}

fn document(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// What stands beside the trace goes before what all of them share.
fn judge(trace: &Path, profile: Profile) -> VerificationReport {
    let vectors = vectors();
    let own = |name: &str| trace.join(name).exists();
    let keys = if own("keys.json") { trace.join("keys.json") } else { vectors.join("keys.json") };
    let store = if own("artifacts") { trace.to_owned() } else { vectors };
    let source = FileSource {
        events: trace.join("events.jsonl"),
        log: None,
        checkpoints: Vec::new(),
        store: Some(store),
    };
    let keys: Vec<AgentIdentity> = serde_json::from_value(document(&keys)).unwrap();
    let options = Options {
        trusted_roots: Default::default(),
        keys,
        profile,
        expect_trace: None,
        expect_head: None,
        expect_count: None,
        report_id: "01kg9ysh8g0000000000000002".to_owned(),
        now: "2026-01-31T12:00:00.000Z".parse().unwrap(),
    };
    verify(&source, &options).unwrap()
}

fn failures(report: &VerificationReport) -> Vec<&str> {
    report.failures.iter().map(|it| it.failure_code.as_str()).collect()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect()
}

#[test]
fn the_published_sessions_of_schema_1_0_get_the_published_codes() {
    let expected = document(&vectors().join("expected.json"));
    for (name, wanted) in expected.as_object().unwrap() {
        let trace = vectors().join("traces").join(name);
        let report = judge(&trace, Profile::DEFAULT);
        assert_eq!(failures(&report), texts(&wanted["failures"]), "{name}: {:#?}", report.failures);
        let warnings: Vec<&str> =
            report.warnings.iter().map(|it| it.warning_code.as_str()).collect();
        assert_eq!(warnings, texts(&wanted["warnings"]), "{name}: {:#?}", report.warnings);
        assert_eq!(json!(report.closed), wanted["closed"], "{name}");
        if let Some(strict) = wanted.get("strict") {
            let report = judge(&trace, Profile::STRICT);
            assert_eq!(failures(&report), texts(strict), "{name}: {:#?}", report.failures);
        }
    }
}

/// Nobody vouches for a file of keys, so that such a trace is never more than unpinned.
#[test]
fn a_whole_session_of_schema_1_0_passes_and_is_unpinned() {
    let report = judge(&vectors().join("traces/whole"), Profile::STRICT);
    assert_eq!(report.verification_status, VerificationStatus::Pass);
    assert_eq!(report.signer, Signer::Unpinned);
    assert_eq!(report.metrics.signatures_verified, 12);
    assert_eq!(exit_status(&report, OpenTraces::Incomplete), 4);
}

/// No trace that is cut short passes for a whole one.
#[test]
fn a_session_of_schema_1_0_that_is_cut_is_open() {
    let whole = fs::read_to_string(vectors().join("traces/whole/events.jsonl")).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    for length in 1..lines.len() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("events.jsonl"), lines[..length].concat()).unwrap();
        let report = judge(dir.path(), Profile::DEFAULT);
        assert_eq!((failures(&report), report.closed), (vec![], Closed::No), "{length}");
    }
}
