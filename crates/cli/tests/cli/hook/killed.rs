//! A hook that is killed at any point denies, and what it left behind is sound.

use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};

use super::player::{Fate, Player};
use super::{after, before, claude, events, receipts, traces, types, verify_all, workspace};
use crate::place::Place;

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

/// How often each of the other hooks is killed.
const ROUNDS_OF_EACH: u32 = 12;

/// Runs a hook with this input; if it is to be killed, after that time.
fn run(place: &Place, program: &str, input: &Value, kill_after: Option<Duration>) -> Output {
    let mut command = place.command(&["hook", program]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut hook = command.spawn().unwrap();
    // Whoever was killed does not read it.
    let _ = hook.stdin.take().unwrap().write_all(input.to_string().as_bytes());
    if let Some(time) = kill_after {
        thread::sleep(time);
        hook.kill().unwrap();
    }
    hook.wait_with_output().unwrap()
}

/// Kills the hook of a kind of event again and again, each time a little later, and each time in a session
/// of its own, for which `prepared` is what came before. Then each is run again, to its end.
fn kill(
    place: &Place,
    program: &str,
    prepared: impl Fn(u32) -> Vec<Value>,
    event: impl Fn(u32) -> Value,
) {
    let whole = |input: &Value| {
        let ended = run(place, program, input, None);
        assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    };
    prepared(ROUNDS_OF_EACH).iter().for_each(whole);
    let begun = Instant::now();
    whole(&event(ROUNDS_OF_EACH));
    let mut took = begun.elapsed();
    let mut killed = 0;
    for round in 0..ROUNDS_OF_EACH {
        prepared(round).iter().for_each(whole);
        let time = took * round / ROUNDS_OF_EACH;
        let ended = run(place, program, &event(round), Some(time));
        match ended.status.code() {
            // A program that waits for an answer gets none, and lets nothing run.
            None => killed += 1,
            Some(code) => {
                assert_eq!(code, 0, "{}", String::from_utf8_lossy(&ended.stderr));
                // It takes less than it took when it was watched.
                took = took.min(time);
            }
        }
        whole(&event(round));
    }
    assert!(killed > ROUNDS_OF_EACH / 4, "{killed} of {ROUNDS_OF_EACH} were killed in time");
    let doctor = place.run(&["doctor", "--repair"]);
    assert_eq!(doctor.code, 0, "{doctor}");
    verify_all(place);
}

#[test]
fn a_hook_that_is_killed_while_it_records_leaves_traces_that_verify() {
    let place = workspace();
    let of = |mut input: Value, round: u32| {
        input["session_id"] = json!(format!("session-{round}"));
        input
    };
    let command = json!({ "command": "ls" });
    let call = |round| of(before(&place, "toolu_1", "Bash", &command), round);
    let ran = |round| {
        let response = json!({ "stdout": "a" });
        of(after(&place, "toolu_1", "Bash", &command, &response), round)
    };
    kill(&place, "claude-code", |round| vec![call(round)], ran);
    // What was told twice, since nobody knew whether it was heard, is there once with its verdict.
    let under_verdict = |trace: &String| {
        let receipts = receipts(&events(&place, trace));
        receipts.iter().filter(|it| it[1] == "token").count()
    };
    assert!(traces(&place).iter().all(|trace| under_verdict(trace) == 1));
}

#[test]
fn a_hook_that_is_killed_while_a_session_begins_or_ends_leaves_traces_that_verify() {
    let place = workspace();
    let of = |event: &str, members: Value, round: u32| {
        let mut input = claude(&place, event, &members);
        input["session_id"] = json!(format!("{event}-{round}"));
        input
    };
    let start = |round| of("SessionStart", json!({ "source": "startup", "model": "m" }), round);
    kill(&place, "claude-code", |_| Vec::new(), start);
    let call = |event: &str, round: u32, agent: Option<&str>| {
        let mut input = before(&place, "toolu_1", "Bash", &json!({ "command": "ls" }));
        input["session_id"] = json!(format!("{event}-{round}"));
        if let Some(agent) = agent {
            input["agent_id"] = json!(agent);
        }
        input
    };
    let end = |round| of("SessionEnd", json!({ "reason": "other" }), round);
    let with_sub_agent =
        |round| vec![call("SessionEnd", round, None), call("SessionEnd", round, Some("a1"))];
    kill(&place, "claude-code", with_sub_agent, end);
    let stop =
        |round| of("SubagentStop", json!({ "agent_id": "a1", "stop_hook_active": false }), round);
    let sub_agent = |round| vec![call("SubagentStop", round, Some("a1"))];
    kill(&place, "claude-code", sub_agent, stop);
    // What was to end has ended, and nothing else has.
    let ended = |trace: &String| {
        let events = events(&place, trace);
        let link = &events[0]["payload"]["links"]["agent_session"];
        let name = link["session_id"].as_str().unwrap().to_owned();
        let to_end = name.starts_with("SessionEnd") || link.get("agent_id").is_some();
        // One that was killed before the log knew of it holds nothing, and belongs to nobody.
        let is_empty = events.len() == 1;
        let ended = types(&events).contains(&"verification_run_completed");
        assert!(ended == to_end || is_empty, "{name}: {events:?}");
    };
    traces(&place).iter().for_each(ended);
}

#[test]
fn a_hook_of_any_program_that_is_killed_answers_nothing_and_its_traces_verify() {
    let place = workspace();
    let input = |event: &str, round: u32| {
        json!({
            "event": event, "session": format!("s{round}"), "call": "c1", "reason": "done",
            "action": { "type": "shell_exec", "command": "ls", "arguments": { "cmd": "ls" } },
            "result": { "success": true, "output": "a" },
        })
    };
    kill(&place, "generic", |_| Vec::new(), |round| input("start", round));
    kill(&place, "generic", |_| Vec::new(), |round| input("before", round));
    kill(&place, "generic", |round| vec![input("before", round)], |round| input("after", round));
    kill(&place, "generic", |round| vec![input("before", round)], |round| input("end", round));
}
