//! A workspace on a simulated disk: its keys are real files, everything else can fail.
//!
//! The same home is found again after each power loss, and read by the verifier as a stranger
//! would read it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::report::VerificationReport;
use countersign_runtime::disk::Disk as _;
use countersign_runtime::inspect::each_event;
use countersign_runtime::store::LedgerId;
use countersign_runtime::{Environment, Workspace, WorkspaceError};
use countersign_verify::{FileSource, KnownLog, Profile, verify, verify_log};

use crate::clock::{FakeClock, SeededEntropy};
use crate::disk::{MirroredDisk, SimDisk};
use crate::home::options;

/// A workspace that was made on a simulated disk and can be opened on others.
#[derive(Debug)]
pub struct SimHome {
    dir: tempfile::TempDir,
    clock: Arc<FakeClock>,
    root: Hash,
    base: SimDisk,
}

impl SimHome {
    /// Makes the workspace.
    #[must_use]
    pub fn new() -> Self {
        // Thousands of copies are made and read once: in memory, where there is such a place.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let base = SimDisk::new();
        for parent in dir.path().ancestors().collect::<Vec<_>>().into_iter().rev() {
            if let Some(above) = parent.parent() {
                base.create_dir(parent).unwrap();
                base.sync_dir(above).unwrap();
            }
        }
        let clock = Arc::new(FakeClock::new());
        let mut home = Self { dir, clock, root: Hash::GENESIS, base };
        let environment = home.environment(&home.base, 1);
        let workspace = Workspace::init(&home.config(), &home.path(), environment).unwrap();
        home.root = workspace.root();
        home
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("config")
    }

    /// Where the workspace lies, on every disk.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn environment(&self, disk: &SimDisk, seed: u64) -> Environment {
        Environment {
            disk: Arc::new(self.mirrored(disk)),
            clock: Arc::clone(&self.clock) as Arc<_>,
            entropy: Arc::new(SeededEntropy::new(seed)),
        }
    }

    /// The disk as it was when the workspace had just been made.
    #[must_use]
    pub fn disk(&self) -> SimDisk {
        self.base.restart()
    }

    /// The disk as the verifier and everything else that reads files finds it from now on.
    #[must_use]
    pub fn mirrored(&self, disk: &SimDisk) -> MirroredDisk {
        MirroredDisk::new(disk, &self.path())
    }

    /// Opens the workspace in an environment of its own, over a disk that was mirrored.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_in(&self, environment: Environment) -> Result<Workspace, WorkspaceError> {
        Workspace::open(&self.config(), &self.path(), environment)
    }

    /// Opens the workspace on `disk`, which the verifier reads from now on. Ids depend on `seed`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self, disk: &SimDisk, seed: u64) -> Result<Workspace, WorkspaceError> {
        let environment = self.environment(disk, seed);
        Workspace::open(&self.config(), &self.path(), environment)
    }

    /// The file of a trace.
    #[must_use]
    pub fn trace_file(&self, id: Ulid) -> PathBuf {
        self.path().join("traces").join(id.to_string()).join("events.jsonl")
    }

    /// What the verifier says of the log, on the disk that was opened last.
    #[must_use]
    pub fn verify_log(&self) -> VerificationReport {
        let source = FileSource::in_home(&self.path(), self.path().join("log/events.jsonl"));
        verify_log(&source, &options(&[self.root], Profile::STRICT)).unwrap()
    }

    /// What the verifier says of a trace, on the disk that was opened last.
    #[must_use]
    pub fn verify(&self, id: Ulid) -> VerificationReport {
        let source = FileSource::in_home(&self.path(), self.trace_file(id));
        verify(&source, &options(&[self.root], Profile::STRICT)).unwrap()
    }

    /// The log on the disk that was opened last, read once for many traces, and what the verifier
    /// says of it.
    #[must_use]
    pub fn known_log(&self) -> (KnownLog, VerificationReport) {
        // As whoever reads a trace finds it; which one does not matter.
        let source = FileSource::in_home(&self.path(), self.path().join("traces/any"));
        let known = KnownLog::read(&source, Profile::STRICT).unwrap().unwrap();
        let report = known.report(&options(&[self.root], Profile::STRICT));
        (known, report)
    }

    /// As [`SimHome::verify`], with a log that was read before.
    #[must_use]
    pub fn verify_with(&self, log: &KnownLog, id: Ulid) -> VerificationReport {
        let source = FileSource::in_home(&self.path(), self.trace_file(id));
        log.verify(&source, &options(&[self.root], Profile::STRICT)).unwrap()
    }

    /// The traces that have a whole line, on the disk that was opened last.
    #[must_use]
    pub fn traces(&self) -> Vec<Ulid> {
        let Ok(dirs) = std::fs::read_dir(self.path().join("traces")) else { return Vec::new() };
        let ids = dirs.filter_map(|dir| dir.unwrap().file_name().to_str()?.parse().ok());
        ids.filter(|id| has_a_line(&self.trace_file(*id))).collect()
    }

    /// The ids of a trace's events, on the disk that was opened last.
    #[must_use]
    pub fn event_ids(&self, id: Ulid) -> Vec<String> {
        let mut ids = Vec::new();
        let _ =
            each_event(&self.trace_file(id), LedgerId::Trace(id), |event| ids.push(event.event_id));
        ids
    }
}

fn has_a_line(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.contains(&b'\n'))
}

impl Default for SimHome {
    fn default() -> Self {
        Self::new()
    }
}
