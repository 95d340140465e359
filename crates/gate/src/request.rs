//! What the gate is told of an action: everything that it may decide on, and nothing else.
//!
//! Its canonical bytes are kept beside the decision, so that it can be made again. Whether what
//! it says is true is not decided here: an agent that lies about its files is judged by its lie.

use countersign_format::json::{self, JsonError};
use countersign_format::receipt::ActionType;
use countersign_format::risk::RiskClass;
use countersign_format::text::to_nfc;
use serde::{Deserialize, Serialize};

use crate::guard::Strictness;
use crate::risk::FindingLevel;

/// The version of the shape of requests.
pub const REQUEST_SCHEMA: &str = "1.0.0";
/// Bytes of a whole request as canonical JSON.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Paths that one action may name.
pub const PATHS_MAX: usize = 10_000;
/// Bytes of all paths together.
pub const PATHS_BYTES_MAX: usize = 1 << 20;
/// Bytes of a diff, and of the contents that would be written.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Bytes of a command.
pub const COMMAND_BYTES_MAX: usize = 64 << 10;
/// Bytes of a name or a description.
pub const NAME_BYTES_MAX: usize = 16 << 10;

/// An action that somebody wants to take, as far as the gate may know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateRequest {
    /// [`REQUEST_SCHEMA`].
    pub schema_version: String,
    /// Who wants to act, as it calls itself.
    pub agent: String,
    /// The role in which it acts.
    pub role: String,
    /// What sort of action it is.
    #[serde(with = "action_type_name")]
    pub action_type: ActionType,
    /// The tool that would be used.
    pub tool: String,
    /// What the agent says about it. No rule sees it; it shapes the label only.
    pub description: String,
    /// The files that it names, relative to the workspace root.
    pub paths: Vec<String>,
    /// The class that was declared for it. The guards may raise it, nobody lowers it.
    pub risk: RiskClass,
    /// How bad what a scanner found in it is.
    #[serde(default, skip_serializing_if = "FindingLevel::is_none")]
    pub finding_severity: FindingLevel,
    /// Whether it may use the network. Without a word about it, nobody forbade it.
    #[serde(default = "granted", skip_serializing_if = "is_granted")]
    pub network_granted: bool,
    /// The change as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The shell text that it would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Why the tool itself waits for a person, whatever is done with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// What it would write into its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Where the workspace lies, if the command names that place: what lies below it is inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Where a session runs the action itself, in its sandbox and with its critic's consent: how much
    /// its guards put up with. There what is not known yet is the critic's to judge, and what a
    /// command reads outside of the workspace is the sandbox's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Strictness>,
}

/// Why some bytes are no request, or why a request is not looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// Not JSON that two readers agree about.
    #[error("the request is not strict JSON: {0}")]
    Json(#[from] JsonError),
    /// A member is missing, unknown or of the wrong type.
    #[error("the request does not have the shape of one: {what}")]
    Shape {
        /// What is wrong.
        what: String,
    },
    /// Written for another version of the gate.
    #[error("the request has schema version `{found}`, this gate reads {REQUEST_SCHEMA}")]
    Version {
        /// The version that it names.
        found: String,
    },
    /// More of something than the gate looks at.
    #[error("the request has {found} {of}, the limit is {limit}")]
    TooMuch {
        /// What there is too much of.
        of: &'static str,
        /// How much there is.
        found: usize,
        /// How much there may be.
        limit: usize,
    },
}

impl GateRequest {
    /// A request about an action of this type that says nothing else.
    #[must_use]
    pub fn new(agent: &str, role: &str, action_type: ActionType, tool: &str) -> Self {
        Self {
            schema_version: REQUEST_SCHEMA.to_owned(),
            agent: to_nfc(agent),
            role: to_nfc(role),
            action_type,
            tool: to_nfc(tool),
            description: String::new(),
            paths: Vec::new(),
            risk: RiskClass::Standard,
            finding_severity: FindingLevel::None,
            network_granted: true,
            diff: None,
            command: None,
            held: None,
            content: None,
            directory: None,
            session: None,
        }
    }

    /// Says that the workspace lies in `directory`, if its command speaks of that place.
    pub fn set_directory(&mut self, directory: &str) {
        let directory = to_nfc(directory.trim_end_matches('/'));
        let named = self.command.as_ref().is_some_and(|command| command.contains(&directory));
        self.directory = Some(directory).filter(|directory| named && !directory.is_empty());
    }

