//! Real disks that are full or fail: a clear error, nothing acknowledged that is not there, and
//! the next one goes on.
#![cfg(test)]

use std::error::Error;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_format::event::EventType;
use countersign_testkit::process::{Process, Told, appender};
use countersign_testkit::{TestHome, note};

const APPENDER: &str = env!("CARGO_BIN_EXE_appender");
const NO_ROOM: &str = "there is no room left to write";
/// The signal that ends a process which writes beyond its limit on file size.
const SIGXFSZ: i32 = 25;

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
}

/// A file system in memory of 256 KiB, gone when dropped. `None` where we may not mount one.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs"];
        succeeds(Command::new("mount").args(options).arg(dir.path())).then_some(Self { dir })
    }

    /// Fills it to the last byte with a file of its own.
    fn fill(&self) -> PathBuf {
        let path = self.dir.path().join("ballast");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        succeeds(Command::new("umount").arg("-l").arg(self.dir.path()));
    }
}

fn causes(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", causes(cause)),
        None => error.to_string(),
    }
}

#[test]
fn a_full_disk_refuses_clearly_and_is_used_again_once_there_is_room() {
    let Some(disk) = SmallDisk::mount() else {
        let mut out = std::io::stderr();
        out.write_all(b"SKIPPED: only root can mount a small disk to fill up\n").unwrap();
        return;
    };
    let home = TestHome::at(&disk.dir.path().join("home"));
    let recording = home.recording();
    let id = recording.id();
    let mut acked = Vec::new();
    let try_to_append = |acked: &mut Vec<String>| match recording.submit(note(&"x".repeat(900))) {
        Ok(recorded) => {
            acked.extend(recorded.events.into_iter().map(|event| event.event_id));
            None
        }
        Err(error) => Some(causes(&error)),
    };
    assert_eq!(try_to_append(&mut acked), None);

    let ballast = disk.fill();
    // What is left of the last page still takes some.
    let error = (0..20).find_map(|_| try_to_append(&mut acked)).unwrap();
    assert!(error.contains(NO_ROOM), "{error}");
    assert!(error.contains("events.jsonl"), "which file: {error}");
    assert!(recording.put_artifact(&[7; 9_000], "text/plain").is_err());
    let begun = home.workspace.begin_recording(None, None).unwrap_err();
    assert!(causes(&begun).contains("no room") || causes(&begun).contains("No space"), "{begun}");
    home.check_acked(id, acked.len() as u64 + 1, &acked);
    assert_eq!(recording.size().unwrap(), acked.len() as u64 + 1);
    // Its lines are shorter, so that one of them may still fit.
    let arguments = ["other", "6", "after-error=go-on"];
    let (status, told) = Process::run(&mut appender(APPENDER, &home, &id.to_string(), &arguments));
    assert_eq!((status.code(), told.errors.len() + told.acked.len()), (Some(1), 6), "{told:?}");
    assert!(told.errors.iter().all(|error| error.contains(NO_ROOM)), "{told:?}");
    acked.extend(told.acked);
    home.check_acked(id, acked.len() as u64 + 1, &acked);

    std::fs::remove_file(ballast).unwrap();
    assert_eq!(try_to_append(&mut acked), None, "the same handle goes on");
    let (status, told) =
        Process::run(&mut appender(APPENDER, &home, &id.to_string(), &["new", "3"]));
    assert!(status.success(), "{told:?}");
    acked.extend(told.acked);
    home.check_acked(id, acked.len() as u64 + 1, &acked);
    recording.put_artifact(&[7; 9_000], "text/plain").unwrap();
    recording.conclude("done").unwrap();
    home.check(id, acked.len() as u64 + 4);
}

