//! Artifacts that are new: how they become durable at once, and get to their places later.
//!
//! An artifact's place is in two directories of its own, most of the time, which would have to be made
//! and synced for each. So it is stored in `artifacts/new` under its hash, where one sync of the file
//! and one of the directory make it durable; then its place becomes one more name of it. Once in a
//! while the names of all places are synced together, and those in `new` are taken away.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_format::hash::Hash;

use super::blobs::{InPlace, holds};
use super::file::{FileStore, Inner, lock, not_a_directory};
use super::lines::CHUNK_BYTES;
use super::{Aside, StoreError};
use crate::disk::{Access, DiskError, DiskFile, Kind, create_temp, read_full};

/// Artifacts that may wait for their places.
const WAITING_MAX: usize = 256;
/// As many are worth taking there. Each takes directories of its own, most of the time, and whoever
/// syncs anything at the same moment waits for those as well.
const WAITING_MANY: usize = 64;

/// Places that are made durable together.
const PORTION: usize = 1_024;
/// As many places are made durable by one caller, who has something else to do.
const SETTLED_MAX: u64 = 4 * PORTION as u64;

/// What waits for its place.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    hashes: Vec<Hash>,
    /// Whether the owner of the store says when.
    told: bool,
}

impl FileStore {
    /// From now on artifacts get to their places when [`FileStore::place_if_many`] is called, when too
    /// many wait for it, or in the end. For those whom somebody waits for, and who have time once they
    /// have answered.
    pub fn place_when_told(&self) {
        lock(&self.inner.waiting).told = true;
    }

    /// From now on the contents of new artifacts and their names are made durable at once, by two
    /// threads; where the system gives no second one, one after the other, as before. For those whom
    /// nobody else's artifacts are in the way of.
    pub fn sync_aside(&self) {
        if self.inner.aside.get().is_none()
            && let Some(aside) = Aside::begin()
        {
            let _ = self.inner.aside.set(aside);
        }
    }

    /// Whether many wait for their places.
    #[must_use]
    pub fn many_wait(&self) -> bool {
        lock(&self.inner.waiting).hashes.len() >= WAITING_MANY
    }

    /// Takes what was stored to its place, if that is worth it. It is durable before, and found before;
    /// where it cannot be taken there, it stays where it is.
    pub fn place_if_many(&self) {
        if self.many_wait() {
            self.inner.place_all();
        }
    }

    /// Makes the places of new artifacts durable, of some thousands at most.
    ///
    /// # Errors
    /// The disk failed; the artifacts are still where they were.
    pub fn settle_some_places(&self) -> Result<u64, StoreError> {
        self.inner.settle_places(SETTLED_MAX)
    }

    /// Makes the places of all new artifacts durable, and says how many there were.
    ///
    /// # Errors
    /// The disk failed; the artifacts are still where they were.
    pub fn settle_places(&self) -> Result<u64, StoreError> {
        self.inner.settle_places(u64::MAX)
    }
}

impl Inner {
    /// Stores bytes under their hashes. When it returns, they survive power loss.
    pub(super) fn keep_bytes(&self, all: &[(Hash, &[u8], InPlace)]) -> Result<(), StoreError> {
        if all.is_empty() {
            return Ok(());
        }
        let mut written = Vec::new();
        for (hash, bytes, _) in all {
            let file = self.write_fresh(hash, bytes)?;
            file.start_sync(0, bytes.len());
            written.push(file);
        }
        // If we die here, each of them is there or not, whole or not; nobody was told. While the names
        // are made durable, the disk is at the bytes.
        let names = || self.sync_names(&self.fresh_dir());
        let contents = match self.aside.get() {
            Some(aside) => {
                let (contents, names) = aside.both(move || sync_contents(&written), names);
                names?;
                contents
            }
            None => {
                names()?;
                sync_contents(&written)
            }
        };
        contents.map_err(|error| self.blob_error(error))?;
        all.iter().for_each(|(hash, ..)| self.settle(*hash));
        let waits: Vec<_> = all.iter().map(|(hash, _, in_place)| (*hash, *in_place)).collect();
        self.await_place(&waits)
    }

    /// Stores what was written to a file without a name. When it returns, it survives power loss.
    pub(super) fn keep_temp(
        &self,
        temp: Temp<'_>,
        hash: Hash,
        in_place: InPlace,
    ) -> Result<(), StoreError> {
        drop(self.name_fresh(temp, &hash)?);
        self.sync_names(&self.fresh_dir())?;
        self.settle(hash);
        self.await_place(&[(hash, in_place)])
    }

    /// A new file with these bytes, not durable yet.
    fn write_fresh(&self, hash: &Hash, bytes: &[u8]) -> Result<Box<dyn DiskFile>, StoreError> {
        let path = self.fresh_path(hash);
        let opened = self.in_fresh_dir(|| match self.disk.open(&path, Access::CreateNew) {
            Err(error) if error.is_taken() => Ok(None),
            file => file.map(Some),
        })?;
        // It stays even if it does not get whole: by then the name may be another writer's, who found
        // it torn, put the same bytes there, and told somebody so.
        if let Some(file) = opened {
            file.write_all_at(0, bytes)?;
            return Ok(file);
        }
        // Somebody writes the same at this moment, or died over it: what stands there is not whole.
        let temp = Temp::create(self)?;
        temp.file.write_all_at(0, bytes)?;
        self.name_fresh(temp, hash)
    }

