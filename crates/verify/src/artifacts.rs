//! Whether the evidence that a trace names is there, and is what it was.
//!
//! Each artifact is read once, at the end, in pieces. What is kept meanwhile grows with the number
//! of different artifacts and of the claims that rest on them.

mod executions;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use countersign_format::event::{ArtifactDescriptor, Event, EventType, RedactionStatus, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::report::FailureCode;
use countersign_format::role::Role;
use countersign_protocol::kind_of;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::findings::{CheckId, Findings, Place};
use crate::profile::Profile;
use crate::signature::Vouched;
use crate::{Source, StoredArtifact};
use executions::Executions;

const BUFFER_BYTES: usize = 64 << 10;

/// The artifacts that events have named so far.
#[derive(Debug, Default)]
pub(crate) struct Artifacts {
    named: BTreeMap<Hash, Named>,
    /// Claims that were met.
    pub(crate) claims: u64,
    rests: Vec<Rest>,
    executions: Executions,
    /// Whether executions must have stored something: in sessions.
    executions_looked_at: bool,
    /// The last audit that found nothing wrong: its place and id.
    passed: Option<(u64, String)>,
}

/// An artifact as the first event that names it describes it.
#[derive(Debug)]
struct Named {
    index: u64,
    event_id: String,
    byte_size: u64,
    /// Whether a later event says that the bytes were removed.
    redacted: bool,
    /// Whether events contradict each other about it.
    contradicted: bool,
}

/// What a claim rests on.
#[derive(Debug)]
struct Rest {
    index: u64,
    event_id: String,
    evidence: BTreeSet<Hash>,
    /// Evidence that no event up to the claim had brought.
    unmet: Option<Hash>,
}

/// What became of an artifact.
enum Found {
    Whole,
    Gone(&'static str),
    Other(String),
}

/// What reading all artifacts came to.
#[derive(Debug, Default)]
struct Outcome {
    /// Those that are missing or not what they were.
    lost: BTreeSet<Hash>,
    /// Those that are missing with a record of it.
    redacted: BTreeSet<Hash>,
    /// Whether an audit that passed saw one of those that are lost.
    seen_whole: bool,
}

impl Artifacts {
    /// Takes in what an event says of artifacts. Only one that somebody vouches for with a signature
    /// can say that bytes were removed: otherwise whoever removes them could.
    pub(crate) fn meet(
        &mut self,
        event: &Event,
        index: u64,
        vouched: Vouched,
        findings: &mut Findings,
    ) {
        // The rules of schema 1.0 look at executions themselves.
        self.executions_looked_at |= index == 0
            && kind_of(event) == Some(TraceKind::Session)
            && !event.schema_version.starts_with("1.0.");
        let rest = self.rest(event, index);
        for artifact in &event.artifacts {
            let (hash, byte_size) = (artifact.artifact_hash, artifact.byte_size);
            let named = self.named.entry(hash).or_insert_with(|| Named {
                index,
                event_id: event.event_id.clone(),
                byte_size,
                redacted: false,
                contradicted: false,
            });
            named.redacted |=
                vouched == Vouched::Yes && redacts(event, artifact, named.index < index);
            if named.byte_size != byte_size && !named.contradicted {
                named.contradicted = true;
                let message = format!(
                    "the artifact {hash} has {byte_size} bytes here, and {} at event {}",
                    named.byte_size, named.index
                );
                let place = Place { artifact: Some(hash), ..at(index, &event.event_id) };
                let code = FailureCode::ArtifactHashMismatch;
                findings.fail(CheckId::ArtifactHash, code, &place, message);
            }
        }
        if let Some(rest) = rest {
            self.claims += 1;
            self.rests.push(rest);
        }
        if self.executions_looked_at {
            self.executions.meet(event, index);
        }
        match event.event_type {
            EventType::ArtifactRedacted if vouched == Vouched::Yes => {
                let redacted = event.payload.get("artifact_hash").and_then(hash);
                if let Some(named) = redacted.and_then(|hash| self.named.get_mut(&hash)) {
                    named.redacted = true;
                }
            }
            EventType::VerificationRunCompleted => {
                let status = event.payload.get("verification_status").and_then(Value::as_str);
                let passed = status.is_some_and(|status| status != "fail");
                self.passed = passed.then(|| (index, event.event_id.clone()));
            }
            _ => {}
        }
    }

