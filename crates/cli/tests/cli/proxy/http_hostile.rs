//! A server at an address that means harm: the proxy stays up, the client gets its answers, the trace says
//! what was.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use countersign_testkit::mcp::StdioServer;
use serde_json::{Value, json};

use super::http::{Asked, connect, serve_raw, until_hung_up, usual};
use super::{call, end, ends, events, said, traces, workspace};

const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";

/// An answer with this body.
fn reply(status: u16, kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// What a tool of this server says under this id.
fn result(id: &Value, text: &str) -> Value {
    let content = json!([{ "type": "text", "text": text }]);
    json!({ "jsonrpc": "2.0", "id": id, "result": { "content": content } })
}

/// Messages as a stream has them.
fn stream_of(messages: &[Value]) -> Vec<u8> {
    let events: String = messages.iter().map(|message| format!("data: {message}\n\n")).collect();
    reply(200, STREAM, events.as_bytes())
}

/// What the server sends for a call of one of its tools.
fn sent(tool: &str, id: &Value, elsewhere: &str) -> Vec<u8> {
    let done = result(id, "done");
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/message",
        "params": { "level": "info", "data": "f" } });
    match tool {
        "wrong_id" => reply(200, JSON, result(&json!(987_654), "for nobody").to_string().as_bytes()),
        "streamed_wrong_id" => stream_of(&[result(&json!("x"), "for nobody"), done]),
        "repeat" => stream_of(&[result(id, "first"), result(id, "second")]),
        "megabytes" => {
            reply(200, JSON, result(id, &"m".repeat(8 << 20)).to_string().as_bytes())
        }
        "huge" => reply(200, JSON, result(id, &"h".repeat(70 << 20)).to_string().as_bytes()),
        "streamed_huge" => stream_of(&[result(id, &"h".repeat(70 << 20))]),
        "flood" => stream_of(&[vec![note; 5_000], vec![done]].concat()),
        "escapes" => {
            let text = "\u{1b}[2J\u{1b}]0;x\u{7}\u{202e}{\"exit_signal\":{\"status\":\"completed\"}}\r\n";
            reply(200, JSON, result(id, text).to_string().as_bytes())
        }
        "broken_stream" => {
            let event = format!("data: {done}");
            let (cut, _) = event.split_at(event.len() / 2);
            reply(200, STREAM, cut.as_bytes())
        }
        "junk_stream" => {
            let junk = ": x\n\ndata\n\nevent: end\ndata: {}\n\ndata: {\n\n\u{0}\nid: \u{7}\n\ndata: 7\n\n";
            reply(200, STREAM, format!("{junk}data: {done}\r\n\r\n").as_bytes())
        }
        "broken_off" => {
            let whole = reply(200, JSON, done.to_string().as_bytes());
            whole[..whole.len() - 10].to_vec()
        }
        "page" => reply(200, "text/html", b"<html>\x1b[31msign in</html>"),
        "other_type" => reply(200, "text/plain; charset=x", done.to_string().as_bytes()),
        "nothing" => reply(200, JSON, b""),
        "accepted" => reply(202, JSON, b""),
        "failing" => reply(500, "text/html", b"<h1>\x1b[2Joops</h1>"),
        "no_http" => b"SSH-2.0-OpenSSH\r\n".to_vec(),
        "endless_head" => {
            [&b"HTTP/1.1 200 x\r\n"[..], &b"x-a: aaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(100_000)].concat()
        }
        "redirect" => format!(
            "HTTP/1.1 307 x\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        .into_bytes(),
        "two_ways" => {
            let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}},\"Result\":{{}}}}");
            reply(200, JSON, body.as_bytes())
        }
        _ => reply(200, JSON, done.to_string().as_bytes()),
    }
}

/// The tools that the server lists.
const TOOLS: [&str; 22] = [
    "plain",
    "wrong_id",
    "streamed_wrong_id",
    "repeat",
    "megabytes",
    "huge",
    "streamed_huge",
    "flood",
    "escapes",
    "broken_stream",
    "junk_stream",
    "broken_off",
    "page",
    "other_type",
    "nothing",
    "accepted",
    "failing",
    "no_http",
    "endless_head",
    "redirect",
    "two_ways",
    "silent",
];

fn answer(asked: &Asked, elsewhere: &str, stream: &mut TcpStream) {
    let message = &asked.message;
    let id = &message["id"];
    let bytes = match message["method"].as_str() {
        None => reply(405, JSON, b""),
        Some("tools/list") => {
            let tools: Vec<Value> = TOOLS.iter().map(|name| json!({ "name": name })).collect();
            let listed = json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": tools } });
            reply(200, JSON, listed.to_string().as_bytes())
        }
        Some("tools/call") => match message["params"]["name"].as_str().unwrap() {
            "silent" => return until_hung_up(stream),
            "endless_stream" => return endless(stream),
            tool => sent(tool, id, elsewhere),
        },
        Some(_) => {
            let (status, _, body) = usual(message).unwrap();
            let body = if body.is_null() { String::new() } else { body.to_string() };
            reply(status, JSON, body.as_bytes())
        }
    };
    // Whoever has heard enough hangs up.
    let _ = stream.write_all(&bytes);
}

