//! What people permitted, counted by the channel that their word names.
//!
//! A yes is an approved intent, a work item that was unblocked, or an answer to a flow that is no no.
//! Which words of a choice mean no is said by the flow's plan.

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventType};
use countersign_format::report::Approvals;
use countersign_format::role::Role;
use serde_json::Value;

/// The count, and what is needed to tell a yes from a no.
#[derive(Debug, Default)]
pub(crate) struct ApprovalCount {
    pub(crate) counts: Approvals,
    /// The steps of a flow that know words for no.
    choices: BTreeMap<String, Choice>,
}

#[derive(Debug)]
struct Choice {
    reject: Vec<String>,
    /// The place of the question that was asked last.
    question: Option<u64>,
}

impl ApprovalCount {
    /// Takes in an event that somebody vouches for.
    pub(crate) fn take(&mut self, event: &Event) {
        match event.event_type {
            EventType::FlowStarted => self.choices = choices(event),
            EventType::StepEscalated => {
                let choice = text(event, "step").and_then(|step| self.choices.get_mut(step));
                if let Some(choice) = choice {
                    choice.question = event.seq;
                }
            }
            _ => {}
        }
        if event.actor.role == Role::Operator && self.permits(event) {
            let count = match text(event, "channel") {
                Some("protected-key") => &mut self.counts.protected_key,
                Some("unprotected-key") => &mut self.counts.unprotected_key,
                Some("client-prompt") => &mut self.counts.client_prompt,
                _ => &mut self.counts.unstated,
            };
            *count += 1;
        }
    }

    fn permits(&self, event: &Event) -> bool {
        match event.event_type {
            EventType::ToolIntentReviewed => text(event, "decision") == Some("approved"),
            EventType::WorkUnblocked => true,
            EventType::AnswerGiven => {
                let question = event.payload.pointer("/question/seq").and_then(Value::as_u64);
                match event.payload.get("answer") {
                    None | Some(Value::Null | Value::Bool(false)) => false,
                    Some(Value::String(word)) => !self
                        .choices
                        .values()
                        .any(|choice| choice.question == question && choice.reject.contains(word)),
                    Some(other) => other.get("decision").and_then(Value::as_str) != Some("stop"),
                }
            }
            _ => false,
        }
    }
}

fn text<'e>(event: &'e Event, name: &str) -> Option<&'e str> {
    event.payload.get(name).and_then(Value::as_str)
}

/// The words for no in the plan with which a flow begins.
fn choices(event: &Event) -> BTreeMap<String, Choice> {
    let steps = event.payload.pointer("/plan/steps").and_then(Value::as_array);
    let with_words = |step: &Value| {
        let reject = step.pointer("/approval/reject")?.as_array()?;
        let reject = reject.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let id = step.get("id")?.as_str()?.to_owned();
        Some((id, Choice { reject, question: None }))
    };
    steps.into_iter().flatten().filter_map(with_words).collect()
}
