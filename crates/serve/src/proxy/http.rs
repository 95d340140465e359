//! A server that speaks streamable HTTP: one POST for each message, answers as JSON or as a stream.
//!
//! What expects no answer is sent by one thread, in its order, so that a server that is slow to take it
//! keeps nobody waiting. Redirections are not followed: the headers that were given for one server go to no other. Their
//! values are in no message of ours, and nowhere in a trace.

use std::fmt;
use std::io::{self, BufReader, Read as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use ureq::http::{HeaderName, HeaderValue, Response, Uri};
use ureq::tls::TlsConfig;
use ureq::{Agent, Body};

use super::SERVER_LINE_MAX;
use super::head::{self, Head, Id, Line, Outcome};
use super::relay::Relay;
use super::sse::{next_message, one_line};

/// Requests that may wait for their answers at once: more than calls, so that these keep nothing else
/// from being asked.
const POSTS_MAX: usize = 512;
/// Messages that expect no answer and wait to be sent.
const QUIET_MAX: usize = 1_024;
/// How much longer than a call a request may take: who gives a call up is the one who watches them.
const GRACE: Duration = Duration::from_secs(1);
/// How long it may take to reach the server, and to be heard where no answer is expected.
const REACH_PATIENCE: Duration = Duration::from_secs(30);
/// How long a request waits for what is to be heard before it.
const ORDER_PATIENCE: Duration = Duration::from_secs(2);
/// The same for the last word.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(3);
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const STREAM: &str = "text/event-stream";
/// Headers that are ours to set.
const OURS: [&str; 8] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    SESSION,
    VERSION,
    "transfer-encoding",
];

/// The address of a server, and what it is sent with every message.
#[derive(Debug, Clone)]
pub struct HttpTarget {
    url: Uri,
    headers: Vec<TargetHeader>,
}

/// A header whose value nobody is to read.
#[derive(Clone)]
pub struct TargetHeader {
    name: HeaderName,
    value: HeaderValue,
}

/// Why an address or a header cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// The address is none.
    #[error("`{0}` is no address that begins with `http://` or `https://`")]
    Url(String),
    /// There is a password in the address.
    #[error("the address holds a name or a password, which would be seen by whoever reads it")]
    Password,
    /// The header cannot have this name.
    #[error("`{0}` is no name of a header that can be set")]
    Name(String),
    /// The header cannot have its value.
    #[error("the value of the header `{0}` has characters that no header can have")]
    Value(String),
}

impl HttpTarget {
    /// A server at this address.
    ///
    /// # Errors
    /// It is no address, or holds a password.
    pub fn new(url: &str, headers: Vec<TargetHeader>) -> Result<Self, HeaderFault> {
        let bad = || HeaderFault::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| bad())?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(bad());
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(HeaderFault::Password);
        }
        Ok(Self { url: uri, headers })
    }

    /// The address without what may be a secret in it.
    pub(super) fn shown(&self) -> String {
        let scheme = self.url.scheme_str().unwrap_or_default();
        let authority = self.url.authority().map_or("", |it| it.as_str());
        format!("{scheme}://{authority}{}", self.url.path())
    }
}

impl TargetHeader {
    /// A header.
    ///
    /// # Errors
    /// There can be none of this name or value.
    pub fn new(name: &str, value: &str) -> Result<Self, HeaderFault> {
        let bad = || HeaderFault::Name(name.to_owned());
        let known: HeaderName = name.trim().parse().map_err(|_| bad())?;
        if OURS.contains(&known.as_str()) {
            return Err(bad());
        }
        let value = value.trim().parse().map_err(|_| HeaderFault::Value(name.to_owned()))?;
        Ok(Self { name: known, value })
    }
}

impl fmt::Debug for TargetHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetHeader").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A connection to such a server.
#[derive(Debug)]
pub(super) struct HttpUpstream {
    line: Arc<HttpLine>,
    posts: Arc<AtomicUsize>,
    quiet: SyncSender<Quiet>,
    turns: Arc<Turns>,
}

/// What all requests share.
#[derive(Debug)]
struct HttpLine {
    agent: Agent,
    target: HttpTarget,
    session: Mutex<HttpSession>,
}

/// What the server calls the session that was begun last.
#[derive(Debug, Default)]
struct HttpSession {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// A message that expects no answer.
struct Quiet {
    message: Vec<u8>,
    /// Who listens to the server from then on.
    listens: Option<Arc<Relay>>,
}

/// How many messages that expect no answer were to be sent, and how many were.
#[derive(Debug, Default)]
struct Turns {
    counts: Mutex<(u64, u64)>,
    sent: Condvar,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, (u64, u64)> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the first `turn` of them were sent, at most for `patience`.
    fn wait(&self, turn: u64, patience: Duration) {
        let waited = self.sent.wait_timeout_while(self.lock(), patience, |(_, sent)| *sent < turn);
        drop(waited);
    }

