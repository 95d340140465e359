//! Tools: what an executor can do to the world, always below the workspace root.
//!
//! `exec` runs a program in a [sandbox](crate::sandbox); the file tools open one file by themselves.
//! Whether a call may happen, and what is recorded of it, is decided elsewhere.

mod call;
mod files;
mod outcome;
mod toolbox;

pub(crate) use call::typed;
pub use call::{CallFault, ToolCall};
pub use files::{read_beneath, write_beneath};
pub use outcome::{Ended, ToolOutcome};
pub use toolbox::{ToolError, ToolRefusal, ToolSetting, Toolbox};

pub use crate::sandbox::{Isolation, Level, Stop, Stream, end_survivors};
