//! What the engine of flows adds to a step, beyond its syncs and the start of its agent; and what
//! checking a flow costs as it grows.
//!
//! A flow of a thousand steps over a hundred parallel branches, with an agent that does nothing. The
//! same programs are run without the engine, and the syncs alone are repeated.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use countersign_runtime::Environment;
use countersign_runtime::tools::{Ended, Level, Stop, ToolCall, ToolSetting, Toolbox};

use super::clock::{Clock, best_of, milliseconds, time};
use super::home::{Home, told};
use super::mcp::{Bare, Syncs};
use super::{Measured, Target};
use crate::product;

const BRANCHES: usize = 100;
const DEPTH: usize = 10;
const STEPS: usize = BRANCHES * DEPTH;
/// Steps of the flow whose syncs are counted.
const COUNTED: usize = 200;
const ANSWER: &str =
    "{\"success\":true,\"summary\":\"done\",\"artifacts\":[],\"recommendation\":\"proceed\"}";

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let home = Home::new("flow")?;
    let workspace = home.init(Environment::system())?;
    let root = workspace.home().parent().ok_or("no root")?.to_owned();
    write(&root, "few.toml", 1)?;
    write(&root, "some.toml", COUNTED / DEPTH)?;
    write(&root, "all.toml", BRANCHES)?;
    let syncs = syncs(&home, &root, "some.toml")?;
    let each = syncs.beyond(&self::syncs(&home, &root, "few.toml")?, COUNTED - DEPTH);
    let engine = time(Clock::Wall, || run(flow(&home, &root, "run", "all.toml")))?;
    let programs = time(Clock::Wall, || programs(&root))?;
    let mut bare = Bare::new(home.below("bare"))?;
    let disk = time(Clock::Wall, || bare.repeat(&each, STEPS))?;
    let per_step = |taken: Duration| milliseconds(taken) / STEPS as f64;
    let (engine, programs, disk) = (per_step(engine), per_step(programs), per_step(disk));
    eprintln!(
        "    flow: {engine:.2} ms a step, {programs:.2} ms of it programs, {} syncs: {disk:.2} ms",
        each.count()
    );
    let check =
        |name: &'static str| best_of(5, Clock::Wall, || run(flow(&home, &root, "check", name)));
    write(&root, "large.toml", BRANCHES * 5)?;
    let (small, large) = (check("all.toml")?, check("large.toml")?);
    Ok(vec![
        Measured {
            name: "flow-step",
            value: (engine - programs).max(0.0),
            unit: "ms",
            bound: disk,
            target: Target::AtMost(1.0),
        },
        Measured {
            name: "flow-check-5x",
            value: milliseconds(large),
            unit: "ms",
            bound: milliseconds(small) * 5.0,
            target: Target::AtMost(1.2),
        },
    ])
}

fn write(root: &Path, name: &str, branches: usize) -> Result<(), String> {
    let mut text = format!(
        "workflow = \"bench\"\nfeature_id = \"b\"\n[limits]\nparallel = {BRANCHES}\n\
         [agents.a]\nkind = \"command\"\ncommand = [\"sh\", \"-c\", '''cat >/dev/null; echo '{ANSWER}' ''']\n"
    );
    for branch in 0..branches {
        for depth in 0..DEPTH {
            text.push_str(&format!(
                "[[steps]]\nid = \"s{branch}-{depth}\"\nagent = \"a\"\naction = \"go\"\n"
            ));
            if depth > 0 {
                text.push_str(&format!("needs = [\"s{branch}-{}\"]\n", depth - 1));
            }
        }
    }
    std::fs::write(root.join(name), text).map_err(|error| error.to_string())
}

fn flow(home: &Home, root: &Path, what: &str, name: &str) -> Command {
    let mut command = Command::new(product::binary());
    arguments(&mut command, home, root, what, name);
    command
}

fn arguments(command: &mut Command, home: &Home, root: &Path, what: &str, name: &str) {
    command.arg("--home").arg(home.below("home")).args(["--json", "flow", what, name]);
    command.current_dir(root).env("COUNTERSIGN_CONFIG", home.below("config"));
}

fn run(mut command: Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("the flow ended otherwise: {}", String::from_utf8_lossy(&output.stderr)))
}

fn syncs(home: &Home, root: &Path, name: &str) -> Result<Syncs, String> {
    let list = home.below("syncs");
    let mut watched = Command::new("strace");
    watched.args(["-f", "-qq", "-y", "-e", "trace=fsync,fdatasync", "-o"]).arg(&list);
    watched.arg(product::binary());
    arguments(&mut watched, home, root, "run", name);
    run(watched)?;
    let text = std::fs::read_to_string(&list).map_err(|error| error.to_string())?;
    Ok(Syncs::read(&text))
}

/// The same programs in the same sandbox, without the engine.
fn programs(root: &Path) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let toolbox = Toolbox::new(ToolSetting {
        root: root.to_owned(),
        read_only: true,
        hidden: Vec::new(),
        write: Vec::new(),
        network: true,
        require: Level::None,
        tool_seconds: 60,
        output_bytes: 1 << 20,
        memory_bytes: 0,
        environment: BTreeMap::from([("PATH".into(), path)]),
        marker: "bench-flow".to_owned(),
        helper: product::binary(),
    })
    .map_err(|error| told(&error))?;
    let script = format!("cat >/dev/null; echo '{ANSWER}'");
    let call = ToolCall::Exec {
        argv: ["sh", "-c", &script].map(str::to_owned).to_vec(),
        shell: None,
        cwd: None,
        env: BTreeMap::new(),
        stdin: Some("{}".to_owned()),
    };
    let failed = std::thread::scope(|scope| {
        let branches: Vec<_> = (0..BRANCHES)
            .map(|_| {
                scope.spawn(|| {
                    (0..DEPTH)
                        .filter(|_| toolbox.run(&call, &Stop::default()).ended != Ended::Exited(0))
                        .count()
                })
            })
            .collect();
        branches.into_iter().map(|branch| branch.join().unwrap_or(DEPTH)).sum::<usize>()
    });
    if failed == 0 { Ok(()) } else { Err(format!("{failed} programs ended otherwise")) }
}
