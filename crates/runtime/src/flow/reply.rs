//! What an agent gave back, as an answer or as the reason why it is none.

use countersign_format::envelope::{OutputEnvelope, Recommendation};
use countersign_protocol::flow::check_feature;

use crate::agents::find_envelope;
use crate::tools::{Ended, ToolOutcome};

/// What an agent gave back.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentReply {
    /// An envelope.
    Envelope(Box<OutputEnvelope>),
    /// No envelope, and why.
    Unusable(String),
    /// It was ended before it could answer.
    Stopped,
}

/// Reads what an agent left. An exit status other than 0 is a failure whatever was printed.
#[must_use]
pub fn read_reply(outcome: &ToolOutcome, among_text: bool) -> AgentReply {
    let printed = &outcome.stdout;
    match outcome.ended {
        Ended::Stopped => AgentReply::Stopped,
        Ended::Exited(0) if printed.dropped > 0 => {
            let all = printed.dropped + printed.bytes.len() as u64;
            AgentReply::Unusable(format!("it printed {all} bytes, which is more than it may"))
        }
        Ended::Exited(0) => read_printed(&printed.bytes, among_text),
        _ => AgentReply::Unusable(format!("it did not answer: {}", outcome.reason())),
    }
}

/// The envelope in what was printed, which may stand among other text.
pub(super) fn read_printed(printed: &[u8], among_text: bool) -> AgentReply {
    let found = if among_text { find_envelope(printed) } else { Some(printed.to_vec()) };
    let Some(found) = found else {
        return AgentReply::Unusable("it printed no output envelope".to_owned());
    };
    if found.iter().all(u8::is_ascii_whitespace) {
        return AgentReply::Unusable("it printed nothing".to_owned());
    }
    match OutputEnvelope::from_bytes(&found) {
        Ok(envelope) => AgentReply::Envelope(Box::new(envelope)),
        Err(error) => AgentReply::Unusable(format!("it printed no output envelope: {error}")),
    }
}

/// The envelope of a stored answer.
pub(super) fn stored(bytes: &[u8]) -> Option<Box<OutputEnvelope>> {
    [false, true].into_iter().find_map(|among_text| match read_printed(bytes, among_text) {
        AgentReply::Envelope(envelope) => Some(envelope),
        _ => None,
    })
}

/// The notes of a stored answer, and its summary.
pub(super) fn said(bytes: &[u8]) -> (Vec<String>, Option<String>) {
    match stored(bytes) {
        Some(envelope) => (envelope.notes.unwrap_or_default(), Some(envelope.summary)),
        None => (Vec::new(), None),
    }
}

/// The feature that a scaffold step gives, in a member beside those of the envelope.
pub(super) fn given_feature(envelope: &OutputEnvelope) -> Result<String, String> {
    let given = envelope.extra.get("feature_id").and_then(|value| value.as_str());
    let id = given.ok_or("its answer has no `feature_id`, which a scaffold step gives")?;
    check_feature(id).map_err(|fault| format!("its `feature_id` `{id}` is {fault}"))?;
    Ok(id.to_owned())
}

/// Whether files of an answer are to be written at all.
pub(super) fn wants_files(envelope: &OutputEnvelope) -> bool {
    envelope.success && !envelope.artifacts.is_empty()
}

/// What is recorded of an answer that is none.
pub(super) const UNUSABLE: (bool, Recommendation) = (false, Recommendation::Retry);
