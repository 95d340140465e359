//! The tables of the index, written and read. What goes into them is decided elsewhere.

use std::str::FromStr;

use countersign_format::event::{EventType, TraceKind};
use countersign_format::exit::WorkPhase;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::{TraceSession, TraceStatus};
use countersign_protocol::work::LeaseClock;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, Statement, Transaction, params};
use serde_json::{Value, json};

use super::catch_up::{Sight, Taken};
use super::sum::TraceSum;
use super::work::{TransitionRow, WorkRow};

/// A trace, as of its last event that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRow {
    /// Its id.
    pub id: Ulid,
    /// What it records; none if not one event can be read.
    pub kind: Option<TraceKind>,
    /// How it stands.
    pub status: Option<TraceStatus>,
    /// Whether it has ended.
    pub closed: bool,
    /// Events that can be read.
    pub events: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Hash of the last event.
    pub head: Option<Hash>,
    /// Time of the first event.
    pub first_at: Option<Timestamp>,
    /// Time of the last event.
    pub last_at: Option<Timestamp>,
    /// What people would call it: its task, its title, its aim, or for whom it was recorded.
    pub title: Option<String>,
    /// Why it cannot be read to its end.
    pub unreadable: Option<String>,
    summary: Option<String>,
}

impl TraceRow {
    /// Its summary, as [`crate::Workspace::summary`] gives it. `None` if not one event can be read.
    #[must_use]
    pub fn summary(&self) -> Option<TraceSession> {
        let mut summary: TraceSession = serde_json::from_str(self.summary.as_ref()?).ok()?;
        if self.unreadable.is_some() {
            summary.unknown.insert("unreadable_at".into(), json!(self.events));
        }
        Some(summary)
    }
}

/// A number as the database has it. Lengths and counts never come near its end.
pub(super) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that is not negative.
fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

fn strange(
    column: usize,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}

/// A text that stands for something.
pub(super) fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let text = row.get_ref(column)?.as_str().map_err(|error| strange(column, error))?;
    text.parse().map_err(|error| strange(column, error))
}