    /// Its canonical JSON: what is stored, and what a decision is made on.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        json::to_bytes(&serde_json::to_value(self).unwrap_or_default())
    }

    /// Reads a request.
    ///
    /// # Errors
    /// The bytes are no request, or one that is larger than the gate looks at.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RequestFault> {
        let value = json::read_up_to(bytes, REQUEST_BYTES_MAX)?;
        let request: Self = serde_json::from_value(value)
            .map_err(|error| RequestFault::Shape { what: error.to_string() })?;
        request.check()?;
        Ok(request)
    }

    /// Whether the gate looks at a request of this version and size.
    ///
    /// # Errors
    /// The first limit that it exceeds.
    pub fn check(&self) -> Result<(), RequestFault> {
        if self.schema_version != REQUEST_SCHEMA {
            return Err(RequestFault::Version { found: self.schema_version.clone() });
        }
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let names = [&self.agent, &self.role, &self.tool, &self.description];
        let directory = length(&self.directory);
        let limits = [
            ("paths", self.paths.len(), PATHS_MAX),
            ("bytes of paths", self.paths.iter().map(String::len).sum(), PATHS_BYTES_MAX),
            ("bytes of diff", length(&self.diff), TEXT_BYTES_MAX),
            ("bytes of content", length(&self.content), TEXT_BYTES_MAX),
            ("bytes of command", length(&self.command), COMMAND_BYTES_MAX),
            ("bytes of names", names.iter().map(|name| name.len()).sum(), NAME_BYTES_MAX),
            ("bytes of directory", directory, NAME_BYTES_MAX),
        ];
        match limits.into_iter().find(|(_, found, limit)| found > limit) {
            Some((of, found, limit)) => Err(RequestFault::TooMuch { of, found, limit }),
            None => Ok(()),
        }
    }
}

fn granted() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_granted(granted: &bool) -> bool {
    *granted
}

mod action_type_name {
    use countersign_format::receipt::ActionType;
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(
        action: &ActionType,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(action.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ActionType, D::Error> {
        let name = String::deserialize(deserializer)?;
        ActionType::from_name(&name).ok_or_else(|| {
            let names = ActionType::NAMES.join(", ");
            de::Error::custom(format!("no action type `{name}`, there are: {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> GateRequest {
        GateRequest {
            description: "fix it".into(),
            paths: vec!["src/a.rs".into()],
            diff: Some("+x".into()),
            ..GateRequest::new("ana", "executor", ActionType::CodeEdit, "edit")
        }
    }

    #[test]
    fn a_request_reads_back_from_its_canonical_bytes() {
        let bytes = request().to_bytes();
        let expected = concat!(
            r#"{"action_type":"code_edit","agent":"ana","description":"fix it","diff":"+x","#,
            r#""paths":["src/a.rs"],"risk":"standard","role":"executor","schema_version":"1.0.0","#,
            r#""tool":"edit"}"#
        );
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
        assert_eq!(GateRequest::from_bytes(&bytes), Ok(request()));
    }

    #[test]
    fn what_the_gate_does_not_know_is_refused() {
        let with = |name: &str, value: serde_json::Value| {
            let mut object = serde_json::to_value(request()).unwrap();
            object[name] = value;
            GateRequest::from_bytes(&json::to_bytes(&object)).unwrap_err()
        };
        assert!(matches!(with("colour", 1.into()), RequestFault::Shape { .. }));
        assert!(matches!(with("action_type", "edit".into()), RequestFault::Shape { .. }));
        assert_eq!(
            with("schema_version", "2.0.0".into()),
            RequestFault::Version { found: "2.0.0".into() }
        );
        assert!(matches!(GateRequest::from_bytes(b"{"), Err(RequestFault::Json(_))));
    }

    #[test]
    fn limits_are_inclusive() {
        let with = |paths: usize| GateRequest { paths: vec!["a".into(); paths], ..request() };
        assert_eq!(with(PATHS_MAX).check(), Ok(()));
        let expected =
            RequestFault::TooMuch { of: "paths", found: PATHS_MAX + 1, limit: PATHS_MAX };
        assert_eq!(with(PATHS_MAX + 1).check(), Err(expected));
        let long = GateRequest { command: Some("x".repeat(COMMAND_BYTES_MAX + 1)), ..request() };
        assert_eq!(
            long.check().unwrap_err().to_string(),
            "the request has 65537 bytes of command, the limit is 65536"
        );
    }
}
