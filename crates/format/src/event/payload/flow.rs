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

pub(super) static FLOW_STARTED: Fields = table(
    "FlowStarted",
    "The first event of a run.",
    &[
        req("kind", Shape::OneOf(&["flow"])),
        req("workflow", Shape::NonEmptyText),
        req("feature_id", Shape::Nullable(&Shape::NonEmptyText)),
        req("definition_artifact", Shape::Hash),
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
    ],
);

pub(super) static STEP_ANSWERED: Fields = table(
    "StepAnswered",
    "What an agent answered, or how it failed to.",
    &[
        req("dispatch", REF),
        req("success", Shape::Bool),
        req("recommendation", Shape::OneOf(&["proceed", "retry", "escalate"])),
        req("answer_artifact", Shape::Hash),
        opt("protocol_error", Shape::NonEmptyText),
    ],
);

pub(super) static FILES_APPLIED: Fields = table(
    "FilesApplied",
    "The files of an answer, written all or none.",
    &[req("answer", REF), req("files", Shape::List(&Shape::Object(&APPLIED_FILE)))],
);

pub(super) static STEP_ESCALATED: Fields = table(
    "StepEscalated",
    "A step waits for a person.",
    &[req("step", Shape::Name), req("question", Shape::NonEmptyText), opt("deadline", Shape::Time)],
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
        req(
            "channel",
            Shape::OneOf(&["protected-key", "unprotected-key", "client-prompt", "deadline"]),
        ),
    ],
);
