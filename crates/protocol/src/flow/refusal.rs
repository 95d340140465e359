//! Answers about flows that say no.

use super::plan::PlanFault;

/// Why something may not happen in a flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowRefusal {
    /// The plan cannot be carried out.
    #[error("the plan cannot be carried out: {0}")]
    Plan(#[from] PlanFault),
    /// No step has this name.
    #[error("there is no step `{step}`")]
    NoStep {
        /// The name.
        step: String,
    },
    /// It is not this step's turn.
    #[error("step `{step}` cannot be {what} now: it is {phase}")]
    NotNow {
        /// Which step.
        step: String,
        /// What was wanted.
        what: &'static str,
        /// Where it stands.
        phase: &'static str,
    },
    /// Something that it needs is not done.
    #[error("step `{step}` needs `{needed}`, which is not done")]
    Needs {
        /// Which step.
        step: String,
        /// What it needs.
        needed: String,
    },
    /// The numbers do not follow.
    #[error("step `{step}`: iteration {iteration}, attempt {attempt} is not due")]
    OtherTurn {
        /// Which step.
        step: String,
        /// What is said.
        iteration: u64,
        /// What is said.
        attempt: u64,
    },
    /// Its condition says otherwise.
    #[error("step `{step}` cannot be {what}: its condition says otherwise")]
    Condition {
        /// Which step.
        step: String,
        /// What was wanted.
        what: &'static str,
    },
    /// A fact is missing that its condition asks for.
    #[error("step `{step}`: a fact of a file that its condition asks for is missing")]
    FactMissing {
        /// Which step.
        step: String,
    },
    /// The budget is used up.
    #[error("step `{step}` cannot be called: the budget of {what} is used up")]
    Budget {
        /// Which step.
        step: String,
        /// Of what.
        what: &'static str,
    },
    /// There is no feature yet.
    #[error("step `{step}` needs the feature's id, which no step has given yet")]
    NoFeature {
        /// Which step.
        step: String,
    },
    /// Not a feature's id.
    #[error("`{id}` is {reason}")]
    Feature {
        /// What was given.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Other than the plan says.
    #[error("step `{step}`: its {what} is not that of the plan")]
    NotAsPlanned {
        /// Which step.
        step: String,
        /// What differs.
        what: &'static str,
    },
    /// A feature where none is to be given.
    #[error("step `{step}` cannot give the flow its feature")]
    FeatureGiven {
        /// Which step.
        step: String,
    },
    /// A file that the step may not write.
    #[error("step `{step}` may not write `{path}`")]
    OutsideScope {
        /// Which step.
        step: String,
        /// Which file.
        path: String,
    },
    /// A path that no answer can have.
    #[error("`{path}` cannot be written: {reason}")]
    Path {
        /// Which.
        path: String,
        /// Why not.
        reason: String,
    },
    /// Files are being written.
    #[error("files of an answer are being written, of which some may be in place")]
    HalfWritten,
    /// Files where none are to be applied.
    #[error("the answer of step `{step}` has no files to apply")]
    NoFiles {
        /// Which step.
        step: String,
    },
    /// Other files than were planned.
    #[error("the files of step `{step}` are not those that its answer planned")]
    OtherFiles {
        /// Which step.
        step: String,
    },
    /// A failure that recommends to go on.
    #[error("step `{step}`: a failure cannot recommend to proceed")]
    FailureProceeds {
        /// Which step.
        step: String,
    },
    /// The question is not open.
    #[error("question {id} is not open")]
    NotOpen {
        /// Which.
        id: String,
    },
    /// The question's time is over.
    #[error("the time to answer question {id} is over")]
    TooLate {
        /// Which.
        id: String,
    },
    /// The question's time is not over.
    #[error("the time to answer question {id} is not over")]
    TooEarly {
        /// Which.
        id: String,
    },
    /// Not an answer to this question.
    #[error("the answer {reason}")]
    Answer {
        /// Why not, as the end of a sentence.
        reason: String,
    },
    /// Only a person answers, only the recorder says that nobody did.
    #[error("channel `{channel}` is not for the role `{role}`")]
    Channel {
        /// The channel.
        channel: String,
        /// Who used it.
        role: &'static str,
    },
    /// Something is still under way.
    #[error("the flow cannot end: step `{step}` is {phase}")]
    UnderWay {
        /// Which step.
        step: String,
        /// Where it stands.
        phase: &'static str,
    },
    /// It ended otherwise.
    #[error("the flow ends `{due}`, not `{stated}`")]
    OtherOutcome {
        /// What the rules say.
        due: &'static str,
        /// What the event says.
        stated: String,
    },
}
