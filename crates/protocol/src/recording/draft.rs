//! The events that commands bring. Whether they may follow is decided elsewhere.

use countersign_format::event::{ArtifactDescriptor, Draft, EventRef, EventType};
use countersign_format::report::VerificationStatus;
use countersign_format::role::Role;
use serde_json::{Map, Value, json};

use super::verdicts::{OpenIntent, tie};
use super::{GatedIntent, RecordedAction, RecordingCommand, RecordingState};
use crate::parts::{hashes, no_such_command, produced, produced_by, set};
use crate::receipts::{
    ActionEnd, GateStanding, Gating, IntendedAction, Parent, attach, output_hash,
};
use crate::{Act, By, Context, LogPin, Refusal, ReviewDecision, Stage};

/// The events that `command` brings.
pub(super) fn acts(
    state: &RecordingState,
    command: RecordingCommand,
    context: &Context,
) -> Result<Vec<Act>, Refusal> {
    use RecordingCommand as C;
    let draft = match command {
        C::Open { log, on_behalf_of, client, objective } => {
            open(&log, on_behalf_of, client, objective)
        }
        C::Gate(intent) => return gate(state, *intent, context),
        C::Answer { intent, decision, reasons, channel } => {
            let mut payload = json!({
                "subject": intent,
                "decision": decision,
                "reasons": reasons,
                "channel": channel,
            });
            refuse(state, &intent, decision, &mut payload, context)?;
            let draft = Draft::new(EventType::ToolIntentReviewed, payload);
            return Ok(vec![Act { by: By::Role(Role::Operator), draft }]);
        }
        C::Record(done) => return record(state, *done, context),
        C::Intend { tool_name, input_hash, safety_classification, justification, artifacts } => {
            let payload = json!({
                "tool_name": tool_name,
                "normalized_input_hash": input_hash,
                "safety_classification": safety_classification,
                "justification": justification,
            });
            Draft::new(EventType::ToolIntentSigned, with_behalf(state, payload))
                .with_artifacts(produced(artifacts, context))
        }
        C::Review { intent, decision, reasons } => {
            let mut payload =
                json!({ "subject": intent, "decision": decision, "reasons": reasons });
            refuse(state, &intent, decision, &mut payload, context)?;
            Draft::new(EventType::ToolIntentReviewed, payload)
        }
        C::Start { intent } => Draft::new(
            EventType::ToolExecutionStarted,
            with_behalf(state, json!({ "intent": intent })),
        ),
        C::Complete { execution, exit_status, artifacts } => {
            let end = Ended { success: true, ..Ended::new(artifacts) };
            let payload = json!({ "execution": execution, "exit_status": exit_status });
            ended(state, &execution, payload, end, context)?
        }
        C::Fail { execution, reason, exit_status, artifacts } => {
            let payload = json!({
                "execution": execution,
                "reason": reason,
                "outcome": "failed",
                "exit_status": exit_status,
            });
            ended(state, &execution, payload, Ended::new(artifacts), context)?
        }
        C::RecordArtifact { purpose, artifacts } => Draft::new(
            EventType::ArtifactRecorded,
            with_behalf(state, json!({ "purpose": purpose })),
        )
        .with_artifacts(produced(artifacts, context)),
        C::Redact { artifact_hash, reason } => {
            let payload = json!({ "artifact_hash": artifact_hash, "reason": reason });
            let draft = Draft::new(EventType::ArtifactRedacted, payload);
            return Ok(vec![Act { by: By::Role(Role::Auditor), draft }]);
        }
        C::Conclude { verdict } => return Ok(conclusion(state, &verdict)),
        C::CompleteAudit { status, report_id, report } => {
            audit(state, context, status, &report_id, *report)?
        }
        C::Abort { reason } => {
            let draft = Draft::new(EventType::SessionAborted, json!({ "reason": reason }));
            return Ok(vec![Act { by: By::Role(Role::Operator), draft }]);
        }
    };
    Ok(vec![Act::by_recorder(draft)])
}

fn open(
    log: &LogPin,
    on_behalf_of: Option<String>,
    client: Option<String>,
    objective: Option<String>,
) -> Draft {
    let mut payload = json!({ "kind": "recording", "log": log });
    // An agent that does not say what it is called is known by its program.
    let behalf = on_behalf_of.or_else(|| client.clone()).map(|agent_id| {
        let mut behalf = json!({ "agent_id": agent_id });
        set(&mut behalf, "client", client);
        behalf
    });
    set(&mut payload, "on_behalf_of", behalf);
    set(&mut payload, "objective", objective);
    Draft::new(EventType::SessionInitialized, payload)
}

