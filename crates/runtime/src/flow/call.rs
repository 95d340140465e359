//! One call of an agent: what it is given, what becomes of its answer, and its files.

use std::time::{Duration, Instant, SystemTime};

use countersign_format::envelope::{InputEnvelope, Operation, OutputEnvelope};
use countersign_format::event::{ArtifactDescriptor, EventRef};
use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::path::WorkspacePath;
use countersign_format::receipt::ActionType;
use countersign_gate::{Decision, GateRequest};
use countersign_protocol::flow::{
    FileChange, FileFact, FlowCommand, FlowState, PatternReach, StepPhase, StepReturn, WritePattern,
};
use serde_json::{Value, json};

use super::file::{FlowAgentKind, StepOrder};
use super::files::{
    Aftermath, ApplyFailed, FileWish, PlannedFile, Reach, Seen, apply, plan, read_current,
};
use super::reply::{self, AgentReply, UNUSABLE};
use super::run::{FlowError, RunningFlow};
use super::sight::Sight;
use super::{STORED_BYTES_MAX, brief};
use crate::conduct::storable;
use crate::store::Blobs as _;
use crate::writer::lock;

const ENVELOPE_MEDIA: &str = "application/vnd.countersign.envelope.input+json";
const ANSWER_MEDIA: &str = "application/vnd.countersign.envelope.output+json";
const COMPLAINTS_MEDIA: &str = "text/plain";
const FILE_MEDIA: &str = "application/octet-stream";
/// Characters of a summary or a reason that an event repeats; the rest is in what was printed.
const TEXT_CHARACTERS_MAX: usize = 1_000;
/// Bytes of standard error that are kept.
const COMPLAINTS_BYTES_MAX: usize = 64 << 10;
/// Paths that an event lists.
const PATHS_MAX: usize = 100;

/// A call that was recorded as begun.
struct Begun {
    dispatch: EventRef,
    seconds: u64,
    input: Value,
    seen: Seen,
    /// Everything as it was, where the agent could have changed it.
    before: Option<Sight>,
    /// Whether an earlier call was cut off.
    interrupted: bool,
}

/// What an agent left behind.
pub(super) struct Left {
    pub(super) reply: AgentReply,
    pub(super) printed: Vec<u8>,
    pub(super) complaints: Vec<u8>,
    pub(super) elapsed: Duration,
    pub(super) links: Option<Value>,
}

impl RunningFlow {
    /// Does what is due for a step: calls its agent, or goes on applying its files.
    pub(super) fn carry_out(&self, at: usize, facts: Vec<FileFact>) -> Result<(), FlowError> {
        let state = self.trace.look(Clone::clone)?;
        if let Some(StepPhase::Applying { answer, files }) = state.phase(at) {
            return self.apply_files(at, answer, files);
        }
        let Some(order) = self.file.orders.get(at).and_then(Option::as_ref) else {
            return Err(FlowError::Damaged("a step without an agent was to be called".to_owned()));
        };
        let now = self.trace.workspace().now();
        if let Some(StepPhase::Running { dispatch, since, .. }) = state.phase(at)
            && !state.can_pay(at, now)
        {
            let millis = now.as_millis().saturating_sub(since.as_millis());
            return self.give_up(dispatch.clone(), u64::try_from(millis).unwrap_or_default());
        }
        let Some(begun) = self.dispatch(&state, at, order, facts)? else { return Ok(()) };
        let Some(left) = self.ask(&state, at, order, &begun)? else { return Ok(()) };
        if matches!(left.reply, AgentReply::Stopped) {
            // Not an answer: whoever resumes the flow calls it again.
            return Ok(());
        }
        let returned = self.returned(at, &begun, left)?;
        self.record(FlowCommand::Answer(Box::new(returned)))?;
        let state = self.trace.look(Clone::clone)?;
        match state.phase(at) {
            Some(StepPhase::Applying { answer, files }) => self.apply_files(at, answer, files),
            _ => Ok(()),
        }
    }

    /// Ends a call that was cut off, where the budget does not allow another.
    fn give_up(&self, dispatch: EventRef, elapsed_millis: u64) -> Result<(), FlowError> {
        let answer = self.trace.workspace().put_artifact(b"", ANSWER_MEDIA)?;
        let mut returned = StepReturn { elapsed_millis, ..unanswered(dispatch, answer) };
        let reason = "its call was cut off, and the budget does not allow another";
        returned.protocol_error = Some(reason.to_owned());
        self.record(FlowCommand::Answer(Box::new(returned)))?;
        Ok(())
    }

