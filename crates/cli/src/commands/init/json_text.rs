//! JSON that somebody else wrote, edited as a text: what is put in and taken out is ours, and every
//! other byte stays.
//!
//! Comments, and a comma before a closing bracket, are read over, since some programs write them into
//! their settings. What was made for ours goes with it; what was there, and empty, stays: the space behind
//! its bracket tells.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

/// Why a file is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum JsonFault {
    #[error("it is not JSON, with or without comments: {0}")]
    NotJson(String),
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("`{0}` in it is not {1}")]
    Wrong(String, &'static str),
    #[error("`{0}` is in it twice")]
    Twice(String),
}

/// The text without comments and without commas before closing brackets: with a space for each of
/// their bytes, so that everything else lies where it lay.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let mut bytes = text.as_bytes().to_vec();
    let mut scan = Scan { text, at: 0 };
    let (mut last, mut comma) = (None, None);
    while let Some(byte) = scan.byte() {
        let from = scan.at;
        match byte {
            b'"' => {
                scan.string();
            }
            b'/' if scan.comment() => {
                let comment = bytes.get_mut(from..scan.at).unwrap_or_default();
                comment.iter_mut().filter(|it| !it.is_ascii_whitespace()).for_each(|it| *it = b' ');
                continue;
            }
            _ => scan.at += 1,
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        if let (b'}' | b']', Some(at)) = (byte, comma.take())
            && let Some(comma) = bytes.get_mut(at)
        {
            *comma = b' ';
        }
        // A comma behind nothing separates nothing.
        comma = (byte == b',' && !matches!(last, None | Some(b'{' | b'[' | b','))).then_some(from);
        last = Some(byte);
    }
    match bytes == text.as_bytes() {
        true => Cow::Borrowed(text),
        // Whole characters were replaced.
        false => String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

/// Reads a text that is an object.
pub(super) fn read(text: &str) -> Result<Node, JsonFault> {
    let plain = plain(text);
    let value: Value =
        serde_json::from_str(&plain).map_err(|error| JsonFault::NotJson(error.to_string()))?;
    if !value.is_object() {
        return Err(JsonFault::NotAnObject);
    }
    Ok(Scan { text: &plain, at: 0 }.node())
}

/// The value that begins at `from` in a text that can be read.
pub(super) fn node_at(text: &str, from: usize) -> Node {
    Scan { text: &plain(text), at: from }.node()
}

/// A value in a text, and where it lies.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) shape: Shape,
}

#[derive(Debug, Clone)]
pub(super) enum Shape {
    Object(Vec<Member>),
    List(Vec<Node>),
    Plain,
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) key: String,
    /// From the key's quote to the end of the value.
    pub(super) span: Range<usize>,
    pub(super) value: Node,
}

impl Node {
    /// What it means.
    pub(super) fn value(&self, text: &str) -> Option<Value> {
        serde_json::from_str(&plain(text.get(self.span.clone())?)).ok()
    }

    pub(super) const fn is_object(&self) -> bool {
        matches!(self.shape, Shape::Object(_))
    }

    pub(super) fn members(&self) -> &[Member] {
        match &self.shape {
            Shape::Object(members) => members,
            _ => &[],
        }
    }

    /// The elements of a list.
    pub(super) fn elements(&self) -> &[Self] {
        match &self.shape {
            Shape::List(nodes) => nodes,
            _ => &[],
        }
    }

    /// What lies in it, side by side.
    pub(super) fn children(&self) -> Vec<Range<usize>> {
        match &self.shape {
            Shape::Object(members) => members.iter().map(|member| member.span.clone()).collect(),
            Shape::List(nodes) => nodes.iter().map(|node| node.span.clone()).collect(),
            Shape::Plain => Vec::new(),
        }
    }

    /// The member of this name, if it is there, and not twice.
    pub(super) fn only(&self, key: &str) -> Result<Option<&Member>, JsonFault> {
        let mut found = self.members().iter().filter(|member| member.key == key);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(JsonFault::Twice(key.to_owned())),
            (first, None) => Ok(first),
        }
    }

    /// The object in the member of this name.
    pub(super) fn object(&self, key: &str) -> Result<Option<&Self>, JsonFault> {
        match self.only(key)? {
            Some(member) if !member.value.is_object() => {
                Err(JsonFault::Wrong(key.to_owned(), "an object"))
            }
            found => Ok(found.map(|member| &member.value)),
        }
    }
}

/// Walks over a text; nodes are found in JSON that is known to be valid.
struct Scan<'t> {
    text: &'t str,
    at: usize,
}

