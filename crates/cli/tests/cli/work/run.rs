//! `work run`: an agent at work, and all the ways in which it leaves.

use serde_json::{Value, json};

use super::{answer, events, links, open, run, says, signal, types, verify, workspace};
use crate::place::Place;

/// Runs a shell script on an item.
fn script(place: &Place, item: &str, more: &[&str], script: &str) -> (i32, Value) {
    let mut arguments = vec!["work", "run", item, "--as", "agent", "--json"];
    arguments.extend(more);
    arguments.extend(["--", "sh", "-c", script]);
    let screen = run(place, &arguments);
    let stdout = screen.stdout();
    let last = stdout.lines().last().unwrap_or_else(|| panic!("{screen}"));
    (screen.code, serde_json::from_str(last).unwrap())
}

fn end(news: &Value) -> &str {
    news["end"].as_str().unwrap()
}

#[test]
fn an_agent_is_told_its_item_and_its_signal_moves_it() {
    let place = workspace();
    let item = open(&place, "say hello");
    let agent = format!("cat > given.json; echo working; {}", says("DRAFT", "completed"));
    let (code, news) = script(&place, &item, &[], &agent);
    assert_eq!((code, end(&news), &news["next_phase"]), (0, "moved", &json!("IMPLEMENTATION")));
    let given = std::fs::read(place.path().join("given.json")).unwrap();
    let given: Value = serde_json::from_slice(&given).unwrap();
    assert_eq!(given["context"], json!({ "feature_id": item, "iteration": 1, "workflow": "work" }));
    assert_eq!(given["task"]["action"], json!("draft"));
    assert_eq!(given["task"]["params"]["title"], json!("say hello"));

    let recorded = events(&place, &item);
    assert_eq!(types(&recorded), ["work_opened", "lease_granted", "agent_session_completed"]);
    let (_, granted) = &recorded[1];
    let (_, left) = &recorded[2];
    let session = granted["session_id"].as_str().unwrap();
    assert_eq!(
        (&left["channel"], &left["links"]),
        (&json!("descriptor"), &json!({ "session": session }))
    );
    let bundle = left["evidence_bundle_ref"].as_str().unwrap();
    assert_eq!(bundle, format!("evidence/work/{item}/phase_draft.yaml"));
    let bundle = std::fs::read_to_string(place.path().join(bundle)).unwrap();
    assert!(bundle.contains(&format!("session: \"{session}\"")), "{bundle}");
    verify(&place, session, 0);
    verify(&place, &item, 4);
    let expected = json!({ "work": { "trace_id": item, "epoch": 1, "phase": "DRAFT" } });
    assert_eq!(links(&place, session), expected);
}

#[test]
fn what_a_tool_prints_does_not_end_the_phase_where_the_descriptor_is_used() {
    let place = workspace();
    let item = open(&place, "say hello");
    let quoted = signal("DRAFT", "completed");
    let agent = format!("{}; echo '{quoted}'", says("DRAFT", "blocked"));
    let (code, news) = script(&place, &item, &[], &agent);
    assert_eq!(
        (code, &news["next_phase"], &news["channel"]),
        (3, &json!("BLOCKED"), &json!("descriptor"))
    );
    // With the descriptor alone nothing that is printed counts.
    let other = open(&place, "say it again");
    let (code, news) = script(&place, &other, &["--descriptor-only"], &format!("echo '{quoted}'"));
    assert_eq!((code, end(&news)), (3, "freed"));
    assert_eq!(types(&events(&place, &other)), ["work_opened", "lease_granted", "lease_released"]);
}

#[test]
fn a_printed_signal_counts_as_the_weaker_channel_and_is_recorded_as_that() {
    let place = workspace();
    let item = open(&place, "say hello");
    let agent =
        format!("echo thinking; printf '```json\\n%s\\n```\\n' '{}'", signal("DRAFT", "completed"));
    let (code, news) = script(&place, &item, &[], &agent);
    assert_eq!((code, &news["channel"]), (0, &json!("stdout")));
    let recorded = events(&place, &item);
    assert_eq!(recorded[2].1["channel"], json!("stdout"));
}