    /// Records that the agent is called. Nothing if it is not to be called after all.
    fn dispatch(
        &self,
        state: &FlowState,
        at: usize,
        order: &StepOrder,
        facts: Vec<FileFact>,
    ) -> Result<Option<Begun>, FlowError> {
        let input = self.input(state, at, order);
        let input = serde_json::to_value(input).unwrap_or_default();
        let workspace = self.trace.workspace();
        let envelope = workspace.put_artifact(&json::to_bytes(&input), ENVELOPE_MEDIA)?;
        let (Some(step), Some(agent)) = (state.route.step(at), state.route.agent(at)) else {
            return Ok(None);
        };
        let left = state.millis_left_for(at, workspace.now()).map_or(u64::MAX, |left| left / 1_000);
        let seconds = agent.time_seconds.min(left).max(1);
        let isolation = self.seats.get(&order.agent).map(|seat| seat.isolation());
        let isolation = isolation.and_then(Result::ok);
        let scopes = self.scopes(state, at);
        let seen = self.look(&|path| reach(&scopes, path))?;
        // A session, and an agent that nothing confines, can change files by themselves.
        let open = match (self.seats.get(&order.agent), &isolation) {
            (Some(seat), Some(isolation)) => seat.can_write(isolation),
            (Some(_), None) => true,
            (None, _) => self.kind(order) == Some(FlowAgentKind::Session),
        };
        let before = open.then(|| self.sight());
        let command = FlowCommand::Dispatch {
            step: step.id.clone(),
            envelope: Box::new(envelope),
            facts,
            seconds,
            isolation: isolation.map(|it| json!(it)),
        };
        if !self.record_call(command)? {
            return Ok(None);
        }
        let phase = self.trace.look(|state| state.phase(at).cloned())?;
        Ok(match phase {
            Some(StepPhase::Running { dispatch, seconds, .. }) => {
                let interrupted = matches!(state.phase(at), Some(StepPhase::Running { .. }));
                Some(Begun { dispatch, seconds, input, seen, before, interrupted })
            }
            _ => None,
        })
    }

    fn kind(&self, order: &StepOrder) -> Option<FlowAgentKind> {
        self.file.agents.get(&order.agent).map(|agent| agent.kind)
    }

    /// The input envelope of a step's next call, without secrets.
    pub(super) fn input(&self, state: &FlowState, at: usize, order: &StepOrder) -> InputEnvelope {
        let stored = |hash: &Hash| self.stored(hash);
        brief::without_secrets(brief::envelope(state, at, order, &stored), &self.redactor)
    }

    pub(super) fn stored(&self, hash: &Hash) -> Option<Vec<u8>> {
        self.trace.workspace().store().get(hash, STORED_BYTES_MAX).ok()
    }

    fn scopes(&self, state: &FlowState, at: usize) -> Vec<WritePattern> {
        let agent = state.route.agent(at);
        let patterns = agent.into_iter().flat_map(|agent| &agent.writes);
        patterns.map(|pattern| pattern.for_feature(state.feature_id.as_deref())).collect()
    }

    fn look(&self, reach: &dyn Fn(&str) -> Reach) -> Result<Seen, FlowError> {
        Seen::look(&self.root, reach, SystemTime::now()).map_err(|source| FlowError::Files {
            doing: "look at the files below",
            path: self.setting.root.clone(),
            source,
        })
    }

    fn ask(
        &self,
        state: &FlowState,
        at: usize,
        order: &StepOrder,
        begun: &Begun,
    ) -> Result<Option<Left>, FlowError> {
        let time = Duration::from_secs(begun.seconds);
        let began = Instant::now();
        match self.kind(order) {
            Some(FlowAgentKind::Session) => {
                self.run_session(state, at, order, (time, begun.interrupted))
            }
            Some(FlowAgentKind::BuiltIn) => {
                let printed = hand_on(&begun.input);
                Ok(Some(Left {
                    reply: reply::read_printed(&printed, false),
                    printed,
                    complaints: Vec::new(),
                    elapsed: began.elapsed(),
                    links: None,
                }))
            }
            _ => {
                let Some(seat) = self.seats.get(&order.agent) else {
                    let agent = &order.agent;
                    return Err(FlowError::Damaged(format!("there is no agent `{agent}`")));
                };
                let outcome = seat.call(&begun.input, time, &self.setting.stop);
                let reply = reply::read_reply(&outcome, seat.answers_among_text());
                Ok(Some(Left {
                    reply,
                    printed: outcome.stdout.bytes,
                    complaints: outcome.stderr.bytes,
                    elapsed: outcome.elapsed,
                    links: None,
                }))
            }
        }
    }

