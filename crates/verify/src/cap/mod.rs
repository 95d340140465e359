//! Sealed files: `.cap`, ours and those of CapSeal.
//!
//! A file is read as a stream and never extracted. What is wrong with the container itself is a
//! failure like any other, and then nothing else is said of the file.

mod capseal;
mod contents;
mod crew;
mod feed;
mod ours;
mod stop;
mod tally;

use std::io::{self, Read};

use countersign_format::cap::{CapManifest, CapReader, MANIFEST_BYTES_MAX, Member};
use countersign_format::report::{
    Approvals, Closed, FailureCode, Metrics, Signer, VerificationReport,
};

use self::capseal::Session;
use self::stop::Stop;
use crate::findings::{CheckId, Findings, Place};
use crate::verdict::Verdict;
use crate::{Options, Source};

pub use contents::{CapContents, CapIdentity, ShownAction, cap_contents};
pub use feed::OpenedCap;
pub use ours::REPORT_BYTES_MAX;
pub use tally::{Audit, CapTally, action_line};

/// The names of the members of a file of ours.
pub mod members {
    pub use super::ours::{ACTIONS, ARTIFACTS, CAPSULE, EVENTS, EXTRACT, REPORT};

    /// The first member.
    pub const MANIFEST: &str = "manifest.json";
}

/// Gives the bytes of a file from their beginning.
pub type OpenCap<'a> = dyn Fn() -> io::Result<OpenedCap> + 'a;

/// Who sealed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapOwner {
    /// Countersign: the file holds a signed trace.
    Countersign,
    /// CapSeal: the file holds unsigned receipts.
    CapSeal {
        /// How many.
        actions: u64,
    },
    /// Nobody knows: it was refused before that.
    Unknown,
}

/// What is to be said of a file.
#[derive(Debug, Clone)]
pub struct CapVerdict {
    /// Who sealed it.
    pub owner: CapOwner,
    /// What was found.
    pub report: VerificationReport,
}

/// Verifies a sealed file. Of `kept`, only the log and the checkpoints are looked at: what somebody
/// has of the log beside the file.
///
/// # Errors
/// The file, or what was kept, cannot be read. What is wrong with the bytes is in the report.
pub fn verify_cap(
    open: &OpenCap<'_>,
    kept: &dyn Source,
    options: &Options,
) -> io::Result<CapVerdict> {
    let (owner, verified) = match begin(open) {
        Ok((reader, member, manifest)) if CapManifest::is_ours(&manifest) => {
            let first = (&member, manifest.as_slice());
            (CapOwner::Countersign, ours::verify(reader, first, open, kept, options))
        }
        Ok((reader, _, manifest)) => match capseal::verify(reader, &manifest) {
            Ok(session) => {
                let owner = CapOwner::CapSeal { actions: session.actions };
                (owner, Ok(receipts_report(&session, options)))
            }
            Err(stop) => (CapOwner::Unknown, Err(stop)),
        },
        Err(stop) => (CapOwner::Unknown, Err(stop)),
    };
    match verified {
        Ok(report) => Ok(CapVerdict { owner, report }),
        Err(Stop::Io(error)) => Err(error),
        Err(Stop::Refused(message)) => {
            let mut findings = Findings::default();
            let code = FailureCode::SchemaInvalid;
            findings.fail(CheckId::Schema, code, &Place::default(), message);
            let report = refusal("", findings, "the file was refused", options);
            Ok(CapVerdict { owner, report })
        }
    }
}

/// Opens a file and reads its manifest, which comes first: a reader that looks for it further down
/// can be shown another one.
fn begin(open: &OpenCap<'_>) -> Result<(CapReader<OpenedCap>, Member, Vec<u8>), Stop> {
    first_member(open()?)
}

fn first_member<R: Read>(file: R) -> Result<(CapReader<R>, Member, Vec<u8>), Stop> {
    let mut reader = CapReader::open(file)?;
    match reader.next_member()? {
        Some(member) if member.name == members::MANIFEST => {
            let manifest = reader.read_member(MANIFEST_BYTES_MAX as u64)?;
            Ok((reader, member, manifest))
        }
        Some(member) => Err(Stop::Refused(format!(
            "the first member is `{}`, not `manifest.json`",
            member.name
        ))),
        None => Err(Stop::Refused("the file is empty: there is no `manifest.json`".to_owned())),
    }
}

/// The name of the log that a file speaks of, where it is one of ours. Nothing is verified.
///
/// # Errors
/// The file cannot be read.
pub fn cap_origin(open: &OpenCap<'_>) -> io::Result<Option<String>> {
    match begin(open) {
        Ok((_, _, manifest)) => {
            let manifest = CapManifest::read(&manifest).ok();
            Ok(manifest.map(|manifest| manifest.countersign.origin))
        }
        Err(Stop::Refused(_)) => Ok(None),
        Err(Stop::Io(error)) => Err(error),
    }
}

const ADVICE: &str = "do not rely on this file; ask for it again where it was sealed";

/// A report that says only what is wrong.
fn refusal(
    trace_id: &str,
    mut findings: Findings,
    why: &str,
    options: &Options,
) -> VerificationReport {
    for check in CheckId::ALL {
        findings.skip(check, why);
    }
    let verdict = bare_verdict(trace_id, Closed::No, options);
    let mut report = verdict.into_report(findings);
    advise(&mut report);
    report
}

fn advise(report: &mut VerificationReport) {
    for failure in &mut report.failures {
        ADVICE.clone_into(&mut failure.suggested_action);
    }
    report.report_digest = Some(report.digest());
}

fn bare_verdict(trace_id: &str, closed: Closed, options: &Options) -> Verdict {
    Verdict {
        report_id: options.report_id.clone(),
        now: options.now,
        profile: options.profile.name,
        trace_id: trace_id.to_owned(),
        kind: None,
        head: None,
        ended: None,
        closed,
        signer: Signer::Unpinned,
        root: None,
        signatures_checked: false,
        artifacts_read: true,
        approvals: Approvals::default(),
        coverage: None,
        metrics: Metrics::default(),
    }
}

/// What receipts without signatures come to.
fn receipts_report(session: &Session, options: &Options) -> VerificationReport {
    let mut findings = Findings::default();
    for (index, message) in &session.faults {
        let place = Place { index: *index, ..Place::default() };
        let code = FailureCode::HashMismatch;
        findings.fail_each(CheckId::ReceiptChain, code, &place, message.clone());
    }
    let count = session.actions;
    findings.scope(CheckId::ReceiptChain, format!("{count} actions, all copies of them"));
    if let Some(last) = session.last {
        findings.evidence(CheckId::ReceiptChain, format!("final receipt {last}"));
    }
    for check in CheckId::ALL.into_iter().filter(|check| *check != CheckId::ReceiptChain) {
        findings.skip(check, "a file of CapSeal's has nothing of the kind");
    }
    let sound = session.faults.is_empty();
    let mut report = bare_verdict(&session.trace_id, Closed::Yes, options).into_report(findings);
    if sound {
        report.summary = format!(
            "a session of CapSeal's: the receipts of {count} actions and all copies of them agree; \
             they are unsigned, and anyone could have written them"
        );
    }
    let unsigned = [
        "who wrote these receipts: they are unsigned, and anyone could have written them",
        "that this is the whole session: a shorter one could be sealed just so",
        "descriptions, file names and other metadata: they lie outside the hashes",
    ];
    report.not_proven.splice(0..0, unsigned.map(str::to_owned));
    advise(&mut report);
    report
}
