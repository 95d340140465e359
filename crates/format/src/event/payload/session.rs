//! Sessions and recordings.

use super::{LINKS, PIN, REF, SIZE, table};
use crate::receipt::{AGENT_ACTION, ActionType};
use crate::risk::RiskClass;
use crate::shape::{Field, Fields, Shape, opt, req, req_1_1};

static ON_BEHALF_OF: Fields = table(
    "OnBehalfOf",
    "The outside agent for which the recorder writes, as it calls itself.",
    &[req("agent_id", Shape::NonEmptyText), opt("model", Shape::Text), opt("client", Shape::Text)],
);

static CONDITION: Fields = table(
    "Condition",
    "Something that an intent must acknowledge.",
    &[req("id", Shape::Name), req("text", Shape::NonEmptyText)],
);

static RESOLUTION: Fields = table(
    "ClaimResolution",
    "How a challenged claim ended.",
    &[
        req("claim_id", Shape::ClaimId),
        req("status", Shape::OneOf(&["upheld", "retracted", "superseded"])),
    ],
);

static PARTICIPANT: Fields = table(
    "Participant",
    "Who plays a role in a session, and by what it is driven.",
    &[
        req("role", Shape::OneOf(SESSION_ROLES)),
        req("agent_id", Shape::NonEmptyText),
        req("kind", Shape::OneOf(&["built-in", "command", "prompt"])),
        opt("command", TEXTS),
    ],
);

static LIMITS: Fields = table(
    "SessionLimits",
    "Bounds that the task sets.",
    &[
        opt("time_seconds", SIZE),
        opt("tool_calls", SIZE),
        opt("tool_seconds", SIZE),
        opt("output_bytes", SIZE),
        opt("memory_bytes", SIZE),
    ],
);

static POLICY: Fields = table(
    "SessionPolicy",
    "What the task permits and demands.",
    &[
        opt("fallbacks", Shape::Bool),
        opt("min_evidence", SIZE),
        opt("revisions", SIZE),
        opt("question_seconds", SIZE),
    ],
);

static REDACTION: Fields = table(
    "Redaction",
    "How often a rule replaced a secret before anything was stored.",
    &[req("rule", Shape::Name), req("count", SIZE)],
);

static GATE_RECORD: Fields = table(
    "GateRecord",
    "What the gate said of an action, and everything that it decided by.",
    &[
        req("decision", Shape::OneOf(&["allow", "ask", "deny"])),
        req("enforced", Shape::Bool),
        req("request", Shape::Hash),
        req("policy", Shape::Hash),
        opt("model", Shape::Hash),
        opt("score", Shape::Number),
        opt("cell", Shape::Integer(0, 1_023)),
        opt("reasons", TEXTS),
    ],
);

/// The four roles of a session's agents.
const SESSION_ROLES: &[&str] = &["planner", "executor", "critic", "auditor"];
const ONE_REDACTION: Shape = Shape::Object(&REDACTION);
const REDACTIONS: Field = opt("redactions", Shape::List(&ONE_REDACTION));
/// Which of the outputs is which, how much of them was not kept, and how long the tool ran.
const STDOUT: Field = opt("stdout", Shape::Hash);
const STDERR: Field = opt("stderr", Shape::Hash);
const DROPPED: Field = opt("dropped_bytes", SIZE);
const ELAPSED: Field = opt("elapsed_ms", SIZE);
const ACTION: Field = opt("action", Shape::Object(&AGENT_ACTION));
const RECEIPT: Field = opt("receipt_hash", Shape::Hash);
const BEHALF: Shape = Shape::Object(&ON_BEHALF_OF);
const HASHES: Shape = Shape::List(&Shape::Hash);
const TEXTS: Shape = Shape::List(&Shape::Text);

pub(super) static SESSION_INITIALIZED: Fields = table(
    "SessionInitialized",
    "The first event of a session or recording.",
    &[
        opt("kind", Shape::OneOf(&["session", "recording"])),
        opt("task_id", Shape::Name),
        opt("objective", Shape::Text),
        opt("policy_profile", Shape::Name),
        opt("requested_roles", Shape::List(&Shape::OneOf(SESSION_ROLES))),
        opt("participants", Shape::List(&Shape::Object(&PARTICIPANT))),
        opt("constraints", TEXTS),
        opt("task_artifact", Shape::Hash),
        opt("input_artifacts", HASHES),
        opt("limits", Shape::Object(&LIMITS)),
        opt("policy", Shape::Object(&POLICY)),
        REDACTIONS,
        opt("on_behalf_of", BEHALF),
        req_1_1("log", PIN),
        opt("software", Shape::Text),
        LINKS,
    ],
);

