//! The settings of work items: which agent does which phase, from `countersign.toml`.
//!
//! Reads text and lists everything that is wrong with it. Opens no file, and does not ask whether the
//! programs that it names exist.

use std::collections::BTreeMap;
use std::time::Duration;

use countersign_format::exit::WorkPhase;
use countersign_format::path::check_readable;
use countersign_protocol::work::LEASE_MILLIS_MAX;

use super::PhaseAgent;
use crate::task::TaskFault;
use crate::task::document::{Table, Value};
use crate::task::fault::FaultList;
use crate::task::syntax;

/// The name of the file, in the workspace root.
pub const SETTINGS_NAME: &str = "countersign.toml";

/// Seconds of a lease where nothing is said: a crashed runner's item is free after that.
const LEASE_SECONDS: u64 = 60;
/// Seconds that an agent may take where nothing is said.
const TIMEOUT_SECONDS: u64 = 3_600;
/// The longest that can be said: a week.
const TIMEOUT_SECONDS_MAX: i64 = 7 * 24 * 3_600;
const ATTEMPTS: u64 = 3;
const PARALLEL: usize = 2;
const PARALLEL_MAX: i64 = 256;
/// The phases that an agent can do; CI has a command of its own.
const AGENT_PHASES: [&str; 5] =
    ["DRAFT", "IMPLEMENTATION", "READY_FOR_REVIEW", "REVIEW", "READY_FOR_MERGE"];

/// Which agent does which phase, and within what bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkSettings {
    /// The length of a lease.
    pub lease: Duration,
    /// Leases after which a phase that came to nothing is blocked.
    pub attempts: u64,
    /// How many agents run at a time.
    pub parallel: usize,
    /// The agents, by phase. CI_PENDING is the CI command.
    pub agents: BTreeMap<WorkPhase, PhaseAgent>,
}

impl Default for WorkSettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(LEASE_SECONDS),
            attempts: ATTEMPTS,
            parallel: PARALLEL,
            agents: BTreeMap::new(),
        }
    }
}

impl WorkSettings {
    /// The settings that a file describes.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file.
    pub fn parse(text: &str) -> Result<Self, Vec<TaskFault>> {
        let faults = FaultList::new(text);
        let document = syntax::read(text, &faults);
        let read = document.as_ref().map(|document| {
            let root = Table::root(document, &faults);
            root.only(&["work"]);
            root.table("work").map(|work| Self::read(&work)).unwrap_or_default()
        });
        match read {
            Some(settings) if faults.count() == 0 => Ok(settings),
            _ => Err(faults.into_faults()),
        }
    }

    fn read(table: &Table<'_>) -> Self {
        table.only(&["lease_seconds", "attempts", "parallel", "agents", "ci"]);
        let mut agents = BTreeMap::new();
        for (name, place, value) in
            table.table("agents").iter().flat_map(Table::entries).collect::<Vec<_>>()
        {
            match WorkPhase::parse(name) {
                Ok(phase) if AGENT_PHASES.contains(&name) => {
                    agents.extend(agent(&value, phase).map(|agent| (phase, agent)));
                }
                Ok(WorkPhase::CiPending) => place.fault("CI's command stands in `work.ci`"),
                _ => place.fault(format!("must be one of: {}", AGENT_PHASES.join(", "))),
            }
        }
        let ci = table.get("ci").and_then(|value| agent(&value, WorkPhase::CiPending));
        agents.extend(ci.map(|ci| (WorkPhase::CiPending, ci)));
        let usual = Self::default();
        let lease = table.integer::<u64>("lease_seconds", 1..=LEASE_MILLIS_MAX / 1_000);
        Self {
            lease: lease.map_or(usual.lease, Duration::from_secs),
            attempts: table.integer("attempts", 1..=1_000).unwrap_or(usual.attempts),
            parallel: table.integer("parallel", 1..=PARALLEL_MAX).unwrap_or(usual.parallel),
            agents,
        }
    }
}

