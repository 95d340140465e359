//! One tenure of a leader: from taking a ledger's lock to releasing it.
//!
//! The leader decides and signs. If more is waiting by then, one of the callers whose commands are
//! signed makes them durable, and the leader goes on with the others on top of what is pending. At
//! most one sheaf is on its way to the disk. If it does not arrive, nothing on top of it counts.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use countersign_format::trace_session::TraceStatus;
use countersign_protocol::State;

use super::{
    Answer, BATCH_BYTES, Commit, Job, News, Recorded, Seat, WriteError, Writer, lock, share,
};
use crate::replica::Replica;
use crate::store::{Batch, Head, LedgerId, Ledgers as _};

/// Sheaves of one tenure: other processes wait for the lock.
const SHEAVES_MAX: u32 = 8;
/// So few are not divided into those that are signed and those that are on their way to the disk.
const UNDIVIDED_MAX: usize = 8;

/// Lines that are signed, on their way to the disk.
#[derive(Debug)]
pub(super) struct Sheaf {
    batch: Box<dyn Batch>,
    lines: Vec<u8>,
    waiting: Waiting,
    /// Where the leader learns what became of it.
    landing: SyncSender<Landing>,
}

/// The ledger, and where its lines end now.
type Landing = Result<(Box<dyn Batch>, Head), WriteError>;

impl Sheaf {
    /// Makes the lines durable, and tells everybody who waits for that.
    pub(super) fn flush(self, ledger: LedgerId) {
        let Self { mut batch, lines, waiting, landing } = self;
        // The leader is told first: it can go on, the others only return. If it is gone, there is
        // nobody to go on.
        match batch.append(&lines) {
            Ok(head) => {
                let _ = landing.send(Ok((batch, head)));
                waiting.tell(None);
            }
            Err(error) => {
                let error = WriteError::Store { ledger, source: Arc::new(error) };
                drop(batch);
                let _ = landing.send(Err(share(&error)));
                waiting.fail(&error);
            }
        }
    }
}

/// Callers that do not know yet what became of their commands. Should whoever has them panic, they
/// are told at least that: they would otherwise wait for ever.
#[derive(Debug, Default)]
struct Waiting(Vec<Answer>);

impl Waiting {
    fn tell(mut self, log_lag: Option<&WriteError>) {
        for (seat, answer) in self.0.drain(..) {
            let answer = answer.map(|events| Recorded { events, log_lag: log_lag.map(share) });
            seat.tell(News::Answer(answer));
        }
    }

    /// Tells them that nothing was recorded; those that were refused, why.
    fn fail(mut self, error: &WriteError) {
        for (seat, answer) in self.0.drain(..) {
            seat.tell(News::Answer(answer.and_then(|_| Err(share(error)))));
        }
    }

    /// Whether anybody is told that there is nothing to record because it stands already.
    fn counts_on_what_stands(&self) -> bool {
        self.0.iter().any(|(_, answer)| answer.is_ok())
    }

    /// One that is not `leader`.
    fn other_than(&self, leader: &Arc<Seat>) -> Option<Arc<Seat>> {
        let seats = self.0.iter().map(|(seat, _)| seat);
        seats.into_iter().find(|seat| !Arc::ptr_eq(seat, leader)).map(Arc::clone)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for (seat, _) in self.0.drain(..) {
            seat.tell(News::Answer(Err(given_up())));
        }
    }
}

fn given_up() -> WriteError {
    let reason = "the writer panicked; what became of it is not known".to_owned();
    WriteError::GivenUp { reason }
}

/// A ledger whose lock is held, and what stood there when it was taken.
struct Opened {
    batch: Box<dyn Batch>,
    before: u64,
    ended_before: Option<TraceStatus>,
    /// Lines to begin with: what a dead writer left torn is recorded.
    lines: Vec<u8>,
}

