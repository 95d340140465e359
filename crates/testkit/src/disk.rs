//! A disk in memory that can lose power, fail and fill up, all of it repeatable.
//!
//! It models a page cache: contents and names are visible at once, and durable only once synced.
//! [`SimDisk::lose_power`] gives the disk as it may be found afterwards; [`SimDisk::script`] says
//! which operation fails, and how. Names in a directory are kept or lost in order; the sectors of
//! unsynced writes in any order.

mod careless;
mod crash;
mod file;
mod mirror;
mod world;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use countersign_runtime::disk::{Access, Disk, DiskError, DiskFile, Op, Stat};

pub use careless::{CarelessDisk, Omits};
use file::SimFile;
pub use mirror::MirroredDisk;
use world::{NameChange, Node, World};

/// Interrupted by a signal.
pub const EINTR: i32 = 4;
/// Not permitted, or not here.
pub const EPERM: i32 = 1;
/// Input or output error.
pub const EIO: i32 = 5;
/// No space left on the device.
pub const ENOSPC: i32 = 28;
/// The quota is used up.
pub const EDQUOT: i32 = 122;

/// What happens to one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// It is done.
    None,
    /// It fails, and has no effect. A sync that fails leaves the contents readable and forgets that
    /// they are not on disk, as Linux does: no later sync makes them durable. Names stay to be
    /// synced: file systems with a journal stop rather than forget.
    Fail(i32),
    /// It is done, and reported as failed.
    FailAfter(i32),
    /// A write writes so many bytes and fails; another operation only fails.
    ShortWrite(usize, i32),
    /// A sync is reported as done, and is not; another operation is done.
    Lie,
    /// It has no effect, and it and everything after it fail: the process is dead.
    Die,
}

/// Decides about an operation on a path, given its number; the first is 1.
pub type Script = Box<dyn FnMut(Op, &Path, u64) -> DiskFault + Send>;

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    shared: Arc<Shared>,
}

struct Shared {
    world: Mutex<World>,
    unlocked: Condvar,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").field("operations", &self.operations()).finish_non_exhaustive()
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::of(World::default())
    }
}

impl SimDisk {
    /// A disk with nothing but its root directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn of(world: World) -> Self {
        Self { shared: Arc::new(Shared { world: Mutex::new(world), unlocked: Condvar::new() }) }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `script` decide about every operation from now on, counting from 1.
    pub fn script(&self, script: impl FnMut(Op, &Path, u64) -> DiskFault + Send + 'static) {
        let mut world = self.world();
        world.operations = 0;
        world.script = Some(Box::new(script));
    }

