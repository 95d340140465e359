//! One tenure of a leader: from taking a ledger's lock to releasing it.
//!
//! The leader signs, as long as anything waits. Meanwhile one of the callers whose commands are signed
//! makes them durable, and what is signed by the time that is done is the next to go. At most one
//! sheaf is on its way to the disk. If it does not arrive, nothing on top of it counts.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, PoisonError};

use countersign_format::trace_session::TraceStatus;
use countersign_protocol::State;

use super::desk::{Decided, Desk, Drawn, Entry};
use super::seat::{Duty, Engaged, Seat};
use super::sheaf::{Landed, Landing, Sheaf, Waiting, given_up};
use super::{BATCH_BYTES, Commit, Job, Lent, WriteError, Writer, lock, share};
use crate::replica::Replica;
use crate::store::{Batch, Ledgers as _};

/// Sheaves of one tenure: other processes wait for the lock.
const SHEAVES_MAX: u32 = 32;
/// Sheaves after which a leader whose own command is done lets somebody else lead.
const SHEAVES_LED: u32 = 4;
/// So few do not go to the disk by themselves while more waits: signing these takes less time than that.
const SHEAF_MIN: usize = 32;

/// What part of those who are answered soon sends its next before a leader is woken for them. Each time
/// that it wakes, it may take the core of whoever is at the disk.
const PART_WORTH_WAKING: usize = 8;

/// A ledger whose lock is held, and what stood there when it was taken.
struct Opened {
    batch: Box<dyn Batch>,
    /// How many events, and whether they have ended.
    stood: (u64, Option<TraceStatus>),
    /// Lines to begin with: what a dead writer left torn is recorded.
    lines: Vec<u8>,
}

/// Commands that were taken from the queue and are not decided yet.
struct Taken<S: State>(VecDeque<Job<S>>);

impl<S: State> Taken<S> {
    fn fail(mut self, error: &WriteError) {
        for job in self.0.drain(..) {
            job.to.tell(Err(share(error)));
        }
    }
}

impl<S: State> Drop for Taken<S> {
    fn drop(&mut self) {
        for job in self.0.drain(..) {
            job.to.tell(Err(given_up()));
        }
    }
}

/// What a leader has begun. Another one can go on with it.
pub(super) struct Tenure<S: State> {
    /// What is known of the ledger up to the last line that is signed; the state is at the desk.
    signed: Replica<()>,
    /// How many events there were before, and whether they had ended.
    stood: (u64, Option<TraceStatus>),
    /// Commands that the leader decides.
    jobs: Taken<S>,
    /// Commands that are decided, to be signed.
    drawn: Drawn,
    /// Whether the last line that is signed ends the ledger.
    ended: bool,
    /// What is signed and has not been sent to the disk, and who waits for it.
    lines: Vec<u8>,
    waiting: Waiting,
    /// The ledger, unless a sheaf is on its way.
    batch: Option<Box<dyn Batch>>,
    away: Option<Away>,
    /// Room that was used for lines before.
    room: Vec<u8>,
    /// How many sheaves may still be sent.
    sheaves_left: u32,
}

/// A sheaf on its way to the disk.
struct Away {
    landing: Receiver<Landing>,
    last_line: usize,
    commands: usize,
}

/// How a leader comes to the end of its work.
enum End<S> {
    /// Nothing is left but to append what is signed; this is the state then.
    Done(Box<dyn Batch>, S),
    /// This one is to go on.
    Passed(Engaged),
}

/// Who leads: the writer, its own seat, and how many sheaves it has sent.
struct Leader<'w, S: State> {
    writer: &'w Writer<S>,
    seat: &'w Arc<Seat>,
    led: u32,
}

