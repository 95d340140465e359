//! Messages between MCP clients and servers: nobody else may read one differently than the proxy.

use std::fmt;
use std::io::BufReader;

use countersign_serve::framing::{
    MessageHead, MessageSort, call_by_the_library, heads, lines, message_id, messages_of_events,
    method_at_server, plain_call, tool_names,
};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::Target;
use crate::json::has_a_member_twice;

pub(crate) const MESSAGE: Target = Target {
    name: "mcp_message",
    holds: |data| message_holds(data, heads),
    twin: |data| message_holds(data, |line| heads(line).or_else(|why| careless(line).ok_or(why))),
    tries: 20_000,
    words: WORDS,
};

pub(crate) const CALL: Target = Target {
    name: "mcp_call",
    holds: |data| call_holds(data, plain_call),
    twin: |data| call_holds(data, |line| plain_call(&without_meta(line)?)),
    tries: 20_000,
    words: WORDS,
};

pub(crate) const TOOL_LIST: Target = Target {
    name: "mcp_tool_list",
    holds: |data| list_holds(data, tool_names),
    twin: |data| list_holds(data, |text| tool_names(text).or_else(|_| Ok(names(text)))),
    tries: 15_000,
    words: WORDS,
};

const WORDS: &str = "{·}·[·]·,·:·\"·\\u006d·\\·\"jsonrpc\":\"2.0\"·\"id\":·\"ID\":·\"method\":·\
        \"Method\":·\"tools/call\"·\"tools/list\"·\"notifications/cancelled\"·\"params\":·\"arguments\":{·\"_meta\":{·\"progressToken\":·\
        \"result\":·\"error\":·null·1·1.0·1e3·-0·\"x\"·\r·\n·\r\n·data: ·event: ·\
        event: message\n·\n\n·: \n·\"tools\":[·\"name\":·\"description\":·\"inputSchema\":·\
        \"nextCursor\":·\"cursor\":·\u{17f}·\u{212a}·\\ud800·{\"name\":\"a\"},· ·\u{c}·\
        \u{85}·\u{2028}";

type Heads = Result<Vec<MessageHead>, String>;

/// What a reader makes of a line that takes whatever its JSON library gives.
fn careless(line: &[u8]) -> Option<Vec<MessageHead>> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let method = value.get("method")?.as_str()?.to_owned();
    let sort = match value.get("id") {
        Some(_) => MessageSort::Request,
        None => MessageSort::Notification,
    };
    let carried = value.get("params").map(ToString::to_string);
    let id = value.get("id").cloned();
    Some(vec![MessageHead { sort, id, method: Some(method), carried }])
}

fn message_holds(data: &[u8], heads: fn(&[u8]) -> Heads) {
    framing_holds(data);
    for line in data.split(|byte| *byte == b'\n').take(8) {
        if let Ok(found) = heads(line) {
            read_alike(line, &found);
        }
    }
}

/// Other readers find the same messages: one that takes the last of two members, one that takes the
/// first, and our own server.
fn read_alike(line: &[u8], found: &[MessageHead]) {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.trim_ascii().is_empty() {
        return assert!(found.is_empty(), "a message in nothing");
    }
    if let Ok(value) = serde_json::from_slice::<Value>(line) {
        let all = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        assert_eq!(all.len(), found.len(), "another number of messages");
        for (value, head) in all.iter().zip(found) {
            last_wins(value, head);
        }
    }
    if let Ok(members) = serde_json::from_slice(line)
        && let [head] = found
    {
        first_wins(&members, head);
    }
    if let (Some(method), [head]) = (method_at_server(line), found) {
        assert_eq!(head.method.as_ref(), Some(&method), "our server reads another method");
    }
    if let [head] = found
        && let (MessageSort::Response, Some(id)) = (head.sort, message_id(line))
    {
        assert_eq!(Some(id), head.id, "told by another id");
    }
}

