//! One entry in the configuration of an MCP client.
//!
//! The file is somebody else's: what is written or taken away is our entry, and every other byte stays.
//! So the text is edited, not written anew from what was read; a reader that keeps neither order nor
//! layout only checks it.

use std::ops::Range;

use serde_json::{Map, Value};

/// The member that lists servers, and our name in it.
const SERVERS: &str = "mcpServers";
/// What some clients call that member.
const OTHER_SERVERS: &str = "servers";
const NAME: &str = "countersign";

/// Why a file is left alone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClientFileFault {
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("`mcpServers` in it is not an object")]
    ServersNotAnObject,
    #[error("it lists no servers, neither in `mcpServers` nor in `servers`")]
    NoServers,
    #[error("`{0}` is in it twice")]
    Twice(&'static str),
}

/// The text with our entry in it.
pub(super) fn with_entry(text: &str, entry: &Value) -> Result<String, ClientFileFault> {
    if text.trim().is_empty() {
        return Ok(format!("{}\n", placed(&Layout::of_new(), SERVERS, &servers(entry))));
    }
    let file = File::read(text)?;
    let Some(servers_span) = file.servers else {
        return Ok(inserted(text, &file.root, SERVERS, &servers(entry)));
    };
    match file.entry {
        None => Ok(inserted(text, &servers_span, NAME, entry)),
        Some(found) => {
            let span = found.value;
            let same = text.get(span.clone()).and_then(|old| serde_json::from_str(old).ok());
            if same.as_ref() == Some(entry) {
                return Ok(text.to_owned());
            }
            let layout = Layout::of(text, &servers_span);
            Ok(spliced(text, span, &layout.value(entry)))
        }
    }
}

/// The text without our entry; none where nothing but our entry was in it.
pub(super) fn without_entry(text: &str) -> Result<Option<String>, ClientFileFault> {
    if text.trim().is_empty() {
        return Ok(Some(text.to_owned()));
    }
    let file = File::read(text)?;
    let (Some(servers), Some(found)) = (&file.servers, &file.entry) else {
        return Ok(Some(text.to_owned()));
    };
    if file.root.members.len() == 1 && servers.members.len() == 1 {
        return Ok(None);
    }
    Ok(Some(spliced(text, removal(text, servers, found), "")))
}

fn servers(entry: &Value) -> Value {
    Value::Object(Map::from_iter([(NAME.to_owned(), entry.clone())]))
}

/// What lies where in a file.
pub(super) struct File {
    root: Object,
    servers: Option<Object>,
    entry: Option<Member>,
}

impl File {
    /// The objects that list servers, in the text of any client that we know: `mcpServers` wherever it
    /// stands, for all projects or for one, and what some clients call `servers`.
    pub(super) fn lists(text: &str) -> Result<Vec<ServerList>, ClientFileFault> {
        let file = Self::read(text)?;
        let mut lists = Vec::new();
        lists_in(text, &file.root, &[], &mut lists)?;
        match lists.is_empty() {
            true => Err(ClientFileFault::NoServers),
            false => Ok(lists),
        }
    }

    fn read(text: &str) -> Result<Self, ClientFileFault> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| ClientFileFault::NotJson(error.to_string()))?;
        if !value.is_object() {
            return Err(ClientFileFault::NotAnObject);
        }
        let root = Object::at(text, 0);
        let Some(found) = root.only(SERVERS)? else {
            return Ok(Self { root, servers: None, entry: None });
        };
        if !value.get(SERVERS).is_some_and(Value::is_object) {
            return Err(ClientFileFault::ServersNotAnObject);
        }
        let servers = Object::at(text, found.value.start);
        let entry = servers.only(NAME)?;
        Ok(Self { root, servers: Some(servers), entry })
    }
}

/// An object that lists servers.
pub(super) struct ServerList {
    /// In what it lies, if not at the top.
    pub(super) within: String,
    pub(super) servers: Object,
}

fn lists_in(
    text: &str,
    object: &Object,
    path: &[&str],
    lists: &mut Vec<ServerList>,
) -> Result<(), ClientFileFault> {
    const DEPTH_MAX: usize = 8;
    object.only(SERVERS)?;
    for member in &object.members {
        if text.as_bytes().get(member.value.start) != Some(&b'{') {
            continue;
        }
        let inner = Object::at(text, member.value.start);
        let named_otherwise = member.key == OTHER_SERVERS && matches!(path, [] | ["mcp"]);
        if member.key == SERVERS || named_otherwise {
            lists.push(ServerList { within: path.join(" "), servers: inner });
        } else if path.len() < DEPTH_MAX {
            let deeper: Vec<&str> = path.iter().copied().chain([member.key.as_str()]).collect();
            lists_in(text, &inner, &deeper, lists)?;
        }
    }
    Ok(())
}

/// An object in a text that is known to be JSON.
pub(super) struct Object {
    /// From its `{` to after its `}`.
    span: Range<usize>,
    pub(super) members: Vec<Member>,
}

#[derive(Clone)]
pub(super) struct Member {
    pub(super) key: String,
    /// From the key's quote to the end of the value.
    span: Range<usize>,
    pub(super) value: Range<usize>,
}

