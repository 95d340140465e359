//! Leases, and the time by which they are judged.
//!
//! The time of events never goes back, so a clock that is set back makes it stand still. Up to a
//! minute of that is borne; beyond it no lease command is taken until a person vouches for the clock,
//! and from then on lease time runs on with it.

use countersign_format::event::{Event, EventType};
use countersign_format::exit::WorkPhase;
use countersign_format::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::command::Bearer;
use super::{WorkRefusal, WorkState};
use crate::parts::{member, optional};
use crate::{Context, Refusal};

/// The reason of a release that nobody asked for: the lease ran out.
pub const EXPIRED: &str = "expired";
/// The reason of a release that says nothing about the agent: somebody stopped it.
pub const STOPPED: &str = "stopped";
/// The shortest lease, in milliseconds.
pub const LEASE_MILLIS_MIN: i64 = 100;
/// The longest time for which a lease can be granted or renewed at once: a day.
pub const LEASE_MILLIS_MAX: i64 = 24 * 60 * 60 * 1_000;
/// How far the clock may lie behind the last event before leases are no longer judged by it.
const CLAMP_MILLIS_MAX: i64 = 60_000;

/// Who holds a work item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its number, which grows with every lease of the item.
    pub epoch: u64,
    /// Who.
    pub holder: String,
    /// The session that works on it.
    pub session_id: String,
    /// The phase that is worked on.
    pub phase: WorkPhase,
    /// From when on it no longer counts.
    pub expires_at: Timestamp,
    /// Since when it is held.
    pub granted_at: Timestamp,
    /// Whether the CI runner holds it.
    pub ci: bool,
    /// Whether a signal counts on the descriptor alone.
    pub descriptor_only: bool,
    /// Whether no agent is run under it.
    pub by_hand: bool,
}

impl Lease {
    /// The lease that `event` grants.
    ///
    /// # Errors
    /// The event lacks something.
    pub fn read(event: &Event) -> Result<Self, Refusal> {
        Ok(Self {
            epoch: member(event, "epoch")?,
            holder: member(event, "holder")?,
            session_id: member(event, "session_id")?,
            phase: member(event, "phase")?,
            expires_at: member(event, "expires_at")?,
            granted_at: event.created_at,
            ci: optional(event, "ci")?.unwrap_or_default(),
            descriptor_only: optional(event, "descriptor_only")?.unwrap_or_default(),
            by_hand: optional(event, "by_hand")?.unwrap_or_default(),
        })
    }

    /// Why it is not the lease of `by`, if it is not.
    pub(super) fn check_bearer(&self, by: &Bearer) -> Result<(), WorkRefusal> {
        check_bearer(by, self.epoch, &self.holder, &self.session_id)
    }
}

/// The time by which leases are judged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseClock {
    /// The time of the last event.
    pub last: Option<Timestamp>,
    /// Milliseconds by which it runs ahead of the clock since a person vouched for that.
    pub ahead: Option<i64>,
}

/// A moment on the lease clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) now: Timestamp,
    /// Milliseconds by which the clock lies behind.
    behind: i64,
}

impl LeaseClock {
    /// The time at which an event counts that is dated `created_at` while the clock says `raw`.
    pub(super) fn at(&self, created_at: Timestamp, raw: Timestamp) -> Moment {
        let shown = match self.ahead {
            None => raw.as_millis(),
            Some(ahead) => raw.as_millis().saturating_add(ahead),
        };
        let now = match (self.ahead, self.last) {
            (None, _) => created_at.as_millis(),
            (Some(_), Some(last)) => shown.max(last.as_millis()),
            (Some(_), None) => shown,
        };
        Moment { now: Timestamp::from_millis(now), behind: now.saturating_sub(shown) }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self, context: &Context) -> Timestamp {
        self.at(context.now, context.raw).now
    }

    /// The time when the clock says `raw`, as far as the events so far tell.
    #[must_use]
    pub fn shown(&self, raw: Timestamp) -> Timestamp {
        self.at(self.last.map_or(raw, |last| last.max(raw)), raw).now
    }

    /// Takes in the next event.
    pub fn take(&mut self, event: &Event) {
        self.pass(event);
        if event.event_type == EventType::ClockConfirmed {
            self.confirm(event);
        }
    }

    pub(super) fn of(&self, event: &Event) -> Moment {
        self.at(event.created_at, event.raw_clock.unwrap_or(event.created_at))
    }

    fn pass(&mut self, event: &Event) {
        let now = self.of(event).now;
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
    }

    fn confirm(&mut self, event: &Event) {
        let raw = event.raw_clock.unwrap_or(event.created_at);
        let last = self.last.unwrap_or(event.created_at);
        self.ahead = Some(last.as_millis().saturating_sub(raw.as_millis()));
    }

    pub(super) fn admit_confirmation(&self, event: &Event) -> Result<(), Refusal> {
        let stated: Timestamp = member(event, "raw_time")?;
        let raw = event.raw_clock.unwrap_or(event.created_at);
        if stated != raw {
            return Err(WorkRefusal::OtherClock { stated, raw }.into());
        }
        match self.of(event).trusted() {
            Ok(_) => Err(WorkRefusal::ClockHolds.into()),
            Err(_) => Ok(()),
        }
    }
}

impl Moment {
    /// The time, if the clock can be relied upon.
    pub(super) fn trusted(self) -> Result<Timestamp, WorkRefusal> {
        if self.behind > CLAMP_MILLIS_MAX {
            return Err(WorkRefusal::ClockBehind { seconds: self.behind / 1_000 });
        }
        Ok(self.now)
    }
}

