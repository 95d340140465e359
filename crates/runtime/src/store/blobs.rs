//! Artifacts on files: stored in `artifacts/new`, which makes them durable, and found in their places.
//!
//! How they get from the one to the other is told in `fresh`. Whatever is in its place is durable, so
//! finding it there is all that it takes to have stored it.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::Ordering;

use countersign_format::hash::Hash;
use sha2::{Digest as _, Sha256};

use super::file::{FileStore, Inner};
use super::fresh::Temp;
use super::lines::CHUNK_BYTES;
use super::{Blobs, StoreError};
use crate::disk::{Access, DiskError, DiskFile, Kind, Op};

impl Blobs for FileStore {
    fn put(&self, bytes: &[u8]) -> Result<Hash, StoreError> {
        let hash = Hash::of(bytes);
        self.put_hashed(&[(hash, bytes)])?;
        Ok(hash)
    }

    fn put_all(&self, all: &[&[u8]]) -> Result<Vec<Hash>, StoreError> {
        let all: Vec<_> = all.iter().map(|bytes| (Hash::of(bytes), *bytes)).collect();
        self.put_hashed(&all)?;
        Ok(all.into_iter().map(|(hash, _)| hash).collect())
    }

    fn put_reader(&self, from: &mut dyn Read, max: u64) -> Result<(Hash, u64), StoreError> {
        self.inner.check_poison()?;
        let temp = Temp::create(&self.inner)?;
        let mut hasher = Sha256::new();
        let mut room = vec![0; CHUNK_BYTES];
        let mut len = 0u64;
        loop {
            let got = match from.read(&mut room) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                got => got.map_err(StoreError::Copy)?,
            };
            let piece = room.get(..got).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            if len + piece.len() as u64 > max {
                return Err(StoreError::TooLarge { max });
            }
            temp.file.write_all_at(len, piece)?;
            hasher.update(piece);
            len += piece.len() as u64;
        }
        let hash = Hash::from_bytes(hasher.finalize().into());
        if let Lacking::Yes { in_place } = self.inner.lacks(&hash)? {
            self.inner.keep_temp(temp, hash, in_place)?;
        }
        Ok((hash, len))
    }

    fn get(&self, hash: &Hash, max: u64) -> Result<Vec<u8>, StoreError> {
        let file = self.inner.open_blob(hash)?;
        let len = file.stat()?.len;
        if len > max {
            return Err(StoreError::TooLarge { max });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        copy_verified(&*file, hash, max, &mut bytes)?;
        Ok(bytes)
    }

    fn copy_to(&self, hash: &Hash, to: &mut dyn Write) -> Result<u64, StoreError> {
        let file = self.inner.open_blob(hash)?;
        copy_verified(&*file, hash, u64::MAX, to)
    }

    fn stat(&self, hash: &Hash) -> Result<Option<u64>, StoreError> {
        let (_, place) = self.inner.blob_place(hash);
        let fresh = self.inner.fresh_path(hash);
        // In its place last, too: it may have been taken there between the first look and the second.
        for path in [&place, &fresh, &place] {
            match self.inner.disk.stat(path)? {
                Some(found) if found.kind == Kind::File => return Ok(Some(found.len)),
                Some(_) => return Err(DiskError::not_a_file(path).into()),
                None => {}
            }
        }
        Ok(None)
    }

    fn remove(&self, hash: &Hash) -> Result<bool, StoreError> {
        self.inner.check_poison()?;
        let (dir, place) = self.inner.blob_place(hash);
        let _lock = self.inner.lock_names()?;
        self.inner.unsettle(hash);
        let mut removed = false;
        // Among the new ones first: nobody takes it to its place from there any more.
        for (dir, path) in [(self.inner.fresh_dir(), self.inner.fresh_path(hash)), (dir, place)] {
            match self.inner.disk.remove(&path) {
                Err(error) if error.is_missing() => {}
                done => {
                    done?;
                    removed = true;
                }
            }
            // If we die here, the artifact is gone or still there; the event says that it shall go. A
            // name that somebody else took away may still come back, so it is synced in any case.
            match self.inner.disk.sync_dir(&dir) {
                Err(error) if error.is_missing() => {}
                done => done.map_err(|error| self.inner.blob_error(error))?,
            }
        }
        Ok(removed)
    }
}

/// Whether an artifact is to be stored.
enum Lacking {
    /// It is there.
    No,
    Yes {
        in_place: InPlace,
    },
}

/// What is where an artifact is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InPlace {
    Nothing,
    /// Something else than its bytes.
    Damaged,
}