impl<S: State> Tenure<S> {
    /// Signs what waits, and sends it to the disk while more waits. What is signed and was not sent
    /// stays to be appended.
    fn run(&mut self, leader: &mut Leader<'_, S>) -> Result<End<S>, WriteError> {
        loop {
            self.look()?;
            if let Some(next) = self.next_leader(leader) {
                return Ok(End::Passed(next));
            }
            let signed = match self.next_decided(leader.writer) {
                Some(decided) => {
                    self.sign(decided);
                    true
                }
                None => false,
            };
            let Some(batch) = self.batch.take() else {
                if !signed {
                    self.wait(leader.writer)?;
                }
                continue;
            };
            if let Some(courier) = self.courier(signed, leader) {
                let sheaf = self.pack(batch, leader.writer);
                courier.charge(Duty::Carry(Box::new(sheaf)));
                leader.led += 1;
            } else if signed {
                self.batch = Some(batch);
            } else if !self.has_room() && self.has_drawn(leader.writer) {
                // What is decided has to follow, and nobody else is there to make room for it.
                let sheaf = self.pack(batch, leader.writer);
                leader.writer.carry(sheaf);
            } else if let Some(state) = self.clear_desk(leader.writer) {
                let state = state.ok_or_else(given_up)?;
                return Ok(End::Done(batch, state));
            } else {
                self.batch = Some(batch);
            }
        }
    }

    /// Who is to go on in place of a leader who has led for a while, and whose own command is done:
    /// it would otherwise be the only one that waits for all the others.
    fn next_leader(&self, leader: &mut Leader<'_, S>) -> Option<Engaged> {
        if leader.led < SHEAVES_LED {
            return None;
        }
        let next = match (self.drawn.0.front(), self.jobs.0.front()) {
            (Some(decided), _) => &decided.to.seat,
            (None, Some(job)) => &job.to.seat,
            (None, None) => return None,
        };
        let next =
            leader.seat.has_answer().then(|| leader.writer.member().or_else(|| next.engage()))?;
        if next.is_none() {
            // It is busy, or its own seat: somebody else may be asked after some more.
            leader.led = 0;
        }
        next
    }

    /// Whether more may be decided in this tenure than was taken at its beginning, and be sent.
    const fn goes_on(&self) -> bool {
        self.sheaves_left > 0 && !self.ended
    }

    fn has_room(&self) -> bool {
        self.lines.len() < BATCH_BYTES
    }

    /// Whether anything is decided and not signed.
    fn has_drawn(&self, writer: &Writer<S>) -> bool {
        !self.drawn.0.is_empty() || !lock(&writer.queue).drawn.0.is_empty()
    }

    /// Takes the desk away if all that was decided at it has been signed.
    fn clear_desk(&self, writer: &Writer<S>) -> Option<Option<S>> {
        if self.drawn.0.is_empty() { writer.clear_desk() } else { None }
    }

    /// What to sign next.
    fn next_decided(&mut self, writer: &Writer<S>) -> Option<Decided> {
        if !self.has_room() {
            return None;
        }
        if self.drawn.0.is_empty() {
            // Those who cannot decide for themselves have waited longest; theirs comes behind what is
            // decided already.
            if let Some(job) = self.next_job(writer) {
                writer.decide_for(job);
            }
            std::mem::swap(&mut self.drawn, &mut lock(&writer.queue).drawn);
        }
        self.drawn.0.pop_front()
    }

    fn next_job(&mut self, writer: &Writer<S>) -> Option<Job<S>> {
        if self.jobs.0.is_empty() && self.goes_on() {
            self.jobs.0.extend(lock(&writer.queue).waiting.drain(..));
        }
        self.jobs.0.pop_front()
    }

    /// Signs what one command brings.
    fn sign(&mut self, decided: Decided) {
        let Decided { to, entries, ends } = decided;
        self.ended |= ends;
        let (signed, lines) = (&mut self.signed, &mut self.lines);
        let sign = |entries: Vec<Entry>| {
            entries.into_iter().map(|entry| entry.sign_behind(signed, lines)).collect()
        };
        self.waiting.0.push((to, entries.map(sign)));
    }

