//! An agent whose questions are decided while the disk is at work, which is asked for contents and
//! names at once: nothing else is different.

use std::path::Path;
use std::sync::{Arc, Mutex};

use countersign_format::id::Ulid;
use countersign_gate::Decision;
use countersign_runtime::actions::{AgentRuntime, RuntimeOptions};
use countersign_runtime::disk::Op;
use countersign_runtime::secrets::Redactor;
use countersign_testkit::disk::{DiskFault, ENOSPC, SimDisk};
use countersign_testkit::sim::SimHome;

use super::{done, edit};

fn agent(home: &SimHome, disk: &SimDisk, aside: bool) -> AgentRuntime {
    let workspace = home.open(disk, 7).unwrap();
    if aside {
        workspace.store().sync_aside();
    }
    let options = RuntimeOptions { decides_aside: aside, ..RuntimeOptions::default() };
    AgentRuntime::new(workspace, Redactor::new([]), options)
}

fn lines(home: &SimHome, disk: &SimDisk, id: Ulid) -> Vec<u8> {
    disk.contents(&home.trace_file(id)).unwrap()
}

fn is_new_artifact(path: &Path) -> bool {
    let dir = path.parent().filter(|_| path.file_name().is_some_and(|name| name.len() == 64));
    path.ends_with("artifacts/new") || dir.is_some_and(|dir| dir.ends_with("artifacts/new"))
}

#[test]
fn what_is_recorded_does_not_depend_on_it() {
    let home = SimHome::new();
    let both = [false, true].map(|aside| {
        let disk = home.disk();
        let agent = agent(&home, &disk, aside);
        let id = agent.open().unwrap();
        for file in ["src/a.rs", ".git/hooks/pre-commit", "src/a.rs"] {
            let answer = agent.gate(&edit(file)).unwrap();
            if answer.decision == Decision::Allow {
                agent.record(&done(file)).unwrap();
            }
        }
        lines(&home, &disk, id)
    });
    assert!(!both[0].is_empty());
    assert_eq!(both[0], both[1]);
}

/// Whatever fails while the request is stored, the question fails with it, as it does without the
/// thread; nothing is recorded, and the next one is served.
#[test]
fn a_request_that_cannot_be_stored_is_not_answered() {
    let home = SimHome::new();
    let syncs = [Op::SyncDir, Op::SyncData];
    for ops in [&[Op::Open] as &[Op], &[Op::Write], &syncs[..1], &syncs[1..], &syncs] {
        let said = [false, true].map(|aside| {
            let disk = home.disk();
            let agent = agent(&home, &disk, aside);
            let id = agent.gate(&edit("src/a.rs")).unwrap().trace_id;
            let before = lines(&home, &disk, id);
            let mut left = ops.to_vec();
            disk.script(move |op, path, _| {
                let at = left.iter().position(|it| *it == op && is_new_artifact(path));
                at.map_or(DiskFault::None, |at| {
                    left.remove(at);
                    DiskFault::Fail(ENOSPC)
                })
            });
            let error = agent.gate(&edit("src/b.rs")).unwrap_err();
            assert_eq!(lines(&home, &disk, id), before, "{ops:?}");
            let next = agent.gate(&edit("src/c.rs"));
            // After a sync that failed, nobody knows what is on the disk.
            assert_eq!(next.is_ok(), !ops.iter().any(|op| syncs.contains(op)), "{ops:?}");
            assert_eq!(lines(&home, &disk, id).len() > before.len(), next.is_ok(), "{ops:?}");
            format!("{error:?}")
        });
        assert_eq!(said[0], said[1], "{ops:?}");
    }
}

#[test]
fn a_request_is_durable_before_the_event_that_names_it() {
    let home = SimHome::new();
    let disk = home.disk();
    let agent = agent(&home, &disk, true);
    let id = agent.gate(&edit("src/a.rs")).unwrap().trace_id;
    let trace = home.trace_file(id);
    let seen: Arc<Mutex<Vec<&str>>> = Arc::default();
    let notes = Arc::clone(&seen);
    disk.script(move |op, path, _| {
        let note = match op {
            Op::Write if is_new_artifact(path) => "artifact written",
            Op::SyncData if is_new_artifact(path) => "artifact durable",
            Op::SyncDir if is_new_artifact(path) => "name durable",
            Op::Write if path == trace => "event written",
            Op::SyncData if path == trace => "event durable",
            _ => return DiskFault::None,
        };
        notes.lock().unwrap().push(note);
        DiskFault::None
    });
    agent.gate(&edit("src/b.rs")).unwrap();
    let mut seen = seen.lock().unwrap();
    // The two syncs of the artifact come in any order.
    seen[1..3].sort_unstable();
    let expected =
        ["artifact written", "artifact durable", "name durable", "event written", "event durable"];
    assert_eq!(*seen, expected);
}
