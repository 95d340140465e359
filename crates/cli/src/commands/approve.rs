//! `countersign approve`.

use std::io::{BufRead as _, IsTerminal, stdin};

use countersign_format::event::TraceKind;
use countersign_protocol::flow::AnswerForm;
use countersign_runtime::Workspace;
use countersign_runtime::keyring::Protection;
use countersign_runtime::questions::{PersonsAnswer, Question};
use serde_json::json;

use crate::place::explain;
use crate::questions::{asking, describe, typed, way_to_answer, without_secrets};
use crate::{Caller, CommandError, Exit, Format, passphrase};

/// Questions that wait for a person: list them, or answer one
#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    /// The question's id, or the beginning of it; without one, all questions are shown
    question: Option<String>,
    /// It may happen
    #[arg(long, conflicts_with = "no", requires = "question")]
    yes: bool,
    /// It may not
    #[arg(long, requires = "question")]
    no: bool,
    /// This, where more than yes or no can be answered
    #[arg(long, value_name = "ANSWER", requires = "question", conflicts_with_all = ["yes", "no"])]
    answer: Option<String>,
    /// Why, for the record
    #[arg(long, requires = "question")]
    reason: Option<String>,
}

pub(crate) fn run(args: &ApproveArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let (questions, unreadable) = workspace.questions().map_err(explain)?;
    for trace in &unreadable {
        caller
            .output
            .warning(format_args!("session {trace} cannot be read; its questions are left out"));
    }
    let Some(name) = &args.question else {
        return list(&workspace, &questions, caller);
    };
    let question = find(&questions, name)?;
    let answer = match (args.yes, args.no, &args.answer) {
        (true, ..) => PersonsAnswer::Yes,
        (_, true, _) => PersonsAnswer::No,
        (.., Some(answer)) => said(question, answer)?,
        _ => ask(&workspace, question, caller)?,
    };
    give(&workspace, question, answer, args.reason.as_deref(), caller)
}

fn list(
    workspace: &Workspace,
    questions: &[Question],
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    if caller.output.format() == Format::Json {
        caller.output.json(&questions)?;
        return Ok(Exit::Done);
    }
    if questions.is_empty() {
        caller.output.note("no question waits");
        return Ok(Exit::Done);
    }
    for question in questions {
        for line in describe(question, workspace.now()) {
            caller.output.line(line)?;
        }
        caller.output.line(format_args!("  trace {}", question.trace_id))?;
    }
    let said = questions.iter().any(|question| question.form.is_some());
    let more = if said { ", or `--answer ANSWER` where more can be said" } else { "" };
    caller
        .output
        .hint(format_args!("answer with `countersign approve QUESTION --yes` or `--no`{more}"));
    Ok(Exit::Done)
}

fn find<'q>(questions: &'q [Question], name: &str) -> Result<&'q Question, CommandError> {
    let matching: Vec<&Question> =
        questions.iter().filter(|question| question.id.starts_with(name)).collect();
    match matching.as_slice() {
        [one] => Ok(one),
        [] => Err(CommandError::no(format!("no question `{name}` waits for an answer"))
            .with_hint("run `countersign approve` to see those that do")),
        several => {
            Err(CommandError::failed(format!("`{name}` begins {} questions", several.len()))
                .with_details(several.iter().map(|question| question.id.clone())))
        }
    }
}

/// An answer to a question that takes more than yes or no.
fn said(question: &Question, answer: &str) -> Result<PersonsAnswer, CommandError> {
    if question.form.is_none() {
        return Err(CommandError::usage("this question is answered by yes or no")
            .with_hint(way_to_answer(question)));
    }
    // Every word is for the agent: whoever means to go on without it says `--yes`.
    if question.form == Some(AnswerForm::Way) && !answer.trim().is_empty() {
        return Ok(PersonsAnswer::Said(without_secrets(answer.trim()).into()));
    }
    typed(question, answer).map_err(|reason| {
        CommandError::no(format!("the answer {reason}")).with_hint(way_to_answer(question))
    })
}

fn ask(
    workspace: &Workspace,
    question: &Question,
    caller: &mut Caller,
) -> Result<PersonsAnswer, CommandError> {
    if !stdin().is_terminal() {
        return Err(CommandError::usage("neither `--yes` nor `--no` was given")
            .with_hint(way_to_answer(question)));
    }
    for line in describe(question, workspace.now()) {
        caller.output.note(line);
    }
    caller.output.ask(asking(question));
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line);
    read.map_err(|error| CommandError::failed_doing("cannot read an answer", error))?;
    typed(question, &line).map_err(|reason| CommandError::no(format!("the answer {reason}")))
}

fn give(
    workspace: &Workspace,
    question: &Question,
    answer: PersonsAnswer,
    reason: Option<&str>,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    if workspace.operator_protection().map_err(explain)? == Protection::Passphrase {
        let passphrase = passphrase::ask("passphrase of the operator's key")?;
        workspace.unlock_operator(&passphrase).map_err(explain)?;
    }
    let reason = reason.map(without_secrets);
    workspace
        .answer(question, answer.clone(), reason.as_deref())
        .map_err(|error| explain(error).with_hint(way_to_answer(question)))?;
    let said = match (answer, question.kind) {
        (_, TraceKind::Flow) => "answered",
        (PersonsAnswer::No, TraceKind::Work) => "stays blocked, so nothing is recorded",
        (PersonsAnswer::Yes, _) => "approved",
        (PersonsAnswer::No | PersonsAnswer::Said(_), _) => "refused",
    };
    if caller.output.format() == Format::Json {
        caller.output.json(&json!({ "question": question.id, "answer": said }))?;
    } else {
        caller.output.success(format_args!("{said}: {}", question.title));
    }
    Ok(Exit::Done)
}
