//! Entering namespaces, and who is who in a user namespace.

use std::fmt::Write as _;
use std::fs;

use nix::sched::CloneFlags;

use crate::sandbox::line::Line;
use crate::sandbox::order::{Order, Report};
use crate::sandbox::plan::Namespaces;

/// Moves this process into new namespaces; that of processes is entered by its next child.
pub(super) fn enter(wanted: Namespaces, network: bool, line: &mut Line) -> Result<(), String> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    flags.set(CloneFlags::CLONE_NEWUSER, wanted.user);
    flags.set(CloneFlags::CLONE_NEWNET, !network);
    nix::sched::unshare(flags).map_err(|error| format!("unshare: {}", error.desc()))?;
    if wanted.user && !(user == 0 && mapped_from_outside(line)?) {
        map_one("gid_map", group).and_then(|()| map_one("uid_map", user))?;
    }
    Ok(())
}

/// Root keeps all users, or it could not write files of others in its own workspace. Only a process
/// outside can map more than one.
fn mapped_from_outside(line: &mut Line) -> Result<bool, String> {
    line.send(&Report::Unmapped).map_err(|error| error.to_string())?;
    match line.wait().map_err(|error| error.to_string())? {
        Some(Order::Mapped(mapped)) => Ok(mapped),
        _ => Err("the recorder does not say who is who".to_owned()),
    }
}

/// Maps a user or group to itself.
fn map_one(file: &str, id: u32) -> Result<(), String> {
    let failed = |error| format!("cannot write `{file}`: {error}");
    if file == "gid_map" {
        // Without this an unprivileged user could shed groups that deny access.
        fs::write("/proc/self/setgroups", "deny").map_err(failed)?;
    }
    fs::write(format!("/proc/self/{file}"), format!("{id} {id} 1\n")).map_err(failed)
}

/// Maps every user and group that the recorder knows to itself, in the new namespace of `process`.
/// Whether that went well.
pub(in crate::sandbox) fn map_users(process: u32) -> bool {
    ["gid_map", "uid_map"].into_iter().all(|file| {
        fs::read_to_string(format!("/proc/self/{file}"))
            .and_then(|ours| fs::write(format!("/proc/{process}/{file}"), to_itself(&ours)))
            .is_ok()
    })
}

/// A map of the same ids as `map`, each to itself.
fn to_itself(map: &str) -> String {
    let mut same = String::new();
    for line in map.lines() {
        let mut columns = line.split_whitespace();
        if let (Some(first), Some(_), Some(count)) =
            (columns.next(), columns.next(), columns.next())
        {
            let _ = writeln!(same, "{first} {first} {count}");
        }
    }
    same
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_the_recorder_becomes_one_of_each_to_itself() {
        let ours = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(to_itself(ours), "0 0 1\n1 1 65536\n");
    }
}
