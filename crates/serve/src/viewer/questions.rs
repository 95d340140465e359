//! Questions that wait for a person, and the answer to one: all that this server ever changes.
//!
//! A protected key is unlocked for one answer, in a workspace that is opened for it alone: whoever
//! has the token cannot answer a second time without the passphrase.

use std::io;
use std::sync::PoisonError;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_protocol::flow::AnswerForm;
use countersign_runtime::keyring::{KeyringError, Protection};
use countersign_runtime::questions::{PersonsAnswer, Question};
use countersign_runtime::store::Blobs as _;
use countersign_runtime::{Environment, Workspace, WorkspaceError, WriteError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{ApiFailure, json as answer};
use super::asked::Asked;
use super::desk::Desk;
use super::traces::operator_key;

/// Bytes of an answer's body.
pub(super) const BODY_BYTES_MAX: usize = 64 << 10;
/// How long the next passphrase waits after a wrong one.
const WRONG_PASSPHRASE_WAIT: Duration = Duration::from_secs(1);
/// Characters of a reason.
const REASON_CHARACTERS_MAX: usize = 4_000;

/// What a person says, and how.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    decision: Decision,
    #[serde(default)]
    value: Option<Value>,
    /// What the question was when the person saw it.
    #[serde(default)]
    seen: Option<Hash>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    passphrase: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Yes,
    No,
    Say,
}

pub(super) fn list(desk: &Desk, _: &Asked) -> Result<Response, ApiFailure> {
    let (questions, unreadable) = desk.workspace.questions()?;
    Ok(answer(&json!({
        "operator_key": operator_key(&desk.workspace),
        "unreadable": unreadable,
        "items": questions.iter().map(|it| told(&desk.workspace, it)).collect::<Vec<_>>(),
    })))
}

fn told(workspace: &Workspace, question: &Question) -> Value {
    let mut members = shown(workspace, question);
    let seen = Hash::of(&json::to_bytes(&Value::Object(members.clone())));
    members.insert("seen".to_owned(), json!(seen));
    Value::Object(members)
}

/// Everything that a person decides by.
fn shown(workspace: &Workspace, question: &Question) -> Map<String, Value> {
    let mut members = match serde_json::to_value(question) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    members.insert("kind".to_owned(), json!(question.kind));
    members.insert("input_holds".to_owned(), json!(input_holds(workspace, question)));
    for absent in ["form", "default"] {
        members.entry(absent).or_insert(Value::Null);
    }
    members
}

/// Whether the stored input is the one that was asked about, where there is one.
fn input_holds(workspace: &Workspace, question: &Question) -> Option<bool> {
    let input = question.input?;
    Some(workspace.store().copy_to(&input, &mut io::sink()).is_ok())
}

/// Whether a person answers what is there: the question as it was seen, about an input that holds.
fn still_holds(workspace: &Workspace, question: &Question, said: &Said) -> Result<(), ApiFailure> {
    let now = Hash::of(&json::to_bytes(&Value::Object(shown(workspace, question))));
    if said.seen.is_some_and(|seen| seen != now) {
        return Err(ApiFailure::unusable("the question is no longer what was shown: look again"));
    }
    if said.decision != Decision::No && input_holds(workspace, question) == Some(false) {
        let message = "what is stored is not what was asked about, so it cannot be approved";
        return Err(ApiFailure::unusable(message));
    }
    Ok(())
}

