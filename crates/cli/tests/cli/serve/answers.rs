//! Answering a question over HTTP: what it takes, and what is recorded.

use std::process::Child;

use serde_json::{Value, json};

use super::viewer::Viewer;
use crate::place::Place;

/// Deletes a file, which the critic of a strict policy does not decide alone.
const DELETION: &str = r#"
    task_id = "deletion"
    objective = "Have the file gone"
    policy_profile = "strict"
    policy = { question_seconds = 120 }
    [[steps]]
    id = "delete"
    objective = "Delete the file"
    actions = [{ tool = "file_delete", path = "doomed" }]
    claims = [{ text = "The file is gone" }]
"#;

/// A session that waits for a person.
struct Waiting {
    place: Place,
    child: Child,
    viewer: Viewer,
    question: Value,
}

impl Waiting {
    fn new(prepare: impl FnOnce(&Place)) -> Self {
        let place = Place::empty();
        assert_eq!(place.run(&["init"]).code, 0);
        prepare(&place);
        std::fs::write(place.path().join("doomed"), "x").unwrap();
        std::fs::write(place.path().join("task.toml"), DELETION).unwrap();
        let viewer = Viewer::start(&place);
        let mut news = viewer.listen("");
        let mut command = place.command(&["run", "task.toml", "--json"]);
        let quiet = command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        let child = quiet.stderr(std::process::Stdio::null()).spawn().unwrap();
        // Nobody asks at first; then somebody does.
        while news.next("questions")["count"] != 1 {}
        let asked = viewer.ask("/questions");
        let question = asked["items"][0].clone();
        Self { place, child, viewer, question }
    }

    fn path(&self) -> String {
        format!("/questions/{}/answer", self.question["id"].as_str().unwrap())
    }

