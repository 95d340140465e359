//! `check agent`: a battery of envelopes against any program.

use super::{workspace, write};

const GOOD: &str = "cat >/dev/null\necho '{\"success\":false,\"summary\":\"not mine\",\
    \"artifacts\":[],\"notes\":[],\"recommendation\":\"escalate\"}'\n";

#[test]
fn an_agent_that_keeps_to_the_protocol_passes() {
    let place = workspace();
    write(&place, "good.sh", GOOD);
    let checked = place.run(&["check", "agent", "--", "sh", "good.sh"]);
    assert_eq!(checked.code, 0, "{checked}");
    assert_eq!(checked.stdout().lines().filter(|line| line.starts_with("ok  ")).count(), 10);
    let json = place.run(&["check", "agent", "--json", "--", "sh", "good.sh"]).answer();
    assert_eq!(
        (json["valid"].as_bool(), json["trials"].as_array().unwrap().len()),
        (Some(true), 10)
    );
}

#[test]
fn an_agent_that_leaves_the_protocol_is_told_where() {
    let place = workspace();
    let table = [
        ("cat >/dev/null\necho hello\n", "it printed no output envelope: invalid JSON"),
        ("cat >/dev/null\nexit 3\n", "it did not answer: ended with status 3"),
        ("cat >/dev/null\n", "it printed nothing"),
        ("cat >/dev/null\nsleep 9\n", "it did not answer: no end within 1 s"),
        (
            "cat >/dev/null\necho '{\"success\":true,\"summary\":\"x\",\"artifacts\":[],\
             \"next_recommendation\":\"proceed\"}'\n",
            "write `recommendation` instead of `next_recommendation`",
        ),
        (
            "cat >/dev/null\necho working\necho '{\"success\":true,\"summary\":\"x\",\
             \"artifacts\":[],\"recommendation\":\"proceed\"}'\n",
            "it printed no output envelope: invalid JSON",
        ),
        // Reads one line only, so that a large request breaks it or is left unread.
        ("grep -q Spec && exit 1\necho '{}'\n", "/success: missing"),
    ];
    for (script, fault) in table {
        write(&place, "bad.sh", script);
        let checked = place.run(&["check", "agent", "--seconds", "1", "--", "sh", "bad.sh"]);
        assert!(checked.code == 3 && checked.stdout().contains(fault), "{fault}: {checked}");
    }
    let usage = place.run(&["check", "agent"]);
    assert!(usage.code == 2 && usage.stderr.contains("check agent -- CMD"), "{usage}");
}
