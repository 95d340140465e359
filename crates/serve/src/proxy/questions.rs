//! Questions of ours that a client's user has before them.
//!
//! Their ids cannot be guessed: a server that could would ask its own question under the same id, and
//! what the user says to that would count as their word to ours.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::head::{Id, Outcome};
use crate::question::{Word, word};

/// What ids of ours begin with.
const PREFIX: &str = "countersign-";

/// Those that are open.
#[derive(Debug)]
pub(super) struct Questions {
    prefix: String,
    next: AtomicU64,
    open: Mutex<HashMap<String, Option<Word>>>,
    answered: Condvar,
}

impl Questions {
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0_u8; 16];
        getrandom::fill(&mut secret)?;
        let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            prefix: format!("{PREFIX}{secret}-"),
            next: AtomicU64::new(1),
            open: Mutex::default(),
            answered: Condvar::new(),
        })
    }

    /// An id for something else that we ask.
    pub(super) fn fresh_id(&self) -> String {
        format!("{}{}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// A new one; its id.
    pub(super) fn begin(&self) -> String {
        let id = self.fresh_id();
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), None);
        id
    }

    /// Whether an id is one of ours.
    pub(super) fn is_ours(&self, id: &Id) -> bool {
        matches!(id, Id::Text(text) if text.starts_with(&self.prefix))
    }

    /// The client answers.
    pub(super) fn answer(&self, id: &Id, outcome: Outcome<'_>) {
        let said = match outcome {
            Outcome::Result(result) => {
                let result: Value = serde_json::from_str(result).unwrap_or_default();
                let action = result.get("action").and_then(Value::as_str).unwrap_or_default();
                word(action, result.get("content"))
            }
            Outcome::Error(_) => Word::Silence,
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Id::Text(id) = id
            && let Some(slot @ None) = open.get_mut(id)
        {
            *slot = Some(said);
            self.answered.notify_all();
        }
    }

    /// Waits for the answer to one, at most for `patience`.
    pub(super) fn wait(&self, id: &str, patience: Duration) -> Option<Word> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .answered
            .wait_timeout_while(open, patience, |open| matches!(open.get(id), Some(None)));
        let (open, _) = waited.unwrap_or_else(PoisonError::into_inner);
        open.get(id).copied().flatten()
    }

    /// Nobody waits for it any more.
    pub(super) fn end(&self, id: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_and_for_its_own_question() {
        let questions = Questions::new().unwrap();
        let (first, second) = (questions.begin(), questions.begin());
        let id = Id::Text(first.clone());
        assert!(questions.is_ours(&id) && !questions.is_ours(&Id::Text("countersign-1".into())));
        let yes = r#"{"action":"accept","content":{"approve":true}}"#;
        questions.answer(&id, Outcome::Result(yes));
        questions.answer(&id, Outcome::Result(r#"{"action":"decline"}"#));
        assert_eq!(questions.wait(&first, Duration::ZERO), Some(Word::Yes));
        assert_eq!(questions.wait(&second, Duration::ZERO), None);
        questions.end(&first);
        assert_eq!(questions.wait(&first, Duration::ZERO), None);
    }
}
