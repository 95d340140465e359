//! Questions of flows: what a person is asked, and when somebody reminds them.

use countersign_format::event::TraceKind;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use countersign_protocol::flow::{AskedFor, FlowCommand, FlowState, OpenQuestion, StepBy};
use serde_json::Value;

use super::reply;
use super::run::RunningFlow;
use crate::questions::Question;
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::Recorded;

/// Notes of an agent that a question repeats.
const NOTES_SHOWN: usize = 20;

/// When a person is reminded of a question.
pub(super) fn remind_at(state: &FlowState, at: usize, open: &OpenQuestion) -> Option<Timestamp> {
    let StepBy::Approval(approval) = &state.route.step(at)?.by else { return None };
    let seconds = i64::try_from(approval.reminder_seconds?).ok()?;
    Some(open.since.plus_millis(seconds.saturating_mul(1_000)))
}

impl RunningFlow {
    /// What a person is asked about a step that cannot go on: what its agent said.
    pub(super) fn question(&self, state: &FlowState, at: usize) -> String {
        let step = state.steps.get(at);
        let failed = step.and_then(|step| step.heard.iter().rev().find_map(|it| it.error.clone()));
        if let Some(error) = failed {
            return self.clean(&format!("no usable answer: {error}"));
        }
        let said = step.and_then(|step| step.said.as_ref()).and_then(|said| said.artifact);
        let stored = said.and_then(|hash| self.stored(&hash)).unwrap_or_default();
        let (notes, summary) = reply::said(&stored);
        let mut text = summary.unwrap_or_default();
        for note in notes.iter().take(NOTES_SHOWN) {
            text.push_str("\n- ");
            text.push_str(note);
        }
        self.clean(&text)
    }
}

impl Workspace {
    /// The questions of a flow.
    pub(crate) fn questions_of_flow(&self, id: Ulid) -> Result<Vec<Question>, WorkspaceError> {
        let flow = self.flow(id)?;
        Ok(flow.look(|state| {
            let question = |(at, open): (usize, &OpenQuestion)| Question {
                id: open.event.event_id.clone(),
                trace_id: id.to_string(),
                subject: open.event.clone(),
                title: title(state, at),
                risk: String::new(),
                justification: open.question.clone(),
                reasons: Vec::new(),
                input: None,
                call: None,
                request: None,
                form: Some(open.form.clone()),
                default: default(state, at),
                kind: TraceKind::Flow,
                asked_at: open.since,
                deadline: open.deadline,
            };
            state.questions().map(question).collect()
        })?)
    }

    /// Answers a question of a flow, as the operator.
    pub(crate) fn answer_flow(
        &self,
        id: Ulid,
        question: &Question,
        answer: Value,
        reason: Option<&str>,
    ) -> Result<Recorded, WorkspaceError> {
        let channel = self.operator_channel()?.to_owned();
        Ok(self.flow(id)?.submit(FlowCommand::Reply {
            question: question.subject.clone(),
            answer,
            channel,
            reason: reason.map(countersign_format::text::to_nfc),
        })?)
    }
}

fn default(state: &FlowState, at: usize) -> Option<Value> {
    match &state.route.step(at)?.by {
        StepBy::Approval(approval) => approval.default.clone(),
        StepBy::Agent(_) => None,
    }
}

fn title(state: &FlowState, at: usize) -> String {
    let step = state.route.step(at).map(|step| step.id.as_str()).unwrap_or_default();
    let why = match state.questions().find(|(it, _)| *it == at).map(|(_, open)| open.why) {
        Some(AskedFor::Approval) => "asks",
        Some(AskedFor::Attempts) => "failed to answer",
        _ => "needs somebody",
    };
    format!("step `{step}` of {} {why}", state.workflow)
}
