//! Runs of a workflow.

use super::{LINKS, PIN, REF, table};
use crate::json::INTEGER_MAX;
use crate::shape::{Fields, Shape, opt, req};

const COUNT: Shape = Shape::Integer(1, INTEGER_MAX);

static APPLIED_FILE: Fields = table(
    "AppliedFile",
    "A file that was written, with its bytes before and after.",
    &[
        req("path", Shape::NonEmptyText),
        req("operation", Shape::OneOf(&["create", "update"])),
        req("before", Shape::Nullable(&Shape::Hash)),
        req("after", Shape::Hash),
    ],
);

static FILE_FACT: Fields = table(
    "FileFact",
    "A fact of a file, as it was when somebody looked.",
    &[
        req("path", Shape::NonEmptyText),
        opt("pointer", Shape::Text),
        req("exists", Shape::Bool),
        opt("value", Shape::Any),
        opt("missing", Shape::NonEmptyText),
    ],
);

const FACTS: Shape = Shape::List(&Shape::Object(&FILE_FACT));

pub(super) static FLOW_STARTED: Fields = table(
    "FlowStarted",
    "The first event of a run.",
    &[
        req("kind", Shape::OneOf(&["flow"])),
        req("workflow", Shape::NonEmptyText),
        req("feature_id", Shape::Nullable(&Shape::NonEmptyText)),
        req("definition_artifact", Shape::Hash),
        req("plan", Shape::MapOf(&Shape::Any)),
        req("log", PIN),
        LINKS,
    ],
);

pub(super) static STEP_DISPATCHED: Fields = table(
    "StepDispatched",
    "An agent was given its input envelope.",
    &[
        req("step", Shape::Name),
        req("iteration", COUNT),
        req("attempt", COUNT),
        req("envelope_artifact", Shape::Hash),
        req("time_seconds", COUNT),
        opt("interrupted", Shape::Bool),
        opt("facts", FACTS),
        opt("isolation", Shape::Any),
    ],
);

pub(super) static STEP_SKIPPED: Fields = table(
    "StepSkipped",
    "A step was left out: by these facts its condition does not hold.",
    &[req("step", Shape::Name), opt("facts", FACTS)],
);

pub(super) static STEP_ANSWERED: Fields = table(
    "StepAnswered",
    "What an agent answered, or how it failed to.",
    &[
        req("dispatch", REF),
        req("success", Shape::Bool),
        req("recommendation", Shape::OneOf(&["proceed", "retry", "escalate"])),
        req("answer_artifact", Shape::Hash),
        opt("summary", Shape::Text),
        opt("protocol_error", Shape::NonEmptyText),
        opt("files", Shape::List(&Shape::Object(&APPLIED_FILE))),
        opt("files_refused", Shape::NonEmptyText),
        opt("undeclared_changes", Shape::List(&Shape::NonEmptyText)),
        req("elapsed_ms", Shape::Integer(0, INTEGER_MAX)),
        opt("feature_id", Shape::NonEmptyText),
        LINKS,
    ],
);

pub(super) static FILES_APPLIED: Fields = table(
    "FilesApplied",
    "The files of an answer, written all or none.",
    &[
        req("answer", REF),
        req("files", Shape::List(&Shape::Object(&APPLIED_FILE))),
        opt("refused", Shape::NonEmptyText),
        opt("kept_artifacts", Shape::List(&Shape::Hash)),
    ],
);

pub(super) static STEP_ESCALATED: Fields = table(
    "StepEscalated",
    "A step waits for a person, or has reached its bound.",
    &[
        req("step", Shape::Name),
        req("reason", Shape::OneOf(&["approval", "escalated", "attempts", "iterations"])),
        req("question", Shape::NonEmptyText),
        opt("answers", Shape::Any),
        opt("default", Shape::Any),
        opt("deadline", Shape::Time),
        opt("remind_at", Shape::Time),
        opt("iteration", COUNT),
        opt("facts", FACTS),
    ],
);

pub(super) static FLOW_FINISHED: Fields = table(
    "FlowFinished",
    "How the run ended.",
    &[
        req("outcome", Shape::OneOf(&["completed", "exhausted", "failed", "aborted"])),
        req("summary", Shape::Text),
    ],
);

pub(super) static ANSWER_GIVEN: Fields = table(
    "AnswerGiven",
    "The answer to a question, or that its deadline passed.",
    &[
        req("question", REF),
        req("answer", Shape::Any),
        opt("reason", Shape::NonEmptyText),
        req(
            "channel",
            Shape::OneOf(&["protected-key", "unprotected-key", "client-prompt", "deadline"]),
        ),
    ],
);
