//! Whether two statements that cannot both be true are signed by keys of one log.
//!
//! Keys count here whether they were retired or not: the root named them, and that is all that is
//! asked. Who held them is not known.

use std::fmt::Write as _;

use countersign_format::event::{Event, EventType, SCHEMA_VERSION};
use countersign_format::hash::Hash;
use countersign_format::key::AgentIdentity;
use countersign_format::merkle;
use countersign_format::note::{Checkpoint, NoteKey, SignedNote};
use countersign_format::proof::{
    Equivocation, EquivocationForm, EquivocationReport, EquivocationStatus, LeafHashes,
};
use countersign_format::report::{FailureCode, Signer};
use countersign_format::role::Role;
use countersign_format::text::escape;
use countersign_protocol::State as _;
use countersign_protocol::log::{LogState, is_key_event};

use crate::Options;
use crate::extract::{SIGNED_THROUGHOUT, SoundLine, parse_note, signed, sound_line};
use crate::findings::{CheckId, Findings, Place};
use crate::inclusion_report::signer;
use crate::keys::KeyBook;
use crate::text::{write_failures, write_not_proven, write_root};

/// What no proof of equivocation shows.
const NOT_PROVEN: [&str; 3] = [
    "which of the two is true",
    "who held the keys: a stolen key signs as well",
    "for two events, that it was meant: after power loss a writer may give a number again",
];

/// What is wrong with a proof of equivocation.
pub(crate) type Objection = (FailureCode, String);

/// The keys that a root named, whatever became of them.
#[derive(Debug, Clone)]
pub(crate) struct KeyTable {
    pub(crate) origin: String,
    pub(crate) root: Hash,
    log_id: String,
    root_identity: AgentIdentity,
    identities: Vec<AgentIdentity>,
}

impl KeyTable {
    /// The keys that these lines name: the first event of a log, and key events that its root signed.
    pub(crate) fn from_lines<'l>(
        lines: impl IntoIterator<Item = &'l str>,
    ) -> Result<Self, Objection> {
        let mut table: Option<Self> = None;
        for (number, line) in lines.into_iter().enumerate() {
            let at = |(code, message): Objection| (code, format!("keys/{number}: {message}"));
            let line = sound_line(line).map_err(|(_, code, message)| at((code, message)))?;
            match &mut table {
                None => table = Some(Self::open(&line).map_err(at)?),
                Some(table) => table.add(&line).map_err(at)?,
            }
        }
        table.ok_or_else(|| (FailureCode::SchemaInvalid, "no keys are given".to_owned()))
    }

    fn open(line: &SoundLine) -> Result<Self, Objection> {
        // The log's own rules for its first event: the origin is that of the key, which is usable.
        LogState::default()
            .admit(&line.event)
            .map_err(|refusal| (FailureCode::RolePolicyViolation, refusal.to_string()))?;
        let identity = identity(&line.event)
            .ok_or_else(|| (FailureCode::SchemaInvalid, "no key is named".to_owned()))?;
        let table = Self {
            origin: countersign_format::note::origin(&identity.public_key.fingerprint()),
            root: identity.public_key.fingerprint(),
            log_id: line.event.event_id.clone(),
            root_identity: identity,
            identities: Vec::new(),
        };
        table.by_root(line)?;
        Ok(table)
    }

    /// Takes in one more key event.
    pub(crate) fn learn(&mut self, line: &str) -> Result<(), Objection> {
        let line = sound_line(line).map_err(|(_, code, message)| (code, message))?;
        self.add(&line)
    }

    fn add(&mut self, line: &SoundLine) -> Result<(), Objection> {
        let event_type = line.event.event_type;
        if !is_key_event(event_type) || event_type == EventType::LogOpened {
            let message = format!("`{}` names no key", event_type.as_str());
            return Err((FailureCode::SchemaInvalid, message));
        }
        self.by_root(line)?;
        self.identities.extend(identity(&line.event));
        Ok(())
    }

    fn by_root(&self, line: &SoundLine) -> Result<(), Objection> {
        if line.event.trace_id != self.log_id {
            let message = format!("/trace_id: this log is {}", self.log_id);
            return Err((FailureCode::SchemaInvalid, message));
        }
        let mut book = KeyBook::default();
        book.add(&self.root_identity);
        is_signed(line, &book)
    }

    fn identity_of(&self, key_id: &str) -> Option<&AgentIdentity> {
        self.identities.iter().find(|identity| identity.key_id == key_id)
    }

    /// The keys of recorders that signed a note under the name of this log.
    pub(crate) fn signers(&self, note: &SignedNote) -> Vec<String> {
        let recorders = self.identities.iter().filter(|identity| {
            identity.role_capabilities.contains(&Role::Recorder)
                && identity.key_id != self.root_identity.key_id
        });
        let known: Vec<NoteKey> = recorders
            .filter_map(|identity| NoteKey::new(&self.origin, identity.public_key).ok())
            .collect();
        let signers = note.verify(&known).unwrap_or_default();
        signers.iter().map(|key| key.public_key().key_id().to_string()).collect()
    }

    /// Whether a line is signed by a key of this log that may stand there.
    pub(crate) fn vouches_for(&self, line: &SoundLine) -> Result<(), Objection> {
        let mut book = KeyBook::default();
        let key_id = line.event.actor.key_id.as_str();
        let own = line.event.trace_id == self.log_id;
        if let Some(identity) = self.identity_of(key_id) {
            book.add(identity);
        } else if own && key_id == self.root_identity.key_id {
            book.add(&self.root_identity);
        }
        is_signed(line, &book)
    }
}