fn last_wins(value: &Value, head: &MessageHead) {
    let member = |name: &str| value.get(name).filter(|value| !value.is_null());
    assert_eq!(member("method").and_then(Value::as_str), head.method.as_deref(), "the method");
    let carried = match head.sort {
        MessageSort::Request | MessageSort::Notification => value.get("params").cloned(),
        MessageSort::Response => member("error").or_else(|| value.get("result")).cloned(),
        MessageSort::Orphan => return,
    };
    let found = head
        .carried
        .as_ref()
        .map(|text| serde_json::from_str::<Value>(text).expect("what is carried is a JSON value"));
    assert_eq!(found, carried, "what is carried");
    match (&head.id, value.get("id")) {
        (Some(own), Some(theirs)) => {
            let number = |value: &Value| value.as_f64().map(|it| it.to_bits());
            assert!(own == theirs || number(own) == number(theirs), "{own} is not {theirs}");
        }
        (own, theirs) => assert_eq!(own.as_ref(), theirs.filter(|it| !it.is_null()), "the id"),
    }
}

/// As the first of two members, and whatever the case of its name.
fn first_wins(Pairs(members): &Pairs, head: &MessageHead) {
    let method = members.iter().find(|(name, _)| name.eq_ignore_ascii_case("method"));
    let method = method.and_then(|(_, value)| value.as_str());
    assert_eq!(method, head.method.as_deref(), "another reader finds another method");
}

/// The members of an object as they come.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self(Vec::new()))
    }
}

impl<'de> Visitor<'de> for Pairs {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Self, A::Error> {
        while let Some(member) = members.next_entry()? {
            self.0.push(member);
        }
        Ok(self)
    }
}

/// How a stream is cut does not depend on how it arrives, and nothing is longer than allowed.
fn framing_holds(data: &[u8]) {
    const MAX: usize = 64;
    let whole = lines(&mut &*data, MAX);
    for capacity in [1, 7] {
        let slowly = lines(&mut BufReader::with_capacity(capacity, data), MAX);
        assert_eq!(slowly, whole, "read in pieces of {capacity}");
        let events = messages_of_events(&mut BufReader::with_capacity(capacity, data), MAX);
        assert_eq!(events, messages_of_events(&mut &*data, MAX), "events in pieces of {capacity}");
    }
    let mut expected = data.split_inclusive(|byte| *byte == b'\n').filter(|it| it.ends_with(b"\n"));
    for line in &whole {
        let own = expected.next().expect("a line of the stream");
        match line {
            Ok(line) => assert!(line == own && own.len() <= MAX, "another line"),
            Err(_) => assert!(own.len() > MAX, "a line that is not too long"),
        }
    }
    assert_eq!(expected.next(), None, "a line is lost");
    for message in messages_of_events(&mut &*data, MAX) {
        let breaks = message.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
        assert!(breaks == 1 && message.ends_with(b"\n"), "not one line");
    }
}

/// A call that is read in one pass is the one that the library reads in the same line.
fn call_holds(data: &[u8], plainly: fn(&[u8]) -> Option<String>) {
    for line in data.split(|byte| *byte == b'\n').take(8) {
        if let Some(call) = plainly(line) {
            assert_eq!(Some(call), call_by_the_library(line), "the library reads another call");
        }
    }
}

/// The line as a reader has it that does not look at what stands beside the arguments.
fn without_meta(line: &[u8]) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(line).ok()?;
    value.get_mut("params")?.as_object_mut()?.remove("_meta");
    serde_json::to_vec(&value).ok()
}

type Names = Result<Option<Vec<String>>, String>;

fn names(text: &str) -> Option<Vec<String>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let tools = value.get("tools")?.as_array()?;
    tools.iter().map(|tool| Some(tool.get("name")?.as_str()?.to_owned())).collect()
}

fn list_holds(data: &[u8], read: fn(&str) -> Names) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // What is looked at is the result of a message that was read.
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    let Ok(Some(found)) = read(text) else { return };
    assert_eq!(Some(&found), names(text).as_ref(), "another reader finds other tools");
    let tools = value.get("tools").map(ToString::to_string).unwrap_or_default();
    let written = format!("{{\"tools\":{tools}}}");
    assert_eq!(read(&written), Ok(Some(found)), "written, it differs");
    let list = text.find("\"tools\"").and_then(|at| text.get(at..)).unwrap_or_default();
    let inside = list.find('[').and_then(|at| list.get(at..));
    if let Some(inside) = inside.filter(|_| value.as_object().is_some_and(|it| it.len() == 1)) {
        let end = inside.rfind(']').map_or(inside.len(), |at| at + 1);
        assert!(!has_a_member_twice(inside.get(..end).unwrap_or_default().as_bytes()), "twice");
    }
}
