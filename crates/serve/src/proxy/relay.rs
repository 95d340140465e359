//! Messages between a client and its server, one after the other in each direction.
//!
//! What calls no tool passes as it came, in the order in which it came. A call waits here for the gate,
//! and its answer until it is recorded; so nothing overtakes either. Only a call about which a person is
//! asked lets others go first.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use countersign_runtime::actions::{AgentRuntime, RuntimeOptions};
use countersign_runtime::tool_lists::{ListPage, ToolLists};
use serde_json::Value;

use super::head::{self, Fault, Head, Id, Line, Outcome, is_alike, pick};
use super::lines;
use super::lists::{LIST, Listing};
use super::open::{Cancelled, OpenRequest, OpenRequests, Passing};
use super::questions::Questions;
use super::upstream::Upstream;
use super::{Ending, ProxyError, ProxySetup, words};

/// The one method that is not passed on unseen.
pub(super) const CALL: &str = "tools/call";
/// Characters of a name that somebody gave.
const NAME_CHARACTERS_MAX: usize = 128;
/// Where a client without a connection says who it is.
const STATELESS_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// Both sides of one connection.
pub(super) struct Relay {
    pub(super) setup: ProxySetup,
    pub(super) server: Upstream,
    pub(super) open: OpenRequests,
    pub(super) questions: Questions,
    pub(super) lists: ToolLists,
    /// What ties an answer to the whole of a call; known to nobody else.
    pub(super) binding: [u8; 16],
    /// Whether the client sends nothing more.
    pub(super) hung_up: AtomicBool,
    runtime: OnceLock<AgentRuntime>,
    client: Mutex<Box<dyn Write + Send>>,
    /// Who is at the other end.
    hello: OnceLock<Hello>,
    /// What is known of the server's list of tools.
    pub(super) listing: Listing,
    /// Held while a message of the server is dealt with.
    turn: Mutex<()>,
    /// Messages of the server that were not passed on.
    dropped: AtomicU64,
    events: Mutex<Sender<Ending>>,
}

/// What a client says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Hello {
    name: Option<String>,
    program: Option<String>,
    can_ask: bool,
}

impl Hello {
    fn read(params: Option<&str>) -> Self {
        let params: Value = params.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
        let info = params.get("clientInfo");
        let info = info.or_else(|| params.get("_meta")?.get(STATELESS_CLIENT));
        let text = |name: &str| info.and_then(|info| info.get(name)).and_then(Value::as_str);
        let program = text("name").map(|name| {
            format!("{name} {}", text("version").unwrap_or_default()).trim_end().to_owned()
        });
        let ways = params.pointer("/capabilities/elicitation").and_then(Value::as_object);
        Self {
            name: text("name").map(short),
            program: program.as_deref().map(short),
            // One that names no way can do forms.
            can_ask: ways.is_some_and(|it| it.contains_key("form") || !it.contains_key("url")),
        }
    }
}

pub(super) fn short(name: &str) -> String {
    name.chars().take(NAME_CHARACTERS_MAX).collect()
}

impl Relay {
    pub(super) fn new(
        setup: ProxySetup,
        server: Upstream,
        client: Box<dyn Write + Send>,
        events: Sender<Ending>,
    ) -> Result<Self, ProxyError> {
        let no_secret = |error: getrandom::Error| ProxyError::Start(error.into());
        let mut binding = [0; 16];
        getrandom::fill(&mut binding).map_err(no_secret)?;
        setup.workspace.store().place_when_told();
        Ok(Self {
            binding,
            lists: ToolLists::of(setup.workspace.clone()),
            setup,
            server,
            open: OpenRequests::default(),
            questions: Questions::new().map_err(no_secret)?,
            hung_up: AtomicBool::new(false),
            runtime: OnceLock::new(),
            client: Mutex::new(client),
            hello: OnceLock::new(),
            listing: Listing::default(),
            turn: Mutex::new(()),
            dropped: AtomicU64::new(0),
            events: Mutex::new(events),
        })
    }

    /// The client's line to the workspace. Its recording begins with the first thing that is recorded.
    pub(super) fn runtime(&self) -> &AgentRuntime {
        self.runtime.get_or_init(|| {
            let hello = self.hello.get().cloned().unwrap_or_default();
            let options = RuntimeOptions {
                agent: self.setup.agent.as_deref().map(short).or(hello.name),
                client: hello.program,
                links: Some(self.setup.links()),
                enforcement: self.setup.enforcement,
                ..RuntimeOptions::default()
            };
            let ProxySetup { workspace, redactor, .. } = &self.setup;
            AgentRuntime::new(workspace.clone(), redactor.clone(), options)
        })
    }

