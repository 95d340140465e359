//! Exit signals against the shared case files, and cases of our own beside them.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failing helper is a failing test"
)]

use countersign_format::exit::{
    AGENT_SESSION_COMPLETED_FIELDS, AgentSessionCompleted, EXIT_SIGNAL_FIELDS, ExitFlag,
    ExitReason, ExitSignal, ExitSignalError, HandlerRefusal, WorkPhase,
};
use countersign_format::shape::{Checker, Dialect, document_schema};
use serde_json::{Value, json};

#[expect(clippy::disallowed_methods, reason = "the cases lie in files")]
fn cases(name: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/cases/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("case file");
    text.lines().map(|line| serde_json::from_str(line).expect("case")).collect()
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn signal(members: &Value) -> String {
    let mut signal = json!({
        "protocol": "apm2_agent_exit", "version": "1.0.0",
        "phase_completed": "IMPLEMENTATION", "exit_reason": "completed",
    });
    for (key, value) in members.as_object().expect("members") {
        signal[key] = value.clone();
    }
    signal.to_string()
}

fn refusal(members: &Value) -> String {
    match ExitSignal::from_json(&signal(members)) {
        Ok(_) => panic!("taken: {members}"),
        Err(error) => error.to_string(),
    }
}

/// Names of cases that follow a reference that compares substrings where components are meant.
const COMPONENTS_NOT_SUBSTRINGS: [&str; 1] = ["evidence-triple-dot"];
/// Names of cases in which an error's cut is decided by bytes though it is made by characters.
const CUT_BY_CHARACTERS: [&str; 1] = ["pr_url-http-multibyte"];

#[test]
fn every_shared_case_has_its_outcome() {
    let all = cases("exit-cases.jsonl");
    assert_eq!(all.len(), 136);
    for case in all {
        let name = text(&case, "name");
        let enabled = case["enabled"].as_bool().expect("enabled");
        let flag = ExitFlag::from_env_value(enabled.then_some("true"));
        let result = ExitSignal::from_json_if_enabled(text(&case, "input"), flag);
        if COMPONENTS_NOT_SUBSTRINGS.contains(&name) {
            assert!(result.is_ok(), "{name}");
            continue;
        }
        let (expect, contains) = match text(&case, "recommend") {
            "reject" => ("error", ""),
            "unknown-protocol-error" => ("error", "unknown protocol: expected 'apm2_agent_exit'"),
            "unsupported-version-error" => ("error", "unsupported version: expected '1.x', got"),
            _ => (text(&case, "expect"), text(&case, "error_contains")),
        };
        match result {
            Ok(signal) => {
                assert_eq!(expect, "ok", "{name}");
                let next = signal.next_phase().expect(name);
                assert_eq!(next.as_str(), text(&case, "next_phase"), "{name}");
                let written = serde_json::to_string(&signal).expect("json");
                assert_eq!(written, text(&case, "canonical"), "{name}");
                if text(&case, "recommend") == "reject-at-handler" {
                    assert!(signal.check_for_phase(Some(signal.phase_completed)).is_err());
                }
            }
            Err(error) => {
                assert_eq!(expect, "error", "{name}: {error}");
                let contains = if CUT_BY_CHARACTERS.contains(&name) {
                    contains.trim_end_matches("...'")
                } else {
                    contains
                };
                assert!(error.to_string().contains(contains), "{name}: {error}");
            }
        }
    }
}

#[test]
fn every_flag_value_has_its_meaning() {
    for case in cases("exit-flag-cases.jsonl") {
        let flag = ExitFlag::from_env_value(case["env_value"].as_str());
        assert_eq!(flag == ExitFlag::Enabled, case["enabled"].as_bool().expect("bool"), "{case}");
    }
    for off in ["", " true", "true\n", "on", "y", "enabled", "01", "yeſ", "ＴＲＵＥ", "+1", "1.0"]
    {
        assert_eq!(ExitFlag::from_env_value(Some(off)), ExitFlag::Disabled, "{off}");
    }
    assert_eq!(ExitFlag::from_env_value(None), ExitFlag::Disabled);
    assert_eq!(ExitFlag::from_env_value(Some("yEs")), ExitFlag::Enabled);
}

#[test]
fn every_handler_case_has_its_outcome_but_nothing_leaves_completed() {
    for case in cases("exit-handler-cases.jsonl") {
        let name = text(&case, "name");
        let signal = ExitSignal::from_json(text(&case, "input")).expect(name);
        let active = case["active_phase"].as_str().map(|p| WorkPhase::parse(p).expect(name));
        let result = signal.check_for_phase(active);
        if active == Some(WorkPhase::Completed) {
            assert_eq!(result, Err(HandlerRefusal::AlreadyCompleted), "{name}");
            continue;
        }
        match result {
            Ok(next) => assert_eq!(next.as_str(), text(&case, "next_phase"), "{name}"),
            Err(refusal) => {
                assert_eq!(refusal.to_string(), text(&case, "error_contains"), "{name}");
            }
        }
    }
}

#[test]
fn every_hostile_signal_is_refused() {
    use base64::Engine as _;
    let mut seen = 0;
    for case in cases("hostile-json.jsonl") {
        if text(&case, "layer") != "schema:exit" {
            continue;
        }
        seen += 1;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text(&case, "bytes_b64"));
        let result = ExitSignal::from_json_bytes(&bytes.expect("base64"));
        assert!(result.is_err(), "{}", text(&case, "name"));
    }
    assert_eq!(seen, 10);
}

