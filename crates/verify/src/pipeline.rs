//! All lines of a ledger in their order, looked at on all cores.
//!
//! One thread cuts and takes in, the others examine. Batches go to the workers in turns and come
//! back in the same turns, so that nothing needs to be sorted; what is under way is bounded.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::num::NonZero;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, RwLock};
use std::thread::{self, Scope};

use countersign_format::event::Event;
use countersign_format::key::PublicKey;

use crate::examine::{Examined, Ring, examine, examine_rest};
use crate::lines::{Lines, RawLine};

/// Lines of a batch, and the weight with which it is full all the same.
const BATCH_LINES: usize = 64;
const BATCH_WEIGHT: usize = 1 << 20;
/// Batches that each worker may have before or behind it, and what all of them may weigh.
const BATCHES_EACH: usize = 3;
const WEIGHT_EACH: usize = 3 << 20;
const WORKERS_MAX: usize = 64;

/// The keys that signatures are tried with; more may become known on the way.
#[derive(Debug, Default)]
pub(crate) struct SharedRing(RwLock<Arc<Ring>>);

impl SharedRing {
    pub(crate) fn new(ring: Ring) -> Self {
        Self(RwLock::new(Arc::new(ring)))
    }

    fn now(&self) -> Arc<Ring> {
        match self.0.read() {
            Ok(ring) => Arc::clone(&ring),
            Err(poisoned) => Arc::clone(&poisoned.into_inner()),
        }
    }

    pub(crate) fn learn(&self, key_id: &str, key: PublicKey) {
        let mut ring = match self.0.write() {
            Ok(ring) => ring,
            Err(poisoned) => poisoned.into_inner(),
        };
        Arc::make_mut(&mut ring).insert(key_id, key);
    }
}

/// Lines that are examined together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    lines: Vec<Cut>,
    weight: usize,
}

#[derive(Debug)]
enum Cut {
    Complete(Range<usize>),
    Rest(Range<usize>),
    TooLong,
    Endless,
}

impl Batch {
    /// The next lines; none if the ledger is at its end.
    fn next(
        lines: &mut Lines<Box<dyn BufRead + '_>>,
        admit: Admit<'_>,
        rest: Rest,
    ) -> io::Result<Option<Self>> {
        let mut batch = Self::default();
        while !batch.is_full() {
            let line = match rest {
                Rest::Taken => lines.next_line()?,
                Rest::Left => lines.next_whole()?,
            };
            let Some(line) = line else { break };
            let cut = match line {
                RawLine::Complete(bytes) => Cut::Complete(batch.take(bytes, admit)?),
                RawLine::Unterminated(bytes) => Cut::Rest(batch.take(bytes, admit)?),
                RawLine::TooLong => Cut::TooLong,
                RawLine::Endless => Cut::Endless,
            };
            batch.lines.push(cut);
        }
        Ok((!batch.lines.is_empty()).then_some(batch))
    }

    fn take(&mut self, bytes: &[u8], admit: Admit<'_>) -> io::Result<Range<usize>> {
        admit(bytes)?;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.weight += weight(bytes);
        Ok(start..self.bytes.len())
    }

    fn examine(&self, ring: &Ring) -> Vec<Examined> {
        self.lines.iter().map(|cut| self.examine_one(cut, ring)).collect()
    }

    fn examine_one(&self, cut: &Cut, ring: &Ring) -> Examined {
        let bytes = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        match cut {
            Cut::Complete(range) => examine(bytes(range), ring),
            Cut::Rest(range) => examine_rest(bytes(range), ring),
            Cut::TooLong => Examined::TooLong,
            Cut::Endless => Examined::Endless,
        }
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES || self.weight >= BATCH_WEIGHT
    }
}

/// What becomes of a line that has no end.
#[derive(Debug, Clone, Copy)]
enum Rest {
    Taken,
    /// It is read on later, when it may have one.
    Left,
}

/// Whether a line is looked at; an error ends everything.
pub(crate) type Admit<'a> = &'a dyn Fn(&[u8]) -> io::Result<()>;

/// At most how much memory a line may take once it was taken apart. An object has room for eleven
/// members from its first one on, so that a line of them can come to a hundred times its length.
fn weight(line: &[u8]) -> usize {
    const OBJECT: usize = 640;
    const LIST: usize = 128;
    const ELEMENT: usize = 32;
    let count = |byte| memchr::memchr_iter(byte, line).count();
    line.len() + count(b'{') * OBJECT + count(b'[') * LIST + count(b',') * ELEMENT
}

/// A ledger of which the beginning may have been looked at already.
pub(crate) struct Ledger<'a> {
    lines: Lines<Box<dyn BufRead + 'a>>,
    first: Option<Batch>,
    admit: Admit<'a>,
}

