//! `work dispatch`: agents for every phase, until nothing is left; and a dispatcher that is killed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    answer, command, copy, done, events, links, open, run, says, types, verify, workspace,
};
use crate::place::Place;

fn settings(place: &Place, text: &str) {
    std::fs::write(place.path().join("countersign.toml"), text).unwrap();
}

/// Settings whose agents finish each phase at once.
fn quick(lease_seconds: u64, parallel: usize) -> String {
    let mut text = format!(
        "[work]\nlease_seconds = {lease_seconds}\nattempts = 1000\nparallel = {parallel}\n"
    );
    for (phase, name) in [
        ("DRAFT", "drafter"),
        ("IMPLEMENTATION", "author"),
        ("READY_FOR_REVIEW", "coordinator"),
        ("REVIEW", "critic"),
        ("READY_FOR_MERGE", "merger"),
    ] {
        let script = serde_json::to_string(&says(phase, "completed")).unwrap();
        text += &format!(
            "[work.agents.{phase}]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", {script}]\n"
        );
    }
    text + "[work.ci]\ncommand = [\"true\"]\n"
}

#[test]
fn a_dispatcher_that_waits_for_the_lease_of_somebody_else_says_so() {
    let place = workspace();
    settings(&place, &quick(60, 1));
    let item = open(&place, "say hello");
    done(&place, &["work", "claim", &item, "--as", "other", "--for", "2s"]);
    let ran = run(&place, &["work", "dispatch"]);
    assert_eq!(ran.code, 0, "{ran}");
    let told = "waiting: others hold 1 that can be done here, the first until 20";
    assert!(ran.stderr.contains(told), "{ran}");
}

