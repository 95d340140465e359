//! Runs `countersign` and shows how it ended.

use std::fmt;
use std::io::Write;
use std::process::{Command, Stdio};

/// Variables of whoever runs the tests that would change what is printed.
const OUTSIDE: [&str; 6] =
    ["NO_COLOR", "TERM", "COLUMNS", "LINES", "AGENT_EXIT_PROTOCOL_ENABLED", "COUNTERSIGN_CONFIG"];

/// How a run ended; shown, it is the whole screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Screen {
    pub(crate) fn stdout(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// The JSON document that was answered.
    pub(crate) fn answer(&self) -> serde_json::Value {
        assert_eq!(self.stderr, "");
        assert!(self.stdout.ends_with(b"}\n"), "{self}");
        serde_json::from_slice(&self.stdout).unwrap()
    }
}

impl fmt::Display for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stdout = String::from_utf8_lossy(&self.stdout);
        write!(f, "exit {}\n--- stdout\n{stdout}\n--- stderr\n{}", self.code, self.stderr)
    }
}

/// A `countersign` that is ready to be run.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    command.args(arguments);
    for name in OUTSIDE {
        command.env_remove(name);
    }
    command
}

/// Runs a command that reads `stdin`.
pub(crate) fn run_with(mut command: Command, stdin: &[u8]) -> Screen {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Whoever does not want to read it may close the pipe.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let ended = child.wait_with_output().unwrap();
    Screen {
        code: ended.status.code().unwrap_or(-1),
        stdout: ended.stdout,
        stderr: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// Runs `countersign` with these arguments and this standard input.
pub(crate) fn run(arguments: &[&str], stdin: impl AsRef<[u8]>) -> Screen {
    run_with(command(arguments), stdin.as_ref())
}
