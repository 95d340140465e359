//! What is kept of an agent's run, and how its end is told.

use countersign_format::event::ArtifactDescriptor;

use super::agent::{AgentRun, Nonce};
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

/// The last line that an agent complained with, which mostly says what went wrong.
pub(super) fn last_words(run: &AgentRun) -> String {
    let said = String::from_utf8_lossy(&run.stderr.bytes);
    match said.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => {
            let line: String =
                line.chars().filter(|c| !c.is_control()).take(LAST_WORDS_MAX).collect();
            format!("; it said: {line}")
        }
        None => String::new(),
    }
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
