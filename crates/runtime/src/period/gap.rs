//! Where the list of the log and the traces on disk differ.

use countersign_format::time::Timestamp;
use serde::Serialize;

/// How they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PeriodGapKind {
    /// The log knows the trace, and its ledger is not there.
    Gone,
    /// The ledger has fewer events than the log knows of.
    Short,
    /// The ledger is there, and the log does not know it.
    Unknown,
    /// Lines of the ledger, or all of it, cannot be read.
    Unreadable,
}

impl PeriodGapKind {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Short => "short",
            Self::Unknown => "unknown",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Something that is missing, or that is there and should not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PeriodGap {
    /// How.
    pub kind: PeriodGapKind,
    /// The trace; `log` for the workspace log.
    pub trace_id: String,
    /// The last that was heard of it.
    pub last_at: Option<Timestamp>,
    /// In words.
    pub what: String,
    /// What can be done.
    pub hint: String,
}

/// A ledger as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OnDisk {
    /// There is none, or none with a whole line.
    Absent,
    /// It has so many whole lines, of which so many are no events of this trace.
    Lines { whole: u64, unreadable: u64 },
    /// It cannot be looked at.
    Failed(String),
}

/// What differs between the log, which knows so many events, and the disk.
pub(super) fn gaps(
    trace_id: &str,
    logged: Option<u64>,
    disk: &OnDisk,
    last_at: Option<Timestamp>,
) -> Vec<PeriodGap> {
    let gap = |kind, what, hint: String| PeriodGap {
        kind,
        trace_id: trace_id.to_owned(),
        last_at,
        what,
        hint,
    };
    let verify = format!("countersign verify {trace_id}");
    let mut gaps = Vec::new();
    match (logged, disk) {
        (Some(size), OnDisk::Absent) => gaps.push(gap(
            PeriodGapKind::Gone,
            format!("the log knows {}, and the trace is gone", events(size)),
            "look for a copy of its directory: nothing else can bring it back".to_owned(),
        )),
        (Some(size), OnDisk::Lines { whole, .. }) if *whole < size => gaps.push(gap(
            PeriodGapKind::Short,
            format!("the log knows {}, and the trace has {}", events(size), events(*whole)),
            verify.clone(),
        )),
        (None, OnDisk::Lines { .. } | OnDisk::Failed(_)) => gaps.push(gap(
            PeriodGapKind::Unknown,
            "the trace is there, and the log does not know it".to_owned(),
            "countersign doctor --repair tells the log, if a writer died before it could"
                .to_owned(),
        )),
        _ => {}
    }
    match disk {
        OnDisk::Lines { unreadable: unreadable @ 1.., whole } => {
            let what = format!("{unreadable} of its {whole} lines cannot be read as its events");
            gaps.push(gap(PeriodGapKind::Unreadable, what, verify));
        }
        OnDisk::Failed(why) => {
            gaps.push(gap(PeriodGapKind::Unreadable, format!("it cannot be read: {why}"), verify));
        }
        _ => {}
    }
    gaps
}

fn events(count: u64) -> String {
    match count {
        1 => "1 event".to_owned(),
        count => format!("{count} events"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(logged: Option<u64>, disk: &OnDisk) -> Vec<PeriodGapKind> {
        gaps("t", logged, disk, None).into_iter().map(|gap| gap.kind).collect()
    }

    #[test]
    fn what_is_missing_or_unknown_is_a_gap_and_what_grew_is_none() {
        use PeriodGapKind as K;
        let lines = |whole, unreadable| OnDisk::Lines { whole, unreadable };
        let failed = OnDisk::Failed("permission denied".to_owned());
        assert_eq!(kinds(Some(3), &OnDisk::Absent), [K::Gone]);
        assert_eq!(kinds(Some(3), &lines(2, 0)), [K::Short]);
        assert_eq!(kinds(Some(3), &lines(3, 0)), []);
        assert_eq!(kinds(Some(3), &lines(4, 0)), []);
        assert_eq!(kinds(Some(3), &lines(2, 1)), [K::Short, K::Unreadable]);
        assert_eq!(kinds(None, &lines(4, 0)), [K::Unknown]);
        assert_eq!(kinds(None, &OnDisk::Absent), []);
        assert_eq!(kinds(Some(1), &failed), [K::Unreadable]);
    }
}