#[test]
fn whatever_else_an_agent_does_frees_the_item_and_says_why() {
    let (draft, review) = (signal("DRAFT", "completed"), signal("REVIEW", "completed"));
    let table: Vec<(&str, String, &str, bool)> = vec![
        (
            "a secret",
            "echo AKIAIOSFODNN7EXAMPLE >&2; exit 7".to_owned(),
            "ended with status 7, without a signal; it said: [",
            false,
        ),
        ("a crash", "kill -SEGV $$".to_owned(), "was ended by signal 11, without a signal", false),
        ("an error", "exit 7".to_owned(), "ended with status 7, without a signal", false),
        ("silence", "true".to_owned(), "ended with status 0, without a signal", false),
        ("a hang", "sleep 60".to_owned(), "did not end within 1 s, without a signal", false),
        (
            "two signals",
            format!("echo '{draft}'; echo '{review}'"),
            "2 exit signals were printed, and they differ",
            true,
        ),
        (
            "more after it",
            format!("echo '{draft}'; echo bye"),
            "an exit signal was printed, but 3 more bytes after it: it must be the last thing on standard output",
            true,
        ),
        (
            "another phase",
            says("REVIEW", "completed"),
            "phase mismatch: exit signal claims 'REVIEW' but session is in 'DRAFT'",
            true,
        ),
        (
            "a contradiction",
            format!("{}; exit 1", says("DRAFT", "completed")),
            "it said `completed`, but ended with status 1",
            true,
        ),
        (
            "no nonce",
            format!("echo '{draft}' >&$COUNTERSIGN_EXIT_FD"),
            "message 1 on the descriptor does not begin with the nonce",
            true,
        ),
        (
            "advice",
            "echo 'error: no key' >&2; echo 'hint: run `keys list`' >&2; exit 7".to_owned(),
            "ended with status 7, without a signal; it said: error: no key",
            false,
        ),
        ("no program", "exec /nowhere/agent".to_owned(), "ended with status 127", false),
    ];
    for (name, agent, reason, refused) in table {
        let place = workspace();
        let item = open(&place, "say hello");
        let (code, news) = script(&place, &item, &["--timeout", "1s"], &agent);
        assert_eq!((code, end(&news)), (3, "freed"), "{name}: {news}");
        let told = news["reason"].as_str().unwrap();
        assert!(told.starts_with(reason), "{name}: {told}");
        let recorded = events(&place, &item);
        let expected: &[&str] = match refused {
            true => &["work_opened", "lease_granted", "exit_refused", "lease_released"],
            false => &["work_opened", "lease_granted", "lease_released"],
        };
        assert_eq!(types(&recorded), expected, "{name}");
        verify(&place, &item, 4);
        verify(&place, recorded[1].1["session_id"].as_str().unwrap(), 0);
    }
}

#[test]
fn after_the_last_attempt_the_item_is_blocked() {
    let place = workspace();
    let item = open(&place, "say hello");
    let ends: Vec<String> = (0..2)
        .map(|_| end(&script(&place, &item, &["--attempts", "2"], "exit 7").1).to_owned())
        .collect();
    assert_eq!(ends, ["freed", "given_up"]);
    let shown = answer(&place, &["work", "show", &item]);
    assert_eq!(
        (&shown["state"]["phase"], &shown["state"]["blocked_from"]),
        (&json!("BLOCKED"), &json!("DRAFT"))
    );
    let recorded = events(&place, &item);
    let (_, last) = recorded.last().unwrap();
    assert_eq!(last["channel"], json!("runner"));
    assert_eq!(
        last["notes"],
        json!("given up after 2 attempts; the last one: ended with status 7, without a signal")
    );
}

