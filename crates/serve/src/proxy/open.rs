//! The client's requests that have not been answered, and how far each has come.
//!
//! Whoever takes a request out of here is the one who ends it: an answer, a deadline and the end of a
//! side cannot end it twice.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use countersign_format::event::EventRef;
use countersign_runtime::tool_lists::ListPage;

use super::head::Id;

/// Calls of tools that may be under way at once.
const CALLS_MAX: usize = 256;
/// Requests in all that may be.
const REQUESTS_MAX: usize = 4_096;
/// Ids of calls that were given up and whose answers may still come: none of them is used again.
const GIVEN_UP_MAX: usize = 1_024;
/// How long an answer to a call may take that its client has cancelled.
const CANCELLED_PATIENCE: Duration = Duration::from_secs(5);

/// A request that was not answered yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OpenRequest {
    /// One that is none of our business.
    Passing(Passing),
    /// A call of a tool.
    Call(OpenCall),
}

/// What has to be known of a request that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passing {
    /// The client asks for the list of tools.
    List(ListPage),
    /// We ask for it ourselves.
    OwnList(ListPage),
    Other,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpenCall {
    pub(super) tool: String,
    /// Whether the client wants a handle of a task instead of a result.
    pub(super) as_task: bool,
    pub(super) begun: Instant,
    pub(super) stage: CallStage,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CallStage {
    /// Before the gate, or before a person.
    Judged,
    /// At the server.
    Running { execution: EventRef, deadline: Instant, cancelled: bool },
}

/// Why a request is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotTaken {
    #[error("a request with the id {0} is under way already")]
    Twice(String),
    #[error("the id {0} was used by a call whose answer may still come")]
    GivenUp(String),
    #[error("{0} are under way; wait for one to end")]
    TooMany(&'static str),
}

/// What a client's word that it no longer wants an answer means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cancelled {
    /// The call never left: it is over.
    Unsent,
    /// The server is to be told.
    Sent,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    requests: HashMap<Id, OpenRequest>,
    calls: usize,
    given_up: VecDeque<Id>,
    /// Until when whoever looks for deadlines sleeps.
    watched_until: Option<Instant>,
}

impl Inner {
    fn take(&mut self, id: &Id) -> Option<OpenRequest> {
        let taken = self.requests.remove(id)?;
        self.calls -= usize::from(matches!(taken, OpenRequest::Call(_)));
        Some(taken)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.requests.values().filter_map(deadline).min()
    }
}

fn deadline(request: &OpenRequest) -> Option<Instant> {
    match request {
        OpenRequest::Call(OpenCall { stage: CallStage::Running { deadline, .. }, .. }) => {
            Some(*deadline)
        }
        _ => None,
    }
}

impl OpenRequests {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request in.
    pub(super) fn begin(&self, id: &Id, request: OpenRequest) -> Result<(), NotTaken> {
        let mut inner = self.lock();
        let is_call = matches!(request, OpenRequest::Call(_));
        if inner.requests.contains_key(id) {
            return Err(NotTaken::Twice(id.to_string()));
        }
        if inner.given_up.contains(id) {
            return Err(NotTaken::GivenUp(id.to_string()));
        }
        if inner.requests.len() >= REQUESTS_MAX {
            return Err(NotTaken::TooMany("4096 requests"));
        }
        if is_call && inner.calls >= CALLS_MAX {
            return Err(NotTaken::TooMany("256 calls"));
        }
        inner.calls += usize::from(is_call);
        inner.requests.insert(id.clone(), request);
        Ok(())
    }

    /// A call goes to the server. False if nobody waits for it any more.
    pub(super) fn run(&self, id: &Id, execution: EventRef, deadline: Instant) -> bool {
        let mut inner = self.lock();
        let Some(OpenRequest::Call(call)) = inner.requests.get_mut(id) else { return false };
        call.stage = CallStage::Running { execution, deadline, cancelled: false };
        if inner.watched_until.is_none_or(|until| deadline < until) {
            self.changed.notify_all();
        }
        true
    }

    /// Whether a call still waits to be judged.
    pub(super) fn is_judged(&self, id: &Id) -> bool {
        let inner = self.lock();
        let request = inner.requests.get(id);
        matches!(request, Some(OpenRequest::Call(call)) if call.stage == CallStage::Judged)
    }

    /// Whether a request is open that is none of our business.
    pub(super) fn is_passing(&self, id: &Id) -> bool {
        let passing = OpenRequest::Passing(Passing::Other);
        self.lock().requests.get(id) == Some(&passing)
    }

    /// Takes a request out.
    pub(super) fn end(&self, id: &Id) -> Option<OpenRequest> {
        let taken = self.lock().take(id);
        self.changed.notify_all();
        taken
    }

    /// Takes out what the server answers. What it was never asked, it cannot answer.
    pub(super) fn answered(&self, id: &Id) -> Option<OpenRequest> {
        if self.is_judged(id) {
            return None;
        }
        self.end(id)
    }