    /// Whether any artifact was named.
    pub(crate) fn are_named(&self) -> bool {
        !self.named.is_empty()
    }

    /// What a claim rests on, before what it lists itself is known.
    fn rest(&self, event: &Event, index: u64) -> Option<Rest> {
        if event.event_type != EventType::ClaimIssued {
            return None;
        }
        let evidence = event.payload.get("evidence_artifacts").and_then(Value::as_array);
        let evidence: BTreeSet<Hash> = evidence.into_iter().flatten().filter_map(hash).collect();
        let own = |hash: &Hash| {
            event.artifacts.iter().any(|artifact| {
                artifact.artifact_hash == *hash && artifact.producer_event_id == event.event_id
            })
        };
        let met = |hash: &&Hash| self.named.contains_key(*hash) || own(hash);
        let unmet = evidence.iter().find(|hash| !met(hash)).copied();
        Some(Rest { index, event_id: event.event_id.clone(), evidence, unmet })
    }

    /// Reads every artifact. False if there is no store to read them from.
    pub(crate) fn check(
        &self,
        source: &dyn Source,
        profile: &Profile,
        findings: &mut Findings,
    ) -> io::Result<bool> {
        // Where order and content are in doubt, nobody can say what a claim could rest on.
        let in_doubt = findings.in_doubt();
        let mut outcome = Outcome::default();
        let mut in_order: Vec<_> = self.named.iter().collect();
        in_order.sort_by_key(|(_, named)| named.index);
        let mut stored = true;
        for (hash, named) in in_order {
            let Some(found) = look(source, hash, named.byte_size)? else {
                stored = false;
                break;
            };
            match named.tell(hash, &found, findings) {
                Fate::Whole => {}
                Fate::Redacted => drop(outcome.redacted.insert(*hash)),
                Fate::Lost => {
                    outcome.seen_whole |=
                        self.passed.as_ref().is_some_and(|(audit, _)| named.index < *audit);
                    outcome.lost.insert(*hash);
                }
            }
        }
        if !in_doubt {
            if stored {
                self.unlisted(source, findings)?;
            }
            self.bare(findings);
        }
        for rest in &self.rests {
            if let Some(message) = rest.lacks(&outcome, profile, in_doubt) {
                let rule = (CheckId::ClaimEvidence, FailureCode::ClaimUnproven);
                findings.broken_rule(rule, profile, &at(rest.index, &rest.event_id), message);
            }
        }
        if let (true, Some((index, event_id))) = (outcome.seen_whole, &self.passed) {
            let message = "the audit recorded that nothing is wrong; evidence that it saw is no \
                           longer what it was"
                .to_owned();
            let (check, place) = (CheckId::Finalization, at(*index, event_id));
            findings.warn(check, "RECORDED_VERDICT_STALE", &place, message);
        }
        if stored {
            let count = format!("{} artifacts", self.named.len());
            findings.scope(CheckId::ArtifactExistence, count.clone());
            findings.scope(CheckId::ArtifactHash, count);
        }
        Ok(stored)
    }

    /// Evidence that no event lists and that is not in the store either.
    fn unlisted(&self, source: &dyn Source, findings: &mut Findings) -> io::Result<()> {
        let mut told = BTreeSet::new();
        for rest in &self.rests {
            for hash in rest.evidence.iter().filter(|hash| !self.named.contains_key(*hash)) {
                let stored = source.artifact(hash)?;
                let gone = matches!(stored, StoredArtifact::Absent | StoredArtifact::NotAFile);
                if gone && told.insert(hash) {
                    let message =
                        format!("no event lists the evidence {hash}, and it is not in the store");
                    let place = Place { artifact: Some(*hash), ..at(rest.index, &rest.event_id) };
                    let code = FailureCode::ArtifactMissing;
                    findings.fail(CheckId::ArtifactExistence, code, &place, message);
                }
            }
        }
        Ok(())
    }