fn is_signed(line: &SoundLine, book: &KeyBook) -> Result<(), Objection> {
    let mut found = Findings::default();
    let verified = signed(line, book, &SIGNED_THROUGHOUT, &mut found);
    let (_, failures, _) = found.into_parts();
    match failures.into_iter().next() {
        Some(failure) => Err((failure.failure_code, failure.message)),
        None if verified => Ok(()),
        None => Err((FailureCode::SigInvalid, "the signature does not count".to_owned())),
    }
}

fn identity(event: &Event) -> Option<AgentIdentity> {
    serde_json::from_value(event.payload.get("identity")?.clone()).ok()
}

/// Verifies a proof of equivocation.
#[must_use]
pub fn verify_equivocation(proof: &Equivocation, options: &Options) -> EquivocationReport {
    let keys = KeyTable::from_lines(proof.keys.iter().map(String::as_str));
    let root = keys.as_ref().ok().map(|keys| keys.root);
    let judged = keys.and_then(|keys| match proof.form {
        EquivocationForm::Checkpoints => checkpoints(proof, &keys),
        EquivocationForm::Events => events(proof, &keys),
        EquivocationForm::Prefix => prefix(proof, &keys),
    });
    let mut findings = Findings::default();
    let (equivocation_status, summary, key_ids) = match judged {
        Ok((summary, key_ids)) => (EquivocationStatus::Proven, summary, key_ids),
        Err((code, message)) => {
            findings.fail(CheckId::Log, code, &Place::default(), message);
            (EquivocationStatus::Fail, "no equivocation is shown".to_owned(), Vec::new())
        }
    };
    let (_, failures, _) = findings.into_parts();
    let pinned = root.is_some_and(|root| options.trusted_roots.contains(&root));
    let mut report = EquivocationReport {
        schema_version: SCHEMA_VERSION.to_owned(),
        report_id: options.report_id.clone(),
        verified_at: options.now,
        equivocation_status,
        signer: if pinned { Signer::Pinned } else { Signer::Unpinned },
        root,
        summary,
        key_ids,
        failures,
        not_proven: NOT_PROVEN.map(str::to_owned).to_vec(),
        report_digest: None,
    };
    report.report_digest = Some(report.digest());
    report
}

/// What is shown, and the keys that signed it.
type Shown = (String, Vec<String>);

fn checkpoints(proof: &Equivocation, keys: &KeyTable) -> Result<Shown, Objection> {
    let (first, second, key_ids) = signed_checkpoints(proof, keys)?;
    contradict(&first, &second)
        .map(|summary| (summary, key_ids))
        .ok_or_else(|| (FailureCode::ChainBreak, "the checkpoints can both be true".to_owned()))
}

/// The older checkpoint is not that of the newer one's first entries.
fn prefix(proof: &Equivocation, keys: &KeyTable) -> Result<Shown, Objection> {
    let (older, newer, key_ids) = signed_checkpoints(proof, keys)?;
    let broken = |message: &str| (FailureCode::ChainBreak, message.to_owned());
    if older.size >= newer.size {
        return Err(broken("the first checkpoint is not of fewer entries than the second"));
    }
    let leaves = proof.leaves.as_ref().map_or(&[][..], |LeafHashes(leaves)| leaves);
    if leaves.len() as u64 != newer.size || merkle::root(leaves) != newer.root {
        return Err(broken("the leaves are not those of the second checkpoint"));
    }
    let begun = usize::try_from(older.size).ok().and_then(|size| leaves.get(..size));
    let root = merkle::root(begun.unwrap_or(leaves));
    if root == older.root {
        return Err(broken("the checkpoints can both be true"));
    }
    let summary = format!(
        "a checkpoint of {} entries with the root {}, and one of {} entries, of which the first {} \
         have the root {root}",
        older.size, older.root, newer.size, older.size
    );
    Ok((summary, key_ids))
}

