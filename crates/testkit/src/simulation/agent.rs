//! An agent: what it believes, and what it does next.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_format::event::EventType;
use countersign_format::exit::{ExitReason, ExitSignal, WorkPhase};
use countersign_format::id::Ulid;
use countersign_protocol::work::{
    Bearer, CiVerdict, Claimant, Lease, Releaser, SignalChannel, WorkExit,
};
use countersign_runtime::work::{ExitAnswer, WorkItem};
use countersign_runtime::{Recording, Workspace, WorkspaceError, WriteError};

use super::account::Account;
use super::machine::{Fuse, Machine};
use super::{Course, Twin};
use crate::dice::Dice;
use crate::home::note;

/// The shortest and the longest lease that is asked for, in milliseconds.
const LEASE_MILLIS: [usize; 2] = [500, 30_000];

/// A process of an agent, and what it has open.
#[derive(Debug)]
struct Process {
    workspace: Workspace,
    fuse: Arc<Fuse>,
    items: BTreeMap<Ulid, WorkItem>,
    recordings: BTreeMap<Ulid, Recording>,
}

/// A lease that the agent was told of.
#[derive(Debug, Clone)]
struct Belief {
    item: Ulid,
    epoch: u64,
    session: String,
    phase: WorkPhase,
    ci: bool,
}

#[derive(Debug)]
pub(super) struct Agent {
    name: String,
    process: Option<Process>,
    belief: Option<Belief>,
    /// An exit to which no answer was heard.
    unanswered: Option<(Ulid, WorkExit)>,
    sessions: u64,
    acted: bool,
    twin: Option<Twin>,
}

/// What everybody can know of.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) items: Vec<Ulid>,
    pub(super) recordings: Vec<Ulid>,
}

/// What an agent does with.
pub(super) struct Scene<'s> {
    pub(super) dice: &'s mut Dice,
    pub(super) account: &'s mut Account,
    pub(super) board: &'s mut Board,
    pub(super) told: &'s mut Course,
    /// What failed, and not because the rules forbid it.
    pub(super) trouble: Option<String>,
}

impl Scene<'_> {
    /// What came of asking: `None` where no answer came, for which there must be a cause.
    fn answered<T>(&mut self, result: Result<T, WorkspaceError>) -> Option<Result<T, String>> {
        match result {
            Ok(value) => Some(Ok(value)),
            Err(WorkspaceError::Write(WriteError::Refused(refusal))) => {
                Some(Err(refusal.to_string()))
            }
            Err(error) => {
                self.trouble = Some(format!("{error:?}"));
                None
            }
        }
    }
}

impl Agent {
    pub(super) fn new(number: usize, twin: Option<Twin>) -> Self {
        let name = format!("agent-{number}");
        Self {
            name,
            process: None,
            belief: None,
            unanswered: None,
            sessions: 0,
            acted: false,
            twin,
        }
    }

    /// Whether it ever came so far as to do something.
    pub(super) const fn has_acted(&self) -> bool {
        self.acted
    }

    /// Its process is gone; what it was told it may have kept, or not.
    pub(super) fn die(&mut self, dice: &mut Dice) {
        self.process = None;
        if dice.one_in(3) {
            (self.belief, self.unanswered) = (None, None);
        }
    }

