//! Calls of tools: judged, sent or refused, and recorded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_gate::Decision;
use countersign_protocol::Refusal;
use countersign_protocol::recording::CallOutcome;
use countersign_runtime::actions::{ActionRequest, CallEnd, GateAnswer, Waited};
use countersign_runtime::tool_lists::HoldReason;
use countersign_runtime::{WorkspaceError, WriteError};
use serde_json::Value;

use super::facts::Facts;
use super::head::{Head, Id, Outcome, pick};
use super::lists::NotJudged;
use super::open::{CallStage, OpenCall, OpenRequest, Passing};
use super::relay::{CALL, Relay};
use super::words;
use crate::asking::Wanted;
use crate::causes::whole;
use crate::question::{Word, form};

/// How often is looked whether a person has answered, or the client no longer wants to know.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Characters of the arguments that stand in a description.
const ARGUMENTS_SHOWN_MAX: usize = 1_000;
/// Bytes of a result in which is looked for what went wrong.
const REASON_BYTES_MAX: usize = 1 << 20;
/// Characters of what went wrong that are recorded.
const REASON_MAX: usize = 500;

/// A call that a client wants to make.
struct WantedCall<'a> {
    id: &'a Id,
    tool: String,
    arguments: &'a str,
    as_task: bool,
}

/// A call that is put before the gate, and the line that it came in.
#[derive(Clone, Copy)]
struct GatedCall<'a> {
    id: &'a Id,
    tool: &'a str,
    as_task: bool,
    held: Option<&'a HoldReason>,
    request: &'a ActionRequest,
    params: Option<&'a str>,
    line: &'a [u8],
}

/// A call about which a person is asked.
struct AskedCall {
    id: Id,
    tool: String,
    as_task: bool,
    held: Option<HoldReason>,
    request: ActionRequest,
    answer: GateAnswer,
    params: Option<String>,
    line: Vec<u8>,
}

impl AskedCall {
    fn gated(&self) -> GatedCall<'_> {
        GatedCall {
            id: &self.id,
            tool: &self.tool,
            as_task: self.as_task,
            held: self.held.as_ref(),
            request: &self.request,
            params: self.params.as_deref(),
            line: &self.line,
        }
    }
}

/// What asking came to.
enum Answered {
    Yes,
    No,
    NotYet,
    /// Another call that is the same has the answer.
    Gone,
    /// Nobody waits for the call any more.
    Nobody,
}

impl Relay {
    /// A client wants to call a tool.
    pub(super) fn call(self: &Arc<Self>, id: &Id, params: Option<&str>, line: &[u8]) {
        let wanted = match wanted(id, params) {
            Ok(wanted) => wanted,
            Err(fault) => {
                return self.to_client(&words::error(Some(id), words::INVALID_PARAMS, &fault));
            }
        };
        let call = OpenCall {
            tool: wanted.tool.clone(),
            as_task: wanted.as_task,
            begun: Instant::now(),
            stage: CallStage::Judged,
        };
        if let Err(why) = self.open.begin(id, OpenRequest::Call(call)) {
            return self.to_client(&words::not_taken(id, &why));
        }
        let (tool, as_task) = (wanted.tool.clone(), wanted.as_task);
        let refuse = |text: &str| self.refuse(id, as_task, text);
        let held = match self.why_held(&tool) {
            Ok(held) => held,
            Err(NotJudged::Unreached(why)) => return refuse(&words::unsent(&tool, &why)),
            Err(NotJudged::Failed(why)) => return refuse(&words::unrecorded(&tool, &why)),
        };
        let request = self.request(&wanted, held.as_ref());
        let (held, request) = (held.as_ref(), &request);
        self.judge(GatedCall { id, tool: &tool, as_task, held, request, params, line });
    }