    /// What is recorded of an answer, with its files planned.
    fn returned(&self, at: usize, begun: &Begun, left: Left) -> Result<StepReturn, FlowError> {
        let workspace = self.trace.workspace();
        let printed = self.redactor.redact(&left.printed);
        let answer = workspace.put_artifact(&printed.bytes, ANSWER_MEDIA)?;
        let mut beside = Vec::new();
        if !left.complaints.is_empty() {
            let end = left.complaints.len().min(COMPLAINTS_BYTES_MAX);
            let kept = self.redactor.redact(left.complaints.get(..end).unwrap_or_default());
            beside.push(workspace.put_artifact(&kept.bytes, COMPLAINTS_MEDIA)?);
        }
        let mut returned = StepReturn {
            elapsed_millis: u64::try_from(left.elapsed.as_millis()).unwrap_or(u64::MAX),
            beside,
            links: left.links,
            ..unanswered(begun.dispatch.clone(), answer)
        };
        let envelope = match left.reply {
            AgentReply::Envelope(envelope) => envelope,
            AgentReply::Unusable(reason) => {
                let said = String::from_utf8_lossy(&left.complaints);
                let last = said.lines().rev().find(|line| !line.trim().is_empty());
                let reason = match last {
                    Some(last) => format!("{reason}; it said: {}", last.trim()),
                    None => reason,
                };
                returned.protocol_error = Some(self.clean(&reason));
                self.undeclared(at, begun, &mut returned)?;
                return Ok(returned);
            }
            AgentReply::Stopped => return Ok(returned),
        };
        returned.success = envelope.success;
        returned.recommendation = envelope.recommendation;
        returned.summary = self.clean(&envelope.summary);
        let state = self.trace.look(Clone::clone)?;
        let scaffold = state.route.agent(at).is_some_and(|agent| agent.scaffold);
        self.undeclared(at, begun, &mut returned)?;
        if scaffold && envelope.success && state.feature_id.is_none() {
            match reply::given_feature(&envelope) {
                Ok(feature) => returned.feature_id = Some(feature),
                Err(reason) => {
                    returned.protocol_error = Some(self.clean(&reason));
                    (returned.success, returned.recommendation) = UNUSABLE;
                    return Ok(returned);
                }
            }
        }
        if returned.undeclared.is_empty() && reply::wants_files(&envelope) {
            self.plan_files(&state, at, &envelope, begun, &mut returned)?;
        }
        Ok(returned)
    }

    fn sight(&self) -> Sight {
        let workspace = self.trace.workspace();
        Sight::look(&self.setting.root, &[workspace.home(), workspace.config()])
    }

    /// Notes files that changed although only the flow writes files. A session may change what its step
    /// may write.
    fn undeclared(
        &self,
        at: usize,
        begun: &Begun,
        returned: &mut StepReturn,
    ) -> Result<(), FlowError> {
        let Some(before) = &begun.before else { return Ok(()) };
        // Not while files of another step are half written.
        let _turn = lock(&self.writing);
        let after = self.sight();
        let state = self.trace.look(Clone::clone)?;
        let scopes = if returned.links.is_some() { self.scopes(&state, at) } else { Vec::new() };
        for path in before.differences(&after) {
            // What the flow itself wrote meanwhile, for a step beside this one, is as it left it.
            let ours = state.written.get(&path).map(|written| written.hash);
            let now = || {
                let path = WorkspacePath::parse(&path).ok()?;
                let bytes = read_current(&self.root, &path, STORED_BYTES_MAX).ok()??;
                Some(Hash::of(&bytes))
            };
            let declared = scopes.iter().any(|scope| scope.fits(&path));
            if declared || (ours.is_some() && now() == ours) {
                continue;
            }
            if returned.undeclared.len() < PATHS_MAX {
                returned.undeclared.push(self.clean(&path));
            }
        }
        Ok(())
    }

