//! One agent at work: its process, and which of its words is the exit signal.
//!
//! The process is supervised like a tool's, so it ends with the recorder, but it is not confined: it is
//! the user's own program. What is written to the descriptor counts before anything printed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use countersign_format::exit::{
    ExitSignalError, INPUT_BYTES_MAX, StdoutScanner, StdoutSignal, read_descriptor,
};
use countersign_protocol::work::{Lease, SignalChannel};

use super::phase::{PhaseAgent, WorkSetting};
use crate::sandbox::{Bounds, Drive, End, Listener, MARKER, Plan, Program, Start, Stop, Stream};

/// The variable that names the descriptor for the exit signal.
const FD_VARIABLE: &str = "COUNTERSIGN_EXIT_FD";
/// The variable that holds what every message on it begins with.
const NONCE_VARIABLE: &str = "COUNTERSIGN_EXIT_NONCE";
/// Variables that name the item, the lease and the session.
const ITEM_VARIABLE: &str = "COUNTERSIGN_WORK_ITEM";
const LEASE_VARIABLE: &str = "COUNTERSIGN_LEASE";
const SESSION_VARIABLE: &str = "COUNTERSIGN_SESSION";
/// Bytes that are kept of each output.
const OUTPUT_BYTES_MAX: u64 = 8 << 20;
/// How long an agent may go on after its signal.
const GRACE: Duration = Duration::from_secs(30);

/// What an agent left behind.
#[derive(Debug)]
pub(super) struct AgentRun {
    pub(super) end: End,
    pub(super) stdout: Stream,
    pub(super) stderr: Stream,
    pub(super) heard: Heard,
    pub(super) elapsed: Duration,
}

/// What an agent said about its exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing.
    Nothing,
    /// This, which may still be no valid signal.
    Signal(Vec<u8>, SignalChannel),
    /// Something that cannot be taken for one signal.
    Unusable(String, SignalChannel),
}

/// What is told of an agent while it runs.
#[derive(Debug)]
struct Ear<'a> {
    scanner: Mutex<StdoutScanner>,
    setting: &'a WorkSetting,
    item: &'a str,
    lease: &'a Lease,
}

impl Listener for Ear<'_> {
    fn started(&self) {
        self.setting.tell(self.item, self.lease, super::WorkNews::Started);
    }

    fn printed(&self, bytes: &[u8]) {
        self.scanner.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

/// A secret that opens every message on the descriptor.
pub(super) struct Nonce(pub(super) String);

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(…)")
    }
}

/// What is run for a phase: the agent's program, or this one with a flow.
fn argv(agent: &PhaseAgent, setting: &WorkSetting) -> Vec<OsString> {
    let Some(flow) = &agent.flow else {
        return agent.command.iter().map(OsString::from).collect();
    };
    let mut argv = vec![setting.helper.clone().into_os_string()];
    argv.extend(["flow", "run", "--for-work", "--home"].map(OsString::from));
    argv.push(setting.home.clone().into_os_string());
    argv.push(flow.into());
    argv
}

/// Runs the agent to its end.
pub(super) fn run(
    agent: &PhaseAgent,
    setting: &WorkSetting,
    (item, lease): (&str, &Lease),
    envelope: String,
    nonce: &Nonce,
    stop: &Stop,
) -> AgentRun {
    let ear = Ear { scanner: Mutex::new(StdoutScanner::new()), setting, item, lease };
    let drive = Drive {
        helper: &setting.helper,
        marker: &lease.session_id,
        time: agent.timeout,
        output_bytes: OUTPUT_BYTES_MAX,
        listener: Some(&ear),
        grace: GRACE,
    };
    let program = Program {
        argv: argv(agent, setting),
        directory: setting.root.clone().into(),
        environment: environment(setting, item, lease, nonce),
        stdin: Some(envelope),
        signals: (!agent.ci).then(|| FD_VARIABLE.to_owned()),
    };
    let start = Start {
        plan: Plan { namespaces: None, landlock: Some(0) },
        bounds: open_bounds(&setting.root),
        program: Some(program),
    };
    let driven = drive.run(start, stop);
    let printed = ear.scanner.into_inner().unwrap_or_else(PoisonError::into_inner);
    let heard = if agent.ci {
        Heard::Nothing
    } else {
        hear(nonce, &driven.signals, agent.stdout_counts.then_some(printed))
    };
    AgentRun {
        end: driven.end,
        stdout: driven.stdout,
        stderr: driven.stderr,
        heard,
        elapsed: driven.elapsed,
    }
}

