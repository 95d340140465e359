//! The exit signal on a file descriptor of its own: the stronger of the two channels.
//!
//! Decides where messages begin and end, and that each carries the nonce which only the agent that
//! was started knows. Leaves out whether the signal is valid.

use super::INPUT_BYTES_MAX;
use super::stdout::grammar::{Grammar, Step};
use super::stdout::tally::Tally;
use crate::text;

/// Bytes of everything that is written to the descriptor.
pub const DESCRIPTOR_BYTES_MAX: usize = 4 * INPUT_BYTES_MAX;

/// Bytes that an error repeats.
const ECHO_BYTES_MAX: usize = 32;
/// This many bytes of the nonce in a row are not repeated in an error.
const SECRET_RUN: usize = 4;

/// Why nothing is taken from the descriptor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorFault {
    /// A message does not begin with the nonce and a blank.
    #[error("message {message} on the descriptor does not begin with the nonce, but with `{echo}`")]
    NoNonce {
        /// Which message, from 1.
        message: u64,
        /// How it begins, escaped, with `*` for what may be part of the nonce.
        echo: String,
    },
    /// There are messages that differ.
    #[error("{count} exit signals on the descriptor, and they differ")]
    Several {
        /// How many there are, repeated ones included.
        count: u64,
    },
    /// A message, or everything together, is larger than it may be.
    #[error("too much on the descriptor: {actual} bytes > {max} bytes maximum")]
    TooLarge {
        /// Its bytes, as far as they were read.
        actual: usize,
        /// The bytes that it may have.
        max: usize,
    },
    /// After the nonce there is no JSON object that is closed and ends its line.
    #[error(
        "message {message} on the descriptor is not one closed JSON object on lines of its own"
    )]
    Broken {
        /// Which message, from 1.
        message: u64,
    },
}

/// The signal in `bytes`, all that an agent wrote to the descriptor: messages of the nonce, one
/// blank, a JSON object and a line break or the end. `None` if there is nothing but white space.
pub fn read_descriptor(nonce: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, DescriptorFault> {
    if bytes.len() > DESCRIPTOR_BYTES_MAX {
        return Err(DescriptorFault::TooLarge { actual: bytes.len(), max: DESCRIPTOR_BYTES_MAX });
    }
    let (mut tally, mut latest) = (Tally::default(), None);
    let mut rest = bytes.trim_ascii_start();
    let mut message = 0;
    while !rest.is_empty() {
        message += 1;
        let Some(body) = after_nonce(nonce.as_bytes(), rest) else {
            let echo = echo(nonce.as_bytes(), rest);
            return Err(DescriptorFault::NoNonce { message, echo });
        };
        let (signal, after) = split_object(body, message)?;
        tally.add(signal);
        latest = Some(signal);
        rest = after.trim_ascii_start();
    }
    match tally.different() {
        Some(count) => Err(DescriptorFault::Several { count }),
        None => Ok(latest.map(<[u8]>::to_vec)),
    }
}

/// What follows the nonce and one blank.
fn after_nonce<'a>(nonce: &[u8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (claimed, rest) = bytes.split_at_checked(nonce.len())?;
    // An empty nonce is one that everybody knows.
    let is_ours = !nonce.is_empty() && is_same(nonce, claimed);
    rest.strip_prefix(b" ").filter(|_| is_ours)
}

/// Whether two texts of the same length are the same, in a time that does not tell where they
/// first differ.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    let mut difference = 0;
    for (left, right) in left.iter().zip(right) {
        difference |= left ^ right;
    }
    // Otherwise the loop might be compiled into one that stops early.
    std::hint::black_box(difference) == 0
}

/// The object with which `bytes` begin, and what follows its line break.
fn split_object(bytes: &[u8], message: u64) -> Result<(&[u8], &[u8]), DescriptorFault> {
    let broken = DescriptorFault::Broken { message };
    let (length, step) = match bytes.first() {
        Some(b'{') => object_end(bytes),
        _ => (0, Step::Failed),
    };
    if length > INPUT_BYTES_MAX {
        return Err(DescriptorFault::TooLarge { actual: length, max: INPUT_BYTES_MAX });
    }
    if step != Step::Closed {
        return Err(broken);
    }
    let (signal, rest) = bytes.split_at_checked(length).ok_or(broken.clone())?;
    let mut after = rest.iter().copied().enumerate();
    match after.find(|(_, byte)| !matches!(byte, b' ' | b'\t' | b'\r')) {
        None => Ok((signal, &[])),
        Some((at, b'\n')) => Ok((signal, rest.get(at..).unwrap_or_default())),
        Some(_) => Err(broken),
    }
}

/// How many of `bytes` belong to the object that their first one opens, and how it ended.
fn object_end(bytes: &[u8]) -> (usize, Step) {
    let mut grammar = Grammar::opened_by(b'{', 0);
    for (at, &byte) in bytes.iter().enumerate().skip(1) {
        match grammar.step(byte, at) {
            Step::More => {}
            Step::Closed => return (at + 1, Step::Closed),
            Step::Failed => return (at, Step::Failed),
        }
    }
    (bytes.len(), Step::More)
}

/// How `bytes` begin, fit for a message that others read: the nonce is not theirs to know.
fn echo(nonce: &[u8], bytes: &[u8]) -> String {
    let shown = bytes.get(..ECHO_BYTES_MAX).unwrap_or(bytes);
    let mut masked = shown.to_vec();
    let run = SECRET_RUN.min(nonce.len()).max(1);
    for (at, window) in bytes.windows(run).take(shown.len()).enumerate() {
        if nonce.windows(run).any(|secret| secret == window) {
            masked.iter_mut().skip(at).take(run).for_each(|byte| *byte = b'*');
        }
    }
    let more = if shown.len() < bytes.len() { "..." } else { "" };
    format!("{}{more}", text::escape(&String::from_utf8_lossy(&masked)))
}
