//! Agent sessions that CapSeal sealed: what their receipts show.
//!
//! Every receipt hash is computed again, and every copy of a fact in the file must agree with it.
//! Nothing in such a file is signed, and what is not hashed is only compared with its copies.

mod action;
mod facts;
mod flat;
mod rows;
mod split;

use std::io;

use countersign_format::cap::{CapError, CapFault, CapReader, Member};
use countersign_format::hash::Hash;
use countersign_format::python::{PyObject, PyValue};

use self::action::{Digest, RecordSeen, at, listed, record};
use self::facts::{Documents, Truth, disagreements, read};
use self::rows::{Levels, OddTree, Rows};
use self::split::{Cutter, Form, Nested};
use super::crew::Crew;
use super::feed::{Feed, Hashing, Item, OpenedCap};
use super::stop::Stop;

/// Actions of one session.
const ACTIONS_MAX: u64 = 200_000;
/// Bytes of a document that is kept as a whole; its tree may have a hundred times as many.
const DOCUMENT_BYTES_MAX: u64 = 64 << 10;
/// Contradictions that are told; more say nothing new.
const TOLD_MAX: usize = 20;

const RECORDS: &str = "actions.jsonl";
const LISTED: &str = "actions.json";
const CAPSULE: &str = "agent_capsule.json";
const PROOF: &str = "proof.json";
const METADATA: &str = "run_metadata.json";
const ROWS: &str = "row_archive/rows.json";
const LEVELS: &str = "row_archive/merkle_levels.json";

/// What a session's receipts come to.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) trace_id: String,
    pub(crate) actions: u64,
    pub(crate) last: Option<Hash>,
    /// What is wrong, with the place of an action where it is one.
    pub(crate) faults: Vec<(Option<u64>, String)>,
}

/// Verifies a session whose manifest was read already.
pub(crate) fn verify(reader: CapReader<OpenedCap>, manifest: &[u8]) -> Result<Session, Stop> {
    let manifest = small_manifest(manifest)?;
    let trace_id = route(&manifest)?;
    let mut intake =
        Intake { documents: Documents { manifest, ..Documents::default() }, ..Intake::default() };
    let feed = Feed::start(reader, Hashing::Unwanted);
    loop {
        match feed.next()? {
            Item::Member(member) => {
                intake.member(&member, &feed).map_err(|stop| of_container(stop, &feed))?;
            }
            Item::Done => break,
            Item::Data(_) | Item::End(_) => {}
        }
    }
    intake.end(trace_id)
}

/// Reads the manifest of a file of CapSeal's, which is short.
pub(super) fn small_manifest(bytes: &[u8]) -> Result<PyObject, Stop> {
    let (name, size, max) = ("manifest.json", bytes.len() as u64, DOCUMENT_BYTES_MAX);
    if size > max {
        return Err(CapFault::MemberTooLong { name: name.to_owned(), size, max }.into());
    }
    Ok(read(name, bytes)?)
}

/// What is wrong with the container comes before what is wrong with a member: it says more.
fn of_container(stop: Stop, feed: &Feed) -> Stop {
    let Stop::Refused(_) = &stop else { return stop };
    loop {
        match feed.next() {
            Ok(Item::Done) | Err(CapError::Io(_)) => return stop,
            Ok(_) => {}
            Err(CapError::Refused(fault)) => return fault.into(),
        }
    }
}

/// The id of the session, if the file is of a kind in which anything can be checked.
fn route(manifest: &PyObject) -> Result<String, String> {
    let text = |name| match at(manifest, name) {
        Some(PyValue::String(text)) => text.to_lossy(),
        _ => String::new(),
    };
    let (schema, run_type) = (text("schema"), text("run_type"));
    match (schema.as_str(), run_type.as_str()) {
        ("agent_cap_v1", _) | ("run_cap_v1", "mcp") => Ok(text("trace_id")),
        ("run_cap_v1", "") => Err("`manifest.json` does not say what was run".to_owned()),
        ("run_cap_v1", other) => Err(format!(
            "a run of the kind `{other}`: nothing in it can be checked, since its receipts do not \
             cover what it holds"
        )),
        ("", _) => Err("`manifest.json` has no `schema`".to_owned()),
        (other, _) => Err(format!(
            "a file of the schema `{other}`: nothing in it can be checked, since it holds no chain \
             of receipts"
        )),
    }
}

#[derive(Default)]
struct Intake {
    documents: Documents,
    records: Option<Records>,
    listed: Option<u64>,
    rows: Option<OddTree>,
    levels: Option<Levels>,
    copies: Copies,
    faults: Vec<(Option<u64>, String)>,
}

/// The chain of receipts.
#[derive(Default)]
struct Records {
    count: u64,
    last: Option<Hash>,
    tree: OddTree,
    /// The same for the other way to take the gate for asked, once it is another.
    other: Option<OddTree>,
}

