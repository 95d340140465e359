//! Every trace of a workspace: those that are there, and those of which only the log still knows.
//!
//! The log is read once for all of them. Each verdict is the one that the trace gets by itself.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead};
use std::path::Path;

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::report::VerificationReport;

use crate::known_log::KnownLog;
use crate::log::Sizes;
use crate::pipeline::Ledger;
use crate::trace::pin_of;
use crate::{FileSource, Options, Source, StoredArtifact};

/// What is to be said of one trace of a workspace.
#[derive(Debug)]
pub struct TraceVerdict {
    /// The trace.
    pub trace_id: String,
    /// Whether its ledger is there at all.
    pub present: bool,
    /// The verdict, or why there is none.
    pub report: io::Result<VerificationReport>,
}

/// Verifies every trace below `traces`, and every other one that the log of `shared` knows; hands
/// each verdict to `take` as it comes. What `shared` says of a ledger is not used. Gives the
/// verdict on the log, if there is one.
pub fn verify_all(
    shared: &FileSource,
    traces: &Path,
    options: &Options,
    take: &mut dyn FnMut(TraceVerdict) -> io::Result<()>,
) -> io::Result<Option<VerificationReport>> {
    let mut ids = present(traces)?;
    let source =
        |id: &str| FileSource { events: traces.join(id).join("events.jsonl"), ..shared.clone() };
    let pinned = ids.iter().filter_map(|id| {
        let source = source(id);
        let ledger = Ledger::open(source.events().ok()?).ok()?;
        pin_of(&ledger.first_event()?).map(|pin| pin.size)
    });
    let sizes = Sizes::These(pinned.collect());
    let Some(known) = KnownLog::read_at(shared, options.profile, sizes)? else {
        for trace_id in ids {
            let mut options = options.clone();
            options.expect_trace = Some(trace_id.clone());
            let report = crate::verify(&source(&trace_id), &options);
            take(TraceVerdict { trace_id, present: true, report })?;
        }
        return Ok(None);
    };
    let here = ids.clone();
    ids.extend(known.trace_ids().map(str::to_owned));
    for trace_id in ids {
        let options = Options { expect_trace: Some(trace_id.clone()), ..options.clone() };
        let (present, report) = if here.contains(&trace_id) {
            (true, known.verify(&source(&trace_id), &options))
        } else if has_begun(traces, &trace_id) {
            // It began after the others were listed. Where it saw the log was not looked at then.
            (true, crate::verify(&source(&trace_id), &options))
        } else {
            (false, known.verify(&Gone, &options))
        };
        take(TraceVerdict { trace_id, present, report })?;
    }
    Ok(Some(known.report(options)))
}

/// The traces whose ledgers are there.
fn present(traces: &Path) -> io::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(traces) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut ids = BTreeSet::new();
    for entry in entries {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if has_begun(traces, &name) {
            ids.insert(name);
        }
    }
    Ok(ids)
}

/// Whether the ledger of a trace is there. A writer that died before its first event leaves an empty
/// file, which is as good as none: nobody was told of anything. If the log knows the trace, it is gone.
fn has_begun(traces: &Path, name: &str) -> bool {
    // Only an id is a name below `traces`, whoever wrote it into the log.
    if name.parse::<Ulid>().is_err() {
        return false;
    }
    let ledger = fs::symlink_metadata(traces.join(name).join("events.jsonl"));
    ledger.is_ok_and(|found| !found.is_file() || found.len() > 0)
}

/// A trace that is not there: a ledger without events.
struct Gone;

impl Source for Gone {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(io::empty()))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        Ok(None)
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn artifact(&self, _: &Hash) -> io::Result<StoredArtifact<'_>> {
        Ok(StoredArtifact::NoStore)
    }
}
