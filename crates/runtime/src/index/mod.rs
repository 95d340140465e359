//! The index of a workspace, for lookups: its traces, its work items and their transitions.
//!
//! Decides what is looked up and how the index is kept up with the traces. It is derived from them
//! alone, may be deleted at any time, and is never the truth: nothing is decided or verified by it.
//! Where it cannot be kept in its file, it is made in memory.

mod board;
mod catch_up;
mod find;
mod place;
mod reading;
mod rows;
mod sum;
mod work;

use countersign_format::id::Ulid;
use rusqlite::Connection;

use crate::store::StoreError;
use crate::workspace::Workspace;
pub use board::{BoardPage, BoardQuery, PhaseCount};
pub use find::{TracePage, TraceQuery};
pub use place::INDEX_NAME;
pub use rows::TraceRow;
pub use work::{TransitionRow, WorkRow};

/// Why nothing can be looked up.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The traces cannot be listed.
    #[error("the traces cannot be listed")]
    Traces(#[from] StoreError),
    /// Not even an index in memory could be used.
    #[error("the index cannot be used")]
    Database(#[from] rusqlite::Error),
}

/// Where an index is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexPlace {
    /// In its file, for everybody.
    File,
    /// In the memory of this process alone.
    Memory {
        /// Why it is not in its file.
        why: String,
    },
}

/// The index of a workspace, as of when it was last caught up. For one thread; others open their own.
#[derive(Debug)]
pub struct Index {
    workspace: Workspace,
    connection: Connection,
    place: IndexPlace,
}

impl Workspace {
    /// Opens the index and brings it up to date. One that is damaged, of another version or of
    /// another workspace is made anew.
    ///
    /// # Errors
    /// The traces cannot be listed. That the index cannot be kept in its file is no error.
    pub fn index(&self) -> Result<Index, IndexError> {
        Index::begin(self, place::open(self))
    }

    /// Makes the index anew from the traces, whatever it holds now. Those who have the old one open
    /// go on with it.
    ///
    /// # Errors
    /// As [`Self::index`].
    pub fn rebuild_index(&self) -> Result<Index, IndexError> {
        Index::begin(self, place::make_anew(self))
    }
}

impl Index {
    fn begin(
        workspace: &Workspace,
        opened: Result<Connection, place::Unkept>,
    ) -> Result<Self, IndexError> {
        let (connection, place) = match opened {
            Ok(connection) => (connection, IndexPlace::File),
            Err(unkept) => {
                (place::in_memory(workspace)?, IndexPlace::Memory { why: unkept.to_string() })
            }
        };
        let mut index = Self { workspace: workspace.clone(), connection, place };
        index.catch_up()?;
        Ok(index)
    }

    /// Where it is.
    #[must_use]
    pub const fn place(&self) -> &IndexPlace {
        &self.place
    }

    /// Takes in what was recorded since. Costs a look at every trace, and reads what is new.
    ///
    /// # Errors
    /// As [`Workspace::index`].
    pub fn catch_up(&mut self) -> Result<(), IndexError> {
        match catch_up::catch_up(&mut self.connection, &self.workspace) {
            Err(IndexError::Database(error)) if self.place == IndexPlace::File => {
                self.recover(&error)
            }
            done => done,
        }
    }

    /// All traces, in the order of their ids, which is that of their beginnings.
    ///
    /// # Errors
    /// The index cannot be read, nor made anew.
    pub fn traces(&mut self) -> Result<Vec<TraceRow>, IndexError> {
        self.ask(rows::traces)
    }

    /// A page of the traces that fit.
    ///
    /// # Errors
    /// The index cannot be read, nor made anew.
    pub fn find_traces(&mut self, query: &TraceQuery) -> Result<TracePage, IndexError> {
        self.ask(|connection| find::find(connection, query))
    }

    /// One trace.
    ///
    /// # Errors
    /// The index cannot be read, nor made anew.
    pub fn find_trace(&mut self, id: Ulid) -> Result<Option<TraceRow>, IndexError> {
        self.ask(|connection| find::one(connection, id))
    }

    /// The bytes of every trace, in the order of their ids: where they differ, it has changed.
    ///
    /// # Errors
    /// The index cannot be read, nor made anew.
    pub fn trace_lengths(&mut self) -> Result<Vec<(Ulid, i64)>, IndexError> {
        self.ask(find::lengths)
    }

    /// All work items, in the order of their ids, which is that in which they were opened.
    ///
    /// # Errors
    /// The index cannot be read, nor made anew.
    pub fn work_items(&mut self) -> Result<Vec<WorkRow>, IndexError> {
        self.ask(rows::work_items)
    }

    /// The work items with exactly this label. There is one at most, unless somebody put a trace here that
    /// was opened elsewhere.
    ///
    /// # Errors
    /// The index cannot be read, nor made anew.
    pub fn work_items_named(&mut self, label: &str) -> Result<Vec<Ulid>, IndexError> {
        self.ask(|connection| rows::work_items_named(connection, label))
    }

    /// What happened to one work item, or to all of them, by item and in order.
    ///
    /// # Errors
    /// The index cannot be read, nor made anew.
    pub fn transitions(&mut self, item: Option<Ulid>) -> Result<Vec<TransitionRow>, IndexError> {
        self.ask(|connection| rows::transitions(connection, item))
    }

    fn ask<T>(
        &mut self,
        query: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, IndexError> {
        match query(&self.connection) {
            Err(error) if self.place == IndexPlace::File => {
                self.recover(&error)?;
                Ok(query(&self.connection)?)
            }
            done => Ok(done?),
        }
    }

    /// Goes on after the file failed: with a new one if the old one is damaged, else in memory.
    fn recover(&mut self, error: &rusqlite::Error) -> Result<(), IndexError> {
        // The old file is closed before it is removed.
        self.connection = place::in_memory(&self.workspace)?;
        if place::is_damage(error)
            && let Ok(mut fresh) = place::make_anew(&self.workspace)
            && catch_up::catch_up(&mut fresh, &self.workspace).is_ok()
        {
            self.connection = fresh;
            return Ok(());
        }
        self.place = IndexPlace::Memory { why: error.to_string() };
        catch_up::catch_up(&mut self.connection, &self.workspace)
    }
}
