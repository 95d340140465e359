//! Where commands are decided, and their events drawn up.
//!
//! Only the signature of an event needs the hash of the one before it. All else is done here, one
//! command after the other, and signed later in the same order. While somebody leads, the desk is
//! open: callers decide for themselves, on whatever core they run, and the leader only signs.

use std::collections::VecDeque;
use std::sync::Arc;

use countersign_format::event::{DrawnUp, Event, Place};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use countersign_protocol::chain::Chain;
use countersign_protocol::{Act, Context, State};

use super::seat::Address;
use super::sheaf::given_up;
use super::{COMMAND_BYTES_MAX, Job, Party, WriteError, Writer, lock, share};
use crate::replica::Replica;
use crate::store::LedgerId;

/// Ids for which random bits are drawn at once.
const STOCK_IDS: usize = 32;

/// The state after everything that is drawn up, and what the next event needs to know of the others.
#[derive(Debug, Clone)]
pub(super) struct Desk<S> {
    pub(super) state: S,
    events: u64,
    first_id: Option<Ulid>,
    last_id: Option<Ulid>,
    last_at: Timestamp,
    /// Hash of the last event, where the state reads hashes: what is drawn up is signed at once then.
    head: Hash,
}

/// The desk while somebody leads.
#[derive(Debug)]
pub(super) struct Slot<S> {
    /// Gone while it is used: should that panic, nobody goes on with what is left of it.
    desk: Option<Box<Desk<S>>>,
    /// Whether callers may use it.
    open: bool,
}

impl<S> Default for Slot<S> {
    fn default() -> Self {
        Self { desk: None, open: false }
    }
}

/// An event that is to be appended.
#[derive(Debug)]
pub(super) enum Entry {
    Unsigned { drawn_up: Box<DrawnUp>, party: Arc<Party> },
    Signed { event: Box<Event>, line: Vec<u8> },
}

/// What was decided for one command.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) to: Address,
    pub(super) entries: Result<Vec<Entry>, WriteError>,
    /// Whether the ledger ends with it.
    pub(super) ends: bool,
}

/// Commands that are decided and whose events are not signed yet. Should whoever has them panic,
/// their callers are told at least that.
#[derive(Debug, Default)]
pub(super) struct Drawn(pub(super) VecDeque<Decided>);

impl Drawn {
    pub(super) fn fail(mut self, error: &WriteError) {
        for decided in self.0.drain(..) {
            decided.to.tell(Err(share(error)));
        }
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        for decided in self.0.drain(..) {
            decided.to.tell(Err(given_up()));
        }
    }
}

/// A caller whose command is being decided by somebody else.
struct Owed<'a>(&'a Address);

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        self.0.tell(Err(given_up()));
    }
}

impl Entry {
    fn event(&self) -> &Event {
        match self {
            Self::Unsigned { drawn_up, .. } => drawn_up.event(),
            Self::Signed { event, .. } => event,
        }
    }

    fn line_bytes(&self) -> usize {
        match self {
            Self::Unsigned { drawn_up, .. } => drawn_up.line_bytes(),
            Self::Signed { line, .. } => line.len(),
        }
    }

    /// Signs it as the next event of the chain, and adds its line.
    pub(super) fn sign_behind(self, signed: &mut Replica<()>, lines: &mut Vec<u8>) -> Event {
        let event = match self {
            Self::Unsigned { drawn_up, party } => sign(*drawn_up, signed.chain.head, &party, lines),
            Self::Signed { event, line } => {
                lines.extend_from_slice(&line);
                *event
            }
        };
        signed.extend(&event);
        event
    }
}

fn sign(drawn_up: DrawnUp, prev: Hash, party: &Party, lines: &mut Vec<u8>) -> Event {
    drawn_up.sign_behind(prev, lines, |bytes| *party.secret.sign(bytes).as_bytes())
}

impl<S: State> Desk<S> {
    pub(super) fn new(state: S, chain: &Chain) -> Self {
        Self {
            state,
            events: chain.events,
            first_id: chain.first_id,
            last_id: chain.last_id,
            last_at: chain.last_at,
            head: chain.head,
        }
    }

    fn take_in(&mut self, event: &Event, event_id: Ulid) {
        self.events += 1;
        self.first_id.get_or_insert(event_id);
        self.last_id = Some(event_id);
        self.last_at = self.last_at.max(event.created_at);
        self.head = event.event_hash;
        self.state.apply(event);
    }
}

impl<S: State> Writer<S> {
    /// Sets up the desk for who leads; `open` lets others use it as well.
    pub(super) fn set_desk(&self, desk: Desk<S>, open: bool) {
        *lock(&self.desk) = Slot { desk: Some(Box::new(desk)), open };
    }

    /// From now on only who leads decides.
    pub(super) fn shut_desk(&self) {
        lock(&self.desk).open = false;
    }

    /// Takes the desk away if nothing that was decided at it waits. Without a state, somebody panicked
    /// at it.
    pub(super) fn clear_desk(&self) -> Option<Option<S>> {
        let mut slot = lock(&self.desk);
        if !lock(&self.queue).drawn.0.is_empty() {
            return None;
        }
        slot.open = false;
        Some(slot.desk.take().map(|desk| desk.state))
    }