#[test]
fn the_table_of_transitions_holds_for_every_phase_and_reason() {
    for phase in WorkPhase::ALL {
        for reason in ExitReason::ALL {
            let signal = ExitSignal::new(phase, reason);
            let next = match (phase, reason) {
                (_, ExitReason::Blocked | ExitReason::Error) => Some(WorkPhase::Blocked),
                (phase, ExitReason::Completed) => phase.after_completion(),
            };
            assert_eq!(signal.next_phase().ok(), next);
            assert_eq!(signal.validate().is_ok(), next.is_some());
            let read = ExitSignal::from_json(&serde_json::to_string(&signal).expect("json"));
            assert_eq!(read.ok(), next.map(|_| signal));
        }
    }
    let error = ExitSignal::new(WorkPhase::Blocked, ExitReason::Completed).validate();
    assert_eq!(error, Err(ExitSignalError::NoTransition(WorkPhase::Blocked)));
}

#[test]
fn a_session_moves_only_the_phase_that_it_holds() {
    for claimed in WorkPhase::ALL {
        for reason in ExitReason::ALL {
            let signal = ExitSignal::new(claimed, reason);
            assert_eq!(signal.check_for_phase(None), Err(HandlerRefusal::NoActivePhase));
            for actual in WorkPhase::ALL {
                let result = signal.check_for_phase(Some(actual));
                if claimed != actual {
                    assert_eq!(result, Err(HandlerRefusal::PhaseMismatch { claimed, actual }));
                    continue;
                }
                let expected = match (actual, reason) {
                    (WorkPhase::Completed, _) => Err(HandlerRefusal::AlreadyCompleted),
                    (WorkPhase::Blocked, _) => Err(HandlerRefusal::Blocked),
                    (WorkPhase::CiPending, ExitReason::Completed) => {
                        Err(HandlerRefusal::OnlyCiRunner)
                    }
                    _ => Ok(signal.next_phase().expect("transition")),
                };
                assert_eq!(result, expected);
            }
        }
    }
    let ci = ExitSignal::new(WorkPhase::CiPending, ExitReason::Completed);
    assert_eq!(ci.check_for_ci_runner(Some(WorkPhase::CiPending)), Ok(WorkPhase::ReadyForReview));
}