    /// Puts a call before the gate, and does what it says.
    fn judge(self: &Arc<Self>, call: GatedCall<'_>) {
        let GatedCall { id, tool, as_task, held, request, params, line } = call;
        let refuse = |text: &str| self.refuse(id, as_task, text);
        let answer = match self.runtime().gate(request) {
            Ok(answer) => answer,
            Err(error) => return refuse(&words::unrecorded(tool, &whole(&error))),
        };
        if let (true, Some(held)) = (answer.approved_by_person, held)
            && let Err(text) = self.agreed(tool, held)
        {
            if let Some(execution) = answer.execution.clone() {
                self.record_unsent(tool, execution, "the tool changed before it was sent");
            }
            return refuse(&text);
        }
        match (answer.decision, answer.execution.clone()) {
            (Decision::Allow, Some(execution)) => self.run(id, tool, execution, params, line),
            (Decision::Allow, None) => {
                refuse(&words::unrecorded(tool, "its beginning was not recorded"));
            }
            (Decision::Deny, _) => refuse(&words::denied(tool, &answer.reasons)),
            (Decision::Ask, _) => self.ask(AskedCall {
                id: id.clone(),
                tool: tool.to_owned(),
                as_task,
                held: held.cloned(),
                request: request.clone(),
                answer,
                params: params.map(str::to_owned),
                line: line.to_vec(),
            }),
        }
    }

    /// Answers a call that did not run.
    fn refuse(&self, id: &Id, as_task: bool, text: &str) {
        if self.open.end(id).is_some() {
            self.to_client(&words::refusal(id, as_task, text));
        }
    }

    /// A person has agreed to a call of a tool that was held, and thereby to the tool as it was shown to
    /// them; or what is to be said where it is another one by now.
    fn agreed(&self, tool: &str, held: &HoldReason) -> Result<(), String> {
        match self.agree(tool, held) {
            Ok(true) => Ok(()),
            Ok(false) => Err(words::changed_meanwhile(tool)),
            Err(why) => Err(words::unrecorded(tool, &why)),
        }
    }

    /// A call that was recorded as begun never left.
    fn record_unsent(&self, tool: &str, execution: EventRef, reason: &str) {
        let outcome = CallOutcome::Failed { reason: reason.to_owned() };
        let _ = self.record(tool, execution, outcome, None, Duration::ZERO);
    }

    /// What the gate is told.
    fn request(&self, wanted: &WantedCall<'_>, held: Option<&HoldReason>) -> ActionRequest {
        let facts = Facts::of(wanted.arguments);
        let whys: Vec<String> =
            held.map(|it| it.why.clone()).into_iter().chain(facts.murk.clone()).collect();
        let name = format!("{}/{}", self.setup.name, wanted.tool);
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ActionRequest {
            action_type: facts.action_type(&wanted.tool).to_owned(),
            description: self.description(&name, wanted.arguments),
            tool: Some(name),
            command: some(&facts.command),
            // What is not written anywhere is an argument like others.
            content: some(&facts.content).filter(|_| !facts.paths.is_empty()),
            files: facts.paths,
            held: (!whys.is_empty()).then(|| whys.join("; ")),
            arguments: Some(wanted.arguments.as_bytes().to_vec()),
            call_id: Some(wanted.id.to_string()),
            begins: true,
            diff: None,
        }
    }

    /// What a person reads of a call. An answer counts for the same description only, so it says all
    /// that the call says: where it is cut, or a secret is taken out of it, a hash stands for the rest.
    /// It is keyed, so that no secret can be guessed from it.
    fn description(&self, name: &str, arguments: &str) -> String {
        let short: String = arguments.chars().take(ARGUMENTS_SHOWN_MAX).collect();
        let is_whole = short.len() == arguments.len()
            && self.setup.redactor.redact(arguments.as_bytes()).counts.is_empty();
        if is_whole {
            return format!("{name} {short}");
        }
        let bound = [self.binding.as_slice(), arguments.as_bytes()].concat();
        let hash = Hash::of(&bound).to_hex();
        format!("{name} {short} […] bound by {}", hash.get(..32).unwrap_or_default())
    }

    /// Sends a call to the server.
    fn run(
        self: &Arc<Self>,
        id: &Id,
        tool: &str,
        execution: EventRef,
        params: Option<&str>,
        line: &[u8],
    ) {
        let deadline = Instant::now() + self.setup.call_timeout;
        if !self.open.run(id, execution.clone(), deadline) {
            // Cancelled, or everybody is gone. It never left.
            self.record_unsent(tool, execution, "it was cancelled before it was sent");
            return;
        }
        let head = Head::Request { id: id.clone(), method: CALL.to_owned(), params };
        self.to_server(line, Some(&head));
        self.tidy_up();
    }

    fn ask(self: &Arc<Self>, asked: AskedCall) {
        let (id, tool, as_task) = (asked.id.clone(), asked.tool.clone(), asked.as_task);
        let relay = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name("question".to_owned())
            .spawn(move || relay.wait_for_person(&asked));
        if let Err(error) = started {
            self.refuse(&id, as_task, &words::unrecorded(&tool, &error.to_string()));
        }
    }