    /// The client no longer wants an answer.
    pub(super) fn cancel(&self, id: &Id) -> Cancelled {
        let mut inner = self.lock();
        let Some(OpenRequest::Call(call)) = inner.requests.get_mut(id) else {
            return Cancelled::Sent;
        };
        match &mut call.stage {
            CallStage::Judged => {
                inner.take(id);
                self.changed.notify_all();
                Cancelled::Unsent
            }
            CallStage::Running { deadline, cancelled, .. } => {
                *cancelled = true;
                *deadline = (*deadline).min(Instant::now() + CANCELLED_PATIENCE);
                self.changed.notify_all();
                Cancelled::Sent
            }
        }
    }

    /// Waits for a call whose deadline has passed, and takes it out.
    pub(super) fn wait_for_overdue(&self) -> (Id, OpenCall) {
        let mut inner = self.lock();
        loop {
            let now = Instant::now();
            let next = inner.next_deadline();
            if next.is_some_and(|next| next <= now) {
                let late = inner.requests.iter().find(|(_, it)| deadline(it) == next);
                let late = late.map(|(id, _)| id.clone());
                if let Some((id, OpenRequest::Call(call))) =
                    late.and_then(|id| inner.take(&id).map(|taken| (id, taken)))
                {
                    inner.given_up.push_back(id.clone());
                    if inner.given_up.len() > GIVEN_UP_MAX {
                        inner.given_up.pop_front();
                    }
                    self.changed.notify_all();
                    return (id, call);
                }
            }
            inner.watched_until = next;
            inner = match next {
                Some(next) => {
                    let left = next.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(inner, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Waits until nothing is open that the server could still answer, at most until `until`, or until
    /// `stop` says that nobody can wait any longer.
    pub(super) fn wait_for_server(&self, until: Instant, stop: impl Fn() -> bool) {
        const SLICE: Duration = Duration::from_millis(50);
        let mut inner = self.lock();
        loop {
            let judged = |request: &OpenRequest| matches!(request, OpenRequest::Call(call) if call.stage == CallStage::Judged);
            let waiting = inner.requests.values().any(|request| !judged(request));
            let left = until.saturating_duration_since(Instant::now());
            if !waiting || left.is_zero() || stop() {
                return;
            }
            let waited = self.changed.wait_timeout(inner, left.min(SLICE));
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes everything out.
    pub(super) fn end_all(&self) -> Vec<(Id, OpenRequest)> {
        let mut inner = self.lock();
        inner.calls = 0;
        let mut all: Vec<_> = inner.requests.drain().collect();
        self.changed.notify_all();
        drop(inner);
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> Id {
        Id::Number(number.to_string())
    }

    fn call() -> OpenRequest {
        OpenRequest::Call(OpenCall {
            tool: "t".into(),
            as_task: false,
            begun: Instant::now(),
            stage: CallStage::Judged,
        })
    }

    fn execution() -> EventRef {
        EventRef { event_id: "e".into(), seq: 3 }
    }

    #[test]
    fn an_id_has_one_open_request_and_ends_once() {
        let open = OpenRequests::default();
        open.begin(&id(1), OpenRequest::Passing(Passing::Other)).unwrap();
        assert_eq!(open.begin(&id(1), call()), Err(NotTaken::Twice("1".into())));
        assert_eq!(open.answered(&id(1)), Some(OpenRequest::Passing(Passing::Other)));
        assert_eq!(open.answered(&id(1)), None);
    }

    #[test]
    fn a_server_cannot_answer_a_call_that_it_was_not_sent() {
        let open = OpenRequests::default();
        open.begin(&id(1), call()).unwrap();
        assert_eq!(open.answered(&id(1)), None);
        assert!(open.run(&id(1), execution(), Instant::now() + Duration::from_secs(9)));
        assert!(open.answered(&id(1)).is_some());
        assert!(!open.run(&id(1), execution(), Instant::now()));
    }

    #[test]
    fn a_cancelled_call_is_over_unless_it_was_sent() {
        let open = OpenRequests::default();
        open.begin(&id(1), call()).unwrap();
        assert_eq!(open.cancel(&id(1)), Cancelled::Unsent);
        assert_eq!(open.end(&id(1)), None);
        open.begin(&id(2), call()).unwrap();
        open.run(&id(2), execution(), Instant::now() + Duration::from_secs(600));
        assert_eq!(open.cancel(&id(2)), Cancelled::Sent);
        assert!(open.end(&id(2)).is_some());
        assert_eq!(open.cancel(&id(3)), Cancelled::Sent);
    }

    #[test]
    fn the_id_of_a_call_that_was_given_up_is_not_used_again() {
        let open = OpenRequests::default();
        open.begin(&id(1), call()).unwrap();
        open.run(&id(1), execution(), Instant::now());
        assert_eq!(open.wait_for_overdue().0, id(1));
        assert_eq!(open.begin(&id(1), call()), Err(NotTaken::GivenUp("1".into())));
    }

    #[test]
    fn so_many_calls_are_open_at_once_and_no_more() {
        let open = OpenRequests::default();
        for number in 0..256 {
            open.begin(&id(number), call()).unwrap();
        }
        assert_eq!(open.begin(&id(256), call()), Err(NotTaken::TooMany("256 calls")));
        open.begin(&id(256), OpenRequest::Passing(Passing::Other)).unwrap();
        assert_eq!(open.end_all().len(), 257);
        open.begin(&id(0), call()).unwrap();
    }
}
