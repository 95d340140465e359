//! The workspace in one line.

use std::fmt;

use countersign_format::time::Timestamp;
use countersign_runtime::period::Ruling;
use countersign_runtime::sight::Overview;
use serde::Serialize;

/// For how long a denial is told.
const DENIAL_MILLIS: i64 = 86_400_000;

/// How a workspace stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Standing {
    now: Timestamp,
    running: u64,
    questions: u64,
    held: u64,
    unreadable: u64,
    last_denial: Option<Timestamp>,
}

impl Standing {
    pub(super) fn of(seen: &Overview, now: Timestamp) -> Self {
        let held = seen.work.iter().filter(|item| {
            item.holder.is_some() && item.expires_at.is_some_and(|until| now < until)
        });
        let denial = seen.decisions.iter().find(|decision| decision.ruling == Ruling::Denied);
        let recent =
            |at: &Timestamp| now.as_millis().saturating_sub(at.as_millis()) < DENIAL_MILLIS;
        Self {
            now,
            running: seen.running_total,
            questions: seen.questions.len() as u64,
            held: held.count() as u64,
            unreadable: seen.unreadable.len() as u64,
            last_denial: denial.map(|decision| decision.at).filter(recent),
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.running > 0 {
            parts.push(format!("{} running", self.running));
        }
        match self.questions {
            0 => {}
            1 => parts.push("1 question".to_owned()),
            many => parts.push(format!("{many} questions")),
        }
        if self.held > 0 {
            parts.push(format!("{} held", self.held));
        }
        if let Some(at) = self.last_denial {
            let millis = self.now.as_millis().saturating_sub(at.as_millis());
            parts.push(format!("last deny {} ago", short_span(millis)));
        }
        if self.unreadable > 0 {
            parts.push(format!("{} unreadable", self.unreadable));
        }
        match parts.is_empty() {
            true => f.write_str("countersign: idle"),
            false => write!(f, "countersign: {}", parts.join(" · ")),
        }
    }
}

/// A length of time in its largest unit, as short as it can be said.
pub(super) fn short_span(millis: i64) -> String {
    let seconds = millis.max(0) / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_there_is_is_told() {
        let mut standing = Standing {
            now: Timestamp::from_millis(10_000_000),
            running: 0,
            questions: 0,
            held: 0,
            unreadable: 0,
            last_denial: None,
        };
        assert_eq!(standing.to_string(), "countersign: idle");
        (standing.running, standing.questions, standing.held) = (2, 1, 3);
        standing.last_denial = Some(Timestamp::from_millis(10_000_000 - 250_000));
        assert_eq!(
            standing.to_string(),
            "countersign: 2 running · 1 question · 3 held · last deny 4m ago"
        );
    }
}
