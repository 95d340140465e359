//! Sessions that differ from the usual one by more than an edit: the named fixtures of the cases.

use countersign_format::shape::Dialect;
use serde_json::{Value, json};

use super::keys::{End, How};
use super::ledger::{line_of, value_of};
use super::scene::{Blob, PayloadHashes, Scene, Signers};

/// A number that no double can tell from the one after it.
const TWIN: &str = "9007199254740992";
const OTHER_TWIN: &str = "9007199254740993";
const CLAIM: usize = 8;
const STATEMENT: usize = 9;

impl Scene {
    /// Turns the scene into the fixture of this name.
    pub(super) fn become_variant(&mut self, name: &str) {
        let has = |word: &str| name.contains(word);
        if has("forward") {
            self.claim_ahead_of_evidence();
        } else if has("no_artifact") {
            self.execute_without_artifacts();
        } else if has("bigint") {
            self.hold_twin_number();
        } else if has("redact") {
            self.redact();
        } else if has("supersed") {
            self.supersede();
        } else if has("disput") || has("challeng") {
            self.dispute(has("resolved") && !has("unresolved") || has("evidence"));
        } else if has("rotat") {
            self.rotate();
        } else {
            panic!("no fixture `{name}` is known");
        }
    }

    fn reseal_all(&mut self) {
        self.seal(0, None, Signers::Original, PayloadHashes::Computed);
        self.tell_log();
    }

    /// Inserts an event by `agent_id` at `place`.
    fn insert(
        &mut self,
        place: usize,
        event_type: &str,
        agent_id: &str,
        payload: Value,
        artifacts: Vec<Value>,
    ) {
        self.add(event_type, agent_id, payload, artifacts, &[]);
        let line = self.lines.pop().unwrap();
        let mut event = value_of(&line).unwrap();
        event["event_id"] = json!(self.id_after(place - 1));
        event["created_at"] = self.value(place - 1)["created_at"].clone();
        self.lines.insert(place, line_of(&event, self.dialect));
    }

    fn claim_ahead_of_evidence(&mut self) {
        let (at, _) = self.next();
        let later = self.id_after(STATEMENT);
        let described = self.put(b"found later", &later, at);
        let payload = json!({ "purpose": "found later" });
        let place = STATEMENT + 1;
        let artifacts = vec![described.clone()];
        self.insert(place, "artifact_recorded", "auditor-agent", payload, artifacts);
        self.edit(CLAIM, |claim| {
            claim["payload"]["evidence_artifacts"] = json!([described["artifact_hash"]]);
            claim["artifacts"] = json!([described]);
        });
        self.reseal_all();
    }

    fn execute_without_artifacts(&mut self) {
        for event in 3..CLAIM {
            self.edit(event, |event| {
                event["artifacts"] = json!([]);
                if event["payload"].get("output_artifacts").is_some() {
                    event["payload"]["output_artifacts"] = json!([]);
                }
                event["payload"].as_object_mut().unwrap().remove("stdout");
            });
        }
        self.reseal_all();
    }

    fn hold_twin_number(&mut self) {
        self.edit(6, |event| event["payload"]["rows"] = json!(9_007_199_254_740_992_u64));
        self.reseal_all();
        let line = String::from_utf8(self.lines[6].clone()).unwrap();
        assert!(line.contains(TWIN), "{line}");
        self.lines[6] = line.replace(TWIN, OTHER_TWIN).into_bytes();
    }

    /// The auditor records that the output was removed, and it is.
    fn redact(&mut self) {
        let mut described = self.value(6)["artifacts"][0].clone();
        let hash = described["artifact_hash"].clone();
        let from = self.lines.len();
        match self.dialect {
            Dialect::V1_1 => {
                let payload = json!({ "artifact_hash": hash, "reason": "personal data" });
                self.add("artifact_redacted", "auditor-agent", payload, Vec::new(), &[]);
            }
            Dialect::V1_0 => {
                described["redaction_status"] = json!("redacted");
                let payload = json!({ "reason": "personal data", "policy_tag": "privacy" });
                self.add("artifact_recorded", "auditor-agent", payload, vec![described], &[]);
            }
        }
        self.seal(from, None, Signers::Original, PayloadHashes::Computed);
        self.tell_log();
        self.blobs.remove(&hash.as_str().unwrap().parse().unwrap());
    }

