//! Bringing the index up to the traces.
//!
//! Decides which traces have changed and how much of them is read: nothing where length and time of
//! change are the ones that are known, the new lines where the last known one still stands, else
//! all. A trace that cannot be read is kept with the reason, and keeps no other from being read.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use countersign_format::event::Event;
use countersign_format::id::Ulid;
use rusqlite::{Connection, TransactionBehavior};

use super::IndexError;
use super::reading::{Events, Next, is_line};
use super::rows::{Pen, parsed, whole};
use super::sum::TraceSum;
use super::work::{self, WorkRow};
use crate::disk::{Access, DiskError, DiskFile};
use crate::store::StoreError;
use crate::workspace::Workspace;

/// For so long after a change another one may leave the same time of change: file systems count in
/// ticks of the kernel.
const TICK: Duration = Duration::from_millis(50);
/// So many traces are looked at by two threads.
const SIDE_BY_SIDE_MIN: usize = 512;

/// What tells whether a trace has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) bytes: i64,
    /// Nanoseconds since 1970.
    pub(super) mtime: i64,
    /// Whether every later change shows in the others.
    pub(super) settled: bool,
}

impl Sight {
    /// Of a trace that cannot be looked at: it is looked at again every time.
    const NONE: Self = Self { bytes: 0, mtime: 0, settled: false };

    /// Of the file as it is now, not settled. `None` where it holds no trace.
    fn of(path: &Path) -> io::Result<Option<Self>> {
        let found = match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if !found.is_file() || found.len() == 0 {
            return Ok(None);
        }
        let mtime = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
        Ok(Some(Self { bytes: whole(found.len()), mtime, settled: false }))
    }

    /// The same at `now`, since 1970: settled if the last change is no longer a fresh one.
    fn settle(self, now: Duration) -> Self {
        let now = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
        Self { settled: i128::from(self.mtime).abs_diff(now) > TICK.as_nanos(), ..self }
    }

    /// Whether nothing can have changed between `known` and this.
    const fn is_known(self, known: Self) -> bool {
        known.settled && self.bytes == known.bytes && self.mtime == known.mtime
    }
}

/// A trace as far as it was taken in.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Where the lines end.
    pub(super) read_to: u64,
    /// Where the last of them begins.
    pub(super) last_line: u64,
    /// What they come to; `None` if there are none.
    pub(super) sum: Option<TraceSum>,
    /// The work item that they are about.
    pub(super) work: Option<WorkRow>,
}

/// Takes in what has changed, in one transaction.
pub(super) fn catch_up(
    connection: &mut Connection,
    workspace: &Workspace,
) -> Result<(), IndexError> {
    // Both take their time, one in the file system, one in the database.
    let (here, known) = thread::scope(|scope| {
        let here = scope.spawn(|| here(workspace));
        let known = known(connection);
        (here.join(), known)
    });
    let here = here.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))?;
    let changed = changed(&known?, &here);
    if changed.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut pen = Pen::new(&transaction)?;
    for id in changed {
        update(&mut pen, workspace, id)?;
    }
    drop(pen);
    Ok(transaction.commit()?)
}

/// How traces looked when they were taken in, in the order of their ids.
fn known(connection: &Connection) -> rusqlite::Result<Vec<(Ulid, Sight)>> {
    let mut statement =
        connection.prepare("SELECT id, bytes, mtime, settled FROM traces ORDER BY id")?;
    let rows = statement.query_map([], |row| {
        let sight = Sight { bytes: row.get(1)?, mtime: row.get(2)?, settled: row.get(3)? };
        Ok((parsed(row, 0)?, sight))
    })?;
    rows.collect()
}

/// A trace as it looks now; an error if it cannot be looked at.
type Seen = (Ulid, io::Result<Option<Sight>>);

/// The traces that there are, in the order of their ids.
fn here(workspace: &Workspace) -> Result<Vec<Seen>, IndexError> {
    let store = workspace.store();
    let names = match store.disk().list(&store.home().join("traces")) {
        Err(error) if error.is_missing() => Vec::new(),
        names => names.map_err(StoreError::from)?,
    };
    let mut ids: Vec<Ulid> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    // The file system is asked in the order in which traces were begun, which it likes best.
    ids.sort_unstable();
    let look = |ids: &[Ulid]| -> Vec<Seen> {
        ids.iter().map(|&id| (id, Sight::of(&workspace.trace_file(id)))).collect()
    };
    let (first, second) = match ids.len() < SIDE_BY_SIDE_MIN {
        true => (ids.as_slice(), [].as_slice()),
        false => ids.split_at(ids.len() / 2),
    };
    Ok(thread::scope(|scope| {
        let other = (!second.is_empty()).then(|| scope.spawn(|| look(second)));
        let mut seen = look(first);
        if let Some(other) = other {
            seen.extend(other.join().unwrap_or_else(|it| std::panic::resume_unwind(it)));
        }
        seen
    }))
}