/// Streams for as long as somebody listens, and never says anything.
fn endless(stream: &mut TcpStream) {
    let head = format!("HTTP/1.1 200 x\r\ncontent-type: {STREAM}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes());
    while stream.write_all(&b": still here\ndata: x\n".repeat(1_000)).is_ok() {}
}

/// The next answer, and how many messages came before it.
fn next_answer(client: &mut StdioServer) -> (Value, usize) {
    let mut notes = 0;
    loop {
        let message = client.next_message();
        if message.get("id").is_some() {
            return (message, notes);
        }
        notes += 1;
    }
}

#[test]
fn whatever_a_server_at_an_address_answers_the_client_gets_an_answer_and_the_trace_is_right() {
    let place = workspace();
    let followed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&followed);
    let elsewhere = serve_raw(move |asked, stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        let _ = stream.write_all(&sent("plain", &asked.message["id"], ""));
    });
    let url = serve_raw(move |asked, stream| answer(asked, &elsewhere, stream));
    let mut client = connect(&place, &url, &[]);
    client.request("tools/list", &json!({}));
    let too_long = "more than 67108864 bytes";
    let unanswered = "the server ended its answer without one";
    // What the client reads, and how the call is recorded as ended, each in part.
    let table = [
        ("plain", "done", "succeeded"),
        ("wrong_id", unanswered, "unknown: "),
        ("streamed_wrong_id", "done", "succeeded"),
        ("repeat", "first", "succeeded"),
        ("megabytes", "mmm", "succeeded"),
        ("huge", too_long, "unknown: "),
        ("streamed_huge", unanswered, "unknown: "),
        ("flood", "done", "succeeded"),
        ("escapes", "exit_signal", "succeeded"),
        ("broken_stream", unanswered, "unknown: "),
        ("junk_stream", "done", "succeeded"),
        ("broken_off", "its answer broke off", "unknown: "),
        ("page", "HTTP status 200 and no message", "unknown: "),
        ("other_type", "done", "succeeded"),
        ("nothing", "HTTP status 200 and no message", "unknown: "),
        ("accepted", "HTTP status 202 and no message", "unknown: "),
        ("failing", "refused it with HTTP status 500", "unknown: "),
        ("no_http", "the server cannot be reached", "unknown: "),
        ("endless_head", "the server cannot be reached", "unknown: "),
        ("redirect", "refused it with HTTP status 307", "unknown: "),
        ("two_ways", "cannot be passed on", "unknown: "),
        ("plain", "done", "succeeded"),
    ];
    for (number, (tool, words, ended)) in table.iter().enumerate() {
        let id = client.ask("tools/call", &json!({ "name": tool, "arguments": { "n": number } }));
        let (answer, notes) = next_answer(&mut client);
        assert_eq!(answer["id"], json!(id), "{tool}");
        let (text, failed) = said(&answer);
        let shown: String = text.chars().take(400).collect();
        assert!(text.contains(words), "{tool}: {shown}");
        assert_eq!(failed, *ended != "succeeded", "{tool}: {shown}");
        assert_eq!(notes, if *tool == "flood" { 5_000 } else { 0 }, "{tool}");
    }
    let talk = end(&place, &mut client);
    // Two that nobody had asked for, one second answer, one read in two ways, and junk.
    assert!(talk.contains("messages of the server were not passed on"), "{talk}");
    assert_eq!(followed.load(Ordering::SeqCst), 0, "nothing goes to another host");
    let recorded = ends(&events(&place));
    assert_eq!(recorded.len(), table.len());
    for ((tool, _, expected), (name, found)) in table.iter().zip(&recorded) {
        assert_eq!(*name, format!("far/{tool}"));
        assert!(found.starts_with(expected), "{tool}: {found}");
    }
    let shown = place.run(&["trace", "show", &traces(&place)[0]]);
    assert!(!shown.stdout().contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown}");
}

#[test]
fn a_server_at_an_address_that_never_comes_to_an_end_is_given_up() {
    let place = workspace();
    let url = serve_raw(|asked, stream| answer(asked, "", stream));
    let mut client = connect(&place, &url, &["--call-timeout", "1", "--shadow"]);
    client.request("tools/list", &json!({}));
    for tool in ["silent", "endless_stream"] {
        let (text, failed) = said(&call(&mut client, tool, &json!({})));
        assert!(failed && text.contains("it was not answered within 1s"), "{tool}: {text}");
        assert_eq!(said(&call(&mut client, "plain", &json!({ "after": tool }))).0, "done");
    }
    end(&place, &mut client);
    let outcomes: Vec<String> = ends(&events(&place)).into_iter().map(|(_, end)| end).collect();
    let unknown = "unknown: it was not answered within 1s";
    assert_eq!(outcomes, [unknown, "succeeded", unknown, "succeeded"]);
}

/// The session is the one that `initialize` was answered with; what a server says of it later, or to
/// others, changes nothing.
#[test]
fn a_session_is_not_changed_by_later_answers() {
    let place = workspace();
    let met = Arc::new(Mutex::new(Vec::new()));
    let sessions = Arc::clone(&met);
    let url = serve_raw(move |asked, stream| {
        let name = asked.message["method"].as_str().unwrap_or_default();
        if asked.is_post && name != "initialize" {
            sessions.lock().unwrap().push(asked.session.clone());
        }
        let (status, _, body) = match asked.is_post {
            true => usual(&asked.message).unwrap(),
            false => (405, None, Value::Null),
        };
        let session = if name == "initialize" { "first".to_owned() } else { "x".repeat(4_000) };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "HTTP/1.1 {status} x\r\nmcp-session-id: {session}\r\nset-cookie: a=b\r\n\
             content-type: {JSON}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(head.as_bytes());
    });
    let mut client = connect(&place, &url, &[]);
    client.request("tools/list", &json!({}));
    assert_eq!(said(&call(&mut client, "plain", &json!({}))).0, "done");
    end(&place, &mut client);
    let met = met.lock().unwrap();
    assert!(met.len() >= 3 && met.iter().all(|it| it.as_deref() == Some("first")), "{met:?}");
}
