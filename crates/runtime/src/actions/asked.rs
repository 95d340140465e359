//! An agent asks; the gate answers.

use std::sync::Arc;

use countersign_format::event::{ArtifactDescriptor, Event, EventRef};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_format::receipt::ActionType;
use countersign_format::time::Timestamp;
use countersign_gate::{Decision, GateRequest, Opinion};
use countersign_protocol::ReviewDecision;
use countersign_protocol::recording::{
    CLIENT_PROMPT, GatedIntent, OpenIntent, RecordingCommand, RecordingState, StoredInput,
};
use serde_json::{Value, json};

use super::{
    ActionRequest, AgentRuntime, Enforcement, GateAnswer, Inner, action_type, passing::GivenInput,
    passing::place, plain_paths, redactions,
};
use crate::gate::{LoadedGate, StoredGate};
use crate::recording::Recording;
use crate::secrets::Counts;
use crate::workspace::WorkspaceError;
use crate::writer::WriteError;
use countersign_protocol::Refusal;

/// Labels that are remembered for when their actions are recorded.
const LABELS_MAX: usize = 256;
/// The role in which outside agents act.
const ROLE: &str = "executor";
/// The agent that does not say what it is called.
const NAMELESS: &str = "agent";

impl AgentRuntime {
    /// Asks whether an action may run. When it returns, question and answer survive power loss.
    ///
    /// The same question, asked again while a person is still to answer it or after they have
    /// answered, gets that answer: nobody can ask until the gate says yes. A yes is given out once: whoever
    /// asks the same after that has a question of their own. So has a call that somebody is asked about
    /// where it is made.
    ///
    /// # Errors
    /// They could not be recorded.
    pub fn gate(&self, asked: &ActionRequest) -> Result<GateAnswer, WorkspaceError> {
        let mut counts = Counts::new();
        let request = Arc::new(self.request(asked, &mut counts));
        let bytes = request.to_bytes();
        let mut inner = self.lock();
        if let Some(current) = &inner.current {
            current.recording.refuse_unanswered(Some(self.workspace.now()))?;
        }
        let stored = self.gate_in_force(&mut inner)?;
        let model_loaded = stored.model.is_some();
        let gate = Arc::clone(&stored.loaded);
        let binding = match counts.is_empty() {
            true => None,
            // What a person agrees to is the request with its secrets, not whatever looks alike
            // without them.
            false => Some(self.bound(&mut inner, asked)?),
        };
        let call = asked.call_id.as_deref().filter(|_| !asked.begins).map(|id| self.clean(id));
        let same = SameRequest { hash: Hash::of(&bytes), binding, call };
        let mut formed = None;
        if let Some(standing) = self.standing(&inner, &same)? {
            let opinion = formed.insert(gate.gate.decide(&request));
            let (mut answer, intent) = standing.answer(&request, &same, opinion, model_loaded);
            match (asked.begins, answer.decision, intent) {
                (true, Decision::Allow, _) => {
                    answer.execution = Some(self.begin(&mut inner, &answer.token)?);
                    return Ok(answer);
                }
                (false, _, Some(intent)) => {
                    if tell(&inner, intent, same.call)? {
                        return Ok(answer);
                    }
                    // Another process was quicker: what was approved is another call.
                }
                _ => return Ok(answer),
            }
        }
        let input = asked.arguments.as_deref().map(|raw| self.input(raw, &mut counts));
        let keep = || self.keep_request(&bytes, input);
        let (opinion, kept) = match formed {
            Some(opinion) => (opinion, keep()),
            None => self.decide_while(gate, &request, keep),
        };
        let (stored, input) = kept?;
        let by = inner.gate.as_ref().ok_or_else(|| self.no_gate())?;
        let mut intent = self.intent(by, &request, stored, &opinion, &counts);
        intent.input = input;
        intent.call_id = asked.call_id.as_deref().map(|id| self.clean(id));
        intent.begins = asked.begins;
        intent.binding = binding;
        let (reasons, expires_at, deadline, review) =
            (intent.reasons.clone(), intent.expires_at, intent.deadline, intent.decision);
        let recorded = self.submit(&mut inner, &RecordingCommand::Gate(Box::new(intent)))?;
        let [asked_at, said, started @ ..] = recorded.events.as_slice() else {
            return Err(WorkspaceError::Write(WriteError::GivenUp {
                reason: "the gate's verdict was not recorded".to_owned(),
            }));
        };
        let decision = match review {
            ReviewDecision::Approved => Decision::Allow,
            ReviewDecision::Asked => Decision::Ask,
            ReviewDecision::Blocked => Decision::Deny,
        };
        let current = self.current(&mut inner)?;
        current.gates += 1;
        current.denials += u64::from(decision == Decision::Deny);
        current.labels.push((asked_at.event_id.clone(), opinion.label.clone()));
        if current.labels.len() > LABELS_MAX {
            current.labels.remove(0);
        }
        let answer = GateAnswer {
            trace_id: current.recording.id(),
            token: said.event_id.clone(),
            expires_at,
            action_type: request.action_type,
            decision,
            enforced: self.options.enforcement == Enforcement::Enforced,
            approved_by_person: false,
            execution: started.first().map(place),
            question: (decision == Decision::Ask).then(|| asked_at.event_id.clone()),
            question_deadline: deadline,
            reasons,
            model_loaded,
            opinion,
        };
        drop(inner);
        self.live.gated(self.workspace.now(), &request, &answer);
        Ok(answer)
    }

