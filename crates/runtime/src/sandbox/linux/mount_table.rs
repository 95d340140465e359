//! The table of mounts of this process, as the kernel shows it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) id: u64,
    /// The numbers of the device.
    device: String,
    /// Which directory of the device is mounted.
    root: PathBuf,
    /// Where.
    pub(super) place: PathBuf,
    options: String,
}

/// All mounts, each after those that it may lie upon.
pub(super) fn read() -> io::Result<Vec<Mount>> {
    Ok(parse(&fs::read("/proc/self/mountinfo")?))
}

fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mut text = || fields.next().map(<[u8]>::to_vec);
    let id = String::from_utf8(text()?).ok()?.parse().ok()?;
    let _parent = text()?;
    let device = String::from_utf8(text()?).ok()?;
    let (root, place) = (unescape(&text()?), unescape(&text()?));
    let options = String::from_utf8(text()?).ok()?;
    Some(Mount { id, device, root, place, options })
}

/// Blanks and backslashes stand as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|_| byte == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

impl Mount {
    /// What must be said again when it is mounted anew, or the kernel refuses.
    pub(super) fn flags(&self) -> MountFlags {
        let known = [
            ("nosuid", MountFlags::NOSUID),
            ("nodev", MountFlags::NODEV),
            ("noexec", MountFlags::NOEXEC),
            ("nosymfollow", MountFlags::NOSYMFOLLOW),
        ];
        let has = |name: &str| self.options.split(',').any(|option| option == name);
        known.into_iter().filter(|(name, _)| has(name)).map(|(_, flag)| flag).collect()
    }
}

/// A path that leads to the same as another, which may lie inside what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alias {
    pub(super) path: PathBuf,
    pub(super) original: PathBuf,
}

/// Every path by which the table lets one reach `path` or something in it: a device may be mounted
/// more than once, and directories may be bound elsewhere.
pub(super) fn aliases(table: &[Mount], path: &Path) -> Vec<Alias> {
    let mut found = vec![Alias { path: path.to_owned(), original: path.to_owned() }];
    // What is mounted inside may be mounted elsewhere too.
    let inside = table.iter().map(|mount| mount.place.as_path());
    let inside = inside.filter(|place| *place != path && place.starts_with(path));
    for original in [path].into_iter().chain(inside) {
        let over = |mount: &&Mount| original.starts_with(&mount.place);
        // The last of the longest lies on top.
        let under = table.iter().filter(over).max_by_key(|mount| mount.place.components().count());
        let Some(under) = under else { continue };
        let Ok(rest) = original.strip_prefix(&under.place) else { continue };
        let on_device = join(&under.root, rest);
        for mount in table.iter().filter(|mount| mount.device == under.device) {
            if let Ok(rest) = on_device.strip_prefix(&mount.root) {
                found.push(Alias { path: join(&mount.place, rest), original: original.to_owned() });
            } else if let Ok(rest) = mount.root.strip_prefix(&on_device) {
                found.push(Alias { path: mount.place.clone(), original: join(original, rest) });
            }
        }
    }
    found.retain(|alias| alias.path == path || !alias.path.starts_with(path));
    found.sort();
    found.dedup();
    found
}

/// Joining an empty path would add a slash.
fn join(path: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { path.to_owned() } else { path.join(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:5 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
30 21 254:0 /srv/a\\040b /mnt/bound ro,nosymfollow - ext4 /dev/vda rw
31 21 254:0 / /host rw - ext4 /dev/vda rw
32 21 8:1 / /srv/a\\040b/other rw - ext4 /dev/sda1 rw
33 21 8:1 / /mnt/usb rw - ext4 /dev/sda1 rw
";

    fn table() -> Vec<Mount> {
        parse(TABLE.as_bytes())
    }

    #[test]
    fn the_table_is_read_with_its_escapes() {
        let bound = &table()[2];
        let expected = Mount {
            id: 30,
            device: "254:0".to_owned(),
            root: "/srv/a b".into(),
            place: "/mnt/bound".into(),
            options: "ro,nosymfollow".to_owned(),
        };
        assert_eq!(*bound, expected);
        assert_eq!(bound.flags(), MountFlags::NOSYMFOLLOW);
        let proc = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        assert_eq!(table()[1].flags(), proc);
    }

    fn ways(path: &str) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        let found = aliases(&table(), Path::new(path));
        found.iter().map(|alias| (text(&alias.path), text(&alias.original))).collect()
    }

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
        pairs.map(|(path, original)| (path.to_owned(), original.to_owned())).to_vec()
    }

    #[test]
    fn all_ways_to_a_path_are_found() {
        for path in ["/srv/a b/keys", "/host/srv/a b/keys"] {
            let places = ["/host/srv/a b/keys", "/mnt/bound/keys", "/srv/a b/keys"];
            assert_eq!(ways(path), pairs(places.map(|place| (place, path))));
        }
        assert_eq!(ways("/etc"), pairs([("/etc", "/etc"), ("/host/etc", "/etc")]));
        let other = "/srv/a b/other/x";
        assert_eq!(ways(other), pairs([("/mnt/usb/x", other), (other, other)]));
    }

    #[test]
    fn what_lies_inside_a_path_is_found_where_else_it_is_mounted() {
        let expected = pairs([
            ("/host/srv", "/srv"),
            ("/mnt/bound", "/srv/a b"),
            ("/mnt/usb", "/srv/a b/other"),
            ("/srv", "/srv"),
        ]);
        assert_eq!(ways("/srv"), expected);
    }

    #[test]
    fn the_table_of_this_process_has_a_root() {
        assert!(read().unwrap().iter().any(|mount| mount.place == Path::new("/")));
    }
}