pub(super) static PROPOSAL_CREATED: Fields = table(
    "ProposalCreated",
    "A unit of work that the planner proposes.",
    &[
        req_1_1("objective", Shape::NonEmptyText),
        req_1_1("assumptions", TEXTS),
        req_1_1("required_tools", TEXTS),
        req_1_1("expected_evidence", TEXTS),
        opt("proposal_id", Shape::Name),
        opt("revises", REF),
        opt("fallback_for", REF),
    ],
);

pub(super) static PROPOSAL_REVIEWED: Fields = table(
    "ProposalReviewed",
    "The critic's judgement of a proposal.",
    &[
        req_1_1("subject", REF),
        req_1_1("decision", Shape::OneOf(&["approved", "conditional", "rejected"])),
        opt("conditions", Shape::List(&Shape::Object(&CONDITION))),
        opt("rationale", Shape::Text),
    ],
);

pub(super) static TOOL_INTENT_SIGNED: Fields = table(
    "ToolIntentSigned",
    "What is to be run, and why.",
    &[
        req("tool_name", Shape::NonEmptyText),
        req("normalized_input_hash", Shape::Hash),
        req("safety_classification", Shape::OneOf(&RiskClass::NAMES)),
        req_1_1("justification", Shape::Text),
        opt("action_type", Shape::OneOf(ActionType::NAMES)),
        opt("paths", TEXTS),
        opt("despite", REF),
        opt("input_form", Shape::OneOf(&["canonical", "raw"])),
        opt("input_artifact", Shape::Hash),
        opt("call_id", Shape::Text),
        opt("proposal", REF),
        opt("acknowledged_conditions", Shape::List(&Shape::Name)),
        opt("action_index", SIZE),
        opt("retry_of", REF),
        opt("idempotent", Shape::Bool),
        opt("input_binding", Shape::Hash),
        REDACTIONS,
        opt("on_behalf_of", BEHALF),
    ],
);

pub(super) static TOOL_INTENT_REVIEWED: Fields = table(
    "ToolIntentReviewed",
    "The judgement of an intent: the critic's, a person's or the gate's.",
    &[
        req("subject", REF),
        req("decision", Shape::OneOf(&["approved", "blocked", "asked"])),
        opt("reasons", TEXTS),
        opt("gate", Shape::Object(&GATE_RECORD)),
        opt("expires_at", Shape::Time),
        opt("deadline", Shape::Time),
        opt("channel", Shape::OneOf(&["protected-key", "unprotected-key", "client-prompt"])),
        ACTION,
        RECEIPT,
        opt("on_behalf_of", BEHALF),
    ],
);

pub(super) static TOOL_EXECUTION_STARTED: Fields = table(
    "ToolExecutionStarted",
    "A tool began to run.",
    &[
        req_1_1("intent", REF),
        opt("normalized_input_hash", Shape::Hash),
        opt("isolation", Shape::Any),
        opt("gating", Shape::OneOf(&["token", "inferred", "ungated"])),
        opt("token_fault", Shape::Text),
        opt("on_behalf_of", BEHALF),
    ],
);

pub(super) static TOOL_EXECUTION_COMPLETED: Fields = table(
    "ToolExecutionCompleted",
    "A tool ended well.",
    &[
        req_1_1("execution", REF),
        req("output_artifacts", HASHES),
        req("exit_status", Shape::Integer(-255, 255)),
        STDOUT,
        STDERR,
        DROPPED,
        ELAPSED,
        REDACTIONS,
        ACTION,
        RECEIPT,
        opt("on_behalf_of", BEHALF),
    ],
);

pub(super) static TOOL_EXECUTION_FAILED: Fields = table(
    "ToolExecutionFailed",
    "A tool ended otherwise, or nobody knows how.",
    &[
        req_1_1("execution", REF),
        req_1_1("reason", Shape::NonEmptyText),
        req_1_1("outcome", Shape::OneOf(&["failed", "unknown"])),
        opt("exit_status", Shape::Nullable(&Shape::Integer(-255, 255))),
        opt("output_artifacts", HASHES),
        STDOUT,
        STDERR,
        DROPPED,
        ELAPSED,
        REDACTIONS,
        ACTION,
        RECEIPT,
        opt("on_behalf_of", BEHALF),
    ],
);

