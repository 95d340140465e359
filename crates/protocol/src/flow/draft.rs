//! The events that commands bring.

use countersign_format::event::{ArtifactDescriptor, Draft, EventRef, EventType};
use countersign_format::role::Role;
use serde_json::{Value, json};

use super::command::{FlowCommand, FlowOpening, StepReturn};
use super::plan::{AnswerForm, StepBy, WayOut};
use super::step::{AskedFor, OpenQuestion, StepPhase};
use super::{FlowOutcome, FlowRefusal, FlowState};
use crate::parts::{produced, set};
use crate::{Act, By, Context, Refusal};

pub(super) fn acts(
    state: &FlowState,
    command: FlowCommand,
    context: &Context,
) -> Result<Vec<Act>, Refusal> {
    use FlowCommand as C;
    let draft = match command {
        C::Open(opening) => open(*opening, context),
        C::Dispatch { step, envelope, facts, seconds, isolation } => {
            let at = place(state, &step)?;
            let (iteration, attempt) = state.turn(at).unwrap_or((1, 1));
            let mut payload = json!({
                "step": step,
                "iteration": iteration,
                "attempt": attempt,
                "envelope_artifact": envelope.artifact_hash,
                "time_seconds": seconds,
            });
            let running = matches!(state.phase(at), Some(StepPhase::Running { .. }));
            set(&mut payload, "interrupted", running.then_some(true));
            set(&mut payload, "facts", (!facts.is_empty()).then_some(facts));
            set(&mut payload, "isolation", isolation);
            with(EventType::StepDispatched, payload, vec![*envelope], context)
        }
        C::Skip { step, facts } => {
            let mut payload = json!({ "step": step });
            set(&mut payload, "facts", (!facts.is_empty()).then_some(facts));
            Draft::new(EventType::StepSkipped, payload)
        }
        C::Answer(answer) => answered(*answer, context),
        C::Applied { answer, refused, kept } => {
            let files = match (&refused, applying(state, &answer)) {
                (None, Some(files)) => files,
                _ => json!([]),
            };
            let mut payload = json!({ "answer": answer, "files": files });
            set(&mut payload, "refused", refused);
            let hashes: Vec<_> = kept.iter().map(|it| it.artifact_hash).collect();
            set(&mut payload, "kept_artifacts", (!hashes.is_empty()).then_some(hashes));
            with(EventType::FilesApplied, payload, kept, context)
        }
        C::Ask { step, question, facts } => {
            let mut draft = ask(state, &step, question, context)?;
            set(&mut draft.payload, "facts", (!facts.is_empty()).then_some(facts));
            draft
        }
        C::Reply { question, answer, channel, reason } => {
            let mut payload = json!({ "question": question, "answer": answer, "channel": channel });
            set(&mut payload, "reason", reason);
            let draft = Draft::new(EventType::AnswerGiven, payload);
            return Ok(vec![Act { by: By::Role(Role::Operator), draft }]);
        }
        C::Miss { question } => {
            let (at, open) = state
                .question(&question.event_id)
                .ok_or_else(|| FlowRefusal::NotOpen { id: question.event_id.clone() })?;
            let answer = silence(state, at, open);
            let payload = json!({ "question": question, "answer": answer, "channel": "deadline" });
            Draft::new(EventType::AnswerGiven, payload)
        }
        C::Finish => {
            let outcome = state.due_outcome().ok_or_else(|| under_way(state))?;
            finished(outcome, &state.why())
        }
        C::Abort { reason } => finished(FlowOutcome::Aborted, &reason),
        C::Redact { artifact_hash, reason } => {
            let payload = json!({ "artifact_hash": artifact_hash, "reason": reason });
            Draft::new(EventType::ArtifactRedacted, payload)
        }
    };
    Ok(vec![Act::by_recorder(draft)])
}

fn with(
    event: EventType,
    payload: Value,
    artifacts: Vec<ArtifactDescriptor>,
    context: &Context,
) -> Draft {
    Draft::new(event, payload).with_artifacts(produced(artifacts, context))
}

fn place(state: &FlowState, step: &str) -> Result<usize, Refusal> {
    let no_step = || FlowRefusal::NoStep { step: step.to_owned() };
    state.route.place(step).ok_or_else(|| no_step().into())
}

fn open(opening: FlowOpening, context: &Context) -> Draft {
    let mut payload = json!({
        "kind": "flow",
        "workflow": opening.workflow,
        "feature_id": opening.feature_id,
        "definition_artifact": opening.definition.artifact_hash,
        "plan": opening.plan,
        "log": opening.log,
    });
    set(&mut payload, "links", opening.links);
    with(EventType::FlowStarted, payload, vec![opening.definition], context)
}