impl Scan<'_> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while self.byte().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Steps over a comment, if there is one.
    fn comment(&mut self) -> bool {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(inside) = rest.strip_prefix("/*") {
            let Some(end) = inside.find("*/") else { return false };
            end + 4
        } else {
            return false;
        };
        self.at += length;
        true
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.byte() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        serde_json::from_str(text).unwrap_or_default()
    }

    fn node(&mut self) -> Node {
        self.space();
        let start = self.at;
        let shape = match self.byte() {
            Some(b'{') => {
                let mut members = Vec::new();
                while self.more(b'}') {
                    let begun = self.at;
                    let key = self.string();
                    self.space();
                    self.at += 1;
                    let value = self.node();
                    members.push(Member { key, span: begun..value.span.end, value });
                }
                Shape::Object(members)
            }
            Some(b'[') => {
                let mut nodes = Vec::new();
                while self.more(b']') {
                    nodes.push(self.node());
                }
                Shape::List(nodes)
            }
            Some(b'"') => {
                self.string();
                Shape::Plain
            }
            _ => {
                let ends =
                    |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b'}' | b']');
                while self.byte().is_some_and(|byte| !ends(byte)) {
                    self.at += 1;
                }
                Shape::Plain
            }
        };
        Node { span: start..self.at, shape }
    }

    /// Steps to the next child, or over the end.
    fn more(&mut self, end: u8) -> bool {
        // Over the bracket or the comma; after a child, to whichever follows it.
        if self.byte().is_some_and(|byte| matches!(byte, b'{' | b'[' | b',')) {
            self.at += 1;
        }
        self.space();
        if self.byte() == Some(b',') {
            self.at += 1;
            self.space();
        }
        match self.byte() {
            Some(byte) if byte == end => {
                self.at += 1;
                false
            }
            None => false,
            Some(_) => true,
        }
    }
}

/// How the children of something are laid out.
pub(super) struct Layout {
    /// What a child's line begins with; none if all is on one line.
    indent: Option<String>,
    /// One step.
    step: String,
}

impl Layout {
    pub(super) fn of(text: &str, container: &Node) -> Self {
        let outer = line_indent(text, container.span.start);
        let whole = text.find('{').and_then(|root| {
            let inside = text.get(root + 1..)?;
            let first = inside.find(|it: char| !it.is_whitespace())?;
            inside.get(..first)?.contains('\n').then(|| line_indent(text, root + 1 + first))
        });
        let step = whole.filter(|step| !step.is_empty()).unwrap_or_else(|| "  ".to_owned());
        let indent = match container.children().first() {
            Some(first) => {
                let before = text.get(container.span.start..first.start).unwrap_or_default();
                before.contains('\n').then(|| line_indent(text, first.start))
            }
            // Something empty in a file of several lines, or the whole file.
            None => {
                let several = text.trim_end().contains('\n') || container.span.start == 0;
                several.then(|| format!("{outer}{step}"))
            }
        };
        Self { indent, step }
    }

    /// A value as a child's, in this layout.
    pub(super) fn value(&self, value: &Value) -> String {
        match &self.indent {
            Some(indent) => pretty(value, indent, &self.step),
            None => value.to_string(),
        }
    }
}

/// The white space that a line begins with.
fn line_indent(text: &str, at: usize) -> String {
    let line = text.get(..at).unwrap_or_default().rsplit('\n').next().unwrap_or_default();
    line.chars().take_while(|character| matches!(character, ' ' | '\t')).collect()
}

/// A whole file with this value.
pub(super) fn made_of(value: &Value) -> String {
    format!("{}\n", pretty(value, "", "  "))
}

fn pretty(value: &Value, indent: &str, step: &str) -> String {
    let inner = format!("{indent}{step}");
    let nested = |value: &Value| value.is_object() || value.is_array();
    let (open, lines, close) = match value {
        Value::Object(members) if !members.is_empty() => {
            let line = |(key, value): (&String, &Value)| {
                format!("{inner}{}: {}", Value::from(key.as_str()), pretty(value, &inner, step))
            };
            ('{', members.iter().map(line).collect::<Vec<_>>(), '}')
        }
        Value::Array(elements) if elements.iter().any(nested) => {
            let line = |value| format!("{inner}{}", pretty(value, &inner, step));
            ('[', elements.iter().map(line).collect(), ']')
        }
        other => return other.to_string(),
    };
    format!("{open}\n{}\n{indent}{close}", lines.join(",\n"))
}