pub(super) static ARTIFACT_RECORDED: Fields = table(
    "ArtifactRecorded",
    "Evidence that no tool produced.",
    &[opt("purpose", Shape::Text), opt("on_behalf_of", BEHALF)],
);

pub(super) static ARTIFACT_REDACTED: Fields = table(
    "ArtifactRedacted",
    "The bytes of an artifact were removed from the store.",
    &[
        req("artifact_hash", Shape::Hash),
        req("reason", Shape::NonEmptyText),
        opt("policy_tag", Shape::Name),
        opt("keys_head", Shape::Hash),
    ],
);

pub(super) static CLAIM_ISSUED: Fields = table(
    "ClaimIssued",
    "Something that the executor asserts, with evidence.",
    &[
        req_1_1("claim_id", Shape::ClaimId),
        req("claim_text", Shape::NonEmptyText),
        req("evidence_artifacts", HASHES),
        req_1_1("confidence", Shape::OneOf(&["low", "medium", "high"])),
        req_1_1("executions", Shape::List(&REF)),
        opt("claim_kind", Shape::OneOf(&["result", "failure_analysis"])),
        opt("supersedes", Shape::ClaimId),
    ],
);

pub(super) static CLAIM_CHALLENGED: Fields = table(
    "ClaimChallenged",
    "The critic's doubt about a claim.",
    &[
        req_1_1("claim", REF),
        req_1_1("challenged_claim_id", Shape::ClaimId),
        req_1_1("reason", Shape::NonEmptyText),
    ],
);

pub(super) static FINAL_STATEMENT_SIGNED: Fields = table(
    "FinalStatementSigned",
    "What is left standing of all claims.",
    &[
        req("consolidated_claim_ids", Shape::List(&Shape::ClaimId)),
        req("final_verdict", Shape::NonEmptyText),
        req_1_1("claims", Shape::List(&REF)),
        opt("claim_resolutions", Shape::List(&Shape::Object(&RESOLUTION))),
        opt("outcome", Shape::OneOf(&["achieved", "not-achieved"])),
    ],
);

pub(super) static VERIFICATION_RUN_STARTED: Fields = table(
    "VerificationRunStarted",
    "The auditor begins; its audit covers the events up to this one.",
    &[opt("policy_profile", Shape::Name)],
);

pub(super) static VERIFICATION_RUN_COMPLETED: Fields = table(
    "VerificationRunCompleted",
    "The auditor's verdict and where its report lies.",
    &[
        req_1_1("run", REF),
        req("verification_status", Shape::OneOf(&["pass", "pass-with-warnings", "fail"])),
        req_1_1("report_id", Shape::Ulid),
        req_1_1("report_artifact", Shape::Hash),
    ],
);

pub(super) static COVERAGE_REPORTED: Fields = table(
    "CoverageReported",
    "How much of what an agent did went through the recorder.",
    &[req("gaps", SIZE), req("report_artifact", Shape::Hash), opt("sources", TEXTS)],
);

pub(super) static SESSION_ABORTED: Fields =
    table("SessionAborted", "A person ended it.", &[req("reason", Shape::NonEmptyText)]);

pub(super) static SESSION_FAILED: Fields = table(
    "SessionFailed",
    "It cannot go on.",
    &[
        req("reason", Shape::NonEmptyText),
        opt("failure_code", Shape::Text),
        opt("role", Shape::OneOf(SESSION_ROLES)),
        REDACTIONS,
    ],
);

pub(super) static SESSION_RECOVERED: Fields = table(
    "SessionRecovered",
    "A writer found an unfinished line at the end and put its bytes aside.",
    &[
        req("reason", Shape::NonEmptyText),
        req("torn_bytes", SIZE),
        req("torn_hash", Shape::Hash),
        req("torn_file", Shape::StorePath),
        opt("keys_head", Shape::Hash),
    ],
);

pub(super) static TOOLS_LISTED: Fields = table(
    "ToolsListed",
    "The tools that a server offers.",
    &[
        req("server", Shape::NonEmptyText),
        req("tool_count", SIZE),
        req("tools_artifact", Shape::Hash),
        opt("changed", TEXTS),
        opt("on_behalf_of", BEHALF),
    ],
);