    /// What the gate thinks of a request, while something else is done.
    fn decide_while<T>(
        &self,
        gate: Arc<LoadedGate>,
        request: &Arc<GateRequest>,
        meanwhile: impl FnOnce() -> T,
    ) -> (Opinion, T) {
        match self.aside() {
            Some(aside) => {
                let request = Arc::clone(request);
                aside.both(move || gate.gate.decide(&request), meanwhile)
            }
            None => (gate.gate.decide(request), meanwhile()),
        }
    }

    /// What the agent asks, without secrets, in the words of the gate. The gate decides by exactly
    /// what is stored, so that it can decide again.
    pub(super) fn request(&self, asked: &ActionRequest, counts: &mut Counts) -> GateRequest {
        let kind = action_type(&asked.action_type);
        let tool = match (&asked.tool, kind) {
            (Some(tool), _) if !tool.trim().is_empty() => tool,
            // The agent's own word for what is not known must not be lost.
            (_, ActionType::Unknown) => &asked.action_type,
            _ => kind.as_str(),
        };
        let agent = self.options.agent.as_deref().unwrap_or(NAMELESS);
        let mut request = GateRequest::new(
            &self.clean_counting(agent, counts),
            ROLE,
            kind,
            &self.clean_counting(tool, counts),
        );
        request.description = self.clean_counting(&asked.description, counts);
        let files: Vec<String> =
            asked.files.iter().map(|file| self.clean_counting(file, counts)).collect();
        request.paths = plain_paths(&self.directory(), files.iter().map(String::as_str));
        let mut clean =
            |text: &Option<String>| text.as_ref().map(|text| self.clean_counting(text, counts));
        request.diff = clean(&asked.diff);
        request.command = clean(&asked.command);
        request.content = clean(&asked.content);
        request.held = clean(&asked.held);
        request.set_directory(&self.directory().to_string_lossy());
        request
    }

    /// Binds a request as it is before secrets are taken out of it.
    pub(super) fn bound(
        &self,
        inner: &mut Inner,
        asked: &ActionRequest,
    ) -> Result<Hash, WorkspaceError> {
        let raw = json!([
            asked.action_type,
            asked.description,
            asked.files,
            asked.diff,
            asked.tool,
            asked.command,
            asked.content,
            asked.held,
            asked.arguments.as_deref().map(Hash::of),
        ]);
        let trace = self.current(inner)?.recording.id();
        self.workspace.bind_input(trace, &json::to_bytes(&raw))
    }

    /// The directory that the workspace is of.
    pub(super) fn directory(&self) -> std::path::PathBuf {
        let home = self.workspace.home();
        let home = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
        home.parent().map_or(home.clone(), std::path::Path::to_owned)
    }

    /// Stores a request, and the arguments of the call where they are known.
    fn keep_request(
        &self,
        request: &[u8],
        input: Option<GivenInput<'_>>,
    ) -> Result<(ArtifactDescriptor, Option<StoredInput>), WorkspaceError> {
        let json = "application/json";
        Ok(match input {
            None => (self.workspace.put_artifact(request, json)?, None),
            Some(input) => {
                let both = [(request, json), (&*input.bytes, json)];
                let [request, arguments] = self.workspace.put_artifacts(both)?;
                (request, Some(input.stored(arguments)))
            }
        })
    }