fn environment(
    setting: &WorkSetting,
    item: &str,
    lease: &Lease,
    nonce: &Nonce,
) -> Vec<(OsString, OsString)> {
    let mut all: BTreeMap<OsString, OsString> = setting.environment.iter().cloned().collect();
    let ours = [
        (ITEM_VARIABLE, item.to_owned()),
        (LEASE_VARIABLE, lease.epoch.to_string()),
        (SESSION_VARIABLE, lease.session_id.clone()),
        (NONCE_VARIABLE, nonce.0.clone()),
        (MARKER, lease.session_id.clone()),
    ];
    all.extend(ours.map(|(name, value)| (name.into(), value.into())));
    all.into_iter().collect()
}

/// No bounds but those of the user.
fn open_bounds(root: &Path) -> Bounds {
    Bounds {
        root: root.as_os_str().to_owned(),
        read_only: false,
        write: Vec::new(),
        hidden: Vec::new(),
        scratch: None,
        network: true,
        memory_bytes: 0,
    }
}

/// What counts: the descriptor, else the last thing printed where that counts at all.
fn hear(nonce: &Nonce, signals: &[u8], printed: Option<StdoutScanner>) -> Heard {
    match read_descriptor(&nonce.0, signals) {
        Ok(Some(signal)) => return Heard::Signal(signal, SignalChannel::Descriptor),
        Ok(None) => {}
        Err(fault) => return Heard::Unusable(fault.to_string(), SignalChannel::Descriptor),
    }
    let Some(printed) = printed else { return Heard::Nothing };
    let unusable = |reason: String| Heard::Unusable(reason, SignalChannel::Stdout);
    match printed.finish() {
        StdoutSignal::Absent => Heard::Nothing,
        StdoutSignal::Last(signal) => Heard::Signal(signal, SignalChannel::Stdout),
        StdoutSignal::NotLast { bytes_after } => unusable(format!(
            "an exit signal was printed, but {bytes_after} more bytes after it: it must be the last \
             thing on standard output"
        )),
        StdoutSignal::Ambiguous { count } => {
            unusable(format!("{count} exit signals were printed, and they differ"))
        }
        StdoutSignal::TooLarge => {
            let (actual, max) = (INPUT_BYTES_MAX + 1, INPUT_BYTES_MAX);
            unusable(ExitSignalError::InputTooLarge { actual, max }.to_string())
        }
        StdoutSignal::Broken => {
            unusable("an exit signal was begun on standard output and broke off".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNAL: &str = r#"{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed"}"#;

    fn heard(descriptor: &str, printed: Option<&str>) -> Heard {
        let scanner = printed.map(|text| {
            let mut scanner = StdoutScanner::new();
            scanner.push(text.as_bytes());
            scanner
        });
        hear(&Nonce("n0".to_owned()), descriptor.as_bytes(), scanner)
    }

    #[test]
    fn the_descriptor_counts_before_whatever_is_printed() {
        let quoted = SIGNAL.replace("completed\"}", "error\"}");
        let said = heard(&format!("n0 {SIGNAL}\n"), Some(&quoted));
        assert_eq!(said, Heard::Signal(SIGNAL.into(), SignalChannel::Descriptor));
    }

    #[test]
    fn a_printed_signal_counts_as_the_weaker_channel_unless_it_does_not_count_at_all() {
        let said = Heard::Signal(SIGNAL.into(), SignalChannel::Stdout);
        assert_eq!(heard("", Some(&format!("done\n{SIGNAL}\n"))), said);
        assert_eq!(heard("", None), Heard::Nothing);
    }

    #[test]
    fn what_is_wrong_on_the_descriptor_is_not_made_good_by_what_is_printed() {
        let said = heard(&format!("n1 {SIGNAL}\n"), Some(SIGNAL));
        assert!(matches!(said, Heard::Unusable(_, SignalChannel::Descriptor)));
    }
}