/// A name, of which `read` knows what it stands for.
fn named<T>(
    row: &Row<'_>,
    column: usize,
    read: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<Option<T>> {
    let name = row.get_ref(column)?.as_str_or_null().map_err(|error| strange(column, error))?;
    let Some(name) = name else { return Ok(None) };
    match read(name) {
        None => Err(strange(column, format!("`{name}` is not known here"))),
        known => Ok(known),
    }
}

fn phase(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<WorkPhase>> {
    named(row, column, |name| WorkPhase::parse(name).ok())
}

fn some<T>(found: Option<T>, column: usize) -> rusqlite::Result<T> {
    found.ok_or_else(|| strange(column, "nothing is there"))
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
}

fn status(name: &str) -> Option<TraceStatus> {
    serde_json::from_value(Value::from(name)).ok()
}

/// What is written in one transaction.
pub(super) struct Pen<'t> {
    known: Statement<'t>,
    known_item: Statement<'t>,
    put_trace: Statement<'t>,
    put_item: Statement<'t>,
    add_artifact: Statement<'t>,
    add_transition: Statement<'t>,
    forget: [Statement<'t>; 4],
}

impl<'t> Pen<'t> {
    pub(super) fn new(transaction: &'t Transaction<'_>) -> rusqlite::Result<Self> {
        let prepare = |sql: &str| transaction.prepare(sql);
        Ok(Self {
            known: prepare(
                "SELECT bytes, mtime, settled, read_to, last_line, title, last_at, summary
                 FROM traces WHERE id = ?1",
            )?,
            known_item: prepare(&format!("{SELECT_ITEMS} WHERE id = ?1"))?,
            put_trace: prepare(
                "INSERT OR REPLACE INTO traces (id, bytes, mtime, settled, read_to, last_line,
                    kind, status, closed, events, head, first_at, last_at, title, unreadable,
                    summary, words)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                    ?17)",
            )?,
            put_item: prepare(
                "INSERT OR REPLACE INTO work_items (id, label, title, phase, blocked_from, holder,
                    session_id, epoch, expires_at, phase_since, attempts, by_hand, opened_at,
                    pr_url, blocked_reason, clock_last, clock_ahead)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                    ?17)",
            )?,
            add_artifact: prepare(
                "INSERT OR IGNORE INTO trace_artifacts (trace, hash) VALUES (?1, ?2)",
            )?,
            add_transition: prepare(
                "INSERT INTO work_transitions (item, seq, at, type, phase_before, phase_after,
                    holder, epoch, session_id, by_hand, reason)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?,
            forget: [
                prepare("DELETE FROM traces WHERE id = ?1")?,
                prepare("DELETE FROM trace_artifacts WHERE trace = ?1")?,
                prepare("DELETE FROM work_items WHERE id = ?1")?,
                prepare("DELETE FROM work_transitions WHERE item = ?1")?,
            ],
        })
    }

    /// How far a trace was taken in, and how its file looked then.
    pub(super) fn known(&mut self, id: Ulid) -> rusqlite::Result<Option<(Sight, Taken)>> {
        let id = id.to_string();
        let found = self.known.query_row([&id], |row| {
            let sight = Sight { bytes: row.get(0)?, mtime: row.get(1)?, settled: row.get(2)? };
            let sum = match row.get::<_, Option<String>>(7)? {
                Some(summary) => Some(TraceSum {
                    session: serde_json::from_str(&summary).map_err(|error| strange(7, error))?,
                    title: row.get(5)?,
                    last_at: some(time(row, 6)?, 6)?,
                }),
                None => None,
            };
            let (read_to, last_line) = (count(row, 3)?, count(row, 4)?);
            Ok((sight, Taken { read_to, last_line, sum, work: None }))
        });
        let Some((sight, mut taken)) = found.optional()? else { return Ok(None) };
        taken.work = self.known_item.query_row([&id], item).optional()?;
        Ok(Some((sight, taken)))
    }

    pub(super) fn put(
        &mut self,
        id: Ulid,
        sight: Sight,
        taken: &Taken,
        unreadable: Option<&str>,
    ) -> rusqlite::Result<()> {
        let summary = taken.sum.as_ref().map(|sum| serde_json::to_string(&sum.session));
        let summary = summary
            .transpose()
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let sum = taken.sum.as_ref();
        let session = sum.map(|sum| &sum.session);
        self.put_trace.execute(params![
            id.to_string(),
            sight.bytes,
            sight.mtime,
            sight.settled,
            whole(taken.read_to),
            whole(taken.last_line),
            session.map(|session| session.kind.as_str()),
            session.map(|session| session.status.as_str()),
            session.is_some_and(|session| session.ended_at.is_some()),
            session.map_or(0, |session| whole(session.event_count)),
            session.map(|session| session.head_event_hash.to_hex()),
            session.map(|session| session.started_at.as_millis()),
            sum.map(|sum| sum.last_at.as_millis()),
            sum.and_then(|sum| sum.title.as_deref()),
            unreadable,
            summary,
            sum.map_or_else(String::new, TraceSum::words),
        ])?;
        match &taken.work {
            Some(item) => self.put_item(item),
            None => Ok(()),
        }
    }

    /// Keeps a trace of which nothing is known but why.
    pub(super) fn put_unreadable(
        &mut self,
        id: Ulid,
        sight: Sight,
        why: &str,
    ) -> rusqlite::Result<()> {
        self.forget(id)?;
        self.put(id, sight, &Taken::default(), Some(why))
    }

    fn put_item(&mut self, item: &WorkRow) -> rusqlite::Result<()> {
        self.put_item.execute(params![
            item.id.to_string(),
            item.label,
            item.title,
            item.phase.as_str(),
            item.blocked_from.map(WorkPhase::as_str),
            item.holder,
            item.session_id,
            whole(item.epoch),
            item.expires_at.map(Timestamp::as_millis),
            item.phase_since.as_millis(),
            whole(item.attempts),
            item.by_hand,
            item.opened_at.as_millis(),
            item.pr_url,
            item.blocked_reason,
            item.clock.last.map(Timestamp::as_millis),
            item.clock.ahead,
        ])?;
        Ok(())
    }

    /// Whether the trace did not have it before.
    pub(super) fn add_artifact(&mut self, id: Ulid, hash: &Hash) -> rusqlite::Result<bool> {
        Ok(self.add_artifact.execute(params![id.to_string(), hash.as_bytes()])? > 0)
    }

    pub(super) fn add_transition(&mut self, row: &TransitionRow) -> rusqlite::Result<()> {
        self.add_transition.execute(params![
            row.item.to_string(),
            whole(row.seq),
            row.at.as_millis(),
            row.event_type.as_str(),
            row.phase_before.map(WorkPhase::as_str),
            row.phase_after.as_str(),
            row.holder,
            row.epoch.map(whole),
            row.session_id,
            row.by_hand,
            row.reason,
        ])?;
        Ok(())
    }

    pub(super) fn forget(&mut self, id: Ulid) -> rusqlite::Result<()> {
        let id = id.to_string();
        for statement in &mut self.forget {
            statement.execute([&id])?;
        }
        Ok(())
    }
}