    /// The reviews of a person that were recorded.
    fn reviews(&self) -> Vec<Value> {
        let trace = self.question["trace_id"].as_str().unwrap();
        let page = self.viewer.ask(&format!("/traces/{trace}/events?role=operator"));
        page["items"].as_array().unwrap().iter().map(|it| it["event"].clone()).collect()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_yes_is_recorded_with_its_channel_and_lets_the_session_go_on() {
    let mut waiting = Waiting::new(|_| ());
    assert_eq!(waiting.question["title"], "file_delete doomed");
    assert_eq!(waiting.question["call"], json!({ "tool": "file_delete", "path": "doomed" }));
    let seen = &waiting.question["seen"];
    let other = json!({ "decision": "yes", "seen": "0".repeat(64) });
    let answer = waiting.viewer.post(&waiting.path(), &other);
    assert_eq!(answer.code(), (409, "conflict".to_owned()), "another question was shown");
    let said = json!({ "decision": "yes", "reason": "it is mine", "seen": seen });
    let answer = waiting.viewer.post(&waiting.path(), &said);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["channel"], "unprotected-key");
    assert_eq!(waiting.child.wait().unwrap().code(), Some(0));
    assert!(!waiting.place.path().join("doomed").exists());
    let reviews = waiting.reviews();
    assert_eq!(reviews.len(), 1);
    assert_eq!(answer.json()["events"], json!([reviews[0]["event_id"]]));
    let payload = &reviews[0]["payload"];
    assert_eq!(
        (&payload["decision"], &payload["reasons"], &payload["channel"]),
        (&json!("approved"), &json!(["it is mine"]), &json!("unprotected-key"))
    );
    let trace = waiting.question["trace_id"].as_str().unwrap();
    assert_eq!(waiting.place.run(&["verify", trace, "--no-write"]).code, 0);
    let late = waiting.viewer.post(&waiting.path(), &said);
    assert_eq!(late.code(), (404, "not_found".to_owned()), "it was answered");
}

#[test]
fn what_is_no_answer_changes_nothing() {
    let waiting = Waiting::new(|_| ());
    for bad in [
        json!({}),
        json!({ "decision": "maybe" }),
        json!({ "decision": "say", "value": "yes" }),
        json!({ "decision": "yes", "value": true }),
        json!({ "decision": "yes", "force": true }),
        json!([]),
        json!({ "decision": "yes", "reason": "x".repeat(4_001) }),
    ] {
        let answer = waiting.viewer.post(&waiting.path(), &bad);
        assert_eq!(answer.code(), (400, "bad_request".to_owned()), "{bad}");
    }
    let host = format!("host: {}", waiting.viewer.address);
    let bearer = format!("authorization: Bearer {}", waiting.viewer.token);
    let first = format!("POST /api/v1{}", waiting.path());
    // A form of another page can send this type, and no other.
    let form = [host.as_str(), &bearer, "content-type: text/plain", "content-length: 18"];
    let answer = waiting.viewer.send(&first, &form, b"{\"decision\":\"yes\"}");
    assert_eq!(answer.code(), (400, "bad_request".to_owned()));
    let without = [host.as_str(), "content-type: application/json", "content-length: 18"];
    assert_eq!(waiting.viewer.send(&first, &without, b"{\"decision\":\"yes\"}").status, 401);
    assert_eq!(waiting.reviews(), Vec::<Value>::new());
    assert!(waiting.place.path().join("doomed").exists());
}

#[test]
fn a_protected_key_wants_its_passphrase_for_every_answer() {
    let mut waiting = Waiting::new(|place| {
        let protect = place.run_with(&["keys", "protect"], b"open sesame\n");
        assert_eq!(protect.code, 0, "{protect}");
    });
    let viewer = &waiting.viewer;
    assert_eq!(viewer.ask("/questions")["operator_key"], "protected");
    let without = viewer.post(&waiting.path(), &json!({ "decision": "no" }));
    assert_eq!(without.code(), (403, "passphrase_needed".to_owned()));
    let wrong = json!({ "decision": "no", "passphrase": "open barley" });
    assert_eq!(viewer.post(&waiting.path(), &wrong).code(), (403, "wrong_passphrase".to_owned()));
    assert_eq!(waiting.reviews(), Vec::<Value>::new());
    let right = json!({ "decision": "no", "passphrase": "open sesame" });
    let answer = viewer.post(&waiting.path(), &right);
    assert_eq!(answer.json()["channel"], "protected-key", "{answer:?}");
    assert_eq!(waiting.child.wait().unwrap().code(), Some(3));
    assert!(waiting.place.path().join("doomed").exists());
    let ledger = format!("/traces/{}/ledger", waiting.question["trace_id"].as_str().unwrap());
    let bytes = waiting.viewer.get(&ledger).body;
    assert!(!String::from_utf8(bytes).unwrap().contains("sesame"));
}

#[test]
fn a_yes_to_an_input_that_is_not_the_stored_one_is_refused() {
    let waiting = Waiting::new(|_| ());
    let input = waiting.question["input"].as_str().unwrap();
    let (a, b) = (&input[..2], &input[2..4]);
    let blob = waiting.place.path().join(format!(".countersign/artifacts/sha256/{a}/{b}/{input}"));
    assert_eq!(waiting.question["input_holds"], true);
    std::fs::remove_file(&blob).unwrap();
    std::fs::write(&blob, "{\"tool\":\"exec\",\"command\":[\"true\"]}").unwrap();
    let shown = waiting.viewer.ask("/questions")["items"][0].clone();
    assert_eq!((&shown["input_holds"], &shown["call"]), (&json!(false), &Value::Null));
    for seen in [&shown["seen"], &waiting.question["seen"]] {
        let said = json!({ "decision": "yes", "seen": seen });
        assert_eq!(
            waiting.viewer.post(&waiting.path(), &said).code(),
            (409, "conflict".to_owned())
        );
    }
    assert_eq!(waiting.reviews(), Vec::<Value>::new());
    let no = json!({ "decision": "no", "seen": shown["seen"] });
    assert_eq!(waiting.viewer.post(&waiting.path(), &no).status, 200, "a no always counts");
}
