//! What is wrong with a document, place by place, in bounded memory.
//!
//! A document may be wrong in a hundred thousand places. Those that are not listed are counted.

use std::fmt;

use crate::json::JsonError;
use crate::text;

/// Faults that are listed of one document.
pub const FAULTS_MAX: usize = 10_000;
/// Faults that are listed below one list, which so leaves room for those of other members.
pub const LIST_FAULTS_MAX: usize = 1_000;
/// Bytes of a listed pointer: keys may be as long as a document, and each fault would repeat them.
const POINTER_BYTES_MAX: usize = 1024;
/// Bytes of all listed pointers together, but for the last one.
const POINTERS_BYTES_MAX: usize = 4 << 20;

/// A place in a document and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// JSON pointer (RFC 6901) to the value, or to where it should be.
    pub pointer: String,
    /// What is wrong, without the value itself.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "(document)" } else { &self.pointer };
        write!(f, "{}: {}", text::escape(place), text::escape(&self.message))
    }
}

impl From<JsonError> for Fault {
    fn from(error: JsonError) -> Self {
        Self { message: error.to_string(), pointer: shown_pointer(&error.pointer) }
    }
}

/// `pointer` as a fault repeats it: cut where it is long.
#[must_use]
pub fn shown_pointer(pointer: &str) -> String {
    let end = pointer.floor_char_boundary(POINTER_BYTES_MAX);
    match pointer.get(..end) {
        Some(shown) if end < pointer.len() => format!("{shown}…"),
        _ => pointer.to_owned(),
    }
}

/// Faults in the order in which they are noted: the first ones in full, the others as a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    listed: Vec<Fault>,
    /// How many may be listed here; less than in the whole document while a list is walked.
    room: usize,
    pointer_bytes: usize,
    unlisted: usize,
}

impl Default for Faults {
    fn default() -> Self {
        Self::listing(FAULTS_MAX)
    }
}

impl Faults {
    /// No faults yet, of which the first `most` will be listed.
    #[must_use]
    pub const fn listing(most: usize) -> Self {
        Self { listed: Vec::new(), room: most, pointer_bytes: 0, unlisted: 0 }
    }

    /// Notes a fault at the place `pointer`.
    pub fn note(&mut self, pointer: &str, message: impl Into<String>) {
        if self.listed.len() >= self.room || self.pointer_bytes >= POINTERS_BYTES_MAX {
            self.unlisted += 1;
            return;
        }
        let pointer = shown_pointer(pointer);
        self.pointer_bytes += pointer.len();
        self.listed.push(Fault { pointer, message: message.into() });
    }

    /// Runs `look`, which walks one list: of the faults that it notes [`LIST_FAULTS_MAX`] are listed.
    pub fn within_list(&mut self, look: impl FnOnce(&mut Self)) {
        let room = self.enter_list();
        look(self);
        self.leave_list(room);
    }

    /// Begins a list, and gives the room that is there again after it.
    pub(super) fn enter_list(&mut self) -> usize {
        let room = self.room;
        self.room = room.min(self.listed.len() + LIST_FAULTS_MAX);
        room
    }

    pub(super) const fn leave_list(&mut self, room: usize) {
        self.room = room;
    }

    /// How many were noted, listed or not.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.listed.len() + self.unlisted
    }

    /// Whether nothing was noted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Those that are listed.
    pub fn listed(&self) -> impl Iterator<Item = &Fault> {
        self.listed.iter()
    }

    /// Those that are listed, and one of the document that says how many others there are.
    #[must_use]
    pub fn into_vec(self) -> Vec<Fault> {
        self.into_vec_of(["fault", "faults"])
    }

    /// As [`Self::into_vec`], where what was noted is nothing wrong.
    #[must_use]
    pub fn into_hints(self) -> Vec<Fault> {
        self.into_vec_of(["hint", "hints"])
    }

    fn into_vec_of(self, [one, several]: [&str; 2]) -> Vec<Fault> {
        let mut listed = self.listed;
        let message = match self.unlisted {
            0 => return listed,
            1 => format!("and 1 more {one}, which is not listed"),
            more => format!("and {more} more {several}, which are not listed"),
        };
        listed.push(Fault { pointer: String::new(), message });
        listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(count: usize, pointer: &str) -> Faults {
        let mut faults = Faults::default();
        (0..count).for_each(|_| faults.note(pointer, "wrong"));
        faults
    }

    fn last(faults: Faults) -> String {
        faults.into_vec().pop().map(|fault| fault.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        assert!(noted(0, "/a").into_vec().is_empty());
        let full = noted(FAULTS_MAX, "/a");
        assert_eq!((full.count(), last(full)), (FAULTS_MAX, "/a: wrong".to_owned()));
        let one = noted(FAULTS_MAX + 1, "/a");
        assert_eq!(one.count(), FAULTS_MAX + 1);
        assert_eq!(last(one), "(document): and 1 more fault, which is not listed");
        let many = noted(FAULTS_MAX + 60_000, "/a");
        assert_eq!(many.clone().into_vec().len(), FAULTS_MAX + 1);
        assert_eq!(last(many), "(document): and 60000 more faults, which are not listed");
    }

    #[test]
    fn pointers_are_cut_and_all_of_them_take_bounded_memory() {
        let faults = noted(FAULTS_MAX, &format!("/{}", "é".repeat(400_000)));
        assert_eq!(faults.count(), FAULTS_MAX);
        let listed = faults.into_vec();
        assert!(listed.len() > LIST_FAULTS_MAX && listed.len() < FAULTS_MAX, "{}", listed.len());
        let bytes: usize = listed.iter().map(|fault| fault.pointer.len()).sum();
        assert!(bytes <= POINTERS_BYTES_MAX + POINTER_BYTES_MAX + '…'.len_utf8(), "{bytes}");
    }

    #[test]
    fn a_list_leaves_room_for_what_comes_after_it() {
        let mut faults = Faults::default();
        faults.within_list(|outer| {
            outer.within_list(|inner| (0..2_500).for_each(|_| inner.note("/a/0", "wrong")));
            outer.note("/a/1", "wrong");
        });
        faults.note("/b", "wrong");
        assert_eq!(faults.count(), 2_502);
        let listed = faults.into_vec();
        assert_eq!(listed.len(), LIST_FAULTS_MAX + 2);
        let [.., first, second] = listed.as_slice() else { panic!("two at least") };
        assert_eq!(first.pointer, "/b");
        assert_eq!(second.message, "and 1501 more faults, which are not listed");
    }
}
