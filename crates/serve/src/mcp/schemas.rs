//! The shapes of what the tools answer, as JSON Schemas.
//!
//! They describe an answer that went well. One that did not is marked as an error and has the fields
//! of the envelope, `ok` false and the reason, as text only: clients check what is structured.

use serde_json::{Map, Value, json};

pub(super) fn gate() -> Value {
    answer(json!({
        "decision": {
            "enum": ["approve", "deny", "flag"],
            "description": "approve: do it; flag: ask your user first; deny: do not do it",
        },
        "gate_token": {
            "type": "string",
            "description": "Hand this to capseal_record once you have acted",
        },
        "expires_at": { "type": "string", "description": "Until when the token is good" },
        "reasons": {
            "type": "array",
            "items": { "type": "string" },
            "description": "Everything that was said for and against it",
        },
        "reason": { "type": "string", "description": "The reasons in one line" },
        "enforced": {
            "type": "boolean",
            "description": "False in shadow mode: the gate's opinion is recorded and not enforced",
        },
        "gate_opinion": {
            "enum": ["approve", "deny", "flag"],
            "description": "What the gate thinks, also where it is not enforced",
        },
        "approved_by_person": { "type": "boolean" },
        "question": {
            "type": ["string", "null"],
            "description": "The id of the question that waits for a person, if one does",
        },
        "question_deadline": {
            "type": ["string", "null"],
            "description": "From when on no answer means no",
        },
        "predicted_failure": {
            "type": "number",
            "description": "The learned chance that this fails; 0.5 where nothing is known",
        },
        "p_fail": { "type": "number", "description": "The same number" },
        "confidence": {
            "type": "number",
            "description": "How much of it rests on observations, from 0 to 1",
        },
        "uncertainty": { "type": "number", "description": "The estimate's standard deviation" },
        "observations": {
            "type": "integer",
            "description": "Outcomes of like actions that were learnt from",
        },
        "grid_cell": { "type": "integer", "description": "The cell of the risk model" },
        "grid_idx": { "type": "integer", "description": "The same number" },
        "label": { "type": "string", "description": "The action in a few words" },
        "features": {
            "type": "object",
            "description": "What the estimate rests on",
            "properties": {
                "levels": { "type": "array", "items": { "type": "integer" } },
            },
        },
        "thresholds": {
            "type": "object",
            "properties": {
                "approve_below": { "type": "number" },
                "deny_above": { "type": "number" },
            },
            "required": ["approve_below", "deny_above"],
        },
        "receipt_id": { "type": "string", "description": "Names this decision" },
        "action_type": { "type": "string", "description": "The type that the action counts as" },
        "description": { "type": "string" },
        "files_affected": files(),
        "model_loaded": { "type": "boolean", "description": "Whether there is a risk model yet" },
        "similar_patches": {
            "type": "array",
            "items": { "type": "object" },
            "description": "Always empty: outcomes are counted, not kept by their texts",
        },
    }))
}

pub(super) fn record() -> Value {
    answer(json!({
        "recorded": { "type": "boolean" },
        "action_id": { "type": "string" },
        "receipt_hash": { "type": "string", "description": "SHA-256 of the action's receipt" },
        "receipt_chain_length": { "type": "integer", "description": "Receipts so far" },
        "gating": {
            "enum": ["token", "inferred", "ungated"],
            "description": "How the action was tied to a decision of the gate: by its token, by \
                equal type and files, or not at all",
        },
        "token_fault": {
            "type": ["string", "null"],
            "description": "Why the given token did not count",
        },
        "gate_decision": { "type": ["string", "null"] },
        "action_type": { "type": "string" },
        "files_affected": files(),
        "label": { "type": ["string", "null"] },
        "p_fail": {
            "type": ["number", "null"],
            "description": "What the gate had estimated",
        },
        "error": { "type": ["string", "null"], "description": "The error that was reported" },
    }))
}

pub(super) fn seal() -> Value {
    answer(json!({
        "sealed": { "type": "boolean" },
        "session_name": { "type": "string" },
        "cap_file": { "type": "string", "description": "The file, relative to the workspace" },
        "hash": { "type": ["string", "null"], "description": "The last receipt's hash" },
        "actions_count": { "type": "integer" },
        "verification": { "enum": ["passed", "failed"], "description": "How the audit ended" },
        "proof_generated": {
            "type": "boolean",
            "description": "Always false: the file rests on signatures, not on an algebraic proof",
        },
        "proof_verified": { "type": "boolean" },
        "proof_type": { "type": "string" },
        "capsule_hash": { "type": ["string", "null"] },
        "model_updated": {
            "type": "boolean",
            "description": "Always false: the model learns with `countersign gate learn`",
        },
        "model_episodes": { "type": "integer" },
        "verify_command": { "type": "string" },
        "error": { "type": ["string", "null"] },
    }))
}

pub(super) fn status() -> Value {
    let count = json!({ "type": "integer" });
    let text = json!({ "type": ["string", "null"] });
    answer(json!({
        "session_active": { "type": "boolean" },
        "workspace": { "type": "string" },
        "actions_count": count,
        "gates_count": count,
        "denials_count": count,
        "questions_count": { "type": "integer", "description": "Questions that wait for a person" },
        "model_loaded": { "type": "boolean" },
        "uptime_seconds": { "type": "number" },
        "recent_sessions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "session_id": { "type": "string" },
                    "date": { "type": "string" },
                    "agent": text,
                    "actions": count,
                    "approved": count,
                    "denied": count,
                    "files_changed": count,
                    "summary": { "type": "string" },
                    "receipt": text,
                },
            },
        },
        "project_stats": {
            "type": "object",
            "properties": {
                "total_sessions": count,
                "total_actions": count,
                "total_denied": count,
                "model_trained": { "type": "boolean" },
            },
        },
    }))
}

pub(super) fn context() -> Value {
    answer(json!({
        "file": { "type": "string" },
        "total_changes": { "type": "integer" },
        "total_sessions": { "type": "integer" },
        "sessions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "session_id": { "type": "string" },
                    "date": { "type": "string" },
                    "agent": { "type": ["string", "null"] },
                    "changes": { "type": "array", "items": { "type": "string" } },
                },
                "required": ["session_id", "date", "changes"],
            },
        },
    }))
}

fn files() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

/// The envelope's fields and these; all of them are always there.
fn answer(fields: Value) -> Value {
    let mut properties = envelope();
    if let Value::Object(fields) = fields {
        properties.extend(fields);
    }
    let mut required: Vec<&String> = properties.keys().collect();
    required.sort_unstable();
    json!({ "type": "object", "required": required, "properties": properties })
}

fn envelope() -> Map<String, Value> {
    let fields = json!({
        "ok": { "type": "boolean" },
        "tool": { "type": "string" },
        "session_id": {
            "type": ["string", "null"],
            "description": "The recording's trace id; null if none was begun",
        },
        "timestamp": { "type": "string", "description": "When this was answered, in UTC" },
        "schema_version": { "const": "1.0" },
        "human_summary": { "type": "string", "description": "The answer in one line" },
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