#[test]
fn five_small_agents_take_an_item_from_draft_to_completed() {
    let place = workspace();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/work");
    copy(&example, &place.path());
    let item = done(&place, &["work", "open", "say hello", "--label", "W-00042"]);

    let first = run(&place, &["work", "dispatch"]);
    assert_eq!(first.code, 3, "{first}");
    assert!(
        first.stdout().contains(
            "was ended by signal 6, without a signal; it said: out of memory; free again"
        ),
        "{first}"
    );
    let shown = answer(&place, &["work", "show", &item]);
    assert_eq!(shown["state"]["blocked_from"], json!("REVIEW"), "{first}");

    std::fs::write(place.path().join("build/audience.txt"), "everybody\n").unwrap();
    done(&place, &["work", "unblock", "W-00042", "--reason", "everybody is greeted"]);
    let second = run(&place, &["work", "dispatch"]);
    assert_eq!(second.code, 0, "{second}");

    let recorded = events(&place, &item);
    let left: Vec<(&str, &str, &str, &str)> = recorded
        .iter()
        .filter(|(event_type, _)| event_type == "agent_session_completed")
        .map(|(_, it)| {
            let text = |name: &str| it[name].as_str().unwrap();
            (text("actor_id"), text("phase_completed"), text("next_phase"), text("channel"))
        })
        .collect();
    assert_eq!(
        left,
        [
            ("drafter", "DRAFT", "IMPLEMENTATION", "descriptor"),
            ("implementer", "IMPLEMENTATION", "CI_PENDING", "descriptor"),
            ("ci", "CI_PENDING", "READY_FOR_REVIEW", "runner"),
            ("coordinator", "READY_FOR_REVIEW", "REVIEW", "stdout"),
            ("reviewer", "REVIEW", "BLOCKED", "descriptor"),
            ("reviewer", "REVIEW", "READY_FOR_MERGE", "descriptor"),
            ("merger", "READY_FOR_MERGE", "COMPLETED", "descriptor"),
        ]
    );
    // The item and all of its sessions verify, and each names the other.
    verify(&place, &item, 0);
    let sessions: Vec<String> = recorded
        .iter()
        .filter(|(event_type, _)| event_type == "lease_granted")
        .map(|(_, it)| it["session_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(sessions.len(), 8);
    for session in &sessions {
        verify(&place, session, 0);
        assert_eq!(links(&place, session)["work"]["trace_id"], json!(item));
    }
    let linked: Vec<&Value> = recorded.iter().map(|(_, it)| &it["links"]["session"]).collect();
    assert!(sessions.iter().filter(|it| linked.contains(&&json!(it))).count() == 7);
    // Sealed into one file it is still whole.
    let sealed = run(&place, &["seal", &item, "-o", "hello.cap"]);
    assert_eq!(sealed.code, 0, "{sealed}");
    let verified = run(&place, &["verify", "hello.cap", "--no-write"]);
    assert_eq!(verified.code, 0, "{verified}");

    let figures = answer(&place, &["work", "stats"]);
    assert_eq!(
        (&figures["items"], &figures["completed"], &figures["phases"]["IMPLEMENTATION"]["retries"]),
        (&json!(1), &json!(1), &json!(1))
    );
}

#[test]
fn settings_that_are_wrong_or_missing_are_told_before_anything_is_claimed() {
    let place = workspace();
    let item = open(&place, "say hello");
    let missing = run(&place, &["work", "dispatch"]);
    assert_eq!(missing.code, 1, "{missing}");
    assert!(missing.stderr.contains("there are no settings at"), "{missing}");
    settings(&place, "[work]\nparalel = 2\n");
    let wrong = run(&place, &["work", "dispatch"]);
    assert_eq!(wrong.code, 3, "{wrong}");
    assert!(wrong.stderr.contains("did you mean `parallel`?"), "{wrong}");
    assert_eq!(types(&events(&place, &item)), ["work_opened"]);
}

#[test]
fn ci_that_moves_the_commit_is_given_up_after_its_attempts() {
    let place = workspace();
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=n", "-c", "user.email=e@example.org"]).args(arguments);
        assert!(git.current_dir(place.path()).output().unwrap().status.success());
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "one"]);
    let moving = "git -c user.name=n -c user.email=e@example.org commit -q --allow-empty -m more";
    settings(
        &place,
        &format!("[work]\nattempts = 2\n[work.ci]\ncommand = [\"sh\", \"-c\", \"{moving}\"]\n"),
    );
    let item = done(&place, &["work", "open", "x", "--phase", "CI_PENDING"]);
    let ran = run(&place, &["work", "dispatch"]);
    assert_eq!(ran.code, 3, "{ran}");
    let recorded = events(&place, &item);
    assert_eq!(types(&recorded).iter().filter(|it| **it == "lease_granted").count(), 2);
    let (_, last) = recorded.last().unwrap();
    assert_eq!(
        (&last["next_phase"], &last["ci"]["exit_status"]),
        (&json!("BLOCKED"), &Value::Null)
    );
    verify(&place, &item, 4);
}