    /// Decides about the files of an answer: all of them are planned, or none, and why.
    fn plan_files(
        &self,
        state: &FlowState,
        at: usize,
        envelope: &OutputEnvelope,
        begun: &Begun,
        returned: &mut StepReturn,
    ) -> Result<(), FlowError> {
        let mut feature = state.clone();
        if feature.feature_id.is_none() {
            feature.feature_id.clone_from(&returned.feature_id);
        }
        let scopes = self.scopes(&feature, at);
        let named = state.route.agent(at).map_or(&[][..], |agent| agent.writes.as_slice());
        if let Err(reason) = self.admissible(at, envelope, named) {
            returned.files_refused = Some(self.clean(&reason));
            return Ok(());
        }
        let wishes: Vec<FileWish<'_>> = envelope
            .artifacts
            .iter()
            .map(|file| FileWish {
                path: &file.path,
                operation: file.operation,
                content: file.content.as_bytes(),
            })
            .collect();
        let within = |path: &str| scopes.iter().any(|scope| scope.fits(path));
        let own = |path: &str| {
            let written = state.written.get(path).filter(|written| written.step == at);
            written.map(|written| written.hash)
        };
        match plan(&self.root, &wishes, &within, &begun.seen, &own) {
            Ok(planned) => {
                for file in planned.iter().filter(|file| file.before != Some(file.after)) {
                    returned.beside.extend(self.keep_before(file)?);
                }
                returned.files = planned.iter().map(change).collect();
            }
            Err(refused) => returned.files_refused = Some(self.clean(&refused.to_string())),
        }
        Ok(())
    }

    /// Stores the bytes that a file has now, so that nothing is lost whatever comes.
    fn keep_before(&self, file: &PlannedFile) -> Result<Option<ArtifactDescriptor>, FlowError> {
        if file.before.is_none() {
            return Ok(None);
        }
        let bytes = read_current(&self.root, &file.path, STORED_BYTES_MAX).map_err(|source| {
            FlowError::Files { doing: "read the file", path: file.path.as_str().into(), source }
        })?;
        // What a person keeps in the file, with its secrets, is not stored.
        let clean = |bytes: &Vec<u8>| self.redactor.redact(bytes).counts.is_empty();
        match bytes.filter(clean) {
            Some(bytes) => Ok(Some(self.trace.workspace().put_artifact(&bytes, FILE_MEDIA)?)),
            None => Ok(None),
        }
    }

    /// Whether files may be written at all: without secrets, and as the gate says.
    fn admissible(
        &self,
        at: usize,
        envelope: &OutputEnvelope,
        named: &[WritePattern],
    ) -> Result<(), String> {
        let order = self.file.orders.get(at).and_then(Option::as_ref);
        let agent = order.map_or("agent", |order| order.agent.as_str());
        for file in &envelope.artifacts {
            let found = self.redactor.redact(file.content.as_bytes());
            if let Some((rule, _)) = found.counts.iter().next() {
                return Err(format!(
                    "`{}`: it holds a secret ({rule}), which would be stored with the trace",
                    file.path
                ));
            }
            let mut request =
                GateRequest::new(agent, "executor", ActionType::FileWrite, "file_write");
            request.paths = vec![file.path.as_str().to_owned()];
            let verdict = self.gate.gate.decide(&request).verdict;
            // Whoever wrote the flow is a person, and named this very file.
            let named = named.iter().any(|pattern| pattern.as_str() == file.path.as_str());
            let stands = match verdict.decision() {
                Decision::Allow => false,
                Decision::Ask => !named,
                Decision::Deny => true,
            };
            if stands {
                let why: Vec<String> = verdict.deciding().map(ToString::to_string).collect();
                let why = why.join("; ");
                let path = &file.path;
                return Err(match verdict.decision() {
                    Decision::Ask => {
                        format!("`{path}`: {why}; name this very file in `writes` to permit it")
                    }
                    _ => format!("`{path}`: {why}"),
                });
            }
        }
        Ok(())
    }

