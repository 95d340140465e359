//! Taking whatever can be claimed to its next phase, until nothing is left.
//!
//! Woken by the store and by the end of the next lease; nothing is polled where the system tells of
//! changes. The index only says where to look: whether an item can be had is decided by its ledger.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use countersign_format::exit::WorkPhase;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use countersign_protocol::Refusal;
use countersign_protocol::work::WorkRefusal;

use super::{PhaseAgent, PhaseEnd, WorkSetting};
use crate::index::{Index, IndexError, WorkRow};
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::WriteError;

/// The longest wait. The store wakes up by itself when something comes.
const WAIT_LONGEST: Duration = Duration::from_secs(3_600);
/// An item that failed to run is not tried again before this, so that a broken disk is not beaten; each
/// time twice as long.
const RETRY_AFTER_MILLIS: i64 = 1_000;
/// How often that is doubled.
const RETRY_DOUBLED_MAX: u32 = 6;

/// Runs agents on work items.
#[derive(Debug)]
pub struct Dispatcher {
    workspace: Workspace,
    agents: BTreeMap<WorkPhase, PhaseAgent>,
    parallel: usize,
    follow: bool,
    setting: WorkSetting,
}

/// What a dispatcher did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dispatched {
    /// Phases that an agent finished, whatever it said.
    pub moved: u64,
    /// Phases that came to nothing.
    pub failed: u64,
    /// Items that were completed.
    pub completed: u64,
    /// Items that are blocked now by what was dispatched.
    pub blocked: u64,
    /// Items that could not be run, and why.
    pub errors: Vec<String>,
}

/// Errors that are remembered.
const ERRORS_MAX: usize = 100;

/// What a thread tells at the end of a phase.
struct Ran {
    id: Ulid,
    end: Result<PhaseEnd, WorkspaceError>,
    /// Whether it goes on with the next phase.
    goes_on: bool,
}

/// What is known of items beside the index.
#[derive(Debug, Default)]
struct Memory {
    running: BTreeSet<Ulid>,
    /// Items that are let be until then.
    avoided: BTreeMap<Ulid, Timestamp>,
    /// How often items could not be run, one time after the other.
    failures: BTreeMap<Ulid, u32>,
    /// Items that are let be altogether.
    given_up: BTreeSet<Ulid>,
}

/// What is to be done next, as far as the index knows.
#[derive(Debug, Default)]
struct Outlook {
    /// Items that can be claimed, those that wait longest first.
    ready: VecDeque<(Ulid, WorkPhase)>,
    /// When the next lease of an item that we could do runs out.
    next_expiry: Option<Timestamp>,
    /// How many of these others hold.
    held: usize,
}

impl Dispatcher {
    /// One that runs `agents`, at most `parallel` at a time; for ever if it is to `follow`.
    #[must_use]
    pub const fn new(
        workspace: Workspace,
        agents: BTreeMap<WorkPhase, PhaseAgent>,
        parallel: usize,
        follow: bool,
        setting: WorkSetting,
    ) -> Self {
        Self { workspace, agents, parallel, follow, setting }
    }

    /// Dispatches until nothing is left, or it is stopped.
    ///
    /// # Errors
    /// The workspace cannot be read. What runs is waited for.
    pub fn run(&self) -> Result<Dispatched, IndexError> {
        let mut index = self.workspace.index()?;
        let mut done = Dispatched::default();
        let (sender, ended) = mpsc::channel();
        thread::scope(|scope| -> Result<(), IndexError> {
            let mut memory = Memory::default();
            let mut outlook = Outlook::default();
            let mut told = None;
            loop {
                let seen = self.workspace.store().changes_seen();
                self.collect(&ended, &mut memory, &mut done);
                let stopped = self.setting.stop.is_set();
                let full = memory.running.len() >= self.parallel;
                if outlook.ready.is_empty() && !full && !stopped {
                    index.catch_up()?;
                    outlook = self.outlook(&mut index, &memory)?;
                }
                while memory.running.len() < self.parallel && !stopped {
                    let Some((id, phase)) = outlook.ready.pop_front() else { break };
                    if memory.running.insert(id) {
                        let sender = sender.clone();
                        scope.spawn(move || self.work_on(id, phase, &sender));
                    }
                }
                let idle = memory.running.is_empty();
                let nothing_left = outlook.ready.is_empty() && outlook.next_expiry.is_none();
                if idle && (stopped || !self.follow && nothing_left) {
                    return Ok(());
                }
                if let Some(until) = outlook.next_expiry.filter(|_| idle && outlook.held > 0)
                    && told.replace((outlook.held, until)) != Some((outlook.held, until))
                {
                    self.setting.observer.waiting(outlook.held, until);
                }
                self.wait(seen, outlook.next_expiry);
            }
        })?;
        Ok(done)
    }