    /// Another claim takes the place of the first.
    fn supersede(&mut self) {
        let mut claim = self.value(CLAIM);
        let old = claim["payload"]["claim_id"].clone();
        let id = self.id_after(CLAIM);
        let new = format!("claim_{}", id.to_ascii_lowercase());
        claim["event_id"] = json!(id);
        claim["claims"] = json!([new]);
        claim["payload"]["claim_id"] = json!(new);
        claim["payload"]["supersedes"] = old;
        self.lines.insert(STATEMENT, line_of(&claim, self.dialect));
        self.edit(STATEMENT + 1, |statement| {
            statement["claims"] = json!([new]);
            statement["payload"]["consolidated_claim_ids"] = json!([new]);
            if let Some(places) = statement["payload"].get_mut("claims") {
                *places = json!([{ "event_id": id, "seq": STATEMENT }]);
            }
        });
        self.reseal_all();
    }

    /// The critic doubts the claim, which is upheld: with something new or without.
    fn dispute(&mut self, answered: bool) {
        let challenge = self.doubt();
        self.insert(STATEMENT, "claim_challenged", "critic-agent", challenge, Vec::new());
        let mut statement = STATEMENT + 1;
        if answered {
            let (at, _) = self.next();
            let producer = self.id_after(STATEMENT);
            let described = self.put(b"looked again", &producer, at);
            self.blobs.insert(
                described["artifact_hash"].as_str().unwrap().parse().unwrap(),
                Blob::Bytes(b"looked again".to_vec()),
            );
            let payload = json!({ "purpose": "answer" });
            let artifacts = vec![described];
            self.insert(statement, "artifact_recorded", "executor-agent", payload, artifacts);
            statement += 1;
        }
        let claim_id = self.value(CLAIM)["payload"]["claim_id"].clone();
        self.edit(statement, |event| {
            let resolved = json!([{ "claim_id": claim_id, "status": "upheld" }]);
            event["payload"]["claim_resolutions"] = resolved;
        });
        self.reseal_all();
    }

    fn doubt(&self) -> Value {
        let claim_id = self.value(CLAIM)["payload"]["claim_id"].clone();
        let mut payload = json!({ "challenged_claim_id": claim_id, "reason": "thin" });
        if self.dialect == Dialect::V1_1 {
            payload["claim"] = self.reference(CLAIM);
        }
        payload
    }

    /// An event of a type that the usual session does not have, to be given a place.
    pub(super) fn challenge(&mut self, event_type: &str) -> Value {
        let (agent_id, payload) = match event_type {
            "claim_challenged" => ("critic-agent", self.doubt()),
            "tool_execution_failed" => {
                let mut payload = json!({ "reason": "out of soup", "outcome": "failed" });
                if self.dialect == Dialect::V1_1 {
                    payload["execution"] = self.reference(4);
                }
                ("executor-agent", payload)
            }
            other => panic!("no event of the type `{other}` is known"),
        };
        self.add(event_type, agent_id, payload, Vec::new(), &[]);
        value_of(&self.lines.pop().unwrap()).unwrap()
    }

    /// The executor's key is replaced between its last tool and its claim, which the new key signs.
    fn rotate(&mut self) {
        let before = self.value(CLAIM)["created_at"].as_str().unwrap().parse().ok();
        let at =
            before.map(|at: countersign_format::time::Timestamp| at.plus_millis(-500)).unwrap();
        let end = End { how: How::Rotated, at, size: CLAIM, reason: String::new() };
        let key_id = self.registry.rotate("executor-agent", end);
        for event in [CLAIM, STATEMENT] {
            self.edit(event, |event| event["actor"]["key_id"] = json!(key_id));
        }
        self.reseal_all();
    }
}
