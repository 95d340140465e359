//! Writing to one ledger: many callers, one sync.
//!
//! Callers queue; one of them leads. The leader takes the ledger's lock, takes in what others
//! appended, and signs for everybody. Its own command, and those that came before it had the lock, it
//! decides as well; who comes later does that for itself, and leaves the events to be signed. Then
//! the lines are appended with one sync, and each caller is told what became of its command. Nobody
//! is told anything before the sync.

mod crew;
mod desk;
mod envoy;
mod look;
mod seat;
mod sheaf;
mod tenure;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use countersign_format::event::{Actor, Event, SealError};
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::{By, Refusal, SetAside, State};

use crate::clock::{Clock, Entropy};
use crate::keyring::{KeyringError, SigningKey};
use crate::replica::{Damage, Replica};
use crate::store::{BATCH_BYTES_MAX, Batch, FileStore, LedgerId, StoreError};
use desk::{Drawn, Slot};
use seat::{Address, Answer, Duty, News, Seat};
use tenure::Tenure;

pub use envoy::ENVOY_COMMANDS_MAX;
pub(crate) use envoy::Envoy;
pub use seat::Ticket;

/// Lines are appended once they have this many bytes; what still waits comes with the next batch.
const BATCH_BYTES: usize = BATCH_BYTES_MAX / 4;
/// What one command may add, so that it always fits behind others: more than the longest line.
const COMMAND_BYTES_MAX: usize = BATCH_BYTES_MAX - BATCH_BYTES;
/// How much is read at a time when catching up.
const READ_BYTES: usize = 1 << 20;

/// Why a command was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The rules do not allow it.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The store failed. Nothing was acknowledged.
    #[error("could not append to {ledger}")]
    Store {
        /// Which ledger.
        ledger: LedgerId,
        /// Why; shared by everybody whose command was in the batch.
        #[source]
        source: Arc<StoreError>,
    },
    /// What is in the ledger is not what a recorder writes.
    #[error("nothing can be appended to a damaged ledger")]
    Damaged(#[source] Arc<Damage>),
    /// A key is missing or cannot be used.
    #[error("could not sign for `{who}`")]
    Key {
        /// Whose key.
        who: String,
        /// Why.
        #[source]
        source: Arc<KeyringError>,
    },
    /// No key of this role is active.
    #[error("the workspace has no active key for `{who}`")]
    NoKey {
        /// Whose key.
        who: String,
    },
    /// The event cannot be written.
    #[error("could not record the event")]
    Unwritable(#[from] SealError),
    /// The events of one command are too many bytes.
    #[error("the events of one command have {bytes} bytes, the limit is {COMMAND_BYTES_MAX}")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// The system gave no random bytes.
    #[error("could not draw an id")]
    Entropy(#[source] Arc<std::io::Error>),
    /// An envoy has sent as much as it may.
    #[error("{ENVOY_COMMANDS_MAX} commands wait for their answers, which is the limit")]
    TooMany,
    /// Another caller's batch failed in a way that concerns this one as well.
    #[error("the batch was given up: {reason}")]
    GivenUp {
        /// What happened.
        reason: String,
    },
}

/// Who signs, and with what.
#[derive(Debug)]
pub(crate) struct Party {
    pub(crate) actor: Actor,
    pub(crate) secret: SigningKey,
}

/// What a ledger's writer needs from its workspace.
pub(crate) trait Host<S: State>: Send + Sync + fmt::Debug {
    /// Called once a batch, under the ledger's lock: keys that were revoked meanwhile must not sign.
    fn refresh(&self) -> Result<(), WriteError>;

    /// The time before which nothing is dated.
    fn floor(&self, state: &S) -> Timestamp;

    /// Who signs for `by`.
    fn party(&self, by: By, state: &S) -> Result<Arc<Party>, WriteError>;

    /// What is known of the ledger without reading all of it: a snapshot, or nothing.
    fn fresh(&self) -> Replica<S>;

    /// How many events were durable once, as far as somebody else was told: whatever they look like
    /// now, they are not what a dead writer left.
    fn acknowledged(&self) -> Result<u64, WriteError>;

    /// The same, where that is known without reading for long; asked under the ledger's lock after
    /// [`Self::refresh`], where it has `events` events.
    fn least(&self, events: u64) -> Result<u64, WriteError>;

    /// The same, asked before the ledger is read without its lock.
    fn least_before(&self) -> Result<u64, WriteError>;

    /// Whether callers may be told that their events are durable before [`Self::committed`] was
    /// called for these.
    fn answers_early(&self) -> bool;

    /// Called after a batch is durable, still under the ledger's lock: of two who tell the log of
    /// one trace, the second must see what the first has told.
    fn committed(&self, commit: &Commit<'_, S>) -> Result<(), WriteError>;
}

/// What a batch changed.
#[derive(Debug)]
pub(crate) struct Commit<'a, S> {
    pub(crate) before: u64,
    pub(crate) ended_before: Option<TraceStatus>,
    pub(crate) replica: &'a Replica<S>,
}

/// What was recorded for one command.
#[derive(Debug)]
pub struct Recorded {
    /// The events, durable.
    pub events: Vec<Event>,
    /// Set where the workspace log could not be told of it; the next writer tells it.
    pub log_lag: Option<WriteError>,
}

/// A writer of one ledger, to be shared by threads.
#[derive(Debug)]
pub(crate) struct Writer<S: State> {
    ledger: LedgerId,
    store: FileStore,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    host: Arc<dyn Host<S>>,
    core: Mutex<Core<S>>,
    /// Told when what is known of the ledger is back.
    returned: Condvar,
    /// Where commands are decided. Whoever locks both locks this before the queue.
    desk: Mutex<Slot<S>>,
    queue: Mutex<Queue<S>>,
    /// Threads that have no callers of their own. Whoever locks both locks the queue before this.
    crew: Mutex<Vec<Arc<Seat>>>,
    /// Rung for a leader that listens.
    bell: Condvar,
    stock: Mutex<Vec<[u8; 16]>>,
}

struct Queue<S: State> {
    /// Commands that nobody has decided.
    waiting: Vec<Job<S>>,
    /// Commands that are decided and not signed, in the order in which they were.
    drawn: Drawn,
    led: bool,
    /// Whether the leader sleeps until something waits, or until a sheaf has arrived.
    listens: bool,
    /// So many decided commands wake it; fewer are found when the sheaf has arrived.
    worth_waking: usize,
    /// What the leader before has begun, for whoever was told to lead.
    tenure: Option<Box<Tenure<S>>>,
    /// Why the log could not be told, where nobody was left to hear of it.
    log_lag: Option<WriteError>,
}

/// What is known of the ledger, which one thread at a time has.
#[derive(Debug)]
struct Core<S> {
    replica: Option<Replica<S>>,
    lent: bool,
    /// How many wait for it: telling nobody costs a system call too.
    awaited: u32,
}

/// What is known of the ledger, in the hands of one thread; back when this is dropped.
struct Lent<'w, S: State> {
    writer: &'w Writer<S>,
    replica: Option<Replica<S>>,
}

impl<S: State> Lent<'_, S> {
    fn take(&mut self) -> Replica<S> {
        self.replica.take().unwrap_or_else(|| self.writer.host.fresh())
    }
}