    /// The runtime, if it was ever needed.
    pub(super) fn runtime_if_any(&self) -> Option<&AgentRuntime> {
        self.runtime.get()
    }

    /// Whether the client can ask its user.
    pub(super) fn client_can_ask(&self) -> bool {
        self.hello.get().is_some_and(|hello| hello.can_ask) && !self.is_over()
    }

    pub(super) fn is_over(&self) -> bool {
        self.hung_up.load(Ordering::SeqCst)
    }

    /// How many messages of the server were not passed on.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn tell(&self, ending: Ending) {
        // Nobody listens once the end has begun.
        let _ = self.events.lock().unwrap_or_else(PoisonError::into_inner).send(ending);
    }

    /// Sends the client one line.
    pub(super) fn to_client(&self, line: &[u8]) {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if client.write_all(line).and_then(|()| client.flush()).is_err() {
            drop(client);
            self.tell(Ending::ClientHungUp);
        }
    }

    /// Sends the server one line.
    pub(super) fn to_server(self: &Arc<Self>, line: &[u8], head: Option<&Head<'_>>) {
        if let Err(error) = self.server.send(self, line, head) {
            self.tell(Ending::ServerEnded(format!("the server takes no more messages: {error}")));
        }
    }

    /// A line of the client, with its line break.
    pub(super) fn client_says(self: &Arc<Self>, line: &[u8]) {
        let read = head::read(line.strip_suffix(b"\n").unwrap_or(line));
        match read {
            Err(faulty) => self.to_client(&words::fault(faulty.id.as_ref(), &faulty.fault)),
            Ok(Line::Blank) => {}
            Ok(Line::One(head)) => self.one_from_client(&head, line),
            Ok(Line::Batch(heads)) => match self.admit_batch(&heads) {
                Ok(()) => self.to_server(line, None),
                Err(answer) => self.to_client(&answer),
            },
        }
    }

    fn one_from_client(self: &Arc<Self>, head: &Head<'_>, line: &[u8]) {
        match head {
            Head::Request { id, method, params } if method == CALL => {
                if self.hello.get().is_none() {
                    let _ = self.hello.set(Hello::read(*params));
                }
                self.call(id, *params, line);
            }
            Head::Request { id, method, params } => match self.admit(id, method, *params) {
                Ok(()) => self.to_server(line, Some(head)),
                Err(answer) => self.to_client(&answer),
            },
            // Nobody could be told that it was refused, so it is passed over.
            Head::Notification { method, .. } if method == CALL || is_alike(method, CALL) => {}
            Head::Notification { method, params } => {
                let is_cancel = method == "notifications/cancelled";
                let id = is_cancel.then(|| cancelled_id(*params)).flatten();
                if id.is_none_or(|id| self.open.cancel(&id) == Cancelled::Sent) {
                    self.to_server(line, Some(head));
                }
            }
            Head::Response { id, outcome } if self.questions.is_ours(id) => {
                self.questions.answer(id, *outcome);
            }
            Head::Response { .. } | Head::Orphan => self.to_server(line, Some(head)),
        }
    }

    /// Notes a request that passes.
    fn admit(&self, id: &Id, method: &str, params: Option<&str>) -> Result<(), Vec<u8>> {
        if is_alike(method, CALL) {
            let fault = Fault::Alike { found: method.to_owned(), name: CALL };
            return Err(words::fault(Some(id), &fault));
        }
        let passing = match method {
            LIST => Passing::List(self.listing.asked(params)),
            "initialize" => {
                // A client that introduces itself twice stays who it was.
                let _ = self.hello.set(Hello::read(params));
                Passing::Other
            }
            _ => Passing::Other,
        };
        let begun = self.open.begin(id, OpenRequest::Passing(passing));
        if begun.is_err() && passing == Passing::List(ListPage::First) {
            self.listing.outdated();
        }
        begun.map_err(|why| words::not_taken(id, &why))
    }

    fn admit_batch(&self, heads: &[Head<'_>]) -> Result<(), Vec<u8>> {
        let calls = |head: &Head<'_>| match head {
            Head::Request { method, .. } | Head::Notification { method, .. } => {
                method == CALL || is_alike(method, CALL)
            }
            Head::Response { id, .. } => self.questions.is_ours(id),
            Head::Orphan => false,
        };
        if heads.iter().any(calls) {
            return Err(words::fault(None, &Fault::CallInBatch));
        }
        let mut begun = Vec::new();
        for head in heads {
            let Head::Request { id, method, params } = head else { continue };
            if let Err(answer) = self.admit(id, method, *params) {
                for id in begun {
                    self.open.end(id);
                }
                return Err(answer);
            }
            begun.push(id);
        }
        Ok(())
    }

    /// A line of the server, with its line break.
    pub(super) fn server_says(&self, line: &[u8]) {
        let _turn = self.server_turn();
        match head::read(line.strip_suffix(b"\n").unwrap_or(line)) {
            Ok(Line::Blank) => {}
            Ok(Line::One(Head::Response { id, outcome })) => self.answer(&id, outcome, line),
            Ok(Line::One(Head::Request { id, .. })) if self.questions.is_ours(&id) => {
                self.drop_one();
            }
            Ok(Line::One(head)) => {
                self.hear(&head);
                self.to_client(line);
            }
            Ok(Line::Batch(heads)) => {
                heads.iter().for_each(|head| self.hear(head));
                if heads.iter().all(|head| self.may_pass_in_batch(head)) {
                    for head in &heads {
                        if let Head::Response { id, .. } = head {
                            self.open.end(id);
                        }
                    }
                    self.to_client(line);
                } else {
                    self.drop_one();
                }
            }
            // Neither JSON nor anything that everybody reads in the same way.
            Err(faulty) => {
                self.drop_one();
                if let Some(id) = faulty.id.or_else(|| lines::id_in(line)) {
                    let why = format!("the server's answer cannot be passed on: {}", faulty.fault);
                    self.give_up(&id, &why);
                }
            }
        }
    }

    /// Looks at what the server says by itself, which passes.
    fn hear(&self, head: &Head<'_>) {
        if let Head::Notification { method, .. } = head {
            self.listing.heard(method);
        }
    }

    /// A line of the server that was too long, with the id in it.
    pub(super) fn too_long_from_server(&self, id: Option<&Id>, max: usize) {
        let _turn = self.server_turn();
        self.drop_one();
        if let Some(id) = id {
            self.give_up(id, &format!("the server's answer has more than {max} bytes"));
        }
    }

    fn server_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no message of the server is being dealt with, at most for `patience`: a client that
    /// reads nothing may keep one from its end.
    pub(super) fn wait_for_turn(&self, patience: Duration) {
        const LOOK_EVERY: Duration = Duration::from_millis(5);
        let until = Instant::now() + patience;
        while matches!(self.turn.try_lock(), Err(TryLockError::WouldBlock))
            && Instant::now() < until
        {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn may_pass_in_batch(&self, head: &Head<'_>) -> bool {
        match head {
            Head::Response { id, .. } => self.open.is_passing(id),
            Head::Request { id, .. } => !self.questions.is_ours(id),
            Head::Notification { .. } | Head::Orphan => true,
        }
    }

    fn answer(&self, id: &Id, outcome: Outcome<'_>, line: &[u8]) {
        match self.open.answered(id) {
            None => self.drop_one(),
            Some(OpenRequest::Call(call)) => self.call_answered(id, call, outcome, line),
            Some(OpenRequest::Passing(Passing::Other)) => self.to_client(line),
            Some(OpenRequest::Passing(Passing::OwnList(page))) => self.listed_for_us(outcome, page),
            Some(OpenRequest::Passing(Passing::List(page))) => match self.listed(outcome, page) {
                Ok(()) => self.to_client(line),
                Err(why) => {
                    let text = format!("countersign did not pass the list of tools on: {why}");
                    self.to_client(&words::failure(id, &text));
                }
            },
        }
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("setup", &self.setup).finish_non_exhaustive()
    }
}

/// The request that a client no longer wants an answer to.
fn cancelled_id(params: Option<&str>) -> Option<Id> {
    let ([id], _) = pick(params?, ["requestId"]);
    match serde_json::from_str(id?).ok()? {
        Value::String(text) => Some(Id::Text(text)),
        Value::Number(number) => number.as_i64().map(|number| Id::Number(number.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_known_by_what_it_says_first() {
        let params =
            r#"{"clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{}}}"#;
        let hello = Hello { name: Some("c".into()), program: Some("c 1".into()), can_ask: true };
        assert_eq!(Hello::read(Some(params)), hello);
        let stateless =
            r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}"#;
        assert_eq!(Hello::read(Some(stateless)), Hello { can_ask: false, ..hello });
        let url_only = r#"{"capabilities":{"elicitation":{"url":{}}}}"#;
        assert_eq!(Hello::read(Some(url_only)), Hello::default());
        assert_eq!(Hello::read(None), Hello::default());
    }

    #[test]
    fn a_cancelled_request_is_found_by_its_id() {
        let number = Some(Id::Number("7".into()));
        assert_eq!(cancelled_id(Some(r#"{"requestId":7,"reason":"x"}"#)), number);
        assert_eq!(cancelled_id(Some(r#"{"requestId":"7"}"#)), Some(Id::Text("7".into())));
        assert_eq!(cancelled_id(Some("{}")).or(cancelled_id(None)), None);
    }
}
