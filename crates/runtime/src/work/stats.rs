//! Figures about work items: how long phases take, how long items wait, what is tried again.

use std::collections::BTreeMap;

use countersign_format::event::EventType;
use countersign_format::exit::WorkPhase;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use serde::Serialize;

use crate::index::TransitionRow;

/// What can be said of all items.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WorkFigures {
    /// Items that were opened.
    pub items: u64,
    /// Items that are done.
    pub completed: u64,
    /// Items that are blocked now.
    pub blocked: u64,
    /// Exit signals that were not taken.
    pub refused_exits: u64,
    /// By phase, those that no item was ever in left out.
    pub phases: BTreeMap<WorkPhase, PhaseFigures>,
}

/// What can be said of one phase. Times are in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PhaseFigures {
    /// Items that are in it now.
    pub now: u64,
    /// Times an item left it.
    pub left: u64,
    /// Times an item was blocked in it.
    pub blocked: u64,
    /// Agents after the first that were needed. Who claims by hand runs none.
    pub retries: u64,
    /// From entering it to leaving it, half of them shorter.
    pub median_in_phase_ms: Option<i64>,
    /// The longest of those.
    pub longest_in_phase_ms: Option<i64>,
    /// From entering it to the first lease, half of them shorter: how long work lay about.
    pub median_handoff_ms: Option<i64>,
    /// The longest of those.
    pub longest_handoff_ms: Option<i64>,
}

/// What is noted of one phase while items are gone through.
#[derive(Debug, Default)]
struct Notes {
    figures: PhaseFigures,
    in_phase: Vec<i64>,
    handoffs: Vec<i64>,
}

/// Where one item stands while its transitions are gone through.
#[derive(Debug)]
struct Stand {
    item: Ulid,
    phase: WorkPhase,
    since: Timestamp,
    /// Whether somebody has held it since.
    taken: bool,
    /// Whether an agent was run since.
    tried: bool,
}

impl WorkFigures {
    /// The figures of transitions, which come item by item in their order.
    #[must_use]
    pub fn of(transitions: &[TransitionRow]) -> Self {
        let mut figures = Self::default();
        let mut notes: BTreeMap<WorkPhase, Notes> = BTreeMap::new();
        let mut stand: Option<Stand> = None;
        for row in transitions {
            if stand.as_ref().is_none_or(|stand| stand.item != row.item) {
                figures.settle(stand.take(), &mut notes);
                figures.items += 1;
                stand = Some(Stand {
                    item: row.item,
                    phase: row.phase_after,
                    since: row.at,
                    taken: false,
                    tried: false,
                });
            }
            if let Some(stand) = &mut stand {
                figures.pass(row, stand, &mut notes);
            }
        }
        figures.settle(stand, &mut notes);
        figures.phases = notes.into_iter().map(|(phase, notes)| (phase, notes.summed())).collect();
        figures
    }

    fn pass(
        &mut self,
        row: &TransitionRow,
        stand: &mut Stand,
        notes: &mut BTreeMap<WorkPhase, Notes>,
    ) {
        let passed = row.at.as_millis().saturating_sub(stand.since.as_millis());
        match row.event_type {
            EventType::ExitRefused => self.refused_exits += 1,
            EventType::LeaseGranted => {
                let notes = notes.entry(stand.phase).or_default();
                if !stand.taken {
                    notes.handoffs.push(passed);
                }
                stand.taken = true;
                if !row.by_hand {
                    notes.figures.retries += u64::from(stand.tried);
                    stand.tried = true;
                }
            }
            EventType::AgentSessionCompleted | EventType::WorkUnblocked => {
                let notes = notes.entry(stand.phase).or_default();
                notes.figures.left += 1;
                notes.in_phase.push(passed);
                if row.phase_after == WorkPhase::Blocked {
                    notes.figures.blocked += 1;
                }
                stand.phase = row.phase_after;
                stand.since = row.at;
                (stand.taken, stand.tried) = (false, false);
            }
            _ => {}
        }
    }

    fn settle(&mut self, stand: Option<Stand>, notes: &mut BTreeMap<WorkPhase, Notes>) {
        let Some(stand) = stand else { return };
        self.completed += u64::from(stand.phase == WorkPhase::Completed);
        self.blocked += u64::from(stand.phase == WorkPhase::Blocked);
        notes.entry(stand.phase).or_default().figures.now += 1;
    }
}

impl Notes {
    fn summed(mut self) -> PhaseFigures {
        let median = |times: &mut Vec<i64>| {
            times.sort_unstable();
            times.get(times.len() / 2).copied()
        };
        PhaseFigures {
            median_in_phase_ms: median(&mut self.in_phase),
            longest_in_phase_ms: self.in_phase.last().copied(),
            median_handoff_ms: median(&mut self.handoffs),
            longest_handoff_ms: self.handoffs.last().copied(),
            ..self.figures
        }
    }
}
