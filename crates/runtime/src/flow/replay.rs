//! A flow gone through again from its trace, without calling anybody.
//!
//! Every decision is made again by the rules over what was recorded before it, and every input
//! envelope is built again from stored answers. What comes out otherwise is told.

use countersign_format::event::{Event, EventType};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_protocol::State as _;
use countersign_protocol::flow::{FileChange, FlowState};
use serde_json::Value;

use super::file::FlowFile;
use super::{FlowError, STORED_BYTES_MAX, brief, reply};
use crate::inspect::each_event;
use crate::secrets::Redactor;
use crate::store::{Blobs as _, LedgerId};
use crate::workspace::{Workspace, WorkspaceError};

/// What came of going through a flow again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowReplay {
    /// Events that were looked at.
    pub events: u64,
    /// Calls whose input envelope was built again.
    pub calls: u64,
    /// What came out otherwise, by the place of its event.
    pub different: Vec<(u64, String)>,
    /// What the events come to.
    pub state: FlowState,
}

impl Workspace {
    /// Goes through a flow again.
    ///
    /// # Errors
    /// It cannot be read, or its flow file is not there.
    pub fn replay_flow(&self, id: Ulid, redactor: &Redactor) -> Result<FlowReplay, FlowError> {
        let file = self.flow(id)?.file()?;
        let mut replay = FlowReplay::default();
        let read = each_event(&self.trace_file(id), LedgerId::Trace(id), |event| {
            replay.take(self, &event, &file, redactor);
        });
        let _ = read.map_err(|source| {
            FlowError::Workspace(WorkspaceError::Io { doing: "read the trace", source })
        })?;
        Ok(replay)
    }
}

impl FlowReplay {
    /// What an event says otherwise than the flow file or the answer that it names.
    fn unlike_stored(
        &self,
        workspace: &Workspace,
        event: &Event,
        file: &FlowFile,
    ) -> Option<&'static str> {
        let member = |name: &str| event.payload.get(name);
        match event.event_type {
            EventType::FlowStarted => {
                let plan = json::to_bytes(&serde_json::to_value(&file.plan).ok()?);
                let same = member("plan").map(json::to_bytes) == Some(plan)
                    && member("workflow").and_then(Value::as_str) == Some(&file.workflow);
                (!same).then_some("the plan is not that of the flow file")
            }
            EventType::StepAnswered if member("protocol_error").is_none() => {
                let hash: Hash = member("answer_artifact")?.as_str()?.parse().ok()?;
                let Ok(stored) = workspace.store().get(&hash, STORED_BYTES_MAX) else {
                    return Some("the answer is not there");
                };
                let Some(envelope) = reply::stored(&stored) else {
                    return Some("the stored answer is no envelope");
                };
                let says = serde_json::to_value(envelope.recommendation).ok();
                let same = member("success") == Some(&Value::Bool(envelope.success))
                    && member("recommendation") == says.as_ref();
                if !same {
                    return Some("the stored answer says otherwise");
                }
                let planned: Vec<FileChange> = member("files")
                    .and_then(|files| serde_json::from_value(files.clone()).ok())
                    .unwrap_or_default();
                let known = |file: &FileChange| {
                    envelope.artifacts.iter().any(|it| {
                        it.path.as_str() == file.path
                            && Hash::of(it.content.as_bytes()) == file.after
                    })
                };
                let all = planned.is_empty() || planned.len() == envelope.artifacts.len();
                let same = all && planned.iter().all(known);
                (!same).then_some("its files are not those of the stored answer")
            }
            _ => None,
        }
    }

    fn take(&mut self, workspace: &Workspace, event: &Event, file: &FlowFile, redactor: &Redactor) {
        let seq = event.seq.unwrap_or_default();
        self.events += 1;
        if let Err(refusal) = self.state.admit(event) {
            self.different.push((seq, refusal.to_string()));
        }
        if let Some(what) = self.unlike_stored(workspace, event, file) {
            self.different.push((seq, what.to_owned()));
        }
        if event.event_type == EventType::StepDispatched {
            self.calls += 1;
            let stored = |hash: &Hash| workspace.store().get(hash, STORED_BYTES_MAX).ok();
            let text = |name: &str| event.payload.get(name).and_then(Value::as_str);
            let at = text("step").and_then(|step| self.state.route.place(step));
            let order = at.and_then(|at| file.orders.get(at)).and_then(Option::as_ref);
            let built = at.zip(order).map(|(at, order)| {
                let input = brief::envelope(&self.state, at, order, &stored);
                let input = brief::without_secrets(input, redactor);
                Hash::of(&json::to_bytes(&serde_json::to_value(input).unwrap_or_default()))
            });
            let recorded = text("envelope_artifact").and_then(|hash| hash.parse().ok());
            if built != recorded {
                let what = "the input envelope is not the one that was recorded".to_owned();
                self.different.push((seq, what));
            }
        }
        self.state.apply(event);
    }
}
