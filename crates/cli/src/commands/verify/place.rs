//! Where the artifacts of a trace lie that is verified outside of a workspace, and what is no trace.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use countersign_protocol::unlinked::Projection;
use countersign_verify::{FileSource, Lines, RawLine};
use serde_json::Value;

use crate::CommandError;

/// Gives the source the store that was named, else one that lies beside the trace.
pub(super) fn add_store(source: &mut FileSource, named: Option<&Path>) -> Result<(), CommandError> {
    if let Some(named) = named {
        if !named.is_dir() {
            let error = format!("`{}` is no directory with artifacts", named.display());
            return Err(CommandError::failed(error));
        }
        source.store = Some(named.to_owned());
    } else if source.store.is_none() {
        source.store = beside(&source.events);
    }
    Ok(())
}

/// The directory with `artifacts`, in their places or new: that of the trace, or the one whose `traces/` it is in.
fn beside(events: &Path) -> Option<PathBuf> {
    let dir = events.parent()?;
    let above = dir.parent().filter(|traces| traces.file_name().is_some_and(|it| it == "traces"));
    let candidates = [Some(dir), above.and_then(Path::parent)];
    let has = |dir: &&Path| {
        ["artifacts/sha256", "artifacts/new"].iter().any(|name| dir.join(name).is_dir())
    };
    candidates.into_iter().flatten().find(has).map(Path::to_owned)
}

/// A projection looks like a trace and proves nothing.
pub(super) fn refuse_projection(events: &Path) -> Result<(), CommandError> {
    // What cannot be read, or would have to be waited for, is the verifier's to say.
    if !fs::metadata(events).is_ok_and(|found| found.is_file()) {
        return Ok(());
    }
    let Ok(file) = File::open(events) else { return Ok(()) };
    let mut lines = Lines::new(BufReader::new(file));
    let Ok(Some(RawLine::Complete(line) | RawLine::Unterminated(line))) = lines.next_line() else {
        return Ok(());
    };
    let document: Value = serde_json::from_slice(line).unwrap_or_default();
    match Projection::original_of(&document) {
        Some(trace_id) => {
            let error = format!(
                "`{}` is a projection of trace {trace_id}: it is not signed and proves nothing",
                events.display()
            );
            Err(CommandError::no(error).with_hint("verify the trace that it was made of"))
        }
        None => Ok(()),
    }
}
