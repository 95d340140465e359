//! A machine whose processes die alone, or all at once when it loses power.
//!
//! Every process has the same disk and the same clock, and a fuse of its own: a number of operations
//! after which it is dead, in the middle of a write or before anything else.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use countersign_format::time::Timestamp;
use countersign_runtime::clock::Clock;
use countersign_runtime::disk::{Access, Disk, DiskError, DiskFile, Op, Stat};
use countersign_runtime::{Environment, Workspace, WorkspaceError};

use super::Twin;
use crate::clock::{FakeClock, SeededEntropy};
use crate::disk::{MirroredDisk, SimDisk};
use crate::sim::SimHome;

/// How far ahead the clock of a process is that does not take the machine's.
const AHEAD_MILLIS: i64 = 60 * 60 * 1_000;

/// Operations that are left.
#[derive(Debug)]
pub(super) struct Fuse(AtomicU64);

impl Fuse {
    fn endless() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(u64::MAX)))
    }

    /// From now on only so many operations are left.
    pub(super) fn light(&self, operations: u64) {
        self.0.store(operations, Ordering::Relaxed);
    }

    /// Nothing happens any more by itself, unless it has burnt down.
    pub(super) fn put_out(&self) {
        if !self.is_burnt() {
            self.0.store(u64::MAX, Ordering::Relaxed);
        }
    }

    pub(super) fn is_burnt(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// One operation less; whether this is the last one, which is not done or only in part.
    fn burn(&self) -> Burn {
        match self.0.load(Ordering::Relaxed) {
            0 => Burn::Dead,
            u64::MAX => Burn::Alive,
            left => {
                self.0.store(left - 1, Ordering::Relaxed);
                if left == 1 { Burn::Last } else { Burn::Alive }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Burn {
    Alive,
    Last,
    Dead,
}

/// What all processes share.
#[derive(Debug)]
pub(super) struct Machine<'h> {
    home: &'h SimHome,
    twin: Option<Twin>,
    disk: SimDisk,
    mirror: MirroredDisk,
    power: Arc<Fuse>,
    clock: Arc<FakeClock>,
    started: u64,
    seed: u64,
}

impl<'h> Machine<'h> {
    pub(super) fn new(home: &'h SimHome, seed: u64, twin: Option<Twin>) -> Self {
        let disk = home.disk();
        let mirror = home.mirrored(&disk);
        let clock = Arc::new(FakeClock::new());
        Self { home, twin, disk, mirror, power: Fuse::endless(), clock, started: 0, seed }
    }

    pub(super) fn clock(&self) -> &FakeClock {
        &self.clock
    }

    /// What all operations of all processes burn.
    pub(super) fn power(&self) -> &Fuse {
        &self.power
    }

    /// Starts a process: the workspace as it has opened it, and its fuse.
    pub(super) fn start(&mut self) -> Result<(Workspace, Arc<Fuse>), WorkspaceError> {
        self.started += 1;
        let own = Fuse::endless();
        let disk = ProcessDisk {
            mirror: self.mirror.clone(),
            fuses: [Arc::clone(&self.power), Arc::clone(&own)],
            twin: self.twin,
            lengths: Arc::default(),
        };
        let clock: Arc<dyn Clock> = match self.twin {
            Some(Twin::OwnClock) if self.started.is_multiple_of(2) => {
                Arc::new(AheadClock(Arc::clone(&self.clock)))
            }
            _ => Arc::clone(&self.clock) as Arc<_>,
        };
        let entropy = self.seed.wrapping_mul(1_000_003).wrapping_add(self.started);
        let entropy = Arc::new(SeededEntropy::new(entropy));
        let environment = Environment { disk: Arc::new(disk), clock, entropy };
        Ok((self.home.open_in(environment)?, own))
    }

    /// Power is lost: everything that ran is dead, and the disk is found as `seed` decides.
    pub(super) fn lose_power(&mut self, seed: u64) {
        self.power.light(0);
        self.disk = self.disk.lose_power(seed);
        self.mirror = self.home.mirrored(&self.disk);
        self.power = Fuse::endless();
    }
}

#[derive(Debug)]
struct AheadClock(Arc<FakeClock>);

impl Clock for AheadClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.now().as_millis() + AHEAD_MILLIS)
    }
}

