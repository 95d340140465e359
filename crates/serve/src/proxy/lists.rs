//! Lists of tools that pass, and those that we ask for ourselves.
//!
//! A tool that nobody has listed is not known, and one that its server says has changed may be another.
//! So before a call the list is asked for, where no client has asked for it. What the client does not
//! see frees no tool that is held.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_runtime::tool_lists::{HoldReason, ListPage, ToolList};

use super::head::{Head, Id, Outcome, is_alike};
use super::listing::{self, AskedPage};
use super::open::{OpenRequest, Passing};
use super::relay::Relay;
use super::words;
use crate::causes::whole;

/// The method that asks for a list.
pub(super) const LIST: &str = "tools/list";
/// What a server says when its tools have changed.
const LIST_CHANGED: &str = "notifications/tools/list_changed";
/// Pages of a list that we ask for.
const PAGES_MAX: usize = 1_000;
/// How long a server may take for a page that we ask for.
const OWN_PATIENCE: Duration = Duration::from_secs(10);

/// What is known of a server's list while it is connected.
#[derive(Debug, Default)]
pub(super) struct Listing {
    state: Mutex<ListState>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct ListState {
    /// The cursor that the server gave in the first list that was ever seen. It is good once.
    cursor: Option<String>,
    /// Whether the list may be another by now than the one that was seen last.
    stale: bool,
    /// Whether the server did not answer when we asked.
    mute: bool,
    own: Option<OwnPage>,
}

/// What became of a page that we asked for.
#[derive(Debug)]
enum OwnPage {
    Listed { next: Option<String>, trusted: bool },
    Unread(String),
    Unreached(String),
}

/// What became of a list that we asked for.
enum OwnList {
    Known,
    /// It can be asked, and says nothing that can be used.
    Unread(String),
    /// It cannot be asked.
    Unreached(String),
}

/// Why a call is not judged.
pub(super) enum NotJudged {
    /// The server cannot be reached.
    Unreached(String),
    /// We cannot do our part.
    Failed(String),
}

impl Listing {
    fn lock(&self) -> MutexGuard<'_, ListState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client asks for a page.
    pub(super) fn asked(&self, params: Option<&str>) -> ListPage {
        let mut state = self.lock();
        match AskedPage::of(params) {
            AskedPage::First => {
                state.stale = false;
                ListPage::First
            }
            AskedPage::At(cursor) => {
                let trusted = cursor.is_some() && state.cursor == cursor;
                if trusted {
                    state.cursor = None;
                }
                ListPage::Next { trusted }
            }
        }
    }

    /// The list may be another from now on.
    pub(super) fn outdated(&self) {
        self.lock().stale = true;
    }

    /// The server says something by itself.
    pub(super) fn heard(&self, method: &str) {
        if method == LIST_CHANGED || is_alike(method, LIST_CHANGED) {
            self.outdated();
        }
    }

    fn own(&self, page: OwnPage) {
        self.lock().own = Some(page);
        self.answered.notify_all();
    }
}

impl Relay {
    /// The server answers a client that asked for a page.
    pub(super) fn listed(&self, outcome: Outcome<'_>, page: ListPage) -> Result<(), String> {
        let taken = match outcome {
            Outcome::Result(result) => self.take_page(result, page),
            // The client sees no list.
            Outcome::Error(_) => {
                self.listing.outdated();
                return Ok(());
            }
        };
        let mut state = self.listing.lock();
        match taken {
            Ok((next, trusted)) => {
                state.mute = false;
                if trusted {
                    state.cursor = next;
                }
                Ok(())
            }
            Err(why) => {
                state.stale = true;
                Err(why)
            }
        }
    }

    /// Records a page and keeps it; gives the cursor of the next one, and whether this one was trusted.
    fn take_page(&self, result: &str, which: ListPage) -> Result<(Option<String>, bool), String> {
        let read =
            listing::page(result, &self.setup.redactor).map_err(|fault| fault.to_string())?;
        let Some(page) = read else { return Ok((None, false)) };
        let (name, count) = (&self.setup.name, page.tools.len() as u64);
        let record =
            |changed: &[String]| self.runtime().list_tools(name, count, changed, result.as_bytes());
        let taken = self.lists.take(name, &page.tools, which, record);
        Ok((page.next, taken.map_err(|error| whole(&error))?))
    }

