//! The verifier only reads: seen from the kernel's side, and in the files afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_testkit::{TestHome, note};

use super::{Files, contents};
use crate::place::Place;

/// Calls that change something other than memory, by name.
const CHANGES: &str = "trace=open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,\
    rmdir,mkdir,mkdirat,link,linkat,symlink,symlinkat,truncate,ftruncate,fallocate,chmod,fchmod,\
    fchmodat,chown,fchown,lchown,fchownat,utimensat,setxattr,lsetxattr,fsetxattr,removexattr,\
    mknod,mknodat,bind,connect,flock";

/// What a run of the binary asked the kernel for.
fn calls(place: &Place, arguments: &[&str]) -> (i32, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let told = dir.path().join("calls");
    let command = place.command(arguments);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", CHANGES, "-e", "signal=none", "-o"]).arg(&told);
    strace.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    let status = strace.current_dir(place.path()).output().unwrap().status;
    let told = fs::read_to_string(told).unwrap();
    let made = told.lines().filter(|line| !was_overtaken(line));
    (status.code().unwrap(), made.map(str::to_owned).collect())
}

/// Whether the end of its process came before strace could read which call a thread was about to
/// make: the kernel never saw that one.
fn was_overtaken(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(thread, rest)| {
        thread.bytes().all(|byte| byte.is_ascii_digit())
            && rest.trim_start().trim_start_matches('?') == "( <detached ...>"
    })
}

/// Calls that do more than open something for reading.
fn changes(calls: &[String]) -> Vec<&String> {
    let reads = |call: &&String| {
        (call.contains("open(") || call.contains("openat(") || call.contains("openat2("))
            && call.contains("O_RDONLY")
            && !["O_CREAT", "O_TRUNC", "O_WRONLY", "O_RDWR", "O_TMPFILE"]
                .iter()
                .any(|flag| call.contains(flag))
    };
    calls.iter().filter(|call| !reads(call)).collect()
}

/// What may be found: a good trace, and everything that could tempt a reader to mend something.
fn states(files: &Files) -> Vec<(&'static str, i32)> {
    let whole = fs::read(files.ledger()).unwrap();
    let middle = whole.len() / 2;
    let torn = whole[..whole.len() - 20].to_vec();
    let edited = [&whole[..middle], b"\nnoise\n", &whole[middle..]].concat();
    for (name, bytes) in [("whole", &whole), ("torn", &torn), ("edited", &edited)] {
        fs::write(files.place.path().join(name), bytes).unwrap();
    }
    vec![("whole", 0), ("torn", 3), ("edited", 3)]
}

fn put(files: &Files, name: &str) {
    fs::copy(files.place.path().join(name), files.ledger()).unwrap();
}

#[test]
fn without_a_report_nothing_is_opened_but_for_reading() {
    let files = Files::closed();
    for (name, code) in states(&files) {
        put(&files, name);
        let before = contents(&files.home());
        let target = files.trace.display().to_string();
        let (found, calls) =
            calls(&files.place, &["verify", &target, "--no-write", "--trust", &files.root]);
        assert_eq!(found, code, "{name}");
        assert!(calls.iter().any(|call| call.contains("events.jsonl")), "{calls:?}");
        assert_eq!(changes(&calls), Vec::<&String>::new(), "{name}");
        assert_eq!(contents(&files.home()), before, "{name}");
    }
}

#[test]
fn a_report_is_all_that_is_written() {
    let files = Files::closed();
    let in_reports = |path: &Path| path.starts_with(files.trace.join("reports"));
    for (name, code) in states(&files) {
        put(&files, name);
        let before: Vec<_> =
            contents(&files.home()).into_iter().filter(|(path, _)| !in_reports(path)).collect();
        let target = files.trace.display().to_string();
        let (found, calls) = calls(&files.place, &["verify", &target, "--trust", &files.root]);
        assert_eq!(found, code, "{name}");
        for call in changes(&calls) {
            assert!(call.contains("/reports"), "{name}: {call}");
        }
        let after: Vec<_> =
            contents(&files.home()).into_iter().filter(|(path, _)| !in_reports(path)).collect();
        assert_eq!(after, before, "{name}");
    }
    // One report as JSON and one as text for each of the three.
    assert_eq!(fs::read_dir(files.trace.join("reports")).unwrap().count(), 6);
}

