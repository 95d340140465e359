//! What rests on something that was not allowed is not blamed again for the same.

use std::collections::BTreeMap;

use countersign_format::event::Event;
use countersign_format::report::FailureCode;
use serde_json::Value;

use super::CheckId;

/// Events that are remembered: of a trace in which every event is wrong, the first are enough.
const REMEMBERED_MAX: usize = 10_000;

/// The events that broke a rule: by id, the check and the code.
#[derive(Debug, Clone, Default)]
pub(super) struct Blame {
    broken: BTreeMap<String, (CheckId, FailureCode)>,
}

impl Blame {
    /// Takes in that an event broke a rule; true unless an event that it refers to broke a rule of
    /// the same check.
    pub(super) fn is_news(&mut self, event: &Event, rule: (CheckId, FailureCode)) -> bool {
        let inherited = self.is_inherited(&event.payload, rule);
        if self.broken.len() < REMEMBERED_MAX {
            self.broken.insert(event.event_id.clone(), rule);
        }
        !inherited
    }

    fn is_inherited(&self, value: &Value, rule: (CheckId, FailureCode)) -> bool {
        match value {
            Value::Object(members) => {
                let id = members.get("event_id").and_then(Value::as_str);
                let broken = id.and_then(|id| self.broken.get(id));
                broken == Some(&rule) || members.values().any(|it| self.is_inherited(it, rule))
            }
            Value::Array(items) => items.iter().any(|item| self.is_inherited(item, rule)),
            _ => false,
        }
    }
}