    /// Who takes what is signed to the disk, if that is to be done now: when there are enough of them
    /// and more to sign meanwhile. After a first sheaf more is always about to come.
    fn courier(&self, signed: bool, leader: &Leader<'_, S>) -> Option<Engaged> {
        let sent = self.sheaves_left < SHEAVES_MAX;
        let enough = !self.has_room() || self.waiting.0.len() >= SHEAF_MIN || (sent && !signed);
        if !enough || self.lines.is_empty() || !self.goes_on() {
            return None;
        }
        let more = sent
            || !self.jobs.0.is_empty()
            || !self.drawn.0.is_empty()
            || (signed && lock(&leader.writer.queue).has_work());
        if !more {
            return None;
        }
        leader.writer.member().or_else(|| self.waiting.engage_other_than(leader.seat))
    }

    /// What is signed, to be taken to the disk.
    fn pack(&mut self, batch: Box<dyn Batch>, writer: &Writer<S>) -> Sheaf {
        let (landing, landed) = sync_channel(1);
        let lines = std::mem::replace(&mut self.lines, std::mem::take(&mut self.room));
        let waiting = std::mem::take(&mut self.waiting);
        let commands = waiting.0.len();
        self.away = Some(Away { landing: landed, last_line: last_line(&lines), commands });
        self.sheaves_left = self.sheaves_left.saturating_sub(1);
        // Keys are not changed while the ledger's lock is held. Where the log cannot be asked, the
        // next leader says so to those who wait.
        if writer.host.refresh().is_err() {
            self.sheaves_left = 0;
        }
        if self.sheaves_left == 0 {
            writer.shut_desk();
        }
        let log_lag = lock(&writer.queue).log_lag.take();
        Sheaf { batch, lines, waiting, log_lag, landing }
    }

    /// Takes the ledger back if the sheaf has arrived.
    fn look(&mut self) -> Result<(), WriteError> {
        let Some(away) = &self.away else { return Ok(()) };
        let Some(landing) = away.landed() else { return Ok(()) };
        self.take_back(landing)
    }

    /// Waits until the sheaf has arrived, or there is something to sign.
    fn wait(&mut self, writer: &Writer<S>) -> Result<(), WriteError> {
        let (has_room, goes_on) = (self.has_room(), self.goes_on());
        let Some(away) = &self.away else { return Ok(()) };
        let worth_waking = (away.commands / PART_WORTH_WAKING).max(1);
        let mut queue = lock(&writer.queue);
        let landing = loop {
            let work =
                queue.drawn.0.len() >= worth_waking || (goes_on && !queue.waiting.is_empty());
            if has_room && work {
                return Ok(());
            }
            // Who has news rings after they can be seen, and cannot while the queue is locked.
            if let Some(landing) = away.landed() {
                break landing;
            }
            queue.listens = true;
            queue.worth_waking = worth_waking;
            queue = writer.bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        queue.listens = false;
        drop(queue);
        self.take_back(landing)
    }

    fn take_back(&mut self, landing: Landing) -> Result<(), WriteError> {
        let away = self.away.take();
        let Landed { batch, head, lines } = landing?;
        self.signed.appended(away.map_or(0, |away| away.last_line), head);
        self.batch = Some(batch);
        self.room = lines;
        self.room.clear();
        Ok(())
    }
}

impl Away {
    /// What became of it, if that is known.
    fn landed(&self) -> Option<Landing> {
        match self.landing.try_recv() {
            Ok(landing) => Some(landing),
            Err(TryRecvError::Disconnected) => Some(Err(given_up())),
            Err(TryRecvError::Empty) => None,
        }
    }
}

impl<S: State> Writer<S> {
    /// Works off what waits, then hands the lead to somebody who came meanwhile.
    pub(super) fn lead(&self, seat: &Arc<Seat>) {
        let begun = lock(&self.queue).tenure.take();
        let mut turn = Turn { writer: self, core: None, passed: false };
        let begun = match begun {
            Some(begun) => {
                // The leader before has not given it back.
                turn.core = Some(Lent { writer: self, replica: None });
                begun
            }
            None => {
                let core = turn.core.insert(self.borrow());
                // Taken first: should what follows panic, these are answered, our own among them.
                let jobs = Taken(lock(&self.queue).waiting.drain(..).collect());
                match self.begin(core.take(), jobs) {
                    Ok(begun) => Box::new(begun),
                    // What was known is void: nobody knows what is on disk until it is read again.
                    Err(_) => return,
                }
            }
        };
        self.go_on(begun, Leader { writer: self, seat, led: 0 }, &mut turn);
    }

