//! What a tool call costs late in a session, against the same early in it: it should not matter.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use countersign_format::event::{Event, EventType};
use countersign_format::role::Role;
use countersign_format::trace_session::TraceStatus;
use countersign_runtime::Environment;
use countersign_runtime::conduct::{Conductor, Observer, RunSetting, TaskText};
use countersign_runtime::tools::Stop;

use super::home::{Home, told};
use super::{Measured, Target};

const CALLS: usize = 10_000;
/// Calls that are looked at, early and late.
const COMPARED: usize = 2_000;

/// Notes when each call ended.
#[derive(Default)]
struct Ends(Mutex<Vec<Instant>>);

impl Observer for Ends {
    fn recorded(&self, event: &Event) {
        if event.event_type == EventType::ToolExecutionCompleted {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        }
    }

    fn asking(&self, _role: Role, _action: &str) {}
}

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let home = Home::new("calls")?;
    let workspace = home.init(Environment::system())?;
    let root = workspace.home().parent().ok_or("no root")?.to_owned();
    std::fs::write(root.join("read"), "what is read\n").map_err(|error| error.to_string())?;
    let task = TaskText::parse(task())
        .map_err(|faults| faults.first().map(ToString::to_string).unwrap_or_default())?;
    let ends = Arc::new(Ends::default());
    let setting = RunSetting {
        links: None,
        root,
        environment: Vec::new(),
        helper: "countersign".into(),
        observer: Arc::clone(&ends) as Arc<dyn Observer>,
        stop: Stop::default(),
    };
    let conductor = Conductor::begin(&workspace, task, setting).map_err(|error| told(&error))?;
    let result = conductor.run().map_err(|error| told(&error))?;
    if result.status != TraceStatus::Succeeded {
        return Err(format!("the session ended otherwise: {:?}", result.reason));
    }
    let ends = ends.0.lock().unwrap_or_else(PoisonError::into_inner);
    if ends.len() != CALLS {
        return Err(format!("{} calls completed, not {CALLS}", ends.len()));
    }
    let took: Vec<Duration> =
        ends.windows(2).filter_map(|two| Some(*two.last()? - *two.first()?)).collect();
    let early = median(took.iter().take(COMPARED));
    let late = median(took.iter().rev().take(COMPARED));
    Ok(vec![Measured {
        name: "calls",
        value: late.as_secs_f64() * 1e6,
        unit: "us/call",
        bound: early.as_secs_f64() * 1e6,
        target: Target::AtMost(1.15),
    }])
}

fn median<'d>(times: impl Iterator<Item = &'d Duration>) -> Duration {
    let mut times: Vec<Duration> = times.copied().collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn task() -> String {
    let action = "{ tool = \"file_read\", path = \"read\" },\n";
    format!(
        "task_id = \"many-calls\"\nobjective = \"Call often\"\nlimits = {{ tool_calls = {CALLS} }}\n\
         [[steps]]\nid = \"read\"\nobjective = \"Read often\"\nactions = [\n{}]\n",
        action.repeat(CALLS)
    )
}
