//! All of it again as a user without privileges, if the tests run as root.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::place::{BASE, HELPER};

/// Nobody.
const USER: u32 = 65534;

/// A copy where others can read it: the original may lie in a directory of root's.
fn copy(file: &Path, directory: &Path) -> PathBuf {
    let copy = directory.join(file.file_name().unwrap());
    if fs::hard_link(file, &copy).is_err() {
        fs::copy(file, &copy).unwrap();
    }
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    copy
}

#[test]
fn a_user_without_privileges_has_the_same_sandbox() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir_in("/var/lib").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let tests = copy(&std::env::current_exe().unwrap(), directory.path());
    let helper = copy(Path::new(env!("CARGO_BIN_EXE_countersign")), directory.path());
    let output = Command::new(tests)
        .args(["sandbox::", "--test-threads=2"])
        .args(["--skip", "for_people", "--skip", "unprivileged"])
        .env(HELPER, helper)
        .env(BASE, directory.path())
        .current_dir(directory.path())
        .uid(USER)
        .gid(USER)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("a_daemon_ends_with_the_call ... ok"), "{said}");
}
