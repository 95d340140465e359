//! The JSON object that a hook is given, with the bytes of each member as they came.
//!
//! Tool inputs and results are stored as they are, so they are found, not written anew. What is
//! ambiguous is refused: two members of one name could be read differently by whoever sent them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::{DeserializeOwned, IgnoredAny};

use crate::scan::Scan;

/// Why a document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookFault {
    /// Too many bytes.
    #[error("the input has {bytes} bytes or more, the limit is {limit}")]
    TooLong {
        /// How many there are at least.
        bytes: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Not JSON.
    #[error("the input is not JSON: {what}")]
    NotJson {
        /// What is wrong.
        what: String,
    },
    /// Not an object.
    #[error("the input is not a JSON object")]
    NotAnObject,
    /// One name for two things.
    #[error("the input has two members `{name}`")]
    Twice {
        /// The name.
        name: String,
    },
    /// Something that is needed is not there.
    #[error("the input has no `{name}`")]
    Missing {
        /// What is not there.
        name: String,
    },
    /// Something is not what it should be.
    #[error("`{name}` in the input is not {expected}")]
    Wrong {
        /// What.
        name: String,
        /// What it should be.
        expected: &'static str,
    },
    /// An action that receipts would not have.
    #[error("the action is not what receipts have: {what}")]
    Action {
        /// Everything that is wrong.
        what: String,
    },
    /// The session cannot be called so.
    #[error(transparent)]
    Session(#[from] countersign_runtime::agent_sessions::SessionNameFault),
}

/// A JSON object, its members found but not read.
#[derive(Debug, Clone)]
pub(super) struct HookDocument<'d> {
    members: BTreeMap<String, &'d str>,
    /// Where it lies in what it is part of, for faults.
    place: String,
}

impl<'d> HookDocument<'d> {
    /// Reads an object.
    pub(super) fn read(bytes: &'d [u8]) -> Result<Self, HookFault> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| HookFault::NotJson { what: error.to_string() })?;
        Self::of(text, "")
    }

    fn of(text: &'d str, place: &str) -> Result<Self, HookFault> {
        let text = text.trim();
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| HookFault::NotJson { what: error.to_string() })?;
        if !text.starts_with('{') {
            return Err(HookFault::NotAnObject);
        }
        let mut members = BTreeMap::new();
        let mut scan = Scan::new(text);
        while let Some((name, value)) = scan.next_member() {
            // A name that is no text is nobody's name.
            let name: String = serde_json::from_str(name).unwrap_or_else(|_| name.to_owned());
            if members.contains_key(&name) {
                return Err(HookFault::Twice { name });
            }
            members.insert(name, value);
        }
        Ok(Self { members, place: place.to_owned() })
    }

    /// The bytes of a member; none if it is `null`.
    pub(super) fn raw(&self, name: &str) -> Option<&'d str> {
        self.members.get(name).copied().filter(|value| *value != "null")
    }

    /// Whether it has a member of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// The object in a member.
    pub(super) fn object(&self, name: &str) -> Result<Option<Self>, HookFault> {
        match self.raw(name) {
            Some(text) if text.starts_with('{') => {
                Self::of(text, &format!("{}{name}.", self.place)).map(Some)
            }
            Some(_) => Err(self.wrong(name, "an object")),
            None => Ok(None),
        }
    }

    /// A member that is a text.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, HookFault> {
        self.value(name, "a text")
    }

    /// A member that is a text, and there.
    pub(super) fn needed_text(&self, name: &str) -> Result<String, HookFault> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    /// A member of some type, which `expected` names.
    pub(super) fn value<T: DeserializeOwned>(
        &self,
        name: &str,
        expected: &'static str,
    ) -> Result<Option<T>, HookFault> {
        let value = self.raw(name).map(serde_json::from_str).transpose();
        value.map_err(|_| self.wrong(name, expected))
    }

    /// Where the agent stands: a whole path, or the directory of this process if none is named.
    pub(super) fn standing(&self, name: &str) -> Result<Option<PathBuf>, HookFault> {
        match self.text(name)?.map(PathBuf::from) {
            Some(path) if !path.is_absolute() => Err(self.wrong(name, "an absolute path")),
            Some(path) => Ok(Some(path)),
            None => Ok(std::env::current_dir().ok()),
        }
    }

    pub(super) fn missing(&self, name: &str) -> HookFault {
        HookFault::Missing { name: format!("{}{name}", self.place) }
    }

    pub(super) fn wrong(&self, name: &str, expected: &'static str) -> HookFault {
        HookFault::Wrong { name: format!("{}{name}", self.place), expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_as_they_were_written() {
        let text = "{ \"a\" : {\"x\": [1, \"}\\\"\"] } ,\"b\":\"t,\\\\\",\n\"c\": -1.50e3 , \
                    \"d\":null,\"e\":[],\"\\u0066\":true}";
        let document = HookDocument::read(text.as_bytes()).unwrap();
        let raw = |name: &str| document.raw(name);
        assert_eq!(raw("a"), Some("{\"x\": [1, \"}\\\"\"] }"));
        assert_eq!(raw("b"), Some("\"t,\\\\\""));
        assert_eq!(raw("c"), Some("-1.50e3"));
        assert_eq!((raw("d"), document.has("d")), (None, true));
        assert_eq!(raw("e"), Some("[]"));
        assert_eq!(raw("f"), Some("true"));
        assert_eq!((raw("x"), document.has("x")), (None, false));
        assert!(HookDocument::read(b"{}").unwrap().members.is_empty());
    }

    #[test]
    fn what_is_no_object_or_says_something_twice_is_refused() {
        let fault = |text: &str| HookDocument::read(text.as_bytes()).unwrap_err();
        assert_eq!(fault("[]"), HookFault::NotAnObject);
        assert_eq!(fault("{\"a\":1,\"\\u0061\":2}"), HookFault::Twice { name: "a".into() });
        for text in ["", "{", "{\"a\":}", "{} x", "nonsense"] {
            assert!(matches!(fault(text), HookFault::NotJson { .. }), "{text}");
        }
        assert!(matches!(HookDocument::read(b"{\"a\":\"\xff\"}"), Err(HookFault::NotJson { .. })));
    }

    #[test]
    fn a_member_of_the_wrong_type_is_named_by_its_place() {
        let document = HookDocument::read(b"{\"action\":{\"files\":3},\"n\":1}").unwrap();
        let action = document.object("action").unwrap().unwrap();
        let expected = HookFault::Wrong { name: "action.files".into(), expected: "a list" };
        assert_eq!(action.value::<Vec<String>>("files", "a list"), Err(expected));
        assert!(matches!(document.object("n"), Err(HookFault::Wrong { .. })));
        assert_eq!(
            action.needed_text("tool"),
            Err(HookFault::Missing { name: "action.tool".into() })
        );
    }
}
