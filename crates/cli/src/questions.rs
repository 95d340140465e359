//! Questions as a person reads them.

use countersign_format::event::TraceKind;
use countersign_format::time::Timestamp;
use countersign_gate::GateRequest;
use countersign_runtime::questions::Question;
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
    lines.push(match question.kind {
        TraceKind::Work => format!("  blocked because: {}", question.justification),
        _ => format!("  wanted for: {}", question.justification),
    });
    lines.extend(question.call.iter().flat_map(details));
    lines.extend(question.request.iter().flat_map(request_details));
    if let Some(input) = &question.input {
        lines.push(format!("  all of it: countersign artifact show {input}"));
    }
    lines.extend(question.reasons.iter().map(|reason| format!("  asked because: {reason}")));
    if let Some(deadline) = question.deadline {
        let left = (deadline.as_millis() - now.as_millis()).max(0) / 1_000;
        lines.push(format!("  without an answer within {left} s: no"));
    }
    lines
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
