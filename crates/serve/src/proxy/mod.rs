//! A proxy between an MCP client and somebody else's server: every call of a tool is judged before it
//! runs, and recorded; everything else passes as it came.
//!
//! The client is on our standard streams; the server is a process of ours or speaks HTTP. Messages are
//! bytes here: no model of the protocol stands between the two sides, so what it does not know passes
//! too. Threads wait for the streams; nothing here is async.

mod calls;
mod facts;
pub mod framing;
mod head;
mod http;
mod lines;
mod listing;
mod lists;
mod open;
mod process;
mod questions;
mod relay;
mod sse;
mod upstream;
mod words;

use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use countersign_format::id::Ulid;
use countersign_runtime::actions::{AgentRuntime, Enforcement};
use countersign_runtime::secrets::Redactor;
use countersign_runtime::{Workspace, WorkspaceError};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use head::Head;
pub use http::{HeaderFault, HttpTarget, TargetHeader};
use lines::LineRead;
use process::ServerProcess;
use relay::Relay;
use upstream::Upstream;

/// Bytes of one message of a client, and of one of a server.
const CLIENT_LINE_MAX: usize = 32 << 20;
const SERVER_LINE_MAX: usize = 64 << 20;
/// How long calls may go on that are under way when the client hangs up.
const HANG_UP_PATIENCE: Duration = Duration::from_secs(30);
/// How long the last message may take, once everything has ended.
const TURN_PATIENCE: Duration = Duration::from_secs(5);
/// The last word of a recording whose connection ended as it should.
const CLOSED: &str = "the connection was closed";

/// What a proxy is started with.
#[derive(Debug)]
pub struct ProxySetup {
    /// The workspace that is recorded in.
    pub workspace: Workspace,
    /// Takes secrets out of what is recorded.
    pub redactor: Redactor,
    /// Whether the gate's word binds.
    pub enforcement: Enforcement,
    /// What the agent is called, whatever its client says.
    pub agent: Option<String>,
    /// What the server is called.
    pub name: String,
    /// Where the server is.
    pub target: ProxyTarget,
    /// How long a call waits for a person whom the client cannot ask.
    pub wait: Duration,
    /// How long a server has to answer a call.
    pub call_timeout: Duration,
}

/// Where a server is.
#[derive(Debug)]
pub enum ProxyTarget {
    /// A program to start, with its arguments.
    Command(Vec<String>),
    /// An address.
    Http(HttpTarget),
}

impl ProxySetup {
    /// What the recording says of the server.
    fn links(&self) -> Value {
        let clean = |text: &str| self.redactor.redact_text(text).0;
        let name = clean(&self.name);
        let server = match &self.target {
            ProxyTarget::Command(command) => {
                let mut command = json!(command);
                self.redactor.redact_value(&mut command);
                json!({ "name": name, "command": command })
            }
            ProxyTarget::Http(http) => json!({ "name": name, "url": clean(&http.shown()) }),
        };
        json!({ "server": server })
    }
}

/// How a proxy ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyEnd {
    /// The recording, if anything was recorded.
    pub trace_id: Option<Ulid>,
    /// Messages of the server that were not passed on.
    pub dropped: u64,
}

/// Why a proxy could not start, or ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The server could not be started.
    #[error("cannot start `{program}`")]
    NoServer {
        /// The program.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// The system does not give what a proxy needs.
    #[error("cannot start the proxy")]
    Start(#[source] Box<dyn Error + Send + Sync>),
    /// The server is gone.
    #[error("{reason}")]
    ServerEnded {
        /// How it ended.
        reason: String,
    },
    /// The recording could not be ended.
    #[error("the recording could not be closed")]
    Unclosed(#[source] WorkspaceError),
}

/// What ends a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    /// The client sends nothing more.
    ClientHungUp,
    /// The process is told to end.
    Told,
    /// The server is gone, or cannot be reached any more.
    ServerEnded(String),
}

/// Stands between the client on the standard streams and the server until one of them ends, or the
/// process is told to. Calls that are under way when the client hangs up are finished.
///
/// # Errors
/// The server cannot be started, or ended before the client; or the recording could not be closed.
pub fn run_proxy(setup: ProxySetup) -> Result<ProxyEnd, ProxyError> {
    let (events, endings) = channel();
    let (server, output) = match &setup.target {
        ProxyTarget::Command(command) => {
            let (process, output) = ServerProcess::start(command).map_err(|source| {
                let program = command.first().cloned().unwrap_or_default();
                ProxyError::NoServer { program, source }
            })?;
            (Upstream::Process(process), Some(output))
        }
        ProxyTarget::Http(target) => {
            let http = http::HttpUpstream::new(target);
            (Upstream::Http(http.map_err(|error| ProxyError::Start(error.into()))?), None)
        }
    };
    let client: Box<dyn Write + Send> = Box::new(io::stdout());
    let relay = Arc::new(Relay::new(setup, server, client, events)?);
    let begun = begin(&relay, output);
    if let Err(error) = begun {
        relay.server.end();
        return Err(ProxyError::Start(error.into()));
    }
    let ending = endings.recv().unwrap_or(Ending::Told);
    finish(&relay, &ending, &endings)
}

/// Starts whoever waits for something.
fn begin(relay: &Arc<Relay>, output: Option<std::process::ChildStdout>) -> io::Result<()> {
    thread("signals", wait_for_signal(relay)?)?;
    let of = Arc::clone(relay);
    thread("deadlines", move || {
        loop {
            let (id, call) = of.open.wait_for_overdue();
            let patience = of.setup.call_timeout;
            let why = format!("it was not answered within {patience:?}");
            of.end_unanswered(&id, open::OpenRequest::Call(call), &why);
            if of.server.is_stuck(patience) {
                of.tell(Ending::ServerEnded("the server takes no messages".to_owned()));
                return;
            }
            // A server that takes no messages must not keep others from their deadlines.
            let to = Arc::clone(&of);
            let _ = thread("cancel", move || {
                let cancelled = words::cancelled(&id.to_json(), "the call took too long");
                let method = "notifications/cancelled".to_owned();
                to.to_server(&cancelled, Some(&Head::Notification { method, params: None }));
            });
        }
    })?;
    if let Some(output) = output {
        let of = Arc::clone(relay);
        thread("server", move || {
            let _end = Told(&of, Ending::ServerEnded("the server has ended".to_owned()));
            read_server(&of, &mut BufReader::with_capacity(64 << 10, output));
        })?;
    }
    let of = Arc::clone(relay);
    thread("client", move || {
        let _end = Told(&of, Ending::ClientHungUp);
        let mut input = BufReader::with_capacity(64 << 10, io::stdin());
        read_client(&of, &mut input);
    })
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Tells of an end, also of one by a panic.
struct Told<'r>(&'r Relay, Ending);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.tell(self.1.clone());
    }
}

