//! Whether an event may follow, by the plan and by what came before.

use std::collections::BTreeSet;

use countersign_format::envelope::{Operation, Recommendation};
use countersign_format::event::{Event, EventRef, EventType};
use countersign_format::path::WorkspacePath;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use serde_json::Value;

use super::condition::FileFact;
use super::draft::{silence, under_way};
use super::plan::{AnswerForm, FlowPlan, StepBy, WayOut};
use super::route::FlowRoute;
use super::step::{AskedFor, Due, FileChange, StepPhase, StepRun};
use super::{FlowRefusal, FlowState, is};
use crate::Refusal;
use crate::parts::{member, no_such, optional, reference};

pub(super) fn body(state: &FlowState, event: &Event) -> Result<(), Refusal> {
    use EventType as T;
    match event.event_type {
        T::FlowStarted => {
            let plan: FlowPlan = member(event, "plan")?;
            FlowRoute::try_from(plan).map_err(FlowRefusal::from)?;
            feature(optional::<Option<String>>(event, "feature_id")?.flatten().as_deref())
        }
        T::StepDispatched => dispatch(state, event),
        T::StepSkipped => skip(state, event),
        T::StepAnswered => answer(state, event),
        T::FilesApplied => applied(state, event),
        T::StepEscalated => asked(state, event),
        T::AnswerGiven => reply(state, event),
        T::FlowFinished => finish(state, event),
        _ => Ok(()),
    }
}

/// An id becomes part of paths and patterns.
fn feature(id: Option<&str>) -> Result<(), Refusal> {
    let Some(id) = id else { return Ok(()) };
    let unfit = |fault: super::PatternFault| FlowRefusal::Feature {
        id: id.to_owned(),
        reason: fault.to_string(),
    };
    Ok(super::check_feature(id).map_err(unfit)?)
}

/// The step that an event names, where it stands, and its id.
fn named(state: &FlowState, event: &Event) -> Result<(usize, String), Refusal> {
    let step: String = member(event, "step")?;
    match state.route.place(&step) {
        Some(at) => Ok((at, step)),
        None => Err(FlowRefusal::NoStep { step }.into()),
    }
}

fn facts(event: &Event) -> Result<Vec<FileFact>, Refusal> {
    Ok(optional(event, "facts")?.unwrap_or_default())
}

/// Whether it is the turn of a step that waits.
fn turn(state: &FlowState, at: usize, step: &str, what: &'static str) -> Result<(), FlowRefusal> {
    let step = step.to_owned();
    if !matches!(state.phase(at), Some(StepPhase::Waiting { .. })) {
        let phase = state.phase(at).map_or("not there", StepPhase::as_str);
        return Err(FlowRefusal::NotNow { step, what, phase });
    }
    let id = |at: usize| state.route.step(at).map(|it| it.id.clone()).unwrap_or_default();
    if let Some(need) = state.unmet(at) {
        return Err(FlowRefusal::Needs { step, needed: id(need) });
    }
    Ok(())
}