    /// Waits for a person, and does what they say.
    fn wait_for_person(self: &Arc<Self>, asked: &AskedCall) {
        let AskedCall { id, tool, as_task, answer, .. } = asked;
        let refuse = |text: &str| self.refuse(id, *as_task, text);
        match self.answered(asked) {
            Err(why) => refuse(&words::unrecorded(tool, &why)),
            Ok(Answered::No) => refuse(&words::declined(tool)),
            Ok(Answered::NotYet) => {
                let question = answer.question.as_deref().unwrap_or_default();
                refuse(&words::unanswered(tool, question, &answer.reasons));
            }
            Ok(Answered::Nobody) => {
                let reason = "the client cancelled the call before anybody answered";
                // Somebody may have answered just now; then that stands.
                let _ = self.runtime().withdraw(&answer.token, reason);
            }
            // An approval is used once: this one is asked about by itself.
            Ok(Answered::Gone) => self.judge(asked.gated()),
            Ok(Answered::Yes) => {
                let agreed = asked.held.as_ref().map_or(Ok(()), |held| self.agreed(tool, held));
                if let Err(text) = agreed {
                    // What was approved is not used for anything else.
                    let _ = self.runtime().withdraw(&answer.token, "the tool changed meanwhile");
                    return refuse(&text);
                }
                match self.runtime().start(&answer.token) {
                    Ok(execution) => {
                        self.run(id, tool, execution, asked.params.as_deref(), &asked.line);
                    }
                    Err(error) if is_gone(&error) => self.judge(asked.gated()),
                    Err(error) => refuse(&words::unrecorded(tool, &whole(&error))),
                }
            }
        }
    }

    /// What a person says, at the client or anywhere else, whoever is first.
    fn answered(&self, asked: &AskedCall) -> Result<Answered, String> {
        let AskedCall { id, answer, request, .. } = asked;
        let runtime = self.runtime();
        let begun = Instant::now();
        let now = runtime.workspace().now();
        let left = answer.question_deadline.unwrap_or(now).as_millis() - now.as_millis();
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        let mut by_form = false;
        let mut shown = self.client_can_ask().then(|| self.show(request, answer));
        let said = loop {
            if !self.open.is_judged(id) {
                break Ok(Answered::Nobody);
            }
            let pause = match shown.is_some() {
                true => Duration::ZERO,
                false => LOOK_EVERY.min(self.setup.wait),
            };
            match runtime.wait_for_answer(&answer.token, pause) {
                Ok(Waited::Yes) => break Ok(Answered::Yes),
                Ok(Waited::No) => break Ok(Answered::No),
                Ok(Waited::Gone) => break Ok(Answered::Gone),
                Ok(Waited::NotYet) => {}
                Err(error) => break Err(whole(&error)),
            }
            let word = shown.as_ref().and_then(|shown| self.questions.wait(shown, LOOK_EVERY));
            match word {
                Some(Word::Yes | Word::No) => {
                    by_form = true;
                    let yes = word == Some(Word::Yes);
                    let kept = runtime.answer_from_client(&answer.token, yes);
                    break match kept {
                        Ok(()) if yes => Ok(Answered::Yes),
                        Ok(()) => Ok(Answered::No),
                        Err(error) if is_gone(&error) => Ok(Answered::Gone),
                        Err(error) => Err(whole(&error)),
                    };
                }
                // Dismissed, or not shown at all: somebody may still answer elsewhere.
                Some(Word::Silence) => {
                    if let Some(shown) = shown.take() {
                        self.questions.end(&shown);
                    }
                }
                None => {}
            }
            let patience = if shown.is_some() { left } else { self.setup.wait };
            if begun.elapsed() >= patience || self.is_over() {
                break Ok(Answered::NotYet);
            }
        };
        if let Some(shown) = shown {
            self.questions.end(&shown);
            if !by_form {
                let reason = "answered elsewhere, or too late";
                self.to_client(&words::cancelled(&Value::from(shown), reason));
            }
        }
        said
    }