fn agent(value: &Value<'_>, phase: WorkPhase) -> Option<PhaseAgent> {
    let table = value.table()?;
    let ci = phase == WorkPhase::CiPending;
    table.only(if ci {
        &["command", "timeout_seconds"]
    } else {
        &["command", "flow", "name", "timeout_seconds", "signals"]
    });
    let usual = phase.as_str().to_lowercase();
    let holder = match table.get("name") {
        Some(name) => name.name()?,
        None if ci => "ci".to_owned(),
        None => usual,
    };
    let timeout = table.integer::<u64>("timeout_seconds", 1..=TIMEOUT_SECONDS_MAX);
    let stdout_counts = table.choice("signals", &["any", "descriptor"], |word| match word {
        "any" => Some(true),
        "descriptor" => Some(false),
        _ => None,
    });
    let flow = table.get("flow");
    if let (Some(flow), true) = (&flow, table.get("command").is_some()) {
        return flow.refuse("a phase is done by a command or by a flow, not by both");
    }
    let (command, flow) = match flow {
        Some(flow) => (Vec::new(), Some(flow_file(&flow)?)),
        None => (command(&table)?, None),
    };
    Some(PhaseAgent {
        holder,
        command,
        timeout: Duration::from_secs(timeout.unwrap_or(TIMEOUT_SECONDS)),
        // A flow signals on the descriptor; what its agents print is not its word.
        stdout_counts: flow.is_none() && stdout_counts.unwrap_or(true),
        flow,
        ci,
    })
}

/// The path of a flow file in the workspace.
fn flow_file(value: &Value<'_>) -> Option<String> {
    let path = value.passable()?;
    match check_readable(path) {
        Ok(()) => Some(path.to_owned()),
        Err(fault) => value.refuse(fault.to_string()),
    }
}

fn command(table: &Table<'_>) -> Option<Vec<String>> {
    let wanted = "an array of strings: the program and its arguments";
    let given = table.required("command", wanted)?;
    let words = given.list(wanted)?;
    let read: Vec<String> =
        words.iter().filter_map(|word| word.passable().map(str::to_owned)).collect();
    match read.first() {
        Some(program) if !program.is_empty() && read.len() == words.len() => Some(read),
        Some(_) => given.refuse("must begin with a program"),
        None => given.refuse("must not be empty"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(holder: &str, command: &[&str], seconds: u64) -> PhaseAgent {
        PhaseAgent {
            holder: holder.to_owned(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            timeout: Duration::from_secs(seconds),
            flow: None,
            stdout_counts: true,
            ci: false,
        }
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = "[work]\nlease_seconds = 5\nattempts = 2\nparallel = 8\n\
            [work.agents.DRAFT]\ncommand = [\"a\", \"b\"]\n\
            [work.agents.REVIEW]\ncommand = [\"c\"]\nname = \"critic\"\ntimeout_seconds = 9\nsignals = \"descriptor\"\n\
            [work.ci]\ncommand = [\"make\"]\n";
        let review = PhaseAgent { stdout_counts: false, ..agent("critic", &["c"], 9) };
        let ci = PhaseAgent { ci: true, ..agent("ci", &["make"], TIMEOUT_SECONDS) };
        let expected = WorkSettings {
            lease: Duration::from_secs(5),
            attempts: 2,
            parallel: 8,
            agents: BTreeMap::from([
                (WorkPhase::Draft, agent("draft", &["a", "b"], TIMEOUT_SECONDS)),
                (WorkPhase::CiPending, ci),
                (WorkPhase::Review, review),
            ]),
        };
        assert_eq!(WorkSettings::parse(text), Ok(expected));
        assert_eq!(WorkSettings::parse(""), Ok(WorkSettings::default()));
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let text = "[work]\nlease_seconds = 0\nparalel = 3\n[work.agents.BLOCKED]\ncommand = [\"x\"]\n\
            [work.agents.CI_PENDING]\ncommand = [\"x\"]\n[work.agents.DRAFT]\ncommand = []\n\
            [work.agents.REVIEW]\nname = \"R\"\nsignals = \"fax\"\n[work.ci]\nname = \"x\"\ncommand = \"make\"\n";
        let faults = WorkSettings::parse(text).unwrap_err();
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "line 2, column 17: work.lease_seconds: must be between 1 and 86400, found 0",
                "line 3, column 1: work.paralel: unknown key, did you mean `parallel`?",
                "line 4, column 14: work.agents.BLOCKED: must be one of: DRAFT, IMPLEMENTATION, READY_FOR_REVIEW, REVIEW, READY_FOR_MERGE",
                "line 6, column 14: work.agents.CI_PENDING: CI's command stands in `work.ci`",
                "line 9, column 11: work.agents.DRAFT.command: must not be empty",
                "line 11, column 8: work.agents.REVIEW.name: found `R`, an identifier is 1 to 128 of `a-z 0-9 _ . : @ -`, starting with a letter or digit",
                "line 14, column 1: work.ci.name: unknown key, the keys here are: command, timeout_seconds",
                "line 15, column 11: work.ci.command: must be an array of strings: the program and its arguments, found the string \"make\"",
            ]
        );
    }
}
