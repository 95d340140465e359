//! One event as one plain sentence, told from the event and what its subject is called.

use countersign_format::event::{Event, EventType};
use serde_json::Value;

/// Characters of one sentence.
const SENTENCE_CHARACTERS_MAX: usize = 160;

/// What `event` means. `called` is what the thing that it is about is called, where that is known.
pub(super) fn sentence(event: &Event, called: Option<&str>) -> String {
    let told = session(event, called.unwrap_or("an earlier action"));
    let told = told.or_else(|| work(event)).or_else(|| flow(event));
    let told = told.unwrap_or_else(|| event.event_type.as_str().replace('_', " "));
    match told.char_indices().nth(SENTENCE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", told.get(..end).unwrap_or_default()),
        None => told,
    }
}

fn text<'e>(event: &'e Event, name: &str) -> &'e str {
    event.payload.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn session(event: &Event, called: &str) -> Option<String> {
    use EventType as T;
    let text = |name: &str| text(event, name);
    Some(match event.event_type {
        T::SessionInitialized => match (text("task_id"), text("objective")) {
            ("", "") => "begins".to_owned(),
            ("", objective) => format!("begins: {objective}"),
            (task, objective) => format!("begins `{task}`: {objective}"),
        },
        T::ProposalCreated => format!("proposes {called}"),
        T::ProposalReviewed => match text("decision") {
            "rejected" => format!("rejects {called}: {}", text("rationale")),
            _ => format!("approves {called}"),
        },
        T::ToolIntentSigned => format!("intends {called} ({})", text("safety_classification")),
        T::ToolIntentReviewed => match text("decision") {
            "approved" => format!("approves {called}"),
            "asked" => format!("asks a person about {called}"),
            _ => format!("blocks {called}: {}", reasons(event)),
        },
        T::ToolExecutionStarted => format!("runs {called}"),
        T::ToolExecutionCompleted => {
            let status = event.payload.get("exit_status").and_then(Value::as_i64);
            format!("done: {called}, exit status {}", status.unwrap_or_default())
        }
        T::ToolExecutionFailed => format!("failed: {called}: {}", text("reason")),
        T::ArtifactRecorded => format!("keeps evidence: {}", text("purpose")),
        T::ArtifactRedacted => format!("removes an artifact: {}", text("reason")),
        T::ClaimIssued => format!("claims: {}", text("claim_text")),
        T::ClaimChallenged => format!("doubts a claim: {}", text("reason")),
        T::FinalStatementSigned => format!("concludes: {}", text("final_verdict")),
        T::VerificationRunStarted => "verifies the trace".to_owned(),
        T::VerificationRunCompleted => format!("verdict: {}", text("verification_status")),
        T::CoverageReported => {
            let gaps = event.payload.get("gaps").and_then(Value::as_u64).unwrap_or_default();
            format!("coverage compared: {gaps} gaps")
        }
        T::ToolsListed => format!("hears which tools {} has", text("server")),
        T::SessionAborted => format!("aborts the session: {}", text("reason")),
        T::SessionFailed => format!("the session cannot go on: {}", text("reason")),
        T::SessionRecovered => "sets an unfinished line aside".to_owned(),
        _ => return None,
    })
}

fn work(event: &Event) -> Option<String> {
    use EventType as T;
    let text = |name: &str| text(event, name);
    Some(match event.event_type {
        T::WorkOpened => format!("opens: {}", text("title")),
        T::LeaseGranted => format!("{} holds it in {}", text("holder"), text("phase")),
        T::LeaseRenewed => format!("held until {}", text("expires_at")),
        T::LeaseReleased => format!("free again: {}", text("reason")),
        T::AgentSessionCompleted => format!(
            "{} left {} with `{}`, goes to {}",
            text("actor_id"),
            text("phase_completed"),
            text("exit_reason"),
            text("next_phase")
        ),
        T::ExitRefused => format!("refuses an exit signal: {}", text("reason")),
        T::WorkUnblocked => format!("goes on in {}: {}", text("phase"), text("reason")),
        T::ClockConfirmed => format!("vouches for the clock: {}", text("reason")),
        _ => return None,
    })
}

fn flow(event: &Event) -> Option<String> {
    use EventType as T;
    let text = |name: &str| text(event, name);
    Some(match event.event_type {
        T::FlowStarted => format!("begins `{}`", text("workflow")),
        T::StepDispatched => format!("calls the agent of {}", text("step")),
        T::StepSkipped => format!("skips {}", text("step")),
        T::StepAnswered => {
            let success = event.payload.get("success").and_then(Value::as_bool) == Some(true);
            let how = if success { "succeeded" } else { "failed" };
            format!("an agent {how}: {}{}", text("protocol_error"), text("summary"))
        }
        T::FilesApplied => match event.payload.get("refused").and_then(Value::as_str) {
            Some(reason) => format!("writes nothing: {reason}"),
            None => {
                let files = event.payload.get("files").and_then(Value::as_array);
                format!("writes files: {}", files.map_or(0, Vec::len))
            }
        },
        T::StepEscalated => format!("asks a person in {}: {}", text("step"), text("question")),
        T::AnswerGiven => match text("channel") {
            "deadline" => "nobody answered in time".to_owned(),
            _ => "a person answered".to_owned(),
        },
        T::FlowFinished => format!("{}: {}", text("outcome"), text("summary")),
        _ => return None,
    })
}

fn reasons(event: &Event) -> String {
    let reasons = event.payload.get("reasons").and_then(Value::as_array);
    let reasons: Vec<&str> = reasons.into_iter().flatten().filter_map(Value::as_str).collect();
    reasons.join("; ")
}
