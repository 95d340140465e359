//! Carrying steps out: which one is next, several at once, and what takes the place of a failed one.

use countersign_protocol::session::ProposalDecision;

use super::board::{Board, Progress};
use super::{Conductor, Halt, LOOK_EVERY};
use crate::writer::lock;

/// What a worker does next.
enum Next {
    /// Carry this step out.
    Step(usize),
    /// Others are at work; wait for what they leave.
    Wait,
    /// Nothing is left.
    Over,
}

impl Board {
    /// How many steps this one makes up for.
    pub(super) fn depth(&self, step: usize) -> u32 {
        let mut depth = 0;
        let mut at = self.steps.get(step).and_then(|step| step.replaces);
        while let Some(before) = at {
            depth += 1;
            at = self.steps.get(before).and_then(|step| step.replaces);
            if depth as usize > self.steps.len() {
                break;
            }
        }
        depth
    }

    fn next(&mut self) -> Next {
        let mut ready = None;
        let mut skipped = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            let approved = matches!(
                step.decision,
                Some(ProposalDecision::Approved | ProposalDecision::Conditional)
            );
            if step.progress != Progress::Waiting || !approved {
                continue;
            }
            match self.before(at) {
                Before::Done => {
                    ready = Some(at);
                    break;
                }
                Before::Open => {}
                Before::Lost(id) => skipped.push((at, id)),
            }
        }
        let any_skipped = !skipped.is_empty();
        for (at, id) in skipped {
            if let Some(step) = self.steps.get_mut(at) {
                step.progress = Progress::Skipped(format!("it follows `{id}`, which was not done"));
            }
        }
        if let Some(at) = ready {
            if let Some(step) = self.steps.get_mut(at) {
                step.progress = Progress::Running;
            }
            return Next::Step(at);
        }
        if any_skipped {
            return self.next();
        }
        let running = self.steps.iter().any(|step| step.progress == Progress::Running);
        if running { Next::Wait } else { Next::Over }
    }

    /// What became of the steps that this one follows.
    fn before(&self, at: usize) -> Before {
        let planned = self.steps.get(at).and_then(|step| step.planned.as_ref());
        let mut found = Before::Done;
        for id in planned.map(|step| step.after.as_slice()).unwrap_or_default() {
            match self.find(id).and_then(|before| self.effective(before)) {
                Some(Progress::Done) => {}
                Some(progress) if progress.is_over() => return Before::Lost(id.clone()),
                Some(_) => found = Before::Open,
                None => return Before::Lost(id.clone()),
            }
        }
        found
    }
}

enum Before {
    Done,
    Open,
    Lost(String),
}

impl Conductor {
    /// Carries out everything that was approved, several steps at once.
    pub(super) fn carry_out_all(&self) -> Result<(), Halt> {
        self.review()?;
        self.replace_lost()?;
        std::thread::scope(|scope| {
            for _ in 0..self.task.limits.parallel.max(1) {
                scope.spawn(|| {
                    if let Err(halt) = self.worker() {
                        lock(&self.halted).get_or_insert(halt);
                        self.stop.set();
                        self.news.notify_all();
                    }
                });
            }
        });
        match lock(&self.halted).take() {
            Some(halt) => Err(halt),
            None => Ok(()),
        }
    }

    fn worker(&self) -> Result<(), Halt> {
        loop {
            let Some(at) = self.next_step()? else { return Ok(()) };
            let progress = self.carry_out(at)?;
            // It counts as running until its replacement is there, so that nobody takes the session
            // for over, or a step that follows it for lost.
            self.replace(at, &progress)?;
            self.board(|board| set(board, at, progress));
            self.news.notify_all();
        }
    }

    fn next_step(&self) -> Result<Option<usize>, Halt> {
        let mut tail = self.tail();
        loop {
            if lock(&self.halted).is_some() {
                return Ok(None);
            }
            match tail.board.next() {
                Next::Step(at) => return Ok(Some(at)),
                Next::Over => return Ok(None),
                Next::Wait => {
                    let waited = self.news.wait_timeout(tail, LOOK_EVERY);
                    tail = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Steps that were lost before the workers began: rejected ones, and those of an earlier run.
    fn replace_lost(&self) -> Result<(), Halt> {
        let mut at = 0;
        while let Some((progress, replaced)) = self.board(|board| {
            let step = board.steps.get(at)?;
            Some((step.progress.clone(), board.replacement(at).is_some()))
        }) {
            if !replaced {
                self.replace(at, &progress)?;
            }
            at += 1;
        }
        Ok(())
    }
}

fn set(board: &mut Board, at: usize, progress: Progress) {
    if let Some(step) = board.steps.get_mut(at) {
        step.progress = progress;
    }
}
