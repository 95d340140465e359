//! A closed session that can be tampered with, by whoever holds which keys.
//!
//! [`Scene`] is the session of twelve events that the shared cases start from, in either schema, with
//! its log and artifacts; [`Case`] is one way to tamper with it. What a verifier should say of it is
//! for the tests to compare.

mod case;
mod fixture;
mod keys;
mod ledger;
mod log;
mod ops;
mod place;
mod raw;
mod scene;
mod variants;

pub use case::{Case, Match};
pub use ledger::{line_of, reseal, value_of};
pub use scene::Scene;
