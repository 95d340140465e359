//! The file system as a tool sees it: read-only but for where it may write, with temporary files and
//! devices of its own, and without what is hidden.
//!
//! All of it is done in a mount namespace of its own, and none of it is seen outside.

use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};

use super::hidden::{self, Secret};
use super::mount_table::{self, Mount};
use crate::sandbox::order::Bounds;

/// Directories that a tool gets empty, and may write.
pub(super) const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// Directories with the sockets of services: through one of them, something outside would do what a
/// tool itself cannot.
const SERVICES: [&str; 2] = ["/run", "/var/run"];
/// Devices that give nothing away.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Devices of its own that a tool may write.
const OWN_DEVICES: [&str; 2] = ["/dev/shm", "/dev/pts"];
/// Where names are looked up is the one file among those of services that a network needs.
const RESOLVER: &str = "/etc/resolv.conf";

const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Something that stays visible although a directory above it is replaced.
struct Kept {
    path: PathBuf,
    held: OwnedFd,
}

/// The sockets at which services listen, as far as this process's network shows them. To be asked for
/// before another network is entered.
pub(super) fn services() -> Vec<PathBuf> {
    // Where it cannot be read there is none to be found.
    let table = fs::read("/proc/self/net/unix").unwrap_or_default();
    let mut found: Vec<_> = table.split(|&byte| byte == b'\n').filter_map(socket_of).collect();
    found.sort();
    found.dedup();
    found
}

