//! The rules, by what they guard.

mod code;
mod deletion;
mod files;
mod git;
mod network;
mod publish;
mod sed;
mod system;

use super::rule::Rule;

/// All of them, in the order in which they speak.
pub(super) fn all() -> impl Iterator<Item = &'static Rule> {
    [
        deletion::RULES,
        system::RULES,
        code::RULES,
        sed::RULES,
        git::RULES,
        publish::RULES,
        files::RULES,
        network::RULES,
    ]
    .into_iter()
    .flatten()
}
