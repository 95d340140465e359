//! Questions that wait for a person.
//!
//! A question is not kept anywhere of its own: it is an intent in a trace about which a person was
//! asked, and its answer is the event that follows. Whoever waits for it watches the trace.

use countersign_format::event::{Event, EventRef, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_gate::GateRequest;
use countersign_protocol::flow::{AnswerForm, FlowRefusal, WayOut};
use countersign_protocol::recording::RecordingCommand;
use countersign_protocol::session::SessionCommand;
use countersign_protocol::{Refusal, ReviewDecision};
use serde::Serialize;
use serde_json::Value;

use crate::inspect::each_event;
use crate::keyring::Protection;
use crate::store::{Blobs as _, LedgerId};
use crate::tools::ToolCall;
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::{Recorded, WriteError};

/// Bytes of an input that are read to show what would run.
const INPUT_BYTES_MAX: u64 = 4 << 20;

/// Something that a person must decide.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Question {
    /// Its id: that of the event that waits.
    pub id: String,
    /// The trace that waits.
    pub trace_id: String,
    /// What waits.
    pub subject: EventRef,
    /// What would happen, in one line.
    pub title: String,
    /// How dangerous it is taken to be.
    pub risk: String,
    /// Why the agent wants it.
    pub justification: String,
    /// Why a person is asked.
    pub reasons: Vec<String>,
    /// The stored input.
    pub input: Option<Hash>,
    /// What would run, without its secrets, where a session's own tool would run it.
    pub call: Option<ToolCall>,
    /// What an outside agent wants to do, as it was put to the gate.
    pub request: Option<GateRequest>,
    /// What can be answered, where it is more than yes or no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<AnswerForm>,
    /// What counts if nobody answers, where that is not no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The kind of trace that waits.
    #[serde(skip)]
    pub kind: TraceKind,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// From when on an answer no longer counts; silence is a no.
    pub deadline: Option<Timestamp>,
}

/// What a person says.
#[derive(Debug, Clone, PartialEq)]
pub enum PersonsAnswer {
    /// It may happen.
    Yes,
    /// It may not.
    No,
    /// This, to a question of a flow.
    Said(Value),
}

