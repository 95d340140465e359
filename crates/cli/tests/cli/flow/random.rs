//! Random flows with agents that answer, crash, hang or print garbage, killed in between: they end
//! in a state that the trace explains, with the files of a run that nobody killed.

use std::process::Stdio;

use super::{HEAD, events, files, recommends, run, script, workspace, write, writes};
use crate::place::Place;

const FLOWS: usize = 8;

/// A small random source: the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Lays out a random flow; what its agents do depends on the step and the iteration alone.
fn lay_out(place: &Place, seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let count = 3 + dice.roll(5);
    let mut text = format!("{HEAD}[limits]\nquestion_seconds = 1\nparallel = 3\n");
    for at in 0..count {
        let needs: Vec<String> =
            (0..at).filter(|_| dice.roll(3) == 0).map(|it| format!("s{it}")).collect();
        let back = match (dice.roll(3), needs.first()) {
            (0, Some(back)) => back.clone(),
            _ => "self".to_owned(),
        };
        let needs_text = serde_json::to_string(&needs).unwrap();
        if dice.roll(7) == 0 {
            text += &format!(
                "[[steps]]\nid = \"s{at}\"\nneeds = {needs_text}\n\
                 approval = {{ question = \"?\", deadline_seconds = 1, default = {} }}\n",
                dice.roll(2) == 0
            );
            continue;
        }
        let hangs = dice.roll(9) == 0;
        text += &format!(
            "[[steps]]\nid = \"s{at}\"\nagent = \"a\"\naction = \"s{at}\"\nneeds = {needs_text}\n\
             writes = [\"out/s{at}/**\"]\non_retry = \"{back}\"\non_escalate = \"continue\"\n\
             max_iterations = 2\nattempts = {}\ntime_seconds = {}\n",
            1 + dice.roll(2),
            if hangs { 1 } else { 20 },
        );
        for iteration in ["", "-2"] {
            let action = format!("s{at}{iteration}");
            let file = writes(&[
                (&format!("out/s{at}/a.md"), &action),
                (&format!("out/s{at}/b{iteration}.md"), &action),
            ]);
            let mut again = file.clone();
            again["recommendation"] = "retry".into();
            let shell = match dice.roll(8) {
                0 if iteration.is_empty() => again.to_string(),
                1 => recommends(false, "retry", &[]).to_string(),
                2 => recommends(false, "escalate", &[]).to_string(),
                3 => "garbage".to_owned(),
                _ => file.to_string(),
            };
            write(place, &format!("answers/{action}.json"), &shell);
            let act = match (hangs, dice.roll(8)) {
                (true, _) => "sleep 60\n".to_owned(),
                (_, 0) => "exit 9\n".to_owned(),
                _ => format!("cat answers/{action}.json\n"),
            };
            script(place, &action, &act);
        }
    }
    write(place, "flow.toml", &text);
}

fn last(place: &Place, trace: &str) -> Option<String> {
    let events = events(place, trace);
    let last = events.last()?;
    (last["event_type"] == "flow_finished").then(|| last["payload"]["outcome"].to_string())
}

#[test]
fn a_random_flow_that_is_killed_again_and_again_comes_to_the_same_end() {
    let mut killed = 0;
    let mut outcomes = std::collections::BTreeMap::new();
    // Some have loops that overlap, and are none.
    let is_flow = |seed: &u64| {
        let place = workspace();
        lay_out(&place, *seed);
        place.run(&["flow", "check", "flow.toml"]).code == 0
    };
    for seed in (1..).filter(is_flow).take(FLOWS) {
        let place = workspace();
        lay_out(&place, seed);
        let whole = run(&place);
        whole.holds(&place, 0);
        let outcome = whole.outcome().to_owned();
        assert_ne!(outcome, "open", "{seed}: {}", whole.screen);
        let expected = files(&place);

        let place = workspace();
        lay_out(&place, seed);
        let mut dice = Dice(seed + 77);
        let mut trace: Option<String> = None;
        for round in 0.. {
            assert!(round < 200, "{seed}: no end");
            let mut command = match &trace {
                None => place.command(&["flow", "run", "flow.toml"]),
                Some(trace) => place.command(&["flow", "resume", trace]),
            };
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            // Killed some events later, wherever it then is; at last it is left alone.
            let some = if round < 6 { 1 + dice.roll(5) as usize } else { usize::MAX };
            let before = trace.as_ref().map_or(0, |trace| events(&place, trace).len());
            loop {
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                trace = trace.or_else(|| first_trace(&place));
                let now = trace.as_ref().map_or(0, |trace| lines(&place, trace));
                if now >= before.saturating_add(some) {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    killed += 1;
                    break;
                }
                std::thread::yield_now();
            }
            trace = trace.or_else(|| first_trace(&place));
            if trace.as_ref().is_some_and(|trace| last(&place, trace).is_some()) {
                break;
            }
        }
        let trace = trace.unwrap();
        // Killed between its last event and the log's word about it, the trace is told of later.
        assert_eq!(place.run(&["doctor", "--repair"]).code, 0, "{seed}");
        assert_eq!(last(&place, &trace), Some(format!("\"{outcome}\"")), "{seed}");
        assert_eq!(files(&place), expected, "{seed}: {outcome}");
        assert_eq!(place.run(&["verify", &trace, "--no-write"]).code, 0, "{seed}");
        assert_eq!(place.run(&["flow", "replay", &trace]).code, 0, "{seed}");
        *outcomes.entry(outcome).or_insert(0) += 1;
    }
    println!("{killed} kills, {outcomes:?}");
    assert!(killed >= FLOWS && outcomes.len() >= 2, "{killed} {outcomes:?}");
}

fn first_trace(place: &Place) -> Option<String> {
    let entries = std::fs::read_dir(place.path().join(".countersign/traces")).ok()?;
    let mut whole = entries.flatten().filter(|entry| lines_of(&entry.path()) > 0);
    whole.next().map(|entry| entry.file_name().into_string().unwrap())
}

fn lines(place: &Place, trace: &str) -> usize {
    lines_of(&place.path().join(".countersign/traces").join(trace))
}

fn lines_of(dir: &std::path::Path) -> usize {
    let text = std::fs::read(dir.join("events.jsonl")).unwrap_or_default();
    text.iter().filter(|&&byte| byte == b'\n').count()
}
