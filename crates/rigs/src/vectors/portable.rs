//! Proofs made from the published workspaces, and what a verifier says of each.

use std::io::{self, BufRead};

use countersign_format::hash::Hash;
use countersign_format::key::SecretKey;
use countersign_format::merkle::root;
use countersign_format::note::{Checkpoint, SignedNote};
use countersign_format::proof::{Equivocation, EquivocationForm, EventProof, LeafHashes};
use countersign_format::schemas;
use countersign_format::time::Timestamp;
use countersign_verify::{EventName, Options, Profile, Source, prove};
use serde_json::{Map, Value, json};

use super::{cannot, home};

/// Seeds of the recorder's keys: the one that was rotated, and the one that took its place.
const ROTATED: u8 = 2;
const ACTIVE: u8 = 8;

/// What a verifier says of a file: its status, and the codes of its failures.
type Expected = (&'static str, &'static [&'static str]);

/// The files of a workspace.
struct Published {
    log: Vec<u8>,
    trace: Vec<u8>,
    checkpoint: Vec<u8>,
}

impl Published {
    fn new(files: &[(String, Vec<u8>)], name: &str) -> Result<Self, String> {
        let file = |path: String| {
            let found = files.iter().find(|(name, _)| *name == path);
            found.map(|(_, bytes)| bytes.clone()).ok_or_else(|| format!("no `{path}`"))
        };
        Ok(Self {
            log: file(format!("{name}/log/events.jsonl"))?,
            trace: file(format!("{name}/traces/{}/events.jsonl", home::recording_id()))?,
            checkpoint: file(format!("{name}/log/checkpoint"))?,
        })
    }

    fn log_lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.log).lines().map(str::to_owned).collect()
    }

    fn prove(&self, seq: u64) -> Result<EventProof, String> {
        let options = Options {
            trusted_roots: Default::default(),
            keys: Vec::new(),
            profile: Profile::DEFAULT,
            expect_trace: None,
            expect_head: None,
            expect_count: None,
            report_id: String::new(),
            now: Timestamp::EPOCH,
        };
        prove(self, &EventName::Seq(seq), &options).map_err(|error| cannot("prove an event", error))
    }

    fn tree(&self) -> Result<Checkpoint, String> {
        let note = SignedNote::parse(&self.checkpoint);
        let checkpoint = note.and_then(|note| note.text().parse());
        checkpoint.map_err(|error| cannot("read the checkpoint", error))
    }
}

impl Source for Published {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(self.trace.as_slice()))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        Ok(Some(Box::new(self.log.as_slice())))
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(vec![self.checkpoint.clone()])
    }
}

/// The files of `proofs/`, by name.
pub(super) fn files() -> Result<Vec<(String, Vec<u8>)>, String> {
    let homes = home::files()?;
    let good = Published::new(&homes, "good")?;
    let mut files = Vec::new();
    let mut expected = Map::new();
    let mut add = |name: &str, bytes: Vec<u8>, (status, codes): Expected| {
        files.push((format!("{name}.json"), bytes));
        expected.insert(name.to_owned(), json!({ "status": status, "failures": codes }));
    };
    let included: Expected = ("included", &[]);
    add("first-event", good.prove(0)?.to_bytes(), included);
    add("before-rotation", good.prove(2)?.to_bytes(), included);
    let whole = good.prove(5)?;
    add("after-rotation", whole.to_bytes(), included);
    let broken: Expected = ("fail", &["CHAIN_BREAK"]);
    let mut other = whole.clone();
    other.event = good.prove(4)?.event;
    add("another-event", other.to_bytes(), broken);
    let mut hidden = whole.clone();
    let last = hidden.log.entries.iter().rposition(|entry| entry.line.contains("prev_key_event"));
    hidden.log.entries.remove(last.ok_or("no key event")?);
    add("hidden-key-event", hidden.to_bytes(), broken);
    let mut cut = whole.clone();
    cut.log.entries.pop();
    add("cut-log", cut.to_bytes(), broken);
    let mut retired = whole;
    retired.log.checkpoint = signed(&good.tree()?, ROTATED)?;
    add("retired-checkpoint-key", retired.to_bytes(), ("fail", &["SIG_INVALID"]));
    let (checkpoints, events) = equivocations(&homes, &good)?;
    let proven: Expected = ("proven", &[]);
    add("two-checkpoints", checkpoints.to_bytes(), proven);
    add("two-entries", events.to_bytes(), proven);
    for (name, prefix, expected) in prefixes(&good, &checkpoints)? {
        add(name, prefix.to_bytes(), expected);
    }
    let mut equal = checkpoints;
    equal.second.clone_from(&equal.first);
    add("one-checkpoint-twice", equal.to_bytes(), broken);
    let mut unsigned = events;
    unsigned.keys.truncate(1);
    add("keys-missing", unsigned.to_bytes(), ("fail", &["SIG_INVALID"]));
    let expected = schemas::file_text(&Value::Object(expected));
    files.push(("expected.json".to_owned(), expected.into_bytes()));
    Ok(files)
}