    /// Takes the ledger's lock.
    fn begin(&self, mut replica: Replica<S>, jobs: Taken<S>) -> Result<Tenure<S>, WriteError> {
        let Opened { batch, stood, lines } = match self.open(&mut replica) {
            Ok(opened) => opened,
            Err(error) => {
                jobs.fail(&error);
                return Err(error);
            }
        };
        let divides = stood.0 > 0 && self.host.answers_early();
        let ended = stood.1.is_some();
        let (state, signed) = replica.with(());
        self.set_desk(Desk::new(state, &signed.chain), divides && !ended && !S::READS_HASHES);
        Ok(Tenure {
            signed,
            stood,
            jobs,
            drawn: Drawn::default(),
            ended,
            lines,
            waiting: Waiting::default(),
            batch: Some(batch),
            away: None,
            room: Vec::new(),
            sheaves_left: if divides { SHEAVES_MAX } else { 0 },
        })
    }

    fn go_on(&self, mut tenure: Box<Tenure<S>>, mut leader: Leader<'_, S>, turn: &mut Turn<'_, S>) {
        let end = match tenure.run(&mut leader) {
            Ok(End::Passed(next)) => {
                lock(&self.queue).tenure = Some(tenure);
                // From here on it is the other one's.
                turn.pass_on();
                next.charge(Duty::Lead);
                return;
            }
            Ok(End::Done(batch, state)) => Ok((batch, state)),
            Err(error) => Err(error),
        };
        let Tenure { signed, stood, mut jobs, drawn, lines, waiting, .. } = *tenure;
        let known = match end {
            Ok((mut batch, state)) => {
                let ((), replica) = signed.with(state);
                self.finish(replica, &mut *batch, &lines, stood, waiting)
            }
            Err(error) => {
                let undone = self.void_desk();
                waiting.fail(&error);
                drawn.fail(&error);
                undone.fail(&error);
                Err(error)
            }
        };
        // What did not fit comes first next time.
        lock(&self.queue).waiting.splice(0..0, jobs.0.drain(..));
        // Otherwise the pending state is void: nobody knows what is on disk until it is read again.
        if let (Ok(replica), Some(core)) = (known, &mut turn.core) {
            core.replica = Some(replica);
        }
    }