    /// Gives a file its name among the new ones, once its bytes are durable.
    fn name_fresh(&self, temp: Temp<'_>, hash: &Hash) -> Result<Box<dyn DiskFile>, StoreError> {
        let Temp { mut name, file } = temp;
        file.sync_data().map_err(|error| self.blob_error(error))?;
        let path = self.fresh_path(hash);
        self.in_fresh_dir(|| self.disk.rename(&name.path, &path))?;
        name.kept = true;
        Ok(file)
    }

    fn in_fresh_dir<T>(
        &self,
        mut work: impl FnMut() -> Result<T, DiskError>,
    ) -> Result<T, StoreError> {
        let dir = self.fresh_dir();
        self.again_if_missing(|| self.ensure_dir(&dir).and_then(|()| work()))
    }

    /// Notes artifacts that are durable and not in their places yet. Where something else is in a
    /// place, it is replaced at once: that is where everybody looks first.
    fn await_place(&self, all: &[(Hash, InPlace)]) -> Result<(), StoreError> {
        for (hash, _) in all.iter().filter(|(_, in_place)| *in_place == InPlace::Damaged) {
            match self.place_one(hash) {
                // Somebody else has taken it there meanwhile.
                Err(_) if self.stands_in_place(hash) => {}
                placed => placed?,
            }
        }
        let mut waiting = lock(&self.waiting);
        waiting.hashes.extend(all.iter().map(|(hash, _)| *hash));
        let later = waiting.told && waiting.hashes.len() < WAITING_MAX;
        drop(waiting);
        if !later {
            self.place_all();
        }
        Ok(())
    }

    pub(super) fn place_all(&self) {
        let hashes = std::mem::take(&mut lock(&self.waiting).hashes);
        let mut settles = false;
        for hash in hashes {
            // It stays among the new ones, where everybody looks too.
            let _ = self.place_one(&hash);
            // One in so many, whichever process it comes from: nobody has to count.
            settles |= hash.as_bytes().first() == Some(&0);
        }
        // One thread is enough: under load more would only wait for it, each with a file open.
        if settles && !self.settling.swap(true, Ordering::AcqRel) {
            let _done = Settling(&self.settling);
            // What is not settled now is settled next time.
            let _ = self.settle_places(SETTLED_MAX);
        }
    }

    /// Gives a new artifact, which is durable, its place as one more name.
    fn place_one(&self, hash: &Hash) -> Result<(), StoreError> {
        let (dir, place) = self.blob_place(hash);
        let fresh = self.fresh_path(hash);
        let linked = match self.disk.link(&fresh, &place) {
            Err(error) if error.is_missing() => {
                self.make_place(&dir)?;
                self.disk.link(&fresh, &place)
            }
            linked => linked,
        };
        match linked {
            Ok(()) => Ok(()),
            Err(error) if error.is_taken() => match self.open_if_there(&place)? {
                Some(file) if holds(&*file, hash)? => Ok(()),
                // Damaged since: the good bytes take its place.
                Some(_) => self.copy_to_place(hash, &dir, &place),
                None => Err(error.into()),
            },
            Err(error) if error.is_missing() => Err(error.into()),
            // Not every file system gives a file two names.
            Err(_) => self.copy_to_place(hash, &dir, &place),
        }
    }

    fn stands_in_place(&self, hash: &Hash) -> bool {
        let (_, place) = self.blob_place(hash);
        let found = self.open_if_there(&place);
        found.is_ok_and(|file| file.is_some_and(|file| holds(&*file, hash).unwrap_or(false)))
    }

    /// Puts a durable copy of a new artifact into its place, whatever is there.
    fn copy_to_place(&self, hash: &Hash, dir: &Path, place: &Path) -> Result<(), StoreError> {
        let fresh = self.disk.open(&self.fresh_path(hash), Access::Read)?;
        self.make_place(dir)?;
        let Temp { mut name, file } = Temp::create(self)?;
        let mut room = vec![0; CHUNK_BYTES];
        let mut at = 0;
        loop {
            let got = read_full(&*fresh, at, &mut room)?;
            let piece = room.get(..got).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            file.write_all_at(at, piece)?;
            at += piece.len() as u64;
        }
        if !holds(&*file, hash)? {
            return Err(StoreError::Missing { hash: *hash });
        }
        file.sync_data().map_err(|error| self.blob_error(error))?;
        self.disk.rename(&name.path, place)?;
        name.kept = true;
        self.sync_names(dir)
    }

