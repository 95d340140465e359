//! Asking the person at the terminal, while others may answer as well.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal, stdin};

use countersign_format::event::{Event, EventRef, EventType};
use countersign_runtime::keyring::Protection;
use countersign_runtime::questions::Question;
use countersign_runtime::{Workspace, WorkspaceError, WriteError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};

use crate::place::explain;
use crate::questions::{asking, describe, typed, way_to_answer};
use crate::{Caller, CommandError, Format, passphrase};

pub(crate) struct Prompt {
    workspace: Workspace,
    at_terminal: bool,
    open: Option<Question>,
    /// Intents about which a person was asked, and nobody has answered yet.
    waiting: BTreeSet<u64>,
    /// Those that were shown, where nobody is at a terminal.
    shown: BTreeSet<u64>,
    trace: Option<countersign_format::id::Ulid>,
}

impl Prompt {
    pub(crate) fn new(workspace: Workspace) -> Self {
        let at_terminal = stdin().is_terminal() && std::io::stderr().is_terminal();
        Self {
            workspace,
            at_terminal,
            open: None,
            waiting: BTreeSet::new(),
            shown: BTreeSet::new(),
            trace: None,
        }
    }

    /// Whether the person at the terminal is being asked.
    pub(crate) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes in what was recorded.
    pub(crate) fn note(&mut self, event: &Event) {
        if self.trace.is_none() {
            self.trace = event.trace_id.parse().ok();
        }
        let named = |name: &str| {
            let named = event.payload.get(name).cloned().unwrap_or_default();
            serde_json::from_value::<EventRef>(named).ok()
        };
        let asked = match event.event_type {
            EventType::ToolIntentReviewed => {
                let decision = event.payload.get("decision").and_then(|it| it.as_str());
                named("subject").map(|subject| (subject.seq, decision == Some("asked")))
            }
            // A bound that was reached is no question.
            EventType::StepEscalated if event.payload.get("answers").is_some() => {
                event.seq.map(|seq| (seq, true))
            }
            EventType::AnswerGiven => named("question").map(|question| (question.seq, false)),
            _ => None,
        };
        match asked {
            Some((seq, true)) => drop(self.waiting.insert(seq)),
            Some((seq, false)) => {
                self.waiting.remove(&seq);
                if self.open.as_ref().is_some_and(|question| question.subject.seq == seq) {
                    self.close();
                }
            }
            None => {}
        }
    }

    /// What was typed for a question that is over is nobody's, least of all the shell's.
    fn close(&mut self) {
        self.open = None;
        if self.at_terminal {
            let _ = tcflush(stdin(), QueueSelector::IFlush);
        }
    }

    /// Shows every question that waits and was not shown, to whoever answers elsewhere.
    fn show_all(&mut self, caller: &mut Caller) -> Result<(), CommandError> {
        let news: Vec<u64> = self.waiting.difference(&self.shown).copied().collect();
        let (false, Some(trace)) = (news.is_empty(), self.trace) else { return Ok(()) };
        let questions = self.workspace.questions_of(trace).map_err(explain)?;
        for question in questions.iter().filter(|it| news.contains(&it.subject.seq)) {
            if caller.output.format() == Format::Text {
                caller.output.clear_status();
                for line in describe(question, self.workspace.now()) {
                    caller.output.note(line);
                }
            }
            caller.output.hint(way_to_answer(question));
        }
        self.shown.extend(news);
        Ok(())
    }

    /// Asks the next question that waits.
    pub(crate) fn ask(&mut self, caller: &mut Caller) -> Result<(), CommandError> {
        if !self.at_terminal {
            return self.show_all(caller);
        }
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
        if self.waiting.len() > 1 {
            caller.output.note(format_args!("  (1 of {} questions)", self.waiting.len()));
        }
        // What was typed before the question was read is no answer to it.
        let _ = tcflush(stdin(), QueueSelector::IFlush);
        caller.output.ask(asking(&question));
        self.open = Some(question);
        Ok(())
    }

    /// Ends the line on which somebody is asked, for something else to be printed.
    pub(crate) fn leave_line(&self, caller: &mut Caller) {
        if self.at_terminal && self.open.is_some() {
            caller.output.note("");
        }
    }

    /// Asks once more after something else was printed.
    pub(crate) fn redraw(&self, caller: &mut Caller) {
        if let (true, Some(question)) = (self.at_terminal, &self.open) {
            let asked = question.justification.lines().next().unwrap_or_default();
            caller.output.note(format_args!("{}: {asked}", question.title));
            caller.output.ask(asking(question));
        }
    }

    /// Looks whether the person has answered.
    pub(crate) fn poll(&mut self, caller: &mut Caller) -> Result<(), CommandError> {
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
        let answer = match typed(&question, &line) {
            Ok(answer) => answer,
            Err(reason) => {
                caller.output.warning(format_args!("the answer {reason}"));
                self.redraw(caller);
                return Ok(());
            }
        };
        if self.workspace.operator_protection().map_err(explain)? == Protection::Passphrase {
            let unlocked = passphrase::ask("passphrase of the operator's key")
                .and_then(|phrase| self.workspace.unlock_operator(&phrase).map_err(explain));
            if let Err(error) = unlocked {
                caller.output.error(&error);
                self.redraw(caller);
                return Ok(());
            }
        }
        self.close();
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
