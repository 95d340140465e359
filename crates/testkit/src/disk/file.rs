//! An open file on the simulated disk.

use std::io;
use std::path::PathBuf;
use std::sync::PoisonError;

use countersign_runtime::disk::{DiskError, DiskFile, Op, Stat};

use super::world::{Change, Node, World, dead};
use super::{DiskFault, ENOSPC, SimDisk};

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    pub(super) node: usize,
    pub(super) handle: u64,
    pub(super) path: PathBuf,
}

impl SimFile {
    fn write(&self, bytes: &[u8], place: impl FnOnce(usize) -> usize) -> Result<(), DiskError> {
        self.disk.run_fault(Op::Write, &self.path, |world, fault| {
            let wanted = match fault {
                DiskFault::Fail(_) => 0,
                DiskFault::ShortWrite(most, _) => bytes.len().min(most),
                _ => bytes.len(),
            };
            let room = world.room();
            let Some(Node::File { now, pending, .. }) = world.nodes.get_mut(self.node) else {
                return Err(io::ErrorKind::NotFound.into());
            };
            let at = place(now.len());
            let over = (at + wanted).saturating_sub(now.len()) as u64;
            let lacking = usize::try_from(over.saturating_sub(room)).unwrap_or(usize::MAX);
            let fits = wanted.saturating_sub(lacking);
            let change = Change::Write { at, bytes: bytes.split_at(fits).0.to_vec() };
            if fits > 0 {
                change.apply(now);
                pending.push(change);
            }
            if lacking > 0 { Err(io::Error::from_raw_os_error(ENOSPC)) } else { Ok(()) }
        })
    }

    fn release(&self, world: &mut World) {
        if let Some(Node::File { locked_by, .. }) = world.nodes.get_mut(self.node)
            && *locked_by == Some(self.handle)
        {
            *locked_by = None;
        }
    }
}

impl DiskFile for SimFile {
    fn stat(&self) -> Result<Stat, DiskError> {
        self.disk.run(Op::Stat, &self.path, |world| Ok(world.stat(self.node)))
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.disk.run(Op::Read, &self.path, |world| {
            let Some(Node::File { now, .. }) = world.nodes.get(self.node) else { return Ok(0) };
            let rest = usize::try_from(at).ok().and_then(|at| now.get(at..)).unwrap_or_default();
            let got = rest.len().min(into.len());
            into.split_at_mut(got).0.copy_from_slice(rest.split_at(got).0);
            Ok(got)
        })
    }

    fn write_all_at(&self, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.write(bytes, |_| usize::try_from(at).unwrap())
    }

    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.write(bytes, |len| len)
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        self.disk.run(Op::SetLen, &self.path, |world| {
            if let Some(Node::File { now, pending, .. }) = world.nodes.get_mut(self.node) {
                let change = Change::SetLen(usize::try_from(len).unwrap());
                change.apply(now);
                pending.push(change);
            }
            Ok(())
        })
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.disk.run_fault(Op::SyncData, &self.path, |world, fault| {
            if let Some(Node::File { durable, pending, .. }) = world.nodes.get_mut(self.node)
                && fault != DiskFault::Lie
            {
                for change in pending.drain(..) {
                    if matches!(fault, DiskFault::None | DiskFault::FailAfter(_)) {
                        change.apply(durable);
                    }
                }
            }
            Ok(())
        })
    }

    fn lock_exclusive(&self) -> Result<(), DiskError> {
        self.disk.run(Op::Lock, &self.path, |_| Ok(()))?;
        let mut world = self.disk.world();
        loop {
            if world.dead {
                return Err(DiskError::new(Op::Lock, &self.path, dead()));
            }
            if let Some(Node::File { locked_by, .. }) = world.nodes.get_mut(self.node)
                && locked_by.is_none_or(|owner| owner == self.handle)
            {
                *locked_by = Some(self.handle);
                return Ok(());
            }
            world = self.disk.shared.unlocked.wait(world).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn unlock(&self) -> Result<(), DiskError> {
        self.disk.run(Op::Unlock, &self.path, |world| {
            self.release(world);
            Ok(())
        })
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.release(&mut self.disk.world());
        self.disk.shared.unlocked.notify_all();
    }
}
