//! The verifier only reads: seen from the kernel's side, and in the files afterwards.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Files, contents};

/// Calls that change something other than memory, by name.
const CHANGES: &str = "trace=open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,\
    rmdir,mkdir,mkdirat,link,linkat,symlink,symlinkat,truncate,ftruncate,fallocate,chmod,fchmod,\
    fchmodat,chown,fchown,lchown,fchownat,utimensat,setxattr,lsetxattr,fsetxattr,removexattr,\
    mknod,mknodat,bind,connect,flock";

/// What a run of the binary asked the kernel for.
fn calls(files: &Files, arguments: &[&str]) -> (i32, Vec<String>) {
    let told = files.place.path().join("calls");
    let command = files.place.command(arguments);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", CHANGES, "-e", "signal=none", "-o"]).arg(&told);
    strace.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    let status = strace.current_dir(files.place.path()).output().unwrap().status;
    let told = fs::read_to_string(told).unwrap();
    (status.code().unwrap(), told.lines().map(str::to_owned).collect())
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
            calls(&files, &["verify", &target, "--no-write", "--trust", &files.root]);
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
        let (found, calls) = calls(&files, &["verify", &target, "--trust", &files.root]);
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

/// A rig that never finds anything may look at nothing.
#[test]
fn a_command_that_writes_is_caught() {
    let files = Files::closed();
    let new = files.place.path().join("new");
    let (_, calls) = calls(&files, &["init", "--home", new.to_str().unwrap()]);
    assert!(changes(&calls).len() > 3, "{calls:?}");
}
