//! What is in a file, for people: nothing is verified but the container itself.

use std::io::Read;

use countersign_format::cap::{CapError, CapFault, CapManifest, CapReader};
use countersign_format::json::LINE_BYTES_MAX;
use countersign_format::json::line::containers;
use countersign_format::python::{PyObject, PyString, PyValue};
use countersign_format::receipt::{GateScore, Record};
use serde::Serialize;

use super::capseal::small_manifest;
use super::first_member;
use super::stop::Stop;

/// Actions and members that are listed; more are only counted.
const LISTED_MAX: usize = 10_000;
/// Bytes that are kept of a text of an action.
const TEXT_BYTES_MAX: usize = 512;
/// Objects and lists of an action that is listed: what its tree costs follows from them.
const CONTAINERS_MAX: usize = 8_192;
const DESCRIPTION: &str = "description";

/// What is in a file.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CapContents {
    /// What the manifest says it is.
    pub identity: CapIdentity,
    /// How many actions there are.
    pub actions_count: u64,
    /// The actions, or the first of them.
    pub actions: Vec<ShownAction>,
    /// How many members there are.
    pub members_count: u64,
    /// The members, or the first of them.
    pub members: Vec<ListedMember>,
    /// Bytes of all members.
    pub bytes: u64,
}

/// What the manifest says a file is.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CapIdentity {
    /// `countersign` or `capseal`.
    pub sealed_by: String,
    /// What was recorded.
    pub kind: String,
    /// The trace or run.
    pub trace_id: String,
    /// The agent, as it calls itself.
    pub agent: String,
    /// What it is about.
    pub session_name: String,
    /// When it was sealed, or the last event recorded.
    pub created_at: String,
    /// The receipt hash of the last action.
    pub chain_hash: String,
    /// How many events there are; files of CapSeal's have none.
    pub events: Option<u64>,
    /// Fingerprint of the root; files of CapSeal's have none.
    pub root: Option<String>,
}

/// An action as `actions.jsonl` has it.
#[derive(Debug, Clone, Serialize)]
pub struct ShownAction {
    /// Its id.
    pub action_id: String,
    /// What sort of action it is.
    pub action_type: String,
    /// What the gate said.
    pub gate_decision: Option<String>,
    /// How risky the gate found it.
    pub gate_score: Option<f64>,
    /// How far policy was enforced.
    pub policy_verdict: Option<String>,
    /// Whether it did what it was meant to do.
    pub success: bool,
    /// What its writer says of it, cut after 512 bytes.
    pub description: String,
    /// Its receipt hash.
    pub receipt_hash: String,
}

/// A member of the container.
#[derive(Debug, Clone, Serialize)]
pub struct ListedMember {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub size: u64,
}

/// Says what is in a file.
///
/// # Errors
/// It cannot be read, or the container is refused.
pub fn cap_contents(file: impl Read) -> Result<CapContents, CapError> {
    let (mut reader, manifest, bytes) = first_member(file).map_err(refused)?;
    let mut contents = CapContents { identity: identity(&bytes)?, ..CapContents::default() };
    drop(bytes);
    let mut next = Some(manifest);
    while let Some(member) = next {
        contents.members_count += 1;
        contents.bytes += member.size;
        if member.name == "actions.jsonl" {
            contents.actions(&mut reader)?;
        }
        if contents.members.len() < LISTED_MAX {
            contents.members.push(ListedMember { name: member.name, size: member.size });
        }
        next = reader.next_member()?;
    }
    Ok(contents)
}

fn refused(stop: Stop) -> CapError {
    match stop {
        Stop::Io(error) => CapError::Io(error),
        Stop::Refused(why) => CapFault::Manifest(why).into(),
    }
}

fn identity(bytes: &[u8]) -> Result<CapIdentity, CapError> {
    if CapManifest::is_ours(bytes) {
        let read = CapManifest::read(bytes);
        return Ok(read.map_err(|fault| CapFault::Manifest(fault.to_string()))?.into());
    }
    let manifest = small_manifest(bytes).map_err(refused)?;
    let text = |name: &str| text_of(&manifest, name);
    Ok(CapIdentity {
        sealed_by: "capseal".to_owned(),
        kind: text("run_type"),
        trace_id: text("trace_id"),
        agent: text("agent"),
        session_name: text("session_name"),
        created_at: text("created_at"),
        chain_hash: text("chain_hash"),
        events: None,
        root: None,
    })
}

fn text_of(members: &PyObject, name: &str) -> String {
    match members.get(&PyString::from(name)) {
        Some(PyValue::String(text)) => text.to_lossy(),
        _ => String::new(),
    }
}

/// The beginning of a text, as much as is kept.
fn beginning(text: String) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    format!("{}\u{2026}", text.get(..end).unwrap_or_default())
}

impl From<CapManifest> for CapIdentity {
    fn from(manifest: CapManifest) -> Self {
        Self {
            sealed_by: "countersign".to_owned(),
            kind: manifest.countersign.kind.as_str().to_owned(),
            trace_id: manifest.trace_id,
            agent: manifest.agent,
            session_name: manifest.session_name,
            created_at: manifest.created_at.to_string(),
            chain_hash: manifest.chain_hash,
            events: Some(manifest.countersign.size),
            root: Some(manifest.countersign.root.to_hex()),
        }
    }
}

impl CapContents {
    fn actions(&mut self, reader: &mut CapReader<impl Read>) -> Result<(), CapError> {
        let mut held = Vec::new();
        while let Some(piece) = reader.piece()? {
            // What is not shown is only counted.
            if held.is_empty() && self.actions_count >= LISTED_MAX as u64 {
                self.actions_count += memchr::memchr_iter(b'\n', piece).count() as u64;
                continue;
            }
            for part in piece.split_inclusive(|&byte| byte == b'\n') {
                if held.len() + part.len() > LINE_BYTES_MAX {
                    let (name, max) = ("actions.jsonl".to_owned(), LINE_BYTES_MAX as u64);
                    let size = (held.len() + part.len()) as u64;
                    return Err(CapFault::MemberTooLong { name, size, max }.into());
                }
                held.extend_from_slice(part);
                if held.ends_with(b"\n") {
                    self.action(&held);
                    held.clear();
                }
            }
        }
        Ok(())
    }

    fn action(&mut self, line: &[u8]) {
        self.actions_count += 1;
        if self.actions_count > LISTED_MAX as u64 {
            return;
        }
        if line.len() > CONTAINERS_MAX && containers(line) > CONTAINERS_MAX {
            return;
        }
        let Ok(record) = Record::read(line) else { return };
        let action = &record.action;
        let metadata = action.metadata.as_ref();
        self.actions.push(ShownAction {
            action_id: beginning(action.action_id.to_lossy()),
            action_type: action.action_type.as_str().to_owned(),
            gate_decision: action.gate_decision.map(|it| it.as_str().to_owned()),
            gate_score: action.gate_score.as_ref().and_then(|score| match score {
                GateScore::Float(float) => Some(*float).filter(|float| float.is_finite()),
                GateScore::Integer(integer) => integer.to_string().parse().ok(),
            }),
            policy_verdict: action.policy_verdict.map(|it| it.as_str().to_owned()),
            success: action.success,
            description: beginning(
                metadata.map(|members| text_of(members, DESCRIPTION)).unwrap_or_default(),
            ),
            receipt_hash: record.receipt_hash.to_hex(),
        });
    }
}