    /// Why calls of a tool wait for a person.
    pub(super) fn why_held(self: &Arc<Self>, tool: &str) -> Result<Option<HoldReason>, NotJudged> {
        let name = &self.setup.name;
        let get = || self.lists.get(name).map_err(|error| NotJudged::Failed(whole(&error)));
        let mut list = get()?;
        if list.is_none() || self.listing.lock().stale {
            match self.list_ourselves() {
                OwnList::Known => {}
                OwnList::Unreached(why) => return Err(NotJudged::Unreached(why)),
                OwnList::Unread(why) if list.is_some() => {
                    let why = format!(
                        "the tools of `{name}` may have changed, and what they are now cannot be told: {why}"
                    );
                    return Ok(Some(HoldReason { why, shape: None }));
                }
                // Then it was never listed.
                OwnList::Unread(_) => {}
            }
            list = get()?;
        }
        Ok(list.unwrap_or_else(|| ToolList::new(name)).why_held(tool))
    }

    /// Whether a tool is still what a person agreed to; if so, that is kept.
    pub(super) fn agree(&self, tool: &str, held: &HoldReason) -> Result<bool, String> {
        let name = &self.setup.name;
        if let Some(shape) = held.shape {
            return self.lists.accept(name, tool, shape).map_err(|error| whole(&error));
        }
        // They agreed to a call of a tool that nobody could show them.
        let list = self.lists.get(name).map_err(|error| whole(&error))?;
        let now = list.and_then(|list| list.why_held(tool));
        Ok(now.is_none_or(|now| now.shape.is_none()))
    }

    fn list_ourselves(self: &Arc<Self>) -> OwnList {
        {
            let mut state = self.listing.lock();
            if state.mute {
                return OwnList::Unread("it does not answer when it is asked for them".to_owned());
            }
            state.stale = false;
        }
        let (mut which, mut cursor) = (ListPage::Own, None);
        let mut failed = OwnList::Unread("its list does not end".to_owned());
        for _ in 0..PAGES_MAX {
            match self.ask_for_page(which, cursor.as_deref()) {
                OwnPage::Listed { next: None, .. } => return OwnList::Known,
                OwnPage::Listed { next, trusted } => {
                    cursor = next;
                    which = ListPage::Next { trusted };
                    continue;
                }
                OwnPage::Unread(why) => failed = OwnList::Unread(why),
                OwnPage::Unreached(why) => failed = OwnList::Unreached(why),
            }
            break;
        }
        self.listing.outdated();
        failed
    }

    fn ask_for_page(self: &Arc<Self>, which: ListPage, cursor: Option<&str>) -> OwnPage {
        let id = Id::Text(self.questions.fresh_id());
        let passing = OpenRequest::Passing(Passing::OwnList(which));
        if let Err(why) = self.open.begin(&id, passing) {
            return OwnPage::Unread(why.to_string());
        }
        self.listing.lock().own = None;
        let head = Head::Request { id: id.clone(), method: LIST.to_owned(), params: None };
        self.to_server(&words::list_request(&id, cursor), Some(&head));
        let patience = OWN_PATIENCE.min(self.setup.call_timeout);
        let state = self.listing.lock();
        let waited =
            self.listing.answered.wait_timeout_while(state, patience, |state| state.own.is_none());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = state.own.take() {
            return page;
        }
        state.mute = true;
        drop(state);
        self.open.end(&id);
        OwnPage::Unread(format!("it was not answered within {patience:?}"))
    }

    /// The server answers us.
    pub(super) fn listed_for_us(&self, outcome: Outcome<'_>, which: ListPage) {
        let page = match outcome {
            Outcome::Result(result) => match self.take_page(result, which) {
                Ok((next, trusted)) => OwnPage::Listed { next, trusted },
                Err(why) => OwnPage::Unread(why),
            },
            Outcome::Error(_) => OwnPage::Unread("the server refuses to list them".to_owned()),
        };
        self.listing.own(page);
    }

    /// Nobody will answer us.
    pub(super) fn not_listed_for_us(&self, why: &str) {
        self.listing.own(OwnPage::Unreached(why.to_owned()));
    }
}