/// Where the ledger is while the leader signs.
enum Place {
    Here(Box<dyn Batch>),
    /// With whoever makes the last sheaf durable, and how long its last line is.
    Away(Receiver<Landing>, usize),
}

impl<S: State> Writer<S> {
    /// Works off what waits, then hands the lead to somebody who came meanwhile.
    pub(super) fn lead(&self, leader: &Arc<Seat>) {
        let mut lead = Lead { writer: self, seats: Vec::new() };
        let mut core = lock(&self.core);
        let mut replica = core.take().unwrap_or_else(|| self.host.fresh());
        if self.tenure(&mut replica, leader, &mut lead).is_ok() {
            *core = Some(replica);
        }
        // Otherwise the pending state is void: nobody knows what is on disk until it is read again.
        drop(core);
    }

    fn tenure(
        &self,
        replica: &mut Replica<S>,
        leader: &Arc<Seat>,
        lead: &mut Lead<'_, S>,
    ) -> Result<(), WriteError> {
        let early = self.host.answers_early();
        let mut jobs = self.next_jobs(if early { Share::Half } else { Share::All }, lead);
        let opened = match self.open(replica) {
            Ok(opened) => opened,
            Err(error) => {
                unheard(jobs).fail(&error);
                return Err(error);
            }
        };
        let Opened { batch, before, ended_before, mut lines } = opened;
        let mut place = Place::Here(batch);
        for sheaf in 1.. {
            let waiting = self.sign(replica, jobs, &mut lines, lead);
            // If we die here, the lines of the last sheaf are there or not; nobody was told of any.
            let mut batch = match self.landed(place, replica) {
                Ok(batch) => batch,
                Err(error) => {
                    waiting.fail(&error);
                    return Err(error);
                }
            };
            let goes_on = early
                && before > 0
                && sheaf < SHEAVES_MAX
                && !lines.is_empty()
                && replica.state.ended().is_none()
                && !lock(&self.queue).waiting.is_empty();
            let Some(seat) = waiting.other_than(leader).filter(|_| goes_on) else {
                return self.finish(replica, &mut *batch, &lines, (before, ended_before), waiting);
            };
            if let Err(error) = self.host.refresh(&replica.state) {
                // What is signed was signed in time; only what would follow was not.
                let finished =
                    self.finish(replica, &mut *batch, &lines, (before, ended_before), waiting);
                return finished.and(Err(error));
            }
            let (landing, landed) = sync_channel(1);
            place = Place::Away(landed, last_line(&lines));
            let lines = std::mem::take(&mut lines);
            seat.tell(News::Flush(Box::new(Sheaf { batch, lines, waiting, landing })));
            jobs = self.next_jobs(Share::All, lead);
        }
        Ok(())
    }

    /// Takes the ledger's lock, and takes in what others appended.
    fn open(&self, replica: &mut Replica<S>) -> Result<Opened, WriteError> {
        let mut batch =
            self.store.begin_from(self.ledger, replica.head).map_err(|e| self.failed(e))?;
        self.catch_up(replica, &*batch)?;
        let (before, ended_before) = (replica.chain.events, replica.state.ended());
        self.host.refresh(&replica.state)?;
        let mut lines = Vec::new();
        if let Some(torn) = self.set_torn_tail_aside(replica, &mut *batch)? {
            let context = self.context(replica)?;
            let acts = vec![replica.state.recovered(&torn)];
            self.record(replica, acts, &context, &mut lines)?;
        }
        Ok(Opened { batch, before, ended_before, lines })
    }

    /// Takes what waits from the queue.
    fn next_jobs(&self, share: Share, lead: &mut Lead<'_, S>) -> Vec<Job<S>> {
        let mut queue = lock(&self.queue);
        let many = queue.waiting.len();
        let taken = match share {
            Share::Half if many > UNDIVIDED_MAX => many.div_ceil(2),
            Share::Half | Share::All => many,
        };
        let jobs: Vec<_> = queue.waiting.drain(..taken).collect();
        lead.seats.extend(jobs.iter().map(|job| Arc::clone(&job.seat)));
        jobs
    }

