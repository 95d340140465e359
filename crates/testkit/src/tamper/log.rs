//! The workspace log of a scene, written anew whenever it is to fit.

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::key::SecretKey;
use countersign_format::merkle;
use countersign_format::note::{Checkpoint, origin};
use countersign_format::shape::Dialect;
use countersign_format::time::Timestamp;
use serde_json::{Value, json};

use super::keys::{End, How, Registry};
use super::ledger::{hash_event, hash_payload, line_of, reseal, set, sign, value_of};

/// An event of the trace, as far as the log is told of it.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) hash: Hash,
    pub(super) at: Option<Timestamp>,
    /// How it ends the trace.
    pub(super) ends: Option<&'static str>,
}

impl Told {
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        let value = value_of(line)?;
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
        let ends = match (text("/event_type"), text("/payload/verification_status")) {
            (Some("verification_run_completed"), Some("fail")) => Some("failed"),
            (Some("verification_run_completed"), _) => Some("succeeded"),
            _ => None,
        };
        let hash = text("/event_hash").and_then(|text| text.parse().ok());
        let at = text("/created_at").and_then(|text| text.parse().ok());
        Some(Self { hash: hash.unwrap_or(Hash::GENESIS), at, ends })
    }
}

/// Where a trace pins the log.
pub(super) fn pin(registry: &Registry, start: Timestamp) -> Value {
    let log = Log::with_keys(registry, start);
    json!({
        "origin": origin(&Registry::fingerprint()), "size": log.lines.len(),
        "head": log.head, "keys_head": log.keys_head,
    })
}

/// A log that is being written.
pub(super) struct Log<'r> {
    registry: &'r Registry,
    log_id: Option<Ulid>,
    pub(super) lines: Vec<Vec<u8>>,
    hashes: Vec<Hash>,
    head: Hash,
    keys_head: Hash,
}

impl<'r> Log<'r> {
    /// A log that names the keys, and nothing else yet.
    fn with_keys(registry: &'r Registry, start: Timestamp) -> Self {
        let mut log = Self {
            registry,
            log_id: None,
            lines: Vec::new(),
            hashes: Vec::new(),
            head: Hash::GENESIS,
            keys_head: Hash::GENESIS,
        };
        let opening = json!({
            "kind": "log", "origin": origin(&Registry::fingerprint()),
            "identity": Registry::root_record(), "software": "test",
        });
        let mut at = start;
        log.push("log_opened", opening, at);
        for holder in registry.holders.iter().filter(|holder| !holder.succeeds) {
            at = at.plus_millis(1_000);
            let mut identity = holder.record.clone();
            // How a key ended is told when it ended.
            for (name, value) in [("status", json!("active")), ("updated_at", json!(start))] {
                set(&mut identity, &format!("/{name}"), value);
            }
            for name in ["revoked_at", "rotated_at", "revoked_reason"] {
                identity.as_object_mut().unwrap().remove(name);
            }
            if registry.swapped {
                // What the root once signed.
                set(&mut identity, "/public_key", json!(holder.secret().public_key()));
            }
            let payload = json!({ "identity": identity, "prev_key_event": log.keys_head });
            log.push("key_added", payload, at);
            if registry.swapped {
                log.swap(&json!(holder.attacker().public_key()));
            }
        }
        log
    }

    /// The whole log of a trace of which it was told this much.
    pub(super) fn of(
        registry: &'r Registry,
        start: Timestamp,
        trace_id: &str,
        told: &[Told],
    ) -> Self {
        let mut log = Self::with_keys(registry, start);
        let closed = told.iter().position(|event| event.ends.is_some()).map(|index| index + 1);
        let mut ends: Vec<_> =
            registry.holders.iter().filter_map(|it| Some((it, it.end.clone()?))).collect();
        ends.sort_by_key(|(_, end)| end.size);
        let mut known = 0;
        for (holder, end) in ends {
            log.tell(trace_id, told, closed, &mut known, end.size);
            log.end_key(holder.agent_id, &end);
        }
        log.tell(trace_id, told, closed, &mut known, told.len());
        log
    }

    /// Tells of the trace up to `size`, in the entries that a recorder would make.
    fn tell(
        &mut self,
        trace_id: &str,
        told: &[Told],
        closed: Option<usize>,
        known: &mut usize,
        size: usize,
    ) {
        let size = size.min(told.len());
        if *known == 0 && size > 0 {
            let payload = json!({
                "trace_id": trace_id, "kind": "session", "first_event_hash": told[0].hash,
                "keys_head": self.keys_head,
            });
            self.push("trace_opened", payload, told[0].at.unwrap_or(Timestamp::EPOCH));
            *known = 1;
        }
        if let Some(end) = closed.filter(|&end| *known < end && end <= size) {
            let status = told[end - 1].ends;
            self.extent("trace_closed", trace_id, &told[..end], status);
            *known = end;
        }
        if size > *known {
            self.extent("trace_checkpointed", trace_id, &told[..size], None);
            *known = size;
        }
    }

