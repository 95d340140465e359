//! Whether every tool that ran left something that can be looked at: its input or its output.

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventType};
use serde_json::Value;

use crate::findings::LISTED_MAX;

/// Tools that are under way, and those that left nothing.
#[derive(Debug, Default)]
pub(super) struct Executions {
    /// Intents by id: whether they list an artifact.
    intents: BTreeMap<String, bool>,
    /// The same of executions that began, and where they did.
    begun: BTreeMap<String, (bool, u64)>,
    /// Where evidence was last recorded by itself.
    recorded: Option<u64>,
    /// Ends of executions of which nothing is stored: place and id. The first are enough.
    pub(super) bare: Vec<(u64, String)>,
}

impl Executions {
    pub(super) fn meet(&mut self, event: &Event, index: u64) {
        let lists = !event.artifacts.is_empty();
        match event.event_type {
            EventType::ToolIntentSigned => {
                self.intents.insert(event.event_id.clone(), lists);
            }
            EventType::ToolExecutionStarted => {
                let intent = taken(&mut self.intents, event, "intent").unwrap_or(false);
                self.begun.insert(event.event_id.clone(), (lists || intent, index));
            }
            // Evidence that is recorded meanwhile may be that of any tool under way.
            EventType::ArtifactRecorded if lists => self.recorded = Some(index),
            EventType::ToolExecutionCompleted | EventType::ToolExecutionFailed => {
                let Some((before, begun)) = taken(&mut self.begun, event, "execution") else {
                    return;
                };
                let meanwhile = self.recorded.is_some_and(|recorded| recorded > begun);
                if !before && !lists && !meanwhile && self.bare.len() < LISTED_MAX {
                    self.bare.push((index, event.event_id.clone()));
                }
            }
            _ => {}
        }
    }
}

/// What the event refers to.
fn taken<T>(from: &mut BTreeMap<String, T>, event: &Event, name: &str) -> Option<T> {
    let link = event.payload.get(name).and_then(|link| link.get("event_id"));
    from.remove(link.and_then(Value::as_str)?)
}
