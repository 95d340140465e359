//! The board: a page of the work items that fit, and how many of them stand in each phase.

use countersign_format::exit::WorkPhase;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use super::rows::{SELECT_ITEMS, item, whole};
use super::{Index, IndexError, WorkRow};

/// What a search looks in. `lower` knows ASCII letters only.
const FITS: &str = "instr(lower(coalesce(label, '') || ' ' || title || ' ' || id || ' ' ||
    coalesce(holder, '')), ?) > 0";

/// Which work items are wanted. Nothing said is nothing asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoardQuery {
    /// Any of these phases.
    pub phases: Vec<WorkPhase>,
    /// In its label, title, id or holder. ASCII letters of either case are alike.
    pub text: Option<String>,
    /// Those that were opened last first, instead of last.
    pub newest_first: bool,
    /// How many of those that fit are left out first.
    pub offset: u64,
    /// At most so many.
    pub limit: u64,
}

/// Some of the work items that fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardPage {
    /// Those of this page.
    pub rows: Vec<WorkRow>,
    /// How many fit.
    pub matched: u64,
    /// How many there are.
    pub total: u64,
    /// What stands in each phase of those in which the text occurs, whatever phases are asked for.
    pub phases: Vec<PhaseCount>,
}

/// How many work items stand in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseCount {
    /// The phase.
    pub phase: WorkPhase,
    /// How many there are.
    pub items: u64,
    /// How many of them are held, by a lease that has not run out.
    pub held: u64,
}

impl Index {
    /// A page of the work items that fit, and the counts of all phases at `now`.
    ///
    /// # Errors
    /// The index cannot be read, nor made anew.
    pub fn board(&mut self, query: &BoardQuery, now: Timestamp) -> Result<BoardPage, IndexError> {
        self.ask(|connection| board(connection, query, now))
    }

    /// One work item.
    ///
    /// # Errors
    /// The index cannot be read, nor made anew.
    pub fn find_work_item(&mut self, id: Ulid) -> Result<Option<WorkRow>, IndexError> {
        self.ask(|connection| {
            connection
                .prepare(&format!("{SELECT_ITEMS} WHERE id = ?"))?
                .query_row([id.to_string()], item)
                .optional()
        })
    }
}

fn board(
    connection: &Connection,
    query: &BoardQuery,
    now: Timestamp,
) -> rusqlite::Result<BoardPage> {
    let text = query.text.as_ref().map(|text| Value::Text(text.to_ascii_lowercase()));
    let counts = counts(connection, text.clone(), now)?;
    let total: i64 =
        connection.query_row("SELECT count(*) FROM work_items", [], |row| row.get(0))?;
    let wanted = |phase: WorkPhase| query.phases.is_empty() || query.phases.contains(&phase);
    let matched = counts.iter().filter(|it| wanted(it.phase)).map(|it| it.items).sum();
    let mut parts: Vec<String> = text.iter().map(|_| FITS.to_owned()).collect();
    let mut values: Vec<Value> = text.into_iter().collect();
    if !query.phases.is_empty() {
        parts.push(format!("phase IN ({})", vec!["?"; query.phases.len()].join(", ")));
        values.extend(query.phases.iter().map(|it| Value::Text(it.as_str().to_owned())));
    }
    let fits = match parts.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", parts.join(" AND ")),
    };
    let order = if query.newest_first { "DESC" } else { "ASC" };
    values.extend([Value::Integer(whole(query.limit)), Value::Integer(whole(query.offset))]);
    let rows = connection
        .prepare(&format!("{SELECT_ITEMS}{fits} ORDER BY id {order} LIMIT ? OFFSET ?"))?
        .query_map(params_from_iter(values), item)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(BoardPage { rows, matched, total: u64::try_from(total).unwrap_or(0), phases: counts })
}

/// What stands in each phase, in the order of the phases, also where that is nothing.
fn counts(
    connection: &Connection,
    text: Option<Value>,
    now: Timestamp,
) -> rusqlite::Result<Vec<PhaseCount>> {
    let fits = text.as_ref().map(|_| format!("WHERE {FITS}")).unwrap_or_default();
    let sql = format!(
        "SELECT phase, count(*),
            sum(holder IS NOT NULL AND (expires_at IS NULL OR expires_at > ?))
         FROM work_items {fits} GROUP BY phase"
    );
    let values = std::iter::once(Value::Integer(now.as_millis())).chain(text);
    let found = connection
        .prepare(&sql)?
        .query_map(params_from_iter(values), |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let count = |phase: WorkPhase| {
        let (items, held) = found
            .iter()
            .find(|(name, ..)| name == phase.as_str())
            .map_or((0, 0), |(_, items, held)| (*items, *held));
        let positive = |number: i64| u64::try_from(number).unwrap_or(0);
        PhaseCount { phase, items: positive(items), held: positive(held) }
    };
    Ok(WorkPhase::ALL.into_iter().map(count).collect())
}