    /// Puts the question before the client's user; gives its id.
    fn show(&self, request: &ActionRequest, answer: &GateAnswer) -> String {
        let arguments = request.arguments.as_deref().map(String::from_utf8_lossy);
        let wanted = Wanted {
            kind: answer.action_type.as_str(),
            description: &request.description,
            command: request.command.as_deref(),
            files: &request.files,
            change: arguments.as_deref(),
            reasons: &answer.reasons,
        };
        let id = self.questions.begin();
        self.to_client(&words::question(&id, &wanted.words(), &form()));
        id
    }

    /// The server has answered a call.
    pub(super) fn call_answered(&self, id: &Id, call: OpenCall, outcome: Outcome<'_>, line: &[u8]) {
        let OpenCall { tool, as_task, begun, stage } = call;
        let CallStage::Running { execution, .. } = stage else { return self.drop_one() };
        let (ended, bytes) = match outcome {
            Outcome::Result(result) => (judge(result, as_task), result),
            Outcome::Error(error) => {
                let reason = error_message(error);
                (CallOutcome::Failed { reason }, error)
            }
        };
        match self.record(&tool, execution, ended, Some(bytes), begun.elapsed()) {
            Ok(()) => self.to_client(line),
            Err(why) => {
                self.to_client(&words::refusal(id, as_task, &words::unkept(&tool, &why)));
            }
        }
        self.tidy_up();
    }

    /// Does what nobody waits for: what was stored for a call is taken to its place.
    fn tidy_up(&self) {
        let store = self.setup.workspace.store();
        if store.many_wait() {
            let store = store.clone();
            // Without a thread they wait until there are too many, or until the end.
            let _ = std::thread::Builder::new().spawn(move || store.place_if_many());
        }
    }

    /// Nobody will answer a request any more: the client is told why, and a call is recorded as one of
    /// which nobody knows what became.
    pub(super) fn give_up(&self, id: &Id, why: &str) {
        if let Some(request) = self.open.answered(id) {
            self.end_unanswered(id, request, why);
        }
    }

    /// The same for one that was taken out already.
    pub(super) fn end_unanswered(&self, id: &Id, request: OpenRequest, why: &str) {
        let call = match request {
            OpenRequest::Passing(Passing::OwnList(_)) => return self.not_listed_for_us(why),
            OpenRequest::Passing(_) => return self.to_client(&words::failure(id, why)),
            OpenRequest::Call(call) => call,
        };
        let OpenCall { tool, as_task, begun, stage } = call;
        match stage {
            CallStage::Judged => {
                self.to_client(&words::refusal(id, as_task, &words::unsent(&tool, why)));
            }
            CallStage::Running { execution, cancelled, .. } => {
                let reason = match cancelled {
                    true => "the client cancelled it".to_owned(),
                    false => why.to_owned(),
                };
                let outcome = CallOutcome::Unknown { reason };
                // Where even that cannot be recorded, the trace says that it began, and no more.
                let _ = self.record(&tool, execution, outcome, None, begun.elapsed());
                if !cancelled {
                    self.to_client(&words::refusal(id, as_task, &words::unknown(&tool, why)));
                }
            }
        }
    }

    /// Records how a call ended.
    fn record(
        &self,
        tool: &str,
        execution: EventRef,
        outcome: CallOutcome,
        output: Option<&str>,
        taken: Duration,
    ) -> Result<(), String> {
        let duration_ms = u64::try_from(taken.as_millis()).unwrap_or(u64::MAX);
        let end = |outcome, output: Option<&str>| CallEnd {
            outcome,
            output: output.map(|output| output.as_bytes().to_vec()),
            media_type: "application/json".to_owned(),
            duration_ms,
        };
        let finished = self.runtime().finish(execution.clone(), &end(outcome, output));
        let Err(error) = finished else { return Ok(()) };
        let why = whole(&error);
        // What came out may be what cannot be stored; that it ended can perhaps be.
        let reason = format!("the result of `{tool}` could not be stored: {why}");
        let _ = self.runtime().finish(execution, &end(CallOutcome::Unknown { reason }, None));
        Err(why)
    }
}

/// Whether what a person approved is no longer there to be used.
const fn is_gone(error: &WorkspaceError) -> bool {
    matches!(
        error,
        WorkspaceError::Write(WriteError::Refused(
            Refusal::NotAsked { .. } | Refusal::NoSuchEvent { .. } | Refusal::ApprovalTaken { .. },
        ))
    )
}