/// What is presented as the right to do something with a lease.
#[derive(Debug, Clone, Copy)]
pub(super) struct Presented<'a> {
    pub(super) epoch: u64,
    /// Who presents it, where that is said.
    pub(super) by: Option<&'a Bearer>,
}

/// Whether a lease of this holder and session is what `by` presents.
pub(super) fn check_bearer(
    by: &Bearer,
    epoch: u64,
    holder: &str,
    session_id: &str,
) -> Result<(), WorkRefusal> {
    match by {
        Bearer::Session(session) if session != session_id => {
            Err(WorkRefusal::OtherSession { epoch })
        }
        Bearer::Holder(name) if name != holder => {
            Err(WorkRefusal::OtherHolder { epoch, holder: holder.to_owned(), name: name.clone() })
        }
        Bearer::Session(_) | Bearer::Holder(_) => Ok(()),
    }
}

impl WorkState {
    /// The lease that is presented, if it is the one that holds.
    pub(super) fn presented(
        &self,
        presented: Presented<'_>,
        now: Timestamp,
    ) -> Result<&Lease, WorkRefusal> {
        let epoch = presented.epoch;
        let lease = match &self.lease {
            Some(lease) if lease.epoch == epoch => lease,
            Some(lease) => {
                return Err(WorkRefusal::Stale { epoch, current: lease.epoch });
            }
            None => return Err(WorkRefusal::NotHeld { epoch }),
        };
        if let Some(by) = presented.by {
            lease.check_bearer(by)?;
        }
        if now >= lease.expires_at {
            return Err(WorkRefusal::Expired { epoch, expired: lease.expires_at });
        }
        Ok(lease)
    }

    /// Whether `holder` could be granted the item at `now`.
    pub(super) fn check_claim(
        &self,
        holder: &str,
        ci: bool,
        now: Timestamp,
    ) -> Result<(), WorkRefusal> {
        self.check_phase(ci)?;
        if let Some(lease) = self.live_lease(now) {
            return Err(WorkRefusal::Held {
                holder: lease.holder.clone(),
                epoch: lease.epoch,
                until: lease.expires_at,
            });
        }
        if self.author_may_review || !self.authors.contains(holder) {
            return Ok(());
        }
        match self.phase {
            WorkPhase::Review => Err(WorkRefusal::AuthorReviews { holder: holder.to_owned() }),
            WorkPhase::CiPending => Err(WorkRefusal::AuthorRunsCi { holder: holder.to_owned() }),
            _ => Ok(()),
        }
    }

    pub(super) fn admit_grant(&self, event: &Event) -> Result<(), Refusal> {
        let now = self.clock.of(event).trusted()?;
        // One that ran out is released by an event of its own before.
        if let Some(lease) = &self.lease {
            return Err(WorkRefusal::Held {
                holder: lease.holder.clone(),
                epoch: lease.epoch,
                until: lease.expires_at,
            }
            .into());
        }
        let granted = Lease::read(event)?;
        self.check_claim(&granted.holder, granted.ci, now)?;
        let epoch = granted.epoch;
        if epoch != self.epoch.saturating_add(1) {
            return Err(WorkRefusal::EpochOutOfTurn { epoch, last: self.epoch }.into());
        }
        if granted.phase != self.phase {
            let (stated, actual) = (granted.phase, self.phase);
            return Err(WorkRefusal::OtherPhase { stated, actual }.into());
        }
        Ok(check_length(now, granted.expires_at)?)
    }

    pub(super) fn apply_grant(&mut self, event: &Event) {
        let Ok(lease) = Lease::read(event) else { return };
        if lease.phase == WorkPhase::Implementation {
            self.authors.insert(lease.holder.clone());
        }
        self.epoch = self.epoch.max(lease.epoch);
        self.attempts = self.attempts.saturating_add(u64::from(!lease.by_hand));
        self.lease = Some(lease);
    }

    pub(super) fn admit_renewal(&self, event: &Event) -> Result<(), Refusal> {
        let now = self.clock.of(event).trusted()?;
        let presented = Presented { epoch: member(event, "epoch")?, by: None };
        let lease = self.presented(presented, now)?;
        let wanted: Timestamp = member(event, "expires_at")?;
        check_length(now, wanted)?;
        if wanted <= lease.expires_at {
            return Err(WorkRefusal::NotLonger { until: lease.expires_at, wanted }.into());
        }
        Ok(())
    }

    pub(super) fn admit_release(&self, event: &Event) -> Result<(), Refusal> {
        debug_assert_eq!(event.event_type, EventType::LeaseReleased);
        let now = self.clock.of(event).trusted()?;
        let presented = Presented { epoch: member(event, "epoch")?, by: None };
        let reason: String = member(event, "reason")?;
        match (self.presented(presented, now), reason == EXPIRED) {
            (Ok(_), false) | (Err(WorkRefusal::Expired { .. }), true) => Ok(()),
            (Ok(lease), true) => {
                Err(WorkRefusal::NotExpired { epoch: presented.epoch, until: lease.expires_at }
                    .into())
            }
            (Err(refusal), _) => Err(refusal.into()),
        }
    }
}

fn check_length(now: Timestamp, expires_at: Timestamp) -> Result<(), WorkRefusal> {
    let millis = expires_at.as_millis().saturating_sub(now.as_millis());
    if (LEASE_MILLIS_MIN..=LEASE_MILLIS_MAX).contains(&millis) {
        Ok(())
    } else {
        Err(WorkRefusal::LeaseLength { millis })
    }
}