#[test]
fn a_claim_by_hand_does_not_use_up_an_attempt() {
    let place = workspace();
    let item = open(&place, "say hello");
    for lease in ["1", "2"] {
        assert_eq!(super::done(&place, &["work", "claim", &item]), lease);
        super::done(&place, &["work", "release", &item, "--lease", lease]);
    }
    let ends: Vec<String> = (0..2)
        .map(|_| end(&script(&place, &item, &["--attempts", "2"], "exit 7").1).to_owned())
        .collect();
    assert_eq!(ends, ["freed", "given_up"]);
    let recorded = events(&place, &item);
    assert_eq!(
        recorded.last().unwrap().1["notes"],
        json!("given up after 2 attempts; the last one: ended with status 7, without a signal")
    );
    verify(&place, &item, 4);
}

#[test]
fn a_secret_that_an_agent_prints_or_notes_is_not_kept() {
    let place = workspace();
    let item = open(&place, "say hello");
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let said = signal("DRAFT", "completed").replace('}', &format!(",\"notes\":\"{secret}\"}}"));
    let agent = format!("echo {secret} $COUNTERSIGN_EXIT_NONCE; echo '{said}'");
    let (code, _) = script(&place, &item, &[], &agent);
    assert_eq!(code, 0);
    let nonces = std::process::Command::new("grep")
        .args(["-rl", secret])
        .arg(place.path().join(".countersign"))
        .arg(place.path().join("evidence"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&nonces.stdout), "");
}

#[test]
fn a_lease_is_kept_alive_while_the_agent_works() {
    let place = workspace();
    let item = open(&place, "say hello");
    let agent = format!("sleep 1.5; {}", says("DRAFT", "completed"));
    let (code, news) = script(&place, &item, &["--lease", "500ms"], &agent);
    assert_eq!((code, end(&news)), (0, "moved"), "{news}");
    let recorded = events(&place, &item);
    let renewals = types(&recorded).iter().filter(|it| **it == "lease_renewed").count();
    assert!(renewals >= 2, "{renewals}");
    verify(&place, &item, 4);
}

#[test]
fn an_agent_cannot_run_ci_but_ci_s_status_is_the_verdict() {
    for (command, code, next) in [("true", 0, "READY_FOR_REVIEW"), ("false", 3, "BLOCKED")] {
        let place = workspace();
        let item = super::done(&place, &["work", "open", "x", "--phase", "CI_PENDING"]);
        let refused = run(&place, &["work", "run", &item, "--", "true"]);
        assert_eq!(refused.code, 3, "{refused}");
        assert!(refused.stderr.contains("can only be claimed by the CI runner"), "{refused}");
        let ran = run(&place, &["work", "run", &item, "--ci", "--json", "--", command]);
        assert_eq!(ran.code, code, "{ran}");
        let recorded = events(&place, &item);
        let (_, left) = recorded.last().unwrap();
        assert_eq!((&left["next_phase"], &left["channel"]), (&json!(next), &json!("runner")));
        assert_eq!(left["ci"]["exit_status"], json!(code.min(1)));
        verify(&place, &item, 4);
    }
}

#[test]
fn an_agent_that_leaves_with_a_command_has_left() {
    let place = workspace();
    let item = open(&place, "say hello");
    let binary = super::command(&place, &[]).get_program().to_string_lossy().into_owned();
    let agent = format!("echo '{}' | {binary} work exit {item}", signal("DRAFT", "completed"));
    let (code, news) = script(&place, &item, &[], &agent);
    assert_eq!((code, end(&news), &news["channel"]), (0, "moved", &json!("agent")), "{news}");
    let recorded = events(&place, &item);
    assert_eq!(recorded[2].1["channel"], json!("agent"));
}

