//! Exit signals: how an agent says that it is done with a phase of a work item.
//!
//! Decides whether a text is a signal, which phase follows, and whether a session may send it from
//! the phase that it holds. Leaves out where signals come from, leases, and writing the event.

mod checks;
mod descriptor;
mod error;
mod event;
mod phase;
mod signal;
mod stdout;

pub use descriptor::{DESCRIPTOR_BYTES_MAX, DescriptorFault, read_descriptor};
pub use error::{ExitSignalError, HandlerRefusal};
pub use event::{AGENT_SESSION_COMPLETED_FIELDS, AgentSessionCompleted};
pub use phase::{ExitReason, NotAWorkPhase, NotAnExitReason, WorkPhase};
pub use signal::{EXIT_SIGNAL_FIELDS, ExitSignal};
pub use stdout::{StdoutScanner, StdoutSignal};

/// What `protocol` must say.
pub const EXIT_SIGNAL_PROTOCOL: &str = "apm2_agent_exit";
/// The version that new signals carry.
pub const EXIT_SIGNAL_VERSION: &str = "1.0.0";
/// The environment variable that switches exit signals on; see [`ExitFlag`].
pub const AGENT_EXIT_PROTOCOL_ENABLED: &str = "AGENT_EXIT_PROTOCOL_ENABLED";

/// Bytes of a whole signal, checked before it is read.
pub const INPUT_BYTES_MAX: usize = 65_536;
/// Bytes of `protocol` and of `version`.
pub const PROTOCOL_BYTES_MAX: usize = 64;
/// Bytes of `pr_url` and of `evidence_bundle_ref`.
pub const REFERENCE_BYTES_MAX: usize = 2048;
/// Bytes of `notes`.
pub const NOTES_BYTES_MAX: usize = 10_240;

/// Whether exit signals are taken at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitFlag {
    /// They are validated and processed.
    Enabled,
    /// Every one is refused unread.
    Disabled,
}

impl ExitFlag {
    /// The flag for a value of [`AGENT_EXIT_PROTOCOL_ENABLED`]: on for `true`, `1` or `yes` in any
    /// ASCII case and without surrounding space; off for everything else, and if it is not set.
    #[must_use]
    pub fn from_env_value(value: Option<&str>) -> Self {
        let on = |value: &str| ["true", "1", "yes"].iter().any(|on| value.eq_ignore_ascii_case(on));
        if value.is_some_and(on) { Self::Enabled } else { Self::Disabled }
    }
}
