//! Sealed files: ours, those of CapSeal, and everything that is made to look like one.

#![cfg(test)]

mod archive;
mod hostile;
mod interop;
mod sealed;
mod table;

use std::io::{self, Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_format::hash::Hash;
use countersign_verify::cap::{CapVerdict, OpenedCap, verify_cap};
use countersign_verify::{FileSource, OpenTraces, Options, Profile, exit_status};

/// Counts what is read of a file.
struct Counted(Cursor<Vec<u8>>, Arc<AtomicU64>);

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.0.read(into)?;
        self.1.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }
}

/// What is said of a file, and how much of it was read.
fn verdict_on(file: &[u8], roots: &[Hash], kept: &FileSource) -> (CapVerdict, u64) {
    let read = Arc::new(AtomicU64::new(0));
    let open = || {
        let counted = Counted(Cursor::new(file.to_vec()), Arc::clone(&read));
        Ok(Box::new(counted) as OpenedCap)
    };
    let options = Options {
        trusted_roots: roots.iter().copied().collect(),
        keys: Vec::new(),
        profile: Profile::DEFAULT,
        expect_trace: None,
        expect_head: None,
        expect_count: None,
        report_id: "01arz3ndektsv4rrffq69g5fav".to_owned(),
        now: "2026-02-03T04:05:06.000Z".parse().unwrap(),
    };
    let verdict = verify_cap(&open, kept, &options).unwrap();
    (verdict, read.load(Ordering::Relaxed))
}

fn nothing_kept() -> FileSource {
    FileSource { events: PathBuf::new(), log: None, checkpoints: Vec::new(), store: None }
}

/// The exit status, and what is wrong.
fn answer(file: &[u8], roots: &[Hash]) -> (u8, Vec<String>) {
    let report = verdict_on(file, roots, &nothing_kept()).0.report;
    let status = exit_status(&report, OpenTraces::Incomplete);
    (status, report.failures.into_iter().map(|failure| failure.message).collect())
}
