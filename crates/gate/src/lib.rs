//! May this action run?
//!
//! Rules answer with a [`Decision`] and a [`Reason`]; a [`Verdict`] joins their answers, the
//! strictest one winning. The crate decides nothing about where rules come from, and sees no file,
//! clock or random source: the same answers give the same verdict years later.

mod decision;
mod verdict;

pub use decision::Decision;
pub use verdict::{Reason, Verdict};
