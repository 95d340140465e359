//! What a tool is asked to do: the same object in task files, in agents' answers and in stored
//! inputs.

use std::collections::BTreeMap;

use countersign_format::json;
use countersign_format::path::{PathFault, WorkspacePath};
use countersign_format::receipt::ActionType;
use countersign_format::risk::RiskClass;
use serde::{Deserialize, Serialize};

/// Entries of `argv`.
const ARGV_MAX: usize = 4096;

/// One use of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tool", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToolCall {
    /// Run a program.
    Exec {
        /// The program and its arguments, handed over as they are.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        argv: Vec<String>,
        /// A script for `/bin/sh`, instead of `argv`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shell: Option<String>,
        /// Where it runs, relative to the workspace root.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// What is added to its environment.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
        /// What it reads from standard input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdin: Option<String>,
    },
    /// Read a file of the workspace.
    FileRead {
        /// Relative to the workspace root.
        path: String,
    },
    /// Write a file of the workspace, whole.
    FileWrite {
        /// Relative to the workspace root.
        path: String,
        /// What it holds afterwards.
        content: String,
    },
    /// Delete a file of the workspace.
    FileDelete {
        /// Relative to the workspace root.
        path: String,
    },
}

/// Why a call cannot be carried out by anybody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFault {
    /// Neither or both of `argv` and `shell`.
    #[error("exactly one of `argv` and `shell` must be given")]
    ArgvOrShell,
    /// Something that no system can pass on.
    #[error("`{member}` must not be empty or hold a NUL character")]
    Unpassable {
        /// Which member.
        member: &'static str,
    },
    /// Too many arguments.
    #[error("`argv` has {found} entries, the limit is {ARGV_MAX}")]
    TooMany {
        /// How many.
        found: usize,
    },
    /// The path may not be used.
    #[error("`{member}`: {fault}")]
    Path {
        /// Which member.
        member: &'static str,
        /// Why.
        fault: PathFault,
    },
}

impl ToolCall {
    /// The names of all tools.
    pub const NAMES: [&'static str; 4] = ["exec", "file_read", "file_write", "file_delete"];

    /// The tool's name in intents.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Exec { .. } => "exec",
            Self::FileRead { .. } => "file_read",
            Self::FileWrite { .. } => "file_write",
            Self::FileDelete { .. } => "file_delete",
        }
    }

    /// What sort of action it is, for its receipt.
    #[must_use]
    pub const fn action_type(&self) -> ActionType {
        match self {
            Self::Exec { shell: Some(_), .. } => ActionType::ShellExec,
            Self::Exec { shell: None, .. } => ActionType::Command,
            Self::FileRead { .. } => ActionType::FileRead,
            Self::FileWrite { .. } => ActionType::FileWrite,
            Self::FileDelete { .. } => ActionType::FileDelete,
        }
    }

    /// The files that it names itself; what a program touches, nobody can tell from its call.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        match self {
            Self::Exec { .. } => Vec::new(),
            Self::FileRead { path } | Self::FileWrite { path, .. } | Self::FileDelete { path } => {
                vec![path.clone()]
            }
        }
    }

    /// The class that it has where nobody says otherwise.
    #[must_use]
    pub const fn usual_risk(&self) -> RiskClass {
        match self {
            Self::FileRead { .. } => RiskClass::Low,
            Self::Exec { .. } | Self::FileWrite { .. } => RiskClass::Standard,
            Self::FileDelete { .. } => RiskClass::Elevated,
        }
    }

    /// Whether it can be carried out at all.
    ///
    /// # Errors
    /// It contradicts itself, or names what no workspace has.
    pub fn check(&self) -> Result<(), CallFault> {
        match self {
            Self::Exec { argv, shell, cwd, env, .. } => {
                if argv.is_empty() == shell.is_none() {
                    return Err(CallFault::ArgvOrShell);
                }
                if argv.len() > ARGV_MAX {
                    return Err(CallFault::TooMany { found: argv.len() });
                }
                let program = argv.first().or(shell.as_ref());
                let hollow = program.is_none_or(String::is_empty);
                if hollow || argv.iter().chain(shell).any(|text| text.contains('\0')) {
                    return Err(CallFault::Unpassable { member: "argv" });
                }
                let unpassable = |(name, value): (&String, &String)| {
                    name.is_empty() || name.contains(['\0', '=']) || value.contains('\0')
                };
                if env.iter().any(unpassable) {
                    return Err(CallFault::Unpassable { member: "env" });
                }
                cwd.as_deref().map_or(Ok(()), |cwd| path(cwd, "cwd").map(drop))
            }
            Self::FileRead { path: file }
            | Self::FileWrite { path: file, .. }
            | Self::FileDelete { path: file } => path(file, "path").map(drop),
        }
    }

    /// The canonical bytes that are stored and hashed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        json::to_bytes(&serde_json::to_value(self).unwrap_or_default())
    }

    /// What a person reads: `exec python3 -m unittest`.
    #[must_use]
    pub fn title(&self) -> String {
        let (name, rest) = (
            self.name(),
            match self {
                Self::Exec { shell: Some(script), .. } => format!("sh -c {}", typed(script)),
                Self::Exec { argv, .. } => {
                    argv.iter().map(|entry| typed(entry)).collect::<Vec<_>>().join(" ")
                }
                Self::FileRead { path } | Self::FileDelete { path } => path.clone(),
                Self::FileWrite { path, content } => format!("{path} ({} bytes)", content.len()),
            },
        );
        format!("{name} {rest}")
    }
}

/// One argument as a shell takes it: quoted where it would be taken apart.
pub(crate) fn typed(entry: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+./,:@%^".contains(c);
    if !entry.is_empty() && entry.chars().all(plain) {
        entry.to_owned()
    } else {
        format!("'{}'", entry.replace('\'', "'\\''"))
    }
}

fn path(path: &str, member: &'static str) -> Result<WorkspacePath, CallFault> {
    WorkspacePath::parse(path).map_err(|fault| CallFault::Path { member, fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> ToolCall {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_call_is_stored_as_it_was_asked_for() {
        let text = r#"{"argv":["python3","-m","unittest"],"tool":"exec"}"#;
        assert_eq!(call(text).to_bytes(), text.as_bytes());
        assert_eq!(call(text).title(), "exec python3 -m unittest");
    }

    #[test]
    fn members_that_no_tool_has_are_refused() {
        let refused: Result<ToolCall, _> =
            serde_json::from_str(r#"{"tool":"file_read","path":"a","mode":"x"}"#);
        assert!(refused.is_err());
    }

    #[test]
    fn calls_that_nobody_can_carry_out_are_refused() {
        let cases = [
            (r#"{"tool":"exec"}"#, "exactly one of `argv` and `shell` must be given"),
            (
                r#"{"tool":"exec","argv":["a"],"shell":"b"}"#,
                "exactly one of `argv` and `shell` must be given",
            ),
            (
                r#"{"tool":"exec","argv":["a\u0000"]}"#,
                "`argv` must not be empty or hold a NUL character",
            ),
            (r#"{"tool":"exec","argv":[""]}"#, "`argv` must not be empty or hold a NUL character"),
            (
                r#"{"tool":"exec","argv":["a"],"env":{"A=B":""}}"#,
                "`env` must not be empty or hold a NUL character",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(call(text).check().unwrap_err().to_string(), message, "{text}");
        }
        for path in ["../x", "/etc/passwd", ".git/config", ".countersign/log"] {
            let call = ToolCall::FileRead { path: path.to_owned() };
            assert!(matches!(call.check(), Err(CallFault::Path { .. })), "{path}");
        }
    }
}
