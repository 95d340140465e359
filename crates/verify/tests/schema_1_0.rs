//! Sessions of schema 1.0, which have no links between their events.

#![cfg(test)]

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use base64::Engine as _;
use countersign_format::event::Event;
use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::key::{AgentIdentity, SecretKey};
use countersign_format::report::VerificationReport;
use countersign_protocol::unlinked::{Original, Projection};
use countersign_testkit::SessionStory;
use countersign_testkit::session::SEPARATE;
use countersign_verify::{Options, Profile, Source, verify};
use serde_json::{Value, json};

/// A ledger without a log.
struct Old(Vec<u8>);

impl Source for Old {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(self.0.as_slice()))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        Ok(None)
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }
}

fn secrets() -> BTreeMap<String, SecretKey> {
    let secrets = SEPARATE.iter().map(|&(_, seed, _)| SecretKey::from_seed(&[seed; 32]));
    secrets.map(|secret| (secret.public_key().key_id().to_string(), secret)).collect()
}

/// The events as schema 1.0 has them, changed by `change`, hashed and signed again.
fn downgraded(story: &mut SessionStory, change: fn(&mut Vec<Value>)) -> Old {
    let text = String::from_utf8(story.lines().clone()).unwrap();
    let mut events: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    change(&mut events);
    let secrets = secrets();
    let mut head = Hash::GENESIS;
    let mut lines = Vec::new();
    for mut event in events {
        let members = event.as_object_mut().unwrap();
        members.remove("seq");
        members.remove("event_hash");
        members.remove("signature");
        members.insert("schema_version".into(), json!("1.0.0"));
        members.insert("prev_event_hash".into(), json!(head));
        let payload = members.remove("payload").unwrap();
        members.insert("payload_hash".into(), json!(Hash::of(&json::to_bytes(&payload))));
        let signed = json::to_bytes(&Value::Object(members.clone()));
        let secret = &secrets[members["actor"]["key_id"].as_str().unwrap()];
        let signature = base64::engine::general_purpose::STANDARD
            .encode(secret.sign(&signed).as_bytes().as_slice());
        members.insert("payload".into(), payload);
        members.insert(
            "signature".into(),
            json!({
                "algorithm": "ed25519", "signature_b64": signature,
                "signed_bytes_hash": Hash::of(&signed),
            }),
        );
        head = Hash::of(&json::to_bytes(&Value::Object(members.clone())));
        members.insert("event_hash".into(), json!(head));
        lines.extend(json::to_bytes(&event));
        lines.push(b'\n');
    }
    Old(lines)
}

fn judge(story: &SessionStory, source: &Old) -> VerificationReport {
    let keys = SEPARATE.iter().map(|&(agent_id, seed, roles)| {
        let public_key = SecretKey::from_seed(&[seed; 32]).public_key();
        let identity = json!({
            "agent_id": agent_id, "display_name": agent_id, "role_capabilities": roles,
            "key_id": public_key.key_id().to_string(), "public_key": public_key,
            "key_algorithm": "ed25519", "status": "active",
            "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z",
        });
        serde_json::from_value::<AgentIdentity>(identity).unwrap()
    });
    let options = Options { keys: keys.collect(), ..story.options(Profile::DEFAULT) };
    verify(source, &options).unwrap()
}

fn codes(report: &VerificationReport) -> (Vec<String>, Vec<&str>) {
    let failures = report.failures.iter();
    let failures = failures.map(|it| format!("{} {}", it.failure_code, it.check_id)).collect();
    (failures, report.warnings.iter().map(|it| it.warning_code.as_str()).collect())
}

#[test]
fn links_in_a_session_of_schema_1_0_are_followed() {
    let mut story = SessionStory::whole();
    let source = downgraded(&mut story, |_| {});
    let report = judge(&story, &source);
    assert_eq!(codes(&report), (vec![], vec!["ARTIFACTS_UNREAD"]));
    assert_eq!(report.metrics.signatures_verified, 10);

    let astray = downgraded(&mut story, |events| {
        let elsewhere = events[0]["event_id"].clone();
        events[4]["payload"]["intent"]["event_id"] = elsewhere;
    });
    let found = codes(&judge(&story, &astray)).0;
    assert_eq!(found, ["ROLE_POLICY_VIOLATION CHK_ROLE_POLICY_CONFORMANCE"]);
}

#[test]
fn duties_and_the_final_statement_hold_in_schema_1_0_as_well() {
    let mut story = SessionStory::whole();
    let without_statement = downgraded(&mut story, |events| {
        events.remove(7);
    });
    let found = codes(&judge(&story, &without_statement)).0;
    assert_eq!(found, ["SCHEMA_INVALID CHK_FINALIZATION_INTEGRITY"]);

    let reviewed_by_executor = downgraded(&mut story, |events| {
        let executor = events[3]["actor"].clone();
        events[2]["actor"] = executor;
        events[2]["actor"]["role"] = json!("critic");
    });
    let found = codes(&judge(&story, &reviewed_by_executor)).0;
    assert_eq!(
        found,
        [
            "ROLE_POLICY_VIOLATION CHK_ROLE_POLICY_CONFORMANCE",
            "ROLE_POLICY_VIOLATION CHK_SEPARATION_OF_DUTIES"
        ]
    );
}

/// The links that a session of schema 1.1 states are those that are found when nothing states them.
#[test]
fn links_that_were_taken_out_are_found_again() {
    const LINKS: [&str; 7] =
        ["subject", "proposal", "intent", "execution", "executions", "run", "claims"];
    let mut story = SessionStory::whole();
    let stated = String::from_utf8(story.lines().clone()).unwrap();
    let stated: Vec<Value> =
        stated.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let source = downgraded(&mut story, |events| {
        for event in events {
            let payload = event["payload"].as_object_mut().unwrap();
            LINKS.iter().for_each(|name| drop(payload.remove(*name)));
        }
    });
    assert_eq!(codes(&judge(&story, &source)), (vec![], vec!["ARTIFACTS_UNREAD"]));

    let lines = String::from_utf8(source.0).unwrap();
    let original = Original {
        schema_version: "1.0.0".into(),
        trace_id: stated[0]["trace_id"].as_str().unwrap().to_owned(),
        head: Hash::GENESIS,
        events: stated.len() as u64,
    };
    let mut projection = Projection::begin(&original).0;
    for (line, stated) in lines.lines().zip(&stated) {
        let event: Event = serde_json::from_str(line).unwrap();
        let mut found = projection.event(&event, Hash::of(line.as_bytes()));
        // Whoever calls it an intent's review says so by its type.
        assert_eq!(found["event_type"], stated["event_type"]);
        assert_eq!(found["payload"].take(), stated["payload"]);
    }
}