fn wait_for_signal(relay: &Arc<Relay>) -> io::Result<impl FnOnce() + Send + 'static> {
    let (mut reader, writer) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    let relay = Arc::clone(relay);
    Ok(move || {
        let mut one = [0];
        if reader.read_exact(&mut one).is_ok() {
            relay.tell(Ending::Told);
        }
    })
}

fn read_client(relay: &Arc<Relay>, input: &mut impl BufRead) {
    loop {
        match lines::next(input, CLIENT_LINE_MAX) {
            LineRead::Line(line) => relay.client_says(&line),
            LineRead::TooLong(id) => {
                let why = format!("a message has at most {CLIENT_LINE_MAX} bytes");
                relay.to_client(&words::error(id.as_ref(), -32600, &why));
            }
            LineRead::End => return,
        }
    }
}

fn read_server(relay: &Relay, output: &mut impl BufRead) {
    loop {
        match lines::next(output, SERVER_LINE_MAX) {
            LineRead::Line(line) => relay.server_says(&line),
            LineRead::TooLong(id) => relay.too_long_from_server(id.as_ref(), SERVER_LINE_MAX),
            LineRead::End => return,
        }
    }
}

/// Ends both sides and the recording.
fn finish(
    relay: &Arc<Relay>,
    ending: &Ending,
    endings: &Receiver<Ending>,
) -> Result<ProxyEnd, ProxyError> {
    relay.hung_up.store(true, Ordering::SeqCst);
    if *ending == Ending::ClientHungUp {
        let until = Instant::now() + HANG_UP_PATIENCE;
        let is_enough = || endings.try_iter().any(|next| next != Ending::ClientHungUp);
        relay.open.wait_for_server(until, is_enough);
        // What was answered last may not have been passed on yet.
        relay.wait_for_turn(TURN_PATIENCE);
    }
    let how = match ending {
        Ending::ServerEnded(_) => Some(relay.server.end()),
        Ending::ClientHungUp | Ending::Told => None,
    };
    relay.wait_for_turn(TURN_PATIENCE);
    let why = match (&how, ending) {
        (Some(how), _) => how.as_str(),
        (None, Ending::ClientHungUp) => "the client hung up",
        (None, _) => "the proxy was told to end",
    };
    for (id, request) in relay.open.end_all() {
        relay.end_unanswered(&id, request, why);
    }
    let runtime = relay.runtime_if_any();
    let trace_id = runtime.and_then(|runtime| runtime.status().trace_id);
    let concluded = runtime.map_or(Ok(()), conclude);
    // Only now: clients do not wait long, and a server may take its time to end.
    let reason = how.or_else(|| {
        relay.server.end();
        None
    });
    concluded.map_err(ProxyError::Unclosed)?;
    match reason {
        Some(reason) => Err(ProxyError::ServerEnded { reason }),
        None => Ok(ProxyEnd { trace_id, dropped: relay.dropped() }),
    }
}

/// Ends the recording. A call whose end is just being recorded, by whoever gave it up, is waited for.
fn conclude(runtime: &AgentRuntime) -> Result<(), WorkspaceError> {
    const LOOK_EVERY: Duration = Duration::from_millis(20);
    if runtime.status().trace_id.is_none() {
        return Ok(());
    }
    let until = Instant::now() + TURN_PATIENCE;
    while Instant::now() < until && runtime.look(|state| !state.executions.is_empty())? {
        std::thread::sleep(LOOK_EVERY);
    }
    runtime.conclude(CLOSED).map(drop)
}

impl fmt::Debug for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Told").field(&self.1).finish()
    }
}