fn answered(answer: StepReturn, context: &Context) -> Draft {
    let mut payload = json!({
        "dispatch": answer.dispatch,
        "success": answer.success,
        "recommendation": answer.recommendation,
        "answer_artifact": answer.answer.artifact_hash,
        "elapsed_ms": answer.elapsed_millis,
    });
    let summary = (!answer.summary.is_empty()).then_some(answer.summary);
    set(&mut payload, "summary", summary);
    set(&mut payload, "protocol_error", answer.protocol_error);
    set(&mut payload, "files", (!answer.files.is_empty()).then_some(answer.files));
    set(&mut payload, "files_refused", answer.files_refused);
    let undeclared = (!answer.undeclared.is_empty()).then_some(answer.undeclared);
    set(&mut payload, "undeclared_changes", undeclared);
    set(&mut payload, "feature_id", answer.feature_id);
    set(&mut payload, "links", answer.links);
    let mut artifacts = vec![answer.answer];
    // The same bytes may be several things at once.
    for artifact in answer.beside {
        if artifacts.iter().all(|it| it.artifact_hash != artifact.artifact_hash) {
            artifacts.push(artifact);
        }
    }
    with(EventType::StepAnswered, payload, artifacts, context)
}

fn applying(state: &FlowState, answer: &EventRef) -> Option<Value> {
    state.steps.iter().find_map(|step| match &step.phase {
        StepPhase::Applying { answer: it, files } if super::is(it, answer) => Some(json!(files)),
        _ => None,
    })
}

/// What is asked of a person about a step, or that a bound was reached.
fn ask(
    state: &FlowState,
    step: &str,
    question: Option<String>,
    context: &Context,
) -> Result<Draft, Refusal> {
    let at = place(state, step)?;
    let planned = state.route.step(at).map(|step| &step.by);
    let later = |seconds: u64| {
        context.now.plus_millis(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000))
    };
    let mut payload = match (state.phase(at), planned) {
        (Some(StepPhase::Stuck { why: AskedFor::Iterations }), _) => {
            json!({
                "step": step, "reason": AskedFor::Iterations.as_str(),
                "question": bound(state, at),
            })
        }
        (Some(StepPhase::Stuck { why }), _) => {
            let seconds = state.route.plan().question_seconds;
            json!({
                "step": step, "reason": why.as_str(),
                "question": question.unwrap_or_else(|| "how should it go on?".to_owned()),
                "answers": AnswerForm::Way, "deadline": later(seconds),
            })
        }
        (_, Some(StepBy::Approval(approval))) => {
            let mut payload = json!({
                "step": step, "reason": AskedFor::Approval.as_str(),
                "question": approval.question, "answers": approval.answers,
                "deadline": later(approval.deadline_seconds),
            });
            set(&mut payload, "default", approval.default.as_ref());
            set(&mut payload, "remind_at", approval.reminder_seconds.map(later));
            let (iteration, _) = state.turn(at).unwrap_or((1, 1));
            set(&mut payload, "iteration", Some(iteration));
            payload
        }
        (phase, _) => {
            let phase = phase.map_or("not there", StepPhase::as_str);
            let what = "asked about";
            return Err(FlowRefusal::NotNow { step: step.to_owned(), what, phase }.into());
        }
    };
    // An event is one line, and an agent may say much.
    if let Some(Value::String(text)) = payload.get_mut("question")
        && text.len() > QUESTION_BYTES_MAX
    {
        text.truncate(text.floor_char_boundary(QUESTION_BYTES_MAX));
        text.push('…');
    }
    Ok(Draft::new(EventType::StepEscalated, payload))
}

/// Which step of the loop that `at` closes has no iteration left.
fn bound(state: &FlowState, at: usize) -> String {
    let back = state.route.step(at).and_then(|step| step.way_back());
    let from = back.and_then(|to| state.route.place(to)).unwrap_or(at);
    let round = state.route.loop_from(from).filter(|_| from != at);
    let spent = round.and_then(|round| state.spent(&round.body));
    let spent = spent.unwrap_or(at);
    let (id, bound) = match state.route.step(spent) {
        Some(step) => (step.id.as_str(), step.max_iterations),
        None => ("", 0),
    };
    let times = if bound == 1 { "once" } else { "times" };
    match bound {
        1 => format!("`{id}` ran {times}, which is its bound"),
        _ => format!("`{id}` ran {bound} {times}, which is its bound"),
    }
}

const QUESTION_BYTES_MAX: usize = 16 << 10;

/// What counts when nobody answers.
pub(super) fn silence(state: &FlowState, at: usize, open: &OpenQuestion) -> Value {
    match (open.why, state.route.step(at).map(|step| &step.by)) {
        (AskedFor::Approval, Some(StepBy::Approval(approval))) => {
            approval.default.clone().unwrap_or(Value::Null)
        }
        _ => WayOut::Stop {}.to_value(),
    }
}

fn finished(outcome: FlowOutcome, summary: &str) -> Draft {
    let payload = json!({ "outcome": outcome, "summary": summary });
    Draft::new(EventType::FlowFinished, payload)
}

pub(super) fn under_way(state: &FlowState) -> FlowRefusal {
    let ready = state.ready();
    let busy =
        |(at, step): &(usize, &super::StepRun)| step.phase.is_under_way() || ready.contains(at);
    let found = state.steps.iter().enumerate().find(busy);
    let step = found.and_then(|(at, _)| state.route.step(at)).map(|step| step.id.clone());
    let phase = found.map_or("not there", |(_, step)| step.phase.as_str());
    FlowRefusal::UnderWay { step: step.unwrap_or_default(), phase }
}
