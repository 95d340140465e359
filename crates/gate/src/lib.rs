//! May this action run?
//!
//! Rules answer with a [`Decision`] and a [`Reason`]; a [`Verdict`] joins their answers, the
//! strictest one winning. [`guard`] holds the rules that come with the system; others may bring
//! theirs. Nothing here sees a file, clock or random source: the same action gives the same
//! verdict years later.

mod decision;
pub mod guard;
mod verdict;

pub use decision::Decision;
pub use verdict::{Reason, Verdict};
