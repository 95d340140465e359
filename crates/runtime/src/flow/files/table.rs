//! What the place of a file and the temporary file beside it say about how far a transaction came.
//!
//! Every file is staged before any is put in its place, a replaced file comes out into the
//! temporary one, and temporary files go only when every file is in its place. So the two of them
//! are the whole memory of it: nothing else is written down.

use super::plan::PlannedFile;
use super::root::Content;

/// How a file gets to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// There is nothing yet.
    New,
    /// The bytes that are there come out.
    Replace,
    /// The bytes are there already.
    Same,
}

/// What is found under a name, by its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    Before,
    After,
    Other,
}

/// How far a file came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// Nothing of it was done.
    Begin,
    /// The new bytes wait beside their place.
    Staged,
    /// The new bytes are in their place.
    InPlace,
    /// They were in their place, and somebody changed them there: that stays.
    EditedSince,
    /// Somebody else wrote the same bytes.
    Equal,
    /// Edited before it was replaced or after, which only the other files can tell.
    Doubtful(&'static str),
    /// Somebody else was here first.
    Conflict(&'static str),
    /// Somebody's edit came out of its place, and is to go back.
    CameOut,
}

/// How a file is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Back {
    /// Its place is as it should be, or somebody else's.
    Leave,
    /// The place and the temporary file change their contents.
    Exchange,
    /// What came out goes back to its place, which is empty.
    Return,
    /// What was put in its place is taken away.
    Withdraw,
}

pub(super) const CHANGED: &str = "was changed";
pub(super) const CREATED: &str = "was created by somebody else";
pub(super) const REMOVED: &str = "was removed";

impl Kind {
    pub(super) fn of(file: &PlannedFile) -> Self {
        match file.before {
            None => Self::New,
            Some(before) if before == file.after => Self::Same,
            Some(_) => Self::Replace,
        }
    }
}

impl State {
    pub(super) fn of(content: &Content, file: &PlannedFile) -> Self {
        match content.hash() {
            _ if matches!(content, Content::Absent) => Self::Absent,
            Some(hash) if hash == file.after => Self::After,
            Some(hash) if Some(hash) == file.before => Self::Before,
            _ => Self::Other,
        }
    }
}

/// How far a file came, by its place and the temporary file.
pub(super) const fn row(kind: Kind, place: State, temporary: State) -> Row {
    use State::{Absent, After, Before, Other};
    match (kind, place, temporary) {
        (Kind::Same, After, _) => Row::Equal,
        (Kind::Same, Absent, _) => Row::Doubtful(REMOVED),
        (Kind::Same, Before | Other, _) => Row::Doubtful(CHANGED),

        // Bytes that are neither were in the place when ours came, or were written over ours while
        // they were taken back.
        (Kind::New | Kind::Replace, _, Other) => Row::CameOut,

        // A second call of a plan whose file was removed after the first one begins again: no bytes
        // are lost by that.
        (Kind::New, Absent, Absent | Before) => Row::Begin,
        (Kind::New, Absent, After) => Row::Staged,
        (Kind::New, After, Absent) => Row::InPlace,
        (Kind::New, After, Before | After) => Row::Equal,
        (Kind::New, Before | Other, Absent) => Row::Doubtful(CREATED),
        (Kind::New, Before | Other, Before | After) => Row::Conflict(CREATED),

        // The old bytes in both: somebody brought them back, as if nothing had been done.
        (Kind::Replace, Before, Absent | Before) => Row::Begin,
        (Kind::Replace, Before, After) => Row::Staged,
        (Kind::Replace, After, Absent | Before) => Row::InPlace,
        (Kind::Replace, After, After) => Row::Equal,
        (Kind::Replace, Other | Absent, Before) => Row::EditedSince,
        (Kind::Replace, Other, Absent) => Row::Doubtful(CHANGED),
        (Kind::Replace, Other, After) => Row::Conflict(CHANGED),
        (Kind::Replace, Absent, Absent) => Row::Doubtful(REMOVED),
        (Kind::Replace, Absent, After) => Row::Conflict(REMOVED),
    }
}

/// How a file is taken back, by its place and the temporary file. `ours` tells whether new bytes in
/// the place of a new file were put there by this transaction.
pub(super) const fn way_back(kind: Kind, place: State, temporary: State, ours: bool) -> Back {
    use State::{Absent, After, Before, Other};
    match (kind, place, temporary) {
        (Kind::Same, ..) => Back::Leave,
        (Kind::New | Kind::Replace, Absent, Other) => Back::Return,
        (Kind::Replace, After, Before | Other) => Back::Exchange,
        (Kind::Replace, Absent, Before) => Back::Return,
        (Kind::New, After, Absent) if ours => Back::Withdraw,
        // Somebody wrote over ours: that stays. Of a replaced file whose old bytes are gone from
        // here ours are not known to be ours.
        (Kind::New | Kind::Replace, _, _) => Back::Leave,
    }
}
