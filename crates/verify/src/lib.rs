//! A stranger's reader: says what holds.
//!
//! Reads a trace and the workspace log as bytes, recomputes everything that they state, and replays
//! the events through the protocol's own rules. Has no way to write, uses no snapshot and asks no
//! policy engine. Reading is the caller's: see [`Source`].

mod account;
mod against;
mod all;
mod approvals;
mod artifacts;
mod audit;
pub mod cap;
mod compare;
mod duties;
mod elsewhere;
mod equivocation;
mod examine;
mod extract;
mod files;
mod findings;
mod inclusion;
mod inclusion_report;
mod keys;
mod known_log;
mod lines;
mod log;
mod pipeline;
mod profile;
mod prove;
mod receipts;
mod replay;
mod signature;
mod text;
mod trace;
mod verdict;
mod walk;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufRead, Read};

use countersign_format::hash::Hash;
use countersign_format::key::AgentIdentity;
use countersign_format::report::{Closed, Signer, VerificationReport, VerificationStatus};
use countersign_format::time::Timestamp;

pub use account::{Account, NoAccount};
pub use all::{TraceVerdict, verify_all};
pub use compare::{Comparison, ComparisonAnswer, compare};
pub use equivocation::{equivocation_exit_status, render_equivocation, verify_equivocation};
pub use files::{FileSource, open_regular, read_regular};
pub use inclusion::{refuse_proof, verify_proof};
pub use inclusion_report::{inclusion_exit_status, render_inclusion};
pub use known_log::KnownLog;
pub use lines::{Lines, RawLine};
pub use profile::Profile;
pub use prove::{EventName, Unprovable, log_extract, prove};
pub use text::{render, render_cap};
pub use trace::{verify, verify_log, verify_prefix};
pub use verdict::NOT_PROVEN;

/// What is to be verified. Each call gives the bytes from their beginning.
pub trait Source {
    /// The ledger of the trace.
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>>;

    /// The workspace log, if there is one.
    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>>;

    /// Checkpoints of the workspace log: its own, and whatever was kept elsewhere.
    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>>;

    /// How many bytes the artifact of this hash has, where they were hashed already and need not be
    /// read once more.
    fn proven(&self, hash: &Hash) -> Option<u64> {
        let _ = hash;
        None
    }

    /// What lies where the artifact of this hash belongs. Nothing is promised of the bytes.
    fn artifact(&self, hash: &Hash) -> io::Result<StoredArtifact<'_>> {
        let _ = hash;
        Ok(StoredArtifact::NoStore)
    }
}

/// What lies where an artifact belongs.
pub enum StoredArtifact<'a> {
    /// There is no store to look into.
    NoStore,
    /// Nothing.
    Absent,
    /// Something that is no regular file.
    NotAFile,
    /// Bytes.
    Bytes(Box<dyn Read + 'a>),
}

impl fmt::Debug for StoredArtifact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoStore => "NoStore",
            Self::Absent => "Absent",
            Self::NotAFile => "NotAFile",
            Self::Bytes(_) => "Bytes",
        })
    }
}

/// What the reader brings along.
#[derive(Debug, Clone)]
pub struct Options {
    /// Fingerprints of roots that the reader trusts.
    pub trusted_roots: BTreeSet<Hash>,
    /// Keys for traces that have no log.
    pub keys: Vec<AgentIdentity>,
    /// The rules to apply.
    pub profile: Profile,
    /// The trace that is expected, where it was asked for by its id.
    pub expect_trace: Option<String>,
    /// What the head of the trace is known to be.
    pub expect_head: Option<Hash>,
    /// How many events the trace is known to have.
    pub expect_count: Option<u64>,
    /// The report's id.
    pub report_id: String,
    /// The time to state.
    pub now: Timestamp,
}

/// What a report comes to, as the exit status of a command.
#[must_use]
pub fn exit_status(report: &VerificationReport, open: OpenTraces) -> u8 {
    if report.verification_status == VerificationStatus::Fail {
        return 3;
    }
    let open = report.closed == Closed::No && open == OpenTraces::Incomplete;
    let unread = report.warnings.iter().any(|it| it.warning_code == verdict::ARTIFACTS_UNREAD);
    if open || unread || report.signer == Signer::Unpinned { 4 } else { 0 }
}

/// What an open trace counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenTraces {
    /// Something that is not finished.
    Incomplete,
    /// As good as a closed one.
    Accepted,
}
