//! Questions as a person reads them.

use countersign_format::event::TraceKind;
use countersign_format::time::Timestamp;
use countersign_gate::GateRequest;
use countersign_protocol::flow::AnswerForm;
use countersign_runtime::questions::{PersonsAnswer, Question};
use countersign_runtime::secrets::Redactor;
use countersign_runtime::tools::ToolCall;

/// A question in a few lines.
pub(crate) fn describe(question: &Question, now: Timestamp) -> Vec<String> {
    let mut lines = vec![
        format!("question {}", question.id),
        match question.risk.as_str() {
            "" => format!("  {}", question.title),
            risk => format!("  {} ({risk})", question.title),
        },
    ];
    match question.kind {
        TraceKind::Work => lines.push(format!("  blocked because: {}", question.justification)),
        TraceKind::Flow => {
            lines.extend(question.justification.lines().map(|line| format!("  {line}")));
        }
        _ => lines.push(format!("  wanted for: {}", question.justification)),
    }
    lines.extend(question.form.iter().map(|form| format!("  {}", forms(form))));
    lines.extend(question.call.iter().flat_map(details));
    lines.extend(question.request.iter().flat_map(request_details));
    if let Some(input) = &question.input {
        lines.push(format!("  all of it: countersign artifact show {input}"));
    }
    lines.extend(question.reasons.iter().map(|reason| format!("  asked because: {reason}")));
    if let Some(deadline) = question.deadline {
        let left = (deadline.as_millis() - now.as_millis()).max(0) / 1_000;
        let silence = match &question.default {
            Some(serde_json::Value::Bool(true)) => "yes".to_owned(),
            Some(serde_json::Value::String(word)) => word.clone(),
            Some(answer) => answer.to_string(),
            None => "no".to_owned(),
        };
        lines.push(format!("  without an answer within {}: {silence}", span(left)));
    }
    lines
}

/// A length of time in the two largest units that it has.
pub(crate) fn span(seconds: i64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// What can be answered.
fn forms(form: &AnswerForm) -> String {
    match form {
        AnswerForm::YesNo => "answer yes or no".to_owned(),
        AnswerForm::Text => "answer with a text".to_owned(),
        AnswerForm::Number => "answer with a number".to_owned(),
        AnswerForm::Choice(options) => format!("answer one of: {}", options.join(", ")),
        AnswerForm::Way => "an answer is given to the agent, which is asked again; yes goes on \
                            without it; no ends the step"
            .to_owned(),
    }
}

/// The prompt at which a person types an answer.
pub(crate) fn asking(question: &Question) -> &'static str {
    match &question.form {
        None => "may it run? [y/N] ",
        Some(AnswerForm::YesNo) => "yes or no? [y/n] ",
        Some(AnswerForm::Text | AnswerForm::Choice(_)) => "answer: ",
        Some(AnswerForm::Number) => "number: ",
        Some(AnswerForm::Way) => "answer for the agent, or y to go on, n to stop: ",
    }
}

/// The command that answers a question.
pub(crate) fn way_to_answer(question: &Question) -> String {
    let id = &question.id;
    match &question.form {
        None | Some(AnswerForm::YesNo) => {
            format!("answer with `countersign approve {id} --yes` or `--no`")
        }
        Some(AnswerForm::Way) => {
            format!("answer with `countersign approve {id} --answer TEXT`, `--yes` or `--no`")
        }
        Some(_) => format!("answer with `countersign approve {id} --answer ANSWER`"),
    }
}

/// What a person typed, as an answer; or why it is none, as the end of a sentence.
pub(crate) fn typed(question: &Question, line: &str) -> Result<PersonsAnswer, String> {
    let text = line.trim();
    let yes = matches!(text.to_lowercase().as_str(), "y" | "yes");
    let no = matches!(text.to_lowercase().as_str(), "n" | "no");
    let Some(form) = &question.form else {
        return Ok(if yes { PersonsAnswer::Yes } else { PersonsAnswer::No });
    };
    match form {
        AnswerForm::YesNo | AnswerForm::Way if yes => Ok(PersonsAnswer::Yes),
        AnswerForm::YesNo | AnswerForm::Way if no => Ok(PersonsAnswer::No),
        AnswerForm::YesNo => Err("must be yes or no".to_owned()),
        AnswerForm::Way if text.is_empty() => Err("must not be empty".to_owned()),
        AnswerForm::Way => Ok(PersonsAnswer::Said(without_secrets(text).into())),
        AnswerForm::Text | AnswerForm::Choice(_) | AnswerForm::Number => {
            let value = match (form, text.parse::<serde_json::Number>()) {
                (AnswerForm::Number, Ok(number)) => serde_json::Value::Number(number),
                _ => without_secrets(text).into(),
            };
            form.check(&value)?;
            Ok(PersonsAnswer::Said(value))
        }
    }
}

/// Characters of a text that are shown.
const SHOWN_CHARACTERS_MAX: usize = 300;

fn shown(what: &str, text: &str) -> String {
    let short: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("  {what} ({} bytes): {short}{more}", text.len())
}

/// What the title of an agent's request leaves out.
fn request_details(request: &GateRequest) -> Vec<String> {
    let mut lines = vec![format!("  with the tool {}", request.tool)];
    if request.command.is_some() && !request.paths.is_empty() {
        lines.push(format!("  files: {}", request.paths.join(", ")));
    }
    lines.extend(request.diff.iter().map(|diff| shown("change", diff)));
    lines.extend(request.content.iter().map(|content| shown("content", content)));
    lines
}

/// What the title of a call leaves out, and whoever permits it should see.
fn details(call: &ToolCall) -> Vec<String> {
    match call {
        ToolCall::Exec { cwd, env, stdin, .. } => {
            let mut lines: Vec<String> = cwd.iter().map(|dir| format!("  in {dir}")).collect();
            lines.extend(env.iter().map(|(name, value)| format!("  with {name}={value}")));
            lines.extend(stdin.iter().map(|text| shown("reading", text)));
            lines
        }
        ToolCall::FileWrite { content, .. } => vec![shown("content", content)],
        ToolCall::FileRead { .. } | ToolCall::FileDelete { .. } => Vec::new(),
    }
}

/// What a person says for the record, without the secrets of the environment.
pub(crate) fn without_secrets(reason: &str) -> String {
    Redactor::new(std::env::vars_os()).redact_text(reason).0
}