/// The path in the eighth column, which may hold blanks. Names that are no paths belong to the
/// network.
fn socket_of(line: &[u8]) -> Option<PathBuf> {
    let start = line.windows(2).position(|pair| pair == b" /")?;
    let path = line.get(start + 1..)?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// Arranges everything. Needs a mount namespace and the right to mount in it.
pub(super) fn arrange(bounds: &Bounds, services: &[PathBuf]) -> Result<(), String> {
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    rustix::mount::mount_change("/", private).map_err(failed("detach", "/"))?;
    let kept = kept(bounds)?;
    let mut own = Vec::new();
    for (veiled, temporary) in veils(bounds) {
        veil(&veiled, &kept, bounds, temporary)?;
        if temporary {
            own.push(veiled);
        }
    }
    let mounts = bounds.writable().chain(bounds.read_only_root());
    for mount in mounts.filter(|path| !own.iter().any(|own| path.starts_with(own))) {
        bind_to_itself(mount)?;
    }
    devices(bounds)?;
    own.extend(OWN_DEVICES.map(PathBuf::from));
    for secret in hidden::secrets(bounds).map_err(|error| format!("cannot see mounts: {error}"))? {
        hide(&secret, bounds)?;
    }
    for socket in services {
        close_service(socket, bounds)?;
    }
    own.extend(bounds.writable().map(Path::to_path_buf));
    make_read_only(&own, bounds.read_only_root())
}

fn failed<E: Into<io::Error>>(doing: &str, path: impl AsRef<Path>) -> impl FnOnce(E) -> String {
    move |error| format!("cannot {doing} `{}`: {}", path.as_ref().display(), error.into())
}

fn kept(bounds: &Bounds) -> Result<Vec<Kept>, String> {
    let resolver = fs::canonicalize(RESOLVER).ok().filter(|_| bounds.network);
    let root = bounds.read_only_root().map(Path::to_path_buf);
    let paths = bounds.writable().map(Path::to_path_buf).chain(root).chain(resolver);
    paths.map(|path| Ok(Kept { held: hold(&path)?, path })).collect()
}

/// A descriptor by which a path can be bound after something else was mounted over it.
fn hold(path: &Path) -> Result<OwnedFd, String> {
    rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        .map_err(failed("open", path))
}

/// The directories that are replaced, and whether they may be written. What lies in a writable
/// directory is not replaced: it is wanted as it is.
fn veils(bounds: &Bounds) -> Vec<(PathBuf, bool)> {
    let listed = TEMPORARY.map(|path| (path, true)).into_iter();
    let listed = listed.chain(SERVICES.map(|path| (path, false)));
    let mut veils: Vec<(PathBuf, bool)> = Vec::new();
    for (path, temporary) in listed {
        let Ok(path) = fs::canonicalize(path) else { continue };
        let wanted = bounds.writable().any(|writable| path.starts_with(writable));
        let covered = veils.iter().any(|(veil, _)| path.starts_with(veil));
        if path.is_dir() && !wanted && !covered {
            veils.push((path, temporary));
        }
    }
    veils
}

/// Mounts an empty directory over `path` and brings back what is kept of it.
fn veil(path: &Path, kept: &[Kept], bounds: &Bounds, temporary: bool) -> Result<(), String> {
    let links = if temporary { Vec::new() } else { links_in(path) };
    let options = if temporary {
        format!("mode=1777{}", size_option(bounds))
    } else {
        "mode=0755,size=1m".to_owned()
    };
    mount_empty(path, PLAIN, &options)?;
    for (link, target) in links {
        let _ = symlink(target, link);
    }
    for kept in kept.iter().filter(|kept| kept.path != path && kept.path.starts_with(path)) {
        make_place(kept)?;
        let held = format!("/proc/self/fd/{}", kept.held.as_raw_fd());
        rustix::mount::mount_bind_recursive(held, &kept.path)
            .map_err(failed("bring back", &kept.path))?;
    }
    Ok(())
}

/// Links lead nowhere that could not be reached without them, and some systems keep those to all
/// their programs here.
fn links_in(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter_map(|link| fs::read_link(&link).ok().map(|target| (link, target))).collect()
}

fn make_place(kept: &Kept) -> Result<(), String> {
    let what = rustix::fs::fstat(&kept.held).map_err(failed("see", &kept.path))?;
    let is_directory = rustix::fs::FileType::from_raw_mode(what.st_mode).is_dir();
    let directory = if is_directory { Some(kept.path.as_path()) } else { kept.path.parent() };
    if let Some(directory) = directory {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(directory)
            .map_err(failed("make", directory))?;
    }
    if !is_directory {
        File::create(&kept.path).map_err(failed("make", &kept.path))?;
    }
    Ok(())
}

fn size_option(bounds: &Bounds) -> String {
    bounds.memory_limit().map_or_else(String::new, |bytes| format!(",size={bytes}"))
}

fn mount_empty(path: &Path, flags: MountFlags, options: &str) -> Result<(), String> {
    let options = CString::new(options).map_err(failed("mount", path))?;
    rustix::mount::mount("tmpfs", path, "tmpfs", flags, options.as_c_str())
        .map_err(failed("mount", path))
}

/// Makes a directory a mount of its own, which can be writable where the rest is not, and which
/// nobody can move.
fn bind_to_itself(path: &Path) -> Result<(), String> {
    if path == Path::new("/") {
        return Ok(());
    }
    rustix::mount::mount_bind_recursive(path, path).map_err(failed("bind", path))
}

/// A `/dev` with nothing in it by which to get at disks, terminals or memory of others.
fn devices(bounds: &Bounds) -> Result<(), String> {
    let place = Path::new("/dev");
    let nodes = DEVICES.map(|name| place.join(name));
    let nodes: Vec<Kept> = nodes
        .into_iter()
        .filter(|path| path.exists())
        .map(|path| Ok(Kept { held: hold(&path)?, path }))
        .collect::<Result<_, String>>()?;
    mount_empty(place, MountFlags::NOSUID, "mode=0755,size=64k")?;
    for node in &nodes {
        make_place(node)?;
        let held = format!("/proc/self/fd/{}", node.held.as_raw_fd());
        rustix::mount::mount_bind(held, &node.path).map_err(failed("bring back", &node.path))?;
    }
    let links = [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ];
    for (name, target) in links {
        symlink(target, place.join(name)).map_err(failed("link", place.join(name)))?;
    }
    for own in OWN_DEVICES {
        DirBuilder::new().mode(0o755).create(own).map_err(failed("make", own))?;
    }
    mount_empty(Path::new("/dev/shm"), PLAIN, &format!("mode=1777{}", size_option(bounds)))?;
    // Terminals of its own are a convenience: a kernel may have none.
    let options = c"newinstance,ptmxmode=0666,mode=620";
    let _ = rustix::mount::mount("devpts", "/dev/pts", "devpts", PLAIN_EXEC, options);
    Ok(())
}

const PLAIN_EXEC: MountFlags = MountFlags::NOSUID.union(MountFlags::NOEXEC);

/// Mounts nothing over something.
fn hide(secret: &Secret, bounds: &Bounds) -> Result<(), String> {
    let path = secret.path.as_path();
    let is_there =
        || fs::symlink_metadata(path).map(|now| hidden::identity(&now) == secret.identity);
    if !is_there().unwrap_or(false) {
        // It lay in what was hidden before.
        return Ok(());
    }
    for writable in bounds.writable().filter(|writable| path.starts_with(writable)) {
        // A directory above it could be moved, and what is hidden with it.
        let between: Vec<_> = path
            .ancestors()
            .skip(1)
            .take_while(|above| *above != writable && above.starts_with(writable))
            .collect();
        for above in between.into_iter().rev() {
            bind_to_itself(above)?;
        }
    }
    if secret.is_directory {
        let flags = PLAIN | MountFlags::RDONLY | MountFlags::NOEXEC;
        // Empty rather than closed, so that a search through the workspace does not fail.
        mount_empty(path, flags, "mode=0555,size=4k,nr_inodes=1")?;
    } else {
        rustix::mount::mount_bind("/dev/null", path).map_err(failed("hide", path))?;
    }
    if is_there().map_err(failed("see", path))? {
        return Err(format!("`{}` is still there", path.display()));
    }
    Ok(())
}

/// Puts nothing in the place of a socket, unless it lies where the tool may write.
fn close_service(socket: &Path, bounds: &Bounds) -> Result<(), String> {
    let is_socket = fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket());
    if !is_socket || bounds.writable().any(|writable| socket.starts_with(writable)) {
        return Ok(());
    }
    match rustix::mount::mount_bind("/dev/null", socket) {
        // It is gone, or nobody like us gets there.
        Ok(()) | Err(Errno::NOENT | Errno::ACCESS) => Ok(()),
        Err(error) => Err(failed("close", socket)(error)),
    }
}