/// The intent and the gate's review of it, in one step: nobody sees one without the other.
fn gate(
    state: &RecordingState,
    intent: GatedIntent,
    context: &Context,
) -> Result<Vec<Act>, Refusal> {
    let subject = context.reference(0);
    let request = intent.request.artifact_hash;
    let mut payload = json!({
        "tool_name": intent.tool_name,
        "action_type": intent.action_type.as_str(),
        "paths": intent.paths,
        "normalized_input_hash": request,
        "input_form": "canonical",
        "safety_classification": intent.risk,
        "justification": intent.description,
    });
    set(&mut payload, "redactions", (!intent.redactions.is_empty()).then_some(intent.redactions));
    let asked = Draft::new(EventType::ToolIntentSigned, with_behalf(state, payload))
        .with_artifacts(produced_by(0, vec![intent.request], context));
    let mut payload = json!({
        "subject": subject,
        "decision": intent.decision,
        "reasons": intent.reasons,
        "gate": intent.gate,
        "expires_at": intent.expires_at,
    });
    set(&mut payload, "deadline", intent.deadline);
    if intent.decision == ReviewDecision::Blocked {
        let action = IntendedAction {
            standing: Some(GateStanding {
                decision: "skip".to_owned(),
                score: intent.gate.score,
                enforced: intent.gate.enforced,
            }),
            ..intended(&asked)
        };
        attach(&mut payload, &state.receipts, action.refused(), context.now)?;
    }
    let known = |artifact: &ArtifactDescriptor| state.gate_basis.contains(&artifact.artifact_hash);
    let basis = intent.basis.into_iter().filter(|artifact| !known(artifact)).collect();
    let reviewed = Draft::new(EventType::ToolIntentReviewed, payload)
        .with_artifacts(produced_by(1, basis, context));
    Ok(vec![Act::by_recorder(asked), Act::by_recorder(reviewed)])
}

/// What an intent that is about to be recorded says of its action.
fn intended(draft: &Draft) -> IntendedAction {
    IntendedAction::from_payload(&draft.payload)
}

/// Gives a refused intent its receipt.
fn refuse(
    state: &RecordingState,
    intent: &EventRef,
    decision: ReviewDecision,
    payload: &mut Value,
    context: &Context,
) -> Result<(), Refusal> {
    match state.intents.get(&intent.seq) {
        Some(open) if decision == ReviewDecision::Blocked => {
            attach(payload, &state.receipts, open.action.refused(), context.now)
        }
        _ => Ok(()),
    }
}

/// What an agent did: with the verdict that covers it, or with an intent of its own.
fn record(
    state: &RecordingState,
    done: RecordedAction,
    context: &Context,
) -> Result<Vec<Act>, Refusal> {
    let tied = tie(&state.intents, &done, context.now);
    let verdict = tied.intent.and_then(|seq| state.intents.get(&seq).map(|open| (seq, open)));
    let covered = verdict.filter(|(_, open)| open.decision == Some(ReviewDecision::Approved));
    let mut acts = Vec::new();
    let (intent, action) = match covered {
        Some((seq, open)) => {
            (EventRef { event_id: open.event_id.clone(), seq }, open.action.clone())
        }
        None => {
            let despite = verdict.map(|(_, open)| open);
            let (draft, action) = own_intent(state, &done, despite, context)?;
            acts.push(Act::by_recorder(draft));
            (context.reference(0), action)
        }
    };
    let nth = acts.len() as u64;
    let mut payload = json!({ "intent": intent, "gating": tied.gating });
    set(&mut payload, "token_fault", tied.fault);
    let started = Draft::new(EventType::ToolExecutionStarted, with_behalf(state, payload));
    acts.push(Act::by_recorder(started));
    let execution = context.reference(nth);
    let mut metadata = Map::new();
    metadata.insert("reported_by".into(), json!("agent"));
    if let Some(fault) = tied.fault {
        metadata.insert("token_fault".into(), json!(fault));
    }
    let end = Ended {
        success: done.success,
        artifacts: done.output.into_iter().collect(),
        duration_ms: Some(done.duration_ms),
        gating: Some(tied.gating),
        metadata,
        parent: done.parent,
        nth: nth + 1,
    };
    let mut payload = match done.success {
        true => json!({ "execution": execution, "exit_status": 0 }),
        false => json!({
            "execution": execution,
            "reason": done.failure,
            "outcome": "failed",
            "exit_status": null,
        }),
    };
    set(&mut payload, "redactions", (!done.redactions.is_empty()).then_some(done.redactions));
    acts.push(Act::by_recorder(end_of(state, &action, payload, end, context)?));
    Ok(acts)
}