impl<S: State> Drop for Lent<'_, S> {
    fn drop(&mut self) {
        let mut core = lock(&self.writer.core);
        core.replica = self.replica.take();
        core.lent = false;
        let awaited = core.awaited > 0;
        drop(core);
        if awaited {
            self.writer.returned.notify_one();
        }
    }
}

impl<S: State> fmt::Debug for Queue<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({} waiting)", self.waiting.len())
    }
}

impl<S: State> Queue<S> {
    /// Whether anything waits to be decided or signed.
    fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.drawn.0.is_empty()
    }
}

struct Job<S: State> {
    command: S::Command,
    to: Address,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: State> Writer<S> {
    pub(crate) fn new(
        ledger: LedgerId,
        store: FileStore,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        host: Arc<dyn Host<S>>,
    ) -> Self {
        let queue = Mutex::new(Queue {
            waiting: Vec::new(),
            drawn: Drawn::default(),
            led: false,
            listens: false,
            worth_waking: 1,
            tenure: None,
            log_lag: None,
        });
        Self {
            ledger,
            store,
            clock,
            entropy,
            host,
            core: Mutex::new(Core { replica: None, lent: false, awaited: 0 }),
            returned: Condvar::new(),
            desk: Mutex::default(),
            queue,
            crew: Mutex::default(),
            bell: Condvar::new(),
            stock: Mutex::default(),
        }
    }

    /// Records what `command` brings. When it returns, the events survive power loss.
    pub(crate) fn submit(&self, command: S::Command) -> Result<Recorded, WriteError> {
        let seat = Arc::new(Seat::default());
        self.send(command, Address { seat: Arc::clone(&seat), ticket: Ticket::ONLY });
        // Nobody dismisses a caller.
        self.hear(&seat).map_or_else(|| Err(sheaf::given_up()), |(_, answer)| answer)
    }

    /// Decides a command, if that can be done now, or leaves it to whoever leads next.
    fn send(&self, command: S::Command, to: Address) {
        let Some(job) = self.decide_at_desk(Job { command, to }) else { return };
        let mut queue = lock(&self.queue);
        queue.waiting.push(job);
        let wakes = std::mem::take(&mut queue.listens);
        drop(queue);
        if wakes {
            self.bell.notify_one();
        }
    }

    /// The next answer for `seat`, whose thread works for everybody until it comes, or until it is
    /// dismissed.
    fn hear(&self, seat: &Arc<Seat>) -> Option<(Ticket, Answer)> {
        loop {
            // In this order: whoever gives up the lead has seen us here, or we see that it is free.
            seat.attend();
            if self.takes_lead(seat) {
                self.lead(seat);
                // What we wait for may be left for the next who leads.
                continue;
            }
            match seat.wait() {
                News::Answer(ticket, answer) => return Some((ticket, answer)),
                News::Duty(Duty::Lead) => self.lead(seat),
                News::Duty(Duty::Carry(sheaf)) => self.carry(*sheaf),
                News::Dismissed => return None,
            }
        }
    }

    /// Whether something waits that nobody leads, and this one has nothing else to do or to hear. From
    /// then on it does, unless one of the crew can.
    fn takes_lead(&self, seat: &Seat) -> bool {
        let mut queue = lock(&self.queue);
        if queue.led || queue.waiting.is_empty() {
            return false;
        }
        if let Some(member) = self.member() {
            queue.led = true;
            drop(queue);
            member.charge(Duty::Lead);
            return false;
        }
        queue.led = seat.leaves();
        queue.led
    }

    /// What is known of the ledger, once nobody else has it.
    fn borrow(&self) -> Lent<'_, S> {
        let mut core = lock(&self.core);
        while core.lent {
            core.awaited += 1;
            core = self.returned.wait(core).unwrap_or_else(PoisonError::into_inner);
            core.awaited -= 1;
        }
        core.lent = true;
        Lent { writer: self, replica: core.replica.take() }
    }

