//! What an event changes: the routing table, ways back, and what is remembered of answers.

use std::sync::Arc;

use countersign_format::envelope::Recommendation;
use countersign_format::event::{Event, EventType};
use countersign_format::hash::Hash;
use serde_json::Value;

use super::admit::{applying, called, trouble};
use super::plan::{AgentStep, FlowPlan, OnEscalate, OnNo, OnRetry, StepBy, WayOut};
use super::route::{FlowLoop, FlowRoute};
use super::step::{
    AskedFor, Due, FileChange, Heard, OpenQuestion, PersonsWord, Said, StepPhase, StepRun,
};
use super::{FlowOutcome, FlowState, Written, millis_between};
use crate::parts::{optional, place};

pub(super) fn event(state: &mut FlowState, event: &Event) {
    use EventType as T;
    match event.event_type {
        T::FlowStarted => begin(state, event),
        T::StepDispatched => dispatch(state, event),
        T::StepSkipped => {
            if let Some(at) = step_of(state, event) {
                enter(state, at, StepPhase::Skipped);
            }
        }
        T::StepAnswered => answer(state, event),
        T::FilesApplied => applied(state, event),
        T::StepEscalated => asked(state, event),
        T::AnswerGiven => reply(state, event),
        T::FlowFinished => {
            state.outcome = read(event, "outcome").or(Some(FlowOutcome::Failed));
            state.summary = read(event, "summary").unwrap_or_default();
        }
        _ => {}
    }
    settle(state);
}

/// A member, if it is there and what it should be.
fn read<T: serde::de::DeserializeOwned>(event: &Event, name: &'static str) -> Option<T> {
    optional(event, name).ok().flatten()
}

fn step_of(state: &FlowState, event: &Event) -> Option<usize> {
    state.route.place(event.payload.get("step")?.as_str()?)
}

fn enter(state: &mut FlowState, at: usize, phase: StepPhase) {
    // What comes after it could not be named.
    let scaffold = state.route.agent(at).is_some_and(|agent| agent.scaffold);
    let phase = match phase {
        StepPhase::Done if scaffold && state.feature_id.is_none() => {
            StepPhase::Failed { reason: "it gave the flow no feature".to_owned() }
        }
        phase => phase,
    };
    if let Some(step) = state.steps.get_mut(at) {
        step.phase = phase;
    }
}

fn begin(state: &mut FlowState, event: &Event) {
    state.begun = true;
    state.workflow = read(event, "workflow").unwrap_or_default();
    state.feature_id = read::<Option<String>>(event, "feature_id").flatten();
    state.definition = read(event, "definition_artifact");
    let route = read::<FlowPlan>(event, "plan").and_then(|plan| FlowRoute::try_from(plan).ok());
    state.route = Arc::new(route.unwrap_or_default());
    state.steps = vec![StepRun::default(); state.route.plan().steps.len()];
}

fn dispatch(state: &mut FlowState, event: &Event) {
    let Some(at) = step_of(state, event) else { return };
    let seconds: u64 = read(event, "time_seconds").unwrap_or_default();
    let turn = (read(event, "iteration"), read(event, "attempt"));
    let Some(step) = state.steps.get_mut(at) else { return };
    // What was cut off has used at most what it had, and at most the time since.
    if let StepPhase::Running { seconds, since, .. } = step.phase {
        let used = millis_between(since, event.created_at).min(seconds.saturating_mul(1_000));
        state.spent_millis = state.spent_millis.saturating_add(used);
    }
    let iteration = turn.0.unwrap_or(step.iteration);
    if iteration != step.iteration {
        step.failures = 0;
        step.said = None;
    }
    step.iteration = iteration;
    step.attempt = turn.1.unwrap_or(step.attempt);
    let (dispatch, since) = (place(event), event.created_at);
    step.phase = StepPhase::Running { dispatch, seconds, since };
    state.calls = state.calls.saturating_add(1);
}

fn answer(state: &mut FlowState, event: &Event) {
    let dispatch = read(event, "dispatch");
    let Some(at) = dispatch.and_then(|dispatch| called(state, &dispatch)) else { return };
    let elapsed: u64 = read(event, "elapsed_ms").unwrap_or_default();
    if let Some(StepPhase::Running { seconds, .. }) = state.phase(at) {
        let used = elapsed.min(seconds.saturating_mul(1_000));
        state.spent_millis = state.spent_millis.saturating_add(used);
    }
    let artifact: Option<Hash> = read(event, "answer_artifact");
    if trouble(event) {
        let error = ["protocol_error", "files_refused"].iter().find_map(|name| read(event, name));
        let changed: Vec<String> = read(event, "undeclared_changes").unwrap_or_default();
        let error = error.unwrap_or_else(|| {
            format!("files changed that it did not declare: {}", changed.join(", "))
        });
        return failed_attempt(state, at, artifact, error);
    }
    let said = Said {
        success: read(event, "success").unwrap_or_default(),
        recommendation: read(event, "recommendation"),
        artifact,
    };
    if let Some(step) = state.steps.get_mut(at) {
        step.said = Some(said);
        // Heard once, it is in the call that was answered.
        step.heard.clear();
        step.told.clear();
    }
    if let (None, Some(feature)) = (&state.feature_id, read::<String>(event, "feature_id")) {
        state.feature_id = Some(feature);
    }
    match read::<Vec<FileChange>>(event, "files") {
        Some(files) if !files.is_empty() => {
            enter(state, at, StepPhase::Applying { answer: place(event), files });
        }
        _ => route(state, at),
    }
}

