//! A process that appends to a recording: see [`countersign_testkit::appender`].

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    countersign_testkit::appender::main(&arguments)
}
