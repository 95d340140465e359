//! What the proxy adds to a call of somebody else's tool, beyond the syncs that it makes.
//!
//! The same call is made directly, through the proxy, and the syncs alone are repeated, in turns. What
//! is left of the second when the first and the third are taken away is ours.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use countersign_gate::Policy;
use countersign_runtime::{Environment, Workspace};
use countersign_testkit::mcp::StdioServer;
use serde_json::json;

use super::clock::{Clock, median, milliseconds, time};
use super::home::Home;
use super::mcp::{Bare, Syncs};
use super::{Measured, Target};
use crate::product;

const ROUNDS: u32 = 60;
/// Calls a round.
const CALLS: usize = 4;
/// Calls in the two runs whose difference is counted: what only the first one costs is not.
const FEW: usize = 4;
const MANY: usize = 24;
/// Lets the tool be called; what is measured is a call that nobody has to be asked about.
const PERMITTED: &str = "\n@id(\"bench\")\n@justification(\"measured\")\n\
    @match(\"tool_call src/a.rs tool=bench/plain\")\n@no_match(\"tool_call ../a tool=bench/plain\")\n\
    permit (principal, action == Action::\"tool_call\", resource) unless { context.outside };\n";
/// What a call may cost beyond its syncs.
const ADDED_MS: f64 = 1.0;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let home = Home::new("proxy")?;
    permit(&home.init(Environment::system())?)?;
    let few = syncs(&home, FEW)?;
    let each = syncs(&home, MANY)?.beyond(&few, MANY - FEW);
    eprintln!("    proxy: a call makes {} syncs", each.count());
    let mut direct = Caller::new(server()?);
    let mut through = Caller::new(proxied(&home, Command::new(product::binary()))?);
    let mut bare = Bare::new(home.below("bare"))?;
    direct.call(CALLS);
    through.call(CALLS);
    let mut runs = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let [first, second, third] = &mut runs;
        first.push(calls(&mut direct)?);
        second.push(calls(&mut through)?);
        third.push(time(Clock::Wall, || bare.repeat(&each, CALLS))?);
    }
    let [alone, both, disk] = runs.map(|runs| milliseconds(median(runs)) / CALLS as f64);
    eprintln!("    proxy: {alone:.3} ms directly, {both:.3} ms through it, {disk:.3} ms of syncs");
    Ok(vec![Measured {
        name: "proxy-call",
        value: (both - alone - disk).max(0.0),
        unit: "ms",
        bound: ADDED_MS,
        target: Target::AtMost(1.0),
    }])
}

fn permit(workspace: &Workspace) -> Result<(), String> {
    let file = workspace.policy_file();
    let made = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(file, format!("{}{PERMITTED}", Policy::built_in())))
        .map_err(|error| error.to_string())
}

fn calls(caller: &mut Caller) -> Result<Duration, String> {
    time(Clock::Wall, || {
        caller.call(CALLS);
        Ok(())
    })
}

/// The server that the tests bring; of its tools, one that does nothing.
fn server() -> Result<Command, String> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/hostile.py");
    let script = script.canonicalize().map_err(|error| error.to_string())?;
    let python = std::env::var("COUNTERSIGN_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(python);
    command.arg("-u").arg(script);
    Ok(command)
}

/// The proxy before it; `command` starts it, or what watches it.
fn proxied(home: &Home, mut command: Command) -> Result<Command, String> {
    command.arg("--home").arg(home.below("home"));
    command.args(["proxy", "--name", "bench", "--"]);
    let server = server()?;
    command.arg(server.get_program()).args(server.get_args());
    command.env("COUNTERSIGN_CONFIG", home.below("config"));
    Ok(command)
}

fn syncs(home: &Home, calls: usize) -> Result<Syncs, String> {
    let list = home.below("syncs");
    let mut watched = Command::new("strace");
    watched.args(["-f", "-qq", "-y", "-e", "trace=fsync,fdatasync", "-o"]).arg(&list);
    watched.arg(product::binary());
    let mut caller = Caller::new(proxied(home, watched)?);
    // What was stored by the first run is not stored again by the second.
    caller.number = calls as u64 * 1_000;
    caller.call(calls);
    // What it makes durable when it ends, nobody waits for.
    let text = std::fs::read_to_string(&list).map_err(|error| error.to_string())?;
    let ended = caller.server.end();
    if ended.0 != Some(0) {
        return Err(format!("the proxy under strace ended otherwise: {}", ended.1));
    }
    Ok(Syncs::read(&text))
}

/// A client that makes one call after the other.
struct Caller {
    server: StdioServer,
    number: u64,
}

impl Caller {
    fn new(command: Command) -> Self {
        let mut server = StdioServer::connect(command, &json!({}));
        server.request("tools/list", &json!({}));
        Self { server, number: 0 }
    }

    fn call(&mut self, calls: usize) {
        for _ in 0..calls {
            self.number += 1;
            let arguments =
                json!({ "path": format!("src/part{}.rs", self.number % 16), "n": self.number });
            let params = json!({ "name": "plain", "arguments": arguments });
            let answer = self.server.request("tools/call", &params);
            assert!(answer.pointer("/result/isError").is_none(), "{answer}");
        }
    }
}
