//! Many who want the same: one has it at a time. A holder that slept past its lease has it no more.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{command, done, events, open, says, verify, workspace};
use crate::place::Place;

/// Leases in the order of a trace: each is granted after the one before it ended, numbers grow by one.
fn assert_one_holder(recorded: &[(String, Value)]) {
    let (mut held, mut last) = (None, 0);
    for (event_type, payload) in recorded {
        let epoch = payload["epoch"].as_u64();
        match event_type.as_str() {
            "lease_granted" => {
                assert_eq!((held, epoch), (None, Some(last + 1)));
                (held, last) = (epoch, last + 1);
            }
            "lease_released" | "agent_session_completed" => {
                assert_eq!(epoch, held);
                held = None;
            }
            "lease_renewed" => assert_eq!(epoch, held),
            _ => {}
        }
    }
}

#[test]
fn sixteen_processes_that_claim_a_hundred_items_share_them_without_a_quarrel() {
    let place = workspace();
    let items: Vec<String> =
        (0..100).map(|number| open(&place, &format!("item {number}"))).collect();
    // Every other item is let go again, so that several get it, one after the other.
    let script = "count=0; for item in $ITEMS; do
        if lease=$(\"$COUNTERSIGN\" work claim $item --as \"$WHO\" --for 1h); then
            echo $lease
            if [ $((count % 2)) = 0 ]; then
                \"$COUNTERSIGN\" work release $item --lease $lease --as \"$WHO\"
            fi
        fi
        count=$((count + 1))
    done";
    let children: Vec<_> = (0..16)
        .map(|number| {
            let mut shell = command(&place, &[]);
            let binary = shell.get_program().to_owned();
            shell = {
                let mut started = std::process::Command::new("sh");
                for (name, value) in shell.get_envs() {
                    match value {
                        Some(value) => started.env(name, value),
                        None => started.env_remove(name),
                    };
                }
                started.current_dir(place.path());
                started
            };
            shell
                .args(["-c", script])
                .env("COUNTERSIGN", binary)
                .env("ITEMS", items.join(" "))
                .env("WHO", format!("agent-{number}"))
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let granted: usize = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            String::from_utf8_lossy(&output.stdout).lines().count()
        })
        .sum();
    let mut recorded_grants = 0;
    for (number, item) in items.iter().enumerate() {
        let recorded = events(&place, item);
        assert_one_holder(&recorded);
        let grants = super::types(&recorded).iter().filter(|it| **it == "lease_granted").count();
        let released = super::types(&recorded).iter().filter(|it| **it == "lease_released").count();
        match number % 2 {
            0 => assert_eq!(grants, released, "{item} was not let go by all who had it"),
            _ => assert_eq!((grants, released), (1, 0), "{item}"),
        }
        recorded_grants += grants;
    }
    // Whoever was told that it holds an item does, and nobody else.
    assert_eq!(granted, recorded_grants);
    assert!(granted > items.len(), "nobody got an item after somebody else");
}

/// One trial: the runner of an agent is stopped at some moment, and goes on after its lease ran out and
/// somebody else took the item. Says whether it had been stopped before its exit.
fn stopped_holder(place: &Place, number: usize) -> bool {
    let item = open(place, &format!("trial {number}"));
    // Half of the agents signal before the runner is stopped, half after.
    let pause = if number.is_multiple_of(2) { "" } else { "sleep 0.05; " };
    let agent = format!("{pause}{}", says("DRAFT", "completed"));
    let mut runner = command(
        place,
        &[
            "work", "run", &item, "--as", "sleeper", "--lease", "300ms", "--json", "--", "sh",
            "-c", &agent,
        ],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    let mut news = BufReader::new(runner.stdout.take().unwrap()).lines();
    let started = news.by_ref().any(|line| line.unwrap().contains("\"news\":\"started\""));
    if !started {
        // Another trial's runner was stopped with the log's lock in its hand, and the lease ran out before
        // the agent began. Nothing was tried, and nothing may have happened.
        assert!(!runner.wait().unwrap().success());
        let recorded = events(place, &item);
        assert_one_holder(&recorded);
        assert!(!super::types(&recorded).contains(&"agent_session_completed"), "{recorded:?}");
        return false;
    }
    let process = Pid::from_child(&runner);
    std::thread::sleep(Duration::from_micros(700 * (number as u64 % 13)));
    kill_process(process, Signal::STOP).unwrap();
    // Whoever wants it next asks until the lease has run out, as the recorder's clock has it. A runner
    // that is stopped while it appends holds the lock of a ledger: then nobody gets it before it goes on.
    let mut taken = false;
    for _ in 0..100 {
        let claimed = claim_within(place, &item, Duration::from_secs(2));
        if claimed != Some(false) {
            taken = claimed == Some(true);
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(process, Signal::CONT).unwrap();
    let ended = runner.wait().unwrap();
    let recorded = events(place, &item);
    assert_one_holder(&recorded);
    let exits: Vec<&Value> = recorded
        .iter()
        .filter(|(event_type, _)| event_type == "agent_session_completed")
        .map(|(_, payload)| payload)
        .collect();
    match exits.as_slice() {
        // It was faster than we were; then the next phase was taken.
        [exit] => assert_eq!((&exit["epoch"], ended.success()), (&json!(1), true)),
        [] => assert!(!ended.success(), "{recorded:?}"),
        _ => panic!("two exits: {recorded:?}"),
    }
    verify(place, &item, 4);
    taken && exits.is_empty()
}

/// Whether the item could be claimed; nothing if there was no answer in time.
fn claim_within(place: &Place, item: &str, time: Duration) -> Option<bool> {
    let mut claiming = command(place, &["work", "claim", item, "--as", "successor", "--for", "1h"]);
    let mut claiming = claiming.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = claiming.stdout.take().unwrap();
    let (sender, answer) = std::sync::mpsc::channel();
    // Its output ends when it does, so that nothing has to be looked for again and again.
    let waiting = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = std::io::Read::read_to_string(&mut said, &mut text);
        let _ = sender.send(());
    });
    let answered = answer.recv_timeout(time).is_ok();
    if !answered {
        claiming.kill().unwrap();
    }
    let ended = claiming.wait().unwrap();
    waiting.join().unwrap();
    answered.then(|| ended.success())
}

#[test]
fn a_holder_that_slept_past_its_lease_cannot_exit_in_two_hundred_trials() {
    let place = workspace();
    done(&place, &["work", "list"]);
    let (next, stopped) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(number) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|it| *it < 200)
                {
                    stopped
                        .fetch_add(usize::from(stopped_holder(&place, number)), Ordering::Relaxed);
                }
            });
        }
    });
    // Many trials must be of the kind that is looked for, or nothing was tried.
    assert!(stopped.load(Ordering::Relaxed) >= 50, "{stopped:?}");
}
