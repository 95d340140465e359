//! One event, checked on the spot: its bytes, its hashes, the link to the one before, its signature,
//! what it refers to and what refers to it, and its artifacts.

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_format::event::{ArtifactDescriptor, Event, Reading};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::key::Signature;
use countersign_runtime::Workspace;
use countersign_runtime::store::Blobs as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{ApiFailure, json as answer};
use super::asked::Asked;
use super::desk::Desk;
use super::events::look;
use super::ledger::{LedgerView, references};
use super::verdicts::findings_at;

/// Events that refer to one event and are listed.
const REFERRING_MAX: usize = 200;

#[derive(Serialize)]
struct EventAnswer {
    index: u64,
    total: u64,
    event: Option<Value>,
    unreadable: Option<String>,
    line: Option<String>,
    line_b64: String,
    checks: Option<Checks>,
    findings: Option<Vec<Value>>,
    links: Links,
    artifacts: Vec<Value>,
}

#[derive(Serialize)]
struct Checks {
    canonical: bool,
    payload_hash: Compared,
    event_hash: Compared,
    previous: Compared,
    signature: SignatureCheck,
}

/// What a line states, and what it comes to.
#[derive(Serialize)]
struct Compared {
    stated: Option<String>,
    computed: Option<String>,
}

#[derive(Serialize)]
struct SignatureCheck {
    status: &'static str,
    key_id: Option<String>,
    agent_id: Option<String>,
    reason: Option<String>,
}

#[derive(Serialize)]
struct Links {
    to: Vec<EventLink>,
    from: Vec<EventLink>,
}

#[derive(Serialize)]
struct EventLink {
    rel: String,
    index: u64,
    event_id: String,
    event_type: Option<String>,
}

pub(super) fn one(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let id = asked.id()?;
    let index: u64 = asked.step("index", "an event is named by its place, a number from 0")?;
    let looked = look(desk, id, |view| {
        let Some(line) = view.line(index)? else { return Ok(None) };
        let before = match index.checked_sub(1) {
            Some(before) => view.line(before)?,
            None => None,
        };
        let reading = Reading::of(&line);
        let links = match &reading {
            Ok(reading) => links(view, index, &reading.value)?,
            Err(_) => Links { to: Vec::new(), from: Vec::new() },
        };
        Ok(Some((line, before, reading, links, view.total())))
    })?;
    let Some((line, before, reading, links, total)) = looked else {
        return Err(ApiFailure::missing(format!("trace {id} has no event {index}")));
    };
    let findings = findings_at(desk, id, index);
    let (event, unreadable, checks) = match reading {
        Ok(reading) => {
            let checks = checks(&desk.workspace, &reading, before.as_deref(), index);
            (Some(reading.value).filter(Value::is_object), None, Some(checks))
        }
        Err(fault) => (None, Some(fault.to_string()), None),
    };
    Ok(answer(&EventAnswer {
        index,
        total,
        artifacts: artifacts(&desk.workspace, event.as_ref()),
        event,
        unreadable,
        line_b64: STANDARD.encode(&line),
        line: String::from_utf8(line).ok(),
        checks,
        findings,
        links,
    }))
}

fn checks(workspace: &Workspace, reading: &Reading, before: Option<&[u8]>, index: u64) -> Checks {
    let stated = |name: &str| reading.value.get(name).and_then(Value::as_str).map(str::to_owned);
    let previous = match (index, before) {
        (0, _) => Some(Hash::GENESIS.to_hex()),
        (_, Some(line)) => Reading::of(line).ok().map(|before| before.event_hash.to_hex()),
        (_, None) => None,
    };
    Checks {
        canonical: reading.fault.is_none(),
        payload_hash: Compared {
            stated: stated("payload_hash"),
            computed: reading.payload_hash.map(|hash| hash.to_hex()),
        },
        event_hash: Compared {
            stated: stated("event_hash"),
            computed: Some(reading.event_hash.to_hex()),
        },
        previous: Compared { stated: stated("prev_event_hash"), computed: previous },
        signature: signature(workspace, reading),
    }
}

/// Whether the signature verifies under the key that the log has under that name. Whether the key
/// could sign then is the verifier's to say.
fn signature(workspace: &Workspace, reading: &Reading) -> SignatureCheck {
    let text = |place: &str| reading.value.pointer(place).and_then(Value::as_str);
    let key_id = text("/actor/key_id").map(str::to_owned);
    let agent_id = text("/actor/agent_id").map(str::to_owned);
    let told = |status, reason: Option<&str>| SignatureCheck {
        status,
        key_id: key_id.clone(),
        agent_id: agent_id.clone(),
        reason: reason.map(str::to_owned),
    };
    let Some(given) = text("/signature/signature_b64") else { return told("missing", None) };
    let Ok(given) = given.parse::<Signature>() else {
        return told("invalid", Some("it is not 64 bytes in base64"));
    };
    let name = key_id.clone().unwrap_or_default();
    let key = workspace.log_state(|log| log.keys.get(&name).map(|key| key.identity.clone()));
    let Ok(Some(key)) = key else {
        return told("unknown-key", Some("the workspace log has no such key"));
    };
    if agent_id.as_deref() != Some(key.agent_id.as_str()) {
        return told("invalid", Some("the key belongs to another agent"));
    }
    match key.public_key.verify(&reading.signed_bytes, &given) {
        Ok(()) => told("valid", None),
        Err(_) => told("invalid", Some("it does not verify")),
    }
}

fn links(view: &mut LedgerView, index: u64, event: &Value) -> std::io::Result<Links> {
    let mut to = Vec::new();
    for (rel, event_id, seq) in references(event.get("payload").unwrap_or(&Value::Null)) {
        if let Some(found) = event_at(view, seq)?.filter(|it| it.event_id == event_id) {
            let event_type = Some(found.event_type.as_str().to_owned());
            to.push(EventLink { rel, index: seq, event_id, event_type });
        }
    }
    let mut from = Vec::new();
    let id = event.get("event_id").and_then(Value::as_str).filter(|id| id.parse::<Ulid>().is_ok());
    if let Some(id) = id {
        // Canonical bytes have no blanks: whoever links to this event holds exactly this text.
        for place in view.holding(&format!("\"event_id\":\"{id}\""), REFERRING_MAX)? {
            if place == index {
                continue;
            }
            let Some(other) = event_at(view, place)? else { continue };
            let linking = references(&other.payload).into_iter().filter(|(_, it, _)| it == id);
            from.extend(linking.map(|(rel, _, _)| EventLink {
                rel,
                index: place,
                event_id: other.event_id.clone(),
                event_type: Some(other.event_type.as_str().to_owned()),
            }));
        }
    }
    Ok(Links { to, from })
}

fn event_at(view: &LedgerView, index: u64) -> std::io::Result<Option<Event>> {
    let line = view.line(index)?;
    Ok(line.and_then(|line| serde_json::from_slice(&line).ok()))
}

/// The artifacts that an event lists, and whether something lies where each belongs.
fn artifacts(workspace: &Workspace, event: Option<&Value>) -> Vec<Value> {
    let listed = event.and_then(|event| event.get("artifacts")).and_then(Value::as_array);
    let known = listed.into_iter().flatten().filter_map(|listed| {
        let descriptor: ArtifactDescriptor = serde_json::from_value(listed.clone()).ok()?;
        let stored = workspace.store().stat(&descriptor.artifact_hash).ok().flatten();
        let mut told = serde_json::to_value(&descriptor).ok()?;
        told.as_object_mut()?.insert("present".to_owned(), json!(stored.is_some()));
        Some(told)
    });
    known.collect()
}