/// An attempt that came to nothing: another one, or a person.
fn failed_attempt(state: &mut FlowState, at: usize, artifact: Option<Hash>, error: String) {
    let attempts = state.route.agent(at).map_or(1, |agent| agent.attempts);
    let Some(step) = state.steps.get_mut(at) else { return };
    step.failures = step.failures.saturating_add(1);
    step.said = None;
    step.heard.retain(|heard| heard.error.is_none());
    step.heard.extend(artifact.map(|artifact| Heard { artifact, error: Some(error) }));
    step.phase = if step.failures >= attempts {
        StepPhase::Stuck { why: AskedFor::Attempts }
    } else {
        StepPhase::Waiting { due: Due::Attempt }
    };
}

fn applied(state: &mut FlowState, event: &Event) {
    let Some(answer) = read(event, "answer") else { return };
    let Some((at, files)) = applying(state, &answer) else { return };
    let files = files.to_vec();
    let said = state.steps.get(at).and_then(|step| step.said.clone());
    if let Some(reason) = read::<String>(event, "refused") {
        let artifact = said.and_then(|said| said.artifact);
        return failed_attempt(state, at, artifact, reason);
    }
    for FileChange { path, after, .. } in files {
        state.written.insert(path, Written { step: at, hash: after });
    }
    route(state, at);
}

/// Where an answer leads.
fn route(state: &mut FlowState, at: usize) {
    let said = state.steps.get(at).and_then(|step| step.said.clone());
    let shared = Arc::clone(&state.route);
    let (Some(said), Some(agent)) = (said, shared.agent(at)) else { return };
    let phase = match (said.recommendation, agent) {
        (Some(Recommendation::Proceed), _)
        | (Some(Recommendation::Retry), AgentStep { on_retry: OnRetry::Continue, .. })
        | (Some(Recommendation::Escalate), AgentStep { on_escalate: OnEscalate::Continue, .. }) => {
            StepPhase::Done
        }
        (Some(Recommendation::Retry), AgentStep { on_retry: OnRetry::Step(to), .. }) => {
            StepPhase::Returning { to: shared.place(to).unwrap_or(at) }
        }
        (Some(Recommendation::Retry), AgentStep { on_retry: OnRetry::Itself, .. }) => {
            return again(state, at);
        }
        (Some(Recommendation::Escalate), AgentStep { on_escalate: OnEscalate::Ask, .. }) => {
            StepPhase::Stuck { why: AskedFor::Escalated }
        }
        (Some(Recommendation::Escalate), AgentStep { on_escalate: OnEscalate::Stop, .. }) => {
            StepPhase::Failed { reason: "its agent needs somebody else".to_owned() }
        }
        (None, _) => StepPhase::Failed { reason: "its answer recommends nothing".to_owned() },
    };
    enter(state, at, phase);
}

/// Another iteration of the step itself, if one is left.
fn again(state: &mut FlowState, at: usize) {
    let left = state.has_iteration(at);
    let Some(step) = state.steps.get_mut(at) else { return };
    step.phase = if left {
        let artifact = step.said.as_ref().and_then(|said| said.artifact);
        step.heard.extend(artifact.map(|artifact| Heard { artifact, error: None }));
        StepPhase::Waiting { due: Due::Iteration }
    } else {
        StepPhase::Stuck { why: AskedFor::Iterations }
    };
}

fn asked(state: &mut FlowState, event: &Event) {
    let Some(at) = step_of(state, event) else { return };
    let Some(why) = read::<AskedFor>(event, "reason") else { return };
    let shared = Arc::clone(&state.route);
    let question: String = read(event, "question").unwrap_or_default();
    let Some(step) = state.steps.get_mut(at) else { return };
    if why == AskedFor::Iterations {
        step.phase = StepPhase::Exhausted { reason: question };
        return;
    }
    if why == AskedFor::Approval {
        step.iteration = step.iteration.saturating_add(1);
    }
    let form = match shared.step(at).map(|step| &step.by) {
        Some(StepBy::Approval(approval)) => approval.answers.clone(),
        _ => super::AnswerForm::Way,
    };
    step.phase = StepPhase::Asked(OpenQuestion {
        event: place(event),
        why,
        question,
        form,
        deadline: read(event, "deadline"),
        since: event.created_at,
    });
}

