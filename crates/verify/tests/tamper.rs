//! The shared cases of tampering: each is found, under its codes, and by nothing else.
//!
//! The cases were written for a trace with a summary file and a registry of keys. In ours the
//! workspace log says what these say, so the operations on them are done to the log; `CHANGED` has
//! the cases that our design settles otherwise.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::report::{CheckStatus, Closed, VerificationReport, VerificationStatus};
use countersign_format::shape::Dialect;
use countersign_testkit::tamper::{Case, Match, Scene};
use countersign_verify::{OpenTraces, exit_status, verify};

const CASES: &str = include_str!("../../../tests/cases/tamper-cases.jsonl");

/// A case that our design settles otherwise: the name, our codes, the reason.
type Change = (&'static str, &'static [&'static str], &'static str);

/// Cases that our design settles otherwise, in both schemas.
const CHANGED: &[Change] = &[
    (
        "last_event_payload_forged_rehash",
        &["HASH_MISMATCH", "SCHEMA_INVALID", "SIG_INVALID"],
        "a verdict is one of three words, and the forged one is none of them",
    ),
    (
        "last_event_payload_and_hashes_forged",
        &["SCHEMA_INVALID", "SIG_INVALID"],
        "a verdict is one of three words, and the forged one is none of them",
    ),
];

/// Warnings that have another name here, and why.
const RENAMED: &[(&str, &str)] = &[
    // What the summary of a trace says of its size, the log says in ours.
    ("META_STALE", "LOG_ENTRY_MISSING"),
];

/// Says something of the verifier, not of the trace.
const OF_THE_VERIFIER: &str = "RULES_NOT_REPLAYED";

/// What a case should give.
struct Wanted {
    codes: BTreeSet<String>,
    matching: Match,
    verdict: String,
}

fn wanted(case: &Case, also: &[Change]) -> Wanted {
    match CHANGED.iter().chain(also).find(|(name, _, _)| *name == case.name) {
        Some((_, codes, _)) => Wanted {
            codes: codes.iter().map(|&code| code.to_owned()).collect(),
            matching: Match::Exact,
            verdict: if codes.is_empty() { "pass" } else { "fail" }.to_owned(),
        },
        None => Wanted {
            codes: case.codes.clone(),
            matching: case.matching,
            verdict: case.verdict.clone(),
        },
    }
}

fn renamed(codes: &BTreeSet<String>) -> BTreeSet<String> {
    let ours = |code: &String| RENAMED.iter().find(|(theirs, _)| theirs == code);
    codes.iter().map(|code| ours(code).map_or(code.clone(), |(_, it)| (*it).to_owned())).collect()
}

/// The verdict without what is said of the verifier alone.
fn verdict(report: &VerificationReport) -> &'static str {
    let of_trace = report.warnings.iter().any(|it| it.warning_code != OF_THE_VERIFIER);
    match report.verification_status {
        VerificationStatus::PassWithWarnings if !of_trace => VerificationStatus::Pass.as_str(),
        status => status.as_str(),
    }
}

/// Everything in which a report is not what it should be.
fn differences(case: &Case, wanted: &Wanted, report: &VerificationReport) -> Vec<String> {
    let mut found = Vec::new();
    let codes: BTreeSet<String> =
        report.failures.iter().map(|it| it.failure_code.as_str().to_owned()).collect();
    let fits = match wanted.matching {
        Match::Exact => codes == wanted.codes,
        Match::Includes => codes.is_superset(&wanted.codes),
    };
    if !fits {
        found.push(format!("codes {codes:?}, wanted {:?} {:?}", wanted.matching, wanted.codes));
    }
    if verdict(report) != wanted.verdict {
        found.push(format!("verdict {}, wanted {}", verdict(report), wanted.verdict));
    }
    let warnings: BTreeSet<String> = report
        .warnings
        .iter()
        .map(|it| it.warning_code.clone())
        .filter(|code| code != OF_THE_VERIFIER)
        .collect();
    if case.warnings.as_ref().is_some_and(|wanted| renamed(wanted) != warnings)
        || !warnings.is_superset(&renamed(&case.warnings_included))
    {
        found.push(format!("warnings {warnings:?}"));
    }
    let mut told = BTreeMap::new();
    for failure in &report.failures {
        *told.entry((failure.failure_code.as_str(), failure.check_id.as_str())).or_insert(0) += 1;
    }
    let twice = told.iter().find(|(_, count)| **count > 1);
    if let (Match::Exact, Some(twice)) = (wanted.matching, twice) {
        found.push(format!("told more than once: {twice:?}"));
    }
    for check in report.checks.iter().filter(|it| it.status == CheckStatus::Fail) {
        if !told.keys().any(|(_, id)| *id == check.check_id) {
            found.push(format!("{} failed without a failure", check.check_id));
        }
    }
    let silent = |it: &&countersign_format::report::Failure| {
        it.message.is_empty() || it.suggested_action.is_empty()
    };
    if let Some(failure) = report.failures.iter().find(silent) {
        found.push(format!("a failure without words: {failure:?}"));
    }
    found
}