    /// Makes the directory of a place, and those above it, without making their names durable.
    fn make_place(&self, dir: &Path) -> Result<(), DiskError> {
        match self.disk.stat(dir)? {
            Some(found) if found.kind == Kind::Dir => return Ok(()),
            Some(_) => return Err(not_a_directory(dir)),
            None => {}
        }
        if let Some(above) = dir.parent().filter(|above| *above != self.home()) {
            self.make_place(above)?;
        }
        match self.disk.create_dir(dir) {
            Err(error) if !error.is_taken() => Err(error),
            _ => Ok(()),
        }
    }

    /// Held by whoever takes names of artifacts away, so that nobody takes away another's.
    pub(super) fn lock_names(&self) -> Result<Box<dyn DiskFile>, StoreError> {
        let path = self.home().join("artifacts").join("lock");
        let file = self.in_fresh_dir(|| self.disk.open(&path, Access::Create))?;
        file.lock_exclusive()?;
        Ok(file)
    }

    /// Hands new artifacts to `work`, a portion at a time, until it has settled so many: as many as
    /// came under load would take much room at once.
    fn by_portions(
        &self,
        most: u64,
        mut work: impl FnMut(&[Hash]) -> Result<u64, StoreError>,
    ) -> Result<u64, StoreError> {
        let mut portion = Vec::with_capacity(PORTION);
        let mut settled = Ok(0);
        let mut visit = |portion: &mut Vec<Hash>| {
            if let Ok(before) = settled {
                settled = work(portion).map(|some| before + some);
            }
            portion.clear();
            if settled.as_ref().is_ok_and(|&settled| settled < most) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        self.disk.visit(&self.fresh_dir(), &mut |name| {
            portion.extend(name.to_str().and_then(|name| name.parse::<Hash>().ok()));
            if portion.len() < PORTION { ControlFlow::Continue(()) } else { visit(&mut portion) }
        })?;
        if !portion.is_empty() {
            let _ = visit(&mut portion);
        }
        settled
    }

    pub(super) fn settle_places(&self, most: u64) -> Result<u64, StoreError> {
        self.check_poison()?;
        match self.disk.first_entry(&self.fresh_dir()) {
            Ok(None) => return Ok(0),
            Err(error) if error.is_missing() => return Ok(0),
            Ok(Some(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let _lock = self.lock_names()?;
        self.by_portions(most, |portion| self.settle_portion(portion))
    }

    fn settle_portion(&self, hashes: &[Hash]) -> Result<u64, StoreError> {
        let mut whole = Vec::new();
        for hash in hashes {
            // One that is not whole is being written, or was left by somebody who died over it. One
            // that cannot be read is nobody's to settle, and no reason to leave the others.
            let Ok(Some(file)) = self.open_if_there(&self.fresh_path(hash)) else { continue };
            if holds(&*file, hash).unwrap_or(false) {
                file.sync_data().map_err(|error| self.blob_error(error))?;
                whole.push(*hash);
            }
        }
        // Whoever wrote one of them may have died before its name was durable; and once it is in its
        // place, others take it for stored.
        self.sync_names(&self.fresh_dir())?;
        let mut dirs: BTreeSet<PathBuf> = BTreeSet::new();
        whole.retain(|hash| self.place_one(hash).is_ok());
        for hash in &whole {
            let (dir, _) = self.blob_place(hash);
            let above = dir.ancestors().take_while(|it| *it != self.home());
            dirs.extend(above.map(Path::to_owned));
        }
        for dir in &dirs {
            self.sync_names(dir)?;
        }
        // If we die here, they have two names each, both durable.
        for hash in &whole {
            match self.disk.remove(&self.fresh_path(hash)) {
                Err(error) if !error.is_missing() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(whole.len() as u64)
    }
}

/// Says that nobody makes places durable, also when that panics.
struct Settling<'a>(&'a AtomicBool);

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.place_all();
    }
}

/// Makes contents durable that were written to new files.
fn sync_contents(written: &[Box<dyn DiskFile>]) -> Result<(), DiskError> {
    for file in written {
        file.sync_data().inspect_err(|_| {
            // The system may take the bytes for written. Nobody is to find them whole.
            let _ = file.set_len(0);
        })?;
    }
    Ok(())
}

/// A file that is not kept yet, and is removed unless it is.
pub(super) struct Temp<'a> {
    name: TempName<'a>,
    pub(super) file: Box<dyn DiskFile>,
}

/// The name of such a file.
struct TempName<'a> {
    inner: &'a Inner,
    path: PathBuf,
    kept: bool,
}

impl<'a> Temp<'a> {
    pub(super) fn create(inner: &'a Inner) -> Result<Self, StoreError> {
        let create = || {
            inner.ensure_temp_dir()?;
            create_temp(&*inner.disk, &inner.temp_dir())
        };
        let (path, file) = inner.again_if_missing(create)?;
        Ok(Self { name: TempName { inner, path, kept: false }, file })
    }
}

impl Drop for TempName<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // It may be left behind; nobody takes it for an artifact.
            let _ = self.inner.disk.remove(&self.path);
        }
    }
}