#[test]
fn versions_are_ascii_semver_of_major_one() {
    for good in ["1.0.0", "1.1.0", "1.0.10", "1.99999999999999999999.0"] {
        assert!(ExitSignal::from_json(&signal(&json!({ "version": good }))).is_ok(), "{good}");
    }
    for bad in [
        "",
        "1",
        "1.",
        "1.0",
        "1.0.0.0",
        "01.0.0",
        "1.0.00",
        "1.0.01",
        " 1.0.0",
        "1.0.0\n",
        "1.+1.0",
        "1.-0.0",
        "1.0.0-rc.1",
        "1,0,0",
        "１.0.0",
        "1.०.0",
        "1.0.0\u{0}",
        "1.x",
        "1.0.x",
        "11.0.0",
        "3.1.4",
    ] {
        assert_eq!(
            refusal(&json!({ "version": bad })),
            format!("unsupported version: expected '1.x', got '{bad}'")
        );
    }
}

#[test]
fn protocol_and_version_are_read_before_everything_else() {
    let error = |text: &str| ExitSignal::from_json(text).expect_err(text).to_string();
    assert_eq!(
        error(r#"{"protocol":"other"}"#),
        "unknown protocol: expected 'apm2_agent_exit', got 'other'"
    );
    assert_eq!(
        error(r#"{"protocol":"other","version":2,"x":1}"#),
        "unknown protocol: expected 'apm2_agent_exit', got 'other'"
    );
    assert_eq!(
        error(r#"{"protocol":"apm2_agent_exit","version":"2.1.0","checks":[],"notes":5}"#),
        "unsupported version: expected '1.x', got '2.1.0'"
    );
    assert_eq!(error(r#"{"msg":"hi"}"#), "invalid JSON: missing field `protocol`");
    let long = "x".repeat(65);
    assert_eq!(
        refusal(&json!({ "protocol": long })),
        "protocol exceeds maximum length: 65 bytes > 64 bytes"
    );
}

#[test]
fn other_shapes_are_invalid_json() {
    for text in [
        "",
        " ",
        "null",
        "true",
        "1",
        "\"apm2_agent_exit\"",
        "[]",
        "{}{}",
        "[{}]",
        r#"["apm2_agent_exit","1.0.0","IMPLEMENTATION","completed",null,null,null]"#,
        r#"{"protocol":"apm2_agent_exit","protocol":"apm2_agent_exit"}"#,
        r#"{"protocol":"apm2_agent_exit","prot\u006fcol":"apm2_agent_exit"}"#,
        r#"{"notes":"\ud800"}"#,
    ] {
        let error = ExitSignal::from_json(text).expect_err(text).to_string();
        assert!(error.starts_with("invalid JSON: "), "{text}: {error}");
    }
    for after in ["{}", "x", ",", "\0", "}", "\u{b}", "\u{a0}", " null"] {
        let error = ExitSignal::from_json(&format!("{}{after}", signal(&json!({})))).unwrap_err();
        assert!(error.to_string().starts_with("invalid JSON: "), "{after:?}: {error}");
    }
    for field in EXIT_SIGNAL_FIELDS.fields {
        for wrong in [json!(1), json!(true), json!([]), json!({}), json!(["x"])] {
            let error = refusal(&json!({ field.name: wrong }));
            assert!(error.starts_with("invalid JSON: "), "{}: {error}", field.name);
        }
    }
    for field in ["protocol", "version", "phase_completed", "exit_reason"] {
        assert!(refusal(&json!({ field: null })).starts_with("invalid JSON: "), "{field}");
        let mut members: Value = serde_json::from_str(&signal(&json!({}))).expect("json");
        members.as_object_mut().expect("object").remove(field);
        let error = ExitSignal::from_json(&members.to_string()).unwrap_err().to_string();
        assert_eq!(error, format!("invalid JSON: missing field `{field}`"));
    }
    for members in [
        json!({ "phase_completed": "" }),
        json!({ "phase_completed": { "IMPLEMENTATION": null } }),
        json!({ "phase_completed": "ci_pending" }),
        json!({ "exit_reason": "COMPLETED" }),
        json!({ "exit_reason": " completed" }),
        json!({ "Notes": "x" }),
        json!({ "": "x" }),
        json!({ "work_id": "W-1" }),
    ] {
        assert!(refusal(&members).starts_with("invalid JSON: "), "{members}");
    }
    let error = ExitSignal::from_json_bytes(b"{\"protocol\":\"\xff\"}").unwrap_err();
    assert_eq!(error.to_string(), "invalid JSON: invalid UTF-8 at line 1 column 14");
}

#[test]
fn limits_are_bytes_and_inclusive() {
    let ok = |members: Value| ExitSignal::from_json(&signal(&members)).is_ok();
    assert!(ok(json!({ "notes": "x".repeat(10_240) })));
    assert!(ok(json!({ "notes": "é".repeat(5120) })));
    assert_eq!(
        refusal(&json!({ "notes": "é".repeat(5121) })),
        "notes exceeds maximum length: 10242 bytes > 10240 bytes"
    );
    assert!(ok(json!({ "evidence_bundle_ref": "x".repeat(2048) })));
    assert_eq!(
        refusal(&json!({ "evidence_bundle_ref": "x".repeat(2049) })),
        "evidence_bundle_ref exceeds maximum length: 2049 bytes > 2048 bytes"
    );
    let mut padded = signal(&json!({}));
    padded.push_str(&" ".repeat(65_536 - padded.len()));
    assert!(ExitSignal::from_json(&padded).is_ok());
    assert_eq!(
        ExitSignal::from_json(&format!("{padded} ")).unwrap_err().to_string(),
        "input too large: 65537 bytes > 65536 bytes maximum"
    );
    let long = "k".repeat(60_000);
    assert!(refusal(&json!({ long.clone(): 1 })).len() < 500);
    assert!(refusal(&json!({ "phase_completed": long })).len() < 500);
    assert!(refusal(&json!({ "pr_url": "x".repeat(2000) })).len() < 100);
}

#[test]
fn a_pull_request_is_an_https_url_with_a_plain_host() {
    for good in [
        "https://github.com/org/repo/pull/1",
        "https://git.example:8443/x",
        "https://a",
        "https://a?b",
        "https://a#b",
        "https://medium.com/@user",
        "https://[::1]/x",
        "https://[2001:db8::1]:443/x",
        "https://127.0.0.1/x",
        "https://github.com/org/repo/pull/1?a=1&b=(2)#%20",
        "https://github.com/ö/r/pull/1",
        "https://a_b.example/",
    ] {
        assert!(ExitSignal::from_json(&signal(&json!({ "pr_url": good }))).is_ok(), "{good}");
    }
    for bad in [
        "https://",
        "https:///x",
        "https://?x",
        "https://:443/x",
        "https://@/x",
        "https://a@b/x",
        "https://user:pw@github.com/x",
        "https://github.com%40evil.example@x",
        "https://github.com:x/",
        "https://a:65536/",
        "https://a:/",
        "https://.",
        "https://-a/",
        "https://gіthub.com/x",
        "https://%67ithub.com/",
        "https://[::1/x",
        "https://[::1]x/",
        "https://a..b/",
        "https://github.com\\@evil.example/",
        "https://a/\"x",
        "https://a/'x",
        "https://a/<x>",
        "https://a/\tx",
        "https://a/\nx",
        "https://a/\0",
        "https://a/\u{7f}",
        "https://a/\u{202e}x",
        "https://a/\u{a0}",
        "https://a/\u{200b}",
        "http://a/",
        "https:/a",
        "//a/x",
        "ftp://a/",
        "ssh://git@a/x",
        "Https://a/",
        "data:text/html,x",
        "\u{feff}https://a/",
        "a",
        "https://a/e\u{301}",
        "https://a b/",
    ] {
        let error = refusal(&json!({ "pr_url": bad }));
        assert!(error.starts_with("pr_url "), "{bad}: {error}");
    }
    assert_eq!(
        refusal(&json!({ "pr_url": "https://a/\nx" })),
        "pr_url contains potentially dangerous character: 'U+000A'"
    );
}

#[test]
fn evidence_is_a_relative_path() {
    for good in [
        "evidence/x.yaml",
        "./x",
        "a/./b",
        "a//b",
        "dir/",
        "v1..2",
        "...",
        "a..",
        "..a",
        "a b",
        "a/~b",
        "é",
        ".git/x",
        "sha256:abc",
    ] {
        let read = ExitSignal::from_json(&signal(&json!({ "evidence_bundle_ref": good })));
        assert!(read.is_ok(), "{good}: {read:?}");
    }
    for bad in ["/", "/x", "..", "../x", "a/..", "a/../b", "..\\x", "a\\..", "//server/x"] {
        assert_eq!(
            refusal(&json!({ "evidence_bundle_ref": bad })),
            "path traversal detected in evidence_bundle_ref: paths cannot contain '..' or start with '/'"
        );
    }
    for bad in [
        "",
        "~",
        "~/x",
        "~root",
        "C:",
        "C:/x",
        "c:x",
        "\\x",
        "a\\b",
        "\\\\server\\x",
        "a\nb",
        "a\0",
        "\u{1b}[2J",
        "a\u{202e}b",
        "file:///etc/passwd",
        "https://x/y",
        "cafe\u{301}",
    ] {
        let error = refusal(&json!({ "evidence_bundle_ref": bad }));
        assert!(error.starts_with("evidence_bundle_ref is not acceptable: "), "{bad}: {error}");
    }
}

#[test]
fn a_valid_signal_becomes_the_event_of_its_work_item() {
    let signal = ExitSignal::new(WorkPhase::Implementation, ExitReason::Completed)
        .with_pr_url("https://github.com/org/repo/pull/123")
        .with_evidence_bundle_ref("evidence/x.yaml")
        .with_notes("cafe\u{301}");
    let event = AgentSessionCompleted::from_exit_signal("session-123", "actor-456", signal);
    let written = serde_json::to_value(event.expect("valid")).expect("json");
    assert_eq!(
        written,
        json!({
            "session_id": "session-123", "actor_id": "actor-456", "phase_completed": "IMPLEMENTATION",
            "exit_reason": "completed", "next_phase": "CI_PENDING", "notes": "café",
            "pr_url": "https://github.com/org/repo/pull/123", "evidence_bundle_ref": "evidence/x.yaml",
        })
    );
    let mut checker = Checker::new(Dialect::V1_1);
    checker.object(&AGENT_SESSION_COMPLETED_FIELDS, &written);
    assert_eq!(checker.into_faults(), []);
    assert!(serde_json::from_value::<AgentSessionCompleted>(written).is_ok());

    let invalid = ExitSignal::new(WorkPhase::Review, ExitReason::Completed).with_pr_url("http://x");
    assert!(AgentSessionCompleted::from_exit_signal("s", "a", invalid).is_err());
    let blocked = ExitSignal::new(WorkPhase::Blocked, ExitReason::Completed);
    assert!(AgentSessionCompleted::from_exit_signal("s", "a", blocked).is_err());
    let nonsense = ExitSignal::new(WorkPhase::Review, ExitReason::Error).with_notes("\u{ffff}");
    assert!(AgentSessionCompleted::from_exit_signal("s", "a", nonsense).is_err());
}

#[test]
fn deserialising_a_signal_applies_the_same_rules() {
    assert!(serde_json::from_str::<ExitSignal>(&signal(&json!({}))).is_ok());
    assert!(serde_json::from_str::<ExitSignal>(&signal(&json!({ "x": 1 }))).is_err());
    assert!(serde_json::from_str::<ExitSignal>(&signal(&json!({ "version": "2.0.0" }))).is_err());
    assert!(serde_json::from_str::<ExitSignal>(r#"["apm2_agent_exit"]"#).is_err());
}

#[test]
fn the_schema_refuses_unknown_fields() {
    let schema = document_schema(&EXIT_SIGNAL_FIELDS, "exit-signal");
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(
        schema["required"],
        json!(["protocol", "version", "phase_completed", "exit_reason"])
    );
}
