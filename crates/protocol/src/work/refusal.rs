//! Answers about work items that say no.

use countersign_format::exit::{ExitReason, HandlerRefusal, WorkPhase};
use countersign_format::time::Timestamp;

use super::command::SignalChannel;
use super::lease::{LEASE_MILLIS_MAX, LEASE_MILLIS_MIN};

/// Why something may not happen to a work item.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkRefusal {
    /// An item cannot begin at its end.
    #[error("work cannot begin in phase '{phase}'")]
    CannotBegin {
        /// Where it would begin.
        phase: WorkPhase,
    },
    /// Nobody works on items in this phase.
    #[error("work in phase '{phase}' cannot be claimed")]
    NotClaimable {
        /// The phase.
        phase: WorkPhase,
    },
    /// An agent may not be its own CI.
    #[error("work in phase 'CI_PENDING' can only be claimed by the CI runner")]
    OnlyCi,
    /// The CI runner does nobody else's work.
    #[error("the CI runner cannot claim work in phase '{phase}'")]
    NotForCi {
        /// The phase.
        phase: WorkPhase,
    },
    /// Somebody holds it.
    #[error("it is held by `{holder}` with lease {epoch} until {until}")]
    Held {
        /// Who.
        holder: String,
        /// With which lease.
        epoch: u64,
        /// Until when.
        until: Timestamp,
    },
    /// Whoever implemented it does not review it.
    #[error("`{holder}` worked on the implementation and cannot review it")]
    AuthorReviews {
        /// Who.
        holder: String,
    },
    /// Whoever implemented it does not say that it works.
    #[error("`{holder}` worked on the implementation and cannot run its CI")]
    AuthorRunsCi {
        /// Who.
        holder: String,
    },
    /// Somebody else holds it by now.
    #[error("lease {epoch} is stale: lease {current} holds now")]
    Stale {
        /// The lease that was presented.
        epoch: u64,
        /// The one that counts.
        current: u64,
    },
    /// Nobody holds it.
    #[error("lease {epoch} holds nothing any more")]
    NotHeld {
        /// The lease that was presented.
        epoch: u64,
    },
    /// The lease belongs to another session.
    #[error("lease {epoch} belongs to another session")]
    OtherSession {
        /// The lease that was presented.
        epoch: u64,
    },
    /// Somebody else holds it.
    #[error("lease {epoch} belongs to `{holder}`, not to `{name}`")]
    OtherHolder {
        /// The lease that was presented.
        epoch: u64,
        /// Whose it is.
        holder: String,
        /// Who presented it.
        name: String,
    },
    /// The holder's signal counts elsewhere.
    #[error(
        "under lease {epoch} a signal counts on the descriptor alone; this one came by `{}`",
        channel.as_str()
    )]
    OtherChannel {
        /// The lease that was presented.
        epoch: u64,
        /// How the signal came.
        channel: SignalChannel,
    },
    /// Another item is called so.
    #[error("the label `{label}` is taken by item {item}")]
    LabelTaken {
        /// The label.
        label: String,
        /// Whose it is.
        item: String,
    },
    /// The lease ran out.
    #[error("lease {epoch} expired at {expired}")]
    Expired {
        /// Which.
        epoch: u64,
        /// When.
        expired: Timestamp,
    },
    /// The lease has not run out.
    #[error("lease {epoch} has not expired: it holds until {until}")]
    NotExpired {
        /// Which.
        epoch: u64,
        /// Until when.
        until: Timestamp,
    },
    /// A lease number was left out or used again.
    #[error("lease {epoch} does not follow lease {last}")]
    EpochOutOfTurn {
        /// The number.
        epoch: u64,
        /// The last one.
        last: u64,
    },
    /// A lease is about another phase.
    #[error("the lease is for phase '{stated}', the work is in '{actual}'")]
    OtherPhase {
        /// What it says.
        stated: WorkPhase,
        /// Where the work is.
        actual: WorkPhase,
    },
    /// Too short or too long.
    #[error(
        "a lease of {millis} ms cannot be had, only {LEASE_MILLIS_MIN} to {LEASE_MILLIS_MAX} ms"
    )]
    LeaseLength {
        /// What was wanted.
        millis: i64,
    },
    /// A renewal that would not make it longer.
    #[error("the lease holds until {until} already, {wanted} is no later")]
    NotLonger {
        /// Until when it holds.
        until: Timestamp,
        /// What was wanted.
        wanted: Timestamp,
    },
    /// The signal does not fit.
    #[error("{0}")]
    Signal(#[from] HandlerRefusal),
    /// The lease ended with another signal before.
    #[error("lease {epoch} ended with another exit signal before")]
    ExitedOtherwise {
        /// Which lease.
        epoch: u64,
    },
    /// The event says another phase follows than the table does.
    #[error("phase '{stated}' cannot follow, '{due}' does")]
    OtherNextPhase {
        /// What it says.
        stated: WorkPhase,
        /// What the table says.
        due: WorkPhase,
    },
    /// CI ended otherwise than the exit says, or nobody says how.
    #[error("an exit from CI_PENDING with `{reason}` needs a CI verdict that says so")]
    OtherThanCi {
        /// What the exit says.
        reason: ExitReason,
    },
    /// A CI verdict where no CI ran.
    #[error("only the CI runner gives a CI verdict")]
    NoCi,
    /// It is not blocked.
    #[error("it is not blocked: it is in phase '{phase}'")]
    NotBlocked {
        /// Where it stands.
        phase: WorkPhase,
    },
    /// It goes back to where it came from.
    #[error("it was blocked from '{from}' and goes back there, not to '{to}'")]
    UnblockedElsewhere {
        /// Where it stood.
        from: WorkPhase,
        /// Where it would go.
        to: WorkPhase,
    },
    /// The clock was set back.
    #[error("the clock lies {seconds} s behind the last event; a person must confirm it")]
    ClockBehind {
        /// By how much.
        seconds: i64,
    },
    /// There is nothing to confirm.
    #[error("the clock needs no confirmation")]
    ClockHolds,
    /// The confirmation names another time than the clock showed.
    #[error("the confirmation is for {stated}, the clock said {raw}")]
    OtherClock {
        /// What it names.
        stated: Timestamp,
        /// What the clock said.
        raw: Timestamp,
    },
}
