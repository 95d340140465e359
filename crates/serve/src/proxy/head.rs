//! The head of a message: what decides where it goes.
//!
//! Read so that nobody else can read it differently: a member that is there twice, or that differs from
//! a known one in case alone, could be another method to another reader. What a message carries is not
//! looked at, and its bytes are never changed.

use std::fmt;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::scan::Scan;

/// The members that decide.
const HEAD: [&str; 5] = ["id", "method", "params", "result", "error"];
/// Messages in one batch.
const BATCH_MAX: usize = 1_000;
/// Bytes of an id.
const ID_BYTES_MAX: usize = 1_024;

/// The id of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Id {
    /// A number, as it is written; an integer without fraction and exponent.
    Number(String),
    /// A text.
    Text(String),
}

impl Id {
    fn read(text: &str) -> Result<Option<Self>, Fault> {
        if text.len() > ID_BYTES_MAX {
            return Err(Fault::BadId);
        }
        match serde_json::from_str(text) {
            Ok(Value::Null) => Ok(None),
            Ok(Value::String(text)) => Ok(Some(Self::Text(text))),
            // One number has one spelling here, whatever it has there.
            Ok(Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Ok(Some(Self::Number(integer.to_string()))),
                (None, Some(float)) if float.fract() == 0.0 && float.abs() < 9e15 => {
                    Ok(Some(Self::Number(format!("{float:.0}"))))
                }
                _ => Err(Fault::BadId),
            },
            _ => Err(Fault::BadId),
        }
    }

    /// It as JSON.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Number(number) => serde_json::from_str(number).unwrap_or_default(),
            Self::Text(text) => Value::from(text.as_str()),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(text) | Self::Text(text) => f.write_str(text),
        }
    }
}

/// Why a line is no message that everybody reads in the same way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("not a JSON document: {0}")]
    NotJson(String),
    #[error("not a JSON-RPC request, notification or response")]
    NoMessage,
    #[error("an id is a text or an integer")]
    BadId,
    #[error("`method` is a text")]
    BadMethod,
    #[error("`{0}` is in it twice")]
    Twice(&'static str),
    #[error("`{found}` could be taken for `{name}`")]
    Alike { found: String, name: &'static str },
    #[error("it is a request and a response at once")]
    Both,
    #[error("a batch has at most {BATCH_MAX} messages")]
    LargeBatch,
    #[error("a line break inside of a message could be taken for its end")]
    Broken,
    #[error("a batch that calls a tool is not passed on; send one message per line")]
    CallInBatch,
}

/// A fault, and the id of the message that has it, as far as that can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Faulty {
    pub(super) fault: Fault,
    pub(super) id: Option<Id>,
}

impl From<Fault> for Faulty {
    fn from(fault: Fault) -> Self {
        Self { fault, id: None }
    }
}

/// A message, as far as it decides where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Head<'a> {
    Request {
        id: Id,
        method: String,
        params: Option<&'a str>,
    },
    Notification {
        method: String,
        params: Option<&'a str>,
    },
    Response {
        id: Id,
        outcome: Outcome<'a>,
    },
    /// An error about something that had no id.
    Orphan,
}

