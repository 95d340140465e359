//! Task files: what they mean, and how every mistake in one is explained.
#![cfg(test)]

mod hostile;
mod mistakes;
mod place;
mod whole;

use countersign_runtime::task::{Task, TaskFault};

/// The least that a task says: eight lines, of which the last belong to `steps[0].actions[0]`.
pub(crate) const LEAST: &str = r#"task_id = "t"
objective = "o"
[[steps]]
id = "s"
objective = "so"
[[steps.actions]]
tool = "exec"
argv = ["true"]
"#;

/// What is said of a document that is wrong.
pub(crate) fn faults(text: &str) -> Vec<String> {
    Task::parse(text).unwrap_err().iter().map(TaskFault::to_string).collect()
}