#[test]
fn the_verdict_of_ci_is_bound_to_the_commit_that_it_ran_on() {
    let place = workspace();
    let git = |arguments: &[&str]| -> String {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=n", "-c", "user.email=e@example.org"]).args(arguments);
        let output = git.current_dir(place.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    git(&["init", "-q"]);
    std::fs::write(place.path().join("kept"), "one\n").unwrap();
    git(&["add", "kept"]);
    git(&["commit", "-q", "-m", "one"]);
    let first = git(&["rev-parse", "HEAD"]);
    let only_ci = "[work.ci]\ncommand = [\"true\"]\n";
    let verdict = |item: &str| {
        let recorded = events(&place, item);
        let (_, last) = recorded.last().unwrap();
        assert_eq!(last["next_phase"], json!("READY_FOR_REVIEW"), "{last}");
        (last["ci"].clone(), last["notes"].as_str().unwrap_or_default().to_owned())
    };

    settings(&place, only_ci);
    let clean = done(&place, &["work", "open", "x", "--phase", "CI_PENDING"]);
    assert_eq!(run(&place, &["work", "dispatch"]).code, 0);
    let (ci, notes) = verdict(&clean);
    assert_eq!((&ci["commit"], &ci["exit_status"]), (&json!(first), &json!(0)), "{ci}");
    assert_eq!((ci.get("uncommitted_changes"), notes.as_str()), (None, "CI passed"));

    std::fs::write(place.path().join("kept"), "changed\n").unwrap();
    let dirty = done(&place, &["work", "open", "x", "--phase", "CI_PENDING"]);
    assert_eq!(run(&place, &["work", "dispatch"]).code, 0);
    let (ci, notes) = verdict(&dirty);
    assert_eq!((&ci["commit"], &ci["uncommitted_changes"]), (&json!(first), &json!(true)), "{ci}");
    assert!(notes.contains("with changes that are not committed"), "{notes}");

    // Somebody commits between the implementation and CI.
    let moved = done(&place, &["work", "open", "x", "--phase", "IMPLEMENTATION"]);
    let script = serde_json::to_string(&says("IMPLEMENTATION", "completed")).unwrap();
    settings(
        &place,
        &format!(
            "[work.agents.IMPLEMENTATION]\nname = \"author\"\ncommand = [\"sh\", \"-c\", {script}]\n"
        ),
    );
    assert_eq!(run(&place, &["work", "dispatch"]).code, 0);
    git(&["commit", "-q", "-a", "-m", "two"]);
    let second = git(&["rev-parse", "HEAD"]);
    settings(&place, only_ci);
    assert_eq!(run(&place, &["work", "dispatch"]).code, 0);
    let (ci, notes) = verdict(&moved);
    assert_eq!((&ci["commit"], ci.get("uncommitted_changes")), (&json!(second), None));
    assert!(
        notes.contains(&format!("on another commit than the implementation's {first}")),
        "{notes}"
    );
}

#[test]
fn as_many_agents_run_at_a_time_as_the_settings_say_and_no_more() {
    let place = workspace();
    // Each waits until a second one is there, and looks whether there is a third.
    let script = format!(
        "mkdir -p here && echo > here/$COUNTERSIGN_SESSION
         while [ $(ls here | wc -l) -lt 2 ] && [ ! -e two ]; do sleep 0.02; done
         echo > two
         [ $(ls here | wc -l) -le 2 ] || echo > three
         sleep 0.1; rm here/$COUNTERSIGN_SESSION
         {}",
        says("DRAFT", "completed")
    );
    let script = serde_json::to_string(&script).unwrap();
    settings(
        &place,
        &format!(
            "[work]\nparallel = 2\n[work.agents.DRAFT]\ntimeout_seconds = 30\n\
             command = [\"sh\", \"-c\", {script}]\n"
        ),
    );
    for _ in 0..6 {
        open(&place, "say hello");
    }
    let ran = run(&place, &["work", "dispatch"]);
    assert_eq!(ran.code, 0, "{ran}");
    let there = |name: &str| place.path().join(name).exists();
    assert_eq!((there("two"), there("three")), (true, false));
}

#[test]
fn one_name_for_author_and_reviewer_is_refused_and_the_rest_goes_on() {
    let place = workspace();
    settings(&place, &quick(30, 2).replace("\"critic\"", "\"author\""));
    let strict = open(&place, "by the book");
    let lax = done(&place, &["work", "open", "alone", "--author-may-review"]);
    let ran = run(&place, &["work", "dispatch"]);
    assert_eq!(ran.code, 3, "{ran}");
    assert!(
        ran.stderr.contains("`author` worked on the implementation and cannot review it"),
        "{ran}"
    );
    let phase = |item: &str| answer(&place, &["work", "show", item])["state"]["phase"].clone();
    assert_eq!((phase(&strict), phase(&lax)), (json!("REVIEW"), json!("COMPLETED")));
}

/// A dispatcher that goes on for ever, and its news.
fn following(place: &Place) -> (Child, impl Iterator<Item = Value>) {
    let mut dispatcher = command(place, &["work", "dispatch", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(dispatcher.stdout.take().unwrap()).lines();
    (dispatcher, lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()))
}

fn interrupt(dispatcher: &Child) {
    let process = rustix::process::Pid::from_child(dispatcher);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
}

#[test]
fn a_dispatcher_that_follows_takes_on_what_is_opened_later() {
    let place = workspace();
    settings(&place, &quick(30, 2));
    let (mut dispatcher, mut news) = following(&place);
    let mut item = String::new();
    for _ in 0..2 {
        item = open(&place, "say hello");
        let completed = news.find(|line| line["next_phase"] == json!("COMPLETED"));
        assert_eq!(completed.unwrap()["item"], json!(item));
    }
    interrupt(&dispatcher);
    assert!(dispatcher.wait().unwrap().success());
    verify(&place, &item, 0);
}

#[test]
fn a_dispatcher_that_follows_says_at_once_what_it_could_not_run() {
    let place = workspace();
    settings(&place, &quick(30, 2).replace("\"critic\"", "\"author\""));
    let item = open(&place, "by the book");
    let (mut dispatcher, mut news) = following(&place);
    let trouble = news.find(|line| line["news"] == json!("trouble")).unwrap();
    let expected = format!("{item}: `author` worked on the implementation and cannot review it");
    assert!(trouble["error"].as_str().unwrap().starts_with(&expected), "{trouble}");
    interrupt(&dispatcher);
    assert_eq!(dispatcher.wait().unwrap().code(), Some(3));
}

/// Whenever a lease was granted after one that nobody gave back, that one had run out.
fn assert_freed_by_their_leases(place: &Place, items: &[String]) {
    let millis = |text: &Value| {
        let time: countersign_format::time::Timestamp = text.as_str().unwrap().parse().unwrap();
        time.as_millis()
    };
    for item in items {
        let shown = answer(place, &["work", "show", item]);
        let mut expiry = None;
        for event in shown["events"].as_array().unwrap() {
            let at = millis(&event["created_at"]);
            match event["event_type"].as_str().unwrap() {
                "lease_granted" | "lease_renewed" => {
                    if let Some(until) = expiry
                        && event["event_type"] == json!("lease_granted")
                    {
                        assert!(at >= until, "{item} was granted again before its lease ran out");
                    }
                    expiry = Some(millis(&event["payload"]["expires_at"]));
                }
                "lease_released" | "agent_session_completed" => expiry = None,
                _ => {}
            }
        }
    }
}

#[test]
fn a_dispatcher_killed_at_random_a_hundred_times_loses_nothing_and_completes_nothing_twice() {
    let place = workspace();
    settings(&place, &quick(1, 4));
    let items: Vec<String> =
        (0..12).map(|number| open(&place, &format!("item {number}"))).collect();
    // A small generator of our own: the moments are the same in every run, as far as clocks allow.
    let mut seed = 0x9e37_79b9_u64;
    for _ in 0..100 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut dispatcher = command(&place, &["work", "dispatch"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(seed >> 57));
        dispatcher.kill().unwrap();
        dispatcher.wait().unwrap();
    }
    let began = std::time::Instant::now();
    let finished = run(&place, &["work", "dispatch"]);
    assert_eq!(finished.code, 0, "{finished}");
    // Leases are a second long: whatever the dead held is free by then, and the rest is work.
    assert!(began.elapsed() < Duration::from_secs(60), "some item was stuck: {finished}");
    assert_freed_by_their_leases(&place, &items);
    let mut attempts = BTreeMap::new();
    for item in &items {
        let recorded = events(&place, item);
        let completed = recorded.iter().filter(|(_, it)| it["next_phase"] == json!("COMPLETED"));
        assert_eq!(completed.count(), 1, "{item}");
        let left: Vec<&Value> = recorded
            .iter()
            .filter(|(event_type, _)| event_type == "agent_session_completed")
            .map(|(_, it)| &it["phase_completed"])
            .collect();
        assert_eq!(
            left,
            [
                "DRAFT",
                "IMPLEMENTATION",
                "CI_PENDING",
                "READY_FOR_REVIEW",
                "REVIEW",
                "READY_FOR_MERGE"
            ]
        );
        verify(&place, item, 0);
        attempts.insert(item, types(&recorded).iter().filter(|it| **it == "lease_granted").count());
    }
    // The killing did hit: somewhere a lease ran out and was granted anew.
    assert!(attempts.values().any(|count| *count > 6), "{attempts:?}");
}
