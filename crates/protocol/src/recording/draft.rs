//! The events that commands bring. Whether they may follow is decided elsewhere.

use countersign_format::event::{ArtifactDescriptor, Draft, EventRef, EventType};
use countersign_format::report::VerificationStatus;
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use serde_json::{Map, Value, json};

use super::verdicts::{OpenIntent, tie};
use super::{
    CallOutcome, EndedCall, GatedIntent, RecordedAction, RecordingCommand, RecordingState,
};
use crate::parts::{coverage, hashes, no_such_command, object, produced, produced_by, set};
use crate::receipts::{
    ActionEnd, DESCRIPTION_CHARS_MAX, GateStanding, Gating, IntendedAction, Parent, attach,
    output_hash,
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
        C::Open { log, on_behalf_of, client, objective, links } => {
            open(&log, on_behalf_of, client, objective, links)
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
        C::AskAgain { intent, call_id } => again(state, &intent, call_id)?,
        C::Record(done) => return record(state, *done, context),
        C::Intend { tool_name, input_hash, safety_classification, justification, artifacts } => {
            let payload = object([
                ("tool_name", tool_name.into()),
                ("normalized_input_hash", json!(input_hash)),
                ("safety_classification", safety_classification.into()),
                ("justification", justification.into()),
            ]);
            Draft::new(EventType::ToolIntentSigned, with_behalf(state, payload))
                .with_artifacts(produced(artifacts, context))
        }
        C::Review { intent, decision, reasons } => {
            let mut payload =
                json!({ "subject": intent, "decision": decision, "reasons": reasons });
            refuse(state, &intent, decision, &mut payload, context)?;
            Draft::new(EventType::ToolIntentReviewed, payload)
        }
        C::Start { intent } => {
            let open = state.intents.get(&intent.seq);
            let gated = open.is_some_and(|open| open.token.is_some());
            let mut payload = object([("intent", json!(intent))]);
            set(&mut payload, "gating", gated.then_some(Gating::Token));
            Draft::new(EventType::ToolExecutionStarted, with_behalf(state, payload))
        }
        C::Complete { execution, exit_status, artifacts } => {
            let end = Ended { success: true, ..Ended::new(artifacts) };
            let payload =
                object([("execution", json!(execution)), ("exit_status", json!(exit_status))]);
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
        C::End(call) => end_call(state, *call, context)?,
        C::ListTools { server, count, changed, list } => {
            let mut payload = json!({
                "server": server, "tool_count": count, "tools_artifact": list.artifact_hash,
            });
            set(&mut payload, "changed", (!changed.is_empty()).then_some(changed));
            Draft::new(EventType::ToolsListed, with_behalf(state, payload))
                .with_artifacts(produced(vec![*list], context))
        }
        C::ReportCoverage { gaps, sources, report } => coverage(gaps, sources, *report, context),
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
        C::Conclude { verdict, achieved } => return Ok(conclusion(state, &verdict, achieved)),
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
    links: Option<Value>,
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
    set(&mut payload, "links", links);
    Draft::new(EventType::SessionInitialized, payload)
}

/// The intent and the gate's review of it, in one step: nobody sees one without the other.
fn gate(
    state: &RecordingState,
    intent: GatedIntent,
    context: &Context,
) -> Result<Vec<Act>, Refusal> {
    let subject = context.reference(0);
    let input = intent.input.as_ref();
    let raw = input.is_some_and(|input| !input.canonical);
    let normalized = input.map_or(intent.request.artifact_hash, |input| input.normalized);
    let mut payload = object([
        ("tool_name", intent.tool_name.into()),
        ("action_type", json!(intent.action_type.as_str())),
        ("paths", intent.paths.into()),
        ("normalized_input_hash", json!(normalized)),
        ("input_form", json!(if raw { "raw" } else { "canonical" })),
        ("safety_classification", json!(intent.risk)),
        ("justification", intent.description.into()),
    ]);
    let stored = input.map(|input| input.artifact.artifact_hash);
    set(&mut payload, "input_artifact", stored.filter(|stored| *stored != normalized));
    set(&mut payload, "call_id", intent.call_id);
    set(&mut payload, "input_binding", intent.binding);
    set(&mut payload, "redactions", (!intent.redactions.is_empty()).then_some(intent.redactions));
    let inputs = std::iter::once(intent.request).chain(intent.input.map(|input| input.artifact));
    let inputs = inputs.collect();
    let asked = Draft::new(EventType::ToolIntentSigned, with_behalf(state, payload))
        .with_artifacts(produced_by(0, inputs, context));
    let mut payload = object([
        ("subject", json!(subject)),
        ("decision", json!(intent.decision)),
        ("reasons", intent.reasons.into()),
        ("gate", json!(intent.gate)),
        ("expires_at", json!(intent.expires_at)),
    ]);
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
    let mut acts = vec![Act::by_recorder(asked), Act::by_recorder(reviewed)];
    if intent.begins && intent.decision == ReviewDecision::Approved {
        let payload = json!({ "intent": context.reference(0), "gating": Gating::Token });
        let started = Draft::new(EventType::ToolExecutionStarted, with_behalf(state, payload));
        acts.push(Act::by_recorder(started));
    }
    Ok(acts)
}

/// What was asked for and answered before, told to a call.
fn again(
    state: &RecordingState,
    intent: &EventRef,
    call_id: Option<String>,
) -> Result<Draft, Refusal> {
    let event = EventType::ToolIntentSigned;
    let open = state.intents.get(&intent.seq);
    let open = open.ok_or_else(|| no_such_command(event, intent, "intent"))?;
    if open.is_taken_from(call_id.as_deref()) {
        return Err(Refusal::ApprovalTaken { intent: intent.seq });
    }
    let action = &open.action;
    let mut payload = json!({
        "tool_name": action.tool_name,
        "action_type": action.action_type,
        "paths": action.paths,
        "normalized_input_hash": open.input.unwrap_or(action.input),
        "safety_classification": RiskClass::Standard,
        "justification": action.description,
        "retry_of": intent,
    });
    set(&mut payload, "call_id", call_id);
    set(&mut payload, "input_binding", open.binding);
    Ok(Draft::new(event, with_behalf(state, payload)))
}

/// The end of a call that passed through the recorder: nobody has to be believed.
fn end_call(state: &RecordingState, call: EndedCall, context: &Context) -> Result<Draft, Refusal> {
    let mut payload = match &call.outcome {
        CallOutcome::Succeeded => json!({ "execution": call.execution, "exit_status": 0 }),
        CallOutcome::Failed { reason } | CallOutcome::Unknown { reason } => json!({
            "execution": call.execution,
            "reason": reason,
            "outcome": match call.outcome {
                CallOutcome::Unknown { .. } => "unknown",
                _ => "failed",
            },
            "exit_status": null,
        }),
    };
    set(&mut payload, "redactions", (!call.redactions.is_empty()).then_some(call.redactions));
    let end = Ended {
        success: call.outcome == CallOutcome::Succeeded,
        duration_ms: Some(call.duration_ms),
        ..Ended::new(call.output.into_iter().collect())
    };
    ended(state, &call.execution, payload, end, context)
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
    metadata.insert("reported_by".into(), json!(done.reporter.as_str()));
    if let Some(fault) = tied.fault {
        metadata.insert("token_fault".into(), json!(fault));
    }
    metadata.extend(reported(&action, &done));
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

/// What the reporter says in other words than the intent: a verdict does not hide them.
fn reported(action: &IntendedAction, done: &RecordedAction) -> Map<String, Value> {
    let description: String = done.description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    let mut words = Map::new();
    if description != action.description {
        words.insert("reported_description".into(), json!(description));
    }
    if done.tool_name != action.tool_name {
        words.insert("reported_tool".into(), json!(done.tool_name));
    }
    words
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
    set(&mut payload, "call_id", done.call_id.clone());
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
fn conclusion(state: &RecordingState, verdict: &str, achieved: Option<bool>) -> Vec<Act> {
    let mut statement =
        json!({ "consolidated_claim_ids": [], "claims": [], "final_verdict": verdict });
    let outcome = achieved.map(|achieved| if achieved { "achieved" } else { "not-achieved" });
    set(&mut statement, "outcome", outcome);
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
