//! How far a long verification has come.

use std::cell::RefCell;
use std::fs;
use std::io::{self, BufRead, Read};
use std::time::{Duration, Instant};

use countersign_format::hash::Hash;
use countersign_verify::{FileSource, Source, StoredArtifact};

use crate::Output;

/// How often it is said, and how long nothing is: most are done by then.
const SAY_EVERY: Duration = Duration::from_millis(250);

/// A source that tells how much of its ledger was read.
pub(super) struct Watched<'a> {
    source: &'a FileSource,
    output: RefCell<&'a mut Output>,
}

impl<'a> Watched<'a> {
    pub(super) const fn new(source: &'a FileSource, output: &'a mut Output) -> Self {
        Self { source, output: RefCell::new(output) }
    }
}

impl Source for Watched<'_> {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        let reader = self.source.events()?;
        let size = fs::metadata(&self.source.events)?.len();
        let said = Instant::now();
        Ok(Box::new(Counted { reader, output: &self.output, size, read: 0, said }))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        self.source.log()
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        self.source.checkpoints()
    }

    fn artifact(&self, hash: &Hash) -> io::Result<StoredArtifact<'_>> {
        self.source.artifact(hash)
    }
}

struct Counted<'a, 'b> {
    reader: Box<dyn BufRead + 'a>,
    output: &'a RefCell<&'b mut Output>,
    size: u64,
    read: u64,
    said: Instant,
}

impl Read for Counted<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.fill_buf()?.read(into)?;
        self.consume(got);
        Ok(got)
    }
}

impl BufRead for Counted<'_, '_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.reader.consume(amount);
        self.read += amount as u64;
        if self.said.elapsed() >= SAY_EVERY {
            self.said = Instant::now();
            let part = self.read.saturating_mul(100).checked_div(self.size).unwrap_or(100).min(100);
            let (read, size) = (self.read >> 20, self.size >> 20);
            if let Ok(mut output) = self.output.try_borrow_mut() {
                output.status(format_args!("verifying: {part} %, {read} of {size} MiB"));
            }
        }
    }
}
