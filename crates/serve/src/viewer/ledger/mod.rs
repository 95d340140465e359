//! Ledgers as they are looked at: by place, by filter, from either end.
//!
//! Decides what is remembered of a ledger so that any line of a long one is found at once: where each
//! line begins, and, once somebody filters, what kind of event it is. Nothing of the content is kept.
//! What is remembered is thrown away when the file is not the one that it was.

mod cut;
mod filter;
mod lines;

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_runtime::store::LedgerId;
use serde::Serialize;
use serde_json::Value;

pub(super) use cut::{item, plain, references};
pub(super) use filter::EventFilter;
use filter::Matches;
use lines::LineTable;

/// Ledgers that are remembered; each holds a descriptor.
const LEDGERS_MAX: usize = 16;

/// One line of a ledger, for a list.
#[derive(Debug, Serialize)]
pub(super) struct EventItem {
    /// The place of the line, from 0.
    pub(super) index: u64,
    /// Its bytes, without the line break.
    pub(super) bytes: u64,
    /// What stands there.
    pub(super) event: Option<Value>,
    /// Whether something was left out.
    pub(super) cut: bool,
    /// Why nothing can be read.
    pub(super) unreadable: Option<String>,
}

/// How often each name occurs.
#[derive(Debug, Serialize)]
pub(super) struct NameCount {
    pub(super) name: String,
    pub(super) count: u64,
}

/// What occurs in a ledger.
#[derive(Debug, Serialize)]
pub(super) struct Facets {
    pub(super) total: u64,
    pub(super) types: Vec<NameCount>,
    pub(super) roles: Vec<NameCount>,
    pub(super) actors: Vec<NameCount>,
}

/// The ledgers that were looked at lately.
#[derive(Debug, Default)]
pub(super) struct Ledgers {
    recent: Mutex<VecDeque<(LedgerId, Arc<Mutex<LedgerView>>)>>,
}

/// One ledger that is looked at.
#[derive(Debug)]
pub(super) struct LedgerView {
    table: LineTable,
    matches: Matches,
}

impl Ledgers {
    /// Looks at the ledger in `path`, as it is now.
    pub(super) fn look<T>(
        &self,
        id: LedgerId,
        path: &Path,
        at: impl FnOnce(&mut LedgerView) -> io::Result<T>,
    ) -> io::Result<T> {
        let view = self.view(id, path)?;
        let mut view = view.lock().unwrap_or_else(PoisonError::into_inner);
        if !view.table.catch_up(path)? {
            view.matches = Matches::default();
        }
        at(&mut view)
    }

    fn view(&self, id: LedgerId, path: &Path) -> io::Result<Arc<Mutex<LedgerView>>> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let place = recent.iter().position(|(known, _)| *known == id);
        let view = match place.and_then(|place| recent.remove(place)) {
            Some((_, view)) => view,
            None => {
                let table = LineTable::open(path)?;
                Arc::new(Mutex::new(LedgerView { table, matches: Matches::default() }))
            }
        };
        recent.push_front((id, Arc::clone(&view)));
        recent.truncate(LEDGERS_MAX);
        Ok(view)
    }
}

impl LedgerView {
    /// How many lines there are.
    pub(super) fn total(&self) -> u64 {
        self.table.len() as u64
    }

    /// The bytes of a line, if there is one.
    pub(super) fn line(&self, index: u64) -> io::Result<Option<Vec<u8>>> {
        let Ok(index) = usize::try_from(index) else { return Ok(None) };
        self.table.line(index)
    }

    /// Some of the lines that fit, and how many fit.
    pub(super) fn page(
        &mut self,
        filter: &EventFilter,
        offset: u64,
        limit: u64,
    ) -> io::Result<(Vec<EventItem>, u64)> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let count = usize::try_from(limit).unwrap_or(usize::MAX);
        if filter.is_everything() {
            let all = self.table.len();
            let places = (0..all).skip(from).take(count);
            return Ok((self.items(places)?, all as u64));
        }
        let fitting = self.matches.of(filter, &mut self.table)?;
        let places = fitting.iter().skip(from).take(count).map(|&place| place as usize);
        Ok((self.items(places)?, fitting.len() as u64))
    }

    fn items(&self, places: impl Iterator<Item = usize>) -> io::Result<Vec<EventItem>> {
        let mut items = Vec::new();
        for place in places {
            if let Some(bytes) = self.table.too_long(place) {
                let unreadable = Some(format!("the line has {bytes} bytes: it is not looked at"));
                let index = place as u64;
                items.push(EventItem { index, bytes, event: None, cut: false, unreadable });
                continue;
            }
            if let Some(line) = self.table.line(place)? {
                items.push(item(place as u64, &line));
            }
        }
        Ok(items)
    }

    /// What occurs.
    pub(super) fn facets(&mut self) -> io::Result<Facets> {
        self.table.facets()
    }

    /// The places of lines that hold this text, at most so many.
    pub(super) fn holding(&mut self, text: &str, most: usize) -> io::Result<Vec<u64>> {
        filter::holding(&self.table, text, most)
    }
}