    /// Takes the desk away, and what was decided at it and not signed.
    pub(super) fn void_desk(&self) -> Drawn {
        let mut slot = lock(&self.desk);
        *slot = Slot::default();
        std::mem::take(&mut lock(&self.queue).drawn)
    }

    /// Decides a command, if the desk is open, and leaves its events to who leads. Otherwise gives it
    /// back.
    pub(super) fn decide_at_desk(&self, job: Job<S>) -> Option<Job<S>> {
        let mut slot = lock(&self.desk);
        if !slot.open {
            return Some(job);
        }
        let decided = self.use_desk(&mut slot, job);
        let mut queue = lock(&self.queue);
        queue.drawn.0.push_back(decided);
        let wakes = queue.listens && queue.drawn.0.len() >= queue.worth_waking;
        queue.listens &= !wakes;
        drop(queue);
        drop(slot);
        if wakes {
            self.bell.notify_one();
        }
        None
    }

    /// Decides a command for somebody else, who is told should that panic.
    pub(super) fn decide_for(&self, job: Job<S>) {
        let mut slot = lock(&self.desk);
        let to = job.to.clone();
        let owed = Owed(&to);
        let decided = self.use_desk(&mut slot, job);
        std::mem::forget(owed);
        lock(&self.queue).drawn.0.push_back(decided);
    }

    fn use_desk(&self, slot: &mut Slot<S>, Job { command, to }: Job<S>) -> Decided {
        let Some(mut desk) = slot.desk.take() else {
            return Decided { to, entries: Err(given_up()), ends: true };
        };
        let entries = self.decide(&mut desk, command);
        let ends = desk.state.ended().is_some();
        slot.open &= !ends;
        slot.desk = Some(desk);
        Decided { to, entries, ends }
    }

    /// Decides one command and draws up its events; on refusal nothing has changed.
    fn decide(&self, desk: &mut Desk<S>, command: S::Command) -> Result<Vec<Entry>, WriteError> {
        let context = self.context(desk)?;
        let acts = desk.state.decide(command, &context)?;
        let before = (acts.len() > 1).then(|| desk.clone());
        let outcome = self.draw_up(desk, acts, &context);
        if let (Err(_), Some(before)) = (&outcome, before) {
            *desk = before;
        }
        outcome
    }

    /// Draws up the events of one command.
    pub(super) fn draw_up(
        &self,
        desk: &mut Desk<S>,
        acts: Vec<Act>,
        context: &Context,
    ) -> Result<Vec<Entry>, WriteError> {
        let raw_clock = (context.raw < context.now).then_some(context.raw);
        let mut entries = Vec::with_capacity(acts.len());
        let mut event_id = context.next_id;
        let mut bytes = 0;
        for act in acts {
            let party = self.host.party(act.by, &desk.state)?;
            let place = Place {
                trace_id: self.trace_id(desk.first_id.unwrap_or(event_id)),
                event_id,
                seq: desk.events,
                created_at: context.now,
                raw_clock,
                actor: &party.actor,
            };
            let drawn_up = Box::new(place.draw_up(act.draft)?);
            let entry = if S::READS_HASHES {
                let mut line = Vec::new();
                let event = sign(*drawn_up, desk.head, &party, &mut line);
                Entry::Signed { event: Box::new(event), line }
            } else {
                Entry::Unsigned { drawn_up, party }
            };
            bytes += entry.line_bytes();
            if bytes > COMMAND_BYTES_MAX {
                return Err(WriteError::TooLarge { bytes });
            }
            desk.state.admit(entry.event())?;
            desk.take_in(entry.event(), event_id);
            entries.push(entry);
            event_id = event_id.next();
        }
        Ok(entries)
    }

    pub(super) fn context(&self, desk: &Desk<S>) -> Result<Context, WriteError> {
        let floor = self.host.floor(&desk.state).max(desk.last_at);
        let raw = self.clock.now();
        let now = raw.max(floor);
        let drawn = Ulid::from_parts(now, u128::from_le_bytes(self.draw()?));
        let next_id = desk.last_id.map_or(drawn, |last| drawn.max(last.next()));
        Ok(Context { now, raw, next_id, next_seq: desk.events })
    }

    /// The log is named by the id of its first event.
    const fn trace_id(&self, first_id: Ulid) -> Ulid {
        match self.ledger {
            LedgerId::Trace(id) => id,
            LedgerId::Log => first_id,
        }
    }

    /// Random bits for one id, from a stock that is drawn at once.
    fn draw(&self) -> Result<[u8; 16], WriteError> {
        let mut stock = lock(&self.stock);
        if let Some(drawn) = stock.pop() {
            return Ok(drawn);
        }
        let mut bytes = [0; STOCK_IDS * 16];
        self.entropy.fill(&mut bytes).map_err(|error| WriteError::Entropy(Arc::new(error)))?;
        let (ids, _) = bytes.as_chunks::<16>();
        stock.extend_from_slice(ids);
        Ok(stock.pop().unwrap_or_default())
    }
}