pub(super) const SELECT_TRACES: &str =
    "SELECT id, kind, status, closed, events, bytes, head, first_at, last_at, title,
    unreadable, summary FROM traces";

pub(super) fn trace(row: &Row<'_>) -> rusqlite::Result<TraceRow> {
    Ok(TraceRow {
        id: parsed(row, 0)?,
        kind: named(row, 1, TraceKind::parse)?,
        status: named(row, 2, status)?,
        closed: row.get(3)?,
        events: count(row, 4)?,
        bytes: count(row, 5)?,
        head: named(row, 6, |head| head.parse().ok())?,
        first_at: time(row, 7)?,
        last_at: time(row, 8)?,
        title: row.get(9)?,
        unreadable: row.get(10)?,
        summary: row.get(11)?,
    })
}

pub(super) fn traces(connection: &Connection) -> rusqlite::Result<Vec<TraceRow>> {
    connection.prepare(&format!("{SELECT_TRACES} ORDER BY id"))?.query_map([], trace)?.collect()
}

pub(super) const SELECT_ITEMS: &str =
    "SELECT id, label, title, phase, blocked_from, holder, session_id, epoch,
    expires_at, phase_since, attempts, by_hand, opened_at, pr_url, blocked_reason,
    clock_last, clock_ahead FROM work_items";

pub(super) fn item(row: &Row<'_>) -> rusqlite::Result<WorkRow> {
    Ok(WorkRow {
        id: parsed(row, 0)?,
        label: row.get(1)?,
        title: row.get(2)?,
        phase: some(phase(row, 3)?, 3)?,
        blocked_from: phase(row, 4)?,
        holder: row.get(5)?,
        session_id: row.get(6)?,
        epoch: count(row, 7)?,
        expires_at: time(row, 8)?,
        phase_since: some(time(row, 9)?, 9)?,
        attempts: count(row, 10)?,
        by_hand: row.get(11)?,
        opened_at: some(time(row, 12)?, 12)?,
        pr_url: row.get(13)?,
        blocked_reason: row.get(14)?,
        clock: LeaseClock { last: time(row, 15)?, ahead: row.get(16)? },
    })
}

pub(super) fn work_items(connection: &Connection) -> rusqlite::Result<Vec<WorkRow>> {
    connection.prepare(&format!("{SELECT_ITEMS} ORDER BY id"))?.query_map([], item)?.collect()
}

pub(super) fn work_items_named(
    connection: &Connection,
    label: &str,
) -> rusqlite::Result<Vec<Ulid>> {
    let mut statement =
        connection.prepare("SELECT id FROM work_items WHERE label = ?1 ORDER BY id")?;
    statement.query_map([label], |row| parsed(row, 0))?.collect()
}

pub(super) fn transitions(
    connection: &Connection,
    of: Option<Ulid>,
) -> rusqlite::Result<Vec<TransitionRow>> {
    let some_item = if of.is_some() { "WHERE item = ?1" } else { "WHERE ?1 IS NULL" };
    let mut statement = connection.prepare(&format!(
        "SELECT item, seq, at, type, phase_before, phase_after, holder, epoch, session_id, by_hand,
            reason
         FROM work_transitions {some_item} ORDER BY item, seq"
    ))?;
    let rows = statement.query_map([of.map(|id| id.to_string())], |row| {
        let epoch: Option<i64> = row.get(7)?;
        Ok(TransitionRow {
            item: parsed(row, 0)?,
            seq: count(row, 1)?,
            at: some(time(row, 2)?, 2)?,
            event_type: some(named(row, 3, EventType::parse)?, 3)?,
            phase_before: phase(row, 4)?,
            phase_after: some(phase(row, 5)?, 5)?,
            holder: row.get(6)?,
            epoch: epoch.map(|_| count(row, 7)).transpose()?,
            session_id: row.get(8)?,
            by_hand: row.get(9)?,
            reason: row.get(10)?,
        })
    })?;
    rows.collect()
}