    /// Makes durable what others wait for as well. Whatever happens, the leader hears of it.
    pub(super) fn carry(&self, sheaf: Sheaf) {
        struct Ring<'w, S: State>(&'w Writer<S>);
        impl<S: State> Drop for Ring<'_, S> {
            fn drop(&mut self) {
                self.0.ring();
            }
        }
        let _ring = Ring(self);
        sheaf.flush(self.ledger, || self.ring());
    }

    /// Wakes a leader that listens.
    fn ring(&self) {
        let mut queue = lock(&self.queue);
        if std::mem::take(&mut queue.listens) {
            drop(queue);
            self.bell.notify_one();
        }
    }

    /// Takes the ledger's lock, and takes in what others appended.
    fn open(&self, replica: &mut Replica<S>) -> Result<Opened, WriteError> {
        let mut batch =
            self.store.begin_from(self.ledger, replica.head).map_err(|e| self.failed(e))?;
        self.catch_up(replica, &*batch)?;
        let stood = (replica.chain.events, replica.state.ended());
        self.host.refresh()?;
        self.check_end(replica, self.host.least(replica.chain.events)?)?;
        let mut lines = Vec::new();
        if let Some(torn) = self.set_torn_tail_aside(replica, &mut *batch)? {
            let (state, mut signed) = std::mem::take(replica).with(());
            let mut desk = Desk::new(state, &signed.chain);
            let context = self.context(&desk)?;
            let acts = vec![desk.state.recovered(&torn)];
            for entry in self.draw_up(&mut desk, acts, &context)? {
                entry.sign_behind(&mut signed, &mut lines);
            }
            *replica = signed.with(desk.state).1;
        }
        Ok(Opened { batch, stood, lines })
    }

    /// Appends the last lines, tells the log, and then the callers.
    fn finish(
        &self,
        mut replica: Replica<S>,
        batch: &mut dyn Batch,
        lines: &[u8],
        (before, ended_before): (u64, Option<TraceStatus>),
        waiting: Waiting,
    ) -> Result<Replica<S>, WriteError> {
        let durable = if lines.is_empty() && !waiting.0.is_empty() {
            // What they are told may come from a writer that died before it could sync.
            batch.sync().map_err(|error| self.failed(error))
        } else {
            self.append(&mut replica, batch, lines)
        };
        if let Err(error) = durable {
            waiting.fail(&error);
            return Err(error);
        }
        // If we die here, the log lacks what the trace has; the next writer tells it.
        let grown = replica.chain.events > before;
        let told =
            grown.then(|| self.host.committed(&Commit { before, ended_before, replica: &replica }));
        let log_lag = told.and_then(Result::err).or_else(|| lock(&self.queue).log_lag.take());
        if waiting.0.is_empty() {
            lock(&self.queue).log_lag = log_lag;
        } else {
            waiting.tell(log_lag.as_ref());
        }
        Ok(replica)
    }

    fn append(
        &self,
        replica: &mut Replica<S>,
        batch: &mut dyn Batch,
        lines: &[u8],
    ) -> Result<(), WriteError> {
        if lines.is_empty() {
            return Ok(());
        }
        // If we die before the sync, the lines are there or not; nobody was told of them.
        let head = batch.append(lines).map_err(|error| self.failed(error))?;
        replica.appended(last_line(lines), head);
        Ok(())
    }

    /// Sets aside what a dead writer left torn, if it left anything, and records that.
    pub(crate) fn settle(&self) -> Result<(), WriteError> {
        let mut core = self.borrow();
        let mut replica = core.take();
        let Opened { mut batch, stood, lines } = self.open(&mut replica)?;
        let replica = self.finish(replica, &mut *batch, &lines, stood, Waiting::default())?;
        core.replica = Some(replica);
        Ok(())
    }

    fn hand_over(&self) {
        let mut queue = lock(&self.queue);
        if queue.waiting.is_empty() {
            queue.led = false;
            return;
        }
        let next =
            self.member().or_else(|| queue.waiting.iter().find_map(|job| job.to.seat.engage()));
        match next {
            Some(next) => next.charge(Duty::Lead),
            // Whoever comes back for an answer finds the lead free.
            None => queue.led = false,
        }
    }
}

fn last_line(lines: &[u8]) -> usize {
    lines.split_inclusive(|&byte| byte == b'\n').next_back().map_or(0, <[u8]>::len)
}

/// Whoever leads hands the lead on when it is done, and also when it panics: those who wait for it
/// would otherwise wait for ever.
struct Turn<'w, S: State> {
    writer: &'w Writer<S>,
    core: Option<Lent<'w, S>>,
    passed: bool,
}

impl<S: State> Turn<'_, S> {
    /// Leaves lead and ledger to another.
    fn pass_on(&mut self) {
        self.passed = true;
        std::mem::forget(self.core.take());
    }
}

impl<S: State> Drop for Turn<'_, S> {
    fn drop(&mut self) {
        if self.passed {
            return;
        }
        // Nothing is left there, unless this panicked.
        drop(self.writer.void_desk());
        drop(self.core.take());
        self.writer.hand_over();
    }
}
