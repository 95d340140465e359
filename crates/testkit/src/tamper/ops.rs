//! The vocabulary of the cases: what is done to a scene.
//!
//! An operation that is not known ends the test; one whose subject our design does not have (a
//! trace's summary, a descriptor beside a blob) is done to what takes its place: see each.

use countersign_format::hash::Hash;
use countersign_format::shape::Dialect;
use countersign_format::time::Timestamp;
use countersign_verify::{Options, Profile};
use serde_json::{Value, json};
use unicode_normalization::UnicodeNormalization as _;

use super::case::Case;
use super::keys::{End, How};
use super::ledger::{hash_event, hash_payload, line_of, number, remove, set, value_of};
use super::log::{self, Told};
use super::scene::{Blob, PayloadHashes, Scene, Signers};

/// How others call a member of a payload, and how we do.
const ALIASES: [(&str, &str); 6] = [
    ("proposal_status", "decision"),
    ("review_status", "decision"),
    ("review_decision", "decision"),
    ("output_artifact_hashes", "output_artifacts"),
    ("input_hash", "normalized_input_hash"),
    ("risk_class", "safety_classification"),
];

pub(super) fn text<'o>(op: &'o Value, name: &str) -> Option<&'o str> {
    op.get(name).and_then(Value::as_str)
}

fn needed<'o>(op: &'o Value, name: &str) -> &'o str {
    text(op, name).unwrap_or_else(|| panic!("`{name}` is missing in {op}"))
}

/// The first of these members that is a number.
pub(super) fn place(op: &Value, names: &[&str]) -> Option<usize> {
    let found = names.iter().find_map(|name| op.get(*name)?.as_u64());
    found.map(|found| usize::try_from(found).unwrap())
}

fn at(op: &Value, name: &str) -> usize {
    place(op, &[name]).unwrap_or_else(|| panic!("`{name}` is missing in {op}"))
}

impl Scene {
    /// The scene after everything that a case does to it.
    #[must_use]
    pub fn after(dialect: Dialect, case: &Case) -> Self {
        let mut scene = Self::new(dialect);
        for op in &case.ops {
            scene.perform(op, case);
        }
        scene
    }

    /// The options with which a case is verified.
    #[must_use]
    pub fn options_for(&self, case: &Case) -> Options {
        let profile = Profile::parse(&case.profile).unwrap();
        let mut options = self.options(profile);
        let mut args = case.args.iter();
        while let Some(arg) = args.next() {
            let mut value = || self.resolve(&json!(args.next().unwrap()), None);
            match arg.as_str() {
                "--expect-head" => {
                    options.expect_head = value().as_str().map(|hash| hash.parse().unwrap());
                }
                "--expect-count" => {
                    let value = value();
                    let count = value.as_u64().or_else(|| value.as_str()?.parse().ok());
                    options.expect_count = Some(count.unwrap());
                }
                "--strict" => options.profile = Profile::STRICT,
                "--allow-open" | "--allow-incomplete" => {}
                other => panic!("no argument `{other}` is known"),
            }
        }
        options
    }

    fn perform(&mut self, op: &Value, case: &Case) {
        let name = needed(op, "op");
        match name {
            "set" | "remove" | "upper" | "lower" | "nfd" | "set_actor" | "b64_urlsafe"
            | "b64_unpadded" | "ed25519_s_plus_l" => self.change_event(name, op),
            "delete_event" => drop(self.lines.remove(at(op, "event"))),
            "swap" => self.lines.swap(at(op, "a"), at(op, "b")),
            "move" => {
                let line = self.lines.remove(at(op, "from"));
                self.lines.insert(at(op, "to"), line);
            }
            "insert_copy" => self.copy(op, at(op, "at")),
            "append_copy" => self.copy(op, self.lines.len()),
            "insert_foreign" | "append_foreign" => {
                let foreign = Self::another(self.dialect);
                let place = place(op, &["at"]).unwrap_or(self.lines.len());
                self.lines.insert(place, foreign.lines[at(op, "src")].clone());
            }
            "append_signed" | "insert_signed" => self.forge(op),
            "append_reaudit" => {
                self.audit();
                self.tell_log();
                self.original = (self.head_before(self.lines.len()), self.lines.len());
            }
            "repayloadhash" => self.edit(at(op, "event"), hash_payload),
            "rehash" => self.edit(at(op, "event"), |event| {
                hash_event(event);
            }),
            "relink" => self.relink(at(op, "from")),
            "resign_all" | "resign_all_except" | "resign" => self.resign(name, op),
            "fixture" => self.become_variant(needed(op, "name")),
            _ if name.starts_with("meta_") => self.change_summary(name, op, case),
            _ if name.starts_with("blob_") => self.change_blob(name, op),
            _ if name.starts_with("sidecar_") => self.change_sidecar(op),
            _ if name.starts_with("registry_") => self.change_registry(name, op),
            _ if name.starts_with("raw_") || name.contains("newline") => self.change_text(name, op),
            other => panic!("no operation `{other}` is known"),
        }
    }

