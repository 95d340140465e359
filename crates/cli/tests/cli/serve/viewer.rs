//! A running viewer, and requests to it as bytes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::place::Place;

/// How long an answer may take before a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A viewer on a port of its own.
pub(super) struct Viewer {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) token: String,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The code of an error.
    pub(super) fn code(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap().to_owned())
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

impl Viewer {
    /// Serves the workspace of `place`.
    pub(super) fn start(place: &Place) -> Self {
        Self::of(place.command(&["serve", "--port", "0", "--json"]))
    }

    pub(super) fn of(mut command: Command) -> Self {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = piped.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let address = told["address"].as_str().unwrap().parse().unwrap();
        let (page, token) = told["url"].as_str().unwrap().split_once("#token=").unwrap();
        assert_eq!(page, format!("http://{address}/"));
        Self { child, address, token: token.to_owned() }
    }

    /// Sends one request, whose head has these lines besides what every head needs.
    pub(super) fn send(&self, first: &str, lines: &[&str], body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let head = format!("{first} HTTP/1.1\r\nconnection: close\r\n{lines}\r\n");
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut body = bytes[end + 4..].to_vec();
        if head.to_lowercase().contains("transfer-encoding: chunked") {
            body = unchunked(&body);
        }
        Answer { status, head, body }
    }

    fn own_lines(&self) -> [String; 2] {
        [format!("host: {}", self.address), format!("authorization: Bearer {}", self.token)]
    }

    /// Asks the API.
    pub(super) fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[])
    }

    pub(super) fn get_with(&self, path: &str, more: &[&str]) -> Answer {
        let own = self.own_lines();
        let lines: Vec<&str> = own.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.send(&format!("GET /api/v1{path}"), &lines, b"")
    }

    /// What the API answers, which must be an answer.
    pub(super) fn ask(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Answer {
        let body = body.to_string();
        let own = self.own_lines();
        let length = format!("content-length: {}", body.len());
        let lines = [own[0].as_str(), &own[1], "content-type: application/json", &length];
        self.send(&format!("POST /api/v1{path}"), &lines, body.as_bytes())
    }

    /// Listens to news until one of this kind comes; gives what it says.
    pub(super) fn listen(&self, query: &str) -> News {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let own = self.own_lines().join("\r\n");
        write!(stream, "GET /api/v1/live{query} HTTP/1.1\r\n{own}\r\n\r\n").unwrap();
        News { lines: BufReader::new(stream) }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stream of news.
pub(super) struct News {
    lines: BufReader<TcpStream>,
}

impl News {
    /// The next message of this name.
    pub(super) fn next(&mut self, name: &str) -> Value {
        let mut named = false;
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "no more news before `{name}`");
            if let Some(found) = line.trim_end().strip_prefix("event: ") {
                named = found == name;
            } else if let Some(data) = line.trim_end().strip_prefix("data: ").filter(|_| named) {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + size + 4..];
    }
    whole
}

/// Every file below `dir` with its bytes, without those that are caches.
pub(super) fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&path));
        } else if !name.starts_with("index.sqlite") {
            found.push((path.clone(), fs::read(path).unwrap()));
        }
    }
    found.sort();
    found
}

/// A workspace with a session that ended.
pub(super) fn with_session() -> (Place, String) {
    let place = Place::empty();
    assert_eq!(place.run(&["init"]).code, 0);
    let ran = place.run(&["run", "--", "echo", "hello viewer"]);
    assert_eq!(ran.code, 0, "{ran}");
    let listed = place.run(&["trace", "list", "--json"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    let listed: Value = serde_json::from_str(&text).unwrap();
    let id = listed[0]["trace_id"].as_str().unwrap().to_owned();
    (place, id)
}
