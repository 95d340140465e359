//! What a decision was about, as exactly as the store still tells.

use countersign_format::event::{Event, EventType};
use countersign_format::hash::Hash;
use countersign_gate::GateRequest;
use serde::Serialize;
use serde_json::Value;

use crate::store::Blobs as _;
use crate::tools::ToolCall;
use crate::workspace::Workspace;

/// Bytes of an input that are read to say what it is.
const INPUT_BYTES_MAX: u64 = 1 << 20;
/// Characters of an input that are shown, and of a title.
const INPUT_CHARACTERS_MAX: usize = 2_000;
const TITLE_CHARACTERS_MAX: usize = 400;

/// What a decision was about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DecidedAction {
    /// In one line.
    pub title: String,
    /// The tool, where it is an action.
    pub tool: Option<String>,
    /// How dangerous it was taken to be.
    pub risk: Option<String>,
    /// Why it was wanted.
    pub justification: Option<String>,
    /// Hash of the stored input.
    pub input_hash: Option<Hash>,
    /// The stored input, without its secrets, as far as it is shown.
    pub input: Option<String>,
    /// Bytes that the stored input has.
    pub input_bytes: Option<u64>,
    /// Why the input is not shown, where there is one.
    pub input_missing: Option<String>,
}

/// What `event` wants, by what stands in it. The stored input is not read.
pub(super) fn stated(event: &Event) -> DecidedAction {
    let text = |name: &str| event.payload.get(name).and_then(Value::as_str).map(str::to_owned);
    let short = |name: &str| text(name).map(|text| cut(&text, TITLE_CHARACTERS_MAX));
    match event.event_type {
        EventType::ToolIntentSigned => DecidedAction {
            title: short("tool_name").unwrap_or_default(),
            tool: short("tool_name"),
            risk: text("safety_classification"),
            justification: text("justification")
                .filter(|it| !it.is_empty())
                .map(|it| cut(&it, INPUT_CHARACTERS_MAX)),
            input_hash: text("normalized_input_hash").and_then(|hash| hash.parse().ok()),
            ..DecidedAction::default()
        },
        EventType::ProposalCreated => {
            let id = short("proposal_id").map(|id| format!(" `{id}`")).unwrap_or_default();
            let objective = short("objective").unwrap_or_default();
            DecidedAction { title: format!("the plan{id}: {objective}"), ..Default::default() }
        }
        EventType::StepEscalated => {
            let (step, question) = (short("step"), short("question"));
            let step = step.unwrap_or_default();
            DecidedAction {
                title: format!("step `{step}`: {}", question.unwrap_or_default()),
                ..Default::default()
            }
        }
        EventType::AgentSessionCompleted => {
            let phase = text("phase_completed").unwrap_or_default();
            let notes = short("notes").map(|notes| format!(": {notes}")).unwrap_or_default();
            DecidedAction { title: format!("blocked in {phase}{notes}"), ..Default::default() }
        }
        other => DecidedAction { title: other.as_str().replace('_', " "), ..Default::default() },
    }
}

/// Adds what the stored input tells.
pub(super) fn complete(workspace: &Workspace, action: &mut DecidedAction) {
    let Some(hash) = action.input_hash else { return };
    let bytes = match workspace.store().get(&hash, INPUT_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) => {
            action.input_missing = Some(error.to_string());
            return;
        }
    };
    action.input_bytes = Some(bytes.len() as u64);
    if let Some(title) = title(&bytes) {
        action.title = cut(&title, TITLE_CHARACTERS_MAX);
    }
    action.input = Some(cut(&String::from_utf8_lossy(&bytes), INPUT_CHARACTERS_MAX));
}

/// What an intent would do, in one line, from its stored input where it is there.
pub(crate) fn action_of(workspace: &Workspace, event: &Event) -> String {
    let mut action = stated(event);
    complete(workspace, &mut action);
    action.title
}

fn title(bytes: &[u8]) -> Option<String> {
    if let Ok(call) = serde_json::from_slice::<ToolCall>(bytes) {
        return Some(call.title());
    }
    let request = GateRequest::from_bytes(bytes).ok()?;
    let what = request.command.clone().unwrap_or_else(|| request.paths.join(", "));
    let (by, kind) = (&request.agent, request.action_type.as_str());
    Some(match what.is_empty() {
        true => format!("{by}: {kind} with {}", request.tool),
        false => format!("{by}: {kind} {what}"),
    })
}

/// As much of a text as there is room for.
pub(super) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
