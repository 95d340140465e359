//! Striking a verifier with mutations, on all cores.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use countersign_format::hash::Hash;
use countersign_verify::{Source, StoredArtifact};

use super::{Mutation, MutationKind, Mutations};

/// What came of all mutations of a kind.
#[derive(Debug)]
pub struct Tally {
    /// The kind.
    pub kind: MutationKind,
    /// How many were tried.
    pub tried: usize,
    /// What was not found, or made the verifier panic.
    pub missed: Vec<String>,
}

/// A mutation as a verifier finds it.
#[derive(Debug)]
pub struct Struck<'m> {
    mutation: &'m Mutation,
    artifacts: &'m BTreeMap<Hash, Vec<u8>>,
    stored: bool,
}

impl Struck<'_> {
    /// The ledger, as it is now.
    #[must_use]
    pub fn ledger(&self) -> &[u8] {
        &self.mutation.ledger
    }
}

impl Source for Struck<'_> {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(self.mutation.ledger.as_slice()))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        Ok(Some(Box::new(self.mutation.log.as_slice())))
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn artifact(&self, hash: &Hash) -> io::Result<StoredArtifact<'_>> {
        // What happened to a byte of the ledger must be found without looking at anything else.
        if !self.stored {
            return Ok(StoredArtifact::NoStore);
        }
        let bytes = match &self.mutation.artifact {
            Some((changed, bytes)) if changed == hash => bytes.as_ref(),
            _ => self.artifacts.get(hash),
        };
        Ok(match bytes {
            Some(bytes) => StoredArtifact::Bytes(Box::new(bytes.as_slice())),
            None => StoredArtifact::Absent,
        })
    }
}

/// Strikes with every one of `chosen`; `finds` says whether a mutation is found.
pub fn strike(
    mutations: &Mutations,
    kind: MutationKind,
    chosen: &[usize],
    finds: impl Fn(&Struck<'_>) -> Result<(), String> + Sync,
) -> Tally {
    let artifacts: BTreeMap<Hash, Vec<u8>> = mutations.artifacts.iter().cloned().collect();
    let stored = !kind.is_of_bytes();
    let next = AtomicUsize::new(0);
    let missed = Mutex::new(Vec::new());
    let work = || {
        while let Some(&index) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mutation = mutations.get(kind, index);
            let struck = Struck { mutation: &mutation, artifacts: &artifacts, stored };
            let found = catch_unwind(AssertUnwindSafe(|| finds(&struck)));
            let why = match found {
                Ok(Ok(())) => continue,
                Ok(Err(why)) => why,
                Err(_) => "the verifier panicked".to_owned(),
            };
            missed.lock().unwrap().push(format!("{}: {why}", mutation.what));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(work);
        }
    });
    Tally { kind, tried: chosen.len(), missed: missed.into_inner().unwrap() }
}
