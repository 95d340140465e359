//! A hook that is killed at any point denies, and what it left behind is sound.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;

use super::player::{Fate, Player};
use super::{before, traces, verify_all};

/// How often a hook is killed, each time a little later.
const ROUNDS: u32 = 60;

/// The process that a shell has started, once it has. It is held by a descriptor: its number may belong
/// to somebody else as soon as the shell has waited for it.
fn started_by(shell: &Child) -> Option<OwnedFd> {
    let children = format!("/proc/{0}/task/{0}/children", shell.id());
    let first = || {
        let found = fs::read_to_string(&children).unwrap_or_default();
        found.split_whitespace().next().and_then(|pid| Pid::from_raw(pid.parse().ok()?))
    };
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        if let Some(pid) = first() {
            let held = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            // The shell has not waited for it yet, so that is whom the descriptor holds.
            return (first() == Some(pid)).then_some(held);
        }
        thread::yield_now();
    }
    None
}

#[test]
fn a_hook_that_is_killed_at_any_point_denies_and_the_traces_verify() {
    let player = Player::new();
    let line = player.line("PreToolUse");
    let call = |number: u32| {
        let input = json!({ "file_path": format!("made{number}"), "content": "x" });
        before(&player.place, &format!("toolu_{number}"), "Write", &input)
    };
    let begun = Instant::now();
    let whole = player.start(&line, "", &call(1_000)).wait_with_output().unwrap();
    assert_eq!(Player::fate(&whole), Fate::Ran);
    let took = begun.elapsed();
    let mut killed = 0;
    for round in 0..ROUNDS {
        // Every few rounds another session, so that beginning a recording is interrupted as well.
        let mut call = call(round);
        call["session_id"] = json!(format!("session-{}", round / 4));
        let shell = player.start(&line, "", &call);
        let hook = started_by(&shell);
        thread::sleep(took * round / ROUNDS);
        let hit = hook.is_some_and(|hook| pidfd_send_signal(&hook, Signal::KILL).is_ok());
        let ended = shell.wait_with_output().unwrap();
        match Player::fate(&ended) {
            Fate::Refused(_) => killed += 1,
            // It had answered before it was killed.
            Fate::Ran => assert!(ended.status.success() && !ended.stdout.is_empty(), "{hit}"),
            Fate::Asked(why) => panic!("{why}"),
        }
    }
    assert!(killed > ROUNDS / 4, "{killed} of {ROUNDS} were killed in time");
    // The next ones find everything in order.
    for session in 0..=ROUNDS / 4 {
        let mut call = call(2_000 + session);
        call["session_id"] = json!(format!("session-{session}"));
        let ended = player.start(&line, "", &call).wait_with_output().unwrap();
        assert_eq!(Player::fate(&ended), Fate::Ran, "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let doctor = player.place.run(&["doctor", "--repair"]);
    assert_eq!(doctor.code, 0, "{doctor}");
    verify_all(&player.place);
    // Each session went on in its recording: none was begun twice.
    let named: Vec<String> = traces(&player.place)
        .iter()
        .map(|trace| {
            let first = &super::events(&player.place, trace)[0];
            first["payload"]["links"]["agent_session"]["session_id"].to_string()
        })
        .collect();
    let sessions: std::collections::BTreeSet<&String> = named.iter().collect();
    // One that was killed between its first event and the log's word of it is left behind, empty.
    assert!(named.len() <= sessions.len() + ROUNDS as usize / 4, "{named:?}");
}