    fn one_sent(&self) {
        self.lock().1 += 1;
        self.sent.notify_all();
    }
}

/// One more request under way; over when dropped.
struct Post(Arc<AtomicUsize>);

impl Drop for Post {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// TLS with the library that signs, so that one of them is trusted and built instead of two.
fn tls() -> TlsConfig {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(provider)).build()
}

impl HttpUpstream {
    pub(super) fn new(target: &HttpTarget) -> io::Result<Self> {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(REACH_PATIENCE))
            .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls())
            .build();
        let session = Mutex::default();
        let line = Arc::new(HttpLine { agent: agent.into(), target: target.clone(), session });
        let turns = Arc::<Turns>::default();
        let (quiet, messages) = sync_channel(QUIET_MAX);
        let (of, counted) = (Arc::clone(&line), Arc::clone(&turns));
        std::thread::Builder::new()
            .name("quiet".to_owned())
            .spawn(move || send_quietly(&of, &messages, &counted))?;
        Ok(Self { line, posts: Arc::default(), quiet, turns })
    }

    /// Sends one line. A request waits for what was to be sent before it and expects no answer.
    pub(super) fn send(&self, relay: &Arc<Relay>, line: &[u8], head: Option<&Head<'_>>) {
        let message = line.trim_ascii().to_vec();
        let id = match head {
            Some(Head::Request { id, .. }) => Some(id.clone()),
            // A batch may hold requests.
            None => None,
            Some(head) => return self.send_quiet(relay, message, head),
        };
        if self.posts.fetch_add(1, Ordering::SeqCst) >= POSTS_MAX {
            self.posts.fetch_sub(1, Ordering::SeqCst);
            return give_up(relay, id.as_ref(), "too many requests wait for the server");
        }
        let post = Post(Arc::clone(&self.posts));
        let begins = matches!(head, Some(Head::Request { method, .. }) if method == "initialize");
        if begins {
            // Whatever was before is over: the server may have forgotten it.
            *self.line.session() = HttpSession::default();
        }
        let (turns, turn) = (Arc::clone(&self.turns), self.turns.lock().0);
        let (of, to, answers) = (Arc::clone(&self.line), Arc::clone(relay), id.clone());
        let started = std::thread::Builder::new().name("post".to_owned()).spawn(move || {
            let _post = post;
            turns.wait(turn, ORDER_PATIENCE);
            let ended = of.ask(&message, begins, &to);
            let why = match &ended {
                Ok(()) => "the server ended its answer without one",
                Err(why) => why.as_str(),
            };
            // Answered by now, unless something went wrong.
            give_up(&to, id.as_ref(), why);
        });
        if let Err(error) = started {
            give_up(relay, answers.as_ref(), &error.to_string());
        }
    }

    fn send_quiet(&self, relay: &Arc<Relay>, message: Vec<u8>, head: &Head<'_>) {
        let begun = matches!(head, Head::Notification { method, .. } if method == "notifications/initialized");
        let listens = begun.then(|| Arc::clone(relay));
        let mut counts = self.turns.lock();
        // A server that has not taken a thousand such messages takes none.
        if self.quiet.try_send(Quiet { message, listens }).is_ok() {
            counts.0 += 1;
        }
    }

    /// Says goodbye.
    pub(super) fn end(&self) {
        let line = &self.line;
        let turn = self.turns.lock().0;
        self.turns.wait(turn, GOODBYE_PATIENCE);
        if line.session().id.is_some() {
            let request = line.dressed(line.agent.delete(line.target.url.clone()));
            let request = request.config().timeout_global(Some(GOODBYE_PATIENCE)).build();
            let _ = request.call();
        }
    }
}

/// Sends what expects no answer, one after the other.
fn send_quietly(line: &Arc<HttpLine>, messages: &Receiver<Quiet>, turns: &Turns) {
    for Quiet { message, listens } in messages {
        let _ = line.post(&message, REACH_PATIENCE);
        if let Some(relay) = listens {
            listen(line, relay);
        }
        turns.one_sent();
    }
}

/// Listens to what the server says by itself, if it offers that.
fn listen(line: &Arc<HttpLine>, relay: Arc<Relay>) {
    let line = Arc::clone(line);
    let listening = std::thread::Builder::new().name("listen".to_owned()).spawn(move || {
        let request = line.dressed(line.agent.get(line.target.url.clone()));
        if let Ok(response) = request.header("accept", STREAM).call()
            && is_stream(&response)
        {
            pass_on(response, &relay);
        }
    });
    // A server that cannot be listened to still answers.
    drop(listening);
}

