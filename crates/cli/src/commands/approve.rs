//! `countersign approve`.

use std::io::{BufRead as _, IsTerminal, stdin};

use countersign_format::event::TraceKind;
use countersign_runtime::Workspace;
use countersign_runtime::keyring::Protection;
use countersign_runtime::questions::{PersonsAnswer, Question};
use serde_json::json;

use crate::place::explain;
use crate::questions::{describe, without_secrets};
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
    let answer = match (args.yes, args.no) {
        (true, _) => PersonsAnswer::Yes,
        (_, true) => PersonsAnswer::No,
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
    caller.output.hint("answer with `countersign approve QUESTION --yes` or `--no`");
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

fn ask(
    workspace: &Workspace,
    question: &Question,
    caller: &mut Caller,
) -> Result<PersonsAnswer, CommandError> {
    if !stdin().is_terminal() {
        return Err(CommandError::usage("neither `--yes` nor `--no` was given"));
    }
    for line in describe(question, workspace.now()) {
        caller.output.note(line);
    }
    caller.output.ask("may it run? [y/N] ");
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line);
    read.map_err(|error| CommandError::failed_doing("cannot read an answer", error))?;
    let yes = matches!(line.trim().to_lowercase().as_str(), "y" | "yes");
    Ok(if yes { PersonsAnswer::Yes } else { PersonsAnswer::No })
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
    workspace.answer(question, answer, reason.map(without_secrets).as_deref()).map_err(explain)?;
    let said = match (answer, question.kind) {
        (PersonsAnswer::No, TraceKind::Work) => "stays blocked, so nothing is recorded",
        (PersonsAnswer::Yes, _) => "approved",
        (PersonsAnswer::No, _) => "refused",
    };
    if caller.output.format() == Format::Json {
        caller.output.json(&json!({ "question": question.id, "answer": said }))?;
    } else {
        caller.output.success(format_args!("{said}: {}", question.title));
    }
    Ok(Exit::Done)
}
