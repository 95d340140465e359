//! Artifacts on files: written beside their place, synced, renamed, and the name synced.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::Ordering;

use countersign_format::hash::Hash;
use sha2::{Digest as _, Sha256};

use super::file::{FileStore, Inner};
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
        if !self.inner.has_good(&hash)? {
            keep(&self.inner, vec![(temp, hash)])?;
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
        let (_, path) = self.inner.blob_place(hash);
        match self.inner.disk.stat(&path)? {
            Some(found) if found.kind == Kind::File => Ok(Some(found.len)),
            Some(_) => Err(DiskError::not_a_file(&path).into()),
            None => Ok(None),
        }
    }

    fn remove(&self, hash: &Hash) -> Result<bool, StoreError> {
        self.inner.check_poison()?;
        let (dir, path) = self.inner.blob_place(hash);
        self.inner.unsettle(hash);
        match self.inner.disk.remove(&path) {
            Err(error) if error.is_missing() => return Ok(false),
            done => done?,
        }
        // If we die here, the artifact is gone or still there; the event says that it shall go.
        self.inner.sync_names(&dir)?;
        Ok(true)
    }
}

impl FileStore {
    /// Stores what is not there yet, each under the hash of its bytes.
    fn put_hashed(&self, all: &[(Hash, &[u8])]) -> Result<(), StoreError> {
        self.inner.check_poison()?;
        let mut temps: Vec<(Temp<'_>, Hash)> = Vec::new();
        for (hash, bytes) in all {
            if temps.iter().any(|(_, other)| other == hash) || self.inner.has_good(hash)? {
                continue;
            }
            let temp = Temp::create(&self.inner)?;
            temp.file.write_all_at(0, bytes)?;
            temps.push((temp, *hash));
        }
        keep(&self.inner, temps)
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
    fn check_poison(&self) -> Result<(), StoreError> {
        if self.blobs_poisoned.load(Ordering::Acquire) {
            return Err(StoreError::Poisoned { what: "the artifacts".into() });
        }
        Ok(())
    }

    fn open_blob(&self, hash: &Hash) -> Result<Box<dyn DiskFile>, StoreError> {
        match self.disk.open(&self.blob_place(hash).1, Access::Read) {
            Err(error) if error.is_missing() => Err(StoreError::Missing { hash: *hash }),
            file => Ok(file?),
        }
    }

    /// Whether the artifact is there, undamaged and durable. Damage counts as absence, so that the
    /// good bytes replace it.
    fn has_good(&self, hash: &Hash) -> Result<bool, StoreError> {
        let copied = self
            .open_blob(hash)
            .and_then(|file| copy_verified(&*file, hash, u64::MAX, &mut std::io::sink()));
        match copied {
            Ok(_) => {}
            Err(StoreError::Missing { .. } | StoreError::Corrupt { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        // Its writer synced the bytes before they got their name, but may have died, or not yet
        // come to, syncing the name.
        if !self.is_settled(hash) {
            self.sync_names(&self.blob_place(hash).0)?;
            self.settle(*hash);
        }
        Ok(true)
    }

    /// Does something that needs directories; once more if one of them was removed behind our back.
    fn again_if_missing<T>(
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

    fn sync_names(&self, dir: &Path) -> Result<(), StoreError> {
        self.disk.sync_dir(dir).map_err(|error| self.blob_error(error))
    }

    /// After a failed sync the system may take for written what is not.
    fn blob_error(&self, error: DiskError) -> StoreError {
        if matches!(error.op, Op::SyncDir | Op::SyncData) {
            self.poison_blobs();
        }
        error.into()
    }
}

/// A file that has no name of its own yet, and is removed unless it gets one.
struct Temp<'a> {
    inner: &'a Inner,
    path: std::path::PathBuf,
    file: Box<dyn DiskFile>,
    named: bool,
}

impl<'a> Temp<'a> {
    fn create(inner: &'a Inner) -> Result<Self, StoreError> {
        let create = || {
            inner.ensure_temp_dir()?;
            crate::disk::create_temp(&*inner.disk, &inner.temp_dir())
        };
        let (path, file) = inner.again_if_missing(create)?;
        Ok(Self { inner, path, file, named: false })
    }
}

/// Makes the contents durable, then gives them their names, then makes the names durable.
///
/// Directories are made before the contents are synced, and their names synced after them: where a
/// file system writes one journal, the first sync does the work of those that follow.
fn keep(inner: &Inner, temps: Vec<(Temp<'_>, Hash)>) -> Result<(), StoreError> {
    let mut made = Vec::new();
    for (_, hash) in &temps {
        let (dir, _) = inner.blob_place(hash);
        let more = inner.again_if_missing(|| inner.make_dir(&dir))?;
        // What two of them need is made once, and stands where the first of them needs it.
        made.extend(more.into_iter().filter(|path| !made.contains(path)).collect::<Vec<_>>());
    }
    for (temp, _) in &temps {
        temp.file.sync_data().map_err(|error| inner.blob_error(error))?;
    }
    // If we die here, files without names of their own are left; `remove_leftovers` finds them.
    inner.settle_dirs(made).map_err(|error| inner.blob_error(error))?;
    let mut dirs = Vec::new();
    let mut named = Vec::new();
    for (mut temp, hash) in temps {
        let (dir, path) = inner.blob_place(&hash);
        inner.again_if_missing(|| {
            inner.ensure_dir(&dir).and_then(|()| inner.disk.rename(&temp.path, &path))
        })?;
        temp.named = true;
        named.push(hash);
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    // If we die here, each artifact is there whole, or not at all.
    dirs.iter().try_for_each(|dir| inner.sync_names(dir))?;
    named.into_iter().for_each(|hash| inner.settle(hash));
    Ok(())
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.named {
            // It may be left behind; nobody takes it for an artifact.
            let _ = self.inner.disk.remove(&self.path);
        }
    }
}
