//! The learned risk: how often changes that looked like this one failed.
//!
//! Decides what of a change counts, what the counts of its cell come to, and what follows from
//! that. Where nothing has been learned about a cell, the declared class of the action decides:
//! what was learned about other changes says nothing about this one.

mod cell;
mod diff;
mod estimate;
mod features;
mod label;
mod model;

pub use cell::{CELLS, Cell, NoSuchCell};
pub(crate) use diff::Counts as DiffCounts;
pub use estimate::{ASK_FROM, DENY_FROM, Estimate};
pub(crate) use estimate::{Referee, judge};
pub use features::{Features, FindingLevel};
pub use label::ChangeType;
pub(crate) use label::label;
pub use model::{
    CellCounts, HistoryLearned, MODEL_BYTES_MAX, MODEL_SCHEMA, ModelFault, Outcomes, RiskModel,
    TraceLearned,
};
