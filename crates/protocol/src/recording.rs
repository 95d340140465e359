//! Recordings: what an outside agent did, as the recorder saw it.
//!
//! There are no proposals and no duty to claim. The state holds open intents and executions only,
//! so that it stays small however long the recording grows.

use std::collections::BTreeMap;

use countersign_format::event::{ArtifactDescriptor, Draft, Event, EventRef, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::report::VerificationStatus;
use countersign_format::role::Role;
use countersign_format::trace_session::TraceStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::parts::{hashes, no_such, produced, reference};
use crate::{Act, By, Context, LogPin, Refusal, ReviewDecision, Stage, State, ending, roles};

/// What can be asked of a recording.
#[derive(Debug, Clone)]
pub enum RecordingCommand {
    /// Begin.
    Open {
        /// Where the workspace log stands.
        log: LogPin,
        /// The agent, as it calls itself.
        on_behalf_of: Option<String>,
        /// What it is about.
        objective: Option<String>,
    },
    /// The agent means to use a tool.
    Intend {
        /// The tool.
        tool_name: String,
        /// Hash of its normalised input.
        input_hash: Hash,
        /// `low`, `standard`, `elevated` or `critical`.
        safety_classification: String,
        /// Why.
        justification: String,
        /// The stored input.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// An intent is judged.
    Review {
        /// The intent.
        intent: EventRef,
        /// Whether it may run.
        decision: ReviewDecision,
        /// Why.
        reasons: Vec<String>,
    },
    /// The tool of an intent begins.
    Start {
        /// The intent.
        intent: EventRef,
    },
    /// A tool ended well.
    Complete {
        /// Where it began.
        execution: EventRef,
        /// Its exit status.
        exit_status: i32,
        /// The stored output.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// A tool failed.
    Fail {
        /// Where it began.
        execution: EventRef,
        /// How.
        reason: String,
        /// Its exit status, if it is known.
        exit_status: Option<i32>,
        /// The stored output.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// Evidence that no tool produced.
    RecordArtifact {
        /// What it is for.
        purpose: String,
        /// The stored bytes.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// The bytes of an artifact are to go.
    Redact {
        /// The artifact.
        artifact_hash: Hash,
        /// Why.
        reason: String,
    },
    /// Nothing more will be recorded; the audit begins.
    Conclude {
        /// The last word.
        verdict: String,
    },
    /// The audit is done.
    CompleteAudit {
        /// Its verdict.
        status: VerificationStatus,
        /// The id of its report.
        report_id: String,
        /// The stored report.
        report: Box<ArtifactDescriptor>,
    },
    /// A person ends it.
    Abort {
        /// Why.
        reason: String,
    },
}

/// What the events of a recording come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingState {
    /// Whether it has begun.
    pub begun: bool,
    /// Whom the recorder writes for.
    pub on_behalf_of: Option<String>,
    /// Intents that have not started, by place.
    pub intents: BTreeMap<u64, OpenIntent>,
    /// Executions under way, by place: their id.
    pub executions: BTreeMap<u64, String>,
    /// The stage of its end.
    pub stage: Stage,
    /// How it ended. The first end stands, whatever another audit says later.
    pub ended: Option<TraceStatus>,
}

/// An intent that has not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenIntent {
    /// Its id.
    pub event_id: String,
    /// The last judgement.
    pub decision: Option<ReviewDecision>,
}

impl RecordingState {
    fn behalf(&self) -> Map<String, Value> {
        let mut members = Map::new();
        if let Some(agent_id) = &self.on_behalf_of {
            members.insert("on_behalf_of".into(), json!({ "agent_id": agent_id }));
        }
        members
    }

    fn with_behalf(&self, payload: Value) -> Value {
        let mut members = self.behalf();
        if let Value::Object(payload) = payload {
            members.extend(payload);
        }
        Value::Object(members)
    }

    fn intent(&self, event: &Event, member: &'static str) -> Result<(u64, &OpenIntent), Refusal> {
        let reference = reference(event, member)?;
        self.intents
            .get(&reference.seq)
            .filter(|intent| intent.event_id == reference.event_id)
            .map(|intent| (reference.seq, intent))
            .ok_or_else(|| no_such(event, &reference, "intent"))
    }

    fn admit_body(&self, event: &Event) -> Result<(), Refusal> {
        use EventType as T;
        match event.event_type {
            T::ToolIntentReviewed => self.intent(event, "subject").map(|_| ()),
            T::ToolExecutionStarted => {
                let (seq, intent) = self.intent(event, "intent")?;
                match intent.decision {
                    Some(ReviewDecision::Asked) => Err(Refusal::IntentUndecided { intent: seq }),
                    _ => Ok(()),
                }
            }
            T::ToolExecutionCompleted | T::ToolExecutionFailed => {
                let reference = reference(event, "execution")?;
                match self.executions.get(&reference.seq) {
                    Some(id) if *id == reference.event_id => Ok(()),
                    _ => Err(no_such(event, &reference, "execution")),
                }
            }
            T::FinalStatementSigned => match self.executions.keys().next() {
                None => Ok(()),
                Some(&first) => {
                    Err(Refusal::ExecutionsOpen { count: self.executions.len(), first })
                }
            },
            _ => Ok(()),
        }
    }

    /// What may still be recorded, by stage.
    fn admit_stage(&self, event: &Event) -> Result<(), Refusal> {
        use EventType as T;
        let found = event.event_type;
        let afterwards = matches!(found, T::ArtifactRedacted | T::SessionRecovered);
        match (&self.stage, found) {
            (Stage::Open, T::VerificationRunStarted) => Err(Refusal::NoFinalStatement),
            (Stage::Open | Stage::Concluded, T::VerificationRunCompleted) => {
                Err(Refusal::NoAuditUnderWay)
            }
            (Stage::Open, _) => Ok(()),
            (_, _) if afterwards => Ok(()),
            (
                Stage::Concluded,
                T::VerificationRunStarted | T::SessionAborted | T::SessionFailed,
            ) => Ok(()),
            (Stage::Auditing(run), T::VerificationRunCompleted) => {
                let named = reference(event, "run")?;
                if named == *run { Ok(()) } else { Err(no_such(event, &named, "run")) }
            }
            (Stage::Auditing(_), T::SessionFailed) => Ok(()),
            // Once it is over, only another audit, a coverage report or a redaction may follow.
            (Stage::Ended, T::VerificationRunStarted | T::CoverageReported) => Ok(()),
            _ => Err(Refusal::Ended { found }),
        }
    }
}

impl State for RecordingState {
    type Command = RecordingCommand;
    const VERSION: u32 = 1;

    fn decide(&self, command: RecordingCommand, context: &Context) -> Result<Vec<Act>, Refusal> {
        use RecordingCommand as C;
        let draft = match command {
            C::Open { log, on_behalf_of, objective } => open_draft(&log, on_behalf_of, objective),
            C::Intend {
                tool_name,
                input_hash,
                safety_classification,
                justification,
                artifacts,
            } => {
                let payload = self.with_behalf(json!({
                    "tool_name": tool_name,
                    "normalized_input_hash": input_hash,
                    "safety_classification": safety_classification,
                    "justification": justification,
                }));
                Draft::new(EventType::ToolIntentSigned, payload)
                    .with_artifacts(produced(artifacts, context))
            }
            C::Review { intent, decision, reasons } => Draft::new(
                EventType::ToolIntentReviewed,
                json!({ "subject": intent, "decision": decision, "reasons": reasons }),
            ),
            C::Start { intent } => Draft::new(
                EventType::ToolExecutionStarted,
                self.with_behalf(json!({ "intent": intent })),
            ),
            C::Complete { execution, exit_status, artifacts } => {
                let payload = self.with_behalf(json!({
                    "execution": execution,
                    "exit_status": exit_status,
                    "output_artifacts": hashes(&artifacts),
                }));
                Draft::new(EventType::ToolExecutionCompleted, payload)
                    .with_artifacts(produced(artifacts, context))
            }
            C::Fail { execution, reason, exit_status, artifacts } => {
                let payload = self.with_behalf(json!({
                    "execution": execution,
                    "reason": reason,
                    "outcome": "failed",
                    "exit_status": exit_status,
                    "output_artifacts": hashes(&artifacts),
                }));
                Draft::new(EventType::ToolExecutionFailed, payload)
                    .with_artifacts(produced(artifacts, context))
            }
            C::RecordArtifact { purpose, artifacts } => Draft::new(
                EventType::ArtifactRecorded,
                self.with_behalf(json!({ "purpose": purpose })),
            )
            .with_artifacts(produced(artifacts, context)),
            C::Redact { artifact_hash, reason } => {
                let payload = json!({ "artifact_hash": artifact_hash, "reason": reason });
                let draft = Draft::new(EventType::ArtifactRedacted, payload);
                return Ok(vec![Act { by: By::Role(Role::Auditor), draft }]);
            }
            C::Conclude { verdict } => return Ok(self.conclusion(&verdict)),
            C::CompleteAudit { status, report_id, report } => {
                self.audit_draft(context, status, &report_id, *report)?
            }
            C::Abort { reason } => {
                let draft = Draft::new(EventType::SessionAborted, json!({ "reason": reason }));
                return Ok(vec![Act { by: By::Role(Role::Operator), draft }]);
            }
        };
        Ok(vec![Act::by_recorder(draft)])
    }

    fn admit(&self, event: &Event) -> Result<(), Refusal> {
        let found = event.event_type;
        match (self.begun, found == EventType::SessionInitialized) {
            (false, false) => return Err(Refusal::WrongFirstEvent { found }),
            (true, true) => return Err(Refusal::BeganAlready { found }),
            _ => {}
        }
        roles::admit(TraceKind::Recording, event)?;
        self.admit_stage(event)?;
        self.admit_body(event)
    }

    fn apply(&mut self, event: &Event) {
        use EventType as T;
        let place = event.seq.unwrap_or_default();
        match event.event_type {
            T::SessionInitialized => {
                self.begun = true;
                let agent_id = event.payload.pointer("/on_behalf_of/agent_id");
                self.on_behalf_of = agent_id.and_then(Value::as_str).map(str::to_owned);
            }
            T::ToolIntentSigned => {
                let intent = OpenIntent { event_id: event.event_id.clone(), decision: None };
                self.intents.insert(place, intent);
            }
            T::ToolIntentReviewed => {
                let decision = event.payload.get("decision").cloned().unwrap_or_default();
                let decision = serde_json::from_value(decision).ok();
                let subject = reference(event, "subject").map(|subject| subject.seq);
                // A blocked intent is done with; it can no longer start.
                if let (Ok(subject), Some(ReviewDecision::Blocked)) = (&subject, decision) {
                    self.intents.remove(subject);
                } else if let Some(intent) = subject.ok().and_then(|at| self.intents.get_mut(&at)) {
                    intent.decision = decision;
                }
            }
            T::ToolExecutionStarted => {
                if let Ok(intent) = reference(event, "intent") {
                    self.intents.remove(&intent.seq);
                }
                self.executions.insert(place, event.event_id.clone());
            }
            T::ToolExecutionCompleted | T::ToolExecutionFailed => {
                if let Ok(execution) = reference(event, "execution") {
                    self.executions.remove(&execution.seq);
                }
            }
            T::FinalStatementSigned => self.stage = Stage::Concluded,
            T::VerificationRunStarted => {
                let run = EventRef { event_id: event.event_id.clone(), seq: place };
                self.stage = Stage::Auditing(run);
            }
            _ => {
                if let Some(status) = ending(TraceKind::Recording, event) {
                    self.stage = Stage::Ended;
                    self.ended = self.ended.or(Some(status));
                }
            }
        }
    }

    fn ended(&self) -> Option<TraceStatus> {
        self.ended
    }
}

impl RecordingState {
    /// The final statement and the beginning of the audit, or what is still missing of them: a
    /// writer may have died after either.
    fn conclusion(&self, verdict: &str) -> Vec<Act> {
        let statement =
            json!({ "consolidated_claim_ids": [], "claims": [], "final_verdict": verdict });
        let statement = Act::by_recorder(Draft::new(EventType::FinalStatementSigned, statement));
        let run = Act::by_recorder(Draft::new(EventType::VerificationRunStarted, json!({})));
        match self.stage {
            Stage::Open | Stage::Ended => vec![statement, run],
            Stage::Concluded => vec![run],
            Stage::Auditing(_) => Vec::new(),
        }
    }

    fn audit_draft(
        &self,
        context: &Context,
        status: VerificationStatus,
        report_id: &str,
        report: ArtifactDescriptor,
    ) -> Result<Draft, Refusal> {
        let Stage::Auditing(run) = &self.stage else { return Err(Refusal::NoAuditUnderWay) };
        let payload = json!({
            "run": run,
            "verification_status": status,
            "report_id": report_id,
            "report_artifact": report.artifact_hash,
        });
        Ok(Draft::new(EventType::VerificationRunCompleted, payload)
            .with_artifacts(produced(vec![report], context)))
    }
}

fn open_draft(log: &LogPin, on_behalf_of: Option<String>, objective: Option<String>) -> Draft {
    let mut payload = json!({ "kind": "recording", "log": log });
    if let Some(members) = payload.as_object_mut() {
        if let Some(agent_id) = on_behalf_of {
            members.insert("on_behalf_of".into(), json!({ "agent_id": agent_id }));
        }
        if let Some(objective) = objective {
            members.insert("objective".into(), json!(objective));
        }
    }
    Draft::new(EventType::SessionInitialized, payload)
}