fn reply(state: &mut FlowState, event: &Event) {
    let id = event.payload.pointer("/question/event_id").and_then(Value::as_str);
    let found = id.and_then(|id| state.question(id)).map(|(at, open)| (at, open.clone()));
    let Some((at, open)) = found else { return };
    let given = event.payload.get("answer").cloned().unwrap_or_default();
    let missed = event.payload.get("channel").and_then(Value::as_str) == Some("deadline");
    if open.why == AskedFor::Approval {
        return approved(state, at, open, given, missed);
    }
    match WayOut::read(&given) {
        Ok(WayOut::Retry { answer }) => {
            if let Some(step) = state.steps.get_mut(at) {
                step.told.push(PersonsWord { question: open.question, answer });
            }
            again(state, at);
        }
        Ok(WayOut::Continue {}) => enter(state, at, StepPhase::Done),
        Ok(WayOut::Stop {}) | Err(_) => {
            let who = if missed { "nobody answered in time" } else { "a person stopped it" };
            let asked = open.question.lines().next().unwrap_or_default();
            let reason = format!("{who}: {asked}");
            enter(state, at, StepPhase::Failed { reason });
        }
    }
}

fn approved(state: &mut FlowState, at: usize, open: OpenQuestion, given: Value, missed: bool) {
    let shared = Arc::clone(&state.route);
    let Some(StepBy::Approval(approval)) = shared.step(at).map(|step| &step.by) else { return };
    let yes = match &given {
        Value::Bool(yes) => *yes,
        Value::String(word) => !approval.reject.contains(word),
        Value::Null => false,
        _ => true,
    };
    let silent = missed && given.is_null();
    let reason = if silent { "nobody answered in time" } else { "a person said no" };
    if let Some(step) = state.steps.get_mut(at) {
        step.said = Some(Said { success: yes, recommendation: None, artifact: None });
        step.answer = Some(given.clone()).filter(|given| !given.is_null());
    }
    let phase = match (yes, &approval.on_no) {
        (true, _) | (_, OnNo::Continue) => StepPhase::Done,
        (false, OnNo::Step(to)) if !silent => {
            let to = shared.place(to).unwrap_or(at);
            if let Some(step) = state.steps.get_mut(to) {
                step.told.push(PersonsWord { question: open.question, answer: given });
            }
            StepPhase::Returning { to }
        }
        (false, _) => StepPhase::Failed { reason: reason.to_owned() },
    };
    enter(state, at, phase);
}

/// Carries out every way back whose time has come: nothing of its loop is under way or could still
/// run before it goes round again, and inner loops went first. So it does not matter who was faster.
fn settle(state: &mut FlowState) {
    let shared = Arc::clone(&state.route);
    loop {
        let mut targets: Vec<usize> = state.steps.iter().filter_map(returns_to).collect();
        targets.sort_unstable();
        targets.dedup();
        let due = targets.into_iter().find_map(|to| {
            let round = shared.loop_from(to)?;
            let pending = state.pending(to);
            let open = |(within, pending): (&bool, &bool)| *within && *pending;
            let settled = !round.body.iter().zip(&pending).any(open);
            settled.then_some((to, round))
        });
        match due {
            Some((to, round)) => go_back(state, to, round),
            None => return,
        }
    }
}

/// Where a step sends back to.
pub(super) const fn returns_to(step: &StepRun) -> Option<usize> {
    match step.phase {
        StepPhase::Returning { to } => Some(to),
        _ => None,
    }
}

fn go_back(state: &mut FlowState, to: usize, round: &FlowLoop) {
    let sent: Vec<usize> = round
        .closers
        .iter()
        .copied()
        .filter(|at| state.steps.get(*at).and_then(returns_to) == Some(to))
        .collect();
    let over = |step: &StepRun| {
        matches!(step.phase, StepPhase::Failed { .. } | StepPhase::Exhausted { .. })
    };
    let within = |at: usize| round.body.get(at) == Some(&true);
    let failed = state.steps.iter().enumerate().find(|(at, step)| within(*at) && over(step));
    let phase = match failed {
        // It could never come to its end.
        Some((at, _)) => {
            let id = state.route.step(at).map(|step| step.id.as_str()).unwrap_or_default();
            let reason = format!("it leads back, but `{id}` of the same loop did not succeed");
            Some(StepPhase::Failed { reason })
        }
        None if state.spent(&round.body).is_some() => {
            Some(StepPhase::Stuck { why: AskedFor::Iterations })
        }
        None => None,
    };
    if let Some(phase) = phase {
        for at in sent {
            enter(state, at, phase.clone());
        }
        return;
    }
    let heard: Vec<Heard> = sent
        .iter()
        .filter_map(|&at| state.steps.get(at)?.said.as_ref()?.artifact)
        .map(|artifact| Heard { artifact, error: None })
        .collect();
    let after = state.route.from_on(to);
    for (at, step) in state.steps.iter_mut().enumerate() {
        if after.get(at) == Some(&true) && !over(step) {
            let due = if at == to { Due::Iteration } else { Due::First };
            step.phase = StepPhase::Waiting { due };
            step.answer = None;
        }
    }
    if let Some(step) = state.steps.get_mut(to) {
        step.heard.extend(heard);
    }
}
