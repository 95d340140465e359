//! The chores that need the product: figures, heavy fire, and what is generated.
//!
//! They are started by `cargo xtask`, which builds this program and the product together, optimised.
//! Each chore has a file of its own; this one only chooses between them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "chores talk to the terminal")]

mod bench;
mod fire;
mod product;
mod vectors;

use std::process::ExitCode;

use countersign_testkit::appender;
use xtask::{Failure, report};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Processes that a rig starts and kills are this program again.
    match arguments.split_first() {
        Some((first, rest)) if first == "writer" => return appender::main(rest),
        Some((first, _)) if first == "echo-server" => {
            fire::echo_server();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    report(run(&arguments))
}

fn run(arguments: &[&str]) -> Result<(), Failure> {
    // What is generated is the same in every build, and fire finds the same in any; only figures need
    // the real one.
    if cfg!(debug_assertions) && !matches!(arguments, ["vectors"] | ["fire", ..]) {
        let message = "figures are for a release build\nhint: start them with `cargo xtask`";
        return Err(Failure::Chore(message.to_owned()));
    }
    match arguments {
        ["bench", options @ ..] => bench::run(options),
        ["drive", order @ ..] => bench::drive(order),
        ["recording", dir, events] => bench::write_recording(dir, events),
        ["fire", options @ ..] => fire::run(options),
        ["vectors"] => Ok(vectors::run()?),
        _ => Err(Failure::Usage(format!("unknown chore or arguments: `{}`", arguments.join(" ")))),
    }
}
