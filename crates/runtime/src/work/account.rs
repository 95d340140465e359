//! What is kept of an agent's run, and how its end is told.

use countersign_format::event::ArtifactDescriptor;
use countersign_format::exit::{ExitReason, ExitSignal};

use super::agent::{AgentRun, Heard, Nonce};
use super::phase::PhaseAgent;
use crate::sandbox::{End, Stream};
use crate::secrets::Redactor;

/// What is kept of an output: no secret, the nonce least of all.
pub(super) fn kept(stream: &Stream, redactor: &Redactor, nonce: &Nonce) -> Vec<u8> {
    without_nonce(redactor.redact(&stream.bytes).bytes.into_owned(), nonce)
}

pub(super) fn without_nonce(mut bytes: Vec<u8>, nonce: &Nonce) -> Vec<u8> {
    let nonce = nonce.0.as_bytes();
    if nonce.is_empty() {
        return bytes;
    }
    let mut from = 0;
    while let Some(rest) = bytes.get(from..)
        && let Some(at) = rest.windows(nonce.len()).position(|window| window == nonce)
    {
        let at = from + at;
        bytes.splice(at..at + nonce.len(), *b"[nonce]");
        from = at;
    }
    bytes
}

/// Characters of an agent's last words that are repeated.
const LAST_WORDS_MAX: usize = 200;

/// The last line that an agent complained with, which mostly says what went wrong. Advice that follows
/// it, such as ours, says what to do and not what happened.
pub(super) fn last_words(run: &AgentRun) -> String {
    let said = String::from_utf8_lossy(&run.stderr.bytes);
    let tells = |line: &&str| !line.is_empty() && !line.starts_with("hint:");
    match said.lines().map(str::trim).rfind(tells) {
        Some(line) => {
            let line: String =
                line.chars().filter(|c| !c.is_control()).take(LAST_WORDS_MAX).collect();
            format!("; it said: {line}")
        }
        None => String::new(),
    }
}

/// Whether an agent ended as one that did its work.
pub(super) const fn ended_well(run: &AgentRun) -> bool {
    matches!(run.end, End::Exited(0) | End::Lingered)
}

/// Whether the agent says that the phase is done, and did not contradict that by its end.
pub(super) fn achieved(agent: &PhaseAgent, run: &AgentRun) -> bool {
    let said = match &run.heard {
        _ if agent.ci => true,
        Heard::Signal(bytes, _) => {
            let signal = ExitSignal::from_json(&String::from_utf8_lossy(bytes));
            signal.is_ok_and(|signal| signal.exit_reason == ExitReason::Completed)
        }
        Heard::Nothing | Heard::Unusable(..) => false,
    };
    said && ended_well(run)
}

/// Each of what was left once: an event names an artifact once.
pub(super) fn distinct(left: &[(&'static str, ArtifactDescriptor)]) -> Vec<ArtifactDescriptor> {
    let mut all: Vec<ArtifactDescriptor> = Vec::new();
    for (_, artifact) in left {
        if !all.iter().any(|known| known.artifact_hash == artifact.artifact_hash) {
            all.push(artifact.clone());
        }
    }
    all
}

/// How an agent ended, for people.
pub(super) fn told(run: &AgentRun) -> String {
    match &run.end {
        End::Exited(status) => format!("ended with status {status}"),
        End::Signalled(signal) => format!("was ended by signal {signal}"),
        End::TimedOut => format!("did not end within {} s", run.elapsed.as_secs()),
        End::Lingered => "went on after its signal and was ended".to_owned(),
        End::Stopped => "was stopped".to_owned(),
        End::Missing(reason) | End::Refused(reason) => format!("was not started: {reason}"),
        End::Ready(_) => "was not started".to_owned(),
    }
}
