//! What can be asked for of a flow.

use countersign_format::envelope::Recommendation;
use countersign_format::event::{ArtifactDescriptor, EventRef};
use countersign_format::hash::Hash;
use serde_json::Value;

use super::condition::FileFact;
use super::plan::FlowPlan;
use super::step::FileChange;
use crate::LogPin;

/// A command for a flow.
#[derive(Debug, Clone)]
pub enum FlowCommand {
    /// Begin it.
    Open(Box<FlowOpening>),
    /// Call a step's agent.
    Dispatch {
        /// Which step.
        step: String,
        /// What the agent is given, stored.
        envelope: Box<ArtifactDescriptor>,
        /// The facts of files for which it runs.
        facts: Vec<FileFact>,
        /// The seconds that are reserved for it.
        seconds: u64,
        /// What isolation the agent has.
        isolation: Option<Value>,
    },
    /// Leave a step out.
    Skip {
        /// Which step.
        step: String,
        /// The facts of files for which it is left out.
        facts: Vec<FileFact>,
    },
    /// Take what an agent gave back.
    Answer(Box<StepReturn>),
    /// Say that the files of an answer were written, or that none was.
    Applied {
        /// The answer.
        answer: EventRef,
        /// Why none was.
        refused: Option<String>,
        /// Bytes that would have been lost, stored.
        kept: Vec<ArtifactDescriptor>,
    },
    /// Ask a person about a step, or record that a bound was reached.
    Ask {
        /// Which step.
        step: String,
        /// What is asked, where the plan does not say.
        question: Option<String>,
        /// The facts of files for which an approval is asked for.
        facts: Vec<FileFact>,
    },
    /// Answer a question, as a person.
    Reply {
        /// The question.
        question: EventRef,
        /// The answer.
        answer: Value,
        /// How the person's key is kept.
        channel: String,
        /// Why.
        reason: Option<String>,
    },
    /// Record that nobody answered in time.
    Miss {
        /// The question.
        question: EventRef,
    },
    /// End it, as it stands.
    Finish,
    /// End it early.
    Abort {
        /// Why.
        reason: String,
    },
    /// Record that the bytes of an artifact were removed.
    Redact {
        /// Which.
        artifact_hash: Hash,
        /// Why.
        reason: String,
    },
}

/// What a flow begins with.
#[derive(Debug, Clone)]
pub struct FlowOpening {
    /// Where the log stands.
    pub log: LogPin,
    /// The workflow's name.
    pub workflow: String,
    /// The feature, if there is one already.
    pub feature_id: Option<String>,
    /// What it is.
    pub plan: FlowPlan,
    /// The file that describes it, stored.
    pub definition: ArtifactDescriptor,
    /// Other traces that it belongs to.
    pub links: Option<Value>,
}

/// What an agent gave back.
#[derive(Debug, Clone)]
pub struct StepReturn {
    /// The call.
    pub dispatch: EventRef,
    /// Whether it did its task.
    pub success: bool,
    /// What it recommends.
    pub recommendation: Recommendation,
    /// What it says about it.
    pub summary: String,
    /// What is wrong with the answer, if it is none.
    pub protocol_error: Option<String>,
    /// What is to be written.
    pub files: Vec<FileChange>,
    /// Why nothing may be written.
    pub files_refused: Option<String>,
    /// Files that changed although the agent did not declare them.
    pub undeclared: Vec<String>,
    /// How long it took.
    pub elapsed_millis: u64,
    /// The feature that a scaffold step gives.
    pub feature_id: Option<String>,
    /// What it printed, stored.
    pub answer: ArtifactDescriptor,
    /// What else is stored of it: standard error, the bytes before its files.
    pub beside: Vec<ArtifactDescriptor>,
    /// Traces that it left.
    pub links: Option<Value>,
}