    fn failed(&self, error: StoreError) -> WriteError {
        WriteError::Store { ledger: self.ledger, source: Arc::new(error) }
    }

    fn catch_up(&self, replica: &mut Replica<S>, batch: &dyn Batch) -> Result<(), WriteError> {
        if !replica.stands_in(batch).map_err(|error| self.failed(error))? {
            // Lines that were never acknowledged were taken back; what we knew is void.
            *replica = Replica::default();
        }
        while replica.head < batch.head() {
            let lines = batch.read(replica.head, READ_BYTES).map_err(|error| self.failed(error))?;
            if let Err(damage) = replica.take_lines(self.ledger, &lines) {
                return Err(WriteError::Damaged(Arc::new(damage)));
            }
        }
        if batch.torn_tail().is_some() {
            self.check_tail(replica.chain.events)?;
        }
        Ok(())
    }

    /// Makes sure that nothing behind the first `events` events was acknowledged.
    fn check_tail(&self, events: u64) -> Result<(), WriteError> {
        let known = self.host.acknowledged()?;
        if known <= events {
            return Ok(());
        }
        let what = format!("its line cannot be read, and {known} events were acknowledged");
        let damage = Damage { ledger: self.ledger, index: events, what };
        Err(WriteError::Damaged(Arc::new(damage)))
    }

    /// Makes sure that nothing was cut off behind what is known: what others were told would be denied.
    fn check_end(&self, replica: &Replica<S>, least: u64) -> Result<(), WriteError> {
        let events = replica.chain.events;
        if events >= least {
            return Ok(());
        }
        let what = format!("the ledger ends before it, and {least} events were acknowledged");
        let damage = Damage { ledger: self.ledger, index: events, what };
        Err(WriteError::Damaged(Arc::new(damage)))
    }

    fn set_torn_tail_aside(
        &self,
        replica: &Replica<S>,
        batch: &mut dyn Batch,
    ) -> Result<Option<SetAside>, WriteError> {
        if batch.torn_tail().is_none() {
            return Ok(None);
        }
        let keep = replica.head;
        let repaired = batch.repair_tail(keep).map_err(|error| self.failed(error))?;
        // If we die here, the torn bytes are set aside and the event that says so is missing; the
        // copy beside the ledger still tells.
        Ok(repaired.filter(|_| replica.chain.events > 0).map(|repaired| SetAside {
            bytes: repaired.tail.bytes,
            hash: repaired.hash,
            file: repaired.copy,
        }))
    }
}

/// The same failure, for another caller of the batch.
fn share(error: &WriteError) -> WriteError {
    match error {
        WriteError::Store { ledger, source } => {
            WriteError::Store { ledger: *ledger, source: Arc::clone(source) }
        }
        WriteError::Damaged(damage) => WriteError::Damaged(Arc::clone(damage)),
        WriteError::Refused(refusal) => WriteError::Refused(refusal.clone()),
        WriteError::Key { who, source } => {
            WriteError::Key { who: who.clone(), source: Arc::clone(source) }
        }
        WriteError::NoKey { who } => WriteError::NoKey { who: who.clone() },
        WriteError::Entropy(source) => WriteError::Entropy(Arc::clone(source)),
        other => WriteError::GivenUp { reason: other.to_string() },
    }
}