impl Object {
    /// The object that begins at or after `from`.
    pub(super) fn at(text: &str, from: usize) -> Self {
        let mut scan = Scan { bytes: text.as_bytes(), at: from };
        scan.space();
        let start = scan.at;
        scan.at += 1;
        let mut members = Vec::new();
        loop {
            scan.space();
            match scan.byte() {
                Some(b'"') => {
                    let begin = scan.at;
                    scan.string();
                    let key = text.get(begin..scan.at).unwrap_or_default();
                    let key = serde_json::from_str(key).unwrap_or_default();
                    scan.space();
                    scan.at += 1;
                    scan.space();
                    let value = scan.at;
                    scan.value();
                    members.push(Member { key, span: begin..scan.at, value: value..scan.at });
                }
                Some(b',') => scan.at += 1,
                _ => break,
            }
        }
        Self { span: start..(scan.at + 1).min(text.len()), members }
    }

    pub(super) fn only(&self, key: &'static str) -> Result<Option<Member>, ClientFileFault> {
        let mut found = self.members.iter().filter(|member| member.key == key);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(ClientFileFault::Twice(key)),
            (first, None) => Ok(first.cloned()),
        }
    }
}

/// Walks over JSON that is known to be valid.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.byte().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.byte() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                return;
            }
        }
    }

    fn value(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.byte() {
            match byte {
                b'"' => {
                    self.string();
                    if depth == 0 {
                        return;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth <= 1 => {
                    // The end of this value, or of what it lies in.
                    self.at += depth;
                    return;
                }
                b'}' | b']' => depth -= 1,
                b',' if depth == 0 => return,
                byte if depth == 0 && byte.is_ascii_whitespace() => return,
                _ => {}
            }
            self.at += 1;
        }
    }
}

/// The elements of the array that begins at `from`.
pub(super) fn elements(text: &str, from: usize) -> Vec<Range<usize>> {
    let mut scan = Scan { bytes: text.as_bytes(), at: from + 1 };
    let mut elements = Vec::new();
    loop {
        scan.space();
        match scan.byte() {
            Some(b',') => scan.at += 1,
            None | Some(b']') => return elements,
            Some(_) => {
                let begin = scan.at;
                scan.value();
                elements.push(begin..scan.at);
            }
        }
    }
}

/// How the members of an object are laid out.
pub(super) struct Layout {
    /// What a member begins with: nothing if all is on one line, else a line break and spaces.
    indent: Option<String>,
    /// The same for what encloses it.
    outer: String,
    /// One step.
    step: String,
}

impl Layout {
    fn of_new() -> Self {
        Self { indent: Some("  ".to_owned()), outer: String::new(), step: "  ".to_owned() }
    }

    pub(super) fn of(text: &str, object: &Object) -> Self {
        let outer = line_indent(text, object.span.start);
        let inside = text.get(object.span.clone()).unwrap_or_default();
        let first = object.members.first().map(|member| member.span.start);
        let step = |inner: &str| inner.strip_prefix(&*outer).unwrap_or("  ").to_owned();
        let indent = match first {
            Some(first) => {
                let before = text.get(object.span.start..first).unwrap_or_default();
                before.contains('\n').then(|| line_indent(text, first))
            }
            // An empty object in a file of several lines, or on a line of its own.
            None => (inside.contains('\n') || text.trim_end().contains('\n') || outer.is_empty())
                .then(|| format!("{outer}  ")),
        };
        let step = indent.as_deref().map_or_else(|| "  ".to_owned(), step);
        let step = if step.is_empty() { "  ".to_owned() } else { step };
        Self { indent, outer, step }
    }

    /// A value as a member's, in this layout.
    pub(super) fn value(&self, value: &Value) -> String {
        let Some(indent) = &self.indent else { return value.to_string() };
        pretty(value, indent, &self.step)
    }
}

/// The white space that a line begins with.
fn line_indent(text: &str, at: usize) -> String {
    let line = text.get(..at).unwrap_or_default().rsplit('\n').next().unwrap_or_default();
    line.chars().take_while(|character| matches!(character, ' ' | '\t')).collect()
}

fn pretty(value: &Value, indent: &str, step: &str) -> String {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let inner = format!("{indent}{step}");
            let lines: Vec<String> = members
                .iter()
                .map(|(key, value)| {
                    format!("{inner}{}: {}", Value::from(key.as_str()), pretty(value, &inner, step))
                })
                .collect();
            format!("{{\n{}\n{indent}}}", lines.join(",\n"))
        }
        other => other.to_string(),
    }
}

/// A new object with one member.
fn placed(layout: &Layout, key: &str, value: &Value) -> String {
    let (name, value) = (Value::from(key), layout.value(value));
    match &layout.indent {
        Some(indent) => format!("{{\n{indent}{name}: {value}\n{}}}", layout.outer),
        None => format!("{{{name}: {value}}}"),
    }
}

