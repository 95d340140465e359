//! Where a thread waits for what becomes of its commands, and is given work meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::sheaf::Sheaf;
use super::{Recorded, WriteError, lock};

/// Tells apart the commands that one thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

impl Ticket {
    /// That of a thread that has one command only.
    pub(super) const ONLY: Self = Self(0);

    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What became of a command.
pub(super) type Answer = Result<Recorded, WriteError>;

/// What one thread does for all who wait.
#[derive(Debug)]
pub(super) enum Duty {
    Lead,
    /// To make durable what others wait for as well.
    Carry(Box<Sheaf>),
}

#[derive(Debug)]
pub(super) enum News {
    Duty(Duty),
    Answer(Ticket, Answer),
    /// There will be nothing more.
    Dismissed,
}

#[derive(Debug, Default)]
pub(super) struct Seat {
    post: Mutex<Post>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Post {
    duty: Option<Duty>,
    answers: VecDeque<(Ticket, Answer)>,
    presence: Presence,
    dismissed: bool,
    /// Waking somebody who does not sleep costs a system call.
    asleep: bool,
}

/// Whether a thread can be given something to do.
#[derive(Debug, Default, PartialEq, Eq)]
enum Presence {
    /// It is busy, or about its own affairs: it may come back in a long time.
    #[default]
    Away,
    Here,
    /// It stays until it is told what to do.
    Engaged,
}

impl Seat {
    /// From now on its thread can be engaged.
    pub(super) fn attend(&self) {
        let mut post = lock(&self.post);
        if post.presence == Presence::Away {
            post.presence = Presence::Here;
        }
    }

    /// Whether its thread may go about something else: not if it is engaged, has been told what to do,
    /// has news to hear, or is dismissed. If it may, it cannot be engaged any more.
    pub(super) fn leaves(&self) -> bool {
        let mut post = lock(&self.post);
        let free = post.presence == Presence::Here
            && post.duty.is_none()
            && post.answers.is_empty()
            && !post.dismissed;
        if free {
            post.presence = Presence::Away;
        }
        free
    }

    /// Waits for news. What is to be done comes before what is only to be heard.
    pub(super) fn wait(&self) -> News {
        let mut post = lock(&self.post);
        loop {
            if let Some(duty) = post.duty.take() {
                post.presence = Presence::Away;
                return News::Duty(duty);
            }
            if post.presence != Presence::Engaged {
                post.presence = Presence::Here;
                if let Some((ticket, answer)) = post.answers.pop_front() {
                    post.presence = Presence::Away;
                    return News::Answer(ticket, answer);
                }
                if post.dismissed {
                    post.presence = Presence::Away;
                    return News::Dismissed;
                }
            }
            post.asleep = true;
            post = self.arrived.wait(post).unwrap_or_else(PoisonError::into_inner);
            post.asleep = false;
        }
    }

    /// Whether an answer has come that was not heard yet.
    pub(super) fn has_answer(&self) -> bool {
        !lock(&self.post).answers.is_empty()
    }

    /// Takes hold of its thread, if that waits here.
    pub(super) fn engage(self: &Arc<Self>) -> Option<Engaged> {
        let mut post = lock(&self.post);
        if post.presence != Presence::Here {
            return None;
        }
        post.presence = Presence::Engaged;
        Some(Engaged(Some(Arc::clone(self))))
    }

    /// Its thread may go, once it has done what it is engaged for.
    pub(super) fn dismiss(&self) {
        self.change(|post| post.dismissed = true);
    }

    fn change(&self, change: impl FnOnce(&mut Post)) {
        let mut post = lock(&self.post);
        change(&mut post);
        let wakes = std::mem::take(&mut post.asleep);
        // Otherwise whoever wakes up goes to sleep again, until the post can be had.
        drop(post);
        if wakes {
            self.arrived.notify_one();
        }
    }
}

/// A thread that is about to be told what to do. Should that not come, it goes on waiting.
#[derive(Debug)]
pub(super) struct Engaged(Option<Arc<Seat>>);

impl Engaged {
    pub(super) fn charge(mut self, duty: Duty) {
        if let Some(seat) = self.0.take() {
            seat.change(|post| post.duty = Some(duty));
        }
    }
}

impl Drop for Engaged {
    fn drop(&mut self) {
        // Nothing, once it was charged: somebody else may have engaged it since.
        if let Some(seat) = &self.0 {
            seat.change(|post| post.presence = Presence::Here);
        }
    }
}

/// Who is told what becomes of a command.
#[derive(Debug, Clone)]
pub(super) struct Address {
    pub(super) seat: Arc<Seat>,
    pub(super) ticket: Ticket,
}

impl Address {
    pub(super) fn tell(&self, answer: Answer) {
        self.seat.change(|post| post.answers.push_back((self.ticket, answer)));
    }
}
