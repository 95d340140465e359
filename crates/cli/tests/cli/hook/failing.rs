//! Whatever fails in ours denies, unless the user chose otherwise.

use std::fs;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::json;

use super::player::{Fate, Player};
use super::{after, before, claude, hook, hook_with, verify_all, workspace};
use crate::place::Place;

#[test]
fn without_a_workspace_everything_is_denied() {
    let place = Place::empty();
    assert_snapshot!(hook(&place, &before(&place, "t", "Bash", &json!({ "command": "ls" }))), @r"
    exit 2
    --- stdout

    --- stderr
    error: no workspace in `$PLACE` or above
      countersign could not record this call, so it is denied
    hint: run `countersign init` to make one here
    ");
    let input = before(&place, "t", "Bash", &json!({ "command": "ls" })).to_string();
    let chosen = hook_with(&place, &["--on-failure", "allow"], input.as_bytes());
    assert_snapshot!(chosen, @r#"
    exit 0
    --- stdout
    {"systemMessage":"countersign could not record this: no workspace in `$PLACE` or above"}

    --- stderr
    error: no workspace in `$PLACE` or above
    hint: run `countersign init` to make one here
    "#);
}

#[test]
fn input_that_cannot_be_read_is_denied() {
    let place = workspace();
    let call = before(&place, "t", "Bash", &json!({ "command": "ls" })).to_string();
    let twice = call.replacen('{', "{\"tool_name\":\"Read\",", 1);
    let cut = &call[..call.len() - 1];
    let inputs: [&[u8]; 6] =
        [b"", b"nonsense", b"[1]", b"{\"session_id\":\"\xff\"}", twice.as_bytes(), cut.as_bytes()];
    for input in inputs {
        let answer = hook_with(&place, &[], input);
        assert_eq!((answer.code, answer.stdout()), (2, ""), "{answer}");
        assert!(answer.stderr.contains("so it is denied"), "{answer}");
    }
    let much = vec![b' '; (32 << 20) + 1];
    assert_snapshot!(hook_with(&place, &[], &much), @r"
    exit 2
    --- stdout

    --- stderr
    error: the input has 33554433 bytes or more, the limit is 33554432
      countersign could not record this call, so it is denied
    ");
    assert_eq!(hook_with(&place, &["--no-such-option"], call.as_bytes()).code, 2);
}

#[test]
fn broken_keys_deny() {
    let place = workspace();
    fs::remove_dir_all(place.path().join("config")).unwrap();
    let answer = hook(&place, &before(&place, "t", "Bash", &json!({ "command": "ls" })));
    assert_eq!((answer.code, answer.stdout()), (2, ""), "{answer}");
}

#[test]
fn a_store_that_cannot_be_written_denies_and_is_sound_afterwards() {
    let player = Player::new();
    assert_eq!(player.bash("toolu_01", "touch first"), Fate::Ran);
    // The system ends whoever writes too much, or says that it cannot be.
    for (number, prelude) in ["ulimit -f 0; ", "trap '' XFSZ; ulimit -f 0; "].iter().enumerate() {
        let file = format!("made{number}");
        let fate =
            player.bash_after(prelude, &format!("toolu_1{number}"), &format!("touch {file}"));
        assert!(matches!(fate, Fate::Refused(_)), "{prelude}: {fate:?}");
        assert!(!player.place.path().join(file).exists());
    }
    // What is told afterwards stops nobody.
    let traces = player.place.path().join(".countersign/artifacts");
    let aside = player.place.path().join("aside");
    fs::rename(&traces, &aside).unwrap();
    fs::write(&traces, "").unwrap();
    let fate = player.bash("toolu_20", "touch made20");
    assert!(matches!(&fate, Fate::Refused(why) if why.contains("so it is denied")), "{fate:?}");
    let told = player.ran("toolu_01", "touch first");
    assert_eq!(told.status.code(), Some(0));
    let said = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(said.starts_with("{\"systemMessage\":\"countersign could not record this: "), "{said}");
    fs::remove_file(&traces).unwrap();
    fs::rename(&aside, &traces).unwrap();
    assert_eq!(player.bash("toolu_30", "touch last"), Fate::Ran);
    verify_all(&player.place);
}

#[test]
fn whoever_waits_too_long_is_denied() {
    let place = workspace();
    // Input that never ends.
    let mut command = place.command(&["hook", "claude-code", "--deadline", "1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let open = child.stdin.take().unwrap();
    let ended = child.wait_with_output().unwrap();
    drop(open);
    assert_eq!(ended.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&ended.stderr),
        "error: no answer within 1 seconds\n  countersign could not record this call, so it is denied\n"
    );
    // Somebody who holds the lock and does not let go.
    fs::create_dir(place.path().join(".countersign/agents")).unwrap();
    let lock = fs::File::create(place.path().join(".countersign/agents/lock")).unwrap();
    lock.lock().unwrap();
    let input = before(&place, "t", "Bash", &json!({ "command": "ls" })).to_string();
    let late = hook_with(&place, &["--deadline", "1"], input.as_bytes());
    assert_eq!((late.code, late.stdout()), (2, ""), "{late}");
    lock.unlock().unwrap();
    assert_eq!(hook_with(&place, &["--deadline", "9"], input.as_bytes()).code, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_nobody_reads_is_a_refusal() {
    let place = workspace();
    let mut command = place.command(&["hook", "claude-code"]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let mut child = command.spawn().unwrap();
    let input = before(&place, "t", "Bash", &json!({ "command": "npm publish" })).to_string();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(2));
}

#[test]
fn an_answer_that_nowhere_can_be_written_to_is_a_refusal() {
    let player = Player::new();
    let line = player.line("PreToolUse");
    for closed in [" >&-", " >/dev/null"] {
        let line = line.replace(" || ", &format!("{closed} || "));
        assert!(line.contains(closed), "{line}");
        for command in ["rm -rf .countersign", "npm publish"] {
            let call = before(&player.place, "t", "Bash", &json!({ "command": command }));
            let ended = player.start(&line, "", &call).wait_with_output().unwrap();
            assert!(matches!(Player::fate(&ended), Fate::Refused(_)), "{command}{closed}");
        }
        // Where nothing is to be said, nobody has to hear it.
        let call = before(&player.place, "t", "Bash", &json!({ "command": "ls" }));
        let ended = player.start(&line, "", &call).wait_with_output().unwrap();
        assert_eq!(Player::fate(&ended), Fate::Ran, "{closed}");
    }
}

#[test]
fn the_end_of_something_is_never_held_up_by_a_failure() {
    let place = Place::empty();
    for input in [
        after(&place, "t", "Bash", &json!({ "command": "ls" }), &json!({})),
        claude(&place, "SessionEnd", &json!({ "reason": "other" })),
        claude(&place, "SubagentStop", &json!({ "agent_id": "a", "stop_hook_active": false })),
    ] {
        let answer = hook(&place, &input);
        assert_eq!(answer.code, 0, "{answer}");
        assert!(answer.stdout().starts_with("{\"systemMessage\":"), "{answer}");
    }
}
