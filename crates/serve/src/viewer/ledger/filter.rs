//! Which lines of a ledger fit: by type, role, agent and text.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use memchr::memmem::Finder;

use super::lines::LineTable;

/// Filters whose results are remembered for one ledger.
const FILTERS_MAX: usize = 6;

/// What is asked of a line. Nothing said is nothing asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::viewer) struct EventFilter {
    /// Any of these types.
    pub(in crate::viewer) types: Vec<String>,
    /// Any of these roles.
    pub(in crate::viewer) roles: Vec<String>,
    /// Any of these agents.
    pub(in crate::viewer) actors: Vec<String>,
    /// Somewhere in the line; the case of ASCII letters does not count.
    pub(in crate::viewer) text: Option<String>,
}

impl EventFilter {
    pub(super) fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    fn by_name(&self) -> bool {
        !(self.types.is_empty() && self.roles.is_empty() && self.actors.is_empty())
    }
}

/// What filters came to, as far as the ledger had come then.
#[derive(Debug, Default)]
pub(super) struct Matches {
    recent: VecDeque<Matched>,
}

#[derive(Debug)]
struct Matched {
    filter: EventFilter,
    seen: usize,
    places: Arc<Vec<u32>>,
}

impl Matches {
    /// The places of all lines that fit.
    pub(super) fn of(
        &mut self,
        filter: &EventFilter,
        table: &mut LineTable,
    ) -> io::Result<Arc<Vec<u32>>> {
        let place = self.recent.iter().position(|matched| matched.filter == *filter);
        let mut matched = match place.and_then(|place| self.recent.remove(place)) {
            Some(matched) => matched,
            None => Matched { filter: filter.clone(), seen: 0, places: Arc::default() },
        };
        if matched.seen < table.len() {
            let mut places = Arc::unwrap_or_clone(std::mem::take(&mut matched.places));
            add(filter, table, matched.seen, &mut places)?;
            matched.places = Arc::new(places);
            matched.seen = table.len();
        }
        let places = Arc::clone(&matched.places);
        self.recent.push_front(matched);
        self.recent.truncate(FILTERS_MAX);
        Ok(places)
    }
}

/// Adds the places from `from` on that fit.
fn add(
    filter: &EventFilter,
    table: &mut LineTable,
    from: usize,
    places: &mut Vec<u32>,
) -> io::Result<()> {
    let named: Option<Vec<bool>> = match filter.by_name() {
        true => Some(by_name(filter, table)?),
        false => None,
    };
    let fits = |place: usize| named.as_ref().is_none_or(|named| named.get(place) == Some(&true));
    let number = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
    let Some(text) = &filter.text else {
        places.extend((from..table.len()).filter(|&place| fits(place)).map(number));
        return Ok(());
    };
    let wanted = text.to_ascii_lowercase();
    let finder = Finder::new(wanted.as_bytes());
    let mut folded = Vec::new();
    table.each(from, |place, line| {
        if fits(place) {
            folded.clear();
            folded.extend(line.iter().map(u8::to_ascii_lowercase));
            if finder.find(&folded).is_some() {
                places.push(number(place));
            }
        }
        true
    })
}

/// For each line whether its type, role and agent are among those that are wanted.
fn by_name(filter: &EventFilter, table: &mut LineTable) -> io::Result<Vec<bool>> {
    table.facts()?;
    let types = table.types.known(&filter.types);
    let roles = table.roles.known(&filter.roles);
    let actors = table.actors.known(&filter.actors);
    let any = |wanted: &[String], numbers: &[u16], number: u16| {
        wanted.is_empty() || numbers.contains(&number)
    };
    let facts = table.facts()?;
    Ok(facts
        .iter()
        .map(|fact| {
            any(&filter.types, &types, fact.event_type)
                && any(&filter.roles, &roles, fact.role)
                && any(&filter.actors, &actors, fact.actor)
        })
        .collect())
}

/// The places of lines that hold exactly this text, at most `most`.
pub(super) fn holding(table: &LineTable, text: &str, most: usize) -> io::Result<Vec<u64>> {
    let finder = Finder::new(text.as_bytes());
    let mut places = Vec::new();
    table.each(0, |place, line| {
        if finder.find(line).is_some() {
            places.push(place as u64);
        }
        places.len() < most
    })?;
    Ok(places)
}
