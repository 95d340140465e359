//! What people permitted, counted by the channel that their word names.
//!
//! A yes is an approved intent, a work item that was unblocked, or an answer to a flow that is no no.
//! Which words of a choice mean no is said by the flow's plan.

use countersign_format::event::{Event, EventType};
use countersign_format::report::Approvals;
use countersign_format::role::Role;
use countersign_protocol::flow::WordsForNo;
use serde_json::Value;

/// The count, and what is needed to tell a yes from a no.
#[derive(Debug, Default)]
pub(crate) struct ApprovalCount {
    pub(crate) counts: Approvals,
    words_for_no: WordsForNo,
}

impl ApprovalCount {
    /// Takes in an event that somebody vouches for.
    pub(crate) fn take(&mut self, event: &Event) {
        self.words_for_no.take(event);
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
            EventType::AnswerGiven => !self.words_for_no.is_no(event),
            _ => false,
        }
    }
}

fn text<'e>(event: &'e Event, name: &str) -> Option<&'e str> {
    event.payload.get(name).and_then(Value::as_str)
}