    /// A value of a case, with the names of what only the scene knows resolved.
    fn resolve(&self, value: &Value, near: Option<usize>) -> Value {
        let Some(name) = value.as_str().and_then(|text| text.strip_prefix('$')) else {
            return value.clone();
        };
        let mut parts = name.split(':');
        let (name, mut numbers) = (parts.next().unwrap_or_default(), parts);
        let mut number = || numbers.next().and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
        match name {
            "newulid" => json!(self.id_after(near.unwrap_or(self.lines.len() - 1))),
            "original_head" => json!(self.original.0),
            "original_count" => json!(self.original.1),
            "event_id" => self.value(number())["event_id"].clone(),
            "event_hash" => self.value(number())["event_hash"].clone(),
            "trace_id" => json!(self.trace_id),
            "artifact" => {
                let event = self.value(number());
                event["artifacts"][number()]["artifact_hash"].clone()
            }
            "deep" | "nested" => (0..number()).fold(json!(0), |inner, _| Value::Array(vec![inner])),
            other => panic!("no value `${other}` is known"),
        }
    }

    fn change_event(&mut self, name: &str, op: &Value) {
        let event = at(op, "event");
        let mut value = self.value(event);
        let path = text(op, "path").map(|path| aliased(&value, path));
        let path = path.as_deref();
        match (name, path) {
            ("set", Some(path)) => {
                let new = self.resolve(&op["value"], Some(event));
                set(&mut value, path, new);
            }
            ("remove", Some(path)) => remove(&mut value, path),
            ("upper" | "lower" | "nfd", path) => {
                let place = value.pointer_mut(path.unwrap_or_default()).unwrap();
                each_text(place, &|text| match name {
                    "upper" => text.to_uppercase(),
                    "lower" => text.to_lowercase(),
                    _ => text.nfd().collect(),
                });
            }
            ("set_actor", _) => {
                let agent = needed(op, "agent");
                let key_of = text(op, "key_of").unwrap_or(agent);
                value["actor"]["agent_id"] = json!(agent);
                value["actor"]["key_id"] = json!(self.registry.key_id(key_of));
                if let Some(role) = text(op, "role") {
                    value["actor"]["role"] = json!(role);
                }
            }
            _ => {
                let place = value.pointer_mut("/signature/signature_b64").unwrap();
                *place = json!(super::raw::respelt(place.as_str().unwrap(), name));
            }
        }
        self.put_value(event, &value);
    }

    fn copy(&mut self, op: &Value, place: usize) {
        let mut value = self.value(at(op, "src"));
        for (path, new) in op["set"].as_object().into_iter().flatten() {
            let new = self.resolve(new, place.checked_sub(1));
            let path = aliased(&value, path);
            set(&mut value, &path, new);
        }
        self.lines.insert(place, line_of(&value, self.dialect));
    }

    /// An event of this type, with real keys and in its place.
    fn forge(&mut self, op: &Value) {
        let wanted = text(op, "type").or_else(|| text(op, "event_type")).unwrap_or_default();
        let place = place(op, &["at"]).unwrap_or(self.lines.len());
        let like = self
            .lines
            .iter()
            .find_map(|line| value_of(line).filter(|value| value["event_type"] == wanted));
        let mut value = like.unwrap_or_else(|| self.challenge(wanted));
        value["event_id"] = json!(self.id_after(place - 1));
        value["created_at"] = self.value(place - 1)["created_at"].clone();
        for (path, new) in op["set"].as_object().into_iter().flatten() {
            let new = self.resolve(new, Some(place - 1));
            set(&mut value, path, new);
        }
        if let Some(payload) = op.get("payload") {
            value["payload"] = payload.clone();
        }
        self.lines.insert(place, line_of(&value, self.dialect));
        self.seal(place, None, Signers::Original, PayloadHashes::Computed);
    }

