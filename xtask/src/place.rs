//! Where the repository and its build output lie, and how cargo is called there.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    // Cargo sets the variable when it runs us. What was compiled in is only right as long as
    // nobody moves the directory.
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = manifest.ancestors().find(|directory| directory.join("Cargo.lock").is_file());
    root.map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Where cargo puts what it builds.
#[must_use]
pub fn target() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target)
}

/// Cargo, to be run at the root.
#[must_use]
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Runs `command`, with its output on the terminal, and wants it to succeed.
///
/// # Errors
///
/// It cannot be started, or does not succeed.
pub fn succeed(command: &mut Command) -> Result<(), String> {
    let status =
        command.status().map_err(|error| format!("cannot run `{}`: {error}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` {}", line(command), ending(status))) }
}

/// The command as one would type it.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

fn ending(status: ExitStatus) -> String {
    status.code().map_or_else(
        || "was ended by a signal".to_owned(),
        |code| format!("failed with exit code {code}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_its_exit_code() {
        let failure = succeed(Command::new("/bin/sh").args(["-c", "exit 7"])).unwrap_err();
        assert_eq!(failure, "`sh -c exit 7` failed with exit code 7");
    }

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        assert!(root().join("crates/format/Cargo.toml").is_file());
    }
}