/// What a response says, in its own bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome<'a> {
    Result(&'a str),
    Error(&'a str),
}

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Blank,
    One(Head<'a>),
    Batch(Vec<Head<'a>>),
}

/// Reads a line without its line break.
pub(super) fn read(line: &[u8]) -> Result<Line<'_>, Faulty> {
    let text = std::str::from_utf8(line).map_err(|error| Fault::NotJson(error.to_string()))?;
    // A reader that takes every kind of line break for the end of a message sees several here.
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.contains('\r') {
        return Err(Fault::Broken.into());
    }
    if text.trim_ascii().is_empty() {
        return Ok(Line::Blank);
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| Fault::NotJson(error.to_string()))?;
    let mut scan = Scan::new(text);
    match scan.byte() {
        Some(b'{') => Ok(Line::One(head(text)?)),
        Some(b'[') => {
            let mut heads = Vec::new();
            while let Some(element) = scan.next_element() {
                if heads.len() == BATCH_MAX {
                    return Err(Fault::LargeBatch.into());
                }
                heads.push(head(element)?);
            }
            if heads.is_empty() { Err(Fault::NoMessage.into()) } else { Ok(Line::Batch(heads)) }
        }
        _ => Err(Fault::NoMessage.into()),
    }
}

fn head(text: &str) -> Result<Head<'_>, Faulty> {
    let (found, fault) = pick(text, HEAD);
    let [id, method, params, result, error] = found;
    let read_id = id.map_or(Ok(None), Id::read);
    let faulty = |fault| Faulty { fault, id: read_id.as_ref().ok().and_then(Clone::clone) };
    if let Some(fault) = fault {
        return Err(faulty(fault));
    }
    // Some programs write what is not there as null.
    let method = method.filter(|text| *text != "null");
    let error = error.filter(|text| *text != "null");
    match (method, result, error) {
        (Some(method), None, None) => {
            let method = serde_json::from_str(method).map_err(|_| faulty(Fault::BadMethod))?;
            match (id.is_some(), read_id.clone().map_err(&faulty)?) {
                (true, Some(id)) => Ok(Head::Request { id, method, params }),
                (true, None) => Err(faulty(Fault::BadId)),
                (false, _) => Ok(Head::Notification { method, params }),
            }
        }
        (Some(_), _, _) | (None, Some(_), Some(_)) => Err(faulty(Fault::Both)),
        (None, None, None) => Err(faulty(Fault::NoMessage)),
        (None, result, error) => match (read_id.clone().map_err(&faulty)?, result, error) {
            (Some(id), Some(result), _) => {
                Ok(Head::Response { id, outcome: Outcome::Result(result) })
            }
            (Some(id), _, Some(error)) => Ok(Head::Response { id, outcome: Outcome::Error(error) }),
            (None, None, Some(_)) => Ok(Head::Orphan),
            _ => Err(faulty(Fault::BadId)),
        },
    }
}

/// The members of these names in a text that is a JSON value; and what is wrong with them. Nothing is
/// found in what is no object.
pub(super) fn pick<'a, const N: usize>(
    text: &'a str,
    names: [&'static str; N],
) -> ([Option<&'a str>; N], Option<Fault>) {
    let mut found = [None; N];
    let mut fault = None;
    let mut scan = Scan::new(text);
    if scan.byte() != Some(b'{') {
        return (found, Some(Fault::NoMessage));
    }
    while let Some((key, value)) = scan.next_member() {
        let Some(key) = unescaped(key) else {
            fault.get_or_insert(Fault::NoMessage);
            continue;
        };
        let folded = fold(&key);
        for (name, slot) in names.iter().zip(found.iter_mut()) {
            if folded != fold(name) {
                continue;
            }
            if key != *name {
                fault.get_or_insert(Fault::Alike { found: key.clone(), name });
            } else if slot.is_some() {
                fault.get_or_insert(Fault::Twice(name));
            } else {
                *slot = Some(value);
            }
        }
    }
    (found, fault)
}

fn unescaped(literal: &str) -> Option<String> {
    match literal.contains('\\') {
        true => serde_json::from_str(literal).ok(),
        false => Some(literal.trim_matches('"').to_owned()),
    }
}

/// A name as readers see it that do not look at case. Two letters beyond ASCII fold into it.
pub(super) fn fold(name: &str) -> String {
    let letter = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    };
    name.chars().map(letter).collect()
}

/// Whether a reader that is not exact could take one name for the other.
pub(super) fn is_alike(found: &str, name: &str) -> bool {
    found != name && fold(found.trim()) == fold(name)
}