/// Whether a step's condition says that it runs.
fn condition(
    state: &FlowState,
    at: usize,
    event: &Event,
    (runs, what): (bool, &'static str),
) -> Result<(), Refusal> {
    let step = state.route.step(at).map(|step| step.id.clone()).unwrap_or_default();
    match state.runs(at, &facts(event)?) {
        Some(holds) if holds == runs => Ok(()),
        Some(_) => Err(FlowRefusal::Condition { step, what }.into()),
        None => Err(FlowRefusal::FactMissing { step }.into()),
    }
}

fn dispatch(state: &FlowState, event: &Event) -> Result<(), Refusal> {
    let (at, step) = named(state, event)?;
    let what = "called";
    let interrupted = optional(event, "interrupted")?.unwrap_or(false);
    let running = matches!(state.phase(at), Some(StepPhase::Running { .. }));
    let Some(agent) = state.route.agent(at) else {
        let phase = "for a person";
        return Err(FlowRefusal::NotNow { step, what, phase }.into());
    };
    if !(interrupted && running) {
        turn(state, at, &step, what)?;
        condition(state, at, event, (true, what))?;
    }
    let (iteration, attempt): (u64, u64) = (member(event, "iteration")?, member(event, "attempt")?);
    let bound = state.route.step(at).map_or(0, |step| step.max_iterations);
    if state.turn(at) != Some((iteration, attempt)) || iteration > bound {
        return Err(FlowRefusal::OtherTurn { step, iteration, attempt }.into());
    }
    if state.feature_id.is_none() && !agent.scaffold {
        return Err(FlowRefusal::NoFeature { step }.into());
    }
    let budget = state.route.plan().budget;
    if budget.calls.is_some_and(|calls| state.calls >= calls) {
        return Err(FlowRefusal::Budget { step, what: "calls" }.into());
    }
    let seconds: u64 = member(event, "time_seconds")?;
    let left = state.millis_left_for(at, event.created_at);
    let wanted = seconds.saturating_mul(1_000);
    if seconds == 0 || seconds > agent.time_seconds || left.is_some_and(|left| wanted > left) {
        return Err(FlowRefusal::Budget { step, what: "time" }.into());
    }
    Ok(())
}

fn skip(state: &FlowState, event: &Event) -> Result<(), Refusal> {
    let (at, step) = named(state, event)?;
    let what = "skipped";
    turn(state, at, &step, what)?;
    if !matches!(state.phase(at), Some(StepPhase::Waiting { due: Due::First })) {
        return Err(FlowRefusal::Condition { step, what }.into());
    }
    condition(state, at, event, (false, what))
}

/// The running step whose call an answer names.
pub(super) fn called(state: &FlowState, dispatch: &EventRef) -> Option<usize> {
    state.steps.iter().position(
        |step| matches!(&step.phase, StepPhase::Running { dispatch: it, .. } if is(it, dispatch)),
    )
}

fn answer(state: &FlowState, event: &Event) -> Result<(), Refusal> {
    let dispatch = reference(event, "dispatch")?;
    let at = called(state, &dispatch).ok_or_else(|| no_such(event, &dispatch, "call"))?;
    let step = state.route.step(at).map(|step| step.id.clone()).unwrap_or_default();
    let success: bool = member(event, "success")?;
    let recommendation: Recommendation = member(event, "recommendation")?;
    if !success && recommendation == Recommendation::Proceed {
        return Err(FlowRefusal::FailureProceeds { step }.into());
    }
    let agent = state.route.agent(at);
    if optional::<String>(event, "feature_id")?.is_some()
        && !agent.is_some_and(|agent| agent.scaffold && success)
    {
        return Err(FlowRefusal::FeatureGiven { step }.into());
    }
    feature(optional::<String>(event, "feature_id")?.as_deref())?;
    let unbound = state.feature_id.is_none() && event.payload.get("feature_id").is_none();
    if unbound && success && !trouble(event) {
        return Err(FlowRefusal::NoFeature { step }.into());
    }
    let files: Vec<FileChange> = optional(event, "files")?.unwrap_or_default();
    if !files.is_empty() && (!success || trouble(event)) {
        return Err(FlowRefusal::NoFiles { step }.into());
    }
    // Patterns name the feature, which a scaffold step gives with its files.
    let feature = match optional::<String>(event, "feature_id")? {
        Some(feature) => Some(feature),
        None => state.feature_id.clone(),
    };
    let fits = |path: &str| {
        agent.is_some_and(|agent| {
            agent.writes.iter().any(|it| it.for_feature(feature.as_deref()).fits(path))
        })
    };
    let mut met = BTreeSet::new();
    for file in files {
        let path = WorkspacePath::parse(&file.path).map_err(|fault| FlowRefusal::Path {
            path: file.path.clone(),
            reason: fault.to_string(),
        })?;
        if !fits(&file.path) {
            return Err(FlowRefusal::OutsideScope { step, path: file.path }.into());
        }
        let twice = !met.insert(path.collision_key());
        if twice || (file.operation == Operation::Update && file.before.is_none()) {
            let reason = if twice { "it stands twice" } else { "nothing was there to update" };
            return Err(FlowRefusal::Path { path: file.path, reason: reason.to_owned() }.into());
        }
    }
    Ok(())
}

/// Whether what came back cannot be taken as an answer.
pub(super) fn trouble(event: &Event) -> bool {
    ["protocol_error", "files_refused", "undeclared_changes"]
        .iter()
        .any(|name| event.payload.get(*name).is_some())
}

/// The step whose files an event is about.
pub(super) fn applying<'s>(
    state: &'s FlowState,
    answer: &EventRef,
) -> Option<(usize, &'s [FileChange])> {
    state.steps.iter().enumerate().find_map(|(at, step)| match &step.phase {
        StepPhase::Applying { answer: it, files } if is(it, answer) => Some((at, files.as_slice())),
        _ => None,
    })
}

fn applied(state: &FlowState, event: &Event) -> Result<(), Refusal> {
    let answer = reference(event, "answer")?;
    let found = applying(state, &answer);
    let (at, planned) = found.ok_or_else(|| no_such(event, &answer, "answer with files"))?;
    let files: Vec<FileChange> = member(event, "files")?;
    let refused = optional::<String>(event, "refused")?.is_some();
    let fits = if refused { files.is_empty() } else { files == planned };
    if fits {
        return Ok(());
    }
    let step = state.route.step(at).map(|step| step.id.clone()).unwrap_or_default();
    Err(FlowRefusal::OtherFiles { step }.into())
}

