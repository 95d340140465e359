//! Answers that say no, with the values that decided.

use countersign_format::event::{EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;

use crate::flow::FlowRefusal;
use crate::log::OpenUnreadable;
use crate::work::WorkRefusal;

/// Why something may not happen. An answer, not an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A work item is not to be moved like this.
    #[error("{0}")]
    Work(#[from] WorkRefusal),
    /// A flow does not go on like this.
    #[error("{0}")]
    Flow(#[from] FlowRefusal),
    /// Whether the log has a trace as open cannot be known.
    #[error("{0}")]
    Open(#[from] OpenUnreadable),
    /// The trace must begin with something else.
    #[error("a trace cannot begin with `{}`", found.as_str())]
    WrongFirstEvent {
        /// What it began with.
        found: EventType,
    },
    /// The trace has begun already.
    #[error("`{}` can only be the first event of a trace", found.as_str())]
    BeganAlready {
        /// What would begin it again.
        found: EventType,
    },
    /// The kind of trace has no such events.
    #[error("a {} trace holds no `{}`", kind.as_str(), found.as_str())]
    NotInThisKind {
        /// The kind.
        kind: TraceKind,
        /// The event.
        found: EventType,
    },
    /// The role may not do this.
    #[error("`{}` is not for the role `{}`", event.as_str(), role.as_str())]
    NotForThisRole {
        /// The event.
        event: EventType,
        /// The role that tried.
        role: Role,
    },
    /// The trace is over.
    #[error("the trace has ended; `{}` may not follow", found.as_str())]
    Ended {
        /// What would follow.
        found: EventType,
    },
    /// A reference leads nowhere.
    #[error("`{}` refers to event {event_id} at {seq}, which is no open {wanted}", event.as_str())]
    NoSuchReference {
        /// What refers.
        event: EventType,
        /// The id that it names.
        event_id: String,
        /// The place that it names.
        seq: u64,
        /// What should be there.
        wanted: &'static str,
    },
    /// The payload lacks what the rules need.
    #[error("`{}` has no usable `{member}` in its payload", event.as_str())]
    UnusablePayload {
        /// The event.
        event: EventType,
        /// The member.
        member: &'static str,
    },
    /// A person was asked about the intent, and has not answered.
    #[error("the intent at {intent} waits for an answer")]
    IntentUndecided {
        /// Its place.
        intent: u64,
    },
    /// The intent was refused.
    #[error("the intent at {intent} was refused")]
    IntentBlocked {
        /// Its place.
        intent: u64,
    },
    /// A review does not say what the gate said.
    #[error("the review of the intent at {intent} says `{review}` where the gate said `{gate}`")]
    ReviewNotOfGate {
        /// The intent's place.
        intent: u64,
        /// What the review says.
        review: String,
        /// What the gate said.
        gate: String,
    },
    /// The gate decided on something else than the intent.
    #[error("the gate's request {request} is not what the intent at {intent} is about")]
    RequestOfAnother {
        /// The intent's place.
        intent: u64,
        /// What the gate decided on.
        request: String,
    },
    /// The verdict was used after its time.
    #[error("the verdict of the intent at {intent} expired at {expired}")]
    VerdictExpired {
        /// The intent's place.
        intent: u64,
        /// When it expired.
        expired: Timestamp,
    },
    /// Something is still under way.
    #[error("{count} executions are still under way, the first at {first}")]
    ExecutionsOpen {
        /// How many.
        count: usize,
        /// The place of the first.
        first: u64,
    },
    /// An action names another one as the last before it.
    #[error("the last receipt is {expected}, the action names {given} as its parent")]
    OtherParent {
        /// The last receipt.
        expected: String,
        /// The one that was given.
        given: String,
    },
    /// An action cannot stand in an event.
    #[error("the action cannot stand in an event")]
    ActionUnfit,
    /// No verdict covers an action, and its input was not stored.
    #[error("no verdict covers the action, and its input was not given")]
    InputNeeded,
    /// The key is known already.
    #[error("key {key_id} is in the log already")]
    KeyKnown {
        /// The key.
        key_id: String,
    },
    /// The key is not there or not active.
    #[error("no active key {key_id} in the log")]
    NoActiveKey {
        /// The key.
        key_id: String,
    },
    /// Only the root key may change keys.
    #[error("key events are signed by the root key {root}, not by {found}")]
    NotTheRoot {
        /// The root key.
        root: String,
        /// The key that tried.
        found: String,
    },
    /// The root signs key events only.
    #[error("`{}` is not for the root key", event.as_str())]
    NotForTheRoot {
        /// What it was to sign.
        event: EventType,
    },
    /// A log is named after its root.
    #[error("the log calls itself `{found}`, its root makes it `{wanted}`")]
    WrongOrigin {
        /// What it calls itself.
        found: String,
        /// What it is.
        wanted: String,
    },
    /// The root stays what the log began with.
    #[error("the root key {root} cannot be rotated or revoked: start a new workspace instead")]
    RootIsFixed {
        /// The root key.
        root: String,
    },
    /// The key that replaces another must be of the same agent.
    #[error("key {new} belongs to `{found}`, the one that it replaces to `{wanted}`")]
    OtherAgent {
        /// The new key.
        new: String,
        /// Its agent.
        found: String,
        /// The agent that it should be.
        wanted: String,
    },
    /// The chain of key events is broken.
    #[error("`{}` names {found} as the last key event, it is {wanted}", event.as_str())]
    KeysHeadDiffers {
        /// The event.
        event: EventType,
        /// What it names.
        found: String,
        /// What is right.
        wanted: String,
    },
    /// The trace is in the log already.
    #[error("trace {trace_id} is open in the log already")]
    TraceKnown {
        /// The trace.
        trace_id: String,
    },
    /// The trace is not open.
    #[error("trace {trace_id} is not open in the log")]
    TraceNotOpen {
        /// The trace.
        trace_id: String,
    },
    /// A trace was opened while keys were about to change.
    #[error("trace {trace_id} is open and not held")]
    TraceNotHeld {
        /// The trace.
        trace_id: String,
    },
    /// Keys changed between a trace's first event and its entry in the log.
    #[error("keys changed while trace {trace_id} was being opened")]
    KeysChanged {
        /// The trace.
        trace_id: String,
    },
    /// A checkpoint must say more than the one before.
    #[error("the log has trace {trace_id} at {known} events already, not only {found}")]
    NotLonger {
        /// The trace.
        trace_id: String,
        /// What the log has.
        known: u64,
        /// What was offered.
        found: u64,
    },
    /// An identity is not fit to be recorded.
    #[error("the identity of key {key_id} is not usable: {fault}")]
    UnusableIdentity {
        /// The key.
        key_id: String,
        /// What is wrong.
        fault: String,
    },
    /// No audit is under way.
    #[error("no verification run is under way")]
    NoAuditUnderWay,
    /// No final statement yet.
    #[error("there is no final statement to verify")]
    NoFinalStatement,
    /// An audit is under way already.
    #[error("a verification run is under way already")]
    AuditUnderWay,
    /// The session is not there yet, or past it.
    #[error("`{}` may not be recorded while the session is {state}", found.as_str())]
    NotInThisState {
        /// The event.
        found: EventType,
        /// Where the session stands.
        state: &'static str,
    },
    /// A session needs this role.
    #[error("`requested_roles` lacks `{}`", role.as_str())]
    RoleMissing {
        /// The role.
        role: Role,
    },
    /// Names of proposals are used once.
    #[error("a proposal `{proposal_id}` is in the session already")]
    ProposalKnown {
        /// The name.
        proposal_id: String,
    },
    /// The critic said no, for good.
    #[error("the proposal at {proposal} was rejected; a new one must revise it")]
    ProposalRejected {
        /// Its place.
        proposal: u64,
    },
    /// The critic has not spoken.
    #[error("the proposal at {proposal} was not approved")]
    ProposalUnreviewed {
        /// Its place.
        proposal: u64,
    },
    /// Conditions belong to conditional approvals, and only there.
    #[error("a review that says `{decision}` cannot have {listed} conditions, or they repeat")]
    ConditionsUnfit {
        /// The decision.
        decision: &'static str,
        /// How many conditions it lists.
        listed: usize,
    },
    /// A condition is not acknowledged.
    #[error(
        "the intent does not acknowledge the condition `{condition}` of the proposal at {proposal}"
    )]
    ConditionUnmet {
        /// The proposal's place.
        proposal: u64,
        /// The condition.
        condition: String,
    },
    /// The proposal did not ask for this tool.
    #[error("the proposal at {proposal} does not ask for the tool `{tool}`")]
    ToolNotProposed {
        /// The proposal's place.
        proposal: u64,
        /// The tool.
        tool: String,
    },
    /// What is named must be stored and described by the event.
    #[error("`{}` names {artifact} in `{member}`, but does not list it", event.as_str())]
    ArtifactUnlisted {
        /// The event.
        event: EventType,
        /// Where it is named.
        member: &'static str,
        /// What is named.
        artifact: Hash,
    },
    /// Only what failed can be retried or replaced.
    #[error("the execution at {execution} is none of this proposal that failed")]
    NotFailed {
        /// Where it began.
        execution: u64,
    },
    /// The task does not permit another try by other means.
    #[error("the policy of the session permits no fallbacks")]
    NoFallbacks,
    /// The same was started before, and nobody knows how it ended.
    #[error(
        "the execution at {execution} ran the same with unknown outcome; `retry_of` must name it"
    )]
    RetryUnnamed {
        /// Where it began.
        execution: u64,
    },
    /// A retry after an unknown outcome is for a person to permit.
    #[error(
        "how the execution at {execution} ended is not known; only an operator permits the intent at {intent} to repeat it"
    )]
    OutcomeUnknown {
        /// The intent's place.
        intent: u64,
        /// Where the execution began.
        execution: u64,
    },
    /// A person answers; it does not ask.
    #[error("an operator cannot leave the intent at {intent} to somebody else")]
    OperatorAsks {
        /// Its place.
        intent: u64,
    },
    /// The answer came after the deadline.
    #[error("the answer on the intent at {intent} had to come before {deadline}")]
    AnswerTooLate {
        /// Its place.
        intent: u64,
        /// The first moment at which it no longer counts.
        deadline: Timestamp,
    },
    /// A dangerous action needs an approval.
    #[error("the intent at {intent} is {} and was not approved", risk.as_str())]
    ApprovalMissing {
        /// Its place.
        intent: u64,
        /// How dangerous it is.
        risk: RiskClass,
    },
    /// What is about to run is not what was approved.
    #[error("the intent at {intent} is for the input {approved}, not for {found}")]
    OtherInput {
        /// Its place.
        intent: u64,
        /// What it is for.
        approved: Hash,
        /// What would run.
        found: Hash,
    },
    /// The task's limit.
    #[error("the session may start {limit} executions, and has")]
    TooManyCalls {
        /// The limit.
        limit: u64,
    },
    /// Ids of claims are used once.
    #[error("the claim {claim_id} is in the session already")]
    ClaimKnown {
        /// The claim.
        claim_id: String,
    },
    /// The envelope must name the claim.
    #[error("the event does not list the claim {claim_id} in `claims`")]
    ClaimUnlisted {
        /// The claim.
        claim_id: String,
    },
    /// Claims rest on executions.
    #[error("the claim {claim_id} names no execution that it rests on")]
    ClaimBaseless {
        /// The claim.
        claim_id: String,
    },
    /// Nothing that completed supports the claim.
    #[error("the claim {claim_id} rests on failed executions only, and is no `failure_analysis`")]
    ClaimOnFailure {
        /// The claim.
        claim_id: String,
    },
    /// Not enough evidence.
    #[error("the claim {claim_id} names {found} distinct artifacts, it needs {wanted}")]
    EvidenceTooThin {
        /// The claim.
        claim_id: String,
        /// How many it names.
        found: u64,
        /// How many it needs.
        wanted: u64,
    },
    /// Evidence from nowhere.
    #[error("the evidence {artifact} of the claim {claim_id} was not met before in this trace")]
    EvidenceUnmet {
        /// The claim.
        claim_id: String,
        /// The evidence.
        artifact: Hash,
    },
    /// No such claim, or no longer.
    #[error("no claim {claim_id} stands")]
    NoSuchClaim {
        /// The claim.
        claim_id: String,
    },
    /// Nothing was claimed.
    #[error("there is no claim to conclude with")]
    NoClaims,
    /// A challenge must be answered.
    #[error(
        "the claim {claim_id} was challenged, and the final statement does not say what became of it"
    )]
    ChallengeOpen {
        /// The claim.
        claim_id: String,
    },
    /// A resolution contradicts what happened.
    #[error("the claim {claim_id} cannot be called {status}")]
    ResolutionUnfit {
        /// The claim.
        claim_id: String,
        /// What it is called.
        status: &'static str,
    },
    /// The final statement is about the claims that stand.
    #[error(
        "the final statement must name exactly the {standing} claims that stand, in their order"
    )]
    OtherClaims {
        /// How many there are.
        standing: usize,
    },
    /// A person's yes was given to another call.
    #[error("the approval of the intent at {intent} was given to another call: it counts once")]
    ApprovalTaken {
        /// The intent that was approved.
        intent: u64,
    },
    /// Nobody waits for this answer.
    #[error("question {id} is not open: it was answered, or what asked it is over")]
    NotAsked {
        /// The question.
        id: String,
    },
    /// What an event says that it belongs to is not there.
    #[error("`{}` names event {event_id}, which is no {wanted}", event.as_str())]
    NoSuchEvent {
        /// What names it.
        event: EventType,
        /// The id that it names.
        event_id: String,
        /// What should be there.
        wanted: &'static str,
    },
    /// Nothing before it that it could belong to.
    #[error("there is no {wanted} that `{}` could belong to", event.as_str())]
    NothingToBelongTo {
        /// The event.
        event: EventType,
        /// What should be there.
        wanted: &'static str,
    },
    /// Too few take part.
    #[error("the session names {found} distinct roles, it needs {wanted}")]
    TooFewRoles {
        /// How many it names.
        found: usize,
        /// How many it needs.
        wanted: usize,
    },
    /// Nothing of what a tool was given, or gave, was kept.
    #[error("neither an input nor an output of the execution at {execution} is stored")]
    ExecutionWithoutArtifact {
        /// Where it began.
        execution: u64,
    },
    /// A claim has an id.
    #[error("neither `claims` nor the payload has the id of the claim")]
    ClaimUnnamed,
}
