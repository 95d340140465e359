//! Two readers, one trace: what both say of it, as far as both check it.
//!
//! The second reader, in JavaScript, runs as one process that is asked once a line, so that thousands
//! of traces can be compared without starting it thousands of times.

mod agreement;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use countersign_format::hash::Hash;
use countersign_format::report::{Approvals, VerificationReport};
use countersign_verify::{FileSource, Options, Profile, verify, verify_log};
use serde_json::{Value, json};

pub use agreement::{Agreement, agreement};

use crate::home::options;

/// The checks that both readers run.
const SHARED: [&str; 9] = [
    "CHK_SCHEMA_CONFORMANCE",
    "CHK_EVENT_HASH_INTEGRITY",
    "CHK_CHAIN_CONTINUITY",
    "CHK_SIGNATURE_VALIDITY",
    "CHK_KEY_STATUS",
    "CHK_LOG",
    "CHK_ARTIFACT_EXISTENCE",
    "CHK_ARTIFACT_HASH_MATCH",
    "CHK_RECEIPT_CHAIN",
];
/// Warnings of the other checks.
const NOT_SHARED: [&str; 6] = [
    "DENIED_ACTION_RECORDED",
    "RULES_NOT_REPLAYED",
    "CLAIM_DISPUTED",
    "ROLE_POLICY_VIOLATION",
    "CLAIM_UNPROVEN",
    "SCHEMA_INVALID",
];

/// The repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Node, in which the second reader runs.
#[must_use]
pub fn node() -> Command {
    Command::new(std::env::var_os("COUNTERSIGN_TEST_NODE").unwrap_or_else(|| "node".into()))
}

/// The second reader, waiting for requests.
#[derive(Debug)]
pub struct SecondReader {
    child: Child,
    requests: ChildStdin,
    reports: BufReader<ChildStdout>,
}

impl SecondReader {
    /// Starts it.
    #[must_use]
    pub fn start() -> Self {
        let started = node()
            .arg(repository().join("web/verifier/cli.mjs"))
            .arg("--batch")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child =
            started.unwrap_or_else(|error| panic!("`node`, version 20 or newer: {error}"));
        let requests = child.stdin.take().unwrap();
        let reports = BufReader::new(child.stdout.take().unwrap());
        Self { child, requests, reports }
    }

    /// What it answers to one request.
    fn answer(&mut self, request: &Value) -> Value {
        writeln!(self.requests, "{request}").unwrap();
        let mut line = String::new();
        self.reports.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for SecondReader {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What both readers are asked.
#[derive(Debug, Clone)]
pub struct Inquiry {
    /// Of which ledger.
    pub subject: Subject,
    /// How strictly.
    pub profile: Profile,
    /// What the head of the trace, and the number of its events, are known to be.
    pub expected: Option<(Hash, u64)>,
}

/// The ledger in question, and what belongs to it.
#[derive(Debug, Clone)]
pub enum Subject {
    /// One of a workspace whose root is trusted.
    InHome {
        /// The home of the workspace.
        home: PathBuf,
        /// The id of a trace, or `log`.
        ledger: String,
        /// The fingerprint of the root.
        root: Hash,
    },
    /// A trace by itself.
    Apart {
        /// Its directory.
        trace: PathBuf,
        /// A file of keys.
        keys: PathBuf,
        /// Where `artifacts` lies.
        store: PathBuf,
    },
}

/// Says how the second reader's report differs from the first one's; `None` if it does not.
pub fn difference(second: &mut SecondReader, inquiry: &Inquiry) -> Option<String> {
    let answer = second.answer(&request(inquiry));
    if let Some(error) = answer.get("error") {
        return Some(format!("the second reader could not read it: {error}"));
    }
    let report: VerificationReport = serde_json::from_value(answer).unwrap();
    if report.report_digest != Some(report.digest()) {
        return Some("the digest of the second report is wrong".to_owned());
    }
    let (first, second) = (Shared::of(&first_report(inquiry)), Shared::of(&report));
    (first != second).then(|| format!("first  {first:#?}\nsecond {second:#?}"))
}

fn request(inquiry: &Inquiry) -> Value {
    let mut request = match &inquiry.subject {
        Subject::InHome { home, ledger, root } => {
            let target = match ledger.as_str() {
                "log" => home.join("log"),
                trace => home.join("traces").join(trace),
            };
            json!({ "target": target, "trust": [root] })
        }
        Subject::Apart { trace, keys, store } => {
            json!({ "target": trace, "keys": keys, "store": store })
        }
    };
    request["profile"] = json!(inquiry.profile.name);
    if let Some((head, count)) = inquiry.expected {
        request["expect_head"] = json!(head);
        request["expect_count"] = json!(count);
    }
    request
}

/// What the first reader says.
#[must_use]
pub fn first_report(inquiry: &Inquiry) -> VerificationReport {
    let Inquiry { subject, profile, expected } = inquiry;
    let usual = Options {
        expect_head: expected.map(|(head, _)| head),
        expect_count: expected.map(|(_, count)| count),
        ..options(&[], *profile)
    };
    match subject {
        Subject::InHome { home, ledger, root } if ledger == "log" => {
            let options = Options { trusted_roots: [*root].into(), ..usual };
            let source = FileSource::in_home(home, home.join("log/events.jsonl"));
            verify_log(&source, &options).unwrap()
        }
        Subject::InHome { home, ledger, root } => {
            let (trusted_roots, expect_trace) = ([*root].into(), Some(ledger.clone()));
            let options = Options { trusted_roots, expect_trace, ..usual };
            let events = home.join("traces").join(ledger).join("events.jsonl");
            verify(&FileSource::in_home(home, events), &options).unwrap()
        }
        Subject::Apart { trace, keys, store } => {
            let keys = serde_json::from_slice(&fs::read(keys).unwrap()).unwrap();
            let source = FileSource {
                events: trace.join("events.jsonl"),
                log: None,
                checkpoints: Vec::new(),
                store: Some(store.clone()),
            };
            verify(&source, &Options { keys, ..usual }).unwrap()
        }
    }
}

/// What the reports of both readers have in common. Words and their order are not.
#[derive(Debug, PartialEq)]
struct Shared {
    status: &'static str,
    failures: BTreeSet<(String, String, Option<u64>)>,
    warnings: BTreeSet<String>,
    closed: String,
    signer: String,
    approvals: Approvals,
    root: Option<Hash>,
    head: Option<Hash>,
    trace_id: String,
    metrics: [u64; 4],
}

impl Shared {
    fn of(report: &VerificationReport) -> Self {
        let failures: BTreeSet<_> = report
            .failures
            .iter()
            .filter(|it| SHARED.contains(&it.check_id.as_str()))
            .map(|it| (it.check_id.clone(), it.failure_code.to_string(), it.index))
            .collect();
        let warnings: BTreeSet<_> = report
            .warnings
            .iter()
            .map(|it| it.warning_code.clone())
            .filter(|code| !NOT_SHARED.contains(&code.as_str()))
            .collect();
        let status = match (failures.is_empty(), warnings.is_empty()) {
            (false, _) => "fail",
            (true, false) => "pass-with-warnings",
            (true, true) => "pass",
        };
        Self {
            status,
            failures,
            warnings,
            closed: format!("{:?}", report.closed),
            signer: format!("{:?}", report.signer),
            approvals: report.approvals,
            root: report.root,
            head: report.head,
            trace_id: report.trace_id.clone(),
            metrics: [
                report.metrics.events,
                report.metrics.signatures_verified,
                report.metrics.log_entries,
                report.metrics.trusted_events,
            ],
        }
    }
}
