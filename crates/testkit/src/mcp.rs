//! MCP clients for tests: raw lines to a process, raw requests to a port.
//!
//! They speak just enough of the protocol to call tools, and leave room to speak it wrongly.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// How long an answer may take before a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on the standard streams of a process.
#[derive(Debug)]
pub struct StdioServer {
    /// The process.
    pub child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
}

impl StdioServer {
    /// Starts a server, and says nothing to it.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, input, lines, next: 1 }
    }

    /// Starts a server, and begins the connection as a client with these capabilities.
    #[must_use]
    pub fn connect(command: Command, capabilities: &Value) -> Self {
        let mut server = Self::start(command);
        server.initialize(capabilities);
        server
    }

    /// Begins the connection; gives what the server says of itself.
    pub fn initialize(&mut self, capabilities: &Value) -> Value {
        let answer = self.request("initialize", &hello(capabilities));
        self.notify("notifications/initialized");
        answer["result"].clone()
    }

    /// Sends one line.
    pub fn send(&mut self, line: impl AsRef<[u8]>) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_ref()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str) {
        self.send(json!({ "jsonrpc": "2.0", "method": method }).to_string());
    }

    /// Sends a request, and gives its id.
    pub fn ask(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(request.to_string());
        id
    }

    /// The next message of the server.
    pub fn next_message(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|_| panic!("the server says nothing"));
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"))
    }

    /// Every message that is left, once the server has ended.
    pub fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.lines.recv_timeout(PATIENCE).ok())
            .map(|line| serde_json::from_str(&line).unwrap())
            .collect()
    }

    /// Sends a request and waits for its answer.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.next_message();
        assert_eq!(answer["id"], json!(id), "{answer}");
        answer
    }

    /// Calls a tool; gives what it answered, which is the same in both forms.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.request("tools/call", &params);
        assert_ne!(answer["result"]["isError"], json!(true), "{answer}");
        answered(&answer)
    }

    /// Calls a tool that fails; gives what it says.
    pub fn fail(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.request("tools/call", &params);
        assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap()
    }

    /// Hangs up: the server's input has ended.
    pub fn hang_up(&mut self) {
        self.input = None;
    }

    /// Hangs up, and waits for the process; gives its exit code and what it said on standard error.
    pub fn end(&mut self) -> (Option<i32>, String) {
        self.hang_up();
        let status = self.child.wait().unwrap();
        let mut talk = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut talk).unwrap();
        }
        (status.code(), talk)
    }
}

impl Drop for StdioServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a client says first.
fn hello(capabilities: &Value) -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": capabilities,
        "clientInfo": { "name": "test-client", "version": "0.0.1" },
    })
}

/// The structured content of an answer, which must be its text too.
fn answered(answer: &Value) -> Value {
    let structured = answer["result"]["structuredContent"].clone();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(serde_json::from_str::<Value>(text).ok().as_ref(), Some(&structured), "{answer}");
    structured
}

/// A client of a server on a port. Every request has a connection of its own.
#[derive(Debug, Clone)]
pub struct HttpClient {
    address: SocketAddr,
    token: String,
    session: Option<String>,
    next: u64,
}

/// What an HTTP server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The head, in lower case.
    pub head: String,
    /// The body, put together.
    pub body: String,
}

impl HttpClient {
    /// A client that has this token.
    #[must_use]
    pub fn new(address: SocketAddr, token: &str) -> Self {
        Self { address, token: token.to_owned(), session: None, next: 1 }
    }

    /// Begins a session.
    pub fn initialize(&mut self) {
        let answer = self.post(&json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello(&json!({})),
        }));
        assert_eq!(answer.status, 200, "{answer:?}");
        self.session = answer.header("mcp-session-id");
        let noted = self.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        assert_eq!(noted.status, 202, "{noted:?}");
    }

    /// Calls a tool; gives what it answered.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.next += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.post(&json!({
            "jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params,
        }));
        let data = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let message = data.filter_map(|data| serde_json::from_str::<Value>(data).ok()).next_back();
        answered(&message.unwrap_or_else(|| panic!("{answer:?}")))
    }

    /// Sends a message as it should be sent.
    pub fn post(&self, message: &Value) -> HttpAnswer {
        let body = message.to_string();
        let session = self.session.as_ref().map(|id| format!("mcp-session-id: {id}\r\n"));
        let head = format!(
            "host: {}\r\nauthorization: Bearer {}\r\n{}content-length: {}\r\n",
            self.address,
            self.token,
            session.unwrap_or_default(),
            body.len(),
        );
        self.raw(&head, body.as_bytes())
    }

    /// Sends a request with these lines in its head, and this body.
    pub fn raw(&self, head: &str, body: &[u8]) -> HttpAnswer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{head}\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        HttpAnswer::read(stream)
    }
}

impl HttpAnswer {
    /// Reads an answer to its end. A connection that breaks off after the head has answered too.
    #[must_use]
    pub fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let head = head.to_lowercase();
        let body = match head.contains("transfer-encoding: chunked") {
            true => joined(body),
            false => body.to_owned(),
        };
        Self { status, head, body }
    }

    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let line = self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.map(str::to_owned)
    }
}

/// A body that came in chunks.
fn joined(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}
