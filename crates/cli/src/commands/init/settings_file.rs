//! Our hooks in the settings of Claude Code.
//!
//! The file is somebody else's: what is written, replaced or taken away are our hooks, and every other
//! byte stays. A hook is ours by the program that it runs and the store that it names. Lists and objects
//! that were made for our hooks go with them; one that was there, and empty, stays: the space behind
//! its bracket tells.

use std::ops::Range;

use serde_json::{Value, json};

use super::our_command::OurCommand;

/// The member that lists hooks, at the top and within a group.
const HOOKS: &str = "hooks";
/// The member that keeps Claude Code from running any hook.
const DISABLED: &str = "disableAllHooks";

/// One of our hooks: for which event, and the group that runs it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OurHook {
    pub(super) event: &'static str,
    pub(super) group: Value,
}

/// Why a file is left alone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SettingsFault {
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("`{0}` in it is not {1}")]
    Wrong(String, &'static str),
    #[error("`{0}` is in it twice")]
    Twice(String),
}

/// The text with our hooks in it, as they are to be.
pub(super) fn with_hooks(
    text: &str,
    ours: &[OurHook],
    known: &OurCommand,
) -> Result<String, SettingsFault> {
    let mut text = match (text.trim().is_empty(), ours.first()) {
        (true, Some(first)) => made_for(first),
        _ => text.to_owned(),
    };
    for hook in ours {
        text = with_hook(&text, hook, known)?;
    }
    Ok(text)
}

/// A file that holds one hook.
fn made_for(hook: &OurHook) -> String {
    let value = json!({ HOOKS: { hook.event: [hook.group] } });
    format!("{}\n", pretty(&value, "", "  "))
}

/// Whether the settings keep Claude Code from running any hook.
pub(crate) fn hooks_are_disabled(text: &str) -> bool {
    let value: Option<Value> = serde_json::from_str(text).ok();
    value.is_some_and(|value| value.get(DISABLED) == Some(&Value::Bool(true)))
}

fn with_hook(text: &str, hook: &OurHook, known: &OurCommand) -> Result<String, SettingsFault> {
    let root = read(text)?;
    let Some(hooks) = root.only(HOOKS, HOOKS)? else {
        let value = json!({ hook.event: [hook.group] });
        return Ok(inserted(text, &root, Some(HOOKS), &value));
    };
    let Some(list) = hooks.only(hook.event, hook.event)? else {
        return Ok(inserted(text, hooks, Some(hook.event), &json!([hook.group])));
    };
    let Shape::List(groups) = &list.shape else {
        return Err(SettingsFault::Wrong(hook.event.to_owned(), "a list"));
    };
    let found: Vec<&Node> = groups.iter().filter(|group| ours_in(text, group, known) > 0).collect();
    match found.as_slice() {
        [] => Ok(inserted(text, list, None, &hook.group)),
        [group] if value_of(text, group).as_ref() == Some(&hook.group) => Ok(text.to_owned()),
        // One of ours from another time.
        [group] if ours_in(text, group, known) == 1 && group.hooks().len() == 1 => {
            let layout = Layout::of(text, list);
            Ok(spliced(text, group.span.clone(), &layout.value(&hook.group)))
        }
        // Somebody moved ours among others, or doubled it: out, and in again.
        [group, ..] => match without_one(text, &[&root, hooks, list, group], known)? {
            Some(text) => with_hook(&text, hook, known),
            None => Ok(made_for(hook)),
        },
    }
}

/// The text without our hooks; none where it was made for them.
pub(super) fn without_hooks(
    text: &str,
    known: &OurCommand,
) -> Result<Option<String>, SettingsFault> {
    let mut text = text.to_owned();
    if text.trim().is_empty() {
        return Ok(Some(text));
    }
    loop {
        let root = read(&text)?;
        let Some(hooks) = root.only(HOOKS, HOOKS)? else { return Ok(Some(text)) };
        let lists = hooks.members().iter().map(|member| &member.value);
        let found = lists.clone().find_map(|list| {
            let Shape::List(groups) = &list.shape else { return None };
            groups.iter().find(|group| ours_in(&text, group, known) > 0).map(|group| (list, group))
        });
        let Some((list, group)) = found else { return Ok(Some(text)) };
        match without_one(&text, &[&root, hooks, list, group], known)? {
            Some(less) => text = less,
            None => return Ok(None),
        }
    }
}

