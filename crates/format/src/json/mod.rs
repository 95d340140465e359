//! Strict JSON in, RFC 8785 out.
//!
//! [`read`] takes any JSON text that two parsers cannot disagree about; [`write`](fn@write) gives
//! its one canonical form; [`line::scan`] proves in a single pass that a stored line already is
//! that form and says where its members lie. Nothing here normalises text: see [`crate::text`].

mod error;
pub mod line;
mod number;
mod read;
mod string;
mod write;

pub use error::{JsonError, JsonFault};
pub use read::{read, read_up_to, read_within};
pub use serde_json::{Map, Number, Value};
pub(crate) use write::write_string;
pub use write::{to_bytes, write};

/// Containers may nest this deep; the outermost one counts as one.
pub const DEPTH_MAX: usize = 64;
/// Array elements and object members that one document may hold, counted over all its containers.
pub const ELEMENTS_MAX: usize = 100_000;
/// Bytes of one document or ledger line, without its line break.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// The largest integer that every JSON reader agrees about, 2^53 - 1; its negative is the smallest.
pub const INTEGER_MAX: i64 = (1 << 53) - 1;

/// Keys under which `serde_json` hides values of its own. Taken as data they could change meaning
/// in a build that enables its features, so they are refused.
const PARSER_PRIVATE_PREFIX: &str = "$serde_json::private::";
