//! Many small documents, each looked at by itself, on all cores and back in their order.

use std::collections::VecDeque;
use std::io;
use std::num::NonZero;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Bytes and documents after which a batch is full: what comes of a document may be larger than it.
const BATCH_BYTES: usize = 128 << 10;
const BATCH_DOCUMENTS: usize = 1_024;
/// Batches that each worker may have before or behind it.
const BATCHES_EACH: usize = 3;
const WORKERS_MAX: usize = 16;

/// Documents that are looked at together.
#[derive(Debug, Default)]
struct Batch {
    first: u64,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Looks at one document, given its place.
pub(crate) type Look<R> = fn(u64, &[u8]) -> R;

/// Threads that look at documents.
#[derive(Debug)]
pub(crate) struct Crew<R> {
    workers: Vec<Worker<R>>,
    look: Look<R>,
    batch: Batch,
    count: u64,
    under_way: VecDeque<usize>,
    turn: usize,
}

#[derive(Debug)]
struct Worker<R> {
    jobs: SyncSender<Batch>,
    results: Receiver<Vec<R>>,
}

impl<R: Send + 'static> Crew<R> {
    /// A crew that starts threads only when there is more to do than one batch.
    pub(crate) fn new(look: Look<R>) -> Self {
        let (batch, under_way) = (Batch::default(), VecDeque::new());
        Self { workers: Vec::new(), look, batch, count: 0, under_way, turn: 0 }
    }

    /// Hands in a document, and takes what is ready.
    pub(crate) fn put(&mut self, document: &[u8], take: &mut dyn FnMut(R)) -> io::Result<()> {
        self.batch.bytes.extend_from_slice(document);
        self.batch.ends.push(self.batch.bytes.len());
        self.count += 1;
        if self.batch.bytes.len() < BATCH_BYTES && self.batch.ends.len() < BATCH_DOCUMENTS {
            return Ok(());
        }
        if self.workers.is_empty() {
            let count = thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS_MAX);
            self.workers = (0..count).map(|_| Worker::start(self.look)).collect();
        }
        if self.under_way.len() >= self.workers.len() * BATCHES_EACH {
            self.collect(take)?;
        }
        let next = Batch { first: self.count, ..Batch::default() };
        let batch = std::mem::replace(&mut self.batch, next);
        let worker = self.workers.get(self.turn).ok_or_else(gone)?;
        worker.jobs.send(batch).map_err(|_| gone())?;
        self.under_way.push_back(self.turn);
        self.turn = (self.turn + 1) % self.workers.len().max(1);
        Ok(())
    }

    /// Takes everything that is still under way, and gives the number of documents.
    pub(crate) fn finish(mut self, take: &mut dyn FnMut(R)) -> io::Result<u64> {
        while !self.under_way.is_empty() {
            self.collect(take)?;
        }
        self.batch.look(self.look).into_iter().for_each(take);
        Ok(self.count)
    }

    fn collect(&mut self, take: &mut dyn FnMut(R)) -> io::Result<()> {
        let Some(turn) = self.under_way.pop_front() else { return Ok(()) };
        let worker = self.workers.get(turn).ok_or_else(gone)?;
        worker.results.recv().map_err(|_| gone())?.into_iter().for_each(take);
        Ok(())
    }
}

impl<R: Send + 'static> Worker<R> {
    fn start(look: Look<R>) -> Self {
        let (jobs, inbox) = sync_channel::<Batch>(BATCHES_EACH);
        let (outbox, results) = sync_channel(BATCHES_EACH);
        thread::spawn(move || {
            for batch in inbox {
                if outbox.send(batch.look(look)).is_err() {
                    break;
                }
            }
        });
        Self { jobs, results }
    }
}

impl Batch {
    fn look<R>(&self, look: Look<R>) -> Vec<R> {
        let mut start = 0;
        let mut looked = Vec::with_capacity(self.ends.len());
        for (place, &end) in (self.first..).zip(&self.ends) {
            looked.push(look(place, self.bytes.get(start..end).unwrap_or_default()));
            start = end;
        }
        looked
    }
}

fn gone() -> io::Error {
    io::Error::other("a thread that looks at actions has ended")
}
