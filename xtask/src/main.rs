//! House chores, run as `cargo xtask CHORE`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    xtask::report(xtask::run(&arguments))
}
