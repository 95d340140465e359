//! What can be asked for of a work item.

use countersign_format::event::ArtifactDescriptor;
use countersign_format::exit::{ExitSignal, WorkPhase};
use countersign_format::hash::Hash;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::LogPin;

/// A command for a work item.
#[derive(Debug, Clone)]
pub enum WorkCommand {
    /// Begin it.
    Open(Box<WorkOpening>),
    /// Hold it for a time. A lease that ran out is released first.
    Claim {
        /// Who.
        holder: String,
        /// The session that works on it.
        session_id: String,
        /// For how long, in milliseconds.
        millis: i64,
        /// As what.
        claimant: Claimant,
    },
    /// Hold it longer.
    Renew {
        /// The lease.
        epoch: u64,
        /// Whose it is.
        by: Bearer,
        /// For how long from now, in milliseconds.
        millis: i64,
    },
    /// Let it go.
    Release {
        /// The lease.
        epoch: u64,
        /// Who lets it go.
        by: Releaser,
        /// Why.
        reason: String,
    },
    /// Release a lease that ran out.
    Expire,
    /// Take an exit signal. One that does not fit changes nothing, and that is recorded.
    Exit(Box<WorkExit>),
    /// Record that what came could not be taken as a signal.
    RefuseExit {
        /// Why.
        reason: String,
        /// The lease under which it came.
        epoch: Option<u64>,
        /// The session that it came from.
        session_id: Option<String>,
        /// How it came.
        channel: Option<SignalChannel>,
        /// What came, stored.
        signal: Option<Box<ArtifactDescriptor>>,
    },
    /// Send a blocked item back to where it was blocked, as a person.
    Unblock {
        /// Why.
        reason: String,
        /// How the person's key is kept.
        channel: String,
    },
    /// Vouch for the clock, as a person.
    ConfirmClock {
        /// Why.
        reason: String,
    },
    /// Record that the bytes of an artifact were removed.
    Redact {
        /// Which.
        artifact_hash: Hash,
        /// Why.
        reason: String,
    },
}

/// What a work item begins with.
#[derive(Debug, Clone)]
pub struct WorkOpening {
    /// Where the log stands.
    pub log: LogPin,
    /// What is to be done.
    pub title: String,
    /// What people call it.
    pub label: Option<String>,
    /// Where it begins.
    pub phase: WorkPhase,
    /// Whether whoever implemented it may review it.
    pub author_may_review: bool,
    /// Other traces that it belongs to.
    pub links: Option<Value>,
}

/// Who claims, as far as the rules differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimant {
    /// What runs an agent.
    Agent,
    /// What runs an agent whose signal counts on its descriptor alone.
    OnDescriptor,
    /// The CI runner.
    Ci,
    /// Somebody who runs no agent under the lease, so that it is no attempt.
    ByHand,
}

/// Who presents a lease as theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bearer {
    /// The session that holds it.
    Session(String),
    /// The holder of this name.
    Holder(String),
}

/// Who ends a lease before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Releaser {
    /// Whose it is.
    Bearer(Bearer),
    /// An operator of this name, who takes it away.
    Operator(String),
}

/// How a signal came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignalChannel {
    /// On the descriptor that is made for it, with its nonce.
    Descriptor,
    /// As the last thing on standard output: whatever an agent quotes could look like it.
    Stdout,
    /// From a command that the agent ran, or a tool of it.
    Agent,
    /// From a command that a person ran.
    Operator,
    /// From whoever ran the agent and speaks for it.
    Runner,
}

impl SignalChannel {
    /// Its name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Descriptor => "descriptor",
            Self::Stdout => "stdout",
            Self::Agent => "agent",
            Self::Operator => "operator",
            Self::Runner => "runner",
        }
    }
}

/// How a CI command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CiVerdict {
    /// Its exit status; none if it did not end by itself.
    pub exit_status: Option<i32>,
    /// Why there is no status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The commit that it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether files lay about that were not as committed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncommitted_changes: bool,
}

/// An exit signal, and how it came.
#[derive(Debug, Clone)]
pub struct WorkExit {
    /// The lease.
    pub epoch: u64,
    /// Whose it is.
    pub by: Bearer,
    /// What the agent says.
    pub signal: ExitSignal,
    /// How it came.
    pub channel: SignalChannel,
    /// What came, stored.
    pub stored: Option<ArtifactDescriptor>,
    /// The evidence of the phase, and where it lies for people if the signal does not say.
    pub evidence: Option<(ArtifactDescriptor, Option<String>)>,
    /// The commit at which the phase ended.
    pub commit: Option<String>,
    /// How CI ended, if that is the phase.
    pub ci: Option<CiVerdict>,
    /// The traces of the session.
    pub links: Option<Value>,
}
