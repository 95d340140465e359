//! `countersign work list`.

use countersign_format::exit::WorkPhase;
use countersign_format::time::Timestamp;
use countersign_runtime::index::WorkRow;
use serde_json::json;

use super::item::unreadable;
use super::told::{name, since, span};
use crate::{Caller, CommandError, Exit, Format};

/// The items by phase, with who holds them and for how long
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Also those that are completed
    #[arg(long)]
    all: bool,
    /// Only those in this phase
    #[arg(long, value_name = "PHASE", value_parser = WorkPhase::parse)]
    phase: Option<WorkPhase>,
}

pub(super) fn run(args: &ListArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let mut index = workspace.index().map_err(unreadable)?;
    let mut rows = index.work_items().map_err(unreadable)?;
    let everything = rows.len();
    rows.retain(|row| match args.phase {
        Some(phase) => row.phase == phase,
        None => args.all || row.phase != WorkPhase::Completed,
    });
    let now = workspace.now();
    if caller.output.format() == Format::Json {
        let rows: Vec<_> = rows.iter().map(|row| as_json(row, now)).collect();
        caller.output.json(&rows)?;
        return Ok(Exit::Done);
    }
    for line in board(&mut rows, now) {
        caller.output.line(line)?;
    }
    if rows.is_empty() {
        caller.output.note(match everything {
            0 => "no work items yet",
            _ => "no such items; `--all` also shows those that are completed",
        });
    }
    Ok(Exit::Done)
}

/// The items by phase, those first that have been in it longest.
fn board(rows: &mut [WorkRow], now: Timestamp) -> Vec<String> {
    rows.sort_by_key(|row| (row.phase, row.phase_since, row.id));
    let mut lines = Vec::with_capacity(rows.len());
    for phase in WorkPhase::ALL {
        let here: Vec<&WorkRow> = rows.iter().filter(|row| row.phase == phase).collect();
        if here.is_empty() {
            continue;
        }
        lines.push(format!("{phase} ({})", here.len()));
        let width = here.iter().map(|row| name(row).chars().count()).max().unwrap_or(0).min(26);
        for row in here {
            let (name, stand) = (name(row), stand(row, now));
            lines.push(format!("  {name:<width$}  {stand:<32}  {}", row.title));
        }
    }
    lines
}

/// Who holds it and for how long, or since when it waits.
fn stand(row: &WorkRow, now: Timestamp) -> String {
    let waits = since(row.phase_since, now);
    match (&row.holder, row.expires_at) {
        (Some(holder), Some(until)) if now < until => {
            let left = span(until.as_millis().saturating_sub(now.as_millis()));
            format!("held by {holder}, {left} left")
        }
        (Some(holder), Some(_)) => format!("free, the lease of {holder} ran out"),
        _ => match (row.phase, row.blocked_from) {
            (WorkPhase::Blocked, Some(from)) => format!("from {from} for {waits}"),
            (WorkPhase::Completed, _) => format!("done for {waits}"),
            _ => format!("free for {waits}"),
        },
    }
}

fn as_json(row: &WorkRow, now: Timestamp) -> serde_json::Value {
    json!({
        "item": row.id.to_string(),
        "label": row.label,
        "title": row.title,
        "phase": row.phase,
        "blocked_from": row.blocked_from,
        "blocked_reason": row.blocked_reason,
        "holder": row.holder,
        "session_id": row.session_id,
        "epoch": row.epoch,
        "expires_at": row.expires_at,
        "expired": row.expires_at.is_some_and(|until| now >= until),
        "phase_since": row.phase_since,
        "attempts": row.attempts,
        "opened_at": row.opened_at,
        "pr_url": row.pr_url,
    })
}

#[cfg(test)]
mod tests {
    use countersign_format::exit::{ExitReason, ExitSignal};
    use countersign_protocol::work::{Bearer, Claimant, SignalChannel, WorkExit};
    use countersign_runtime::work::{ExitAnswer, NewWork, WorkItem};
    use countersign_testkit::TestHome;
    use insta::assert_snapshot;

    use super::*;

    const SECOND: i64 = 1_000;
    const HOUR: i64 = 3_600 * SECOND;

    fn open(home: &TestHome, label: &str, phase: WorkPhase) -> WorkItem {
        home.workspace
            .open_work(&NewWork {
                title: format!("the work of {label}"),
                label: Some(label.to_owned()),
                phase,
                author_may_review: false,
                links: None,
            })
            .unwrap()
    }

    fn shown(home: &TestHome) -> String {
        let mut rows = home.workspace.index().unwrap().work_items().unwrap();
        board(&mut rows, home.workspace.now()).join("\n")
    }

    #[test]
    fn the_board_says_how_long_items_are_held_free_or_waiting() {
        let home = TestHome::new();
        let claim = |item: &WorkItem, holder: &str, millis| {
            item.claim(holder, None, millis, Claimant::ByHand).unwrap();
        };
        let leave = |item: &WorkItem, phase, exit_reason| {
            claim(item, "cyd", HOUR);
            let exit = WorkExit {
                epoch: 1,
                by: Bearer::Holder("cyd".to_owned()),
                signal: ExitSignal::new(phase, exit_reason),
                channel: SignalChannel::Operator,
                stored: None,
                evidence: None,
                commit: None,
                ci: None,
                links: None,
            };
            assert!(matches!(item.exit(exit).unwrap(), ExitAnswer::Moved { .. }));
        };
        let old = open(&home, "W-00001", WorkPhase::Draft);
        home.clock.advance(SECOND);
        open(&home, "W-5", WorkPhase::Draft);
        home.clock.advance(26 * HOUR);
        open(&home, "W-2", WorkPhase::Review);
        let held = open(&home, "W-3", WorkPhase::Draft);
        home.clock.advance(2 * HOUR + 5 * 60 * SECOND);
        let blocked = open(&home, "W-6", WorkPhase::Review);
        leave(&blocked, WorkPhase::Review, ExitReason::Blocked);
        home.clock.advance(SECOND);
        let done = open(&home, "W-7", WorkPhase::ReadyForMerge);
        leave(&done, WorkPhase::ReadyForMerge, ExitReason::Completed);
        claim(&old, "ann", 90 * SECOND);
        claim(&held, "bob", 20 * HOUR);
        home.clock.advance(30 * SECOND);
        open(&home, "W-4", WorkPhase::Draft);
        home.clock.advance(250);
        assert_snapshot!(shown(&home), @r"
        DRAFT (4)
          W-00001  held by ann, 59 s left            the work of W-00001
          W-5      free for 1 d 4 h                  the work of W-5
          W-3      held by bob, 19 h 59 min left     the work of W-3
          W-4      free for 250 ms                   the work of W-4
        REVIEW (1)
          W-2  free for 2 h 5 min                the work of W-2
        COMPLETED (1)
          W-7  done for 30 s                     the work of W-7
        BLOCKED (1)
          W-6  from REVIEW for 31 s              the work of W-6
        ");
        // At the end of a lease the item is free.
        home.clock.advance(60 * SECOND - 251);
        assert!(shown(&home).contains("held by ann, 1 ms left"), "{}", shown(&home));
        home.clock.advance(1);
        assert!(shown(&home).contains("free, the lease of ann ran out"), "{}", shown(&home));
    }
}