    /// Links and hashes; who cannot sign leaves the signatures as they are.
    fn relink(&mut self, from: usize) {
        for index in from..self.lines.len() {
            let head = self.head_before(index);
            let dialect = self.dialect;
            self.edit(index, |event| {
                number(event, index, dialect);
                event["prev_event_hash"] = json!(head);
                hash_event(event);
            });
        }
    }

    fn resign(&mut self, name: &str, op: &Value) {
        let signers = match text(op, "keys") {
            Some("attacker") => Signers::Attacker,
            _ => Signers::Original,
        };
        let payload_hashes = match op.get("keep_payload_hash").and_then(Value::as_bool) {
            Some(true) => PayloadHashes::Kept,
            _ => PayloadHashes::Computed,
        };
        if name == "resign" {
            let event = at(op, "event");
            let mut value = self.value(event);
            self.sign(&mut value, signers);
            hash_event(&mut value);
            return self.put_value(event, &value);
        }
        let except = place(op, &["event"]).filter(|_| name == "resign_all_except");
        self.put_ids_in_order();
        self.seal(0, except, signers, payload_hashes);
        self.tell_log();
    }

    /// The summary of a trace is a cache that nobody trusts; what it says, the log says in ours.
    fn change_summary(&mut self, name: &str, op: &Value, case: &Case) {
        match name {
            // Without keys the log stays as it is; a checkpoint that does not fit can be deleted.
            "meta_sync" if case.is_insider() || self.registry.swapped => {
                self.tell_log();
                if self.registry.swapped {
                    self.checkpoint = None;
                }
            }
            "meta_sync" => self.checkpoint = None,
            "meta_rewind" => {
                let to = place(op, &["to", "event", "count"]).unwrap_or(1).max(1);
                self.told.truncate(to);
                self.write_log();
            }
            "meta_delete" => drop(self.beside.remove("trace.json")),
            "meta_set" => {
                let path = text(op, "path").or_else(|| text(op, "field")).unwrap_or_default();
                let value = self.resolve(&op["value"], None);
                let member = match path.trim_start_matches('/') {
                    "head_event_hash" | "head" => Some("head"),
                    "event_count" | "count" => Some("size"),
                    "status" => Some("status"),
                    _ => None,
                };
                if let Some(member) = member {
                    log::restate(&mut self.log, &self.registry, member, &value);
                    self.checkpoint = None;
                }
                let summary = json!({ path.trim_start_matches('/'): value });
                let file = format!("traces/{}/trace.json", self.trace_id);
                self.beside.insert(file, summary.to_string().into_bytes());
            }
            other => panic!("no operation `{other}` is known"),
        }
    }

    /// The artifact that an operation means.
    fn named(&self, op: &Value) -> Hash {
        let index = place(op, &["artifact"]).unwrap_or(0);
        let event = self.value(at(op, "event"));
        event["artifacts"][index]["artifact_hash"].as_str().unwrap().parse().unwrap()
    }

    fn change_blob(&mut self, name: &str, op: &Value) {
        let hash = self.named(op);
        let bytes = match self.blobs.get(&hash) {
            Some(Blob::Bytes(bytes)) => bytes.clone(),
            _ => Vec::new(),
        };
        let given = text(op, "text").map(|text| text.as_bytes().to_vec());
        let blob = match name {
            "blob_delete" | "blob_remove" => {
                self.blobs.remove(&hash);
                return;
            }
            "blob_symlink" | "blob_link" => Blob::Link(given.unwrap_or(bytes)),
            "blob_dir" | "blob_directory" | "blob_mkdir" => Blob::Directory,
            "blob_append" => Blob::Bytes([bytes, given.unwrap_or_else(|| b" ".to_vec())].concat()),
            "blob_truncate" => {
                let length = place(op, &["bytes", "length", "size"]).unwrap_or(0);
                Blob::Bytes(bytes.into_iter().take(length).collect())
            }
            "blob_flip" | "blob_flip_byte" | "blob_flip_bit" => {
                let place = place(op, &["at", "offset", "byte"]).unwrap_or(0);
                let flipped = |(index, byte): (usize, u8)| byte ^ u8::from(index == place);
                Blob::Bytes(bytes.into_iter().enumerate().map(flipped).collect())
            }
            "blob_write" | "blob_replace" | "blob_set" => Blob::Bytes(given.unwrap_or_default()),
            other => panic!("no operation `{other}` is known"),
        };
        self.blobs.insert(hash, blob);
    }

