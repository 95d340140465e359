//! The risk model: counts of outcomes per cell, and where they came from.
//!
//! Holds nothing but whole numbers and names of sources, so that the same outcomes always give the
//! same bytes. How far every source has been learned is part of it: learning twice changes nothing.

use std::collections::BTreeMap;

use countersign_format::id::Ulid;
use countersign_format::json::{self, JsonError};
use serde::{Deserialize, Serialize};

use super::cell::Cell;

/// The version of the shape of models.
pub const MODEL_SCHEMA: &str = "1.0.0";
/// Bytes of a model.
pub const MODEL_BYTES_MAX: usize = 8 << 20;
/// JSON elements of a model: three for every trace that was learned from, and then some.
const ELEMENTS_MAX: usize = 1_000_000;
/// Outcomes that are counted for one cell.
const COUNT_MAX: u64 = 1 << 40;

/// What became of changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// How many failed.
    pub failed: u64,
    /// How many did not.
    pub succeeded: u64,
}

impl Outcomes {
    fn count(&mut self, success: bool) {
        let count = if success { &mut self.succeeded } else { &mut self.failed };
        *count = count.saturating_add(1).min(COUNT_MAX);
    }

    const fn and(self, other: Self) -> Self {
        Self {
            failed: self.failed.saturating_add(other.failed),
            succeeded: self.succeeded.saturating_add(other.succeeded),
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.failed.saturating_add(self.succeeded)
    }
}

/// Outcomes by cell; cells without any are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Row>", into = "Vec<Row>")]
pub struct CellCounts(BTreeMap<Cell, Outcomes>);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    cell: Cell,
    failed: u64,
    succeeded: u64,
}

impl CellCounts {
    /// Counts one outcome.
    pub fn count(&mut self, cell: Cell, success: bool) {
        self.0.entry(cell).or_default().count(success);
    }

    /// The outcomes of one cell.
    #[must_use]
    pub fn of(&self, cell: Cell) -> Outcomes {
        self.0.get(&cell).copied().unwrap_or_default()
    }

    /// The outcomes of all cells together.
    #[must_use]
    pub fn total(&self) -> Outcomes {
        self.0.values().fold(Outcomes::default(), |sum, outcomes| sum.and(*outcomes))
    }
}

impl TryFrom<Vec<Row>> for CellCounts {
    type Error = String;

    fn try_from(rows: Vec<Row>) -> Result<Self, String> {
        let mut counts = Self::default();
        for Row { cell, failed, succeeded } in rows {
            if counts.0.last_key_value().is_some_and(|(last, _)| *last >= cell) {
                return Err(format!("cell {cell} is out of order"));
            }
            if failed > COUNT_MAX || succeeded > COUNT_MAX || failed + succeeded == 0 {
                return Err(format!(
                    "cell {cell} counts {failed} and {succeeded}: there must be at least one \
                     outcome, and at most {COUNT_MAX} of a kind"
                ));
            }
            counts.0.insert(cell, Outcomes { failed, succeeded });
        }
        Ok(counts)
    }
}

impl From<CellCounts> for Vec<Row> {
    fn from(counts: CellCounts) -> Self {
        let row = |(cell, Outcomes { failed, succeeded })| Row { cell, failed, succeeded };
        counts.0.into_iter().map(row).collect()
    }
}

/// How far a trace has been learned: events that were looked at, for either kind of outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceLearned {
    /// For outcomes that the recorder saw.
    pub seen: u64,
    /// For outcomes that the agent itself reported.
    pub reported: u64,
}

/// What was learned from the history of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryLearned {
    /// The commit up to which it was learned.
    pub head: String,
    /// How many commits were counted.
    pub commits: u64,
    /// What became of them.
    pub cells: CellCounts,
}

/// What has been learned from outcomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskModel {
    schema_version: String,
    /// Outcomes that the recorder saw.
    seen: CellCounts,
    /// Outcomes that agents reported of themselves.
    reported: CellCounts,
    traces: BTreeMap<String, TraceLearned>,
    histories: BTreeMap<String, HistoryLearned>,
}