    /// Claims an item and runs its agent; then the next one, as long as there is one. So a fresh agent
    /// begins as soon as the last one has left.
    fn work_on(&self, id: Ulid, mut phase: WorkPhase, sender: &Sender<Ran>) {
        loop {
            let end = match self.agents.get(&phase) {
                Some(agent) => {
                    self.workspace.work(id).and_then(|item| item.run(agent, &self.setting))
                }
                None => Ok(PhaseEnd::Stopped),
            };
            let next = match &end {
                Ok(PhaseEnd::Moved { to, .. })
                    if self.agents.contains_key(to) && !self.setting.stop.is_set() =>
                {
                    Some(*to)
                }
                _ => None,
            };
            // Whoever receives lives as long as this.
            let _ = sender.send(Ran { id, end, goes_on: next.is_some() });
            self.workspace.store().wake();
            match next {
                Some(next) => phase = next,
                None => return,
            }
        }
    }

    fn collect(&self, ended: &Receiver<Ran>, memory: &mut Memory, done: &mut Dispatched) {
        while let Ok(Ran { id, end, goes_on }) = ended.try_recv() {
            if !goes_on {
                memory.running.remove(&id);
            }
            if end.is_ok() {
                memory.failures.remove(&id);
            }
            match end {
                Ok(PhaseEnd::Moved { to, .. }) => {
                    done.moved += 1;
                    done.completed += u64::from(to == WorkPhase::Completed);
                    done.blocked += u64::from(to == WorkPhase::Blocked);
                }
                Ok(PhaseEnd::GivenUp { .. }) => {
                    done.failed += 1;
                    done.blocked += 1;
                }
                Ok(PhaseEnd::Freed { .. } | PhaseEnd::Lost { .. }) => done.failed += 1,
                Ok(PhaseEnd::Stopped) => {}
                // Somebody else was faster; the index tells when it is free again.
                Err(WorkspaceError::Write(WriteError::Refused(Refusal::Work(
                    WorkRefusal::Held { .. } | WorkRefusal::NotClaimable { .. },
                )))) => {
                    memory.avoided.insert(id, self.later(0));
                }
                Err(error) => {
                    if let Some(trouble) = note(done, id, &error) {
                        self.setting.observer.troubled(trouble);
                    }
                    if self.follow {
                        let failures = memory.failures.entry(id).or_default();
                        memory.avoided.insert(id, self.later(*failures));
                        *failures += 1;
                    } else {
                        memory.given_up.insert(id);
                    }
                }
            }
        }
    }

    fn later(&self, failures: u32) -> Timestamp {
        let doubled = failures.min(RETRY_DOUBLED_MAX);
        self.workspace.now().plus_millis(RETRY_AFTER_MILLIS << doubled)
    }

    fn outlook(&self, index: &mut Index, memory: &Memory) -> Result<Outlook, IndexError> {
        let now = self.workspace.now();
        let mut ready: Vec<WorkRow> = Vec::new();
        let mut next_expiry: Option<Timestamp> = None;
        let mut others = 0;
        for row in index.work_items()? {
            let ours = self.agents.contains_key(&row.phase);
            if !ours || memory.running.contains(&row.id) || memory.given_up.contains(&row.id) {
                continue;
            }
            let held = row.expires_at.filter(|&until| row.holder.is_some() && now < until);
            others += usize::from(held.is_some());
            let avoided = memory.avoided.get(&row.id).copied().filter(|&until| now < until);
            match held.max(avoided) {
                Some(until) => {
                    next_expiry = Some(next_expiry.map_or(until, |next| next.min(until)));
                }
                None => ready.push(row),
            }
        }
        ready.sort_unstable_by_key(|row| (row.phase_since, row.id));
        let ready = ready.into_iter().map(|row| (row.id, row.phase)).collect();
        Ok(Outlook { ready, next_expiry, held: others })
    }

    fn wait(&self, seen: u64, next_expiry: Option<Timestamp>) {
        let now = self.workspace.now();
        let left = next_expiry.map_or(WAIT_LONGEST, |next| {
            let millis = next.as_millis().saturating_sub(now.as_millis()).max(1);
            Duration::from_millis(u64::try_from(millis).unwrap_or(1))
        });
        self.workspace.store().wait_for_changes(seen, left.min(WAIT_LONGEST));
    }
}

/// Remembers why an item could not be run, and gives what was not known yet.
fn note<'d>(done: &'d mut Dispatched, id: Ulid, error: &dyn std::error::Error) -> Option<&'d str> {
    let mut told = format!("{id}: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !told.ends_with(&text) {
            told.push_str(&format!(": {text}"));
        }
        source = cause.source();
    }
    if done.errors.len() >= ERRORS_MAX || done.errors.contains(&told) {
        return None;
    }
    done.errors.push(told);
    done.errors.last().map(String::as_str)
}