impl HttpLine {
    fn session(&self) -> MutexGuard<'_, HttpSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request with all headers that every request has.
    fn dressed<B>(&self, mut request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        for TargetHeader { name, value } in &self.target.headers {
            request = request.header(name, value);
        }
        let session = self.session();
        for (name, value) in [(SESSION, &session.id), (VERSION, &session.version)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        request
    }

    fn post(&self, message: &[u8], patience: Duration) -> Result<Response<Body>, ureq::Error> {
        let request = self.dressed(self.agent.post(self.target.url.clone()));
        let request = request.config().timeout_global(Some(patience)).build();
        request
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .send(message)
    }

    /// Sends a request, and passes on whatever comes in return.
    fn ask(&self, message: &[u8], begins: bool, relay: &Relay) -> Result<(), String> {
        let patience = relay.setup.call_timeout.saturating_add(GRACE);
        let unreached = |error: ureq::Error| match error {
            ureq::Error::Timeout(ureq::Timeout::Global) => {
                format!("it was not answered within {patience:?}")
            }
            error => format!("the server cannot be reached: {error}"),
        };
        let mut response = self.post(message, patience).map_err(unreached)?;
        let status = response.status().as_u16();
        if begins && let Some(session) = response.headers().get(SESSION) {
            self.session().id = Some(session.clone());
        }
        if is_stream(&response) && status == 200 {
            let mut stream =
                BufReader::new(response.into_body().into_with_config().limit(u64::MAX).reader());
            while let Some(line) = next_message(&mut stream, SERVER_LINE_MAX) {
                self.note_version(begins, &line);
                relay.server_says(&line);
            }
            return Ok(());
        }
        let body = read_body(&mut response).map_err(|it| format!("its answer broke off: {it}"))?;
        let line = one_line(&body);
        let is_answer = match head::read(line.trim_ascii()) {
            Ok(Line::One(Head::Response { .. }) | Line::Batch(_)) => true,
            // Something like one: what is wrong with it is told.
            Err(_) => status == 200 && line.starts_with(b"{"),
            Ok(_) => false,
        };
        if is_answer {
            self.note_version(begins, &line);
            relay.server_says(&line);
            return Ok(());
        }
        match status {
            200..=299 => {
                Err(format!("the server answered with HTTP status {status} and no message"))
            }
            404 if self.session().id.is_some() => {
                Err("the server has forgotten the session (HTTP status 404); begin a new one"
                    .to_owned())
            }
            _ => Err(format!("the server refused it with HTTP status {status}")),
        }
    }

    /// Every request after the first names the version that was agreed on.
    fn note_version(&self, begins: bool, line: &[u8]) {
        if !begins {
            return;
        }
        if let Ok(Line::One(Head::Response { outcome: Outcome::Result(result), .. })) =
            head::read(line.trim_ascii())
        {
            let result: Value = serde_json::from_str(result).unwrap_or_default();
            let version = result.get("protocolVersion").and_then(Value::as_str);
            self.session().version = version.and_then(|version| version.parse().ok());
        }
    }
}

fn give_up(relay: &Relay, id: Option<&Id>, why: &str) {
    if let Some(id) = id {
        relay.give_up(id, why);
    }
}

fn pass_on(response: Response<Body>, relay: &Relay) {
    let body = response.into_body().into_with_config().limit(u64::MAX);
    let mut stream = BufReader::new(body.reader());
    while let Some(line) = next_message(&mut stream, SERVER_LINE_MAX) {
        relay.server_says(&line);
    }
}

fn is_stream(response: &Response<Body>) -> bool {
    response.body().mime_type().is_some_and(|kind| kind.eq_ignore_ascii_case(STREAM))
}

fn read_body(response: &mut Response<Body>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    let max = SERVER_LINE_MAX as u64;
    let reader = response.body_mut().with_config().limit(u64::MAX).reader();
    reader.take(max + 1).read_to_end(&mut body)?;
    if body.len() as u64 > max {
        return Err(io::Error::other(format!("it has more than {max} bytes")));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets_and_refused_with_a_password() {
        let shown = |url| HttpTarget::new(url, Vec::new()).map(|target| target.shown());
        assert_eq!(shown("https://a.example/mcp?key=s#x").unwrap(), "https://a.example/mcp");
        assert_eq!(shown("https://u:p@a.example/").unwrap_err(), HeaderFault::Password);
        for url in ["ftp://a.example/", "/mcp", "a.example", ""] {
            assert_eq!(shown(url).unwrap_err(), HeaderFault::Url(url.to_owned()));
        }
    }

    #[test]
    fn a_header_keeps_its_value_to_itself() {
        let header = TargetHeader::new("Authorization", " Bearer abc").unwrap();
        assert_eq!(format!("{header:?}"), r#"TargetHeader { name: "authorization", .. }"#);
        for name in ["content-type", "Mcp-Session-Id", "a b", ""] {
            let fault = TargetHeader::new(name, "x").unwrap_err();
            assert_eq!(fault, HeaderFault::Name(name.to_owned()));
        }
        let fault = TargetHeader::new("x-key", "a\nb").unwrap_err();
        assert_eq!(fault, HeaderFault::Value("x-key".to_owned()));
    }
}
