//! Whether the evidence that a trace names is there, and is what it was.
//!
//! Each artifact is read once, at the end, in pieces. What is kept meanwhile grows with the number
//! of different artifacts and of the claims that rest on them.

use std::collections::BTreeMap;
use std::io::{self, Read};

use countersign_format::event::{Event, EventType};
use countersign_format::hash::Hash;
use countersign_format::report::FailureCode;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::findings::{CheckId, Findings, Place};
use crate::profile::Profile;
use crate::{Source, StoredArtifact};

const BUFFER_BYTES: usize = 64 << 10;

/// The artifacts that events have named so far.
#[derive(Debug, Default)]
pub(crate) struct Artifacts {
    named: BTreeMap<Hash, Named>,
    /// Claims that were met.
    pub(crate) claims: u64,
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
    evidence_of: Vec<(u64, String)>,
}

/// What became of an artifact.
enum Found {
    Whole,
    Gone(&'static str),
    Other(String),
}

impl Artifacts {
    /// Takes in what an event says of artifacts.
    pub(crate) fn meet(&mut self, event: &Event, index: u64, findings: &mut Findings) {
        for artifact in &event.artifacts {
            let (hash, byte_size) = (artifact.artifact_hash, artifact.byte_size);
            let named = self.named.entry(hash).or_insert_with(|| Named {
                index,
                event_id: event.event_id.clone(),
                byte_size,
                redacted: false,
                contradicted: false,
                evidence_of: Vec::new(),
            });
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
        let hash = |value: &Value| value.as_str().and_then(|text| text.parse::<Hash>().ok());
        match event.event_type {
            EventType::ArtifactRedacted => {
                let redacted = event.payload.get("artifact_hash").and_then(hash);
                if let Some(named) = redacted.and_then(|hash| self.named.get_mut(&hash)) {
                    named.redacted = true;
                }
            }
            EventType::ClaimIssued => {
                self.claims += 1;
                let evidence = event.payload.get("evidence_artifacts").and_then(Value::as_array);
                for hash in evidence.into_iter().flatten().filter_map(hash) {
                    if let Some(named) = self.named.get_mut(&hash) {
                        named.evidence_of.push((index, event.event_id.clone()));
                    }
                }
            }
            _ => {}
        }
    }

    /// Reads every artifact. False if there is no store to read them from.
    pub(crate) fn check(
        &self,
        source: &dyn Source,
        profile: &Profile,
        findings: &mut Findings,
    ) -> io::Result<bool> {
        let mut unproven = BTreeMap::new();
        let mut in_order: Vec<_> = self.named.iter().collect();
        in_order.sort_by_key(|(_, named)| named.index);
        for (hash, named) in in_order {
            let found = match source.artifact(hash)? {
                StoredArtifact::NoStore => return Ok(false),
                StoredArtifact::Absent => Found::Gone("is not in the store"),
                StoredArtifact::NotAFile => Found::Gone("is no regular file in the store"),
                StoredArtifact::Bytes(mut bytes) => read(&mut *bytes, hash, named.byte_size)?,
            };
            if named.tell(hash, &found, findings) {
                for claim in &named.evidence_of {
                    unproven.entry(claim).or_insert(hash);
                }
            }
        }
        for ((index, event_id), hash) in unproven {
            let message = format!("the evidence {hash} of the claim is missing or not what it was");
            let rule = (CheckId::ClaimEvidence, FailureCode::ClaimUnproven);
            findings.broken_rule(rule, profile, &at(*index, event_id), message);
        }
        let count = format!("{} artifacts", self.named.len());
        findings.scope(CheckId::ArtifactExistence, count.clone());
        findings.scope(CheckId::ArtifactHash, count);
        Ok(true)
    }
}

impl Named {
    /// Says what is wrong with the artifact; true if what rests on it is without it.
    fn tell(&self, hash: &Hash, found: &Found, findings: &mut Findings) -> bool {
        let place = Place { artifact: Some(*hash), ..at(self.index, &self.event_id) };
        match found {
            Found::Whole => false,
            Found::Gone(_) if self.redacted => {
                let message = format!("the artifact {hash} was redacted: its bytes are gone");
                let check = CheckId::ArtifactExistence;
                findings.warn(check, "REDACTION_LIMITED", &place, message);
                false
            }
            Found::Gone(how) => {
                let message = format!("the artifact {hash} {how}");
                let code = FailureCode::ArtifactMissing;
                findings.fail(CheckId::ArtifactExistence, code, &place, message);
                true
            }
            // One of the sizes that were stated is wrong, which was said before.
            Found::Other(_) if self.contradicted => true,
            Found::Other(how) => {
                let message = format!("the artifact {hash} {how}");
                let code = FailureCode::ArtifactHashMismatch;
                findings.fail(CheckId::ArtifactHash, code, &place, message);
                true
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
