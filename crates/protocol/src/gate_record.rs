//! What a review says of the gate that it rests on.

use countersign_format::hash::Hash;
use serde::Serialize;

/// What the gate said, and by what.
#[derive(Debug, Clone, Serialize)]
pub struct GateRecord {
    /// `allow`, `ask` or `deny`.
    pub decision: String,
    /// Whether that binds the agent.
    pub enforced: bool,
    /// The stored request.
    pub request: Hash,
    /// The stored policy.
    pub policy: Hash,
    /// The stored model, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Hash>,
    /// How likely the model takes the action to fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The cell of the model that the action falls into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<u16>,
    /// Its reasons, where the review has those of others too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}