fn asked(state: &FlowState, event: &Event) -> Result<(), Refusal> {
    let (at, step) = named(state, event)?;
    let reason: AskedFor = member(event, "reason")?;
    let what = "asked about";
    match (state.phase(at), reason) {
        (Some(StepPhase::Stuck { why: AskedFor::Iterations }), AskedFor::Iterations) => Ok(()),
        (Some(StepPhase::Stuck { why }), reason) if *why == reason => {
            let seconds = state.route.plan().question_seconds;
            as_planned(event, &step, &AnswerForm::Way, None, seconds)
        }
        (_, AskedFor::Approval) if state.route.agent(at).is_none() => {
            let Some(StepBy::Approval(approval)) = state.route.step(at).map(|step| &step.by) else {
                return Err(FlowRefusal::NoStep { step }.into());
            };
            turn(state, at, &step, what)?;
            condition(state, at, event, (true, what))?;
            if member::<String>(event, "question")? != approval.question {
                return Err(FlowRefusal::NotAsPlanned { step, what: "question" }.into());
            }
            let default = approval.default.as_ref();
            as_planned(event, &step, &approval.answers, default, approval.deadline_seconds)
        }
        (phase, _) => {
            let phase = phase.map_or("not there", StepPhase::as_str);
            Err(FlowRefusal::NotNow { step, what, phase }.into())
        }
    }
}

/// Whether a question leaves the answers and the time that the plan gives.
fn as_planned(
    event: &Event,
    step: &str,
    form: &AnswerForm,
    default: Option<&Value>,
    seconds: u64,
) -> Result<(), Refusal> {
    let millis = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000);
    let due = event.created_at.plus_millis(millis);
    let what = if member::<AnswerForm>(event, "answers")? != *form {
        "form of answers"
    } else if event.payload.get("default") != default {
        "default"
    } else if member::<Timestamp>(event, "deadline")? != due {
        "deadline"
    } else {
        return Ok(());
    };
    Err(FlowRefusal::NotAsPlanned { step: step.to_owned(), what }.into())
}

fn reply(state: &FlowState, event: &Event) -> Result<(), Refusal> {
    let question = reference(event, "question")?;
    let id = question.event_id.clone();
    let (at, open) = match state.question(&id) {
        Some((at, open)) if is(&open.event, &question) => (at, open),
        _ => return Err(FlowRefusal::NotOpen { id }.into()),
    };
    let channel: String = member(event, "channel")?;
    let role = event.actor.role;
    let late = open.deadline.is_some_and(|deadline| event.created_at >= deadline);
    let given = event.payload.get("answer").unwrap_or(&Value::Null);
    match (channel == "deadline", role == Role::Recorder) {
        (true, true) if !late => Err(FlowRefusal::TooEarly { id }.into()),
        (true, true) if *given != silence(state, at, open) => {
            let reason = "is not what counts when nobody answers".to_owned();
            Err(FlowRefusal::Answer { reason }.into())
        }
        (true, true) => Ok(()),
        (false, false) if late => Err(FlowRefusal::TooLate { id }.into()),
        (false, false) => {
            open.form.check(given).map_err(|reason| FlowRefusal::Answer { reason })?;
            let again = open.form == AnswerForm::Way
                && matches!(WayOut::read(given), Ok(WayOut::Retry { .. }));
            if again && !state.has_iteration(at) {
                let reason = "cannot be given to the agent, which has no iteration left: let it \
                              go on as it is, or stop it";
                return Err(FlowRefusal::Answer { reason: reason.to_owned() }.into());
            }
            Ok(())
        }
        _ => Err(FlowRefusal::Channel { channel, role: role.as_str() }.into()),
    }
}

fn finish(state: &FlowState, event: &Event) -> Result<(), Refusal> {
    let stated: String = member(event, "outcome")?;
    if stated == "aborted" {
        // Some of them may be in place: they are applied all or none.
        let applying = |step: &&StepRun| matches!(step.phase, StepPhase::Applying { .. });
        return match state.steps.iter().find(applying) {
            Some(_) => Err(FlowRefusal::HalfWritten.into()),
            None => Ok(()),
        };
    }
    match state.due_outcome() {
        Some(due) if due.as_str() == stated => Ok(()),
        Some(due) => Err(FlowRefusal::OtherOutcome { due: due.as_str(), stated }.into()),
        None => Err(under_way(state).into()),
    }
}