/// The text with one more child at the end of an object or a list.
pub(super) fn inserted(text: &str, container: &Node, key: Option<&str>, value: &Value) -> String {
    let layout = Layout::of(text, container);
    let name = key.map_or_else(String::new, |key| format!("{}: ", Value::from(key)));
    let child = format!("{name}{}", layout.value(value));
    match (container.children().last(), &layout.indent) {
        (Some(last), Some(indent)) => {
            spliced(text, last.end..last.end, &format!(",\n{indent}{child}"))
        }
        (Some(last), None) => spliced(text, last.end..last.end, &format!(", {child}")),
        // What is there stays there, with all that is in it; see `was_there`.
        (None, _) => {
            let behind = container.span.start + 1;
            spliced(text, behind..behind, &format!(" {child}"))
        }
    }
}

/// The text without the child at this place, and one comma with the space on that side.
pub(super) fn removed(text: &str, container: &Node, at: usize) -> String {
    let children = container.children();
    let Some(child) = children.get(at).cloned() else { return text.to_owned() };
    let before = at.checked_sub(1).and_then(|before| children.get(before));
    let gap = match (before, children.get(at + 1)) {
        (Some(before), _) => before.end..child.start,
        (None, Some(next)) => child.end..next.start,
        (None, None) => return spliced(text, child, ""),
    };
    let between = text.get(gap.clone()).unwrap_or_default();
    let comma = plain(between).find(',').map(|at| gap.start + at);
    let all = gap.start.min(child.start)..gap.end.max(child.end);
    match comma {
        // A comment between the two is somebody's.
        Some(comma) if between.contains('/') => {
            let (first, second) = match comma < child.start {
                true => (child, comma..comma + 1),
                false => (comma..comma + 1, child),
            };
            spliced(&spliced(text, first, ""), second, "")
        }
        _ => spliced(text, all, ""),
    }
}

/// The text without something that lies in the first of these containers, each of which lies in the
/// next one; and without those that were made for it. None if that is everything.
pub(super) fn without(text: &str, child: &Range<usize>, containers: &[&Node]) -> Option<String> {
    let mut gone = child;
    for container in containers {
        let children = container.children();
        let at = children.iter().position(|child| child.end == gone.end).unwrap_or_default();
        if children.len() > 1 {
            return Some(removed(text, container, at));
        }
        if let (Some(child), true) = (children.first(), was_there(text, container)) {
            return Some(spliced(text, container.span.start + 1..child.end, ""));
        }
        gone = &container.span;
    }
    None
}

/// Whether something was there, and empty, when its only child was put into it.
fn was_there(text: &str, container: &Node) -> bool {
    let first = container.children().first().map(|child| child.start);
    let behind = container.span.start + 1;
    first == Some(behind + 1) && text.as_bytes().get(behind) == Some(&b' ')
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

    #[test]
    fn comments_and_last_commas_are_read_over_where_they_lie() {
        let text =
            "// ü\n{ /* a, } */ \"a\": [1, 2, /* , */ ], // x\n  \"u\": \"//\\\" /* \",\n}\n";
        let found = plain(text);
        assert_eq!(found.len(), text.len());
        let value: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(value, json!({ "a": [1, 2], "u": "//\" /* " }));
        let root = read(text).unwrap();
        assert_eq!(root.members().len(), 2);
        assert_eq!(root.members()[0].value.value(text), Some(json!([1, 2])));
        for strict in ["{\"a\": [1, {}]}", "{}", "{\"a/b\": \"// no\"}"] {
            assert!(matches!(plain(strict), Cow::Borrowed(_)), "{strict}");
        }
    }

    #[test]
    fn what_only_looks_like_a_comment_or_a_last_comma_is_not_json() {
        for text in
            ["{,}", "{\"a\": [,]}", "{\"a\": [1,,]}", "{} /* open", "{} / x", "{\"a\": 1 # x\n}"]
        {
            assert!(matches!(read(text), Err(JsonFault::NotJson(_))), "{text}");
        }
        assert_eq!(read("[] // list").unwrap_err(), JsonFault::NotAnObject);
    }

    #[test]
    fn a_comment_beside_what_goes_stays() {
        for (text, at, expected) in [
            ("{\"a\": 1, // of a\n  \"b\": 2\n}", 1, "{\"a\": 1 // of a\n  \n}"),
            ("{\"a\": 1, /* of b */ \"b\": 2}", 0, "{ /* of b */ \"b\": 2}"),
            ("{\"a\": 1, \"b\": 2, // of b\n}", 1, "{\"a\": 1, // of b\n}"),
        ] {
            assert_eq!(removed(text, &read(text).unwrap(), at), expected);
        }
    }
}