    /// How many operations there were since the script was set.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.world().operations
    }

    /// Lets contents have at most so many bytes in all.
    pub fn limit(&self, bytes: u64) {
        self.world().capacity = Some(bytes);
    }

    /// The same disk under a new process: nothing is lost, no lock is held, nothing fails. Files
    /// that the old process has open stay dead.
    #[must_use]
    pub fn restart(&self) -> Self {
        Self::of(self.world().restarted())
    }

    /// The disk as it may be found after power loss: everything that was synced is there; of the
    /// rest, `seed` decides.
    #[must_use]
    pub fn lose_power(&self, seed: u64) -> Self {
        Self::of(crash::after_power_loss(&self.world(), seed))
    }

    /// What a file holds, synced or not.
    #[must_use]
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        self.world().contents(path)
    }

    /// Changes what a file holds, durably and behind everyone's back.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        self.world().damage(path, change);
    }

    /// Puts something that is neither file nor directory at `path`, durably.
    pub fn plant_other(&self, path: &Path) {
        self.world().plant_other(path);
    }

    /// Does an operation, unless the script says otherwise.
    fn run<T>(
        &self,
        op: Op,
        path: &Path,
        effect: impl FnOnce(&mut World) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        self.run_fault(op, path, |world, fault| match fault {
            DiskFault::Fail(code) | DiskFault::ShortWrite(_, code) => {
                Err(io::Error::from_raw_os_error(code))
            }
            _ => effect(world),
        })
    }

    /// Does an operation whose effect depends on the fault. The error that the fault asks for is
    /// returned whatever the effect was.
    fn run_fault<T>(
        &self,
        op: Op,
        path: &Path,
        effect: impl FnOnce(&mut World, DiskFault) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        let mut world = self.world();
        let done = match world.decide(op, path) {
            Err(dead) => Err(dead),
            Ok(fault) => {
                let done = effect(&mut world, fault);
                match fault {
                    DiskFault::None | DiskFault::Lie | DiskFault::Die => done,
                    DiskFault::Fail(code)
                    | DiskFault::FailAfter(code)
                    | DiskFault::ShortWrite(_, code) => Err(io::Error::from_raw_os_error(code)),
                }
            }
        };
        drop(world);
        // Whoever waits for a lock is to notice that it was released, or that the process died.
        self.shared.unlocked.notify_all();
        done.map_err(|error| DiskError::new(op, path, error))
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>, DiskError> {
        let opened = self.run(Op::Open, path, |world| {
            let (dir, name) = world.place(path)?;
            match world.entry(dir, &name) {
                Some(_) if access == Access::CreateNew => Err(io::ErrorKind::AlreadyExists.into()),
                Some(node) => Ok(world.is_file(node).then_some((node, world.new_handle()))),
                None if matches!(access, Access::Read | Access::Write) => Err(missing()),
                None => {
                    let node = world.add(Node::file());
                    world.change(dir, NameChange::Set(name, node));
                    Ok(Some((node, world.new_handle())))
                }
            }
        })?;
        let (node, handle) = opened.ok_or_else(|| DiskError::not_a_file(path))?;
        Ok(Box::new(SimFile { disk: self.clone(), node, handle, path: path.to_owned() }))
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.run(Op::CreateDir, path, |world| {
            let (dir, name) = world.place(path)?;
            if world.entry(dir, &name).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let node = world.add(Node::dir());
            world.change(dir, NameChange::Set(name, node));
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.run(Op::Rename, to, |world| {
            let (from_dir, from_name) = world.place(from)?;
            let (to_dir, to_name) = world.place(to)?;
            let node = world.entry(from_dir, &from_name).ok_or_else(missing)?;
            if world.entry(to_dir, &to_name).is_some_and(|old| !world.is_file(old)) {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if from_dir == to_dir {
                world.change(to_dir, NameChange::Move(from_name, to_name, node));
            } else {
                world.change(to_dir, NameChange::Set(to_name, node));
                world.change(from_dir, NameChange::Unset(from_name));
            }
            Ok(())
        })
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.run(Op::Link, to, |world| {
            let (from_dir, from_name) = world.place(from)?;
            let (to_dir, to_name) = world.place(to)?;
            let node = world.entry(from_dir, &from_name).ok_or_else(missing)?;
            if world.entry(to_dir, &to_name).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            world.change(to_dir, NameChange::Set(to_name, node));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        self.run(Op::Remove, path, |world| {
            let (dir, name) = world.place(path)?;
            world.entry(dir, &name).ok_or_else(missing)?;
            world.change(dir, NameChange::Unset(name));
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> Result<Vec<OsString>, DiskError> {
        self.run(Op::List, path, |world| {
            let dir = world.find_dir(path)?;
            Ok(world.names(dir))
        })
    }

    fn visit(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(OsString) -> ControlFlow<()>,
    ) -> Result<(), DiskError> {
        // One after the other until somebody breaks off.
        let _ = self.list(path)?.into_iter().try_for_each(visit);
        Ok(())
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>, DiskError> {
        self.run(Op::Stat, path, |world| match world.place(path) {
            Ok((dir, name)) => Ok(world.entry(dir, &name).map(|node| world.stat(node))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.run_fault(Op::SyncDir, path, |world, fault| {
            let dir = world.find_dir(path)?;
            if matches!(fault, DiskFault::None | DiskFault::FailAfter(_)) {
                world.sync_names(dir);
            }
            Ok(())
        })
    }
}

/// Where a test keeps its store on a simulated disk.
#[must_use]
pub fn sim_home() -> PathBuf {
    PathBuf::from("/home")
}
