//! What rigs with real processes share: a directory of their own, writers, and what they lost.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_format::id::Ulid;
use countersign_runtime::inspect::each_event;
use countersign_runtime::store::LedgerId;
use countersign_testkit::TestHome;
use countersign_testkit::process::{Process, Told, appender};
use xtask::place::target;

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
    /// One that acknowledges what it is about to write.
    Early,
}

impl Writer {
    const fn option(self) -> Option<&'static str> {
        match self {
            Self::Sound => None,
            Self::NoSync => Some("twin=no-sync"),
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
    let own = std::env::current_exe().map_err(said("find this program"))?;
    let own = own.to_str().ok_or("this program has no name that can be written")?;
    let arguments: Vec<&str> = arguments.iter().copied().chain(kind.option()).collect();
    let with_path = appender(own, home, recording, &arguments);
    let mut command = Command::new(own);
    command.arg("writer").args(with_path.get_args());
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
    let begun = told.begun.map(|id| {
        let len = fs::metadata(home.workspace.trace_file(id)).map(|found| found.len());
        format!(" began {id}, of which {:?} bytes are there,", len.ok())
    });
    let (begun, acked) = (begun.unwrap_or_default(), told.acked.len());
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
    for id in told.iter().filter_map(|it| it.begun) {
        if !home.workspace.trace_file(id).exists() {
            return Err(format!("{id} was begun, and is not there"));
        }
        let report = home.verify(id);
        if !report.failures.is_empty() {
            return Err(format!("{id} does not verify: {:?}", report.failures));
        }
    }
    let log = home.verify_log();
    if log.failures.is_empty() {
        Ok(())
    } else {
        Err(format!("the log does not verify: {:?}", log.failures))
    }
}
