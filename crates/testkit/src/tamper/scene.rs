//! A closed session with everything that a verifier reads, ready to be tampered with.

use std::collections::BTreeMap;

use countersign_format::event::artifact::storage_uri;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_format::shape::Dialect;
use countersign_format::time::Timestamp;
use serde_json::{Value, json};

use super::keys::Registry;
use super::ledger::{each_reference, hash_event, hash_payload, line_of, number, sign, value_of};
use super::log::{Log, Told, pin};

/// What lies where an artifact belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Blob {
    Bytes(Vec<u8>),
    /// A link to a file with these bytes.
    Link(Vec<u8>),
    Directory,
}

/// Who signs when everything is signed anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signers {
    Original,
    Attacker,
}

/// What becomes of the stated payload hashes when everything is signed anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PayloadHashes {
    Computed,
    Kept,
}

/// A session that can be tampered with. By its own account nothing is wrong with it.
#[derive(Debug, Clone)]
pub struct Scene {
    pub(super) dialect: Dialect,
    pub(super) registry: Registry,
    pub(super) start: Timestamp,
    pub(super) trace_id: String,
    /// The ledger, without line breaks.
    pub(super) lines: Vec<Vec<u8>>,
    /// Whether the last line has its line break.
    pub(super) ends_whole: bool,
    pub(super) told: Vec<Told>,
    pub(super) log: Vec<Vec<u8>>,
    pub(super) checkpoint: Option<Vec<u8>>,
    pub(super) blobs: BTreeMap<Hash, Blob>,
    /// Files that a verifier has no business with, below the home.
    pub(super) beside: BTreeMap<String, Vec<u8>>,
    /// The report of the first audit, from which those of others are made.
    pub(super) report: Value,
    /// Head and size before anybody tampered.
    pub(super) original: (Hash, usize),
}