impl FileStore {
    /// Stores what is not there yet, each under the hash of its bytes.
    fn put_hashed(&self, all: &[(Hash, &[u8])]) -> Result<(), StoreError> {
        self.inner.check_poison()?;
        let mut lacking: Vec<(Hash, &[u8], InPlace)> = Vec::new();
        for (hash, bytes) in all {
            if !lacking.iter().any(|(other, ..)| other == hash)
                && let Lacking::Yes { in_place } = self.inner.lacks(hash)?
            {
                lacking.push((*hash, bytes, in_place));
            }
        }
        self.inner.keep_bytes(&lacking)
    }
}

/// Whether a file holds the bytes with this hash.
pub(super) fn holds(file: &dyn DiskFile, hash: &Hash) -> Result<bool, StoreError> {
    match copy_verified(file, hash, u64::MAX, &mut std::io::sink()) {
        Ok(_) => Ok(true),
        Err(StoreError::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Copies a whole file, at most `max` bytes of it, and compares its hash.
fn copy_verified(
    file: &dyn DiskFile,
    hash: &Hash,
    max: u64,
    to: &mut dyn Write,
) -> Result<u64, StoreError> {
    let mut hasher = Sha256::new();
    let mut room = vec![0; CHUNK_BYTES];
    let mut len = 0u64;
    loop {
        let got = file.read_at(len, &mut room)?;
        let piece = room.get(..got).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        len += piece.len() as u64;
        // The file may have grown since its length was asked for.
        if len > max {
            return Err(StoreError::TooLarge { max });
        }
        hasher.update(piece);
        to.write_all(piece).map_err(StoreError::Copy)?;
    }
    let found = Hash::from_bytes(hasher.finalize().into());
    if found == *hash { Ok(len) } else { Err(StoreError::Corrupt { hash: *hash, found }) }
}

impl Inner {
    pub(super) fn check_poison(&self) -> Result<(), StoreError> {
        if self.blobs_poisoned.load(Ordering::Acquire) {
            return Err(StoreError::Poisoned { what: "the artifacts".into() });
        }
        Ok(())
    }

    /// The file of an artifact, wherever it is.
    fn open_blob(&self, hash: &Hash) -> Result<Box<dyn DiskFile>, StoreError> {
        let (_, place) = self.blob_place(hash);
        let fresh = self.fresh_path(hash);
        // In its place last, too: it may have been taken there between the first look and the second.
        for path in [&place, &fresh, &place] {
            match self.open_if_there(path)? {
                // What is not whole among the new ones was never stored.
                Some(file) if *path == fresh && !holds(&*file, hash)? => {}
                Some(file) => return Ok(file),
                None => {}
            }
        }
        Err(StoreError::Missing { hash: *hash })
    }

    pub(super) fn open_if_there(
        &self,
        path: &Path,
    ) -> Result<Option<Box<dyn DiskFile>>, DiskError> {
        match self.disk.open(path, Access::Read) {
            Err(error) if error.is_missing() => Ok(None),
            file => file.map(Some),
        }
    }

    /// Whether the artifact is not there, undamaged and durable. Damage counts as absence, so that the
    /// good bytes replace it.
    fn lacks(&self, hash: &Hash) -> Result<Lacking, StoreError> {
        let in_place = match self.open_if_there(&self.blob_place(hash).1)? {
            Some(file) if holds(&*file, hash)? => return Ok(Lacking::No),
            Some(_) => InPlace::Damaged,
            None => InPlace::Nothing,
        };
        // Whoever wrote it may have died before it was durable, or failed to make it durable: only what
        // this store has synced itself is trusted before it is in its place.
        if self.is_settled(hash)
            && let Some(fresh) = self.open_if_there(&self.fresh_path(hash))?
            && holds(&*fresh, hash)?
        {
            return Ok(Lacking::No);
        }
        Ok(Lacking::Yes { in_place })
    }

    /// Does something that needs directories; once more if one of them was removed behind our back.
    pub(super) fn again_if_missing<T>(
        &self,
        mut work: impl FnMut() -> Result<T, DiskError>,
    ) -> Result<T, StoreError> {
        let mut tried = work();
        if tried.as_ref().is_err_and(DiskError::is_missing) {
            self.forget_dirs();
            tried = work();
        }
        tried.map_err(|error| self.blob_error(error))
    }

    pub(super) fn sync_names(&self, dir: &Path) -> Result<(), StoreError> {
        self.disk.sync_dir(dir).map_err(|error| self.blob_error(error))
    }

    /// After a failed sync the system may take for written what is not.
    pub(super) fn blob_error(&self, error: DiskError) -> StoreError {
        if matches!(error.op, Op::SyncDir | Op::SyncData) {
            self.poison_blobs();
        }
        error.into()
    }
}