/// Somebody who was handed a workspace, a sealed file, a proof, and a log that was kept elsewhere.
struct Handed {
    place: Place,
    root: String,
    id: String,
}

impl Handed {
    fn new() -> Self {
        let home = TestHome::new();
        let owner = Place::owner_of(&home);
        let recording = home.recording();
        let _ = recording.submit(note("a note")).unwrap();
        recording.conclude("done").unwrap();
        let id = recording.id().to_string();
        let place = Place::empty();
        let into = |name: &str| place.path().join(name).display().to_string();
        for arguments in [
            ["seal", &id, "-o", &into("one.cap")].as_slice(),
            &["prove", &id, "1", "-o", &into("proof")],
        ] {
            let made = owner.run(arguments);
            assert_eq!(made.code, 0, "{made}");
        }
        crate::work::copy(&home.path(), &place.path().join("home"));
        for kept in ["events.jsonl", "checkpoint"] {
            fs::copy(home.path().join("log").join(kept), place.path().join(kept)).unwrap();
        }
        Self { place, root: home.workspace.root().to_hex(), id }
    }

    /// Everything that there is to read, but for reports.
    fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let is_report = |path: &Path| path.components().any(|it| it.as_os_str() == "reports");
        contents(&self.place.path()).into_iter().filter(|(path, _)| !is_report(path)).collect()
    }

    /// Cuts a file in two, of which the first half stays.
    fn cut(&self, name: &str) {
        let path = self.place.path().join(name);
        let bytes = fs::read(&path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }
}

/// What can be verified, and whether it lies where reports are kept.
fn targets(id: &str) -> Vec<(Vec<&str>, bool)> {
    let home = ["--home", "home"];
    let in_home = |arguments: &[&'static str]| [arguments, &home].concat();
    vec![
        (vec!["one.cap"], false),
        (vec!["one.cap", "--log", "events.jsonl"], false),
        (vec!["proof"], false),
        (vec!["proof", "--log", "checkpoint"], false),
        (in_home(&["--all"]), true),
        (in_home(&["--all", "--log", "events.jsonl"]), true),
        (in_home(&["log", "--allow-open"]), false),
        ([&[id][..], &["--log", "events.jsonl", "--log", "checkpoint"], &home].concat(), true),
    ]
}

#[test]
fn whatever_is_verified_is_opened_for_reading_only() {
    let handed = Handed::new();
    let whole = handed.contents();
    for damaged in [false, true] {
        if damaged {
            let ledger = format!("home/traces/{}/events.jsonl", handed.id);
            for name in ["one.cap", "proof", &ledger] {
                handed.cut(name);
            }
        }
        let before = handed.contents();
        assert_eq!(before != whole, damaged);
        for (target, keeps) in targets(&handed.id) {
            let arguments = [&["verify", "--trust", &handed.root][..], &target].concat();
            let (code, unwritten) =
                calls(&handed.place, &[&arguments[..], &["--no-write"]].concat());
            // The log by itself is as it was.
            let failed = damaged && target[0] != "log";
            assert_eq!(code, if failed { 3 } else { 0 }, "{target:?}");
            assert_eq!(changes(&unwritten), Vec::<&String>::new(), "{target:?}");
            let (again, written) = calls(&handed.place, &arguments);
            assert_eq!(again, code, "{target:?}");
            let written = changes(&written);
            assert_eq!(!written.is_empty(), keeps, "{target:?}: {written:?}");
            assert!(
                written.iter().all(|call| call.contains("/reports")),
                "{target:?}: {written:?}"
            );
            assert_eq!(handed.contents(), before, "{target:?}");
        }
    }
}

#[test]
fn only_a_call_that_was_never_made_counts_for_nothing() {
    for (line, overtaken) in [
        ("16127 ???( <detached ...>", true),
        ("16127 ????( <detached ...>", true),
        ("16127 unlink( <detached ...>", false),
        ("16127 unlink(\"/a\" <detached ...>", false),
        ("16127 ????( <unfinished ...>", false),
        ("x ???( <detached ...>", false),
    ] {
        assert_eq!(was_overtaken(line), overtaken, "{line}");
    }
}

/// A rig that never finds anything may look at nothing.
#[test]
fn a_command_that_writes_is_caught() {
    let files = Files::closed();
    let new = files.place.path().join("new");
    let (_, calls) = calls(&files.place, &["init", "--home", new.to_str().unwrap()]);
    assert!(changes(&calls).len() > 3, "{calls:?}");
}
