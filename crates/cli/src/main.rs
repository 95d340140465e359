//! The binary `countersign`; everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    countersign_cli::main()
}
