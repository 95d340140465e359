//! What Python's reader makes of a document.

use std::collections::BTreeMap;
use std::fmt;

use super::PyString;

/// An object. Where a key was repeated, its last value.
pub type PyObject = BTreeMap<PyString, PyValue>;

/// The value of the member `name`.
pub(crate) fn member<'a>(members: &'a PyObject, name: &str) -> Option<&'a PyValue> {
    members.get(&PyString::from(name))
}

/// A value as Python holds it: integers and floats are different things, NaN equals nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum PyValue {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number written without fraction and exponent.
    Integer(PyInteger),
    /// Any other number, NaN and the infinities included.
    Float(f64),
    /// A string.
    String(PyString),
    /// An array.
    Array(Vec<Self>),
    /// An object.
    Object(PyObject),
}

impl PyValue {
    /// What it is, in a word for messages.
    #[must_use]
    pub const fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// An integer of any size, exact.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PyInteger(String);

impl PyInteger {
    /// From a JSON integer token: digits without leading zeros, perhaps a minus sign.
    pub(super) fn from_token(token: &str) -> Self {
        Self(if token == "-0" { "0" } else { token }.to_owned())
    }

    /// The number, if it fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }
}

impl From<i64> for PyInteger {
    fn from(value: i64) -> Self {
        Self(value.to_string())
    }
}

impl fmt::Display for PyInteger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PyInteger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
