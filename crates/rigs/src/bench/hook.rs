//! What a hook costs an agent before and after a tool call, on a long recording, beyond its syncs.
//!
//! The whole process is counted: an agent's program starts one for every call. The syncs are counted by
//! the system and repeated without us.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use countersign_runtime::Environment;
use countersign_runtime::actions::{AgentRuntime, RuntimeOptions};
use countersign_runtime::agent_sessions::AgentSession;
use countersign_runtime::secrets::Redactor;
use serde_json::{Value, json};

use super::callers::{Crowd, write_together};
use super::clock::{Clock, median_of_both, milliseconds, time};
use super::home::{Home, told};
use super::mcp::{Bare, Syncs};
use super::{Measured, Target};
use crate::product;

const ROUNDS: u32 = 40;
/// Events that the recording has before the hooks.
const EVENTS: u64 = 100_000;
/// What a hook may take beyond its syncs.
const MILLISECONDS_MAX: f64 = 15.0;
const SESSION: &str = "bench";

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let client = Client::new()?;
    let mut bare = Bare::new(client.home.below("bare"))?;
    let [before, after] = [client.syncs(Moment::Before)?, client.syncs(Moment::After)?];
    eprintln!("    hook: before a call {before:?}, after it {after:?}");
    let mut number = 0;
    let (ours, alone) = median_of_both(
        ROUNDS,
        || {
            number += 1;
            client.call(Moment::Before, number)
        },
        || time(Clock::Wall, || bare.repeat(&before, 1)),
    )?;
    let pre = beyond("hook-before", ours, alone);
    let mut number = 0;
    let (ours, alone) = median_of_both(
        ROUNDS,
        || {
            number += 1;
            client.call(Moment::After, number)
        },
        || time(Clock::Wall, || bare.repeat(&after, 1)),
    )?;
    Ok(vec![pre, beyond("hook-after", ours, alone)])
}

fn beyond(name: &'static str, ours: Duration, alone: Duration) -> Measured {
    Measured {
        name,
        value: milliseconds(ours.saturating_sub(alone)),
        unit: "ms",
        bound: MILLISECONDS_MAX,
        target: Target::AtMost(1.0),
    }
}

/// Before or after a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before,
    After,
}

/// A program that runs the hook, in a session whose recording is long.
struct Client {
    home: Home,
}

impl Client {
    fn new() -> Result<Self, String> {
        let home = Home::new("hook")?;
        let workspace = home.init(Environment::system())?;
        let session = AgentSession::new("claude-code", SESSION, None);
        let session = session.map_err(|fault| fault.to_string())?;
        let redactor = Redactor::new(std::env::vars_os());
        let options = RuntimeOptions::default();
        let (runtime, _) = AgentRuntime::of_session(&workspace, redactor, options, &session)
            .map_err(|error| told(&error))?;
        let id = runtime.open().map_err(|error| told(&error))?;
        let recording = workspace.recording(id).map_err(|error| told(&error))?;
        write_together(&recording, Crowd::WITH_ENVOYS, EVENTS)?;
        Ok(Self { home })
    }

    fn input(&self, moment: Moment, number: u32) -> Value {
        let mut input = json!({
            "session_id": SESSION,
            "cwd": self.home.below(""),
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_use_id": format!("toolu_{number}"),
            "tool_input": { "command": format!("cargo test number_{number}") },
        });
        if let (Moment::After, Some(input)) = (moment, input.as_object_mut()) {
            input.insert("hook_event_name".to_owned(), json!("PostToolUse"));
            input.insert("tool_response".to_owned(), json!({ "stdout": format!("ran {number}") }));
        }
        input
    }

    /// How long one call of the hook takes.
    fn call(&self, moment: Moment, number: u32) -> Result<Duration, String> {
        time(Clock::Wall, || self.run(Command::new(product::binary()), moment, number))
    }

    fn run(&self, mut command: Command, moment: Moment, number: u32) -> Result<(), String> {
        command.arg("--home").arg(self.home.below("home")).args(["hook", "claude-code"]);
        command.env("COUNTERSIGN_CONFIG", self.home.below("config"));
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let input = self.input(moment, number).to_string();
        let mut stdin = child.stdin.take().ok_or("no standard input")?;
        stdin.write_all(input.as_bytes()).map_err(|error| error.to_string())?;
        drop(stdin);
        let ended = child.wait().map_err(|error| error.to_string())?;
        if ended.success() { Ok(()) } else { Err(format!("the hook ended with {ended}")) }
    }

    /// The syncs of one call, from the system's own list of them.
    fn syncs(&self, moment: Moment) -> Result<Syncs, String> {
        let list = self.home.below("syncs");
        // Once without a witness: what only the first one makes is not counted.
        for number in [1_000_000, 1_000_001] {
            let mut watched = Command::new("strace");
            watched.args(["-f", "-qq", "-y", "-e", "trace=fsync,fdatasync", "-o"]).arg(&list);
            watched.arg(product::binary());
            self.run(watched, moment, number)?;
        }
        let text = fs::read_to_string(&list).map_err(|error| error.to_string())?;
        Ok(Syncs::read(&text))
    }
}
