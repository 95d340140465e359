//! Tools: what an executor can do to the world, always below the workspace root.

mod call;

pub use call::{CallFault, ToolCall};