impl Intake {
    fn member(&mut self, member: &Member, feed: &Feed) -> Result<(), Stop> {
        match member.name.as_str() {
            RECORDS => self.take_records(feed),
            LISTED => self.take_listed(feed),
            ROWS => {
                let mut rows = Rows::default();
                nested(ROWS, feed, &mut |met| rows.meet(met))?;
                self.rows = Some(rows.tree);
                Ok(())
            }
            LEVELS => {
                let mut levels = Levels::default();
                nested(LEVELS, feed, &mut |met| levels.meet(met, ACTIONS_MAX))?;
                self.levels = Some(levels);
                Ok(())
            }
            CAPSULE | PROOF | METADATA => {
                let (bytes, _) = document(member, feed)?;
                let read = read(&member.name, &bytes)?;
                match member.name.as_str() {
                    CAPSULE => self.documents.capsule = Some(read),
                    PROOF => self.documents.proof = Some((read, Hash::of(&bytes))),
                    _ => self.documents.metadata = Some(read),
                }
                Ok(())
            }
            other => Err(Stop::Refused(format!(
                "member `{other}` is none of an agent's session: nothing in the file vouches for it"
            ))),
        }
    }

    fn take_records(&mut self, feed: &Feed) -> Result<(), Stop> {
        let mut records = Records::default();
        let (copies, faults) = (&mut self.copies, &mut self.faults);
        let mut take = |seen: Result<RecordSeen, String>| {
            let index = records.count;
            match seen {
                Ok(seen) => {
                    note(faults, index, records.follows(&seen));
                    note(faults, index, copies.put(Side::Records, seen.digest));
                    records.take_in(&seen);
                }
                Err(message) => {
                    note(faults, index, Some(message));
                    records.count += 1;
                    copies.pass(Side::Records);
                    records.last = None;
                }
            }
        };
        each(RECORDS, Form::Lines, record, feed, &mut take)?;
        self.records = Some(records);
        Ok(())
    }

    fn take_listed(&mut self, feed: &Feed) -> Result<(), Stop> {
        let (copies, faults) = (&mut self.copies, &mut self.faults);
        let mut index = 0;
        let mut take = |seen: Result<Digest, String>| {
            match seen {
                Ok(digest) => note(faults, index, copies.put(Side::Listed, digest)),
                Err(message) => {
                    note(faults, index, Some(message));
                    copies.pass(Side::Listed);
                }
            }
            index += 1;
        };
        self.listed = Some(each(LISTED, Form::Objects, listed, feed, &mut take)?);
        Ok(())
    }

    fn end(mut self, trace_id: String) -> Result<Session, Stop> {
        let Some(records) = self.records.take() else {
            return Err(missing(RECORDS, "every session has it"));
        };
        let Some(listed) = self.listed else { return Err(missing(LISTED, "every session has it")) };
        let Some(capsule) = &self.documents.capsule else {
            return Err(missing(CAPSULE, "every session has it"));
        };
        if self.documents.metadata.is_none() {
            return Err(missing(METADATA, "every session has it"));
        }
        if self.documents.proof.is_none() && at(capsule, "proof/proof_hash").is_some() {
            return Err(missing(PROOF, "`agent_capsule.json` names it"));
        }
        let committed = at(capsule, "commitment/row_root").is_some();
        for (name, there) in [(ROWS, self.rows.is_some()), (LEVELS, self.levels.is_some())] {
            if committed && !there {
                return Err(missing(name, "`agent_capsule.json` commits to it"));
            }
        }
        let mut faults = self.faults;
        let mut wrong = |message: String| faults.push((None, message));
        if listed != records.count {
            let count = records.count;
            wrong(format!("`{LISTED}` has {listed} actions, `{RECORDS}` has {count}"));
        }
        if records.count == 0 {
            wrong("there are no actions".to_owned());
        }
        if let (Some(last), Some(root)) = (records.last, records.tree.root()) {
            let other = records.other.as_ref().and_then(OddTree::root).unwrap_or(root);
            let truth = Truth { actions: records.count, last, roots: [root, other] };
            disagreements(&self.documents, &truth).into_iter().for_each(&mut wrong);
            check_rows(self.rows.as_ref(), self.levels.as_ref(), &truth, &mut wrong);
        }
        faults.truncate(TOLD_MAX);
        Ok(Session { trace_id, actions: records.count, last: records.last, faults })
    }
}

fn check_rows(
    rows: Option<&OddTree>,
    levels: Option<&Levels>,
    truth: &Truth,
    wrong: &mut dyn FnMut(String),
) {
    let fits = |root: Option<Hash>| root.is_some_and(|root| truth.roots.contains(&root));
    if rows.is_some_and(|rows| rows.count != truth.actions || !fits(rows.root())) {
        wrong(format!("`{ROWS}` does not hold the rows that the actions give"));
    }
    if levels.is_some_and(|it| it.leaves != Some(truth.actions) || !fits(it.root)) {
        wrong(format!("`{LEVELS}` is not the tree of the rows that the actions give"));
    }
}

