//! What is in a file, for people: nothing is verified but the container itself.

use std::io::Read;

use countersign_format::cap::{CapError, CapFault, CapManifest, CapReader, MANIFEST_BYTES_MAX};
use countersign_format::json::LINE_BYTES_MAX;
use countersign_format::python::{PyString, PyValue};
use countersign_format::receipt::{GateScore, Record};
use serde::Serialize;

use super::members::MANIFEST;

/// Actions and members that are listed; more are only counted.
const LISTED_MAX: usize = 10_000;
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
    /// What its writer says of it.
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
    let mut reader = CapReader::open(file)?;
    let mut contents = CapContents::default();
    while let Some(member) = reader.next_member()? {
        contents.members_count += 1;
        contents.bytes += member.size;
        match member.name.as_str() {
            MANIFEST => contents.identity = identity(&reader.read_member(MANIFEST_BYTES_MAX)?),
            "actions.jsonl" => contents.actions(&mut reader)?,
            _ => {}
        }
        if contents.members.len() < LISTED_MAX {
            contents.members.push(ListedMember { name: member.name, size: member.size });
        }
    }
    Ok(contents)
}

fn identity(bytes: &[u8]) -> CapIdentity {
    let value: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    let text = |place: &str| {
        let found = value.pointer(place).and_then(serde_json::Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let ours = CapManifest::is_ours(bytes);
    let stated = |place: &str| Some(text(place)).filter(|_| ours);
    CapIdentity {
        sealed_by: if ours { "countersign" } else { "capseal" }.to_owned(),
        kind: if ours { text("/countersign/kind") } else { text("/run_type") },
        trace_id: text("/trace_id"),
        agent: text("/agent"),
        session_name: text("/session_name"),
        created_at: text("/created_at"),
        chain_hash: text("/chain_hash"),
        events: value.pointer("/countersign/size").and_then(serde_json::Value::as_u64),
        root: stated("/countersign/root"),
    }
}

impl CapContents {
    fn actions(&mut self, reader: &mut CapReader<impl Read>) -> Result<(), CapError> {
        let mut held = Vec::new();
        while let Some(piece) = reader.piece()? {
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
        if self.actions.len() >= LISTED_MAX {
            return;
        }
        let Ok(record) = Record::read(line) else { return };
        let action = &record.action;
        let metadata = action.metadata.as_ref();
        let description = metadata.and_then(|members| members.get(&PyString::from(DESCRIPTION)));
        self.actions.push(ShownAction {
            action_id: action.action_id.to_lossy(),
            action_type: action.action_type.as_str().to_owned(),
            gate_decision: action.gate_decision.map(|it| it.as_str().to_owned()),
            gate_score: action.gate_score.as_ref().and_then(|score| match score {
                GateScore::Float(float) => Some(*float).filter(|float| float.is_finite()),
                GateScore::Integer(integer) => integer.to_string().parse().ok(),
            }),
            policy_verdict: action.policy_verdict.map(|it| it.as_str().to_owned()),
            success: action.success,
            description: match description {
                Some(PyValue::String(text)) => text.to_lossy(),
                _ => String::new(),
            },
            receipt_hash: record.receipt_hash.to_hex(),
        });
    }
}
