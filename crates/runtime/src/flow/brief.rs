//! What an agent is given: its input envelope.
//!
//! Follows from the flow file and from what is recorded before, so it can be made again. Notes come
//! without the names of those who left them, and are cut where there are too many.

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::envelope::{
    InputContext, InputEnvelope, InputPath, InputTask, NOTE_BYTES_MAX, NOTES_MAX,
};
use countersign_format::hash::Hash;
use countersign_protocol::flow::{FEATURE, FlowState, PersonsWord, StepBy, StepPhase};
use serde_json::{Map, Value, json};

use super::file::StepOrder;
use super::reply;
use crate::secrets::Redactor;

/// Bytes of all notes together.
const NOTES_BYTES_MAX: usize = 256 << 10;

/// The input envelope of a step's next call. `stored` gives the bytes of an artifact.
pub(super) fn envelope(
    state: &FlowState,
    at: usize,
    order: &StepOrder,
    stored: &dyn Fn(&Hash) -> Option<Vec<u8>>,
) -> InputEnvelope {
    let (iteration, _) = state.turn(at).unwrap_or((1, 1));
    let bound = state.route.step(at).map_or(1, |step| step.max_iterations);
    let mut extra = Map::new();
    extra.insert("max_iterations".into(), json!(bound));
    let mut params = order.params.clone();
    let answers = answers(state, at);
    if !answers.is_empty() {
        params.insert("answers".into(), Value::Array(answers));
    }
    let notes = notes(state, at, stored);
    InputEnvelope {
        context: InputContext {
            feature_id: state.feature_id.clone(),
            workflow: state.workflow.clone(),
            iteration,
            extra,
        },
        paths: paths(order, state.feature_id.as_deref()),
        task: InputTask { action: order.action.clone(), params, extra: Map::new() },
        prior_context: (!notes.is_empty()).then_some(notes),
        extra: Map::new(),
    }
}

/// The same without secrets, as it is stored and sent.
pub(super) fn without_secrets(mut input: InputEnvelope, redactor: &Redactor) -> InputEnvelope {
    for note in input.prior_context.iter_mut().flatten() {
        *note = redactor.redact_text(note).0;
    }
    let mut params = Value::Object(std::mem::take(&mut input.task.params));
    redactor.redact_value(&mut params);
    if let Value::Object(params) = params {
        input.task.params = params;
    }
    input
}

fn paths(order: &StepOrder, feature_id: Option<&str>) -> BTreeMap<String, InputPath> {
    let named = |path: &String| path.replace(FEATURE, feature_id.unwrap_or(FEATURE));
    let named_all = |path: &InputPath| match path {
        InputPath::One(path) => InputPath::One(named(path)),
        InputPath::Many(paths) => InputPath::Many(paths.iter().map(named).collect()),
    };
    order.paths.iter().map(|(name, path)| (name.clone(), named_all(path))).collect()
}

/// What people answered: to this step, and to those that it needs.
fn answers(state: &FlowState, at: usize) -> Vec<Value> {
    let mut answers = Vec::new();
    for &need in state.route.needs(at) {
        let (step, run) = (state.route.step(need), state.steps.get(need));
        if let (Some(step), Some(run)) = (step, run)
            && let (StepBy::Approval(approval), Some(answer)) = (&step.by, &run.answer)
        {
            let question = &approval.question;
            answers.push(json!({ "id": step.id, "question": question, "answer": answer }));
        }
    }
    for PersonsWord { question, answer } in state.steps.get(at).iter().flat_map(|it| &it.told) {
        answers.push(json!({ "question": question, "answer": answer }));
    }
    answers
}

/// The notes of those before it, and of the answers for which it runs again.
fn notes(state: &FlowState, at: usize, stored: &dyn Fn(&Hash) -> Option<Vec<u8>>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut met = BTreeSet::new();
    for &need in state.route.needs(at) {
        handed_on(state, need, stored, &mut met, &mut notes);
    }
    for heard in state.steps.get(at).iter().flat_map(|step| &step.heard) {
        match &heard.error {
            Some(error) => notes.push(format!("The last attempt was no answer: {error}")),
            None => {
                let (said, summary) =
                    stored(&heard.artifact).map(|it| reply::said(&it)).unwrap_or_default();
                notes.extend(summary);
                notes.extend(said);
            }
        }
    }
    bounded(notes)
}

/// What a step hands on. One that a person answered or that was skipped hands on what it would have
/// been given.
fn handed_on(
    state: &FlowState,
    at: usize,
    stored: &dyn Fn(&Hash) -> Option<Vec<u8>>,
    met: &mut BTreeSet<usize>,
    notes: &mut Vec<String>,
) {
    let mut open = vec![at];
    while let Some(at) = open.pop() {
        if !met.insert(at) {
            continue;
        }
        let Some(step) = state.steps.get(at) else { continue };
        let skipped = matches!(step.phase, StepPhase::Skipped);
        let artifact = step.said.as_ref().and_then(|said| said.artifact).filter(|_| !skipped);
        match artifact {
            Some(artifact) => {
                notes.extend(stored(&artifact).map(|it| reply::said(&it).0).unwrap_or_default());
            }
            None => open.extend(state.route.needs(at).iter().rev()),
        }
    }
}

/// As many as an envelope may hold, with a word about the rest.
fn bounded(notes: Vec<String>) -> Vec<String> {
    let all = notes.len();
    let mut bytes = 0_usize;
    let mut kept: Vec<String> = Vec::new();
    for mut note in notes {
        if note.len() > NOTE_BYTES_MAX {
            note.truncate(note.floor_char_boundary(NOTE_BYTES_MAX - '…'.len_utf8()));
            note.push('…');
        }
        bytes = bytes.saturating_add(note.len());
        if bytes > NOTES_BYTES_MAX || kept.len() + 1 >= NOTES_MAX {
            let left = all - kept.len();
            kept.push(format!("[{left} more notes are left out]"));
            break;
        }
        kept.push(note);
    }
    kept
}
