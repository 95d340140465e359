//! The files of an agent's answer, written below the workspace root all or none.
//!
//! Nothing is written through a link, no edit by a person is lost, and after a crash the same call
//! comes to the same end. Whether an answer is to be applied at all, and what is recorded of it, is
//! for the flow to decide.

mod apply;
mod moves;
mod plan;
mod root;
mod seen;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use apply::{Aftermath, ApplyFailed, apply};
pub(crate) use plan::{FileWish, PlannedFile, plan};
pub(crate) use root::{FileRoot, read_current};
pub(crate) use seen::{Reach, Seen};