fn signed(checkpoint: &Checkpoint, seed: u8) -> Result<String, String> {
    let note = checkpoint.sign(&SecretKey::from_seed(&[seed; 32]));
    note.map(|note| note.to_string()).map_err(|error| cannot("sign a checkpoint", error))
}

/// An older checkpoint and a newer one, which does not begin with it or does.
fn prefixes(
    good: &Published,
    model: &Equivocation,
) -> Result<Vec<(&'static str, Equivocation, Expected)>, String> {
    let hashes = good.log_lines().into_iter().map(|line| {
        let event: Value =
            serde_json::from_str(&line).map_err(|error| cannot("read a log", error))?;
        let hash = event.get("event_hash").and_then(Value::as_str).unwrap_or_default();
        hash.parse().map_err(|error| cannot("read a hash", error))
    });
    let mut leaves = hashes.collect::<Result<Vec<Hash>, String>>()?;
    let tree = good.tree()?;
    let make = |size: usize, of: Hash, leaves: &[Hash]| -> Result<Equivocation, String> {
        let older = Checkpoint { size: size as u64, root: of, ..tree.clone() };
        Ok(Equivocation {
            first: signed(&older, ROTATED)?,
            form: EquivocationForm::Prefix,
            leaves: Some(LeafHashes(leaves.to_vec())),
            second: signed(&tree, ACTIVE)?,
            ..model.clone()
        })
    };
    let broken: Expected = ("fail", &["CHAIN_BREAK"]);
    let size = leaves.len() / 2;
    let begun = root(leaves.get(..size).unwrap_or_default());
    let other = Hash::of(b"another log");
    let parted = make(size, other, &leaves)?;
    let fits = make(size, begun, &leaves)?;
    leaves.reverse();
    let foreign = make(size, other, &leaves)?;
    Ok(vec![
        ("older-is-no-prefix", parted, ("proven", &[])),
        ("older-is-prefix", fits, broken),
        ("other-leaves", foreign, broken),
    ])
}

/// Two checkpoints of one size, and two entries with one number.
fn equivocations(
    homes: &[(String, Vec<u8>)],
    good: &Published,
) -> Result<(Equivocation, Equivocation), String> {
    let lines = good.log_lines();
    let of_keys = |line: &&String| {
        line.contains("\"event_type\":\"key_") || line.contains("\"event_type\":\"log_opened\"")
    };
    let keys: Vec<String> = lines.iter().filter(of_keys).cloned().collect();
    let tree = good.tree()?;
    let other = Checkpoint { root: Hash::of(b"another log"), ..tree.clone() };
    let make = |form, first: String, second: String| Equivocation {
        countersign: "equivocation".to_owned(),
        first,
        form,
        keys: keys.clone(),
        leaves: None,
        schema_version: "1.1.0".to_owned(),
        second,
    };
    let notes = (signed(&tree, ACTIVE)?, signed(&other, ACTIVE)?);
    let checkpoints = make(EquivocationForm::Checkpoints, notes.0, notes.1);
    let twisted = Published::new(homes, "wrong-extent")?.log_lines();
    let parted = lines.iter().zip(&twisted).find(|(one, other)| one != other);
    let (one, another) = parted.ok_or("the logs do not part")?;
    let events = make(EquivocationForm::Events, one.clone(), another.clone());
    Ok((checkpoints, events))
}
