//! Whether every trace that the log names is there, as long as the log says, and can be built upon.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use countersign_format::id::Ulid;
use countersign_runtime::inspect::{BadLine, LogEntry, damage};
use countersign_runtime::{Reconciled, Workspace};

use super::{State, Visit, why};
use crate::narration::plural;
use crate::place::lost;

const AREA: &str = "traces";

pub(super) fn look(workspace: &Workspace, repair: bool, visit: &mut Visit) {
    if repair {
        reconcile(workspace, visit);
    }
    let entries = match workspace.log_entries() {
        Ok(entries) => Some(entries),
        Err(error) => {
            let what = format!("the log does not tell which traces there are: {}", why(error));
            visit.say(AREA, State::Wrong, what);
            None
        }
    };
    let here = match in_store(&workspace.home().join("traces")) {
        Ok(here) => here,
        Err(error) => {
            visit.say(AREA, State::Wrong, format!("the traces cannot be listed: {}", why(error)));
            return;
        }
    };
    let mut found = BTreeSet::new();
    for id in here {
        if look_at(workspace, id, entries.as_ref(), visit) {
            found.insert(id.to_string());
        }
    }
    for (trace_id, entry) in entries.iter().flatten() {
        if !found.contains(trace_id) {
            visit.say(AREA, State::Wrong, lost(workspace, trace_id, entry.size));
            visit.hint(format!("run `countersign verify {trace_id}`"));
        }
    }
    if visit.is_in_order(AREA) {
        visit.say(
            AREA,
            State::Ok,
            format!("{} in the store", plural(found.len(), "trace", "traces")),
        );
    }
}

fn reconcile(workspace: &Workspace, visit: &mut Visit) {
    let done = match workspace.reconcile_all() {
        Ok(done) => done,
        Err(error) => {
            let what = format!("not all could be mended: {}", why(error));
            return visit.say(AREA, State::Wrong, what);
        }
    };
    for done in done {
        match done {
            Reconciled::Opened(id) => {
                visit.say(AREA, State::Mended, format!("the log now has {id} as opened"));
            }
            Reconciled::Closed(id) => {
                visit.say(AREA, State::Mended, format!("the log now has {id} as closed"));
            }
            Reconciled::Stillborn(id) => {
                let what = format!("{id} was never acknowledged and cannot be opened any more");
                visit.say(AREA, State::Warning, what);
            }
        }
    }
}

/// The traces that have a directory. The store itself gives up at the first that it cannot look at.
fn in_store(dir: &Path) -> io::Result<BTreeSet<Ulid>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut found = BTreeSet::new();
    for entry in entries {
        found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<Ulid>().ok()));
    }
    Ok(found)
}

/// Looks at one trace, and says whether there is anything to look at.
fn look_at(
    workspace: &Workspace,
    id: Ulid,
    entries: Option<&BTreeMap<String, LogEntry>>,
    visit: &mut Visit,
) -> bool {
    let events = workspace.trace_file(id);
    let torn = match fs::symlink_metadata(&events) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
        Ok(found) if found.is_file() && found.len() == 0 => return false,
        Ok(found) if !found.is_file() => {
            let what = format!("{id} cannot be read: `{}` is not a regular file", events.display());
            visit.say(AREA, State::Wrong, what);
            return true;
        }
        Ok(_) => is_torn(&events),
        Err(error) => Err(error),
    };
    let seen = torn.map_err(why).and_then(|torn| {
        let damage = damage(&events, id).map_err(why)?;
        Ok((torn, damage, workspace.summary(id).map_err(why)?))
    });
    let (torn, damage, summary) = match seen {
        Ok(seen) => seen,
        Err(error) => {
            visit.say(AREA, State::Wrong, format!("{id} cannot be read: {error}"));
            return true;
        }
    };
    if torn {
        let what = format!(
            "{id} ends in a torn line: its writer died, or is at it; the next writer sets it aside"
        );
        visit.say(AREA, State::Warning, what);
    }
    if let Some(BadLine { index, what }) = damage {
        visit.say(AREA, State::Wrong, format!("{id} is damaged at event {index}: {what}"));
        visit.hint(format!("run `countersign verify {id}`"));
        return true;
    }
    let Some(entries) = entries else { return true };
    let (count, ended) =
        summary.map_or((0, false), |summary| (summary.event_count, summary.ended_at.is_some()));
    match entries.get(&id.to_string()) {
        // A torn first line is no trace yet.
        None if count == 0 => {}
        None => {
            visit.say(AREA, State::Warning, format!("the log does not know {id}"));
            visit.hint("run `countersign doctor --repair`");
        }
        Some(entry) if entry.size > count => {
            let what = format!("{id} has {count} events, the log knows {}", entry.size);
            visit.say(AREA, State::Wrong, what);
            visit.hint(format!("run `countersign verify {id}`"));
        }
        Some(entry) if ended && !entry.closed => {
            visit.say(AREA, State::Warning, format!("the log does not have {id} as closed"));
            visit.hint("run `countersign doctor --repair`");
        }
        Some(_) => {}
    }
    true
}

/// Whether the last line has no end. Read without the lock that only a writer takes.
fn is_torn(events: &Path) -> io::Result<bool> {
    let mut file = File::open(events)?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != [b'\n'])
}
