//! Bytes and what they mean.
//!
//! Everything that Countersign signs, hashes or exchanges is defined here: canonical JSON, events,
//! artifacts, keys, proofs, receipts, exit signals and envelopes. The crate does no IO, reads no
//! clock and draws no random numbers, so the same input gives the same bytes everywhere.

pub mod cap;
pub mod envelope;
pub mod event;
pub mod exit;
pub mod hash;
pub mod id;
pub mod json;
pub mod key;
pub mod merkle;
pub mod note;
pub mod path;
pub mod proof;
pub mod python;
pub mod receipt;
pub mod report;
pub mod risk;
pub mod role;
pub mod schemas;
pub mod shape;
pub mod text;
pub mod time;
pub mod trace_session;
