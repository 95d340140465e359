//! The machine that was measured on, without its name or any path of it.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use countersign_format::time::Timestamp;
use xtask::place::target;

/// What one must know of a machine to compare figures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Machine {
    pub(super) cores: usize,
    pub(super) processor: String,
    pub(super) memory_gib: f64,
    pub(super) kernel: String,
    /// Of the disk that was written to.
    pub(super) file_system: String,
    /// The day of the run.
    pub(super) date: String,
}

impl Machine {
    pub(super) fn look() -> Result<Self, String> {
        let read = |path: &str| {
            fs::read_to_string(path).map_err(|error| format!("cannot read `{path}`: {error}"))
        };
        let cores = std::thread::available_parallelism().map_err(|error| error.to_string())?;
        let since =
            SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
        let millis = i64::try_from(since.as_millis()).map_err(|error| error.to_string())?;
        let now = Timestamp::from_millis(millis).to_string();
        let (cpu, memory) = (read("/proc/cpuinfo")?, read("/proc/meminfo")?);
        let kibibytes =
            value(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        let kernel = read("/proc/sys/kernel/osrelease")?;
        Ok(Self {
            cores: cores.get(),
            processor: value(&cpu, "model name").unwrap_or("unknown processor").to_owned(),
            memory_gib: kibibytes.unwrap_or_default() / (1024.0 * 1024.0),
            // What comes after the number names whoever built it.
            kernel: kernel.trim().split('-').next().unwrap_or_default().to_owned(),
            file_system: file_system(&read("/proc/self/mountinfo")?, &target()),
            date: now.get(..10).unwrap_or_default().to_owned(),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Run on {}: {} cores of a {}, {:.0} GiB of memory, Linux {}, {}. Release build.",
            self.date, self.cores, self.processor, self.memory_gib, self.kernel, self.file_system
        )
    }
}

/// The value of the first line with this name.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    })
}

/// The type of the file system that `path` is on: that of the longest mount point above it.
fn file_system(mounts: &str, path: &Path) -> String {
    let of = |line: &str| {
        let (mount, device) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?;
        let kind = device.split(' ').next()?;
        path.starts_with(point).then(|| (point.len(), kind.to_owned()))
    };
    let longest = mounts.lines().filter_map(of).max_by_key(|(length, _)| *length);
    longest.map_or_else(|| "unknown file system".to_owned(), |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
            23 22 0:5 / /data/a/target rw shared:1 - tmpfs none rw\n\
            24 22 0:6 / /data rw - xfs /dev/vdb rw\n";
        assert_eq!(file_system(mounts, Path::new("/data/a/target/debug")), "tmpfs");
        assert_eq!(file_system(mounts, Path::new("/data/b")), "xfs");
        assert_eq!(file_system(mounts, Path::new("/srv")), "ext4");
        assert_eq!(file_system("", Path::new("/srv")), "unknown file system");
    }

    #[test]
    fn values_are_found_by_their_names() {
        let text = "processor\t: 0\nmodel name\t: Some CPU\nmodel name\t: Other\n";
        assert_eq!(value(text, "model name"), Some("Some CPU"));
        assert_eq!(value(text, "model"), None);
    }
}