    /// Executions of which nothing is stored.
    fn bare(&self, findings: &mut Findings) {
        for (index, event_id) in &self.executions.bare {
            let message =
                "the tool ran with no artifact: neither its input nor its output is stored";
            let code = FailureCode::SchemaInvalid;
            findings.fail(
                CheckId::ArtifactExistence,
                code,
                &at(*index, event_id),
                message.to_owned(),
            );
        }
    }
}

impl Rest {
    /// Why the claim is unproven, if it is.
    fn lacks(&self, outcome: &Outcome, profile: &Profile, in_doubt: bool) -> Option<String> {
        if let Some(hash) = self.evidence.iter().find(|hash| outcome.lost.contains(*hash)) {
            return Some(format!("the evidence {hash} of the claim is missing or not what it was"));
        }
        if profile.evidence_unredacted
            && !self.evidence.is_empty()
            && self.evidence.is_subset(&outcome.redacted)
        {
            return Some("all evidence of the claim was redacted".to_owned());
        }
        if in_doubt {
            return None;
        }
        match self.unmet {
            Some(hash) => Some(format!("no event up to the claim brought its evidence {hash}")),
            None => self.evidence.is_empty().then(|| "the claim names no evidence".to_owned()),
        }
    }
}

/// Whether this descriptor says that the bytes were removed. Schema 1.0 has no event of its own for
/// that: the auditor records the artifact again.
fn redacts(event: &Event, artifact: &ArtifactDescriptor, known: bool) -> bool {
    known
        && event.schema_version.starts_with("1.0.")
        && event.event_type == EventType::ArtifactRecorded
        && event.actor.role == Role::Auditor
        && artifact.redaction_status != RedactionStatus::None
}

fn hash(value: &Value) -> Option<Hash> {
    value.as_str().and_then(|text| text.parse().ok())
}

/// What lies where an artifact belongs; `None` without a store.
fn look(source: &dyn Source, hash: &Hash, byte_size: u64) -> io::Result<Option<Found>> {
    if let Some(length) = source.proven(hash) {
        return Ok(Some(match length == byte_size {
            true => Found::Whole,
            false => Found::Other(format!("has {length} bytes, it should have {byte_size}")),
        }));
    }
    Ok(Some(match source.artifact(hash)? {
        StoredArtifact::NoStore => return Ok(None),
        StoredArtifact::Absent => Found::Gone("is not in the store"),
        StoredArtifact::NotAFile => Found::Gone("is no regular file in the store"),
        StoredArtifact::Bytes(mut bytes) => read(&mut *bytes, hash, byte_size)?,
    }))
}

/// What an artifact is to those who rest on it.
enum Fate {
    Whole,
    /// Gone, with a record of it.
    Redacted,
    Lost,
}

impl Named {
    /// Says what is wrong with the artifact.
    fn tell(&self, hash: &Hash, found: &Found, findings: &mut Findings) -> Fate {
        let place = Place { artifact: Some(*hash), ..at(self.index, &self.event_id) };
        match found {
            Found::Whole => Fate::Whole,
            Found::Gone(_) if self.redacted => {
                let message = format!("the artifact {hash} was redacted: its bytes are gone");
                let check = CheckId::ArtifactExistence;
                findings.warn(check, "REDACTION_LIMITED", &place, message);
                Fate::Redacted
            }
            Found::Gone(how) => {
                let message = format!("the artifact {hash} {how}");
                let code = FailureCode::ArtifactMissing;
                findings.fail(CheckId::ArtifactExistence, code, &place, message);
                Fate::Lost
            }
            // One of the sizes that were stated is wrong, which was said before.
            Found::Other(_) if self.contradicted => Fate::Lost,
            Found::Other(how) => {
                let message = format!("the artifact {hash} {how}");
                let code = FailureCode::ArtifactHashMismatch;
                findings.fail(CheckId::ArtifactHash, code, &place, message);
                Fate::Lost
            }
        }
    }
}

fn at(index: u64, event_id: &str) -> Place {
    Place::event(index, Some(event_id.to_owned()))
}

/// Compares bytes with what is known of them; reads no further than it takes to know.
fn read(bytes: &mut dyn Read, hash: &Hash, byte_size: u64) -> io::Result<Found> {
    let mut hasher = Sha256::new();
    let mut room = vec![0; BUFFER_BYTES];
    let mut length = 0u64;
    loop {
        let got = match bytes.read(&mut room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            got => got?,
        };
        let piece = room.get(..got).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        length += piece.len() as u64;
        if length > byte_size {
            return Ok(Found::Other(format!("has more than the {byte_size} bytes it should have")));
        }
        hasher.update(piece);
    }
    let found = Hash::from_bytes(hasher.finalize().into());
    Ok(if length != byte_size {
        Found::Other(format!("has {length} bytes, it should have {byte_size}"))
    } else if found != *hash {
        Found::Other(format!("has other bytes, with the hash {found}"))
    } else {
        Found::Whole
    })
}