/// The text with one more member at the end of an object.
pub(super) fn inserted(text: &str, object: &Object, key: &str, value: &Value) -> String {
    let layout = Layout::of(text, object);
    let Some(last) = object.members.last() else {
        return spliced(text, object.span.clone(), &placed(&layout, key, value));
    };
    let (name, value) = (Value::from(key), layout.value(value));
    let added = match &layout.indent {
        Some(indent) => format!(",\n{indent}{name}: {value}"),
        None => format!(", {name}: {value}"),
    };
    spliced(text, last.span.end..last.span.end, &added)
}

/// What goes when a member goes: it, and one comma with the space on that side.
pub(super) fn removal(text: &str, object: &Object, member: &Member) -> Range<usize> {
    let at = object.members.iter().position(|other| other.span == member.span).unwrap_or(0);
    let before = at.checked_sub(1).and_then(|before| object.members.get(before));
    match (before, object.members.get(at + 1)) {
        (Some(before), _) => before.span.end..member.span.end,
        (None, Some(next)) => member.span.start..next.span.start,
        (None, None) => {
            let inside = object.span.start + 1..object.span.end.saturating_sub(1);
            if text.get(inside.clone()).is_some() { inside } else { member.span.clone() }
        }
    }
}

pub(super) fn spliced(text: &str, span: Range<usize>, replacement: &str) -> String {
    let before = text.get(..span.start).unwrap_or_default();
    let after = text.get(span.end..).unwrap_or_default();
    format!("{before}{replacement}{after}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Value {
        json!({ "args": ["mcp"], "command": "/bin/countersign" })
    }

    const OURS: &str = r#"{"args":["mcp"],"command":"/bin/countersign"}"#;

    #[test]
    fn a_new_file_holds_our_entry_alone_and_goes_with_it() {
        let made = with_entry("", &entry()).unwrap();
        let expected = "{\n  \"mcpServers\": {\n    \"countersign\": {\n      \"args\": [\"mcp\"],\n      \
            \"command\": \"/bin/countersign\"\n    }\n  }\n}\n";
        assert_eq!(made, expected);
        assert_eq!(with_entry(&made, &entry()), Ok(made.clone()));
        assert_eq!(without_entry(&made), Ok(None));
    }

    /// Every byte that was there is there afterwards, and when the entry goes, the old text is back.
    #[test]
    fn whatever_else_is_in_a_file_stays_as_it_was() {
        let texts = [
            "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\", \"n\": 1.50 }\n  },\n  \"z\": [1,2], \"a\": null\n}\n",
            "{\"z\": \"a \\\" } , {\", \"mcpServers\": {\"other\":{}}}",
            "{\n\t\"mcpServers\": {\n\t\t\"a\": {}\n\t}\n}",
            "{\"mcpServers\":{\"\\u0063\":1},\"big\":123456789012345678901234567890}",
        ];
        for text in texts {
            let made = with_entry(text, &entry()).unwrap();
            let value: Value = serde_json::from_str(&made).unwrap();
            assert_eq!(value["mcpServers"]["countersign"], entry(), "{made}");
            assert_eq!(with_entry(&made, &entry()).unwrap(), made);
            assert_eq!(without_entry(&made), Ok(Some(text.to_owned())), "{made}");
            assert_eq!(without_entry(text), Ok(Some(text.to_owned())));
        }
    }

    #[test]
    fn servers_are_added_where_there_are_none() {
        for (text, expected) in [
            ("{\"a\":1}", format!("{{\"a\":1, \"mcpServers\": {{\"countersign\":{OURS}}}}}")),
            (
                "{\"mcpServers\": {}, \"b\": 2}",
                format!(
                    "{{\"mcpServers\": {{\n  \"countersign\": {}\n}}, \"b\": 2}}",
                    "{\n    \"args\": [\"mcp\"],\n    \"command\": \"/bin/countersign\"\n  }"
                ),
            ),
        ] {
            let made = with_entry(text, &entry()).unwrap();
            assert_eq!(made, expected);
        }
    }

    #[test]
    fn an_older_entry_of_ours_is_replaced_where_it_stands() {
        let text = r#"{"mcpServers":{"countersign":{"command":"old"},"b":{}}}"#;
        let made = with_entry(text, &entry()).unwrap();
        assert_eq!(made, format!("{{\"mcpServers\":{{\"countersign\":{OURS},\"b\":{{}}}}}}"));
        assert_eq!(without_entry(&made).unwrap().unwrap(), "{\"mcpServers\":{\"b\":{}}}");
    }

    #[test]
    fn what_is_no_configuration_is_left_alone() {
        use ClientFileFault as F;
        for (text, fault) in [
            ("[]", F::NotAnObject),
            ("\"x\"", F::NotAnObject),
            ("{\"mcpServers\": []}", F::ServersNotAnObject),
            ("{\"mcpServers\": {}, \"mcpServers\": {}}", F::Twice("mcpServers")),
            ("{\"mcpServers\": {\"countersign\":1,\"countersign\":2}}", F::Twice("countersign")),
        ] {
            assert_eq!(with_entry(text, &entry()), Err(fault), "{text}");
        }
        for text in ["{", "{} // comment", "\u{feff}{}", "{'a': 1}"] {
            assert!(matches!(with_entry(text, &entry()), Err(F::NotJson(_))), "{text}");
        }
    }
}
