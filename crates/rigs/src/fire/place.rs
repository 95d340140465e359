//! What rigs with real processes share: a directory of their own, writers, and what they lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::report::Closed;
use countersign_runtime::inspect::each_event;
use countersign_runtime::store::{Blobs as _, LedgerId};
use countersign_runtime::{Environment, Workspace};
use countersign_testkit::TestHome;
use countersign_testkit::process::{Process, Told};
use xtask::place::target;

/// No artifact of a writer is as large.
const ARTIFACT_BYTES_MAX: u64 = 1 << 20;

/// A directory that is removed in the end.
pub(super) struct Room {
    dir: PathBuf,
}

impl Room {
    /// On the disk on which everything is built.
    pub(super) fn on_disk(name: &str) -> Result<Self, String> {
        Self::below(&target().join("fire-tmp"), name)
    }

    /// In memory, where there is such a place.
    pub(super) fn in_memory(name: &str) -> Result<Self, String> {
        let shared = Path::new("/dev/shm");
        if shared.is_dir() { Self::below(shared, name) } else { Self::on_disk(name) }
    }

    fn below(parent: &Path, name: &str) -> Result<Self, String> {
        let dir = parent.join(format!("countersign-fire-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).map_err(said("make a directory"))?;
        Ok(Self { dir })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
        // Left alone while others have something there.
        let _ = fs::remove_dir(target().join("fire-tmp"));
    }
}

/// Tells what failed, for `map_err`.
pub(super) fn said(doing: &str) -> impl FnOnce(io::Error) -> String {
    move |error| format!("cannot {doing}: {error}")
}

/// Which writer appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    Sound,
    /// One that syncs nothing.
    NoSync,
    /// One that syncs no artifacts.
    NoArtifactSync,
    /// One that takes every sync for done, whatever it says.
    Deaf,
    /// One that acknowledges what it is about to write.
    Early,
}

impl Writer {
    const fn option(self) -> Option<&'static str> {
        match self {
            Self::Sound => None,
            Self::NoSync => Some("twin=no-sync"),
            Self::NoArtifactSync => Some("twin=no-artifact-sync"),
            Self::Deaf => Some("twin=deaf"),
            Self::Early => Some("twin=early"),
        }
    }
}

/// A command that appends to a recording: this program again.
pub(super) fn writer(
    home: &TestHome,
    recording: &str,
    arguments: &[&str],
    kind: Writer,
) -> Result<Command, String> {
    writer_at(&home.config(), &home.path(), recording, arguments, kind)
}

/// The same for any workspace.
pub(super) fn writer_at(
    config: &Path,
    home: &Path,
    recording: &str,
    arguments: &[&str],
    kind: Writer,
) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(said("find this program"))?;
    let mut command = Command::new(own);
    command.arg("writer").arg(config).arg(home).arg(recording).args(arguments);
    command.args(kind.option());
    Ok(command)
}

/// Lets a sound writer go on with a recording.
pub(super) fn next_writer(home: &TestHome, id: Ulid) -> Result<Told, String> {
    let mut next = writer(home, &id.to_string(), &["next", "2"], Writer::Sound)?;
    let (status, told) = Process::run(&mut next);
    if status.success() && told.acked.len() == 2 {
        return Ok(told);
    }
    Err(format!("the next writer of {id} ended with {status}: {:?}", told.errors))
}

/// What a writer was told, and how much of it there is.
fn described(home: &TestHome, told: &Told, found: &BTreeMap<String, u32>) -> String {
    let there = told.acked.iter().filter(|id| found.get(*id) == Some(&1)).count();
    let begun = told.begun.iter().map(|&id| {
        let len = fs::metadata(home.workspace.trace_file(id)).map(|found| found.len());
        format!(" began {id}, of which {:?} bytes are there,", len.ok())
    });
    let (begun, acked) = (begun.collect::<String>(), told.acked.len());
    format!("a writer{begun} was told of {acked} events, {there} are there")
}

/// Compares what writers were told with what is there, as a stranger would read it.
pub(super) fn lost(home: &TestHome, told: &[Told]) -> Result<(), String> {
    let mut ids: BTreeMap<String, u32> = BTreeMap::new();
    let mut purposes: BTreeMap<String, u32> = BTreeMap::new();
    let traces = home.path().join("traces");
    for entry in fs::read_dir(&traces).into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<Ulid>().ok()) else {
            continue;
        };
        let file = entry.path().join("events.jsonl");
        let _ = each_event(&file, LedgerId::Trace(id), |event| {
            let purpose = event.payload.get("purpose").and_then(|purpose| purpose.as_str());
            if let Some(purpose) = purpose {
                *purposes.entry(purpose.to_owned()).or_default() += 1;
            }
            *ids.entry(event.event_id).or_default() += 1;
        });
    }
    let acked = told.iter().flat_map(|it| &it.acked).map(|id| (id, ids.get(id)));
    let meant = told.iter().flat_map(|it| &it.purposes).map(|it| (it, purposes.get(it)));
    let all = acked.chain(meant);
    let missing: Vec<&String> =
        all.filter(|(_, found)| *found != Some(&1)).map(|(what, _)| what).collect();
    if let Some(first) = missing.first() {
        let count = missing.len();
        let whose: Vec<String> = told.iter().map(|it| described(home, it, &ids)).collect();
        let whose = whose.join("; ");
        return Err(format!("{count} not there once: the first is `{first}`; {whose}"));
    }
    for &id in told.iter().flat_map(|it| &it.begun) {
        if !home.workspace.trace_file(id).exists() {
            return Err(format!("{id} was begun, and is not there"));
        }
        let report = home.verify(id);
        if !report.failures.is_empty() {
            return Err(format!("{id} does not verify: {:?}", report.failures));
        }
        if report.closed != Closed::Yes && told.iter().any(|it| it.closed.contains(&id)) {
            return Err(format!("{id} was concluded, and is open"));
        }
    }
    let stored = told.iter().flat_map(|it| &it.artifacts);
    artifacts_lost(home, stored)?;
    let log = home.verify_log();
    if log.failures.is_empty() {
        Ok(())
    } else {
        Err(format!("the log does not verify: {:?}", log.failures))
    }
}

/// The workspace as it is on the disk now, with the clock of the machine.
pub(super) fn opened(home: &TestHome) -> Result<Workspace, String> {
    let opened = Workspace::open(&home.config(), &home.path(), Environment::system());
    opened.map_err(|error| format!("the workspace does not open: {error:?}"))
}

/// Reads artifacts as everybody does, wherever they are; their bytes are those that were stored.
fn artifacts_lost<'a>(
    home: &TestHome,
    stored: impl Iterator<Item = &'a Hash>,
) -> Result<(), String> {
    let mut stored = stored.peekable();
    if stored.peek().is_none() {
        return Ok(());
    }
    let workspace = opened(home)?;
    for hash in stored {
        let read = workspace.store().get(hash, ARTIFACT_BYTES_MAX);
        read.map_err(|error| format!("artifact {hash} was stored: {error}"))?;
    }
    Ok(())
}

/// What must be in a trace by what a writer was told, as it stands in the line of an event.
pub(super) fn texts(told: &Told) -> BTreeSet<String> {
    let ids = told.acked.iter().map(|id| format!("\"event_id\":\"{id}\""));
    ids.chain(told.purposes.iter().map(|it| format!("\"purpose\":\"{it}\""))).collect()
}
