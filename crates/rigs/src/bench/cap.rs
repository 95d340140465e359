//! Verifying sealed files with the binary: one of CapSeal's kind against what its own verifier takes,
//! and one of ours against the signatures alone on all cores.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use countersign_format::cap::CapWriter;
use countersign_format::hash::Hash;
use countersign_format::receipt::{AgentAction, ReceiptForm, Record};
use countersign_runtime::{Environment, Workspace};
use serde_json::json;

use super::home::Home;
use super::long;
use super::verify::{median, signatures_per_second};
use super::{Measured, Target};
use crate::product;

const ACTIONS: usize = 10_000;
/// What the reference takes for as many.
const REFERENCE_SECONDS: f64 = 2.6;
const EVENTS: u64 = 200_000;
const ROUNDS: usize = 3;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let binary = product::binary();
    let home = Home::new("cap")?;
    let receipts = home.below("receipts.cap");
    write_receipts(&receipts).map_err(|error| error.to_string())?;
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS * 3 {
        best = best.min(verify(&binary, &receipts, &[], 4)?);
    }
    let recording = long::write(&home.below("home"), EVENTS)?;
    let sealed = home.below("sealed.cap");
    seal(&home.below("home"), &recording.events, &sealed)?;
    let root = recording.root.to_hex();
    let (mut rates, mut bounds) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bounds.push(signatures_per_second()?);
        let taken = verify(&binary, &sealed, &["--trust", &root], 0)?;
        rates.push(EVENTS as f64 / taken.as_secs_f64());
    }
    Ok(vec![
        Measured {
            name: "cap-receipts",
            value: best.as_secs_f64(),
            unit: "s",
            bound: REFERENCE_SECONDS,
            target: Target::AtMost(0.05),
        },
        Measured {
            name: "cap-sealed",
            value: median(&mut rates)?,
            unit: "events/s",
            bound: median(&mut bounds)?,
            target: Target::AtLeast(0.8),
        },
    ])
}

/// How long the binary takes to come to the answer that is due.
fn verify(binary: &Path, file: &Path, more: &[&str], exit: i32) -> Result<Duration, String> {
    let start = Instant::now();
    let ended = Command::new(binary)
        .arg("verify")
        .arg(file)
        .args(more)
        .env("COUNTERSIGN_CONFIG", file.with_extension("config"))
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("cannot start `{}`: {error}", binary.display()))?;
    let taken = start.elapsed();
    match ended.code() {
        Some(code) if code == exit => Ok(taken),
        code => Err(format!("`{}` gave {code:?}, not {exit}", file.display())),
    }
}

fn seal(home: &Path, events: &Path, to: &Path) -> Result<(), String> {
    let id = events.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let id = id.and_then(|id| id.parse().ok()).ok_or("a recording without an id")?;
    // Sealing signs nothing: no keys are needed.
    let config: PathBuf = to.with_extension("keys");
    let workspace = Workspace::open(&config, home, Environment::system());
    let workspace = workspace.map_err(|error| error.to_string())?;
    workspace
        .seal(id, to)
        .map(|_| ())
        .map_err(|error| format!("{error}: {:?}", std::error::Error::source(&error)))
}

/// A session as CapSeal seals it, without what its capsule need not name.
fn write_receipts(to: &Path) -> std::io::Result<()> {
    let hash = |text: String| Hash::of(text.as_bytes()).to_hex();
    let (mut lines, mut listed) = (String::new(), Vec::new());
    let mut last: Option<(String, Hash)> = None;
    for index in 0..ACTIONS {
        let action = json!({
            "action_id": format!("act_{index:04}_{:08x}", index * 2_654_435), "action_type": "code_edit",
            "instruction_hash": hash(format!("instruction {index}")),
            "input_hash": hash(format!("input {index}")),
            "output_hash": hash(format!("output {index}")),
            "parent_action_id": last.as_ref().map(|(id, _)| id),
            "parent_receipt_hash": last.as_ref().map(|(_, receipt)| receipt.to_hex()),
            "gate_score": 0.083_333, "gate_decision": "pass", "policy_verdict": null,
            "success": true, "duration_ms": index % 997, "timestamp": "2026-11-15T18:16:21.722691Z",
            "metadata": {
                "description": format!("change number {index} of many"), "tool_name": "edit",
                "files_affected": ["src/app.py"],
            },
        });
        let read = AgentAction::from_json(&action).map_err(|_| other("an action"))?;
        let record = Record::new(read, ReceiptForm::Thirteen);
        lines.push_str(&record.to_line().map_err(|_| other("a record"))?);
        lines.push('\n');
        let id = action.get("action_id").and_then(serde_json::Value::as_str);
        let id = id.unwrap_or_default().to_owned();
        last = Some((id, record.receipt_hash));
        listed.push(action);
    }
    let last = last.map(|(_, receipt)| receipt.to_hex()).unwrap_or_default();
    let manifest = json!({
        "schema": "run_cap_v1", "run_type": "mcp", "trace_id": "bench", "run_id": "bench",
        "root_hex": last, "chain_hash": last, "capsule_id": last.get(..16), "actions_count": ACTIONS,
    });
    let metadata = json!({ "num_actions": ACTIONS, "final_receipt_hash": last });
    let mut capsule = json!({
        "schema": "agent_capsule_v1",
        "statement": { "public_inputs": { "final_receipt_hash": last, "num_actions": ACTIONS } },
        "verification": { "constraints_valid": true },
    });
    let spaced = |value: &serde_json::Value| {
        let read = countersign_format::python::loads(value.to_string().as_bytes());
        let text = read.map(|value| countersign_format::python::dumps_spaced(&value));
        Hash::of(text.unwrap_or_default().as_bytes()).to_hex()
    };
    let statement = capsule.get("statement").map(spaced);
    add(&mut capsule, "statement_hash", json!(statement));
    let whole = spaced(&capsule);
    add(&mut capsule, "capsule_hash", json!(whole));
    let mut cap = CapWriter::begin(fs::File::create(to)?)?;
    cap.whole("manifest.json", manifest.to_string().as_bytes())?;
    cap.whole("actions.json", &serde_json::to_vec_pretty(&listed)?)?;
    cap.whole("agent_capsule.json", capsule.to_string().as_bytes())?;
    cap.whole("run_metadata.json", metadata.to_string().as_bytes())?;
    cap.whole("actions.jsonl", lines.as_bytes())?;
    cap.finish().map(|_| ())
}

fn other(what: &str) -> std::io::Error {
    std::io::Error::other(format!("{what} could not be made"))
}

fn add(object: &mut serde_json::Value, name: &str, value: serde_json::Value) {
    if let serde_json::Value::Object(members) = object {
        members.insert(name.to_owned(), value);
    }
}