/// Why some bytes are no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelFault {
    /// Not JSON that two readers agree about.
    #[error("the model is not strict JSON: {0}")]
    Json(#[from] JsonError),
    /// Not of the shape of one, or with numbers that none can have.
    #[error("the model cannot be used: {what}")]
    Shape {
        /// What is wrong.
        what: String,
    },
    /// Written for another version of the gate.
    #[error("the model has schema version `{found}`, this gate reads {MODEL_SCHEMA}")]
    Version {
        /// The version that it names.
        found: String,
    },
}

impl Default for RiskModel {
    fn default() -> Self {
        Self {
            schema_version: MODEL_SCHEMA.to_owned(),
            seen: CellCounts::default(),
            reported: CellCounts::default(),
            traces: BTreeMap::new(),
            histories: BTreeMap::new(),
        }
    }
}

impl RiskModel {
    /// Reads a model.
    ///
    /// # Errors
    /// The bytes are no model.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelFault> {
        let value = json::read_within(bytes, MODEL_BYTES_MAX, ELEMENTS_MAX)?;
        let shape = |what: String| ModelFault::Shape { what };
        if let Some(found) = value.get("schema_version").and_then(json::Value::as_str)
            && found != MODEL_SCHEMA
        {
            return Err(ModelFault::Version { found: found.to_owned() });
        }
        let model: Self = serde_json::from_value(value).map_err(|it| shape(it.to_string()))?;
        if let Some(name) = model.traces.keys().find(|name| name.parse::<Ulid>().is_err()) {
            return Err(shape(format!("`{name}` is no id of a trace")));
        }
        let heads = model.histories.values().map(|history| &history.head);
        if let Some(name) = model.histories.keys().chain(heads).find(|name| !is_commit(name)) {
            return Err(shape(format!("`{name}` is no id of a commit")));
        }
        Ok(model)
    }

    /// Its canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        json::to_bytes(&serde_json::to_value(self).unwrap_or_default())
    }

    /// Counts an outcome that the recorder saw.
    pub fn learn(&mut self, cell: Cell, success: bool) {
        self.seen.count(cell, success);
    }

    /// Counts an outcome that an agent reported of itself.
    pub fn learn_reported(&mut self, cell: Cell, success: bool) {
        self.reported.count(cell, success);
    }

    /// How far a trace has been learned.
    #[must_use]
    pub fn learned_of(&self, trace: Ulid) -> TraceLearned {
        self.traces.get(&trace.to_string()).copied().unwrap_or_default()
    }

    /// Notes how far a trace has been learned.
    pub fn note_trace(&mut self, trace: Ulid, learned: TraceLearned) {
        self.traces.insert(trace.to_string(), learned);
    }

    /// Replaces what was learned from the repository that begins with the commit `root`.
    pub fn learn_history(&mut self, root: &str, history: HistoryLearned) {
        self.histories.insert(root.to_owned(), history);
    }

    /// What became of all changes in a cell.
    #[must_use]
    pub fn outcomes(&self, cell: Cell) -> Outcomes {
        self.parts().map(|counts| counts.of(cell)).fold(Outcomes::default(), Outcomes::and)
    }

    /// The cells of which something is known, in order.
    pub fn cells(&self) -> impl Iterator<Item = (Cell, Outcomes)> {
        let mut cells: Vec<Cell> =
            self.parts().flat_map(|counts| counts.0.keys().copied()).collect();
        cells.sort_unstable();
        cells.dedup();
        cells.into_iter().map(|cell| (cell, self.outcomes(cell)))
    }

    /// Outcomes that the recorder saw.
    #[must_use]
    pub const fn seen(&self) -> &CellCounts {
        &self.seen
    }

    /// Outcomes that agents reported of themselves.
    #[must_use]
    pub const fn reported(&self) -> &CellCounts {
        &self.reported
    }

    /// How many traces were learned from.
    #[must_use]
    pub fn trace_count(&self) -> usize {
        self.traces.len()
    }

    /// What was learned from histories, by the first commit of the repository.
    #[must_use]
    pub const fn histories(&self) -> &BTreeMap<String, HistoryLearned> {
        &self.histories
    }

    fn parts(&self) -> impl Iterator<Item = &CellCounts> {
        let histories = self.histories.values().map(|history| &history.cells);
        [&self.seen, &self.reported].into_iter().chain(histories)
    }
}