impl Scene {
    /// The trace.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        &self.trace_id
    }

    /// The root that signs for all keys.
    #[must_use]
    pub fn root() -> Hash {
        Registry::fingerprint()
    }

    /// The bytes of the ledger.
    #[must_use]
    pub fn ledger(&self) -> Vec<u8> {
        let mut bytes = self.lines.join(&b'\n');
        if self.ends_whole && !self.lines.is_empty() {
            bytes.push(b'\n');
        }
        bytes
    }

    /// Puts other bytes in the place of the ledger.
    pub fn set_ledger(&mut self, bytes: &[u8]) {
        self.ends_whole = bytes.ends_with(b"\n") || bytes.is_empty();
        let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        self.lines = whole.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        if bytes.is_empty() {
            self.lines.clear();
        }
    }

    /// The bytes of the workspace log; schema 1.0 has none.
    #[must_use]
    pub fn log_bytes(&self) -> Vec<u8> {
        self.log.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect()
    }

    /// The artifacts that are there as plain bytes.
    #[must_use]
    pub fn artifacts(&self) -> BTreeMap<Hash, Vec<u8>> {
        let bytes = |(hash, blob): (&Hash, &Blob)| match blob {
            Blob::Bytes(bytes) => Some((*hash, bytes.clone())),
            _ => None,
        };
        self.blobs.iter().filter_map(bytes).collect()
    }

    pub(super) fn value(&self, event: usize) -> Value {
        let line = self.lines.get(event).unwrap_or_else(|| panic!("there is no event {event}"));
        value_of(line).unwrap_or_else(|| panic!("event {event} is no object any more"))
    }

    pub(super) fn put_value(&mut self, event: usize, value: &Value) {
        self.lines[event] = line_of(value, self.dialect);
    }

    pub(super) fn edit(&mut self, event: usize, change: impl FnOnce(&mut Value)) {
        let mut value = self.value(event);
        change(&mut value);
        self.put_value(event, &value);
    }

    /// The hash that the event before `event` states.
    pub(super) fn head_before(&self, event: usize) -> Hash {
        let before = self.lines[..event].iter().rev().find_map(|line| Told::of(line));
        before.map_or(Hash::GENESIS, |told| told.hash)
    }

    /// An id between that of `event` and the one after it.
    pub(super) fn id_after(&self, event: usize) -> String {
        let id = self.value(event)["event_id"].as_str().unwrap_or_default().to_owned();
        let next = Ulid::parse_any_case(&id).unwrap().next();
        // Whoever asks twice gets two: copies of copies exist.
        let mut next = next;
        while self
            .lines
            .iter()
            .filter_map(|line| value_of(line))
            .any(|value| value["event_id"].as_str().and_then(Ulid::parse_any_case) == Some(next))
        {
            next = next.next();
        }
        self.id(next)
    }

    pub(super) fn id(&self, ulid: Ulid) -> String {
        match self.dialect {
            Dialect::V1_1 => ulid.to_string(),
            Dialect::V1_0 => ulid.to_string().to_ascii_uppercase(),
        }
    }

    /// Stores bytes, and describes them as brought by the event `producer`.
    pub(super) fn put(&mut self, bytes: &[u8], producer: &str, at: Timestamp) -> Value {
        let hash = Hash::of(bytes);
        self.blobs.insert(hash, Blob::Bytes(bytes.to_vec()));
        describe(bytes, producer, at)
    }

    /// Signs, numbers, hashes and links all events from `from` on, but leaves out the signature of
    /// `except`. References are renumbered, and audits get a report that fits.
    pub(super) fn seal(
        &mut self,
        from: usize,
        except: Option<usize>,
        signers: Signers,
        payload_hashes: PayloadHashes,
    ) {
        let ids: Vec<Option<String>> = self
            .lines
            .iter()
            .map(|line| Some(value_of(line)?.get("event_id")?.as_str()?.to_owned()))
            .collect();
        let mut head = self.head_before(from);
        let mut run = None;
        for index in 0..self.lines.len() {
            let Some(mut value) = value_of(&self.lines[index]) else { continue };
            if index < from {
                run = run_start(&value, index, run);
                continue;
            }
            number(&mut value, index, self.dialect);
            if let Some(payload) = value.get_mut("payload") {
                each_reference(payload, &mut |id, seq| {
                    let place = ids.iter().position(|known| known.as_deref() == Some(id));
                    if let Some(place) = place {
                        *seq = json!(place);
                    }
                });
            }
            let fitted = run.is_some_and(|(start, head)| self.fit_report(&mut value, start, &head));
            value.as_object_mut().unwrap().insert("prev_event_hash".into(), json!(head));
            if payload_hashes == PayloadHashes::Computed || fitted {
                hash_payload(&mut value);
            }
            if except != Some(index) {
                self.sign(&mut value, signers);
            }
            head = hash_event(&mut value);
            run = run_start(&value, index, run);
            self.put_value(index, &value);
        }
    }

    /// Whoever signs everything anew gives events that changed places ids and times in their new
    /// order. Ids that were tampered with themselves stay as they are.
    pub(super) fn put_ids_in_order(&mut self) {
        let member = |name: &str| -> Option<Vec<String>> {
            let text = |line: &Vec<u8>| Some(value_of(line)?.get(name)?.as_str()?.to_owned());
            self.lines.iter().map(text).collect()
        };
        let (Some(ids), Some(times)) = (member("event_id"), member("created_at")) else { return };
        let known = |id: &String| Ulid::parse_any_case(id).is_some();
        let (mut sorted, mut times_sorted) = (ids.clone(), times);
        sorted.sort();
        let distinct = sorted.windows(2).all(|pair| pair[0] != pair[1]);
        if sorted == ids || !distinct || !ids.iter().all(known) {
            return;
        }
        times_sorted.sort();
        let renamed: BTreeMap<String, String> = ids.into_iter().zip(sorted).collect();
        for (index, at) in times_sorted.into_iter().enumerate() {
            self.edit(index, |event| {
                rename(event, &renamed);
                event["created_at"] = json!(at);
            });
        }
    }

    pub(super) fn sign(&self, value: &mut Value, signers: Signers) {
        let actor = value.get("actor").cloned().unwrap_or_default();
        if let Some(holder) = self.registry.signer(&actor) {
            let secret = match signers {
                Signers::Original => holder.secret(),
                Signers::Attacker => holder.attacker(),
            };
            sign(value, &secret);
        }
    }

    /// Makes the report of the audit that `event` ends anew: about the events that it now covers,
    /// with the verdict that the event states. False if the event ends none.
    fn fit_report(&mut self, event: &mut Value, start: usize, head: &Hash) -> bool {
        let ends = event["event_type"] == "verification_run_completed";
        let Some(old) = event.pointer("/payload/report_artifact").filter(|_| ends).cloned() else {
            return false;
        };
        let mut report = self.report.clone();
        report["trace_id"] = event["trace_id"].clone();
        report["report_id"] = event["payload"]["report_id"].clone();
        report["verification_status"] = event["payload"]["verification_status"].clone();
        report["head"] = json!(head);
        report["metrics"]["events"] = json!(start + 1);
        let bytes = json::to_bytes(&report);
        let hash = Hash::of(&bytes);
        self.blobs.insert(hash, Blob::Bytes(bytes.clone()));
        let listed = event["artifacts"].as_array_mut().into_iter().flatten();
        for artifact in listed.filter(|artifact| artifact["artifact_hash"] == old) {
            artifact["artifact_hash"] = json!(hash);
            artifact["byte_size"] = json!(bytes.len());
            artifact["storage_uri"] = json!(storage_uri(&hash));
        }
        event["payload"]["report_artifact"] = json!(hash);
        true
    }

    /// Lets the log know of the trace as it is now.
    pub(super) fn tell_log(&mut self) {
        self.told = self.lines.iter().filter_map(|line| Told::of(line)).collect();
        self.write_log();
    }

    /// Writes the log as it would be with these keys and this trace.
    pub(super) fn write_log(&mut self) {
        if self.dialect == Dialect::V1_0 {
            return;
        }
        let log = Log::of(&self.registry, self.start, &self.trace_id, &self.told);
        (self.checkpoint, self.log) = (Some(log.checkpoint()), log.lines);
    }

    /// Writes everything as if the keys had always been what they are now.
    pub(super) fn rebuild(&mut self) {
        if self.dialect == Dialect::V1_1 {
            let pin = pin(&self.registry, self.start);
            self.edit(0, |event| event["payload"]["log"] = pin);
            self.seal(0, None, Signers::Original, PayloadHashes::Computed);
            self.tell_log();
        }
    }
}

fn rename(value: &mut Value, renamed: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(new) = renamed.get(text) {
                text.clone_from(new);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, renamed)),
        Value::Object(members) => members.values_mut().for_each(|it| rename(it, renamed)),
        _ => {}
    }
}

/// The audit that is under way after an event: the place of its start, and the head there.
fn run_start(value: &Value, index: usize, run: Option<(usize, Hash)>) -> Option<(usize, Hash)> {
    match value["event_type"].as_str() {
        Some("verification_run_started") => {
            let head = value["event_hash"].as_str().and_then(|text| text.parse().ok());
            Some((index, head.unwrap_or(Hash::GENESIS)))
        }
        Some("verification_run_completed") => None,
        _ => run,
    }
}

/// The descriptor of bytes.
pub(super) fn describe(bytes: &[u8], producer: &str, at: Timestamp) -> Value {
    let hash = Hash::of(bytes);
    json!({
        "artifact_hash": hash, "hash_algorithm": "sha256", "media_type": "text/plain",
        "encoding": "utf-8", "byte_size": bytes.len(), "created_at": at,
        "producer_event_id": producer, "storage_uri": storage_uri(&hash),
        "redaction_status": "none",
    })
}