/// An intent for what was done without a verdict that permits it.
fn own_intent(
    state: &RecordingState,
    done: &RecordedAction,
    despite: Option<&OpenIntent>,
    context: &Context,
) -> Result<(Draft, IntendedAction), Refusal> {
    let input = done.input.clone().ok_or(Refusal::InputNeeded)?;
    let mut payload = json!({
        "tool_name": done.tool_name,
        "action_type": done.action_type.as_str(),
        "paths": done.paths,
        "normalized_input_hash": input.artifact_hash,
        "input_form": "canonical",
        "safety_classification": done.risk,
        "justification": done.description,
    });
    set(&mut payload, "despite", despite.and_then(|open| open.verdict.clone()));
    let draft = Draft::new(EventType::ToolIntentSigned, with_behalf(state, payload))
        .with_artifacts(produced_by(0, vec![input], context));
    let mut action = intended(&draft);
    // What was said stands beside what was done all the same.
    action.standing = despite.and_then(|open| open.action.standing.clone());
    Ok((draft, action))
}

/// How an execution ended.
struct Ended {
    success: bool,
    artifacts: Vec<ArtifactDescriptor>,
    duration_ms: Option<u64>,
    gating: Option<Gating>,
    metadata: Map<String, Value>,
    parent: Parent,
    /// Which event of the decision says so.
    nth: u64,
}

impl Ended {
    fn new(artifacts: Vec<ArtifactDescriptor>) -> Self {
        Self {
            success: false,
            artifacts,
            duration_ms: None,
            gating: None,
            metadata: Map::new(),
            parent: Parent::Last,
            nth: 0,
        }
    }
}

/// The end of an execution that is under way.
fn ended(
    state: &RecordingState,
    execution: &EventRef,
    payload: Value,
    mut end: Ended,
    context: &Context,
) -> Result<Draft, Refusal> {
    let event = match end.success {
        true => EventType::ToolExecutionCompleted,
        false => EventType::ToolExecutionFailed,
    };
    let open = state.executions.get(&execution.seq);
    let open = open.ok_or_else(|| no_such_command(event, execution, "execution"))?;
    end.gating = open.gating;
    end_of(state, &open.action, payload, end, context)
}

fn end_of(
    state: &RecordingState,
    action: &IntendedAction,
    mut payload: Value,
    end: Ended,
    context: &Context,
) -> Result<Draft, Refusal> {
    let event_type = match end.success {
        true => EventType::ToolExecutionCompleted,
        false => EventType::ToolExecutionFailed,
    };
    set(&mut payload, "output_artifacts", Some(hashes(&end.artifacts)));
    set(&mut payload, "elapsed_ms", end.duration_ms);
    let facts = action.facts(ActionEnd {
        output: output_hash(None, &end.artifacts),
        success: end.success,
        duration_ms: end.duration_ms.unwrap_or(0),
        gating: end.gating,
        metadata: end.metadata,
        parent: end.parent,
    });
    attach(&mut payload, &state.receipts, facts, context.now)?;
    Ok(Draft::new(event_type, with_behalf(state, payload)).with_artifacts(produced_by(
        end.nth,
        end.artifacts,
        context,
    )))
}

/// The final statement and the beginning of the audit, or what is still missing of them: a writer
/// may have died after either.
fn conclusion(state: &RecordingState, verdict: &str) -> Vec<Act> {
    let statement = json!({ "consolidated_claim_ids": [], "claims": [], "final_verdict": verdict });
    let statement = Act::by_recorder(Draft::new(EventType::FinalStatementSigned, statement));
    let run = Act::by_recorder(Draft::new(EventType::VerificationRunStarted, json!({})));
    match state.stage {
        Stage::Open | Stage::Ended => vec![statement, run],
        Stage::Concluded => vec![run],
        Stage::Auditing(_) => Vec::new(),
    }
}

fn audit(
    state: &RecordingState,
    context: &Context,
    status: VerificationStatus,
    report_id: &str,
    report: ArtifactDescriptor,
) -> Result<Draft, Refusal> {
    let Stage::Auditing(run) = &state.stage else { return Err(Refusal::NoAuditUnderWay) };
    let payload = json!({
        "run": run,
        "verification_status": status,
        "report_id": report_id,
        "report_artifact": report.artifact_hash,
    });
    Ok(Draft::new(EventType::VerificationRunCompleted, payload)
        .with_artifacts(produced(vec![report], context)))
}

fn with_behalf(state: &RecordingState, mut payload: Value) -> Value {
    let behalf = state.on_behalf_of.as_ref().map(|agent_id| json!({ "agent_id": agent_id }));
    set(&mut payload, "on_behalf_of", behalf);
    payload
}