/// Takes the first of our hooks out of a group, and whatever would be left empty by that; none if that
/// is everything. `path` leads from the root to the group.
fn without_one(
    text: &str,
    path: &[&Node; 4],
    known: &OurCommand,
) -> Result<Option<String>, SettingsFault> {
    let [root, hooks, list, group] = path;
    let inner = group.only(HOOKS, HOOKS)?;
    let elements = inner.map(Node::children).unwrap_or_default();
    let at = group.hooks().iter().position(|hook| is_ours(text, hook, known)).unwrap_or_default();
    if let (Some(inner), true) = (inner, elements.len() > 1) {
        return Ok(Some(removed(text, inner, at)));
    }
    let containers = [*list, *hooks, *root];
    let mut gone = &group.span;
    for container in containers {
        let children = container.children();
        let at = children.iter().position(|child| child.end == gone.end).unwrap_or_default();
        if children.len() > 1 {
            return Ok(Some(removed(text, container, at)));
        }
        if let (Some(child), true) = (children.first(), was_there(text, container)) {
            return Ok(Some(spliced(text, container.span.start + 1..child.end, "")));
        }
        gone = &container.span;
    }
    Ok(None)
}

/// How many of our hooks a group runs.
fn ours_in(text: &str, group: &Node, known: &OurCommand) -> usize {
    group.hooks().iter().filter(|hook| is_ours(text, hook, known)).count()
}

fn is_ours(text: &str, hook: &Node, known: &OurCommand) -> bool {
    let value = value_of(text, hook);
    let command = value.as_ref().and_then(|hook| hook.get("command")).and_then(Value::as_str);
    command.is_some_and(|command| known.begins(command))
}

/// Whether something was there, and empty, when its only child was put into it.
fn was_there(text: &str, container: &Node) -> bool {
    let first = container.children().first().map(|child| child.start);
    let behind = container.span.start + 1;
    first == Some(behind + 1) && text.as_bytes().get(behind) == Some(&b' ')
}

fn value_of(text: &str, node: &Node) -> Option<Value> {
    serde_json::from_str(text.get(node.span.clone())?).ok()
}

/// A value in a text, and where it lies.
#[derive(Debug)]
struct Node {
    span: Range<usize>,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    Object(Vec<Member>),
    List(Vec<Node>),
    Plain,
}

#[derive(Debug)]
struct Member {
    key: String,
    /// From the key's quote to the end of the value.
    span: Range<usize>,
    value: Node,
}

impl Node {
    fn members(&self) -> &[Member] {
        match &self.shape {
            Shape::Object(members) => members,
            _ => &[],
        }
    }

    /// What lies in it, side by side.
    fn children(&self) -> Vec<Range<usize>> {
        match &self.shape {
            Shape::Object(members) => members.iter().map(|member| member.span.clone()).collect(),
            Shape::List(nodes) => nodes.iter().map(|node| node.span.clone()).collect(),
            Shape::Plain => Vec::new(),
        }
    }

    /// The hooks of a group.
    fn hooks(&self) -> &[Self] {
        let hooks = self.members().iter().find(|member| member.key == HOOKS);
        match hooks.map(|member| &member.value.shape) {
            Some(Shape::List(hooks)) => hooks,
            _ => &[],
        }
    }

    /// The member of this name, if it is there; not twice, and in an object.
    fn only(&self, key: &str, whole: &str) -> Result<Option<&Self>, SettingsFault> {
        let Shape::Object(members) = &self.shape else {
            return Err(SettingsFault::Wrong(HOOKS.to_owned(), "an object"));
        };
        let mut found = members.iter().filter(|member| member.key == key);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(SettingsFault::Twice(whole.to_owned())),
            (first, None) => Ok(first.map(|member| &member.value)),
        }
    }
}

fn read(text: &str) -> Result<Node, SettingsFault> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| SettingsFault::NotJson(error.to_string()))?;
    if !value.is_object() {
        return Err(SettingsFault::NotAnObject);
    }
    Ok(Scan { text, at: 0 }.node())
}

/// Walks over JSON that is known to be valid.
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
struct Layout {
    /// What a child's line begins with; none if all is on one line.
    indent: Option<String>,
    /// One step.
    step: String,
}

