//! Small files that are replaced as a whole.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Access, Disk, DiskError, DiskFile, Op};

/// Whether a file must survive power loss once it has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It must.
    Synced,
    /// It need not: after power loss it may be the old file, the new one, or empty. For caches that
    /// carry their own proof of being whole.
    Cached,
}

/// How often a name for a temporary file is tried before giving up.
const TEMP_NAMES_MAX: u32 = 10_000;

static NEXT_TEMP: AtomicU64 = AtomicU64::new(0);

/// Replaces the file at `path`, or creates it, in a directory that exists. Readers see the old
/// bytes or the new ones, never a mixture. When it returns with [`Durability::Synced`], the new
/// bytes survive power loss, if the directory itself does.
///
/// # Errors
/// The old file is still there, unless only the last sync failed.
pub fn replace_file(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), DiskError> {
    let dir = path.parent().ok_or_else(|| DiskError::not_a_file(path))?;
    let (temp, file) = create_temp(disk, dir)?;
    let replaced = file
        .write_all_at(0, bytes)
        .and_then(|()| match durability {
            Durability::Synced => file.sync_data(),
            Durability::Cached => Ok(()),
        })
        .and_then(|()| disk.rename(&temp, path));
    if let Err(error) = replaced {
        // The name may be left behind; nothing reads names that start like this.
        let _ = disk.remove(&temp);
        return Err(error);
    }
    // If we die here, the old file or the new one is found, whole.
    match durability {
        Durability::Synced => disk.sync_dir(dir),
        Durability::Cached => Ok(()),
    }
}

/// A new file in `dir` with a name that no other writer uses.
pub(crate) fn create_temp(
    disk: &dyn Disk,
    dir: &Path,
) -> Result<(PathBuf, Box<dyn DiskFile>), DiskError> {
    let process = std::process::id();
    for _ in 0..TEMP_NAMES_MAX {
        let number = NEXT_TEMP.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!(".tmp-{process}-{number}"));
        match disk.open(&path, Access::CreateNew) {
            Ok(file) => return Ok((path, file)),
            // Left by a dead process of the same number, or made by a live one that is not in our
            // process namespace.
            Err(error) if error.is_taken() => {}
            Err(error) => return Err(error),
        }
    }
    let taken = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
    Err(DiskError::new(Op::Open, dir, taken))
}
