//! The protocol over HTTP: who is let in, and what nobody can do to the others.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use countersign_testkit::mcp::{HttpAnswer, HttpClient};
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{change, done, workspace};
use crate::place::Place;

/// A server on a port of its own.
pub(super) struct HttpProcess {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) token_file: std::path::PathBuf,
}

impl HttpProcess {
    pub(super) fn start(place: &Place) -> Self {
        let mut command = place.command(&["mcp", "--http", "127.0.0.1:0"]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.next().unwrap();
        let address = line.strip_prefix("listening on http://").unwrap();
        let address = address.strip_suffix("/mcp").unwrap().parse().unwrap();
        let told = lines.next().unwrap();
        let token_file = told.split_once("the token in ").unwrap().1.into();
        // Whatever else is said must not block the server.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, token_file }
    }

    fn token(&self) -> String {
        fs::read_to_string(&self.token_file).unwrap().trim_end().to_owned()
    }

    fn client(&self) -> HttpClient {
        HttpClient::new(self.address, &self.token())
    }

    /// Sends a request with these lines in its head.
    fn head(&self, lines: &[String]) -> HttpAnswer {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        self.client().raw(&format!("{lines}content-length: 2\r\n"), b"{}")
    }
}

impl Drop for HttpProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_session_is_a_recording_of_its_own() {
    let place = workspace();
    let server = HttpProcess::start(&place);
    let mut clients = [server.client(), server.client()];
    let sessions = clients.each_mut().map(|client| {
        client.initialize();
        let verdict = client.call("capseal_gate", &change(1));
        assert_eq!(verdict["decision"], json!("approve"), "{verdict}");
        let recorded = client.call("capseal_record", &done(&change(1), &verdict["gate_token"]));
        assert_eq!(recorded["gating"], json!("token"));
        assert_eq!(recorded["receipt_chain_length"], json!(1));
        recorded["session_id"].clone()
    });
    assert_ne!(sessions[0], sessions[1]);
}

#[test]
fn whoever_does_not_belong_here_is_turned_away() {
    let place = workspace();
    let server = HttpProcess::start(&place);
    let host = format!("host: {}", server.address);
    let bearer = format!("authorization: Bearer {}", server.token());
    let line = |text: &str| text.to_owned();
    for (lines, status) in [
        (vec![line("host: evil.example"), bearer.clone()], 421),
        (vec![line("host: 127.0.0.1"), bearer.clone()], 421),
        (vec![host.clone(), host.clone(), bearer.clone()], 400),
        (vec![host.clone(), bearer.clone(), line("origin: http://evil.example")], 403),
        (vec![host.clone(), bearer.clone(), line("origin: null")], 403),
        (vec![host.clone(), bearer.clone(), line("sec-fetch-site: cross-site")], 403),
        (vec![host.clone()], 401),
        (vec![host.clone(), line("authorization: Bearer 0123456789abcdef0123456789abcdef")], 401),
        // Who belongs here is told what is wrong with the message instead.
        (vec![host.clone(), bearer.clone()], 415),
    ] {
        let answer = server.head(&lines);
        let expected = if status == 415 { answer.status.max(400) } else { status };
        assert_eq!(answer.status, expected, "{lines:?}: {answer:?}");
        assert!(![421, 403, 401].contains(&answer.status) || status == answer.status);
        assert!(!answer.head.contains("access-control"), "{answer:?}");
    }
}

#[test]
fn a_request_without_a_session_cannot_call_a_tool() {
    let place = workspace();
    let server = HttpProcess::start(&place);
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "capseal_gate", "arguments": change(1) },
    });
    let answer = server.client().post(&call);
    assert!(answer.status >= 400 || answer.body.contains("\"error\""), "{answer:?}");
    let head = format!(
        "host: {}\r\nauthorization: Bearer {}\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: capseal_gate\r\ncontent-length: {}\r\n",
        server.address,
        server.token(),
        call.to_string().len(),
    );
    let answer = server.client().raw(&head, call.to_string().as_bytes());
    assert!(answer.status >= 400 || answer.body.contains("\"error\""), "{answer:?}");
    assert!(!place.path().join(".capseal").exists(), "nothing was recorded");
}

#[test]
fn a_large_body_is_refused_before_it_is_read() {
    let place = workspace();
    let server = HttpProcess::start(&place);
    let head = format!(
        "host: {}\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n",
        server.address,
        server.token(),
        100 << 20,
    );
    assert_eq!(server.client().raw(&head, b"").status, 413, "by its length");
    // Without a length it is refused when it has become too large.
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
         transfer-encoding: chunked\r\n\r\n",
        server.address,
        server.token(),
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [format!("{:x}\r\n", 1 << 20).as_bytes(), &vec![b'x'; 1 << 20], b"\r\n"].concat();
    let mut sent = 0_usize;
    while sent < 100 && stream.write_all(&chunk).is_ok() {
        sent += 1;
    }
    assert!(sent < 40, "{sent} MiB were taken");
}

#[test]
fn slow_connections_neither_keep_a_client_out_nor_slow_it_down() {
    let place = workspace();
    let server = HttpProcess::start(&place);
    let mut client = server.client();
    client.initialize();
    let slow: Vec<TcpStream> = (0..600)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: ");
            stream
        })
        .collect();
    let mut times: Vec<Duration> = (0..50)
        .map(|_| {
            let begun = Instant::now();
            client.call("capseal_status", &json!({}));
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    assert!(times[48] < Duration::from_secs(2), "{times:?}");
    // The oldest had to make room for the newest.
    let mut oldest = &slow[0];
    oldest.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(matches!(oldest.read(&mut [0; 1]), Ok(0) | Err(_)));
}

#[test]
fn a_server_that_is_told_to_end_ends_though_a_client_listens() {
    let place = workspace();
    let mut server = HttpProcess::start(&place);
    let mut client = server.client();
    client.initialize();
    client.call("capseal_record", &done(&change(1), &Value::Null));
    std::process::Command::new("kill")
        .args(["-TERM", &server.child.id().to_string()])
        .status()
        .unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_address_for_other_machines_must_be_meant() {
    let place = workspace();
    assert_snapshot!(place.run(&["mcp", "--http", "0.0.0.0:0"]), @r"
    exit 2
    --- stdout

    --- stderr
    error: 0.0.0.0:0 can be reached from other machines
    hint: use 127.0.0.1:7317, or add `--allow-remote` if you mean it
    ");
}

#[test]
fn a_token_that_others_can_read_is_not_used() {
    let place = workspace();
    let config = place.path().join("config");
    fs::write(config.join("mcp-token"), "0123456789abcdef0123456789abcdef").unwrap();
    fs::set_permissions(config.join("mcp-token"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_snapshot!(place.run(&["mcp", "--http", "127.0.0.1:0"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: the token file `$PLACE/config/mcp-token` has mode 644: others than its owner can use it
    hint: delete `$PLACE/config/mcp-token`, so that a new one is made, and give that to your clients
    ");
    let inside = ["mcp", "--http", "127.0.0.1:0", "--token-file", "token"];
    assert_snapshot!(place.run(&inside), @r"
    exit 1
    --- stdout

    --- stderr
    error: the token file `token` lies in the workspace `$PLACE`, where agents can read it
    hint: name a file elsewhere
    ");
}