fn missing(name: &str, why: &str) -> Stop {
    Stop::Refused(format!("member `{name}` is missing: {why}"))
}

fn note(faults: &mut Vec<(Option<u64>, String)>, index: u64, fault: Option<String>) {
    if let Some(message) = fault.filter(|_| faults.len() < TOLD_MAX) {
        faults.push((Some(index), message));
    }
}

impl Records {
    /// Why the action is not the one that follows.
    fn follows(&self, seen: &RecordSeen) -> Option<String> {
        let index = self.count;
        match (self.last, seen.parent) {
            (None, None) if index == 0 => None,
            (None, Some(found)) if index == 0 => Some(format!(
                "`{RECORDS}` record 0 has `parent_receipt_hash` {found}, expected null"
            )),
            // What the action before is was told.
            (None, _) => None,
            (Some(last), Some(found)) if found == last => None,
            (Some(last), found) => {
                let found = found.map_or_else(|| "null".to_owned(), |hash| hash.to_hex());
                Some(format!(
                    "`{RECORDS}` record {index} does not follow record {}: expected \
                     `parent_receipt_hash` {last}, found {found}",
                    index - 1
                ))
            }
        }
    }

    fn take_in(&mut self, seen: &RecordSeen) {
        self.count += 1;
        self.last = Some(seen.receipt_hash);
        let [leaf, other] = seen.leaves;
        if leaf != other && self.other.is_none() {
            self.other = Some(self.tree.clone());
        }
        if let Some(tree) = &mut self.other {
            tree.push(other);
        }
        self.tree.push(leaf);
    }
}

/// Which of the two lists of actions speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Records,
    Listed,
}

/// The two lists of actions: of the one that comes first a digest of each action is kept.
#[derive(Debug, Default)]
struct Copies {
    first: Option<Side>,
    kept: Vec<Option<Digest>>,
    at: usize,
}

impl Copies {
    fn put(&mut self, side: Side, digest: Digest) -> Option<String> {
        if *self.first.get_or_insert(side) == side {
            self.kept.push(Some(digest));
            return None;
        }
        let at = self.at;
        self.at += 1;
        let kept = self.kept.get(at).copied().flatten()?;
        (kept != digest)
            .then(|| format!("action {at} is not the same in `{LISTED}` and in `{RECORDS}`"))
    }

    /// An action of which nothing is known.
    fn pass(&mut self, side: Side) {
        if *self.first.get_or_insert(side) == side {
            self.kept.push(None);
        } else {
            self.at += 1;
        }
    }
}

fn document(member: &Member, feed: &Feed) -> Result<(Vec<u8>, Option<Hash>), Stop> {
    let (name, size, max) = (member.name.clone(), member.size, DOCUMENT_BYTES_MAX);
    if size > max {
        return Err(CapFault::MemberTooLong { name, size, max }.into());
    }
    Ok(feed.rest(max)?)
}

/// Hands every document of a member to the crew, and what comes back to `take`.
fn each<R: Send + 'static>(
    name: &str,
    form: Form,
    look: fn(u64, &[u8]) -> R,
    feed: &Feed,
    take: &mut dyn FnMut(R),
) -> Result<u64, Stop> {
    let (mut crew, mut cutter, mut count) = (Crew::new(look), Cutter::new(form), 0u64);
    loop {
        match feed.next()? {
            Item::Data(piece) => {
                let cut = cutter.push(&piece, &mut |document| {
                    count += 1;
                    if count > ACTIONS_MAX {
                        return Err(format!("it has more than {ACTIONS_MAX} actions"));
                    }
                    crew.put(document, take).map_err(|error| error.to_string())
                });
                cut.map_err(|fault| format!("`{name}`: {fault}"))?;
            }
            Item::End(_) => break,
            Item::Member(_) | Item::Done => {
                return Err(io::Error::other("no end of a member").into());
            }
        }
    }
    cutter.end().map_err(|fault| format!("`{name}`: {fault}"))?;
    Ok(crew.finish(take)?)
}

fn nested(
    name: &str,
    feed: &Feed,
    meet: &mut dyn FnMut(split::Met<'_>) -> Result<(), String>,
) -> Result<(), Stop> {
    let mut nested = Nested::default();
    let said = |fault: String| format!("`{name}`: {fault}");
    loop {
        match feed.next()? {
            Item::Data(piece) => nested.push(&piece, meet).map_err(said)?,
            Item::End(_) => return Ok(nested.end().map_err(said)?),
            Item::Member(_) | Item::Done => {
                return Err(io::Error::other("no end of a member").into());
            }
        }
    }
}
