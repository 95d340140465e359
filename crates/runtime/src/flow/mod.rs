//! Flows being run: agents composed by envelopes.
//!
//! The trace is the truth: which step is next, what an answer leads to and when it is over is
//! decided by the rules of flows over recorded events. Here agents are called, files applied and
//! people asked. Agents do not know each other.

mod battery;
mod brief;
mod call;
mod facts;
mod file;
mod files;
mod graph;
mod picture;
mod questions;
mod replay;
mod reply;
mod run;
mod seat;
mod session_step;
mod sight;

use std::sync::Arc;

use countersign_format::event::TraceKind;
use countersign_format::id::Ulid;
use countersign_format::text::to_nfc;
use countersign_protocol::flow::{FlowCommand, FlowOpening, FlowState};
use serde_json::Value;

use crate::store::Blobs as _;
use crate::trace::TraceWriter;
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::{Recorded, WriteError};

pub use battery::{AgentTrial, TrialResult};
pub use file::{FlowAgent, FlowAgentKind, FlowFile, FlowReading, StepOrder};
pub use graph::{EdgeKind, FlowGraph, GraphEdge, GraphNode, NodeMark, NodeShape};
pub use picture::picture;
pub use replay::FlowReplay;
pub use reply::{AgentReply, read_reply};
pub use run::{FlowEnd, FlowError, FlowNews, FlowObserver, FlowSetting, RunningFlow};
pub use seat::AgentSeat;

/// Bytes of a stored flow file or answer that are read back.
const STORED_BYTES_MAX: u64 = 64 << 20;
/// The media type of a stored flow file.
const FLOW_MEDIA: &str = "application/toml";

/// A flow that can be written to, by many threads and processes at once. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FlowTrace {
    trace: Arc<TraceWriter<FlowState>>,
}

impl Workspace {
    /// Begins a flow. When it returns, its first event and its entry in the log survive power loss.
    ///
    /// # Errors
    /// Something could not be recorded.
    pub(crate) fn begin_flow(
        &self,
        file: &FlowFile,
        text: &[u8],
        links: Option<&Value>,
    ) -> Result<(FlowTrace, Recorded), WorkspaceError> {
        let definition = self.put_artifact(text, FLOW_MEDIA)?;
        let open = |log| {
            FlowCommand::Open(Box::new(FlowOpening {
                log,
                workflow: to_nfc(&file.workflow),
                feature_id: file.feature_id.clone(),
                plan: file.plan.clone(),
                definition: definition.clone(),
                links: links.cloned(),
            }))
        };
        let (trace, recorded) = TraceWriter::begin(self, TraceKind::Flow, open)?;
        Ok((FlowTrace { trace: Arc::new(trace) }, recorded))
    }

    /// A flow that was begun before.
    ///
    /// # Errors
    /// There is none of this id.
    pub fn flow(&self, id: Ulid) -> Result<FlowTrace, WorkspaceError> {
        let begun = |state: &FlowState| state.begun;
        let trace = TraceWriter::existing(self, id, TraceKind::Flow, begun)?;
        Ok(FlowTrace { trace: Arc::new(trace) })
    }
}

impl FlowTrace {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> Ulid {
        self.trace.id()
    }

    /// The workspace that it lies in.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        self.trace.workspace()
    }

    /// What its events come to now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn look<T>(&self, at: impl FnOnce(&FlowState) -> T) -> Result<T, WriteError> {
        self.trace.look(at)
    }

    /// The flow file that its trace keeps.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn file(&self) -> Result<FlowFile, FlowError> {
        let (definition, feature, scaffold) = self.look(|state| {
            let mut agents = (0..state.steps.len()).filter_map(|at| state.route.agent(at));
            let scaffold = agents.any(|agent| agent.scaffold);
            (state.definition, state.feature_id.clone(), scaffold)
        })?;
        let stored = |reason: String| FlowError::Stored { id: self.id().to_string(), reason };
        let hash = definition.ok_or_else(|| stored("its first event names none".to_owned()))?;
        let bytes = self.workspace().store().get(&hash, STORED_BYTES_MAX);
        let bytes = bytes.map_err(|error| stored(error.to_string()))?;
        // What a step gave was not in the file, and what is there by now need not have been.
        let feature_id = feature.as_deref().filter(|_| !scaffold);
        let reading = FlowReading { feature_id, exists: &|_| true };
        FlowFile::from_bytes(&bytes, &reading)
            .map_err(|faults| stored(faults.first().map(ToString::to_string).unwrap_or_default()))
    }

    pub(crate) fn submit(&self, command: FlowCommand) -> Result<Recorded, WriteError> {
        self.trace.submit(command)
    }
}
