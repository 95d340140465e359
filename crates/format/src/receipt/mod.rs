//! Action receipts: the record of what an agent did, the hash that binds it, the chain they form.
//!
//! Decides which fields are hashed in which text, whether a record agrees with itself, and whether
//! records follow each other. A receipt carries no signature: who wrote it, and whether the hashes
//! in it belong to anything that is stored, is decided elsewhere.

mod action;
mod chain;
mod check;
mod direct;
mod record;
mod table;

pub use action::{AgentAction, GateScore};
pub use chain::{ChainFault, verify_chain};
pub use check::{CheckedReceipt, ReceiptKind, check, check_with};
pub use direct::recompute;
pub use record::Record;
pub use table::{AGENT_ACTION, ActionType, GateDecision, PolicyVerdict, ReceiptForm};
