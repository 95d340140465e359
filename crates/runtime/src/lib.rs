//! The only writer: stores, keyring, recorder.
//!
//! Everything that changes a trace goes through [`Workspace`]: it decides with the protocol, signs
//! with the keyring, appends through the store, and tells the workspace log. Synchronous; callers
//! bring their threads.

pub mod actions;
pub mod agent_sessions;
pub mod agents;
pub mod clock;
pub mod conduct;
pub mod coverage;
pub mod disk;
pub mod flow;
pub mod gate;
pub mod git;
pub mod index;
pub mod inspect;
pub mod keyring;
mod keys;
pub mod known_roots;
mod log;
pub mod period;
pub mod questions;
mod recording;
mod repair;
mod replica;
pub mod sandbox;
mod seal;
pub mod secrets;
mod session;
pub mod sight;
mod signers;
mod snapshot;
pub mod store;
pub mod task;
pub mod tool_lists;
pub mod tools;
mod trace;
pub mod watch;
pub mod work;
mod workspace;
mod writer;

pub use recording::{Envoy, Recording};
pub use repair::{Reconciled, RedactionRecord};
pub use replica::Damage;
pub use seal::{SealedFile, Unsealable};
pub use session::{RunningSession, Session};
pub use workspace::{AGENTS, Environment, KeyHolder, Workspace, WorkspaceError};
pub use writer::{ENVOY_COMMANDS_MAX, Recorded, Ticket, WriteError};