impl Workspace {
    /// Every question that waits, the oldest first, and the sessions that could not be looked at.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn questions(&self) -> Result<(Vec<Question>, Vec<String>), WorkspaceError> {
        let open = self.open_traces()?;
        let mut questions = Vec::new();
        let mut unreadable = Vec::new();
        for (id, open) in open.into_iter().filter(|(_, open)| asks(open.kind)) {
            // One damaged trace must not silence the others.
            match id.parse().map(|id| self.questions_in(id, open.kind)) {
                Ok(Ok(found)) => questions.extend(found),
                _ => unreadable.push(id),
            }
        }
        let (blocked, not_read) = self.blocked_items()?;
        questions.extend(blocked);
        unreadable.extend(not_read);
        let now = self.now();
        questions.retain(|question| question.deadline.is_none_or(|deadline| now < deadline));
        questions.sort_by(|a, b| (a.asked_at, &a.id).cmp(&(b.asked_at, &b.id)));
        Ok((questions, unreadable))
    }

    /// The questions of one trace.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn questions_of(&self, id: Ulid) -> Result<Vec<Question>, WorkspaceError> {
        self.questions_in(id, self.kind_of(id)?)
    }

    fn questions_in(&self, id: Ulid, kind: TraceKind) -> Result<Vec<Question>, WorkspaceError> {
        if kind == TraceKind::Flow {
            return self.questions_of_flow(id);
        }
        let waiting: Vec<u64> = match kind {
            TraceKind::Recording => self.recording(id)?.look(|state| {
                let intents = state.intents.iter();
                let asked = intents.filter(|(_, it)| it.decision == Some(ReviewDecision::Asked));
                asked.map(|(&seq, _)| seq).collect()
            })?,
            _ => self.session(id)?.look(|state| {
                let asked = |review| matches!(review, Some((ReviewDecision::Asked, _)));
                let intents = state.intents.iter().filter(|(_, intent)| asked(intent.review));
                intents.map(|(&seq, _)| seq).collect()
            })?,
        };
        if waiting.is_empty() {
            return Ok(Vec::new());
        }
        let mut questions: Vec<Question> = Vec::new();
        let read = each_event(&self.trace_file(id), LedgerId::Trace(id), |event| {
            let seq = event.seq.unwrap_or_default();
            match event.event_type {
                EventType::ToolIntentSigned if waiting.contains(&seq) => {
                    questions.push(self.question(&event, kind));
                }
                EventType::ToolIntentReviewed => ask(&mut questions, &event),
                _ => {}
            }
        });
        let _ = read.map_err(|source| WorkspaceError::Io { doing: "read the trace", source })?;
        Ok(questions)
    }

    fn question(&self, intent: &Event, kind: TraceKind) -> Question {
        let text = |name: &str| {
            intent.payload.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let input: Option<Hash> = text("normalized_input_hash").parse().ok();
        let bytes = input.and_then(|hash| self.store().get(&hash, INPUT_BYTES_MAX).ok());
        let bytes = bytes.unwrap_or_default();
        let (call, request) = match kind {
            TraceKind::Recording => (None, GateRequest::from_bytes(&bytes).ok()),
            _ => (serde_json::from_slice::<ToolCall>(&bytes).ok(), None),
        };
        let title = match (&call, &request) {
            (Some(call), _) => call.title(),
            (None, Some(request)) => request_title(request),
            (None, None) => text("tool_name"),
        };
        Question {
            id: intent.event_id.clone(),
            trace_id: intent.trace_id.clone(),
            subject: EventRef {
                event_id: intent.event_id.clone(),
                seq: intent.seq.unwrap_or_default(),
            },
            title,
            risk: text("safety_classification"),
            justification: text("justification"),
            reasons: Vec::new(),
            input,
            call,
            request,
            form: None,
            default: None,
            kind,
            asked_at: intent.created_at,
            deadline: None,
        }
    }

    /// Answers a question. When it returns, the answer survives power loss.
    ///
    /// # Errors
    /// It was answered already, its time is over, or the answer could not be recorded.
    pub fn answer(
        &self,
        question: &Question,
        answer: PersonsAnswer,
        reason: Option<&str>,
    ) -> Result<Recorded, WorkspaceError> {
        let not_open = || WriteError::Refused(Refusal::NotAsked { id: question.id.clone() });
        let id: Ulid = question.trace_id.parse().map_err(|_| not_open())?;
        if let Some(form) = &question.form {
            let answered = self.answer_flow(id, question, in_form(form, answer), reason);
            return match answered {
                Err(WorkspaceError::Write(WriteError::Refused(Refusal::Flow(
                    FlowRefusal::NotOpen { .. },
                )))) => Err(not_open().into()),
                other => other,
            };
        }
        let (decision, said) = match answer {
            PersonsAnswer::Yes => (ReviewDecision::Approved, "a person approved it"),
            PersonsAnswer::No | PersonsAnswer::Said(_) => {
                (ReviewDecision::Blocked, "a person refused it")
            }
        };
        let reason = reason.map_or_else(|| said.to_owned(), countersign_format::text::to_nfc);
        if question.kind == TraceKind::Work {
            return match answer {
                PersonsAnswer::Yes => self.work(id)?.unblock_recorded(&reason),
                // It is blocked already, and stays so.
                _ => Ok(Recorded { events: Vec::new(), log_lag: None }),
            };
        }
        let channel = self.operator_channel()?.to_owned();
        let answered = match question.kind {
            TraceKind::Recording => self.recording(id)?.submit(RecordingCommand::Answer {
                intent: question.subject.clone(),
                decision,
                reasons: vec![reason],
                channel,
            }),
            _ => self.session(id)?.submit(SessionCommand::ReviewIntent {
                by: Role::Operator,
                subject: question.subject.clone(),
                decision,
                reasons: vec![reason],
                gate: None,
                deadline: None,
                channel: Some(channel),
                artifacts: Vec::new(),
            }),
        };
        match answered {
            Err(WriteError::Refused(
                Refusal::NoSuchReference { .. } | Refusal::IntentBlocked { .. },
            )) => Err(not_open().into()),
            other => Ok(other?),
        }
    }

    /// How the operator's key is kept, which is how an answer is given.
    pub(crate) fn operator_channel(&self) -> Result<&'static str, WorkspaceError> {
        Ok(match self.operator_protection()? {
            Protection::Passphrase => "protected-key",
            _ => "unprotected-key",
        })
    }
}

/// A person's words in the form that a flow wants.
fn in_form(form: &AnswerForm, answer: PersonsAnswer) -> Value {
    match (form, answer) {
        (AnswerForm::Way, PersonsAnswer::Yes) => WayOut::Continue {}.to_value(),
        (AnswerForm::Way, PersonsAnswer::No) => WayOut::Stop {}.to_value(),
        (AnswerForm::Way, PersonsAnswer::Said(answer)) => WayOut::Retry { answer }.to_value(),
        (_, PersonsAnswer::Yes) => Value::Bool(true),
        (_, PersonsAnswer::No) => Value::Bool(false),
        (_, PersonsAnswer::Said(answer)) => answer,
    }
}

/// Whether traces of this kind ask people about intents.
const fn asks(kind: TraceKind) -> bool {
    matches!(kind, TraceKind::Session | TraceKind::Recording | TraceKind::Flow)
}

/// What an outside agent wants to do, in one line.
fn request_title(request: &GateRequest) -> String {
    let what = request.command.clone().unwrap_or_else(|| request.paths.join(", "));
    let by = &request.agent;
    match what.is_empty() {
        true => format!("{by}: {} with {}", request.action_type.as_str(), request.tool),
        false => format!("{by}: {} {what}", request.action_type.as_str()),
    }
}

/// Notes why and until when a person was asked.
fn ask(questions: &mut [Question], review: &Event) {
    let member = |name: &str| review.payload.get(name).cloned().unwrap_or_default();
    let subject: Option<EventRef> = serde_json::from_value(member("subject")).ok();
    let question =
        questions.iter_mut().find(|question| Some(&question.subject) == subject.as_ref());
    if let (Some(question), Some("asked")) = (question, member("decision").as_str()) {
        question.reasons = serde_json::from_value(member("reasons")).unwrap_or_default();
        question.deadline = serde_json::from_value(member("deadline")).ok();
        question.asked_at = review.created_at;
    }
}