#[test]
fn a_command_of_the_agent_does_not_end_a_phase_that_the_descriptor_alone_ends() {
    let place = workspace();
    let item = open(&place, "say hello");
    let binary = super::command(&place, &[]).get_program().to_string_lossy().into_owned();
    let said = signal("DRAFT", "completed");
    let tool = format!("echo '{said}' | {binary} work exit {item}");
    // Without what it was started with it looks like a person, which does not help it either.
    let hidden = "env -u COUNTERSIGN_SESSION";
    let hidden = format!("echo '{said}' | {hidden} {binary} work exit {item} --as agent");
    let agent = format!("{tool}; {hidden}; {}", says("DRAFT", "blocked"));
    let (code, news) = script(&place, &item, &["--descriptor-only"], &agent);
    let (next, channel) = (&news["next_phase"], &news["channel"]);
    assert_eq!((code, next, channel), (3, &json!("BLOCKED"), &json!("descriptor")), "{news}");
    let recorded = events(&place, &item);
    let expected = ["work_opened", "lease_granted", "exit_refused", "exit_refused"];
    assert_eq!(types(&recorded)[..4], expected);
    let channels = [&recorded[2].1["channel"], &recorded[3].1["channel"]];
    assert_eq!(channels, [&json!("agent"), &json!("operator")]);
    verify(&place, &item, 4);
}

/// The lease is long: the next renewal would come after 20 s.
#[test]
fn an_agent_whose_lease_is_taken_away_is_ended_at_once() {
    let place = workspace();
    let item = open(&place, "say hello");
    let binary = super::command(&place, &[]).get_program().to_string_lossy().into_owned();
    let taken = format!("{binary} work release {item} --force --reason 'it hangs' >&2");
    let agent = format!("({taken}) & sleep 30; {}", says("DRAFT", "completed"));
    let began = std::time::Instant::now();
    let (code, news) = script(&place, &item, &["--lease", "60s"], &agent);
    assert_eq!((code, end(&news)), (3, "lost"), "{news}");
    assert!(began.elapsed().as_secs() < 15, "{:?}", began.elapsed());
    let recorded = events(&place, &item);
    assert_eq!(types(&recorded), ["work_opened", "lease_granted", "lease_released"]);
    verify(&place, recorded[1].1["session_id"].as_str().unwrap(), 0);
}

#[test]
fn a_session_says_whether_its_agent_did_its_work() {
    let table = [
        (says("DRAFT", "completed"), "achieved", "did its work: the agent ended with status 0"),
        (
            says("DRAFT", "blocked"),
            "not-achieved",
            "did not do its work: the agent ended with status 0",
        ),
        ("exit 7".to_owned(), "not-achieved", "did not do its work: the agent ended with status 7"),
        (
            format!("{}; exit 7", says("DRAFT", "completed")),
            "not-achieved",
            "did not do its work: the agent ended with status 7",
        ),
    ];
    for (agent, outcome, told) in table {
        let place = workspace();
        let item = open(&place, "say hello");
        script(&place, &item, &[], &agent);
        let recorded = events(&place, &item);
        let session = recorded[1].1["session_id"].as_str().unwrap();
        let traces = answer(&place, &["trace", "list"]);
        let found = traces.as_array().unwrap().iter().find(|it| it["trace_id"] == session);
        assert_eq!(found.unwrap()["outcome"], json!(outcome), "{agent}: {traces}");
        let shown = super::done(&place, &["work", "show", &item]);
        assert!(shown.contains(&format!("  {session}  recording, {told}; ")), "{shown}");
        let sessions = &answer(&place, &["work", "show", &item])["sessions"];
        assert_eq!(sessions[0]["outcome"], json!(outcome), "{sessions}");
        verify(&place, session, 0);
    }
}

#[test]
fn a_lease_that_somebody_made_longer_is_not_lost() {
    let place = workspace();
    let item = open(&place, "say hello");
    let binary = super::command(&place, &[]).get_program().to_string_lossy().into_owned();
    let agent = format!(
        "{binary} work renew {item} --for 1h > /dev/null; sleep 1; {}",
        says("DRAFT", "completed")
    );
    let (code, news) = script(&place, &item, &["--lease", "600ms"], &agent);
    assert_eq!((code, end(&news)), (0, "moved"), "{news}");
}
