//! Finding traces: which ones fit, in which order, and a page of them.

use countersign_format::event::TraceKind;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use super::rows::{SELECT_TRACES, TraceRow, trace, whole};

/// Which traces are wanted. Nothing said is nothing asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceQuery {
    /// Any of these kinds.
    pub kinds: Vec<TraceKind>,
    /// Any of these states.
    pub statuses: Vec<TraceStatus>,
    /// Ended, or not.
    pub closed: Option<bool>,
    /// In its title, task, id or agents, whatever the case.
    pub text: Option<String>,
    /// Begun at this time or later.
    pub from: Option<Timestamp>,
    /// Begun before this time.
    pub to: Option<Timestamp>,
    /// Only these.
    pub only: Option<Vec<Ulid>>,
    /// None of these.
    pub except: Vec<Ulid>,
    /// The oldest first, instead of the newest.
    pub oldest_first: bool,
    /// How many of those that fit are left out first.
    pub offset: u64,
    /// At most so many.
    pub limit: u64,
}

/// Some of the traces that fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracePage {
    /// Those of this page.
    pub rows: Vec<TraceRow>,
    /// How many fit.
    pub matched: u64,
    /// How many there are.
    pub total: u64,
}

/// Conditions and the values that stand in them.
#[derive(Debug, Default)]
struct Conditions {
    parts: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    fn of(query: &TraceQuery) -> Self {
        let mut all = Self::default();
        all.any_of("kind", query.kinds.iter().map(|kind| kind.as_str()));
        all.any_of("status", query.statuses.iter().map(|status| status.as_str()));
        if let Some(closed) = query.closed {
            all.add("closed = ?", Value::Integer(closed.into()));
        }
        if let Some(text) = &query.text {
            all.add("instr(words, ?) > 0", Value::Text(text.to_lowercase()));
        }
        if let Some(from) = query.from {
            all.add("first_at >= ?", Value::Integer(from.as_millis()));
        }
        if let Some(to) = query.to {
            all.add("first_at < ?", Value::Integer(to.as_millis()));
        }
        if let Some(only) = &query.only {
            all.add("id IN (SELECT value FROM json_each(?))", listed(only));
        }
        if !query.except.is_empty() {
            all.add("id NOT IN (SELECT value FROM json_each(?))", listed(&query.except));
        }
        all
    }

    fn add(&mut self, part: &str, value: Value) {
        self.parts.push(part.to_owned());
        self.values.push(value);
    }

    fn any_of<'n>(&mut self, column: &str, names: impl Iterator<Item = &'n str>) {
        let before = self.values.len();
        self.values.extend(names.map(|name| Value::Text(name.to_owned())));
        let marks = vec!["?"; self.values.len() - before].join(", ");
        if !marks.is_empty() {
            self.parts.push(format!("{column} IN ({marks})"));
        }
    }

    fn sql(&self) -> String {
        match self.parts.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", self.parts.join(" AND ")),
        }
    }
}

/// Ids as one value: there may be more of them than a statement has room for.
fn listed(ids: &[Ulid]) -> Value {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    Value::Text(serde_json::Value::from(ids).to_string())
}

pub(super) fn find(connection: &Connection, query: &TraceQuery) -> rusqlite::Result<TracePage> {
    let conditions = Conditions::of(query);
    let count = |sql: &str, values: &[Value]| -> rusqlite::Result<u64> {
        let found: i64 = connection
            .prepare(&format!("SELECT count(*) FROM traces{sql}"))?
            .query_row(params_from_iter(values), |row| row.get(0))?;
        Ok(u64::try_from(found).unwrap_or(0))
    };
    let total = count("", &[])?;
    let matched = match conditions.parts.is_empty() {
        true => total,
        false => count(&conditions.sql(), &conditions.values)?,
    };
    let order = if query.oldest_first { "ASC" } else { "DESC" };
    let sql = format!("{SELECT_TRACES}{} ORDER BY id {order} LIMIT ? OFFSET ?", conditions.sql());
    let mut values = conditions.values;
    values.extend([Value::Integer(whole(query.limit)), Value::Integer(whole(query.offset))]);
    let rows = connection
        .prepare(&sql)?
        .query_map(params_from_iter(values), trace)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(TracePage { rows, matched, total })
}

pub(super) fn one(connection: &Connection, id: Ulid) -> rusqlite::Result<Option<TraceRow>> {
    connection
        .prepare(&format!("{SELECT_TRACES} WHERE id = ?"))?
        .query_row([id.to_string()], trace)
        .optional()
}

/// How long every trace is, by which a change is noticed.
pub(super) fn lengths(connection: &Connection) -> rusqlite::Result<Vec<(Ulid, i64)>> {
    connection
        .prepare("SELECT id, bytes FROM traces ORDER BY id")?
        .query_map([], |row| Ok((super::rows::parsed(row, 0)?, row.get(1)?)))?
        .collect()
}
