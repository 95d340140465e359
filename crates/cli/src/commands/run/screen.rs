//! What a person sees while a session runs, and when it is over.

use std::time::{Duration, Instant};

use countersign_format::event::{Event, EventType};
use countersign_format::role::Role;
use countersign_format::trace_session::TraceStatus;
use countersign_runtime::Workspace;
use countersign_runtime::conduct::SessionResult;
use serde_json::Value;

use crate::narration::{Narrator, Sentence};
use crate::prompt::Prompt;
use crate::{Caller, CommandError, Format};

/// Long work shows itself after this time.
const STATUS_AFTER: Duration = Duration::from_millis(250);
/// Claims that the summary lists.
const CLAIMS_SHOWN: usize = 5;
/// Failures of an audit that are told.
const FAILURES_SHOWN: usize = 8;

pub(super) struct Screen {
    narrator: Narrator,
    prompt: Prompt,
    began: Instant,
    quiet_since: Instant,
    trace_id: Option<String>,
    task_id: String,
    events: u64,
    claims: Vec<(String, Option<String>)>,
}

impl Screen {
    pub(super) fn new(workspace: Workspace, prompt: Prompt) -> Self {
        let now = Instant::now();
        Self {
            narrator: Narrator::new(workspace),
            prompt,
            began: now,
            quiet_since: now,
            trace_id: None,
            task_id: String::new(),
            events: 0,
            claims: Vec::new(),
        }
    }

    /// Shows an event: as itself to a program, as a sentence to a person.
    pub(super) fn event(&mut self, event: &Event, caller: &mut Caller) -> Result<(), CommandError> {
        self.events += 1;
        self.note(event);
        let sentence = self.narrator.tell(event);
        self.prompt.leave_line(caller);
        self.prompt.note(event);
        if caller.output.format() == Format::Json {
            caller.output.json(event)?;
            caller.output.flush()?;
        } else {
            caller.output.clear_status();
            if event.event_type == EventType::SessionInitialized {
                caller.output.note(format_args!("session {}", event.trace_id));
            }
            caller.output.note(self.line(&sentence));
        }
        self.quiet_since = Instant::now();
        if self.prompt.is_open() {
            self.prompt.redraw(caller);
            return Ok(());
        }
        self.prompt.ask(caller)
    }

    fn note(&mut self, event: &Event) {
        let text = |name: &str| {
            event.payload.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match event.event_type {
            EventType::SessionInitialized => {
                self.trace_id = Some(event.trace_id.clone());
                self.task_id = text("task_id");
            }
            EventType::ClaimIssued => {
                // The first piece that says anything.
                let telling = event.artifacts.iter().find(|artifact| artifact.byte_size > 0);
                let evidence = telling.map(|artifact| artifact.artifact_hash.to_hex());
                self.claims.push((text("claim_text"), evidence));
            }
            _ => {}
        }
    }

    fn line(&self, sentence: &Sentence) -> String {
        let elapsed = self.began.elapsed().as_secs_f64();
        let (state, role) = (sentence.lifecycle.as_str(), sentence.role);
        format!("{elapsed:>7.2} s  {state:<11}  {role:<8}  {}", sentence.text)
    }

    pub(super) fn asking(&mut self, role: Role, action: &str, caller: &mut Caller) {
        if caller.output.format() == Format::Text {
            caller.output.clear_status();
            let sentence = Sentence {
                lifecycle: self.narrator.lifecycle(),
                role: role.as_str(),
                text: format!("is asked to {}", action.replace('_', " ")),
            };
            caller.output.note(self.line(&sentence));
        }
        self.quiet_since = Instant::now();
    }

    /// Shows that something is under way, and looks for an answer at the terminal.
    pub(super) fn tick(&mut self, caller: &mut Caller) -> Result<(), CommandError> {
        self.prompt.poll(caller)?;
        let quiet = self.quiet_since.elapsed();
        if quiet < STATUS_AFTER || self.prompt.is_open() {
            return Ok(());
        }
        let running = self.narrator.running();
        let what = match running.as_slice() {
            [] => "waiting".to_owned(),
            [one] => (*one).to_owned(),
            several => format!("{} tools", several.len()),
        };
        let state = self.narrator.lifecycle().as_str();
        let (all, since) = (self.began.elapsed().as_secs_f64(), quiet.as_secs());
        caller.output.status(format_args!("{all:>7.2} s  {state:<11}  … {what} ({since} s)"));
        Ok(())
    }

    pub(super) fn clear(&self, caller: &mut Caller) {
        caller.output.clear_status();
    }

    /// What a person reads in ten seconds, the verdict last.
    pub(super) fn summary(
        &self,
        result: &SessionResult,
        caller: &mut Caller,
    ) -> Result<(), CommandError> {
        let output = &mut caller.output;
        output.line("")?;
        output.line(format_args!("task      {}", self.task_id))?;
        for (at, (text, evidence)) in self.claims.iter().take(CLAIMS_SHOWN).enumerate() {
            let label = if at == 0 { "claims" } else { "" };
            output.line(format_args!("{label:<8}  {text}"))?;
            if let Some(evidence) = evidence {
                output.line(format_args!(
                    "{:<8}  evidence: countersign artifact show {evidence}",
                    ""
                ))?;
            }
        }
        if self.claims.len() > CLAIMS_SHOWN {
            output.line(format_args!(
                "{:<8}  and {} more",
                "",
                self.claims.len() - CLAIMS_SHOWN
            ))?;
        }
        if let Some(reason) = &result.reason {
            output.line(format_args!("reason    {reason}"))?;
        }
        let id = self.trace_id.as_deref().unwrap_or_default();
        output.line(format_args!("trace     {id}"))?;
        output.line(format_args!(
            "          {} events; check it: countersign verify {id}",
            self.events
        ))?;
        let audit = result.report.as_ref().map(|report| report.verification_status.as_str());
        let audit = audit.map_or_else(|| "no audit".to_owned(), |audit| format!("audit: {audit}"));
        output.line(format_args!("verdict   {} ({audit})", verdict(result)))
    }
}

fn verdict(result: &SessionResult) -> &'static str {
    match (result.status, &result.statement) {
        (TraceStatus::Succeeded, Some((true, _))) => "done: the objective was reached",
        (TraceStatus::Succeeded, _) => "not done: the objective was not reached",
        (TraceStatus::Aborted, _) => "aborted",
        (TraceStatus::Running, _) => "open: it can be resumed",
        _ => "failed",
    }
}

/// Says beside the answer why a session was not done. Its status alone tells nobody what to look at,
/// and what the audit found is otherwise only in the report that was stored.
pub(super) fn tell_why(result: &SessionResult, caller: &mut Caller) {
    let output = &mut caller.output;
    // A person reads it in the summary.
    if output.format() == Format::Json {
        let said = result.statement.as_ref().map(|(_, said)| said);
        let words = result.reason.as_ref().or(said).filter(|words| !words.is_empty());
        let words = words.map_or_else(String::new, |words| format!(": {words}"));
        output.note(format_args!("{}{words}", verdict(result)));
    }
    let failures = result.report.iter().flat_map(|report| &report.failures);
    for failure in failures.clone().take(FAILURES_SHOWN) {
        let event = failure.index.map_or_else(String::new, |index| format!(" at event {index}"));
        let code = failure.failure_code.as_str();
        output.note(format_args!("the audit found {code}{event}: {}", failure.message));
    }
    let more = failures.count().saturating_sub(FAILURES_SHOWN);
    if more > 0 {
        output.note(format_args!("and {more} more"));
    }
}
