//! A trace that is named by the place of its file, in a workspace or not, of either schema.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use countersign_format::event::{Event, Reading};
use countersign_format::hash::Hash;
use countersign_protocol::unlinked::Projection;
use countersign_verify::{Lines, RawLine};

use crate::CommandError;

/// The file of a trace.
#[derive(Debug, Clone)]
pub(crate) struct LedgerFile {
    path: PathBuf,
}

/// One event, and the hash of the line that it stands in.
pub(crate) struct Stored {
    pub(crate) index: u64,
    pub(crate) event: Event,
    pub(crate) line_hash: Hash,
}

impl LedgerFile {
    /// The file that `name` means, if there is something of that name: a directory or a file.
    pub(crate) fn find(name: &str) -> Option<Self> {
        let path = Path::new(name);
        if path.is_dir() {
            Some(Self::at(path.join("events.jsonl")))
        } else {
            path.exists().then(|| Self::at(path.to_owned()))
        }
    }

    pub(crate) const fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Visits the events one by one.
    pub(crate) fn each(
        &self,
        mut visit: impl FnMut(Stored) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let mut lines = self.open()?;
        let mut index = 0;
        while let Some(line) = lines.next_line().map_err(|error| self.cannot_read(error))? {
            let bytes = match line {
                RawLine::Complete(bytes) => bytes,
                // A torn tail is no line yet.
                RawLine::Unterminated(_) => break,
                RawLine::TooLong | RawLine::Endless => {
                    return Err(self.unreadable(index, "the line is longer than an event may be"));
                }
            };
            let event = self.event(bytes, index)?;
            visit(Stored { index, event, line_hash: Hash::of(bytes) })?;
            index += 1;
        }
        Ok(())
    }

    fn open(&self) -> Result<Lines<BufReader<File>>, CommandError> {
        let data = fs::metadata(&self.path).map_err(|error| self.cannot_read(error))?;
        // Anything else could block, or never end.
        if !data.is_file() {
            let error = format!("`{}` is not a regular file", self.path.display());
            return Err(CommandError::failed(error));
        }
        let file = File::open(&self.path).map_err(|error| self.cannot_read(error))?;
        Ok(Lines::new(BufReader::new(file)))
    }

    fn event(&self, line: &[u8], index: u64) -> Result<Event, CommandError> {
        let reading =
            Reading::of(line).map_err(|fault| self.unreadable(index, &fault.to_string()))?;
        if let Some(trace_id) = Projection::original_of(&reading.value) {
            let what = format!("it belongs to a projection of trace {trace_id}, and is no event");
            return Err(self.unreadable(index, &what));
        }
        if let Some(fault) = &reading.fault {
            return Err(self.unreadable(index, &fault.to_string()));
        }
        reading.into_event().ok_or_else(|| self.unreadable(index, "the line is not an event"))
    }

    fn cannot_read(&self, error: std::io::Error) -> CommandError {
        CommandError::failed_doing(format!("cannot read `{}`", self.path.display()), error)
    }

    fn unreadable(&self, index: u64, what: &str) -> CommandError {
        let error = format!("the line of event {index} cannot be read: {what}");
        CommandError::failed(error).with_hint(format!(
            "run `countersign verify {}` to see everything that is wrong",
            self.path.display()
        ))
    }
}