/// Verifies a case in files and in memory: nothing is changed, and both say the same.
fn judge(case: &Case, dialect: Dialect) -> (VerificationReport, Vec<String>) {
    let scene = Scene::after(dialect, case);
    let dir = tempfile::tempdir().unwrap();
    let source = scene.write_to(dir.path());
    let before = Scene::files(dir.path());
    let options = scene.options_for(case);
    let report = verify(&source, &options).unwrap();
    let mut found = Vec::new();
    if Scene::files(dir.path()) != before {
        found.push("the verifier changed a file".to_owned());
    }
    if verify(&scene, &options).unwrap().report_digest != report.report_digest {
        found.push("another report from memory than from files".to_owned());
    }
    (report, found)
}

fn shown(report: &VerificationReport) -> String {
    let failures = report.failures.iter().map(|it| {
        let place = it.index.map_or_else(String::new, |index| format!(" at {index}"));
        format!("\n      {} {}{place}: {}", it.failure_code, it.check_id, it.message)
    });
    let warnings = report.warnings.iter();
    let warnings = warnings.map(|it| format!("\n      {}: {}", it.warning_code, it.message));
    failures.chain(warnings).collect()
}

#[test]
fn every_case_of_tampering_is_found_under_its_codes() {
    let cases = Case::all(CASES);
    assert!(cases.len() >= 50, "only {} cases", cases.len());
    all_found(&cases);
}

/// What the shared cases leave out, in the same words.
#[test]
fn more_cases_of_the_same_kind_are_found_as_well() {
    all_found(&Case::all(include_str!("tamper/more.jsonl")));
}

fn all_found(cases: &[Case]) {
    let mut wrong = Vec::new();
    for case in cases {
        let dialect = case.dialect();
        let (report, mut found) = judge(case, dialect);
        let wanted = wanted(case, &[]);
        found.extend(differences(case, &wanted, &report));
        let status = exit_status(&report, OpenTraces::Incomplete);
        let right = match (wanted.verdict.as_str(), dialect) {
            ("fail", _) => status == 3,
            // Keys that the reader brings along lead to no root; a log that lags behind says that
            // the trace is open.
            (_, Dialect::V1_0) => status == 4,
            (_, Dialect::V1_1) => status == if report.closed == Closed::No { 4 } else { 0 },
        };
        if !right {
            found.push(format!("exit status {status}"));
        }
        if !found.is_empty() {
            wrong.push(format!("{}: {}{}", case.name, found.join("; "), shown(&report)));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// What schema 1.0 cannot show, having neither log nor links: the name, our codes, the reason.
const CHANGED_IN_1_0: &[Change] = &[
    (
        "tail_truncated_to_valid_prefix_meta_kept",
        &[],
        "the summary beside a trace is a cache; schema 1.0 has no log that knows of more events",
    ),
    (
        "registry_pubkey_swapped",
        &[],
        "the keys of schema 1.0 are those that the reader brings along: the signer is unpinned",
    ),
];

#[test]
fn every_case_is_found_in_a_trace_of_schema_1_0_too() {
    let mut wrong = Vec::new();
    let mut run = 0;
    for case in Case::all(CASES) {
        run += 1;
        let (report, mut found) = judge(&case, Dialect::V1_0);
        let wanted = wanted(&case, CHANGED_IN_1_0);
        found.extend(differences(&case, &wanted, &report));
        // Keys that the reader brings along lead to no root.
        let status = exit_status(&report, OpenTraces::Incomplete);
        if status != if wanted.verdict == "fail" { 3 } else { 4 } {
            found.push(format!("exit status {status}"));
        }
        if !found.is_empty() {
            wrong.push(format!("{}: {}{}", case.name, found.join("; "), shown(&report)));
        }
    }
    assert!(wrong.is_empty(), "{} of {run}:\n{}", wrong.len(), wrong.join("\n"));
}