/// The traces that are new, gone, or not as they are known. One that another process has taken in
/// since they were listed looks gone here, and is found to be there when it is looked at again.
fn changed(known: &[(Ulid, Sight)], here: &[Seen]) -> Vec<Ulid> {
    let as_known = |(id, seen): &Seen| {
        let place = known.binary_search_by_key(id, |(id, _)| *id).ok();
        match (seen, place.and_then(|place| known.get(place))) {
            (Ok(None), None) => true,
            (Ok(Some(sight)), Some((_, known))) => sight.is_known(*known),
            _ => false,
        }
    };
    let mut changed: Vec<Ulid> =
        here.iter().filter(|seen| !as_known(seen)).map(|(id, _)| *id).collect();
    let gone = |id: &Ulid| here.binary_search_by_key(id, |(id, _)| *id).is_err();
    changed.extend(known.iter().map(|(id, _)| *id).filter(gone));
    changed.sort_unstable();
    changed
}

/// Takes in one trace. It is looked at again: since it was, another process may have done the same.
fn update(pen: &mut Pen<'_>, workspace: &Workspace, id: Ulid) -> rusqlite::Result<()> {
    let path = workspace.trace_file(id);
    let sight = match Sight::of(&path) {
        Ok(Some(sight)) => {
            sight.settle(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
        }
        Ok(None) => return pen.forget(id),
        Err(error) => return pen.put_unreadable(id, Sight::NONE, &error.to_string()),
    };
    let known = pen.known(id)?;
    if known.as_ref().is_some_and(|(known, _)| sight.is_known(*known)) {
        return Ok(());
    }
    // A file that cannot be opened may be opened later without having changed.
    let lost = Sight { settled: false, ..sight };
    let file = match workspace.store().disk().open(&path, Access::Read) {
        Ok(file) => file,
        Err(error) => return pen.put_unreadable(id, lost, &causes(&error)),
    };
    let mut taken = match known.filter(|(before, _)| may_go_on(*before, sight)) {
        Some((_, taken)) => match stands(&*file, &taken) {
            Ok(true) => taken,
            Ok(false) => Taken::default(),
            Err(error) => return pen.put_unreadable(id, lost, &causes(&error)),
        },
        None => Taken::default(),
    };
    if taken.read_to == 0 {
        pen.forget(id)?;
    }
    let end = u64::try_from(sight.bytes).unwrap_or(0);
    let mut events = Events::between(&*file, id, taken.read_to, end);
    let unreadable = loop {
        match events.next() {
            Ok(Next::Event(event, bytes)) => taken.push(pen, id, &event, bytes)?,
            Ok(Next::Bad(what)) => {
                let index = taken.sum.as_ref().map_or(0, |sum| sum.session.event_count);
                break Some(format!("event {index}: {what}"));
            }
            Ok(Next::End) => break None,
            Err(error) => return pen.put_unreadable(id, lost, &causes(&error)),
        }
    };
    pen.put(id, sight, &taken, unreadable.as_deref())
}

/// Whether a trace may have grown and changed in no other way. What kept its length and changed all
/// the same was written to in another way than by appending.
const fn may_go_on(before: Sight, now: Sight) -> bool {
    now.bytes > before.bytes
        || (!before.settled && now.bytes == before.bytes && now.mtime == before.mtime)
}

fn stands(file: &dyn DiskFile, taken: &Taken) -> Result<bool, DiskError> {
    match &taken.sum {
        Some(sum) => is_line(file, taken.last_line, taken.read_to, &sum.session.head_event_hash),
        None => Ok(false),
    }
}

impl Taken {
    fn push(
        &mut self,
        pen: &mut Pen<'_>,
        id: Ulid,
        event: &Event,
        bytes: u64,
    ) -> rusqlite::Result<()> {
        let transition = match (&self.sum, &mut self.work) {
            (None, _) => work::open(id, event).map(|(item, opened)| {
                self.work = Some(item);
                opened
            }),
            (Some(sum), Some(item)) => item.push(sum.session.event_count, event),
            (Some(_), None) => None,
        };
        if let Some(transition) = transition {
            pen.add_transition(&transition)?;
        }
        let sum = self.sum.get_or_insert_with(|| TraceSum::begin(event));
        sum.push(event);
        for artifact in &event.artifacts {
            sum.session.artifact_count += u64::from(pen.add_artifact(id, &artifact.artifact_hash)?);
        }
        self.last_line = self.read_to;
        self.read_to += bytes;
        Ok(())
    }
}

/// What went wrong and why, on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_just_changed_is_looked_at_again_even_if_it_looks_the_same() {
        let found = Sight { bytes: 10, mtime: 5_000_000_000, settled: false };
        let seen = |millis| found.settle(Duration::from_millis(millis));
        // The clock may also have been set back since.
        for (millis, settled) in
            [(5_000, false), (5_050, false), (4_950, false), (5_051, true), (4_949, true)]
        {
            let known = seen(millis);
            assert_eq!(known, Sight { settled, ..found }, "{millis}");
            assert_eq!(found.is_known(known), settled, "{millis}");
            // One line then tells whether it is the same, unless that is certain.
            assert_eq!(may_go_on(known, found), !settled, "{millis}");
        }
        let grown = Sight { bytes: 11, ..found };
        assert!(may_go_on(seen(6_000), grown) && !grown.is_known(seen(6_000)));
        let changed = Sight { mtime: 5_000_000_001, ..found };
        assert!(!may_go_on(seen(5_000), changed) && !changed.is_known(seen(6_000)));
    }
}