impl Layout {
    fn of(text: &str, container: &Node) -> Self {
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

    fn value(&self, value: &Value) -> String {
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

fn pretty(value: &Value, indent: &str, step: &str) -> String {
    let inner = format!("{indent}{step}");
    let (open, lines, close) = match value {
        Value::Object(members) if !members.is_empty() => {
            let line = |(key, value): (&String, &Value)| {
                format!("{inner}{}: {}", Value::from(key.as_str()), pretty(value, &inner, step))
            };
            ('{', members.iter().map(line).collect::<Vec<_>>(), '}')
        }
        Value::Array(elements) if !elements.is_empty() => {
            let line = |value| format!("{inner}{}", pretty(value, &inner, step));
            ('[', elements.iter().map(line).collect(), ']')
        }
        other => return other.to_string(),
    };
    format!("{open}\n{}\n{indent}{close}", lines.join(",\n"))
}

/// The text with one more child at the end of an object or a list.
fn inserted(text: &str, container: &Node, key: Option<&str>, value: &Value) -> String {
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
fn removed(text: &str, container: &Node, at: usize) -> String {
    let children = container.children();
    let before = at.checked_sub(1).and_then(|before| children.get(before));
    let span = match (before, children.get(at), children.get(at + 1)) {
        (Some(before), Some(child), _) => before.end..child.end,
        (None, Some(child), Some(next)) => child.start..next.start,
        (_, child, _) => child.cloned().unwrap_or_default(),
    };
    spliced(text, span, "")
}

fn spliced(text: &str, span: Range<usize>, replacement: &str) -> String {
    let before = text.get(..span.start).unwrap_or_default();
    let after = text.get(span.end..).unwrap_or_default();
    format!("{before}{replacement}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(event: &'static str, program: &str) -> OurHook {
        let command = format!("'{program}' --home '/w/.countersign' hook claude-code");
        OurHook { event, group: json!({ "hooks": [{ "command": command, "type": "command" }] }) }
    }

    fn ours() -> Vec<OurHook> {
        vec![hook("PreToolUse", "/bin/countersign"), hook("SessionEnd", "/bin/countersign")]
    }

    fn known() -> OurCommand {
        OurCommand { program: "/bin/countersign".into(), home: "'/w/.countersign'".into() }
    }

    fn with_hooks(text: &str, ours: &[OurHook]) -> Result<String, SettingsFault> {
        super::with_hooks(text, ours, &known())
    }

    fn without_hooks(text: &str) -> Result<Option<String>, SettingsFault> {
        super::without_hooks(text, &known())
    }

    #[test]
    fn a_new_file_holds_our_hooks_alone_and_goes_with_them() {
        let made = with_hooks("", &ours()[..1]).unwrap();
        let expected = r#"{
  "hooks": {
    "PreToolUse": [
      {
        "hooks": [
          {
            "command": "'/bin/countersign' --home '/w/.countersign' hook claude-code",
            "type": "command"
          }
        ]
      }
    ]
  }
}
"#;
        assert_eq!(made, expected);
        assert_eq!(without_hooks(&made), Ok(None));
    }

    /// Every byte that was there is there afterwards, and when ours go, the old text is back.
    #[test]
    fn whatever_else_is_in_a_file_stays_as_it_was() {
        let theirs = r#"{"matcher":"Bash","hooks":[{"type":"command","command":"lint  --x","timeout":5.0}]}"#;
        let texts = [
            format!("{{\n    \"b\" : 1.50,\n    \"hooks\": {{\n        \"PreToolUse\": [\n            {theirs}\n        ],\n        \"Stop\": []\n    }},\n    \"a\": [ ]\n}}"),
            format!("{{\"z\": \"a \\\" }} , {{\", \"hooks\":{{\"PreToolUse\":[{theirs}]}},\"y\":-0.0}}\n\n"),
            "{\n\t\"model\": \"x\",\n\t\"permissions\": {\n\t\t\"allow\": [\"Bash(ls:*)\"]\n\t}\n}\n".to_owned(),
            "{\"big\":123456789012345678901234567890,\"hooks\":{\"Stop\":[1]}}".to_owned(),
            "{}".to_owned(),
            "{ }\n".to_owned(),
            "{\n}\n".to_owned(),
            "{\"hooks\":{}}".to_owned(),
            "{\n  \"hooks\": {\n    \"PreToolUse\": []\n  }\n}\n".to_owned(),
            "{\"hooks\":{\"PreToolUse\":[ ],\"SessionEnd\":[\n]}}".to_owned(),
        ];
        for text in &texts {
            let made = with_hooks(text, &ours()).unwrap();
            let value: Value = serde_json::from_str(&made).unwrap();
            for hook in ours() {
                let list = value["hooks"][hook.event].as_array().unwrap();
                assert_eq!(list.last(), Some(&hook.group), "{made}");
            }
            assert_eq!(with_hooks(&made, &ours()).unwrap(), made);
            assert_eq!(without_hooks(&made), Ok(Some(text.clone())), "{made}");
            assert_eq!(without_hooks(text), Ok(Some(text.clone())));
        }
    }

    #[test]
    fn an_older_hook_of_ours_is_replaced_where_it_stands() {
        let text = |group: &Value| {
            format!(r#"{{"hooks":{{"PreToolUse":[{{"a": 1}}, {group},{{"b":2}}]}}}}"#)
        };
        let [old, new] =
            ["/old/countersign", "/new/countersign"].map(|program| hook("PreToolUse", program));
        let made = with_hooks(&text(&old.group), std::slice::from_ref(&new));
        assert_eq!(made, Ok(text(&new.group)));
    }

    #[test]
    fn ours_among_others_goes_alone() {
        let group =
            |hooks: &str| format!(r#"{{"hooks":{{"PreToolUse":[{{"hooks":[{hooks}]}}]}}}}"#);
        let our_one = r#"{"command":"/x/countersign --home '/w/.countersign' hook claude-code"}"#;
        let text = group(&format!(r#"{{"command":"a"}},{our_one}"#));
        assert_eq!(without_hooks(&text), Ok(Some(group(r#"{"command":"a"}"#))));
        // Moved among others it is an old one, and doubled it would record everything twice.
        for text in [text, group(&format!("{our_one},{our_one}"))] {
            let made = with_hooks(&text, &ours()[..1]).unwrap();
            let value: Value = serde_json::from_str(&made).unwrap();
            assert_eq!(value.to_string().matches("hook claude-code").count(), 1, "{made}");
            assert_eq!(
                value["hooks"]["PreToolUse"].as_array().unwrap().last(),
                Some(&ours()[0].group)
            );
        }
    }

    #[test]
    fn a_hook_of_somebody_else_that_sounds_like_ours_stays() {
        for command in [
            "log.sh hook claude-code",
            "'/bin/countersign' --home '/other' hook claude-code",
            "'/bin/countersign' --home '/w/.countersign' hook claude-codex",
            "'/bin/countersign' --home '/w/.countersign' hook generic",
            "true; '/bin/countersign' --home '/w/.countersign' hook claude-code",
            "'/bin/countersign --home' '/w/.countersign' hook claude-code",
            "'/bin/not-countersign' --home '/w/.countersign' hook claude-code",
        ] {
            let theirs = json!({ "hooks": [{ "command": command, "type": "command" }] });
            let text = format!(r#"{{"hooks":{{"PreToolUse":[{theirs}]}}}}"#);
            let made = with_hooks(&text, &ours()).unwrap();
            let value: Value = serde_json::from_str(&made).unwrap();
            assert_eq!(value["hooks"]["PreToolUse"], json!([theirs, ours()[0].group]), "{made}");
            assert_eq!(without_hooks(&made), Ok(Some(text)));
        }
    }

    #[test]
    fn what_are_no_settings_is_left_alone() {
        use SettingsFault as F;
        for (text, fault) in [
            ("[]", F::NotAnObject),
            ("{\"hooks\": []}", F::Wrong("hooks".into(), "an object")),
            ("{\"hooks\": {\"PreToolUse\": {}}}", F::Wrong("PreToolUse".into(), "a list")),
            ("{\"hooks\": {}, \"hooks\": {}}", F::Twice("hooks".into())),
            ("{\"hooks\": {\"PreToolUse\":[],\"PreToolUse\":[]}}", F::Twice("PreToolUse".into())),
        ] {
            assert_eq!(with_hooks(text, &ours()), Err(fault), "{text}");
        }
        for text in ["{", "{} // comment", "\u{feff}{}", "{'a': 1}"] {
            assert!(matches!(with_hooks(text, &ours()), Err(F::NotJson(_))), "{text}");
        }
    }
}