    /// Decides and signs; what does not fit goes back to the queue.
    fn sign(
        &self,
        replica: &mut Replica<S>,
        jobs: Vec<Job<S>>,
        lines: &mut Vec<u8>,
        lead: &mut Lead<'_, S>,
    ) -> Waiting {
        let mut jobs = jobs.into_iter();
        let mut waiting = Waiting::default();
        while lines.len() < BATCH_BYTES {
            let Some(job) = jobs.next() else { break };
            let answer = self.perform(replica, job.command, lines);
            waiting.0.push((job.seat, answer));
        }
        lock(&self.queue).waiting.splice(0..0, jobs);
        lead.seats.clear();
        waiting
    }

    /// The ledger, once the last sheaf has arrived.
    fn landed(&self, place: Place, replica: &mut Replica<S>) -> Result<Box<dyn Batch>, WriteError> {
        match place {
            Place::Here(batch) => Ok(batch),
            Place::Away(landing, last_line) => {
                let (batch, head) = landing.recv().unwrap_or_else(|_| Err(given_up()))?;
                replica.appended(last_line, head);
                Ok(batch)
            }
        }
    }

    /// Appends the last lines, tells the log, and then the callers.
    fn finish(
        &self,
        replica: &mut Replica<S>,
        batch: &mut dyn Batch,
        lines: &[u8],
        (before, ended_before): (u64, Option<TraceStatus>),
        waiting: Waiting,
    ) -> Result<(), WriteError> {
        let durable = if lines.is_empty() && waiting.counts_on_what_stands() {
            // What they are told may come from a writer that died before it could sync.
            batch.sync().map_err(|error| self.failed(error))
        } else {
            self.append(replica, batch, lines)
        };
        if let Err(error) = durable {
            waiting.fail(&error);
            return Err(error);
        }
        // If we die here, the log lacks what the trace has; the next writer tells it.
        let grown = replica.chain.events > before;
        let told = grown.then(|| self.host.committed(&Commit { before, ended_before, replica }));
        waiting.tell(told.and_then(Result::err).as_ref());
        Ok(())
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
        let mut core = lock(&self.core);
        let mut replica = core.take().unwrap_or_else(|| self.host.fresh());
        let Opened { mut batch, before, ended_before, lines } = self.open(&mut replica)?;
        let stood = (before, ended_before);
        self.finish(&mut replica, &mut *batch, &lines, stood, Waiting::default())?;
        *core = Some(replica);
        Ok(())
    }

    fn hand_over(&self) {
        let mut queue = lock(&self.queue);
        match queue.waiting.first() {
            Some(next) => next.seat.tell(News::Lead),
            None => queue.led = false,
        }
    }
}

/// How much of the queue a leader takes.
#[derive(Debug, Clone, Copy)]
enum Share {
    /// So that something is left to sign while that is on its way to the disk.
    Half,
    All,
}

/// Callers whose commands were not even decided.
fn unheard<S: State>(jobs: Vec<Job<S>>) -> Waiting {
    Waiting(jobs.into_iter().map(|job| (job.seat, Ok(Vec::new()))).collect())
}

fn last_line(lines: &[u8]) -> usize {
    lines.split_inclusive(|&byte| byte == b'\n').next_back().map_or(0, <[u8]>::len)
}

/// Whoever leads hands the lead on when it is done, and also when it panics: those who wait for it
/// would otherwise wait for ever.
struct Lead<'w, S: State> {
    writer: &'w Writer<S>,
    /// Whose commands were taken from the queue and are not signed yet.
    seats: Vec<Arc<Seat>>,
}

impl<S: State> Drop for Lead<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for seat in &self.seats {
                seat.tell_if_unheard(News::Answer(Err(given_up())));
            }
        }
        self.writer.hand_over();
    }
}
