//! An error with its causes, in the words that a client is told.

use std::error::Error;

/// An error with its causes in one line, without those that only repeat what was said.
pub(crate) fn whole(error: &(dyn Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !said.ends_with(&text) {
            said = format!("{said}: {text}");
        }
        next = cause.source();
    }
    said
}
