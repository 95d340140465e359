//! Task files: what they ask for, in short.

use countersign_format::role::Role;
use countersign_runtime::task::{Step, TASK_BYTES_MAX, Task, TaskFault};
use serde::Serialize;

use super::verdict::{Findings, PlacedFault, Refusal, Verdict};
use crate::Document;

/// What is said of a valid task.
#[derive(Serialize)]
pub(super) struct TaskSummary {
    task_id: String,
    roles: Vec<RoleSummary>,
    steps: Vec<StepSummary>,
}

#[derive(Serialize)]
struct RoleSummary {
    role: Role,
    agent: &'static str,
}

#[derive(Serialize)]
struct StepSummary {
    id: String,
    tools: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_for: Option<String>,
}

/// A task file, and what it asks for.
pub(super) fn task(document: &Document) -> Verdict {
    let read = match document.length {
        0..=TASK_BYTES_MAX => Task::from_bytes(&document.bytes),
        _ => Err(vec![too_long(document)]),
    };
    match read {
        Ok(task) => {
            let summary = TaskSummary::of(&task);
            let data = Some(summary.text().into_bytes());
            Verdict::Valid(Findings { data, task: Some(summary), ..Findings::default() })
        }
        Err(faults) => {
            let faults: Vec<_> = faults.into_iter().map(PlacedFault::from).collect();
            Verdict::Invalid(Refusal::listed("task", faults.into()))
        }
    }
}

/// The fault of a file that has more bytes than a task or a flow may have.
pub(super) fn too_long(document: &Document) -> TaskFault {
    let message = format!("file of {}, the limit is {TASK_BYTES_MAX}", document.size());
    TaskFault { message, ..TaskFault::too_long(document.length) }
}

impl TaskSummary {
    fn of(task: &Task) -> Self {
        let role = |&role: &Role| RoleSummary { role, agent: task.agent(role).kind.as_str() };
        let step = |step: &Step| StepSummary {
            id: step.id.clone(),
            tools: step.actions.iter().map(|action| action.call.name()).collect(),
            after: step.after.clone(),
            fallback_for: step.fallback_for.clone(),
        };
        Self {
            task_id: task.task_id.clone(),
            roles: task.requested_roles.iter().map(role).collect(),
            steps: task.steps.iter().map(step).collect(),
        }
    }

    /// One line for the task, for each role and for each step. Holds names only, which no terminal
    /// obeys.
    fn text(&self) -> String {
        let mut text = format!("task: {}\n", self.task_id);
        for RoleSummary { role, agent } in &self.roles {
            text.push_str(&format!("{role}: {agent}\n"));
        }
        for StepSummary { id, tools, after, fallback_for } in &self.steps {
            let fallback = fallback_for.iter().map(|step| format!(", if {step} fails"));
            let after = (!after.is_empty()).then(|| format!(", after {}", after.join(" and ")));
            let when: String = fallback.chain(after).collect();
            text.push_str(&format!("step {id}{when}: {}\n", tools.join(", ")));
        }
        text
    }
}