/// Makes every mount that can be reached read-only, but for those in `own`. What lies in `root` is
/// read-only even if that lies in one of them.
fn make_read_only(own: &[PathBuf], root: Option<&Path>) -> Result<(), String> {
    let table = mount_table::read().map_err(|error| format!("cannot see mounts: {error}"))?;
    for mount in table {
        let within = root.filter(|root| mount.place.starts_with(root));
        let writable = own.iter().any(|own| {
            mount.place.starts_with(own) && within.is_none_or(|root| own.starts_with(root))
        });
        if writable || !is_reached(&mount) {
            continue;
        }
        let flags = MountFlags::BIND | MountFlags::RDONLY | mount.flags();
        match rustix::mount::mount_remount(&mount.place, flags, "") {
            // Something else lies on top, or nobody like us gets there.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT | Errno::ACCESS) => {}
            Err(error) => return Err(failed("protect", &mount.place)(error)),
        }
    }
    Ok(())
}

/// Whether its place leads to the mount, rather than to one that lies on top of it. Kernels that do
/// not tell are taken to say yes.
fn is_reached(mount: &Mount) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    match rustix::fs::statx(CWD, &mount.place, flags, StatxFlags::MNT_ID) {
        Ok(found) => {
            found.stx_mask & StatxFlags::MNT_ID.bits() == 0 || found.stx_mnt_id == mount.id
        }
        Err(Errno::NOSYS) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_with_a_path_are_found_in_the_table() {
        let table = [
            ("Num       RefCount Protocol Flags    Type St Inode Path", None),
            ("0000: 00000002 00000000 00010000 0001 01  9 /run/a b", Some("/run/a b")),
            ("0000: 00000002 00000000 00010000 0001 01  9 @/abstract", None),
            ("0000: 00000003 00000000 00000000 0001 03  9", None),
        ];
        for (line, path) in table {
            assert_eq!(socket_of(line.as_bytes()), path.map(PathBuf::from), "{line}");
        }
    }
}
