//! Keys from the command line: replaced, ended, protected, trusted.

use std::fs;

use countersign_format::key::KeyId;
use countersign_testkit::{TestHome, note};
use insta::assert_snapshot;
use serde_json::Value;

use crate::binary::Screen;
use crate::place::Place;

/// The screen with new key ids, which no test can know, as `$KEY`.
fn without_ids(screen: &Screen) -> String {
    let text = screen.to_string();
    let is_key = |word: &&str| word.parse::<KeyId>().is_ok();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(is_key).fold(text.clone(), |text, key| text.replace(key, "$KEY"))
}

fn log_of(home: &TestHome) -> Vec<Value> {
    let text = fs::read_to_string(home.path().join("log/events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The records of `keys list --json` that belong to this agent.
fn listed(place: &Place, agent: &str) -> Vec<Value> {
    let list = place.run(&["keys", "list", "--json"]);
    assert_eq!((list.code, list.stderr.as_str()), (0, ""));
    let all: Vec<Value> = serde_json::from_slice(&list.stdout).unwrap();
    all.into_iter().filter(|key| key["agent_id"] == agent).collect()
}

#[test]
fn keys_are_rotated_revoked_and_protected() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_snapshot!(place.run(&["keys", "list"]), @r"
    exit 0
    --- stdout
    agent      role      status   key                               since
    root       root      active   ce936d56edf2b82497abbfaa599ce746  2026-02-03T04:05:06.000Z
    auditor    auditor   active   1356f3c45232a70a619958ae3ff00052  2026-02-03T04:05:06.000Z
    critic     critic    active   e7416aa9bc0ee12a096ba12bc6ac9908  2026-02-03T04:05:06.000Z
    executor   executor  active   12a58cb03a0a1488b392ccd0dab934f3  2026-02-03T04:05:06.000Z
    operator   operator  active   4d007077290cc77f8d19a3be7b37f9b3  2026-02-03T04:05:06.000Z
    planner    planner   active   6f57f266409d5fe70a0d9fd07cf6e110  2026-02-03T04:05:06.000Z
    recorder   recorder  active   74b2e759f10cbb5e749af1a968ed8b8e  2026-02-03T04:05:06.000Z

    --- stderr
    root fingerprint: ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd
    ");
    assert_eq!(place.run(&["keys", "rotate", "critic"]).code, 0);
    let refused = place.run(&["keys", "rotate", "root"]);
    assert_eq!(refused.code, 3, "{refused}");
    assert_eq!(place.run(&["keys", "revoke", "planner", "--reason", "left the team"]).code, 0);
    let protect = place.run_with(&["keys", "protect"], b"correct horse\n");
    assert_eq!(protect.code, 0, "{protect}");
    let wrong = place.run_with(&["keys", "protect", "--remove"], b"wrong horse\n");
    assert_eq!(wrong.code, 1, "{wrong}");
    assert_eq!(place.run_with(&["keys", "protect", "--remove"], b"correct horse\n").code, 0);
    assert_eq!(home.verify_log().failures, []);
}

#[test]
fn a_key_file_open_to_others_is_refused_with_the_command_that_mends_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let root = home.workspace.root().to_hex();
    let file = home.config().join("keys").join(&root).join(format!("{}.json", &root[..32]));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let refused = place.run(&["keys", "rotate", "critic"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("chmod 600 "), "{refused}");
}

#[test]
fn rotating_a_protected_key_asks_for_its_passphrase_and_protects_the_new_key() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_eq!(place.run_with(&["keys", "protect"], b"correct horse\n").code, 0);
    let before = log_of(&home);
    assert_snapshot!(place.run_with(&["keys", "rotate", "operator"], b"wrong horse\n"), @r"
    exit 1
    --- stdout

    --- stderr
    error: the passphrase is wrong, or the key file was altered
    hint: if the passphrase is lost, run `countersign keys revoke operator --reason …`, then `countersign keys rotate operator`
    ");
    assert_snapshot!(place.run(&["keys", "rotate", "operator"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: no passphrase was given
    hint: it is asked for on the terminal, else read from standard input
    ");
    assert_eq!(log_of(&home), before, "nothing is recorded before the passphrase is right");

    let rotated = place.run_with(&["keys", "rotate", "operator"], b"correct horse\n");
    assert_snapshot!(without_ids(&rotated), @r"
    exit 0
    --- stdout
    operator: $KEY replaced by $KEY, under the same passphrase

    --- stderr
    ");
    let keys = listed(&place, "operator");
    let kept: Vec<_> = keys.iter().map(|key| (&key["status"], &key["private_key"])).collect();
    assert_eq!(
        kept,
        [
            (&Value::from("rotated"), &Value::from("passphrase")),
            (&Value::from("active"), &Value::from("passphrase"))
        ]
    );
    assert_eq!(place.run_with(&["keys", "protect", "--remove"], b"correct horse\n").code, 0);
    assert_eq!(listed(&place, "operator")[1]["private_key"], "plain");
    assert_eq!(home.verify_log().failures, []);
}

#[test]
fn an_operator_key_that_replaces_a_protected_one_after_its_revocation_says_that_it_is_plain() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_eq!(place.run_with(&["keys", "protect"], b"forgotten\n").code, 0);
    assert_eq!(place.run(&["keys", "revoke", "operator", "--reason", "forgotten"]).code, 0);
    assert_snapshot!(place.run(&["keys", "protect"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: there is no active operator key
    hint: run `countersign keys rotate operator` to make one
    ");
    assert_snapshot!(without_ids(&place.run(&["keys", "rotate", "operator"])), @r"
    exit 0
    --- stdout
    operator: had no active key, has $KEY now

    --- stderr
    hint: the new key has no passphrase; run `countersign keys protect` to put it under one
    ");
}

#[test]
fn a_wrong_mode_is_no_way_around_the_passphrase() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_eq!(place.run_with(&["keys", "protect"], b"correct horse\n").code, 0);
    let operator = home.workspace.find_key("operator").unwrap().key_id;
    let keys = home.config().join("keys").join(home.workspace.root().to_hex());
    let file = keys.join(format!("{operator}.json"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let refused = place.run(&["keys", "rotate", "operator"]);
    assert_eq!(refused.code, 1, "{refused}");
    assert!(refused.stderr.contains("chmod 600 "), "{refused}");
    assert_eq!(log_of(&home).len(), 7);
}

#[test]
fn protect_looks_at_the_key_before_it_asks_for_anything() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_snapshot!(place.run(&["keys", "protect", "--remove"]), @r"
    exit 3
    --- stdout

    --- stderr
    error: the private key `4d007077290cc77f8d19a3be7b37f9b3` is not protected by a passphrase
    hint: run `countersign keys protect` to put it under one
    ");
    assert_eq!(place.run_with(&["keys", "protect"], b"correct horse\n").code, 0);
    assert_snapshot!(place.run(&["keys", "protect"]), @r"
    exit 3
    --- stdout

    --- stderr
    error: the operator's key 4d007077290cc77f8d19a3be7b37f9b3 is protected already
    hint: run `countersign keys protect --remove` first to change the passphrase
    ");
}

#[test]
fn an_agent_whose_key_was_revoked_gets_a_new_one_by_rotating() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let old = home.workspace.find_key("planner").unwrap().key_id;
    assert_snapshot!(place.run(&["keys", "revoke", "planner", "--reason", "left the team"]), @r"
    exit 0
    --- stdout
    planner: 6f57f266409d5fe70a0d9fd07cf6e110 revoked

    --- stderr
    hint: `planner` has no active key now and can sign nothing here; `countersign keys rotate planner` gives it a new one
    ");
    assert_snapshot!(place.run(&["keys", "revoke", "planner", "--reason", "again"]), @r"
    exit 3
    --- stdout

    --- stderr
    error: no active key planner in the log
    hint: `countersign keys rotate planner` gives it a new one
    ");
    let refused = place.run(&["keys", "rotate", &old]);
    assert_eq!(refused.code, 3, "a retired key stays retired: {refused}");
    assert_snapshot!(without_ids(&place.run(&["keys", "rotate", "planner"])), @r"
    exit 0
    --- stdout
    planner: had no active key, has $KEY now

    --- stderr
    ");
    let last = log_of(&home).pop().unwrap();
    assert_eq!(last["event_type"], "key_added");
    let active = home.reopen().find_key("planner").unwrap().key_id;
    assert_eq!(last["payload"]["identity"]["key_id"], active);
    assert_ne!(active, old);
    assert_eq!(home.verify_log().failures, []);
}

#[test]
fn without_a_recorder_nothing_is_recorded_until_it_is_rotated() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let id = home.recording().id();
    assert_snapshot!(place.run(&["keys", "revoke", "recorder", "--reason", "stolen"]), @r"
    exit 0
    --- stdout
    recorder: 74b2e759f10cbb5e749af1a968ed8b8e revoked

    --- stderr
    hint: nothing can be recorded in this workspace until `countersign keys rotate recorder`
    ");
    let refused = home.reopen().recording(id).unwrap().submit(note("too late")).unwrap_err();
    assert_eq!(refused.to_string(), "the workspace has no active key for `recorder`");
    assert_eq!(place.run(&["keys", "rotate", "recorder"]).code, 0);
    home.reopen().recording(id).unwrap().submit(note("once more")).unwrap();
    assert_eq!(home.verify(id).failures, []);
    assert_eq!(home.verify(id).metrics.events, 2);
    assert_eq!(home.verify_log().failures, []);
}

#[test]
fn a_name_that_means_nothing_is_a_mistake_and_the_root_an_answer() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_snapshot!(place.run(&["keys", "rotate", "plannner"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: no agent or key `plannner` in this workspace
    hint: run `countersign keys list` to see which keys there are
    ");
    let unknown = "0".repeat(32);
    let revoked = place.run(&["keys", "revoke", &unknown, "--reason", "none"]);
    assert_eq!(revoked.code, 1, "{revoked}");
    assert!(revoked.stderr.contains("hint: run `countersign keys list`"), "{revoked}");
    let root = &home.workspace.root().to_hex()[..32];
    for arguments in [vec!["keys", "rotate", root], vec!["keys", "revoke", "root", "--reason", "x"]]
    {
        let refused = place.run(&arguments);
        assert_eq!(refused.code, 3, "{refused}");
    }
    assert_eq!(log_of(&home).len(), 7);
}

#[test]
fn the_list_as_json_tells_what_an_export_does_not() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_eq!(place.run_with(&["keys", "protect"], b"correct horse\n").code, 0);
    let critic = home.workspace.find_key("critic").unwrap().key_id;
    let root = home.workspace.root().to_hex();
    fs::remove_file(home.config().join("keys").join(&root).join(format!("{critic}.json"))).unwrap();
    let of = |agent: &str| {
        let keys = listed(&place, agent);
        (keys[0]["root"].clone(), keys[0]["private_key"].clone())
    };
    assert_eq!(of("root"), (Value::from(true), Value::from("plain")));
    assert_eq!(of("operator"), (Value::from(false), Value::from("passphrase")));
    assert_eq!(of("critic"), (Value::from(false), Value::from("unusable")));
    assert_eq!(listed(&place, "critic")[0]["key_id"], critic);

    let export: Vec<Value> =
        serde_json::from_slice(&place.run(&["keys", "export"]).stdout).unwrap();
    assert_eq!(export.len(), 7);
    for identity in export {
        assert_eq!((identity.get("root"), identity.get("private_key")), (None, None));
    }
}

#[test]
fn trusting_a_root_answers_as_json_where_that_is_asked_for() {
    let place = Place::empty();
    let root = "ab".repeat(32);
    let trusted = place.run(&["keys", "trust", &root, "--label", "the team", "--json"]);
    assert_eq!((trusted.code, &trusted.answer()["trusted"][0]), (0, &Value::from(root.as_str())));
    let removed = place.run(&["keys", "trust", &root, "--remove", "--json"]);
    assert_eq!((removed.code, &removed.answer()["removed"][0]), (0, &Value::from(root.as_str())));
    let again = place.run(&["keys", "trust", &root, "--remove", "--json"]);
    assert_eq!((again.code, &again.answer()["not_trusted"][0]), (3, &Value::from(root.as_str())));
    assert_snapshot!(place.run(&["keys", "trust", &root, "--remove"]), @r"
    exit 3
    --- stdout
    abababababababababababababababababababababababababababababababab: was not trusted

    --- stderr
    hint: run `countersign keys trust` to see which roots you trust
    ");
}

#[test]
fn options_of_trust_need_a_root() {
    let place = Place::empty();
    assert_snapshot!(place.run(&["keys", "trust", "--remove"]), @r"
    exit 2
    --- stdout

    --- stderr
    error: the following required arguments were not provided:
      <ROOT>

    Usage: countersign keys trust --remove <ROOT>

    For more information, try '--help'.
    ");
    assert_eq!(place.run(&["keys", "trust", "--label", "x"]).code, 2);
    assert_eq!(place.run(&["keys", "trust", &"ab".repeat(32), "--label", "x", "--remove"]).code, 2);
    assert_eq!(place.run(&["keys", "trust"]).code, 0);
}

#[test]
fn the_help_says_where_keys_lie_and_what_a_passphrase_stops() {
    let place = Place::empty();
    assert_snapshot!(place.run(&["keys", "--help"]), @r"
    exit 0
    --- stdout
    The keys that sign: list, replace, end, protect, hand out, trust

    Usage: countersign keys [OPTIONS] <COMMAND>

    Commands:
      list     All keys that the workspace log names, with their status
      rotate   Replace a key by a new one of the same agent; what it signed so far stays valid
      revoke   End a key; what it signed so far stays valid, and `keys rotate` gives the agent a new one
      protect  Put the operator's key under a passphrase, so that an agent cannot sign approvals as you
      export   Print the public records of all keys, for somebody who verifies without the log
      trust    Trust a root: traces that lead to it count as pinned
      help     Print this message or the help of the given subcommand(s)

    Options:
          --home <DIR>  The workspace's store, instead of `.countersign` here or in a directory above
          --json        Answer as JSON on standard output
      -h, --help        Print help

    Private keys and the roots that you trust lie outside of the workspace, as `keys/` and
    `known_roots` in $COUNTERSIGN_CONFIG, else in $XDG_CONFIG_HOME/countersign, else in
    ~/.config/countersign

    --- stderr
    ");
    assert_snapshot!(place.run(&["keys", "protect", "--help"]), @r"
    exit 0
    --- stdout
    Put the operator's key under a passphrase, so that an agent cannot sign approvals as you

    The passphrase is asked for on the terminal, else read from standard input: now, at each approval,
    and when the key is rotated.

    An agent that runs as the same user then cannot sign approvals with your key. But whoever can read
    the root key, and such an agent can unless it is kept out of the directory of keys, can still
    replace the operator's key by another one. That shows in the workspace log, as every change of keys
    does.

    Usage: countersign keys protect [OPTIONS]

    Options:
          --home <DIR>
              The workspace's store, instead of `.countersign` here or in a directory above

          --remove
              Take the passphrase off again

          --json
              Answer as JSON on standard output

      -h, --help
              Print help (see a summary with '-h')

    --- stderr
    ");
}
