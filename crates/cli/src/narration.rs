//! Events as sentences: what happens in a session, for somebody who watches it happen.

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventType};
use countersign_format::hash::Hash;
use countersign_protocol::State as _;
use countersign_protocol::session::{Lifecycle, SessionState};
use countersign_runtime::Workspace;
use countersign_runtime::store::Blobs as _;
use countersign_runtime::tools::ToolCall;
use serde_json::Value;

/// Bytes of an input that are read to say what it is.
const INPUT_BYTES_MAX: u64 = 1 << 20;
/// Characters of one sentence.
const SENTENCE_CHARACTERS_MAX: usize = 160;

/// Tells the events of one session in order.
#[derive(Debug)]
pub(crate) struct Narrator {
    workspace: Workspace,
    state: SessionState,
    proposals: BTreeMap<u64, String>,
    calls: BTreeMap<u64, String>,
}

/// One event as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sentence {
    /// Where the session stands after it.
    pub(crate) lifecycle: Lifecycle,
    /// Whose event it is.
    pub(crate) role: &'static str,
    /// What happened.
    pub(crate) text: String,
}

impl Narrator {
    pub(crate) fn new(workspace: Workspace) -> Self {
        Self {
            workspace,
            state: SessionState::default(),
            proposals: BTreeMap::new(),
            calls: BTreeMap::new(),
        }
    }

    /// The tools that are running now.
    pub(crate) fn running(&self) -> Vec<&str> {
        let executions = self.state.executions.keys();
        executions.filter_map(|seq| self.calls.get(seq).map(String::as_str)).collect()
    }

    /// Where the session stands.
    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.state.lifecycle()
    }

    /// Takes in the next event and says what it means.
    pub(crate) fn tell(&mut self, event: &Event) -> Sentence {
        let text = self.sentence(event);
        self.state.apply(event);
        let short = match text.char_indices().nth(SENTENCE_CHARACTERS_MAX) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        };
        Sentence { lifecycle: self.state.lifecycle(), role: event.actor.role.as_str(), text: short }
    }

    fn sentence(&mut self, event: &Event) -> String {
        use EventType as T;
        let seq = event.seq.unwrap_or_default();
        match event.event_type {
            T::SessionInitialized => {
                format!("begins `{}`: {}", text(event, "task_id"), text(event, "objective"))
            }
            T::ProposalCreated => {
                let id = text(event, "proposal_id");
                self.proposals.insert(seq, id.to_owned());
                let instead = if event.payload.get("fallback_for").is_some() {
                    " as a fallback"
                } else if event.payload.get("revises").is_some() {
                    " as a revision"
                } else {
                    ""
                };
                format!("proposes `{id}`{instead}: {}", text(event, "objective"))
            }
            T::ProposalReviewed => self.proposal_review(event),
            T::ToolIntentSigned => {
                let title = self.title(event);
                let again = if event.payload.get("retry_of").is_some() { " again" } else { "" };
                let sentence =
                    format!("intends{again} {title} ({})", text(event, "safety_classification"));
                self.calls.insert(seq, title);
                sentence
            }
            T::ToolIntentReviewed => self.intent_review(event),
            T::ToolExecutionStarted => {
                let title = self.call(event, "intent");
                self.calls.insert(seq, title.clone());
                let level = event.payload.pointer("/isolation/level").and_then(Value::as_str);
                format!("runs {title} (isolation: {})", level.unwrap_or("unknown"))
            }
            T::ToolExecutionCompleted => {
                let status = event.payload.get("exit_status").and_then(Value::as_i64);
                let status = status.unwrap_or_default();
                let dropped = event.payload.get("dropped_bytes").and_then(Value::as_u64);
                let dropped = match dropped.unwrap_or_default() {
                    0 => String::new(),
                    bytes => format!(", {bytes} bytes of its output not kept"),
                };
                format!("done: {}, exit status {status}{dropped}", self.call(event, "execution"))
            }
            T::ToolExecutionFailed => {
                format!("failed: {}: {}", self.call(event, "execution"), text(event, "reason"))
            }
            T::ClaimIssued => {
                let evidence = event.payload.get("evidence_artifacts").and_then(Value::as_array);
                let count = evidence.map_or(0, Vec::len);
                let pieces = plural(count, "piece", "pieces");
                format!("claims: {} ({pieces} of evidence)", text(event, "claim_text"))
            }
            _ => ending_sentence(event),
        }
    }

    fn proposal_review(&self, event: &Event) -> String {
        let id = reference(event, "subject").and_then(|seq| self.proposals.get(&seq));
        let id = id.map(String::as_str).unwrap_or_default();
        match text(event, "decision") {
            "approved" => format!("approves `{id}`"),
            "conditional" => {
                let conditions = event.payload.get("conditions").and_then(Value::as_array);
                let count = conditions.map_or(0, Vec::len);
                format!("approves `{id}` under {}", plural(count, "condition", "conditions"))
            }
            _ => format!("rejects `{id}`: {}", text(event, "rationale")),
        }
    }

    fn intent_review(&self, event: &Event) -> String {
        let call = self.call(event, "subject");
        let reasons = event.payload.get("reasons").and_then(Value::as_array);
        let reasons: Vec<&str> = reasons.into_iter().flatten().filter_map(Value::as_str).collect();
        let reasons = reasons.join("; ");
        match text(event, "decision") {
            "approved" => format!("approves {call}"),
            "asked" => format!("asks a person about {call}: {reasons}"),
            _ => format!("blocks {call}: {reasons}"),
        }
    }

    fn call(&self, event: &Event, member: &str) -> String {
        let found = reference(event, member).and_then(|seq| self.calls.get(&seq));
        found.cloned().unwrap_or_default()
    }

    /// What an intent would run, from its stored input.
    fn title(&self, event: &Event) -> String {
        let hash: Option<Hash> = text(event, "normalized_input_hash").parse().ok();
        let bytes = hash.and_then(|hash| self.workspace.store().get(&hash, INPUT_BYTES_MAX).ok());
        let call = bytes.and_then(|bytes| serde_json::from_slice::<ToolCall>(&bytes).ok());
        call.map_or_else(|| text(event, "tool_name").to_owned(), |call| call.title())
    }
}

fn ending_sentence(event: &Event) -> String {
    use EventType as T;
    match event.event_type {
        T::ClaimChallenged => format!("doubts a claim: {}", text(event, "reason")),
        T::ArtifactRecorded => format!("keeps evidence: {}", text(event, "purpose")),
        T::FinalStatementSigned => format!("concludes: {}", text(event, "final_verdict")),
        T::VerificationRunStarted => "verifies the trace".to_owned(),
        T::VerificationRunCompleted => {
            format!("verdict: {}", text(event, "verification_status"))
        }
        T::SessionAborted => format!("aborts the session: {}", text(event, "reason")),
        T::SessionFailed => format!("the session cannot go on: {}", text(event, "reason")),
        T::SessionRecovered => "sets an unfinished line aside".to_owned(),
        other => other.as_str().to_owned(),
    }
}

/// A number of things, in words.
pub(crate) fn plural(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn text<'e>(event: &'e Event, name: &str) -> &'e str {
    event.payload.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn reference(event: &Event, name: &str) -> Option<u64> {
    event.payload.get(name)?.get("seq")?.as_u64()
}
