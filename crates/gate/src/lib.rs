//! May this action run?
//!
//! A [`Gate`] asks its [`policy`], the learned [`risk`] and the [`guard`]s about a [`GateRequest`].
//! Each answers with a [`Decision`] and a [`Reason`]; a [`Verdict`] joins them, the strictest one
//! winning. Nothing here sees a file, clock or random source: the same request, policy and model
//! give the same verdict years later.

mod decision;
mod gate;
pub mod guard;
mod path;
pub mod policy;
mod request;
pub mod risk;
mod verdict;

pub use decision::Decision;
pub use gate::{Gate, Opinion};
pub use path::{relative_to, tidied};
pub use policy::{Policy, PolicyFault};
pub use request::{
    COMMAND_BYTES_MAX, GateRequest, NAME_BYTES_MAX, PATHS_BYTES_MAX, PATHS_MAX, REQUEST_BYTES_MAX,
    REQUEST_SCHEMA, RequestFault, TEXT_BYTES_MAX,
};
pub use risk::{Cell, Estimate, Features, FindingLevel, ModelFault, RiskModel};
pub use verdict::{Reason, Verdict};