/// Whether this is the id of a commit: a SHA-1 or a SHA-256 in hex.
fn is_commit(name: &str) -> bool {
    let hex = name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    hex && matches!(name.len(), 40 | 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "01arz3ndektsv4rrffq69g5fav";

    fn model() -> RiskModel {
        let cell = |index| Cell::new(index).unwrap();
        let mut model = RiskModel::default();
        model.learn(cell(0), true);
        model.learn(cell(0), false);
        model.learn(cell(1023), true);
        model.learn_reported(cell(5), true);
        model.note_trace(TRACE.parse().unwrap(), TraceLearned { seen: 12, reported: 3 });
        let mut cells = CellCounts::default();
        cells.count(cell(0), true);
        let head = "b".repeat(40);
        model.learn_history(&"a".repeat(40), HistoryLearned { head, commits: 1, cells });
        model
    }

    #[test]
    fn a_model_reads_back_from_its_canonical_bytes() {
        let bytes = model().to_bytes();
        let expected = format!(
            "{{\"histories\":{{\"{}\":{{\"cells\":[{{\"cell\":0,\"failed\":0,\"succeeded\":1}}],\
             \"commits\":1,\"head\":\"{}\"}}}},\"reported\":[{{\"cell\":5,\"failed\":0,\
             \"succeeded\":1}}],\"schema_version\":\"1.0.0\",\"seen\":[{{\"cell\":0,\"failed\":1,\
             \"succeeded\":1}},{{\"cell\":1023,\"failed\":0,\"succeeded\":1}}],\"traces\":\
             {{\"{TRACE}\":{{\"reported\":3,\"seen\":12}}}}}}",
            "a".repeat(40),
            "b".repeat(40),
        );
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
        assert_eq!(RiskModel::from_bytes(&bytes), Ok(model()));
    }

    #[test]
    fn outcomes_of_all_sources_are_added_up() {
        let of = |index| model().outcomes(Cell::new(index).unwrap());
        assert_eq!(of(0), Outcomes { failed: 1, succeeded: 2 });
        assert_eq!(of(5), Outcomes { failed: 0, succeeded: 1 });
        assert_eq!(of(6), Outcomes::default());
        let cells: Vec<u16> = model().cells().map(|(cell, _)| cell.index()).collect();
        assert_eq!(cells, [0, 5, 1023]);
    }

    #[test]
    fn learning_a_history_again_replaces_what_it_gave() {
        let mut again = model();
        let history = again.histories()[&"a".repeat(40)].clone();
        again.learn_history(&"a".repeat(40), history);
        assert_eq!(again, model());
    }

    #[test]
    fn numbers_and_names_that_no_model_has_are_refused() {
        let with = |from: &str, to: &str| {
            let text = String::from_utf8(model().to_bytes()).unwrap();
            assert!(text.contains(from), "{from}");
            RiskModel::from_bytes(text.replacen(from, to, 1).as_bytes())
        };
        let table = [
            ("\"cell\":1023", "\"cell\":1024"),
            ("\"cell\":1023", "\"cell\":0"),
            ("\"failed\":1", "\"failed\":-1"),
            ("\"failed\":1", "\"failed\":1.5"),
            ("\"failed\":1", "\"failed\":1099511627777"),
            ("\"cell\":5,\"failed\":0,\"succeeded\":1", "\"cell\":5,\"failed\":0,\"succeeded\":0"),
            (TRACE, "../../etc/passwd"),
            ("bbbb", "BBBB"),
            ("\"seen\":12", "\"seen\":12,\"more\":1"),
            ("\"commits\"", "\"commit\""),
        ];
        for (from, to) in table {
            assert!(matches!(with(from, to), Err(ModelFault::Shape { .. })), "{from} -> {to}");
        }
        let found = "2.0.0".to_owned();
        assert_eq!(with("1.0.0", "2.0.0"), Err(ModelFault::Version { found }));
        assert!(matches!(RiskModel::from_bytes(b"[]"), Err(ModelFault::Shape { .. })));
        assert!(matches!(RiskModel::from_bytes(b"{"), Err(ModelFault::Json(_))));
    }
}