    /// Whether its process was killed in what it did last.
    pub(super) fn was_killed(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.fuse.is_burnt())
    }

    /// Does one thing.
    pub(super) fn step(
        &mut self,
        machine: &mut Machine<'_>,
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        if self.process.is_none() {
            // It may have been killed by a loss of power while it opened; then it comes again.
            let Some(Ok((workspace, fuse))) = scene.answered(machine.start()) else {
                return Ok(());
            };
            let (items, recordings) = (BTreeMap::new(), BTreeMap::new());
            self.process = Some(Process { workspace, fuse, items, recordings });
        }
        if let Some(process) = &self.process
            && scene.dice.one_in(8)
        {
            process.fuse.light(1 + scene.dice.below(25) as u64);
        }
        scene.told.steps += 1;
        self.acted = true;
        match (self.belief.clone(), scene.dice.below(10)) {
            _ if self.unanswered.is_some() => self.exit_again(scene),
            (Some(belief), 0..=1) => self.renew(&belief, scene),
            (Some(belief), 2..=5) => self.exit(&belief, scene),
            (Some(belief), 6) => self.release(&belief, scene),
            (None, 0..=4) => self.claim(scene),
            (None, 5) => self.operate(scene),
            (_, 7) => self.begin_recording(scene),
            (_, 8) if scene.dice.one_in(4) => self.conclude(scene),
            _ => self.record(scene),
        }?;
        if let Some(process) = &self.process {
            process.fuse.put_out();
        }
        Ok(())
    }

    fn item(&mut self, id: Ulid, scene: &mut Scene<'_>) -> Option<WorkItem> {
        let process = self.process.as_mut()?;
        if let Some(item) = process.items.get(&id) {
            return Some(item.clone());
        }
        let item = scene.answered(process.workspace.work(id))?.ok()?;
        process.items.insert(id, item.clone());
        Some(item)
    }

    fn claim(&mut self, scene: &mut Scene<'_>) -> Result<(), String> {
        let Some(&id) = scene.dice.pick(&scene.board.items) else { return Ok(()) };
        let Some(item) = self.item(id, scene) else { return Ok(()) };
        let Ok(phase) = item.look(|state| state.phase) else { return Ok(()) };
        let ci = phase == WorkPhase::CiPending;
        let claimant = if ci { Claimant::Ci } else { Claimant::Agent };
        self.sessions += 1;
        let session = format!("{}.{}", self.name, self.sessions);
        let [least, most] = LEASE_MILLIS;
        let millis = i64::try_from(least + scene.dice.below(most - least)).unwrap();
        let holder = if ci { format!("ci-of-{}", self.name) } else { self.name.clone() };
        match scene.answered(item.claim(&holder, Some(&session), millis, claimant)) {
            Some(Ok(claimed)) => {
                let lease = claimed.lease;
                scene.account.claimed(id, &lease)?;
                scene.told.leases += 1;
                let Lease { epoch, phase, .. } = lease;
                self.belief = Some(Belief { item: id, epoch, session, phase, ci });
            }
            Some(Err(_)) => scene.told.refusals += 1,
            None => scene.account.unsure(id),
        }
        Ok(())
    }

    fn renew(&mut self, belief: &Belief, scene: &mut Scene<'_>) -> Result<(), String> {
        let Some(item) = self.item(belief.item, scene) else { return Ok(()) };
        let longer = i64::try_from(LEASE_MILLIS[1]).unwrap();
        match scene.answered(item.renew(
            belief.epoch,
            Bearer::Session(belief.session.clone()),
            longer,
        )) {
            Some(Ok(until)) => {
                scene.account.renewed(belief.item, belief.epoch, until.as_millis())?;
            }
            Some(Err(_)) => {
                scene.told.refusals += 1;
                // Most notice that they hold nothing; some go on as if they did.
                if scene.dice.one_in(2) {
                    self.belief = None;
                }
            }
            None => {}
        }
        Ok(())
    }

    fn release(&mut self, belief: &Belief, scene: &mut Scene<'_>) -> Result<(), String> {
        let Some(item) = self.item(belief.item, scene) else { return Ok(()) };
        self.belief = None;
        let by = Releaser::Bearer(Bearer::Session(belief.session.clone()));
        match scene.answered(item.release(belief.epoch, by, "done")) {
            Some(Ok(())) => scene.account.released(belief.item, belief.epoch),
            Some(Err(_)) => {
                scene.told.refusals += 1;
                Ok(())
            }
            None => {
                scene.account.unsure(belief.item);
                Ok(())
            }
        }
    }

    fn exit(&mut self, belief: &Belief, scene: &mut Scene<'_>) -> Result<(), String> {
        let Some(item) = self.item(belief.item, scene) else { return Ok(()) };
        let reason = match scene.dice.below(6) {
            0 => ExitReason::Blocked,
            1 => ExitReason::Error,
            _ => ExitReason::Completed,
        };
        let status = i32::from(reason != ExitReason::Completed);
        let verdict = CiVerdict {
            exit_status: Some(status),
            reason: None,
            commit: None,
            uncommitted_changes: false,
        };
        let mut exit = WorkExit {
            epoch: belief.epoch,
            by: Bearer::Session(belief.session.clone()),
            signal: ExitSignal::new(belief.phase, reason),
            channel: SignalChannel::Runner,
            stored: None,
            evidence: None,
            commit: None,
            ci: belief.ci.then_some(verdict),
            links: None,
        };
        if self.twin == Some(Twin::AnyEpoch) {
            // Whoever asks is taken for the holder.
            let Ok(held) = item.look(|state| state.lease.clone()) else { return Ok(()) };
            if let Some(lease) = held {
                exit.signal.phase_completed = lease.phase;
                (exit.epoch, exit.by) = (lease.epoch, Bearer::Session(lease.session_id));
            }
        }
        self.unanswered = Some((belief.item, exit));
        self.exit_again(scene)
    }

    /// Sends the exit that was not answered.
    fn exit_again(&mut self, scene: &mut Scene<'_>) -> Result<(), String> {
        let Some((id, exit)) = self.unanswered.clone() else { return Ok(()) };
        let Some(item) = self.item(id, scene) else { return Ok(()) };
        let Some(Ok(answer)) = scene.answered(item.exit(exit.clone())) else {
            scene.account.unsure(id);
            return Ok(());
        };
        let believed = self.belief.take().map(|belief| belief.epoch);
        // A retry may be of an exit from before its memory was lost.
        let epoch = believed.unwrap_or(exit.epoch);
        // Some answers are lost on their way, and the exit is sent again.
        if !scene.dice.one_in(6) {
            self.unanswered = None;
        }
        match answer {
            ExitAnswer::Moved { event, next_phase, repeated: false } => {
                scene.told.exits += 1;
                let signal = (exit.signal.phase_completed, exit.signal.exit_reason);
                let (Bearer::Session(bearer) | Bearer::Holder(bearer)) = &exit.by;
                scene.account.exited(id, (epoch, bearer), signal, (&event.event_id, next_phase))
            }
            ExitAnswer::Moved { event, .. } => {
                scene.told.repeated += 1;
                scene.account.repeated(id, &event.event_id);
                Ok(())
            }
            ExitAnswer::Refused { reason } => {
                scene.told.refusals += 1;
                scene.account.refused(id, epoch, &reason)
            }
        }
    }

    /// Does what a person does: sends blocked items back, and vouches for the clock.
    fn operate(&mut self, scene: &mut Scene<'_>) -> Result<(), String> {
        let Some(&id) = scene.dice.pick(&scene.board.items) else { return Ok(()) };
        let Some(item) = self.item(id, scene) else { return Ok(()) };
        let confirmed = scene.answered(item.confirm_clock("it is right"));
        if confirmed.is_some() && scene.answered(item.unblock("looked at")).is_none() {
            scene.account.unsure(id);
        }
        Ok(())
    }

    fn begin_recording(&mut self, scene: &mut Scene<'_>) -> Result<(), String> {
        let Some(process) = self.process.as_mut() else { return Ok(()) };
        let begun = process.workspace.begin_recording(Some(&self.name), None);
        if let Some(Ok(recording)) = scene.answered(begun) {
            let id = recording.id();
            scene.account.begun(id, EventType::SessionInitialized);
            scene.board.recordings.push(id);
            process.recordings.insert(id, recording);
        }
        Ok(())
    }

    fn recording(&mut self, scene: &mut Scene<'_>) -> Option<&Recording> {
        let id = *scene.dice.pick(&scene.board.recordings)?;
        let process = self.process.as_mut()?;
        if !process.recordings.contains_key(&id) {
            let recording = scene.answered(process.workspace.recording(id))?.ok()?;
            process.recordings.insert(id, recording);
        }
        process.recordings.get(&id)
    }

    fn record(&mut self, scene: &mut Scene<'_>) -> Result<(), String> {
        let purpose = format!("{} {}", self.name, scene.told.steps);
        let Some(recording) = self.recording(scene) else { return Ok(()) };
        let recorded = recording.submit(note(&purpose)).map_err(WorkspaceError::from);
        if let Some(Ok(recorded)) = scene.answered(recorded) {
            scene.told.notes += 1;
            scene.account.events_told(recording.id(), &recorded.events);
        }
        Ok(())
    }

    fn conclude(&mut self, scene: &mut Scene<'_>) -> Result<(), String> {
        let Some(recording) = self.recording(scene) else { return Ok(()) };
        let _ = scene.answered(recording.conclude("done"));
        Ok(())
    }
}