/// The elements of an array in a text that is a JSON value; none if it is something else.
pub(super) fn elements(text: &str) -> impl Iterator<Item = &str> {
    let mut scan = Scan::new(text);
    let is_array = scan.byte() == Some(b'[');
    std::iter::from_fn(move || if is_array { scan.next_element() } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Result<Head<'_>, Faulty> {
        match read(line.as_bytes())? {
            Line::One(head) => Ok(head),
            other => panic!("{other:?}"),
        }
    }

    fn number(id: i64) -> Id {
        Id::Number(id.to_string())
    }

    #[test]
    fn requests_notifications_and_responses_are_told_apart_and_carry_their_bytes() {
        let method = || "m".to_owned();
        for (line, expected) in [
            (
                r#" { "params" : {"a":[1, "}"]} , "id":7,"method":"m","x":{"id":1}} "#,
                Head::Request {
                    id: number(7),
                    method: method(),
                    params: Some(r#"{"a":[1, "}"]}"#),
                },
            ),
            (
                r#"{"jsonrpc":"2.0","method":"m"}"#,
                Head::Notification { method: method(), params: None },
            ),
            (
                r#"{"id":"a\u0062","result":{"id":"x","result":1},"error":null}"#,
                Head::Response {
                    id: Id::Text("ab".into()),
                    outcome: Outcome::Result(r#"{"id":"x","result":1}"#),
                },
            ),
            (
                r#"{"error":{"code":1},"id":1.0}"#,
                Head::Response { id: number(1), outcome: Outcome::Error(r#"{"code":1}"#) },
            ),
            (r#"{"id":null,"error":{"code":1}}"#, Head::Orphan),
        ] {
            assert_eq!(one(line), Ok(expected), "{line}");
        }
        assert_eq!(read(b" \r"), Ok(Line::Blank));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused_under_its_id() {
        let alike = |found: &str, name| Fault::Alike { found: found.into(), name };
        let one_id = Some(number(1));
        for (line, fault, id) in [
            (r#"{"id":1,"method":"a","method":"tools/call"}"#, Fault::Twice("method"), &one_id),
            (r#"{"id":1,"method":"a","\u006dethod":"b"}"#, Fault::Twice("method"), &one_id),
            (r#"{"id":1,"method":"a","Method":"b"}"#, alike("Method", "method"), &one_id),
            (r#"{"id":1,"method":"a","param\u017f":{}}"#, alike("params", "params"), &one_id),
            (r#"{"id":1,"method":"a","ID":2}"#, alike("ID", "id"), &one_id),
            (r#"{"id":1,"id":2,"method":"a"}"#, Fault::Twice("id"), &one_id),
            (r#"{"id":1,"method":"a","result":{}}"#, Fault::Both, &one_id),
            (r#"{"id":1,"result":{},"error":{}}"#, Fault::Both, &one_id),
            (r#"{"id":1,"method":["tools/call"]}"#, Fault::BadMethod, &one_id),
            (r#"{"id":null,"method":"a"}"#, Fault::BadId, &None),
            (r#"{"id":1.5,"method":"a"}"#, Fault::BadId, &None),
            (r#"{"id":{},"result":1}"#, Fault::BadId, &None),
            (r#"{"id":1}"#, Fault::NoMessage, &one_id),
            ("7", Fault::NoMessage, &None),
            ("[]", Fault::NoMessage, &None),
            ("{\"method\":\"a\",\"params\":\r{\"method\":\"tools/call\"}}", Fault::Broken, &None),
        ] {
            let found = read(line.as_bytes()).unwrap_err();
            let expected = match &fault {
                // Written with an escape above.
                Fault::Alike { name, .. } if line.contains("u017f") => {
                    Fault::Alike { found: "param\u{17f}".into(), name }
                }
                _ => fault,
            };
            assert_eq!(found, Faulty { fault: expected, id: id.clone() }, "{line}");
        }
        for line in [&b"{"[..], b"{} {}", b"\xff", b"\xef\xbb\xbf{}", b"{'a':1}"] {
            let found = read(line).unwrap_err();
            assert!(matches!(found.fault, Fault::NotJson(_)), "{found:?}");
        }
    }

    #[test]
    fn a_batch_is_read_message_by_message() {
        let line = r#"[{"id":1,"method":"a"}, {"method":"b"} ]"#;
        let Ok(Line::Batch(heads)) = read(line.as_bytes()) else { panic!() };
        assert_eq!(heads.len(), 2);
        assert!(read(br#"[{"id":1,"method":"a"},7]"#).is_err());
    }

    #[test]
    fn methods_that_are_nearly_the_same_are_noticed() {
        assert!(is_alike("Tools/Call", "tools/call") && is_alike("tools/call ", "tools/call"));
        assert!(!is_alike("tools/call", "tools/call") && !is_alike("tools/list", "tools/call"));
    }

    #[test]
    fn the_elements_of_an_array_come_as_their_bytes() {
        assert_eq!(elements(r#" [ {"a":"]"} ,[1,2], "x" ] "#).collect::<Vec<_>>().len(), 3);
        assert_eq!(elements("{}").count() + elements("[]").count(), 0);
    }
}
