//! Whole screens, as people see them.

use insta::assert_snapshot;
use serde_json::json;

use super::event::valid_event;
use super::exit_signal;
use crate::binary::run;

#[test]
fn json_that_is_valid() {
    assert_snapshot!(run(&["check", "json"], "{\"b\": 1.0, \"a\": \"\\u00e9\"}\n"), @r#"
        exit 0
        --- stdout
        {"a":"é","b":1}
        --- stderr
        "#);
}

#[test]
fn json_that_is_not_valid() {
    assert_snapshot!(run(&["check", "json"], "{\"a\": 1,\n \"a\": 2}"), @r"
        exit 3
        --- stdout

        --- stderr
        error: not valid: duplicate key `a` at line 2 column 2
        ");
}

#[test]
fn json_answers_as_json() {
    assert_snapshot!(run(&["check", "json", "--json"], "[\"\u{202e}\"]"), @r#"
        exit 0
        --- stdout
        {"valid":true,"kind":"json","canonical":"[\"\u202e\"]"}

        --- stderr
        "#);
    assert_snapshot!(run(&["check", "json", "--json"], "[1,\n [01]]"), @r#"
        exit 3
        --- stdout
        {"valid":false,"kind":"json","faults":[{"pointer":"/1/0","message":"expected no digit after a leading zero","line":2,"column":4}]}

        --- stderr
        "#);
}

#[test]
fn ledger_line_that_is_not_canonical() {
    assert_snapshot!(run(&["check", "ledger-line"], "{\"b\":1,\"a\":2}\n"), @r"
        exit 3
        --- stdout

        --- stderr
        error: not valid: not canonical: key order at line 1 column 9
        ");
}

#[test]
fn event_with_three_faults() {
    let mut event = valid_event();
    event["created_at"] = json!("2026-01-31");
    event["payload_hash"] = json!("AB");
    event["payload"]["remark"] = json!(["fine", "cafe\u{301}"]);
    assert_snapshot!(run(&["check", "event"], event.to_string()), @r"
        exit 3
        --- stdout

        --- stderr
        error: not a valid event: 3 faults
          /created_at: a time is written `2026-01-31T23:59:59.123Z`: UTC, milliseconds, an existing date
          /payload_hash: a hash is 64 lowercase hexadecimal digits
          /payload/remark/1: text is not in Unicode normalisation form C
        ");
    assert_snapshot!(run(&["check", "event", "--json"], event.to_string()), @r#"
        exit 3
        --- stdout
        {"valid":false,"kind":"event","faults":[{"pointer":"/created_at","message":"a time is written `2026-01-31T23:59:59.123Z`: UTC, milliseconds, an existing date"},{"pointer":"/payload_hash","message":"a hash is 64 lowercase hexadecimal digits"},{"pointer":"/payload/remark/1","message":"text is not in Unicode normalisation form C"}]}

        --- stderr
        "#);
}

#[test]
fn event_that_is_valid() {
    assert_snapshot!(run(&["check", "event"], valid_event().to_string()), @r"
        exit 0
        --- stdout

        --- stderr
        valid
        ");
}

const ACTION: &str = r#"{"action_id":"act_0001","action_type":"tool_call","duration_ms":45,
    "input_hash":"582967534d0f909d196b97f9e6921342777aea87b46fa52df165389db1fb8ccf",
    "instruction_hash":"de7d1b721a1e0632b7cf04edf5032c8ecffa9f9a08492152b926f1a5a7e765d7",
    "output_hash":"762069bc07a6e1b5df123a5ae7bd91c10daa04694fbaa17fba0cd6a8dcce8f22",
    "success":true,"timestamp":"2024-01-15T10:30:00Z"}"#;

#[test]
fn receipt() {
    assert_snapshot!(run(&["check", "receipt"], ACTION), @r"
        exit 0
        --- stdout
        4bd6cf3e9e9c1038585dc8650e7b529fe47bb66b5d403fa04efcfc4d20faf56d

        --- stderr
        ");
    assert_snapshot!(run(&["check", "receipt", "--json"], ACTION), @r#"
        exit 0
        --- stdout
        {"valid":true,"kind":"receipt","hash":"4bd6cf3e9e9c1038585dc8650e7b529fe47bb66b5d403fa04efcfc4d20faf56d","form":12,"receipt_kind":"action","canonical":"{\"action_id\":\"act_0001\",\"action_type\":\"tool_call\",\"duration_ms\":45,\"gate_decision\":null,\"gate_score\":null,\"input_hash\":\"582967534d0f909d196b97f9e6921342777aea87b46fa52df165389db1fb8ccf\",\"instruction_hash\":\"de7d1b721a1e0632b7cf04edf5032c8ecffa9f9a08492152b926f1a5a7e765d7\",\"output_hash\":\"762069bc07a6e1b5df123a5ae7bd91c10daa04694fbaa17fba0cd6a8dcce8f22\",\"parent_action_id\":null,\"parent_receipt_hash\":null,\"success\":true,\"timestamp\":\"2024-01-15T10:30:00Z\"}"}

        --- stderr
        "#);
    assert_snapshot!(run(&["check", "receipt"], ACTION.replace("45", "\"45\"")), @r"
        exit 3
        --- stdout

        --- stderr
        error: not a valid receipt: 1 fault
          /duration_ms: must be an integer, found a string
        ");
}

fn signal(version: &str) -> String {
    json!({
        "protocol": "apm2_agent_exit", "version": version,
        "phase_completed": "REVIEW", "exit_reason": "completed",
    })
    .to_string()
}

#[test]
fn exit_signals() {
    assert_snapshot!(exit_signal::check(&[], None, signal("1.0.0")), @r"
        exit 3
        --- stdout

        --- stderr
        error: exit signal validation is disabled (AGENT_EXIT_PROTOCOL_ENABLED=false)
        hint: set `AGENT_EXIT_PROTOCOL_ENABLED=true` to have it checked
        ");
    assert_snapshot!(exit_signal::check(&[], Some("true"), signal("1.0.0")), @r"
        exit 0
        --- stdout
        READY_FOR_MERGE

        --- stderr
        ");
    assert_snapshot!(exit_signal::check(&[], Some("true"), signal("2.0.0")), @r"
        exit 3
        --- stdout

        --- stderr
        error: unsupported version: expected '1.x', got '2.0.0'
        ");
    assert_snapshot!(
        exit_signal::check(&["--phase", "IMPLEMENTATION"], Some("true"), signal("1.0.0")),
        @r"
        exit 3
        --- stdout

        --- stderr
        error: phase mismatch: exit signal claims 'REVIEW' but session is in 'IMPLEMENTATION'
        "
    );
}

#[test]
fn output_envelope_with_faults() {
    let envelope = json!({
        "success": false, "summary": "", "next_recommendation": "proceed",
        "artifacts": [{ "path": "../x", "operation": "overwrite", "content": "" }],
    });
    assert_snapshot!(run(&["check", "output-envelope"], envelope.to_string()), @r"
        exit 3
        --- stdout

        --- stderr
        error: not a valid output envelope: 4 faults
          /summary: must not be empty
          /artifacts/0/path: path has a `..` component
          /artifacts/0/operation: must be one of: create, update; write `update` instead of `overwrite`
          /recommendation: missing: write `recommendation` instead of `next_recommendation`
        ");
}

#[test]
fn kind_that_is_not_known() {
    assert_snapshot!(run(&["check", "jsn"], ""), @r"
        exit 2
        --- stdout

        --- stderr
        error: invalid value 'jsn' for '<KIND>'
          [possible values: json, ledger-line, event, receipt, exit-signal, input-envelope, output-envelope, task, flow, agent]

          tip: a similar value exists: 'json'

        For more information, try '--help'.
        ");
}

#[test]
fn file_that_is_missing() {
    assert_snapshot!(run(&["check", "json", "missing.json"], ""), @r"
        exit 1
        --- stdout

        --- stderr
        error: cannot read `missing.json`
          caused by: no such file or directory
        ");
}

#[test]
fn help() {
    assert_snapshot!(run(&["check", "--help"], ""), @r"
        exit 0
        --- stdout
        Is this document valid?

        Exits with 0 if it is, and with 3 and the reason if it is not. `json` prints exactly the canonical
        bytes, `receipt` the hash, `exit-signal` the next phase, `task` and `flow` a summary. `agent` runs a
        program. Exit signals are looked at only where the environment says
        `AGENT_EXIT_PROTOCOL_ENABLED=true`.

        Usage: countersign check [OPTIONS] <KIND> [FILE|-] [-- <CMD>...]

        Arguments:
          <KIND>
                  What the document should be

                  Possible values:
                  - json:            JSON that every reader takes alike; prints its canonical form (RFC
                    8785)
                  - ledger-line:     One line of a trace: the canonical bytes of an object, and at most its
                    line break
                  - event:           An event with the members of its schema, in whatever bytes; see
                    `ledger-line` for those
                  - receipt:         A receipt, an action or its hashed fields; prints the receipt hash
                  - exit-signal:     What an agent says when it leaves a phase of work; prints the phase
                    that follows
                  - input-envelope:  What an agent is given
                  - output-envelope: What an agent gives back
                  - task:            A task file (TOML), with what a session is for; prints who takes part
                    and what is done
                  - flow:            A flow file (TOML), with the agents that are composed; prints its steps
                  - agent:           An agent, run with a battery of envelopes: `check agent -- CMD…`

          [FILE|-]
                  The document; without it, or with `-`, standard input is read

          [CMD]...
                  With `agent`: its command, after `--`

        Options:
              --home <DIR>
                  The workspace's store, instead of `.countersign` here or in a directory above

              --phase <PHASE>
                  With `exit-signal`: the phase that the session holds, or `none`

              --json
                  Answer as JSON on standard output

              --migrate
                  With an envelope: print it in the present form, and say what was changed

              --action <NAME>
                  With `agent`: what it is asked to do

              --params <JSON>
                  With `agent`: what it needs for that, a JSON object

              --path <NAME=PATH>
                  With `agent`: a file that it is given, by its name in `paths`

              --seconds <N>
                  With `agent`: the seconds that each answer may take

          -h, --help
                  Print help (see a summary with '-h')

        --- stderr
        ");
}
