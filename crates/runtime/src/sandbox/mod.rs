//! Sandboxes: what isolation can be had for the programs that tools run, and entering it.
//!
//! The recorder runs its own binary again, which enters the sandbox and starts the program there. What
//! needs Linux is in `linux`; elsewhere programs run with limits only, and that is what is recorded.
//! What a tool may be asked to do is not decided here.

mod channel;
mod drive;
mod isolation;
mod line;
mod order;
mod output;
mod plan;
mod program;
mod stage;
mod stop;
mod supervise;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;

#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(not(target_os = "linux"))]
use portable as platform;

pub(crate) use drive::{Drive, Driven, End, Listener};
pub use isolation::{
    Concealment, FileConfinement, Isolation, Level, LimitSet, NetworkReach, ProcessScope,
};
pub(crate) use order::{Bounds, Program, Start};
pub use output::Stream;
pub(crate) use plan::Plan;
pub use stage::{SandboxStage, SandboxStageError};
pub use stop::Stop;

/// The variable by which every process of a call can be found.
pub const MARKER: &str = "COUNTERSIGN_TRACE";
/// The command of the binary that enters a sandbox; its argument is the [`SandboxStage`].
pub const STAGE_COMMAND: &str = "sandboxed";

/// Ends processes of an earlier run that still carry `marker`, and waits until they are gone.
/// Returns how many there were. Where the system does not show the environment of other processes,
/// none are found.
///
/// # Errors
/// The processes cannot be listed.
pub fn end_survivors(marker: &str) -> std::io::Result<usize> {
    platform::end_survivors(marker)
}