    fn extent(&mut self, event_type: &str, trace_id: &str, told: &[Told], status: Option<&str>) {
        let hashes: Vec<Hash> = told.iter().map(|event| event.hash).collect();
        let last_at = told.iter().filter_map(|event| event.at).max().unwrap_or(Timestamp::EPOCH);
        let mut payload = json!({
            "trace_id": trace_id, "size": told.len(), "head": hashes.last(),
            "merkle_root": merkle::root(&hashes), "last_event_at": last_at,
            "keys_head": self.keys_head,
        });
        if let Some(status) = status {
            set(&mut payload, "/status", json!(status));
        }
        self.push(event_type, payload, last_at);
    }

    fn end_key(&mut self, agent_id: &str, end: &End) {
        let key_id = self.registry.key_id(agent_id);
        let prev = self.keys_head;
        match end.how {
            How::Revoked => {
                let payload = json!({
                    "key_id": key_id, "revoked_at": end.at, "reason": end.reason,
                    "prev_key_event": prev,
                });
                self.push("key_revoked", payload, end.at);
            }
            How::Rotated => {
                let payload = json!({
                    "identity": self.registry.holder(agent_id).successor(),
                    "rotated_key_id": key_id, "rotated_at": end.at, "prev_key_event": prev,
                });
                self.push("key_rotated", payload, end.at);
            }
        }
    }

    /// Adds an entry, signed by the root or the recorder.
    fn push(&mut self, event_type: &str, payload: Value, at: Timestamp) {
        let by_root = is_key_entry(event_type);
        let seq = self.lines.len();
        let event_id = Ulid::from_parts(at, seq as u128 + 1);
        let log_id = *self.log_id.get_or_insert(event_id);
        let actor = if by_root {
            let key_id = Registry::root().public_key().key_id();
            json!({ "agent_id": "root", "key_id": key_id, "role": "recorder" })
        } else {
            let key_id = self.registry.key_id("recorder");
            json!({ "agent_id": "recorder", "key_id": key_id, "role": "recorder" })
        };
        let mut entry = json!({
            "actor": actor, "artifacts": [], "claims": [], "created_at": at,
            "event_id": event_id, "event_type": event_type, "payload": payload,
            "payload_type": event_type, "prev_event_hash": self.head,
            "schema_version": "1.1.0", "seq": seq, "trace_id": log_id,
        });
        hash_payload(&mut entry);
        sign(&mut entry, &signer(self.registry, event_type));
        self.put(entry, by_root);
    }

    fn put(&mut self, mut entry: Value, key_event: bool) {
        self.head = hash_event(&mut entry);
        if key_event {
            self.keys_head = self.head;
        }
        self.hashes.push(self.head);
        self.lines.push(line_of(&entry, Dialect::V1_1));
    }

    /// Puts another public key into the last entry; the signature stays that of the root.
    fn swap(&mut self, public_key: &Value) {
        self.hashes.pop();
        let mut entry = value_of(&self.lines.pop().unwrap()).unwrap();
        set(&mut entry, "/payload/identity/public_key", public_key.clone());
        hash_payload(&mut entry);
        self.put(entry, true);
    }

    /// The log's checkpoint as it is now, signed by the recorder.
    pub(super) fn checkpoint(&self) -> Vec<u8> {
        let checkpoint = Checkpoint {
            origin: origin(&Registry::fingerprint()),
            size: self.lines.len() as u64,
            root: merkle::root(&self.hashes),
        };
        let note = checkpoint.sign(&signer(self.registry, "trace_checkpointed")).unwrap();
        note.to_string().into_bytes()
    }
}

fn is_key_entry(event_type: &str) -> bool {
    matches!(event_type, "log_opened" | "key_added" | "key_rotated" | "key_revoked")
}

fn signer(registry: &Registry, event_type: &str) -> SecretKey {
    let recorder = registry.holder("recorder");
    match (is_key_entry(event_type), registry.swapped) {
        (true, _) => Registry::root(),
        (false, true) => recorder.attacker(),
        (false, false) => recorder.secret(),
    }
}

/// Changes the last of these entries that says how far the trace had come, and signs it and what
/// follows anew.
pub(super) fn restate(lines: &mut [Vec<u8>], registry: &Registry, member: &str, value: &Value) {
    let is_extent = |line: &Vec<u8>| {
        let found = value_of(line).and_then(|entry| entry.pointer("/payload/size").cloned());
        found.is_some()
    };
    let Some(from) = lines.iter().rposition(is_extent) else { return };
    let before = from.checked_sub(1).and_then(|before| Told::of(&lines[before]));
    let mut head = before.map_or(Hash::GENESIS, |told| told.hash);
    for (index, line) in lines.iter_mut().enumerate().skip(from) {
        let mut entry = value_of(line).unwrap();
        if index == from {
            set(&mut entry, &format!("/payload/{member}"), value.clone());
        }
        reseal(&mut entry, &head);
        let event_type = entry["event_type"].as_str().unwrap_or_default().to_owned();
        sign(&mut entry, &signer(registry, &event_type));
        head = hash_event(&mut entry);
        *line = line_of(&entry, Dialect::V1_1);
    }
}