impl<'a> Ledger<'a> {
    /// Reads the first lines of a ledger.
    pub(crate) fn open(reader: Box<dyn BufRead + 'a>) -> io::Result<Self> {
        Self::open_admitting(reader, &|_| Ok(()))
    }

    /// As [`Self::open`], where not every line is looked at.
    pub(crate) fn open_admitting(
        reader: Box<dyn BufRead + 'a>,
        admit: Admit<'a>,
    ) -> io::Result<Self> {
        let mut lines = Lines::new(reader);
        // Somebody may be writing to it. What the log says of it is read after this, and before the
        // other lines, so that the log never knows more of it than is found here.
        let first = match Batch::next(&mut lines, admit, Rest::Left)? {
            None => Batch::next(&mut lines, admit, Rest::Taken)?,
            first => first,
        };
        Ok(Self { lines, first, admit })
    }

    /// The first event, if the first line is one.
    pub(crate) fn first_event(&self) -> Option<Event> {
        let batch = self.first.as_ref()?;
        match batch.examine_one(batch.lines.first()?, &Ring::default()) {
            Examined::Line(step) => step.event,
            _ => None,
        }
    }

    /// Hands every line to `take`, in order.
    pub(crate) fn each(
        mut self,
        ring: &SharedRing,
        take: &mut dyn FnMut(&mut Examined) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(first) = self.first.take() else { return Ok(()) };
        let workers = thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS_MAX);
        // What fits into one batch is done before a thread would have started.
        if workers == 1 || !first.is_full() {
            let mut next = Some(first);
            while let Some(batch) = next {
                for mut examined in batch.examine(&ring.now()) {
                    take(&mut examined)?;
                }
                next = Batch::next(&mut self.lines, self.admit, Rest::Taken)?;
            }
            return Ok(());
        }
        thread::scope(|scope| {
            let crew: Vec<Worker> = (0..workers).map(|_| Worker::start(scope, ring)).collect();
            conduct(&crew, first, (&mut self.lines, self.admit), take)
        })
    }
}

/// What a worker is given: a batch, and what was taken in of an earlier one. It made that, and it
/// is cheapest for it to take it down as well.
struct Job {
    batch: Batch,
    _spent: Vec<Examined>,
}

/// A thread that examines batches.
struct Worker {
    jobs: SyncSender<Job>,
    results: Receiver<Vec<Examined>>,
}

impl Worker {
    fn start<'scope>(scope: &'scope Scope<'scope, '_>, ring: &'scope SharedRing) -> Self {
        let (jobs, inbox) = sync_channel::<Job>(BATCHES_EACH);
        let (outbox, results) = sync_channel(BATCHES_EACH);
        scope.spawn(move || {
            for job in inbox {
                if outbox.send(job.batch.examine(&ring.now())).is_err() {
                    break;
                }
            }
        });
        Self { jobs, results }
    }
}

/// Keeps every worker busy and takes in what they bring, in order.
fn conduct(
    crew: &[Worker],
    first: Batch,
    (lines, admit): (&mut Lines<Box<dyn BufRead + '_>>, Admit<'_>),
    take: &mut dyn FnMut(&mut Examined) -> io::Result<()>,
) -> io::Result<()> {
    let gone = || io::Error::other("a thread that examines lines has ended");
    let mut next = Some(first);
    // Whose turn it is to bring something; the same order in which the batches went out.
    let mut under_way: VecDeque<(&Worker, usize)> = VecDeque::new();
    let mut weight = 0;
    let mut turns = crew.iter().cycle();
    let mut spent: Vec<Vec<Examined>> = Vec::new();
    loop {
        while under_way.len() < crew.len() * BATCHES_EACH
            && (weight < crew.len() * WEIGHT_EACH || under_way.is_empty())
            && let Some(batch) = next.take()
        {
            let worker = turns.next().ok_or_else(gone)?;
            weight += batch.weight;
            under_way.push_back((worker, batch.weight));
            let job = Job { batch, _spent: spent.pop().unwrap_or_default() };
            worker.jobs.send(job).map_err(|_| gone())?;
            next = Batch::next(lines, admit, Rest::Taken)?;
        }
        let Some((worker, lighter)) = under_way.pop_front() else { return Ok(()) };
        weight -= lighter;
        let mut batch = worker.results.recv().map_err(|_| gone())?;
        for examined in &mut batch {
            take(examined)?;
        }
        // What is heavy is not kept until somebody has time for it.
        if lighter > BATCH_WEIGHT {
            batch.clear();
        }
        spent.push(batch);
    }
}
