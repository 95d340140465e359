//! Homes that were tampered with: bytes flipped and cut, lines moved, members edited by somebody who
//! recomputes hashes, and by somebody who has the keys as well.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::key::SecretKey;
use serde_json::{Map, Value, json};

/// A seeded source of choices.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if there is none.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

/// A home in memory, with the keys that sign in it, by their ids, if they are known.
pub(crate) struct Original {
    files: BTreeMap<PathBuf, Vec<u8>>,
    keys: BTreeMap<String, SecretKey>,
    /// The files to which something is done, the trace's ledger first.
    targets: Vec<PathBuf>,
}

impl Original {
    /// Reads what a verifier reads of the trace at `home`.
    pub(crate) fn read(home: &Path, trace_id: &str, keys: Vec<SecretKey>) -> Self {
        let mut files = BTreeMap::new();
        read_all(home, Path::new(""), &mut files);
        let ledger = Path::new("traces").join(trace_id).join("events.jsonl");
        let mut targets = vec![ledger, "log/events.jsonl".into()];
        let others = files.keys().filter(|path| {
            path.starts_with("artifacts/sha256") || path.ends_with("log/checkpoint")
        });
        targets.extend(others.cloned());
        let keys = keys.into_iter().map(|key| (key.public_key().key_id().to_string(), key));
        Self { files, keys: keys.collect(), targets }
    }

    /// Does something to one file of the copy at `home`, and says what. `restore` undoes it.
    pub(crate) fn tamper(&self, home: &Path, dice: &mut Dice) -> (String, PathBuf) {
        let ledgers = &self.targets[..2];
        let (how, path, bytes) = match dice.below(10) {
            0 | 1 => self.bytes(dice, &self.targets),
            2 | 3 => self.lines(dice, ledgers),
            // Most of what can be said of an event is said of the trace's.
            4 => self.member(dice, &ledgers[1]),
            _ => self.member(dice, &ledgers[0]),
        };
        let said = format!("{how} in {}", path.display());
        match bytes {
            Some(bytes) => fs::write(home.join(&path), bytes).unwrap(),
            None => fs::remove_file(home.join(&path)).unwrap(),
        }
        (said, path)
    }

    /// Puts the file back as it was.
    pub(crate) fn restore(&self, home: &Path, path: &Path) {
        fs::write(home.join(path), &self.files[path]).unwrap();
    }

    fn bytes(&self, dice: &mut Dice, targets: &[PathBuf]) -> (String, PathBuf, Option<Vec<u8>>) {
        let path = dice.of(targets);
        let mut bytes = self.files[&path].clone();
        if bytes.is_empty() {
            return ("something put".to_owned(), path, Some(b"x".to_vec()));
        }
        let at = dice.below(bytes.len());
        let how = match dice.below(5) {
            0 => {
                bytes.remove(at);
                "byte removed"
            }
            1 => {
                bytes.insert(at, dice.of(b"\n \"{}0a\xff\0"));
                "byte put"
            }
            2 => {
                bytes.truncate(at);
                "rest cut off"
            }
            3 if path.starts_with("artifacts") => return ("file gone".to_owned(), path, None),
            _ => {
                bytes[at] ^= 1 << dice.below(8);
                "bit flipped"
            }
        };
        (format!("{how} at {at}"), path, Some(bytes))
    }

    fn lines(&self, dice: &mut Dice, ledgers: &[PathBuf]) -> (String, PathBuf, Option<Vec<u8>>) {
        let path = dice.of(ledgers);
        let mut lines = self.lines_of(&path);
        let (from, to) = (dice.below(lines.len()), dice.below(lines.len()));
        let how = match dice.below(6) {
            0 => {
                lines.remove(from);
                format!("line {from} removed")
            }
            1 => {
                let line = lines[from].clone();
                lines.insert(to, line);
                format!("line {from} repeated at {to}")
            }
            2 => {
                lines.swap(from, to);
                format!("lines {from} and {to} swapped")
            }
            3 => {
                let line = lines.remove(from);
                lines.insert(to.min(lines.len()), line);
                format!("line {from} moved to {to}")
            }
            4 => {
                lines.truncate(from);
                format!("everything from line {from} on removed")
            }
            _ => {
                let other = dice.of(&self.ledgers());
                let line = dice.of(&self.lines_of(&other));
                lines.insert(to, line);
                format!("a line of {} put at {to}", other.display())
            }
        };
        (how, path, Some(join(&lines)))
    }

    fn ledgers(&self) -> Vec<PathBuf> {
        self.files.keys().filter(|path| path.ends_with("events.jsonl")).cloned().collect()
    }

    fn lines_of(&self, path: &Path) -> Vec<Vec<u8>> {
        let lines = self.files[path].split(|&byte| byte == b'\n');
        lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    }

