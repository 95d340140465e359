//! An exit that is sent again, after the first process died before its sync.
#![cfg(test)]

use countersign_format::exit::{ExitReason, ExitSignal, WorkPhase};
use countersign_protocol::work::{Bearer, Claimant, SignalChannel, WorkExit};
use countersign_runtime::disk::Op;
use countersign_runtime::work::{ExitAnswer, NewWork};
use countersign_testkit::disk::DiskFault;
use countersign_testkit::sim::SimHome;

/// Found by the simulation (seed 2239): the second process read the line of the first from memory, said
/// that the item had moved, and wrote nothing; power loss then took the line with the answer.
#[test]
fn a_repeated_exit_is_durable_before_it_is_answered() {
    let home = SimHome::new();
    let disk = home.disk();
    let first = home.open(&disk, 5).unwrap();
    let item = first
        .open_work(&NewWork {
            title: "an item".to_owned(),
            label: None,
            phase: WorkPhase::Implementation,
            author_may_review: true,
            links: None,
        })
        .unwrap();
    let lease = item.claim("ana", Some("ana.1"), 60_000, Claimant::Agent).unwrap().lease;
    let exit = WorkExit {
        epoch: lease.epoch,
        by: Bearer::Session(lease.session_id),
        signal: ExitSignal::new(WorkPhase::Implementation, ExitReason::Completed),
        channel: SignalChannel::Runner,
        stored: None,
        evidence: None,
        commit: None,
        ci: None,
        links: None,
    };
    let id = item.id();
    disk.script(move |op, path, _| {
        let here = op == Op::SyncData && path.ends_with(format!("{id}/events.jsonl"));
        if here { DiskFault::Die } else { DiskFault::None }
    });
    item.exit(exit.clone()).unwrap_err();

    let second = disk.restart();
    let workspace = home.open(&second, 6).unwrap();
    let answer = workspace.work(id).unwrap().exit(exit).unwrap();
    let ExitAnswer::Moved { event, repeated: true, .. } = answer else { panic!("{answer:?}") };
    for seed in 0..20 {
        let lost = second.lose_power(seed);
        let _workspace = home.open(&lost, 7).unwrap();
        assert!(home.event_ids(id).contains(&event.event_id), "seed {seed}");
    }
}
