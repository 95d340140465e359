//! A workspace to write traces in, which ends in the verifier.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_format::event::Event;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::report::{Signer, VerificationReport, VerificationStatus};
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::disk::OsDisk;
use countersign_runtime::inspect::each_event;
use countersign_runtime::store::LedgerId;
use countersign_runtime::{Environment, Recording, Workspace};
use countersign_verify::{FileSource, Options, Profile, verify, verify_log};

use crate::clock::{FakeClock, SeededEntropy};

/// A workspace in a directory of its own, with a clock that stands still.
#[derive(Debug)]
pub struct TestHome {
    dir: tempfile::TempDir,
    home: PathBuf,
    /// Its clock.
    pub clock: Arc<FakeClock>,
    /// The workspace.
    pub workspace: Workspace,
}

impl TestHome {
    /// A new workspace.
    #[must_use]
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        Self::with(dir, home, 7)
    }

    /// A new workspace with other keys than those of [`Self::new`].
    #[must_use]
    pub fn other() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        Self::with(dir, home, 8)
    }

    /// A new workspace in the directory `home`; its keys lie elsewhere.
    #[must_use]
    pub fn at(home: &Path) -> Self {
        Self::with(tempfile::tempdir().unwrap(), home.to_owned(), 7)
    }

    fn with(dir: tempfile::TempDir, home: PathBuf, seed: u64) -> Self {
        let clock = Arc::new(FakeClock::new());
        let environment = Environment {
            disk: Arc::new(OsDisk),
            clock: Arc::clone(&clock) as Arc<_>,
            entropy: Arc::new(SeededEntropy::new(seed)),
        };
        let config = dir.path().join("config");
        let workspace = Workspace::init(&config, &home, environment).unwrap();
        Self { dir, home, clock, workspace }
    }

    /// Where private keys lie.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.dir.path().join("config")
    }

    /// Where the workspace lies.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.home.clone()
    }

    /// The workspace as another process would open it: nothing is shared but the files. Its ids
    /// come from the system, since two processes never draw the same ones.
    #[must_use]
    pub fn reopen(&self) -> Workspace {
        let environment =
            Environment { clock: Arc::clone(&self.clock) as Arc<_>, ..Environment::system() };
        Workspace::open(&self.config(), &self.path(), environment).unwrap()
    }

    /// A new recording.
    #[must_use]
    pub fn recording(&self) -> Recording {
        self.workspace.begin_recording(Some("test-agent"), None).unwrap()
    }

    /// What the verifier says of a trace.
    #[must_use]
    pub fn verify(&self, id: Ulid) -> VerificationReport {
        self.verify_with(id, [self.workspace.root()], Profile::STRICT)
    }

    /// What the verifier says of a trace to somebody who trusts these roots.
    #[must_use]
    pub fn verify_with<const N: usize>(
        &self,
        id: Ulid,
        roots: [Hash; N],
        profile: Profile,
    ) -> VerificationReport {
        let source = FileSource::in_home(&self.path(), self.workspace.trace_file(id));
        let expect_trace = Some(id.to_string());
        verify(&source, &Options { expect_trace, ..options(&roots, profile) }).unwrap()
    }

    /// What the verifier says of the workspace log.
    #[must_use]
    pub fn verify_log(&self) -> VerificationReport {
        let events = self.path().join("log/events.jsonl");
        let source = FileSource::in_home(&self.path(), events);
        verify_log(&source, &options(&[self.workspace.root()], Profile::STRICT)).unwrap()
    }

    /// The events of a trace, read without the workspace.
    #[must_use]
    pub fn events(&self, id: Ulid) -> Vec<Event> {
        let mut events = Vec::new();
        each_event(&self.workspace.trace_file(id), LedgerId::Trace(id), |event| events.push(event))
            .unwrap()
            .unwrap();
        events
    }

    /// As [`TestHome::check`]; and every event whose id is in `acked` is there exactly once.
    pub fn check_acked(&self, id: Ulid, events: u64, acked: &[String]) -> VerificationReport {
        let report = self.check(id, events);
        let mut found: BTreeMap<String, u32> = BTreeMap::new();
        for event in self.events(id) {
            *found.entry(event.event_id).or_default() += 1;
        }
        for id in acked {
            assert_eq!(found.get(id), Some(&1), "event {id} was acknowledged");
        }
        let distinct: BTreeSet<_> = acked.iter().collect();
        assert_eq!(distinct.len(), acked.len(), "an id was acknowledged twice");
        report
    }

    /// Reads everything back as a stranger would: the trace has this many events, and neither it
    /// nor the log gives rise to any finding.
    pub fn check(&self, id: Ulid, events: u64) -> VerificationReport {
        let log = self.verify_log();
        assert_eq!(log.failures, [], "the log");
        let report = self.verify(id);
        assert_eq!(report.failures, [], "the trace");
        assert_eq!(report.warnings, [], "the trace");
        assert_eq!(report.metrics.events, events);
        assert_eq!(report.metrics.signatures_verified, events);
        assert_eq!(report.signer, Signer::Pinned);
        assert_eq!(report.verification_status, VerificationStatus::Pass);
        report
    }
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}

pub(crate) fn options(roots: &[Hash], profile: Profile) -> Options {
    Options {
        trusted_roots: roots.iter().copied().collect(),
        keys: Vec::new(),
        profile,
        expect_trace: None,
        expect_head: None,
        expect_count: None,
        report_id: "01arz3ndektsv4rrffq69g5fav".to_owned(),
        now: "2026-02-03T04:05:06.000Z".parse().unwrap(),
    }
}

/// A command that adds one event without further conditions.
#[must_use]
pub fn note(purpose: &str) -> RecordingCommand {
    RecordingCommand::RecordArtifact { purpose: purpose.to_owned(), artifacts: Vec::new() }
}