/// The call in these parameters.
fn wanted<'a>(id: &'a Id, params: Option<&'a str>) -> Result<WantedCall<'a>, String> {
    let params = params.ok_or("a call names a tool")?;
    let ([name, arguments, task], fault) = pick(params, ["name", "arguments", "task"]);
    if let Some(fault) = fault {
        return Err(fault.to_string());
    }
    let name = name.and_then(|name| serde_json::from_str::<String>(name).ok());
    let tool = name.ok_or("the name of a tool is a text")?;
    let arguments = arguments.filter(|text| *text != "null").unwrap_or("{}");
    if !arguments.starts_with('{') {
        return Err("the arguments of a call are an object".to_owned());
    }
    Ok(WantedCall { id, tool, arguments, as_task: task.is_some_and(|task| task != "null") })
}

/// What a result says of its call.
fn judge(result: &str, as_task: bool) -> CallOutcome {
    if !result.starts_with('{') {
        return CallOutcome::Failed { reason: "its result is no object".to_owned() };
    }
    let ([is_error, task], fault) = pick(result, ["isError", "task"]);
    if let Some(fault) = fault {
        return CallOutcome::Failed {
            reason: format!("its result can be read in two ways: {fault}"),
        };
    }
    if is_error == Some("true") {
        return CallOutcome::Failed { reason: first_text(result) };
    }
    if as_task && task.is_some() {
        let reason = "it goes on as a task, whose result is asked for elsewhere".to_owned();
        return CallOutcome::Unknown { reason };
    }
    CallOutcome::Succeeded
}

/// The first text in a result that is an error.
fn first_text(result: &str) -> String {
    const UNSAID: &str = "the tool says that it failed";
    if result.len() > REASON_BYTES_MAX {
        return UNSAID.to_owned();
    }
    let result: Value = serde_json::from_str(result).unwrap_or_default();
    let blocks = result.get("content").and_then(Value::as_array);
    let mut texts = blocks.into_iter().flatten().filter_map(|it| it.get("text")?.as_str());
    texts.next().map_or_else(|| UNSAID.to_owned(), |text| text.chars().take(REASON_MAX).collect())
}

fn error_message(error: &str) -> String {
    let short = error.get(..error.len().min(REASON_BYTES_MAX)).unwrap_or_default();
    let value: Value = serde_json::from_str(short).unwrap_or_default();
    let message = value.get("message").and_then(Value::as_str).unwrap_or("no message");
    let message: String = message.chars().take(REASON_MAX).collect();
    format!("the server answered with an error: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_so_that_nobody_reads_it_otherwise() {
        let id = Id::Number("1".into());
        let read = |params| wanted(&id, Some(params)).map(|it| (it.tool, it.arguments, it.as_task));
        assert_eq!(
            read(r#"{"name":"a","arguments":{"x": 1},"_meta":{}}"#),
            Ok(("a".into(), r#"{"x": 1}"#, false))
        );
        assert_eq!(read(r#"{"name":"a","task":{}}"#), Ok(("a".into(), "{}", true)));
        for (params, fault) in [
            (r#"{"name":"a","name":"b"}"#, "`name` is in it twice"),
            (r#"{"name":"a","Arguments":{}}"#, "`Arguments` could be taken for `arguments`"),
            (r#"{"name":7}"#, "the name of a tool is a text"),
            (r#"{"name":"a","arguments":[]}"#, "the arguments of a call are an object"),
            ("[]", "not a JSON-RPC request, notification or response"),
        ] {
            assert_eq!(read(params), Err(fault.to_owned()), "{params}");
        }
    }

    #[test]
    fn a_result_that_says_that_it_failed_failed() {
        let failed = |reason: &str| CallOutcome::Failed { reason: reason.to_owned() };
        for (result, expected) in [
            (r#"{"content":[]}"#, CallOutcome::Succeeded),
            (r#"{"content":[],"isError":false}"#, CallOutcome::Succeeded),
            (r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#, failed("no")),
            (r#"{"isError":true}"#, failed("the tool says that it failed")),
            (
                r#"{"isError":false,"isError":true}"#,
                failed("its result can be read in two ways: `isError` is in it twice"),
            ),
            (r#"{"task":{}}"#, CallOutcome::Succeeded),
        ] {
            assert_eq!(judge(result, false), expected, "{result}");
        }
        assert!(matches!(judge(r#"{"task":{}}"#, true), CallOutcome::Unknown { .. }));
        let error = r#"{"code":-1,"message":"broken"}"#;
        assert_eq!(error_message(error), "the server answered with an error: broken");
    }
}