    /// Descriptors live in signed events: what lies beside a blob is nobody's word.
    fn change_sidecar(&mut self, op: &Value) {
        let path = countersign_format::event::artifact::storage_uri(&self.named(op));
        self.beside.insert(format!("{path}.meta.json"), op.to_string().into_bytes());
    }

    /// A time of a case: before or after an event, or as it stands.
    fn moment(&self, value: &str) -> (Timestamp, usize) {
        let near = |event: &str, millis: i64| {
            let event: usize = event.parse().unwrap();
            let told = self.told_at(event);
            (told.plus_millis(millis), event + usize::from(millis > 0))
        };
        match value.split_once(':') {
            Some(("before", event)) => near(event, -500),
            Some(("after", event)) => near(event, 500),
            _ => {
                let at: Timestamp = value.parse().unwrap();
                let times = (0..self.lines.len()).map(|event| self.told_at(event));
                (at, times.filter(|&time| time < at).count())
            }
        }
    }

    fn told_at(&self, event: usize) -> Timestamp {
        Told::of(&self.lines[event]).and_then(|told| told.at).unwrap()
    }

    /// In ours, the end of a key is an entry of the log; everything else about keys is as if it had
    /// always been so.
    fn change_registry(&mut self, name: &str, op: &Value) {
        match name {
            "registry_swap_pubkeys" | "registry_swap_pubkey" => {
                self.registry.swapped = true;
                for holder in &mut self.registry.holders {
                    holder.record["public_key"] = json!(holder.attacker().public_key());
                }
                return self.write_log();
            }
            "registry_remove" | "registry_delete" => {
                let agent = needed(op, "agent").to_owned();
                // The log knows such a key no more; whoever signs with it is a stranger.
                self.registry.holder_mut(&agent).record["key_id"] = json!("key_0");
                return self.rebuild();
            }
            "registry_set" => {}
            other => panic!("no operation `{other}` is known"),
        }
        let times: Vec<(String, (Timestamp, usize))> =
            ["revoked_at", "rotated_at", "updated_at", "created_at"]
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), self.moment(text(op, name)?))))
                .collect();
        let ended = times.iter().find(|(name, _)| name != "created_at");
        let agent = needed(op, "agent");
        let how = match text(op, "status") {
            Some("revoked") => Some(How::Revoked),
            Some("rotated") => Some(How::Rotated),
            _ => None,
        };
        let reason = text(op, "revoked_reason").or_else(|| text(op, "reason"));
        let holder = self.registry.holder_mut(agent);
        for (name, value) in op.as_object().unwrap() {
            let value = match times.iter().find(|(known, _)| known == name) {
                Some((_, (at, _))) => json!(at),
                None => value.clone(),
            };
            match name.as_str() {
                "op" | "agent" => {}
                "reason" => holder.record["revoked_reason"] = value,
                name => holder.record[name] = value,
            }
        }
        if let (Some(how), Some((_, (at, size)))) = (how, ended) {
            let reason = reason.unwrap_or("lost").to_owned();
            holder.end = Some(End { how, at: *at, size: *size, reason });
            self.write_log();
        } else {
            self.rebuild();
        }
    }
}

/// The pointer under which this event has what others call so.
fn aliased(value: &Value, path: &str) -> String {
    if value.pointer(path).is_some() {
        return path.to_owned();
    }
    let ours = ALIASES.iter().map(|(theirs, ours)| path.replace(theirs, ours));
    ours.into_iter()
        .find(|ours| ours != path && value.pointer(ours).is_some())
        .unwrap_or_else(|| path.to_owned())
}

fn each_text(value: &mut Value, change: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(members) => members.values_mut().for_each(|it| each_text(it, change)),
        _ => {}
    }
}
