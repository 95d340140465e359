//! Whether what a person answered means no.
//!
//! Which words of a choice mean no is said by the plan with which a flow begins, and which step a
//! question belongs to by the event that asks it. For whoever reads a flow's events one by one
//! without its state.

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventType};
use serde_json::Value;

/// The words for no of a flow's choices, as far as its events were taken in.
#[derive(Debug, Clone, Default)]
pub struct WordsForNo {
    /// The steps that know such words.
    choices: BTreeMap<String, Choice>,
}

#[derive(Debug, Clone)]
struct Choice {
    words: Vec<String>,
    /// The place of the question that was asked last.
    question: Option<u64>,
}

impl WordsForNo {
    /// Takes in the next event, of whatever type.
    pub fn take(&mut self, event: &Event) {
        match event.event_type {
            EventType::FlowStarted => self.choices = choices(event),
            EventType::StepEscalated => {
                let step = event.payload.get("step").and_then(Value::as_str);
                if let Some(choice) = step.and_then(|step| self.choices.get_mut(step)) {
                    choice.question = event.seq;
                }
            }
            _ => {}
        }
    }

    /// Whether the answer that `event` records is a no. Silence is one.
    #[must_use]
    pub fn is_no(&self, event: &Event) -> bool {
        let question = event.payload.pointer("/question/seq").and_then(Value::as_u64);
        match event.payload.get("answer") {
            None | Some(Value::Null | Value::Bool(false)) => true,
            Some(Value::String(word)) => self
                .choices
                .values()
                .any(|choice| choice.question == question && choice.words.contains(word)),
            Some(other) => other.get("decision").and_then(Value::as_str) == Some("stop"),
        }
    }
}

fn choices(event: &Event) -> BTreeMap<String, Choice> {
    let steps = event.payload.pointer("/plan/steps").and_then(Value::as_array);
    let with_words = |step: &Value| {
        let words = step.pointer("/approval/reject")?.as_array()?;
        let words = words.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let id = step.get("id")?.as_str()?.to_owned();
        Some((id, Choice { words, question: None }))
    };
    steps.into_iter().flatten().filter_map(with_words).collect()
}
