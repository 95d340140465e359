//! Finding and starting the program, from inside the sandbox.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::Access;
use rustix::process::{Pid, Resource, Rlimit, setrlimit};

use super::channel::Channel;
use super::order::{Bounds, Program};
use super::platform;

/// Where programs are looked for if the environment does not say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts the program and returns once it runs.
pub(super) fn spawn(program: &Program, bounds: &Bounds) -> Result<(Pid, Option<Channel>), String> {
    let directory = Path::new(&program.directory);
    if !directory.is_dir() {
        return Err(format!("there is no directory `{}`", directory.display()));
    }
    let (name, arguments) =
        program.argv.split_first().ok_or_else(|| "there is no program to run".to_owned())?;
    let found = find(name, directory, &program.environment)?;
    let stdin = match &program.stdin {
        Some(text) => platform::stdin_of(text),
        None => File::open("/dev/null").map(Stdio::from),
    };
    let stdin = stdin.map_err(|error| format!("cannot prepare standard input: {error}"))?;
    let mut command = Command::new(&found);
    command
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(directory)
        .stdin(stdin);
    let channel = match &program.signals {
        None => None,
        Some(name) => {
            let made = Channel::pair();
            let (channel, write) =
                made.map_err(|error| format!("cannot make a descriptor for signals: {error}"))?;
            command.env(name, Channel::number(&write));
            Some((channel, write))
        }
    };
    if !cfg!(target_os = "linux") {
        command.process_group(0);
    }
    // Last, because this process is limited with it.
    limit(bounds).map_err(|error| format!("cannot limit memory: {error}"))?;
    let child = command.spawn().map_err(|error| cannot_run(&found, &error))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| format!("`{}` has no process id", found.display()))?;
    // Our own copy of the writing end goes here, so that the channel ends with the program.
    Ok((pid, channel.map(|(channel, _)| channel)))
}

fn cannot_run(found: &Path, error: &io::Error) -> String {
    let found = found.display();
    match error.kind() {
        // It was there a moment ago.
        io::ErrorKind::NotFound => format!("cannot run `{found}`: its interpreter is missing"),
        _ => format!("cannot run `{found}`: {error}"),
    }
}

/// The file that `name` means, by the rules of `execvp`.
fn find(
    name: &OsStr,
    directory: &Path,
    environment: &[(OsString, OsString)],
) -> Result<PathBuf, String> {
    let shown = Path::new(name).display();
    if name.as_encoded_bytes().contains(&b'/') {
        let found = directory.join(name);
        return match why_not_runnable(&found) {
            None => Ok(found),
            Some(reason) => Err(format!("cannot run `{shown}`: {reason}")),
        };
    }
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or_else(|| OsString::from(USUAL_PATH), |(_, path)| path.clone());
    let mut refused = None;
    for place in std::env::split_paths(&path) {
        let found = directory.join(place).join(name);
        match why_not_runnable(&found) {
            None => return Ok(found),
            Some(reason) if found.exists() => {
                refused.get_or_insert_with(|| {
                    format!("cannot run `{shown}`: `{}`: {reason}", found.display())
                });
            }
            Some(_) => {}
        }
    }
    let nowhere = || format!("there is no program `{shown}` on the path of its environment");
    Err(refused.unwrap_or_else(nowhere))
}

fn why_not_runnable(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Some("not a file".to_owned()),
        Ok(_) => rustix::fs::access(path, Access::EXEC_OK)
            .err()
            .map(|_| "it may not be executed".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some("there is no such file".to_owned())
        }
        Err(error) => Some(error.to_string()),
    }
}

fn limit(bounds: &Bounds) -> rustix::io::Result<()> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none)?;
    let Some(bytes) = bounds.memory_limit() else {
        return Ok(());
    };
    // Not the address space: runtimes reserve much more of that than they ever use.
    setrlimit(Resource::Data, Rlimit { current: Some(bytes), maximum: Some(bytes) })
}