pub(super) fn reply(desk: &Desk, asked: &Asked, body: &[u8]) -> Result<Response, ApiFailure> {
    let id = asked.id()?.to_string();
    let said: Said = serde_json::from_slice(body)
        .map_err(|error| ApiFailure::bad(format!("the body is no answer: {error}")))?;
    let reason = said.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    if reason.is_some_and(|reason| reason.chars().count() > REASON_CHARACTERS_MAX) {
        let message = format!("a reason has at most {REASON_CHARACTERS_MAX} characters");
        return Err(ApiFailure::bad(message));
    }
    // A workspace of its own: what is unlocked in it is forgotten with it.
    let workspace =
        Workspace::open(desk.workspace.config(), desk.workspace.home(), Environment::system())?;
    let (questions, _) = workspace.questions()?;
    let question = questions.iter().find(|question| question.id == id);
    let question = question.ok_or_else(|| {
        ApiFailure::missing(format!(
            "no question {id} waits: it was answered, its time is over, or it never was"
        ))
    })?;
    let words = in_form(question, &said, desk)?;
    still_holds(&workspace, question, &said)?;
    unlock(desk, &workspace, said.passphrase.as_deref())?;
    let channel = operator_key(&workspace);
    let reason = reason.map(|reason| desk.redactor.redact_text(reason).0);
    let recorded = workspace.answer(question, words, reason.as_deref()).map_err(explain)?;
    desk.workspace.store().wake();
    Ok(answer(&json!({
        "events": recorded.events.iter().map(|event| &event.event_id).collect::<Vec<_>>(),
        "channel": format!("{channel}-key"),
    })))
}

/// What was said, if it is an answer to this question.
fn in_form(question: &Question, said: &Said, desk: &Desk) -> Result<PersonsAnswer, ApiFailure> {
    let wrong = |why: &str| Err(ApiFailure::bad(format!("the answer {why}")));
    if said.value.is_some() != (said.decision == Decision::Say) {
        return wrong("has a `value` if and only if its decision is `say`");
    }
    let mut value = said.value.clone().unwrap_or_default();
    desk.redactor.redact_value(&mut value);
    match (&question.form, said.decision) {
        (None, Decision::Say) => wrong("must be yes or no"),
        (None | Some(AnswerForm::YesNo | AnswerForm::Way), Decision::Yes) => Ok(PersonsAnswer::Yes),
        (None | Some(AnswerForm::YesNo | AnswerForm::Way), Decision::No) => Ok(PersonsAnswer::No),
        (Some(_), Decision::Yes | Decision::No) => wrong("must be said: `decision` is `say`"),
        (Some(AnswerForm::Way), Decision::Say) => match value.as_str().map(str::trim) {
            Some(text) if !text.is_empty() => Ok(PersonsAnswer::Said(Value::from(text))),
            _ => wrong("must be a text for the agent"),
        },
        (Some(form), Decision::Say) => match form.check(&value) {
            Ok(()) => Ok(PersonsAnswer::Said(value)),
            Err(why) => wrong(&why),
        },
    }
}

fn unlock(desk: &Desk, workspace: &Workspace, passphrase: Option<&str>) -> Result<(), ApiFailure> {
    if workspace.operator_protection()? != Protection::Passphrase {
        return Ok(());
    }
    let Some(passphrase) = passphrase else {
        let message = "the operator's key is protected: the passphrase is needed";
        return Err(ApiFailure::new(StatusCode::FORBIDDEN, "passphrase_needed", message));
    };
    let _turn = desk.unlocking.lock().unwrap_or_else(PoisonError::into_inner);
    workspace.unlock_operator(passphrase).map_err(|error| match &error {
        WorkspaceError::Write(WriteError::Key { source, .. })
            if matches!(
                **source,
                KeyringError::WrongPassphrase | KeyringError::EmptyPassphrase
            ) =>
        {
            // Whoever guesses does so slowly.
            std::thread::sleep(WRONG_PASSPHRASE_WAIT);
            let message = "the passphrase is wrong";
            ApiFailure::new(StatusCode::FORBIDDEN, "wrong_passphrase", message)
        }
        _ => error.into(),
    })
}

/// A refusal is an answer: somebody else was faster, or its time is over.
fn explain(error: WorkspaceError) -> ApiFailure {
    match &error {
        WorkspaceError::Write(WriteError::Refused(_)) => {
            ApiFailure::unusable(crate::causes::whole(&error))
        }
        _ => error.into(),
    }
}
