//! Agents that are programs: their own process, envelopes in and out, with bounds on time and output.

use std::path::PathBuf;

use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::role::Role;

use super::envelope::{self, Setting};
use super::{Agent, AgentFailure, Exchange, Reply, Request};
use crate::secrets::Redactor;
use crate::tools::{Ended, Stop, ToolCall, Toolbox};

/// How a program is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    /// The input envelope on standard input, the output envelope on standard output.
    Envelopes,
    /// The envelope and the form of the answer as text; the answer is found in what it prints.
    Prompt,
}

/// An agent that is run anew for every request.
#[derive(Debug)]
pub struct OutsideAgent {
    /// Which role it plays.
    pub role: Role,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How it is spoken to.
    pub speech: Speech,
    /// What every agent is told.
    pub setting: Setting,
    /// Where it runs, and its bounds.
    pub toolbox: Toolbox,
    /// The files that its command names, as they were when the run began.
    pub files: Vec<(PathBuf, Hash)>,
    /// Takes secrets out of what it is told.
    pub redactor: Redactor,
    /// Ends it early.
    pub stop: Stop,
}

impl Agent for OutsideAgent {
    fn answer(&self, request: &Request<'_>, attempt: u32) -> Result<Reply, AgentFailure> {
        // A tool may write the workspace: what it put there must not run outside of the sandbox.
        let changed = |(path, hash): &&(PathBuf, Hash)| {
            std::fs::read(path).map_or(true, |bytes| Hash::of(&bytes) != *hash)
        };
        if let Some((path, _)) = self.files.iter().find(changed) {
            let reason = format!("is not run: `{}` changed since the run began", path.display());
            return Err(AgentFailure { role: self.role, reason, exchange: None });
        }
        let mut input = envelope::input(&self.setting, request, attempt);
        self.redactor.redact_value(&mut input);
        let (sent, told) = match self.speech {
            Speech::Envelopes => {
                let bytes = json::to_bytes(&input);
                (String::from_utf8_lossy(&bytes).into_owned(), bytes)
            }
            Speech::Prompt => {
                let text = envelope::prompt(&input, request);
                (text.clone(), text.into_bytes())
            }
        };
        let call = ToolCall::Exec {
            argv: self.command.clone(),
            shell: None,
            cwd: None,
            env: Default::default(),
            stdin: Some(sent),
        };
        let outcome = self.toolbox.run(&call, &self.stop);
        let exchange = Exchange {
            input: told,
            output: outcome.stdout.bytes.clone(),
            complaints: outcome.stderr.bytes.clone(),
        };
        let found = match outcome.ended {
            Ended::Exited(0) if outcome.stdout.dropped > 0 => {
                let all = outcome.stdout.dropped + outcome.stdout.bytes.len() as u64;
                Err(format!("printed {all} bytes, which is more than it may"))
            }
            Ended::Exited(0) => self.read(&exchange.output, request),
            _ => Err(format!("did not answer: {}", outcome.reason())),
        };
        match found {
            Ok(value) => Ok(Reply { value, exchange: Some(exchange) }),
            Err(reason) => {
                let (reason, _) = self.redactor.redact_text(&reason);
                Err(AgentFailure { role: self.role, reason, exchange: Some(Box::new(exchange)) })
            }
        }
    }
}

impl OutsideAgent {
    fn read(&self, printed: &[u8], request: &Request<'_>) -> Result<serde_json::Value, String> {
        match self.speech {
            Speech::Envelopes => envelope::answer(printed, request),
            Speech::Prompt => match envelope::find(printed) {
                Some(found) => envelope::answer(&found, request),
                None => Err("printed no output envelope".to_owned()),
            },
        }
    }
}