/// Runs the appender under a limit on the size of files that leaves room for about three events;
/// `before` is what the shell does first.
fn run_limited(home: &TestHome, trace: &Path, id: &str, before: &str) -> (Option<i32>, Told) {
    let blocks = (std::fs::metadata(trace).unwrap().len() + 3_000) / 512;
    let inner = appender(APPENDER, home, id, &["limited", "9", "after-error=go-on"]);
    let mut shell = Command::new("sh");
    let script = format!("{before} ulimit -c 0; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    shell.args(["-c", &script]).arg(inner.get_program()).args(inner.get_args());
    let (status, told) = Process::run(&mut shell);
    (status.code().or_else(|| status.signal().map(|signal| -signal)), told)
}

#[test]
fn a_limit_on_the_size_of_files_is_no_room() {
    let home = TestHome::new();
    let id = home.recording().id();
    let trace = home.workspace.trace_file(id);
    let (code, told) = run_limited(&home, &trace, &id.to_string(), "trap '' XFSZ;");
    assert_eq!(code, Some(1), "{told:?}");
    assert!((1..9).contains(&told.acked.len()), "{told:?}");
    assert!(told.errors.iter().all(|error| error.contains(NO_ROOM)), "{told:?}");
    let mut acked = told.acked;
    home.check_acked(id, acked.len() as u64 + 1, &acked);
    let (status, told) =
        Process::run(&mut appender(APPENDER, &home, &id.to_string(), &["free", "3"]));
    assert!(status.success(), "{told:?}");
    acked.extend(told.acked);
    home.check_acked(id, acked.len() as u64 + 1, &acked);
}

/// The kernel writes up to the limit and then kills the writer, so that half a line is left.
#[test]
fn half_a_line_of_a_killed_writer_is_set_aside_and_recorded() {
    let home = TestHome::new();
    let id = home.recording().id();
    let trace = home.workspace.trace_file(id);
    let (code, told) = run_limited(&home, &trace, &id.to_string(), "");
    assert_eq!(code, Some(-SIGXFSZ), "{told:?}");
    let mut acked = told.acked;
    let torn = home.verify(id);
    assert_eq!(torn.failures, []);
    assert_eq!(torn.warnings[0].warning_code, "TORN_TAIL");
    assert_eq!(torn.metrics.events, acked.len() as u64 + 1);

    let (status, told) =
        Process::run(&mut appender(APPENDER, &home, &id.to_string(), &["free", "3"]));
    assert!(status.success(), "{told:?}");
    let before = acked.len();
    acked.extend(told.acked);
    home.check_acked(id, acked.len() as u64 + 2, &acked);
    let recovered = &home.events(id)[before + 1];
    assert_eq!(recovered.event_type, EventType::SessionRecovered);
    let name = recovered.payload["torn_file"].as_str().unwrap();
    let kept = std::fs::read(trace.with_file_name("").join(name)).unwrap();
    assert_eq!(recovered.payload["torn_bytes"], kept.len());
    let hash = countersign_format::hash::Hash::of(&kept);
    assert_eq!(recovered.payload["torn_hash"], hash.to_hex());
}

/// The appender with its `when`th sync of data reported as failed.
#[cfg(target_os = "linux")]
fn run_with_failing_sync(home: &TestHome, recording: &str, when: u32) -> Told {
    let arguments = ["broken", "8", "after-error=go-on"];
    let inner = appender(APPENDER, home, recording, &arguments);
    let mut strace = Command::new("strace");
    let inject = format!("inject=fdatasync:error=EIO:when={when}");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", &inject]);
    strace.arg(inner.get_program()).args(inner.get_args());
    let (status, told) = Process::run(&mut strace);
    assert_eq!(status.code(), Some(1), "{told:?}");
    told
}

#[cfg(target_os = "linux")]
fn require_strace() {
    let there = succeeds(Command::new("strace").arg("--version"));
    assert!(there, "strace is missing\nhint: run `cargo xtask test`, which installs it");
}

#[test]
#[cfg(target_os = "linux")]
fn after_a_failed_sync_nothing_is_acknowledged_through_that_handle() {
    require_strace();
    let home = TestHome::new();
    let id = home.recording().id();
    let mut acked = Vec::new();
    for when in [1, 2, 5, 8] {
        let told = run_with_failing_sync(&home, &id.to_string(), when);
        let before = usize::try_from(when).unwrap() - 1;
        assert_eq!(told.acked.len(), before, "{told:?}");
        assert_eq!(told.acked_before_error, Some(before));
        assert_eq!(told.errors.len(), 8 - before, "{told:?}");
        assert!(told.errors[0].contains("Input/output error"), "{told:?}");
        let later = &told.errors[1..];
        assert!(later.iter().all(|error| error.contains("is not known")), "{told:?}");
        acked.extend(told.acked);
        home.check_acked(id, acked.len() as u64 + 1, &acked);
        let (status, told) =
            Process::run(&mut appender(APPENDER, &home, &id.to_string(), &["fresh", "2"]));
        assert!(status.success(), "{told:?}");
        acked.extend(told.acked);
        home.check_acked(id, acked.len() as u64 + 1, &acked);
    }
}

/// The first sync is that of the log, to be named in the first event; the second that of the event,
/// the third that of its entry in the log.
#[test]
#[cfg(target_os = "linux")]
fn a_recording_that_could_not_be_synced_was_not_begun() {
    require_strace();
    for when in [1, 2, 3] {
        let home = TestHome::new();
        let told = run_with_failing_sync(&home, "new", when);
        assert_eq!((told.begun.len(), &*told.acked), (0, &[] as &[String]), "{told:?}");
        assert!(told.errors[0].contains("Input/output error"), "{told:?}");
        assert_eq!(home.verify_log().failures, []);
        let left = home.workspace.trace_ids().unwrap();
        assert_eq!(left.len(), usize::from(when == 3), "the first event is taken back");
        home.workspace.reconcile_all().unwrap();
        for id in left {
            home.check(id, 1);
        }
        home.check(home.recording().id(), 1);
    }
}