    fn intent(
        &self,
        stored: &StoredGate,
        request: &GateRequest,
        artifact: ArtifactDescriptor,
        opinion: &Opinion,
        counts: &Counts,
    ) -> GatedIntent {
        let now = self.workspace.now();
        let said = opinion.verdict.decision();
        let enforced = self.options.enforcement == Enforcement::Enforced;
        let decision = match (said, enforced) {
            (_, false) | (Decision::Allow, true) => ReviewDecision::Approved,
            (Decision::Ask, true) => ReviewDecision::Asked,
            (Decision::Deny, true) => ReviewDecision::Blocked,
        };
        let after = |seconds: u64| {
            now.plus_millis(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000))
        };
        let asked = decision == ReviewDecision::Asked;
        let lasts = match asked {
            // Whoever is told yes at the last moment still has time to act.
            true => self.options.token_seconds.saturating_add(self.options.question_seconds),
            false => self.options.token_seconds,
        };
        GatedIntent {
            action_type: request.action_type,
            tool_name: request.tool.clone(),
            description: request.description.clone(),
            paths: request.paths.clone(),
            risk: opinion.risk,
            redactions: redactions(counts),
            decision,
            reasons: opinion.verdict.reasons().iter().map(ToString::to_string).collect(),
            gate: stored.record(opinion, artifact.artifact_hash, enforced),
            basis: stored.basis().cloned().collect(),
            request: artifact,
            input: None,
            call_id: None,
            begins: false,
            binding: None,
            expires_at: after(lasts),
            deadline: asked.then(|| after(self.options.question_seconds)),
        }
    }

    /// The same question as it stands already, if a person is concerned with it.
    fn standing(
        &self,
        inner: &Inner,
        same: &SameRequest,
    ) -> Result<Option<Standing>, WorkspaceError> {
        let Some(current) = &inner.current else { return Ok(None) };
        let now = self.workspace.now();
        let found = current.recording.look(|state| {
            let open = state.intents.iter();
            let open = open.filter(|(_, it)| same.is_of(it) && concerns_person(it, now));
            let open = open.filter(|(_, it)| !it.is_taken_from(same.call.as_deref()));
            // What was answered counts before what was not, and the last answer before the others.
            let open = open.max_by_key(|(seq, it)| (it.by_person, **seq));
            open.map(|(&seq, intent)| (seq, intent.clone()))
        })?;
        let trace_id = current.recording.id();
        Ok(found.map(|(seq, intent)| Standing { trace_id, now, seq, intent }))
    }

    /// Has a call begin under the yes that a person gave to its question. Says whether it may: a yes is
    /// given out once, and somebody else who asked the same may have it.
    ///
    /// # Errors
    /// It could not be recorded.
    pub fn take(&self, token: &str, call_id: Option<&str>) -> Result<bool, WorkspaceError> {
        let inner = self.lock();
        let Some(current) = &inner.current else { return Ok(false) };
        match intent_of(&current.recording, token)? {
            Some(intent) => tell(&inner, intent, call_id.map(|id| self.clean(id))),
            None => Ok(false),
        }
    }

    /// What a person said to the agent's own program when it asked them. The weakest of all
    /// channels: the record names it. If the same was approved elsewhere meanwhile, that is taken.
    ///
    /// # Errors
    /// Nobody was asked, or somebody else has the answer, or it could not be recorded.
    pub fn answer_from_client(&self, token: &str, yes: bool) -> Result<(), WorkspaceError> {
        let mut inner = self.lock();
        let not_open = || WriteError::Refused(Refusal::NotAsked { id: token.to_owned() });
        let current = inner.current.as_mut().ok_or_else(not_open)?;
        let intent = intent_of(&current.recording, token)?.ok_or_else(not_open)?;
        let decision = current.recording.look(|state| {
            let open = state.intents.get(&intent.seq);
            open.map(|open| (open.decision, open.call_id.clone()))
        })?;
        let command = match decision {
            Some((Some(ReviewDecision::Asked), _)) => RecordingCommand::Answer {
                intent,
                decision: if yes { ReviewDecision::Approved } else { ReviewDecision::Blocked },
                reasons: vec![match yes {
                    true => "a person approved it in the agent's program".to_owned(),
                    false => "a person refused it in the agent's program".to_owned(),
                }],
                channel: CLIENT_PROMPT.to_owned(),
            },
            Some((Some(ReviewDecision::Approved), call_id)) if yes => {
                RecordingCommand::AskAgain { intent, call_id }
            }
            _ => return Err(not_open().into()),
        };
        current.denials += u64::from(!yes);
        current.recording.submit(command)?;
        Ok(())
    }
}

