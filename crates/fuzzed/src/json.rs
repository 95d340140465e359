//! The strict reader: it takes nothing that two readers could take differently.

use std::collections::BTreeSet;
use std::fmt;

use countersign_format::json::{self, JsonError, JsonFault, LINE_BYTES_MAX, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "json_read",
    holds: |data| holds(data, json::read),
    twin: |data| holds(data, |bytes| serde_json::from_slice(bytes).or_else(|_| json::read(bytes))),
    tries: 30_000,
    words: WORDS,
};

/// Words of JSON, and those that readers stumble over.
pub(crate) const WORDS: &str = "{·}·[·]·,·:·\"·\\·\\u·\\ud800·\\udc00·\\u0000·\\/·null·true·false·-0·1e400·1e-400·\
        0.1·9007199254740991·9007199254740993·1E5·\"a\":·{}·[]·\u{feff}·\u{e000}·\u{10000}·\
        \u{212b}·A\u{30a}·\r·\u{7f}·$serde_json::private::Number·[[[[[[[[[[[[[[[[·\
        ]]]]]]]]]]]]]]]]";

type Read = fn(&[u8]) -> Result<Value, JsonError>;

fn holds(data: &[u8], read: Read) {
    let ours = read(data);
    let another: Result<Value, _> = serde_json::from_slice(data);
    let twice = has_a_member_twice(data);
    match (&ours, &another) {
        (Ok(value), Ok(another)) => {
            assert_eq!(json::to_bytes(value), json::to_bytes(another), "read differently");
            assert!(!twice, "a member is there twice");
        }
        (Ok(_), Err(error)) => unreachable!("another reader refuses it: {error}"),
        (Err(error), Ok(_)) => assert!(is_reason(&error.fault, twice), "refused: {error}"),
        (Err(_), Err(_)) => {}
    }
    if let Err(error) = &ours {
        let before = data.get(..error.offset).expect("the fault lies in the text");
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(error.line, lines + 1, "the line of the fault");
        assert!(error.column >= 1 && error.column <= before.len() + 1, "the column of the fault");
    }
    if data.len() + 4 <= LINE_BYTES_MAX && !data.starts_with(b"\xef\xbb\xbf") {
        let spaced = read(&[b" \t", data, b"\r\n"].concat());
        assert_eq!(spaced.ok(), ours.ok(), "blanks around it change it");
    }
}

/// Whether a text that is JSON to others may be refused for this.
fn is_reason(fault: &JsonFault, twice: bool) -> bool {
    match fault {
        JsonFault::DuplicateKey(_) => twice,
        JsonFault::TooLong { .. }
        | JsonFault::ReservedKey(_)
        | JsonFault::IntegerRange
        | JsonFault::Underflow
        | JsonFault::TooDeep
        | JsonFault::TooManyElements => true,
        _ => false,
    }
}

/// Whether some object of a JSON text has a member twice; no if it is none.
pub(crate) fn has_a_member_twice(data: &[u8]) -> bool {
    serde_json::from_slice::<Twice>(data).is_ok_and(|Twice(found)| found)
}

struct Twice(bool);

impl<'de> Deserialize<'de> for Twice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self(false))
    }
}

impl<'de> Visitor<'de> for Twice {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self, A::Error> {
        let mut found = false;
        while let Some(Self(inside)) = elements.next_element()? {
            found |= inside;
        }
        Ok(Self(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let (mut names, mut found) = (BTreeSet::new(), false);
        while let Some((name, Self(inside))) = members.next_entry::<String, Self>()? {
            found |= inside | !names.insert(name);
        }
        Ok(Self(found))
    }
}
