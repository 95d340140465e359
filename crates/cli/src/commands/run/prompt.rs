//! Asking the person at the terminal, while others may answer as well.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal, stdin};

use countersign_format::event::{Event, EventRef, EventType};
use countersign_runtime::keyring::Protection;
use countersign_runtime::questions::{PersonsAnswer, Question};
use countersign_runtime::{Workspace, WorkspaceError, WriteError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};

use crate::place::explain;
use crate::questions::describe;
use crate::{Caller, CommandError, Format, passphrase};

pub(super) struct Prompt {
    workspace: Workspace,
    at_terminal: bool,
    open: Option<Question>,
    /// Intents about which a person was asked, and nobody has answered yet.
    waiting: BTreeSet<u64>,
    trace: Option<countersign_format::id::Ulid>,
}

impl Prompt {
    pub(super) fn new(workspace: Workspace) -> Self {
        let at_terminal = stdin().is_terminal() && std::io::stderr().is_terminal();
        Self { workspace, at_terminal, open: None, waiting: BTreeSet::new(), trace: None }
    }

    /// Whether the person at the terminal is being asked.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes in what was recorded.
    pub(super) fn note(&mut self, event: &Event) {
        if self.trace.is_none() {
            self.trace = event.trace_id.parse().ok();
        }
        let subject = || {
            let subject = event.payload.get("subject").cloned().unwrap_or_default();
            serde_json::from_value::<EventRef>(subject).ok()
        };
        if event.event_type != EventType::ToolIntentReviewed {
            return;
        }
        let Some(subject) = subject() else { return };
        if event.payload.get("decision").and_then(|it| it.as_str()) == Some("asked") {
            self.waiting.insert(subject.seq);
        } else {
            self.waiting.remove(&subject.seq);
            if self.open.as_ref().is_some_and(|question| question.subject == subject) {
                self.open = None;
            }
        }
    }

    /// Asks the next question that waits.
    pub(super) fn ask(&mut self, caller: &mut Caller) -> Result<(), CommandError> {
        let (Some(&seq), Some(trace), None) = (self.waiting.first(), self.trace, &self.open) else {
            return Ok(());
        };
        let questions = self.workspace.questions_of(trace).map_err(explain)?;
        let Some(question) = questions.into_iter().find(|it| it.subject.seq == seq) else {
            return Ok(());
        };
        if caller.output.format() == Format::Text {
            caller.output.clear_status();
            for line in describe(&question, self.workspace.now()) {
                caller.output.note(line);
            }
        }
        if self.at_terminal {
            // What was typed before the question was read is no answer to it.
            let _ = tcflush(stdin(), QueueSelector::IFlush);
            caller.output.ask("may it run? [y/N] ");
        } else {
            caller.output.hint(format_args!(
                "answer with `countersign approve {} --yes` or `--no`",
                question.id
            ));
        }
        self.open = Some(question);
        Ok(())
    }

    /// Ends the line on which somebody is asked, for something else to be printed.
    pub(super) fn leave_line(&self, caller: &mut Caller) {
        if self.at_terminal && self.open.is_some() {
            caller.output.note("");
        }
    }

    /// Asks once more after something else was printed.
    pub(super) fn redraw(&self, caller: &mut Caller) {
        if let (true, Some(question)) = (self.at_terminal, &self.open) {
            caller.output.ask(format_args!("{}: may it run? [y/N] ", question.title));
        }
    }

    /// Looks whether the person has answered.
    pub(super) fn poll(&mut self, caller: &mut Caller) -> Result<(), CommandError> {
        if !self.at_terminal || self.open.is_none() || !is_readable() {
            return Ok(());
        }
        let mut line = String::new();
        let read = stdin().lock().read_line(&mut line);
        let read =
            read.map_err(|error| CommandError::failed_doing("cannot read an answer", error))?;
        let Some(question) = self.open.clone() else { return Ok(()) };
        if read == 0 {
            self.at_terminal = false;
            self.open = None;
            return Ok(());
        }
        let yes = matches!(line.trim().to_lowercase().as_str(), "y" | "yes");
        let answer = if yes { PersonsAnswer::Yes } else { PersonsAnswer::No };
        if self.workspace.operator_protection().map_err(explain)? == Protection::Passphrase {
            let unlocked = passphrase::ask("passphrase of the operator's key")
                .and_then(|phrase| self.workspace.unlock_operator(&phrase).map_err(explain));
            if let Err(error) = unlocked {
                caller.output.error(&error);
                self.redraw(caller);
                return Ok(());
            }
        }
        self.open = None;
        self.waiting.remove(&question.subject.seq);
        match self.workspace.answer(&question, answer, None) {
            Ok(_) => Ok(()),
            // Somebody else was faster, or the time is over: the run shows what holds.
            Err(WorkspaceError::Write(WriteError::Refused(refusal))) => {
                caller.output.warning(refusal);
                Ok(())
            }
            Err(error) => Err(explain(error)),
        }
    }
}

fn is_readable() -> bool {
    let input = stdin();
    let mut fds = [PollFd::new(&input, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}