/// A question with which a person is concerned, found at some time.
struct Standing {
    trace_id: Ulid,
    now: Timestamp,
    seq: u64,
    intent: OpenIntent,
}

impl Standing {
    /// The answer that it has; with the intent that it was given to, if the record does not say yet
    /// that this call was told.
    fn answer(
        self,
        request: &GateRequest,
        same: &SameRequest,
        opinion: &Opinion,
        model_loaded: bool,
    ) -> (GateAnswer, Option<EventRef>) {
        let Self { trace_id, now, seq, intent } = self;
        let untold = match intent.decision {
            Some(ReviewDecision::Approved) => intent.taken.is_none(),
            _ => same.call.is_some() && intent.call_id != same.call,
        };
        let untold = untold.then(|| EventRef { event_id: intent.event_id.clone(), seq });
        let (decision, reason) = match intent.decision {
            Some(ReviewDecision::Approved) => (Decision::Allow, "a person approved it"),
            Some(ReviewDecision::Blocked) => (Decision::Deny, "a person refused it"),
            _ => (Decision::Ask, "a person was asked and has not answered yet"),
        };
        let waits = decision == Decision::Ask;
        let answer = GateAnswer {
            trace_id,
            token: intent.token.unwrap_or_default(),
            expires_at: intent.expires_at.unwrap_or(now),
            action_type: request.action_type,
            decision,
            opinion: opinion.clone(),
            enforced: true,
            approved_by_person: decision == Decision::Allow,
            execution: None,
            question: waits.then_some(intent.event_id),
            question_deadline: intent.deadline.filter(|_| waits),
            reasons: vec![reason.to_owned()],
            model_loaded,
        };
        (answer, untold)
    }
}

/// Records that a call is told what a person answered. Says whether it was to be had.
fn tell(inner: &Inner, intent: EventRef, call_id: Option<String>) -> Result<bool, WorkspaceError> {
    let Some(current) = &inner.current else { return Ok(false) };
    match current.recording.submit(RecordingCommand::AskAgain { intent, call_id }) {
        Ok(_) => Ok(true),
        Err(WriteError::Refused(
            Refusal::ApprovalTaken { .. } | Refusal::NoSuchEvent { .. } | Refusal::Ended { .. },
        )) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The intent of an open verdict.
pub(super) fn intent_of(
    recording: &Recording,
    token: &str,
) -> Result<Option<EventRef>, WriteError> {
    recording.look(|state: &RecordingState| {
        let mut open = state.intents.iter();
        let open = open.find(|(_, intent)| intent.token.as_deref() == Some(token));
        open.map(|(&seq, intent)| EventRef { event_id: intent.event_id.clone(), seq })
    })
}

/// Whether a person is to answer, or has answered, and that still counts. Who was told no cannot ask
/// until somebody tires.
fn concerns_person(intent: &OpenIntent, now: Timestamp) -> bool {
    let lives = intent.expires_at.is_none_or(|end| now < end);
    match intent.decision {
        Some(ReviewDecision::Asked) => intent.deadline.is_none_or(|deadline| now < deadline),
        Some(_) => intent.by_person && lives,
        None => false,
    }
}

/// By what a request is known as one that was made before.
#[derive(Debug, Clone)]
struct SameRequest {
    hash: Hash,
    binding: Option<Hash>,
    /// The call, where a person is asked about each where it is made.
    call: Option<String>,
}

impl SameRequest {
    fn is_of(&self, intent: &OpenIntent) -> bool {
        let open = intent.decision == Some(ReviewDecision::Asked);
        let another = self.call.is_some() && intent.call_id != self.call;
        intent.request == Some(self.hash) && intent.binding == self.binding && !(open && another)
    }
}

/// A member of the `gate` record of a review.
pub(super) fn gate_member<'e>(review: &'e Event, name: &str) -> Option<&'e Value> {
    review.payload.get("gate")?.get(name)
}