    fn member(&self, dice: &mut Dice, path: &Path) -> (String, PathBuf, Option<Vec<u8>>) {
        let mut events: Vec<Value> =
            self.lines_of(path).iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
        let at = dice.below(events.len());
        let mut pointers = Vec::new();
        list(&events[at], String::new(), &mut pointers);
        let pointer = dice.of(&pointers);
        let others: Vec<Value> =
            events.iter().filter_map(|event| event.pointer(&pointer).cloned()).collect();
        let what = edit(&mut events[at], &pointer, &others, dice);
        let thorough = if self.keys.is_empty() { 4 } else { 6 };
        let how = match dice.below(thorough) {
            0 => "nothing recomputed",
            1 => {
                reseal(&mut events[at], None, None);
                "its hashes recomputed"
            }
            2 | 3 => {
                chain(&mut events, at, None);
                "the chain recomputed"
            }
            _ => {
                chain(&mut events, at, Some(&self.keys));
                "everything signed again"
            }
        };
        let mut lines: Vec<Vec<u8>> = events.iter().map(json::to_bytes).collect();
        if dice.below(12) == 0 {
            lines[at] = serde_json::to_vec_pretty(&events[at]).unwrap();
            lines[at].retain(|&byte| byte != b'\n');
        }
        (format!("{what} {pointer} of event {at}, {how}"), path.to_owned(), Some(join(&lines)))
    }
}

fn join(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect()
}

fn read_all(home: &Path, below: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(home.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            read_all(home, &path, files);
        } else {
            files.insert(path, fs::read(entry.path()).unwrap());
        }
    }
}

/// The places in a document, below its root.
fn list(value: &Value, pointer: String, out: &mut Vec<String>) {
    let mut below = |key: &str, member: &Value| {
        let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
        out.push(pointer.clone());
        list(member, pointer, out);
    };
    match value {
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(at, member)| below(&at.to_string(), member));
        }
        Value::Object(all) => all.iter().for_each(|(key, member)| below(key, member)),
        _ => {}
    }
}

/// Changes the value at `pointer`, and says how.
fn edit(event: &mut Value, pointer: &str, others: &[Value], dice: &mut Dice) -> String {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    if let (3, Some(Value::Object(members))) = (dice.below(8), event.pointer_mut(parent)) {
        members.remove(key);
        return "removed".to_owned();
    }
    let place = event.pointer_mut(pointer).unwrap();
    let new = match (dice.below(4), &*place) {
        (0, _) => dice.of(others),
        (1, Value::String(text)) => json!(changed(text, dice)),
        (1, Value::Number(number)) => json!(number.as_i64().unwrap_or(0) + dice.of(&[1, -1, 7])),
        (1, Value::Object(members)) => {
            let mut members: Map<String, Value> = members.clone();
            let key = dice.of(&["of_tomorrow", "kind", "e\u{301}", "size"]);
            members.insert(key.to_owned(), json!(["new", { "deep": 1 }]));
            Value::Object(members)
        }
        (1, Value::Array(elements)) => [elements.as_slice(), &elements[..]].concat().into(),
        _ => dice.of(&[
            Value::Null,
            json!(true),
            json!(""),
            json!("x"),
            json!("e\u{301}"),
            json!("\u{fdd0}"),
            json!(0),
            json!(-1),
            json!(1.5),
            json!(9_007_199_254_740_991_i64),
            json!([]),
            json!({}),
            json!("0".repeat(64)),
            json!("2026-02-29T00:00:00.000Z"),
            json!("2031-01-01T00:00:00.000Z"),
            json!("2001-01-01T00:00:00.000Z"),
        ]),
    };
    let said = new.to_string();
    *place = new;
    format!("{} put at", said.chars().take(80).collect::<String>())
}

fn changed(text: &str, dice: &mut Dice) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    if characters.is_empty() {
        return "0".to_owned();
    }
    let at = dice.below(characters.len());
    match dice.below(4) {
        0 => characters[at] = dice.of(&['0', '1', 'f', 'z', 'Z', '/', '.', 'é']),
        1 => drop(characters.remove(at)),
        2 => characters.insert(at, dice.of(&['0', 'a', '=', '\u{301}', '\n'])),
        _ => return text.to_uppercase(),
    }
    characters.into_iter().collect()
}

/// Recomputes everything from event `from` on.
fn chain(events: &mut [Value], from: usize, keys: Option<&BTreeMap<String, SecretKey>>) {
    for at in from..events.len() {
        let previous = match at {
            0 => None,
            _ => events[at - 1].get("event_hash").cloned(),
        };
        // The first event is what was edited: its own link stays as it is.
        reseal(&mut events[at], previous.filter(|_| at > from), keys);
    }
}

/// Recomputes the hashes of an event and, where its key is known, its signature.
fn reseal(event: &mut Value, previous: Option<Value>, keys: Option<&BTreeMap<String, SecretKey>>) {
    let without = |event: &Value, names: &[&str]| {
        let mut members = event.as_object().unwrap().clone();
        names.iter().for_each(|name| drop(members.remove(*name)));
        json::to_bytes(&Value::Object(members))
    };
    if let Some(previous) = previous {
        event["prev_event_hash"] = previous;
    }
    if let Some(payload) = event.get("payload").filter(|payload| !payload.is_null()) {
        event["payload_hash"] = json!(Hash::of(&json::to_bytes(payload)));
    }
    let key_id = event.pointer("/actor/key_id").and_then(Value::as_str).unwrap_or_default();
    if let Some(key) = keys.and_then(|keys| keys.get(key_id)) {
        let signed = without(event, &["event_hash", "payload", "signature"]);
        event["signature"] = json!({
            "algorithm": "ed25519",
            "signature_b64": key.sign(&signed).to_string(),
            "signed_bytes_hash": Hash::of(&signed),
        });
    }
    event["event_hash"] = json!(Hash::of(&without(event, &["event_hash"])));
}