/// The disk as one process has it.
#[derive(Debug, Clone)]
struct ProcessDisk {
    mirror: MirroredDisk,
    fuses: [Arc<Fuse>; 2],
    twin: Option<Twin>,
    /// How long each file was when this process wrote to it last.
    lengths: Arc<Mutex<BTreeMap<PathBuf, u64>>>,
}

fn dead(op: Op, path: &Path) -> DiskError {
    DiskError::new(op, path, io::Error::other("the process is dead"))
}

impl ProcessDisk {
    fn burn(&self) -> Burn {
        let [power, own] = &self.fuses;
        power.burn().max(own.burn())
    }

    fn run<T>(
        &self,
        op: Op,
        path: &Path,
        effect: impl FnOnce(&MirroredDisk) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        match self.burn() {
            Burn::Alive => effect(&self.mirror),
            Burn::Last | Burn::Dead => Err(dead(op, path)),
        }
    }
}

impl Disk for ProcessDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>, DiskError> {
        let file = self.run(Op::Open, path, |disk| disk.open(path, access))?;
        Ok(Box::new(ProcessFile { file, disk: self.clone(), path: path.to_owned() }))
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.run(Op::CreateDir, path, |disk| disk.create_dir(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.run(Op::Rename, to, |disk| disk.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.run(Op::Link, to, |disk| disk.link(from, to))
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        self.run(Op::Remove, path, |disk| disk.remove(path))
    }

    fn list(&self, path: &Path) -> Result<Vec<OsString>, DiskError> {
        self.run(Op::List, path, |disk| disk.list(path))
    }

    fn visit(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(OsString) -> ControlFlow<()>,
    ) -> Result<(), DiskError> {
        self.run(Op::List, path, |disk| disk.visit(path, visit))
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>, DiskError> {
        self.run(Op::Stat, path, |disk| disk.stat(path))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.run(Op::SyncDir, path, |disk| disk.sync_dir(path))
    }
}

#[derive(Debug)]
struct ProcessFile {
    file: Box<dyn DiskFile>,
    disk: ProcessDisk,
    path: PathBuf,
}

impl ProcessFile {
    fn run<T>(
        &self,
        op: Op,
        effect: impl FnOnce(&dyn DiskFile) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        self.disk.run(op, &self.path, |_| effect(&*self.file))
    }

    fn remember(&self, len: u64) {
        if self.disk.twin == Some(Twin::OldHead) {
            self.disk.lengths.lock().unwrap().insert(self.path.clone(), len);
        }
    }
}

impl DiskFile for ProcessFile {
    fn stat(&self) -> Result<Stat, DiskError> {
        let found = self.run(Op::Stat, |file| file.stat())?;
        let kept = self.disk.lengths.lock().unwrap().get(&self.path).copied();
        Ok(Stat { len: kept.unwrap_or(found.len), ..found })
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.run(Op::Read, |file| file.read_at(at, into))
    }

    fn write_all_at(&self, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        match self.disk.burn() {
            Burn::Alive => {
                self.file.write_all_at(at, bytes)?;
                self.remember(at + bytes.len() as u64);
                Ok(())
            }
            Burn::Last => {
                // Killed in the middle of it: half of the bytes came through.
                self.file.write_all_at(at, bytes.split_at(bytes.len() / 2).0)?;
                Err(dead(Op::Write, &self.path))
            }
            Burn::Dead => Err(dead(Op::Write, &self.path)),
        }
    }

    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.run(Op::Write, |file| file.append(bytes))
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        self.run(Op::SetLen, |file| file.set_len(len))?;
        self.remember(len);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.run(Op::SyncData, |file| match self.disk.twin {
            Some(Twin::NoSync) => Ok(()),
            _ => file.sync_data(),
        })
    }

    fn lock_exclusive(&self) -> Result<(), DiskError> {
        self.run(Op::Lock, |file| file.lock_exclusive())
    }

    fn unlock(&self) -> Result<(), DiskError> {
        self.run(Op::Unlock, |file| file.unlock())
    }
}
