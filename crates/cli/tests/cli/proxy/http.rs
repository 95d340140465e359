//! A server at an address that forgets, hangs, or is slow to listen.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use countersign_testkit::mcp::StdioServer;
use serde_json::{Value, json};

use super::{call, end, said, workspace};
use crate::place::Place;

/// What a server makes of a message: status, session, and a body; nothing if it never answers.
type Answer = Option<(u16, Option<String>, Value)>;

/// A request that a server has read: whether it is a POST, the session that it names, and its message.
pub(super) struct Asked {
    pub(super) is_post: bool,
    pub(super) session: Option<String>,
    pub(super) message: Value,
}

/// A server on a port of its own, one thread for each connection.
fn serve(answer: impl Fn(Option<&str>, &Value) -> Answer + Send + Sync + 'static) -> String {
    serve_raw(move |asked, stream| {
        let answered = match asked.is_post {
            true => answer(asked.session.as_deref(), &asked.message),
            false => Some((405, None, Value::Null)),
        };
        let Some((status, session, body)) = answered else {
            return until_hung_up(stream);
        };
        let session = session.map_or(String::new(), |it| format!("mcp-session-id: {it}\r\n"));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "HTTP/1.1 {status} x\r\n{session}content-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all((head + &body).as_bytes());
    })
}

/// The same, whose answers are bytes.
pub(super) fn serve_raw(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                if let Some(asked) = take(&stream) {
                    answer(&asked, &mut stream);
                }
            });
        }
    });
    url
}

/// Answers nothing for as long as somebody waits.
pub(super) fn until_hung_up(stream: &mut TcpStream) {
    let _ = stream.read(&mut [0]);
}

fn take(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let is_post = line.starts_with("POST");
    let (mut length, mut session) = (0, None);
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "mcp-session-id" => session = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let message = if is_post { serde_json::from_slice(&body).ok()? } else { Value::Null };
    Some(Asked { is_post, session, message })
}

/// What any server says.
pub(super) fn usual(message: &Value) -> Answer {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "far", "version": "0" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "plain" }, { "name": "hangs" }] }),
        "tools/call" if message["params"]["name"] == json!("hangs") => return None,
        "tools/call" => json!({ "content": [{ "type": "text", "text": "done" }] }),
        _ => json!({}),
    };
    match message.get("id") {
        Some(id) => Some((200, None, json!({ "jsonrpc": "2.0", "id": id, "result": result }))),
        None => Some((202, None, Value::Null)),
    }
}

pub(super) fn connect(place: &Place, url: &str, options: &[&str]) -> StdioServer {
    let all = [&["proxy", "--name", "far", "--http", url], options].concat();
    StdioServer::connect(place.command(&all), &json!({}))
}

#[test]
fn a_session_that_the_server_has_forgotten_is_begun_anew() {
    let place = workspace();
    let begun = Mutex::new(0);
    let url = serve(move |session, message| {
        let mut begun = begun.lock().unwrap();
        if message["method"] == json!("initialize") {
            assert_eq!(session, None, "a new session has no old name");
            *begun += 1;
            let (status, _, body) = usual(message)?;
            return Some((status, Some(format!("s{begun}")), body));
        }
        // The first session ends with its first request.
        let expected = format!("s{begun}");
        match session == Some(expected.as_str()) && (*begun > 1 || message.get("id").is_none()) {
            true => usual(message),
            false => Some((404, None, Value::Null)),
        }
    });
    let mut client = connect(&place, &url, &[]);
    let answer = client.request("tools/list", &json!({}));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("forgotten the session"), "{message}");
    client.initialize(&json!({}));
    assert!(client.request("tools/list", &json!({}))["result"].is_object());
    assert_eq!(said(&call(&mut client, "plain", &json!({}))).0, "done");
    end(&place, &mut client);
}

#[test]
fn calls_that_hang_do_not_keep_others_from_being_made() {
    const AT_ONCE: u64 = 100;
    let place = workspace();
    let url = serve(|_, message| usual(message));
    let mut client = connect(&place, &url, &["--call-timeout", "1"]);
    client.request("tools/list", &json!({}));
    // More in all than may wait at once, had none of them an end.
    for _ in 0..3 {
        for number in 0..AT_ONCE {
            let params = json!({ "name": "hangs", "arguments": { "n": number } });
            client.ask("tools/call", &params);
        }
        for _ in 0..AT_ONCE {
            let (text, failed) = said(&client.next_message());
            assert!(failed && text.contains("it was not answered within 1s"), "{text}");
        }
    }
    assert_eq!(said(&call(&mut client, "plain", &json!({}))).0, "done");
    end(&place, &mut client);
}

#[test]
fn a_notification_that_is_not_taken_keeps_nobody_waiting() {
    let place = workspace();
    let url = serve(|_, message| match message["method"].as_str() {
        Some("notifications/roots/list_changed") => None,
        _ => usual(message),
    });
    let mut client = connect(&place, &url, &[]);
    client.notify("notifications/roots/list_changed");
    let begun = Instant::now();
    assert_eq!(client.request("ping", &json!({}))["result"], json!({}));
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    end(&place, &mut client);
}
