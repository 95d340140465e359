//! The published workspaces: the verifier gives the codes that stand beside them.

#![cfg(test)]

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use countersign_format::hash::Hash;
use countersign_format::report::VerificationReport;
use countersign_verify::{
    FileSource, Options, Profile, Source, StoredArtifact, verify, verify_log,
};
use serde_json::{Value, json};

fn options(trace_id: Option<&str>) -> Options {
    Options {
        trusted_roots: Default::default(),
        keys: Vec::new(),
        profile: Profile::DEFAULT,
        expect_trace: trace_id.map(str::to_owned),
        expect_head: None,
        expect_count: None,
        report_id: "01kg9ysh8g0000000000000002".to_owned(),
        now: "2026-01-31T12:00:00.000Z".parse().unwrap(),
    }
}

/// A ledger that is not there is one without lines.
struct OrEmpty(FileSource);

impl Source for OrEmpty {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        if self.0.events.exists() { self.0.events() } else { Ok(Box::new(io::empty())) }
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        self.0.log()
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        self.0.checkpoints()
    }

    fn artifact(&self, hash: &Hash) -> io::Result<StoredArtifact<'_>> {
        self.0.artifact(hash)
    }
}

/// Each code once, in the order in which it is first given. That rules were not replayed says
/// something of this verifier, not of the ledger.
fn codes(report: &VerificationReport) -> Value {
    let failures = report.failures.iter().map(|it| it.failure_code.to_string());
    let warnings = report.warnings.iter().map(|it| it.warning_code.clone());
    let warnings = warnings.filter(|code| code != "RULES_NOT_REPLAYED");
    let once = |all: Vec<String>| {
        all.into_iter().fold(Vec::new(), |mut seen, code| {
            if !seen.contains(&code) {
                seen.push(code);
            }
            seen
        })
    };
    json!({ "failures": once(failures.collect()), "warnings": once(warnings.collect()) })
}

fn judge(home: &Path, ledger: &str) -> Value {
    let report = if ledger == "log" {
        verify_log(&FileSource::in_home(home, home.join("log/events.jsonl")), &options(None))
    } else {
        let events = home.join("traces").join(ledger).join("events.jsonl");
        verify(&OrEmpty(FileSource::in_home(home, events)), &options(Some(ledger)))
    };
    codes(&report.unwrap())
}

#[test]
fn the_published_workspaces_get_the_published_codes() {
    let homes =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/vectors/homes"));
    let expected = std::fs::read(homes.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    for (name, ledgers) in expected.as_object().unwrap() {
        for (ledger, wanted) in ledgers.as_object().unwrap() {
            assert_eq!(judge(&homes.join(name), ledger), *wanted, "{name}: {ledger}");
        }
    }
}
