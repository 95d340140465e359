//! JSON as Python's `json` module reads and writes it, for the receipts of others only.
//!
//! [`loads`] takes what Python takes beyond JSON: NaN, infinities, integers of any size, lone
//! surrogates, repeated keys. [`dumps`] gives the text over which receipt hashes are computed.
//! Everything that Countersign itself signs or hashes goes through [`crate::json`].

mod read;
mod string;
mod value;
mod write;

pub use read::loads;
pub use string::PyString;
pub(crate) use value::member;
pub use value::{PyInteger, PyObject, PyValue};
pub use write::{dumps, dumps_spaced};
pub(crate) use write::{write_float, write_text};

/// Decimal digits that an integer may have; Python converts no longer ones.
pub const INTEGER_DIGITS_MAX: usize = 4300;
/// Bytes of a number with a fraction or an exponent. Python has no such limit. With it the
/// exponent's effect can never be undone by the number of digits, which Rust's parser relies on.
pub const FLOAT_BYTES_MAX: usize = 16_384;