/// Both checkpoints, which recorder keys of the log signed, and the ids of those.
fn signed_checkpoints(
    proof: &Equivocation,
    keys: &KeyTable,
) -> Result<(Checkpoint, Checkpoint, Vec<String>), Objection> {
    let invalid = |message| (FailureCode::SchemaInvalid, message);
    let (one, first) = parse_note(proof.first.as_bytes()).map_err(invalid)?;
    let (other, second) = parse_note(proof.second.as_bytes()).map_err(invalid)?;
    let mut signers = Vec::new();
    for (which, note, checkpoint) in [("first", &one, &first), ("second", &other, &second)] {
        if checkpoint.origin != keys.origin {
            let message = format!("the {which} checkpoint is of `{}`", checkpoint.origin);
            return Err((FailureCode::ChainBreak, message));
        }
        let by = keys.signers(note);
        if by.is_empty() {
            let message =
                format!("the {which} checkpoint is not signed by a recorder key of this log");
            return Err((FailureCode::SigInvalid, message));
        }
        signers.extend(by);
    }
    Ok((first, second, once(signers)))
}

/// How two checkpoints of one log contradict each other, if they do by themselves.
pub(crate) fn contradict(one: &Checkpoint, other: &Checkpoint) -> Option<String> {
    (one.size == other.size && one.root != other.root).then(|| {
        format!(
            "two checkpoints of {} entries, with the roots {} and {}",
            one.size, one.root, other.root
        )
    })
}

fn events(proof: &Equivocation, keys: &KeyTable) -> Result<Shown, Objection> {
    let sound = |line: &str, which: &str| {
        sound_line(line)
            .map_err(|(_, code, message)| (code, format!("the {which} event: {message}")))
    };
    let (one, other) = (sound(&proof.first, "first")?, sound(&proof.second, "second")?);
    for (which, line) in [("first", &one), ("second", &other)] {
        keys.vouches_for(line)
            .map_err(|(code, message)| (code, format!("the {which} event: {message}")))?;
    }
    let (first, second) = (&one.event, &other.event);
    let same_place = first.trace_id == second.trace_id && one.seq == other.seq;
    if !same_place || first.event_hash == second.event_hash {
        return Err((FailureCode::ChainBreak, "the events can both be true".to_owned()));
    }
    let what = if first.trace_id == keys.log_id { "log" } else { "trace" };
    let summary = format!(
        "two events number {} of {what} {}, {} and {}",
        one.seq, first.trace_id, first.event_hash, second.event_hash
    );
    Ok((summary, once(vec![first.actor.key_id.clone(), second.actor.key_id.clone()])))
}

fn once(mut ids: Vec<String>) -> Vec<String> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// What a report on equivocation comes to, as the exit status of a command.
#[must_use]
pub fn equivocation_exit_status(report: &EquivocationReport) -> u8 {
    match (report.equivocation_status, report.signer) {
        (EquivocationStatus::Fail, _) => 3,
        (EquivocationStatus::Proven, Signer::Unpinned) => 4,
        (EquivocationStatus::Proven, Signer::Pinned) => 0,
    }
}

/// The report as text. Everything that came from the proof is escaped; the verdict comes last.
#[must_use]
pub fn render_equivocation(report: &EquivocationReport) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_report(report, &mut out);
    out
}

fn write_report(report: &EquivocationReport, out: &mut String) -> std::fmt::Result {
    write_root(report.root, report.signer, out)?;
    for key_id in &report.key_ids {
        writeln!(out, "key      {}", escape(key_id))?;
    }
    write_failures(&report.failures, out)?;
    write_not_proven(&report.not_proven, out)?;
    writeln!(out, "\n{}", escape(&report.summary))?;
    let verdict = match report.equivocation_status {
        EquivocationStatus::Proven => "equivocation proven",
        EquivocationStatus::Fail => "fail",
    };
    writeln!(out, "verdict: {verdict}, signer: {}", signer(report.signer))
}
