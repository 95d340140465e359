//! A page of a server's list of tools, as it came.
//!
//! Read so that nobody else can read it differently. A page that could be is not passed on at all: the
//! client would see a tool in it that we do not, or another one.

use std::collections::BTreeSet;
use std::fmt;

use countersign_runtime::secrets::Redactor;
use countersign_runtime::tool_lists::{ListedTool, ToolShape};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

use super::head::{Fault, elements, fold, pick};

/// Tools of one page.
const TOOLS_MAX: usize = 10_000;
/// Members of one tool, and bytes of the name of each.
const MEMBERS_MAX: usize = 64;
const MEMBER_NAME_MAX: usize = 128;

/// Which page a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AskedPage {
    First,
    /// The one of this cursor; none where the cursor is no text, or can be read in two ways.
    At(Option<String>),
}

impl AskedPage {
    pub(super) fn of(params: Option<&str>) -> Self {
        let Some(params) = params.filter(|params| *params != "null") else { return Self::First };
        match pick(params, ["cursor"]) {
            (_, Some(_)) => Self::At(None),
            ([None | Some("null")], None) => Self::First,
            ([Some(cursor)], None) => Self::At(serde_json::from_str(cursor).ok()),
        }
    }
}

/// What a page says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) tools: Vec<ListedTool>,
    /// The cursor of the page that follows.
    pub(super) next: Option<String>,
}

/// Why a page is not one that everybody reads in the same way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PageFault {
    #[error("the list of tools can be read in two ways: {0}")]
    Murky(#[from] Fault),
    #[error("`tools` is no list")]
    NoList,
    #[error("a page of a list has at most {TOOLS_MAX} tools")]
    TooMany,
    #[error("tool {at} of the list {why}")]
    Tool {
        /// Which, from 1.
        at: usize,
        why: ToolFault,
    },
}

/// What is wrong with one tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ToolFault {
    #[error("cannot be read by everybody: {0}")]
    Unreadable(String),
    #[error("has no name")]
    NoName,
    #[error("has two members that could be taken for each other: `{0}`")]
    Alike(String),
    #[error(
        "has more than {MEMBERS_MAX} members, or one whose name has more than {MEMBER_NAME_MAX} bytes"
    )]
    TooMuch,
}

/// The page in a result. None if there is no list in it.
pub(super) fn page(result: &str, redactor: &Redactor) -> Result<Option<Page>, PageFault> {
    let ([list, next], fault) = pick(result, ["tools", "nextCursor"]);
    if let Some(fault) = fault {
        return Err(fault.into());
    }
    let Some(list) = list else { return Ok(None) };
    if !list.starts_with('[') {
        return Err(PageFault::NoList);
    }
    let mut tools = Vec::new();
    for (element, at) in elements(list).zip(1..) {
        if tools.len() == TOOLS_MAX {
            return Err(PageFault::TooMany);
        }
        tools.push(tool(element, redactor).map_err(|why| PageFault::Tool { at, why })?);
    }
    Ok(Some(Page { tools, next: next.and_then(|next| serde_json::from_str(next).ok()) }))
}

fn tool(element: &str, redactor: &Redactor) -> Result<ListedTool, ToolFault> {
    let unreadable = |error: serde_json::Error| ToolFault::Unreadable(error.to_string());
    Once.deserialize(&mut serde_json::Deserializer::from_str(element)).map_err(unreadable)?;
    let value: Value = serde_json::from_str(element).map_err(unreadable)?;
    let members = value.as_object().ok_or(ToolFault::NoName)?;
    if members.len() > MEMBERS_MAX || members.keys().any(|name| name.len() > MEMBER_NAME_MAX) {
        return Err(ToolFault::TooMuch);
    }
    let mut seen = BTreeSet::new();
    if let Some(name) = members.keys().find(|name| !seen.insert(fold(name))) {
        return Err(ToolFault::Alike(name.clone()));
    }
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let name = text("name").filter(|name| !name.is_empty()).ok_or(ToolFault::NoName)?;
    let description = redactor.redact_text(text("description").unwrap_or_default()).0;
    Ok(ListedTool { name: name.to_owned(), shape: ToolShape::of(&value), description })
}

/// Refuses an object that has a member twice: readers differ in which of them counts.
struct Once;

impl<'de> DeserializeSeed<'de> for Once {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while sequence.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name) {
                map.next_value::<IgnoredAny>()?;
                return Err(A::Error::custom("a member is there twice"));
            }
            map.next_value_seed(Self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(result: &str) -> Result<Option<Page>, PageFault> {
        page(result, &Redactor::none())
    }

    #[test]
    fn a_page_is_read_tool_by_tool() {
        let text = r#"{"tools":[{"name":"a","description":"d"},{"name":"b"}],"nextCursor":"n"}"#;
        let page = read(text).unwrap().unwrap();
        let names: Vec<_> = page.tools.iter().map(|it| (&*it.name, &*it.description)).collect();
        assert_eq!((names, page.next.as_deref()), (vec![("a", "d"), ("b", "")], Some("n")));
        assert_eq!(read("{}"), Ok(None));
    }

    #[test]
    fn a_page_that_others_could_read_otherwise_is_none() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let many = format!("{}{{\"name\":\"z\"}}", r#"{"name":"a"},"#.repeat(TOOLS_MAX));
        for element in [
            r#"{"name":"a","_meta":"\ud800"}"#,
            r#"{"name":"a","_meta":1e999}"#,
            &format!(r#"{{"name":"a","_meta":{deep}}}"#),
            r#"{"name":"a","description":"d","Description":"e"}"#,
            r#"{"name":"a","inputSchema":{"x":1,"x":2}}"#,
            r#"{"Name":"a"}"#,
            r#"{"name":7}"#,
            "7",
            &many,
        ] {
            let text = format!(r#"{{"tools":[{element}]}}"#);
            assert!(read(&text).is_err(), "{}", text.get(..60).unwrap_or(&text));
        }
        for text in [
            r#"{"tools":[],"tools":[{"name":"a"}]}"#,
            r#"{"Tools":[{"name":"a"}]}"#,
            r#"{"tools":{"0":{"name":"a"}}}"#,
            r#"{"tools":[],"nextcursor":"x"}"#,
            "[]",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_cursor_asks_for_another_page() {
        let at = |cursor: Option<&str>| AskedPage::At(cursor.map(str::to_owned));
        for (params, expected) in [
            (None, AskedPage::First),
            (Some("{}"), AskedPage::First),
            (Some(r#"{"cursor":null}"#), AskedPage::First),
            (Some(r#"{"cursor":"x"}"#), at(Some("x"))),
            (Some(r#"{"cursor":7}"#), at(None)),
            (Some(r#"{"cursor":"x","Cursor":"y"}"#), at(None)),
        ] {
            assert_eq!(AskedPage::of(params), expected, "{params:?}");
        }
    }
}