    /// Writes the files of a recorded answer, and records that, or that none was written.
    fn apply_files(
        &self,
        at: usize,
        answer: &EventRef,
        files: &[FileChange],
    ) -> Result<(), FlowError> {
        let artifact = self.trace.look(|state| {
            state.steps.get(at).and_then(|step| step.said.as_ref()).and_then(|said| said.artifact)
        })?;
        let stored = artifact.and_then(|hash| self.stored(&hash));
        let envelope = stored.as_deref().and_then(reply::stored);
        let mut planned = Vec::new();
        for file in files {
            planned.push(self.planned(file)?);
        }
        let content = |number: usize| {
            let path = &planned.get(number)?.path;
            let files = &envelope.as_ref()?.artifacts;
            let file = files.iter().find(|file| file.path == *path)?;
            Some(file.content.clone().into_bytes())
        };
        let mut kept: Vec<ArtifactDescriptor> = Vec::new();
        let workspace = self.trace.workspace();
        let _turn = lock(&self.writing);
        let mut keep = |path: &str, bytes: &[u8]| {
            if !self.redactor.redact(bytes).counts.is_empty() {
                // Then it stays where it is.
                return Err(std::io::Error::other(format!("`{path}` holds a secret")));
            }
            let stored = workspace.put_artifact(bytes, FILE_MEDIA);
            kept.push(stored.map_err(std::io::Error::other)?);
            Ok(())
        };
        let applied = apply(&self.root, &answer.event_id, &planned, &content, &mut keep);
        let refused = match applied {
            Ok(()) => None,
            Err(failed @ ApplyFailed::Conflict { .. }) => Some(failed.to_string()),
            Err(ApplyFailed::Io { path, doing, aftermath: Aftermath::Undone, source }) => {
                Some(format!("cannot {doing} `{path}`: {source}"))
            }
            Err(ApplyFailed::Io { path, doing, source, .. }) => {
                return Err(FlowError::Files { doing, path: path.into(), source });
            }
        };
        let refused = refused.map(|reason| self.clean(&reason));
        self.record(FlowCommand::Applied { answer: answer.clone(), refused, kept })?;
        Ok(())
    }

    fn planned(&self, file: &FileChange) -> Result<PlannedFile, FlowError> {
        let path = WorkspacePath::parse(&file.path)
            .map_err(|fault| FlowError::Damaged(format!("`{}`: {fault}", file.path)))?;
        let FileChange { operation, before, after, .. } = *file;
        Ok(PlannedFile { path, operation, before, after })
    }

    /// A text for an event: without secrets, and not longer than a person reads.
    pub(super) fn clean(&self, text: &str) -> String {
        let (text, _) = self.redactor.redact_text(text);
        let text: String = text.chars().map(storable).collect();
        match text.char_indices().nth(TEXT_CHARACTERS_MAX) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }
}

/// What is recorded of a call before anything is known of its answer.
fn unanswered(dispatch: EventRef, answer: ArtifactDescriptor) -> StepReturn {
    StepReturn {
        dispatch,
        success: UNUSABLE.0,
        recommendation: UNUSABLE.1,
        summary: String::new(),
        protocol_error: None,
        files: Vec::new(),
        files_refused: None,
        undeclared: Vec::new(),
        elapsed_millis: 0,
        feature_id: None,
        answer,
        beside: Vec::new(),
        links: None,
    }
}

fn change(file: &PlannedFile) -> FileChange {
    let PlannedFile { path, operation, before, after } = file;
    let operation: Operation = *operation;
    FileChange { path: path.as_str().to_owned(), operation, before: *before, after: *after }
}

fn reach(scopes: &[WritePattern], path: &str) -> Reach {
    match scopes.iter().map(|scope| scope.reach(path)).max() {
        Some(PatternReach::Within) => Reach::Within,
        Some(PatternReach::Leads) => Reach::Leads,
        Some(PatternReach::Outside) | None => Reach::Outside,
    }
}

/// What the built-in agent answers: the notes that it was given.
fn hand_on(input: &Value) -> Vec<u8> {
    let notes = input.get("prior_context").cloned().unwrap_or_else(|| json!([]));
    let count = notes.as_array().map_or(0, Vec::len);
    let summary = match count {
        1 => "handed on 1 note".to_owned(),
        count => format!("handed on {count} notes"),
    };
    json::to_bytes(&json!({
        "success": true,
        "summary": summary,
        "artifacts": [],
        "notes": notes,
        "recommendation": "proceed",
    }))
}
