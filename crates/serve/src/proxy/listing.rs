//! A page of a server's list of tools, as it came.

use std::collections::BTreeSet;
use std::fmt;

use countersign_runtime::tool_lists::{ListPage, ListedTool, ToolShape};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

use super::head::{elements, pick};

/// Tools of one page that are looked at.
const TOOLS_MAX: usize = 10_000;

/// Which page a request asks for.
pub(super) fn page_of(params: Option<&str>) -> ListPage {
    let cursor = params.and_then(|params| pick(params, ["cursor"]).0[0]);
    match cursor.filter(|cursor| *cursor != "null") {
        Some(_) => ListPage::Next,
        None => ListPage::First,
    }
}

/// The tools in a result, and how many it holds. None if there is no list in it.
pub(super) fn tools(result: &str) -> Option<(Vec<ListedTool>, u64)> {
    let ([list], fault) = pick(result, ["tools"]);
    let list = list?;
    let mut tools = Vec::new();
    let mut count = 0;
    for element in elements(list) {
        count += 1;
        if tools.len() < TOOLS_MAX
            && let Some(tool) = tool(element, fault.is_some())
        {
            tools.push(tool);
        }
    }
    Some((tools, count))
}

fn tool(element: &str, is_murky: bool) -> Option<ListedTool> {
    let value: Value = serde_json::from_str(element).ok()?;
    let name = value.get("name")?.as_str()?.to_owned();
    let is_plain = !is_murky && has_one_reading(element);
    Some(ListedTool { name, shape: is_plain.then(|| ToolShape::of(&value)) })
}

/// Whether no object in a text has a member twice: readers differ in which of them counts.
fn has_one_reading(text: &str) -> bool {
    let mut reader = serde_json::Deserializer::from_str(text);
    Once.deserialize(&mut reader).is_ok()
}

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

    #[test]
    fn a_page_is_read_tool_by_tool() {
        let page = r#"{"tools":[{"name":"a","description":"d"},{"description":"nameless"},{"name":"b",
            "inputSchema":{"x":1,"x":2}}],"nextCursor":"n"}"#;
        let (tools, count) = tools(page).unwrap();
        let names: Vec<_> = tools.iter().map(|it| (&*it.name, it.shape.is_some())).collect();
        assert_eq!((names, count), (vec![("a", true), ("b", false)], 3));
        assert!(super::tools("{}").is_none());
        let (twice, _) = super::tools(r#"{"tools":[{"name":"a"}],"tools":[]}"#).unwrap();
        assert_eq!(twice.first().map(|it| it.shape.is_some()), Some(false));
    }

    #[test]
    fn a_cursor_asks_for_another_page() {
        assert_eq!(page_of(None), ListPage::First);
        assert_eq!(page_of(Some(r#"{"cursor":null}"#)), ListPage::First);
        assert_eq!(page_of(Some(r#"{"cursor":"x"}"#)), ListPage::Next);
    }
}
