//! The rules, by what they guard.

mod code;
mod deletion;
mod files;
mod found;
mod git;
mod inline;
mod network;
mod publish;
mod sed;
mod system;

use super::pattern;
use super::rule::Rule;

/// Names of files that hold secrets and that a glob for names may mean.
pub(super) fn secrets_like(glob: &str) -> Vec<&'static str> {
    const KEYS: &[&str] = &["server.pem", "server.key", "server.p12", "server.pfx", "server.jks"];
    let mut found = pattern::matched(glob, files::SECRETS);
    found.extend(pattern::matched(glob, KEYS));
    // A glob for all files of an ordinary sort is not about secrets.
    found.retain(|name| !glob.starts_with("*.") || KEYS.contains(name) || name.starts_with('.'));
    found.retain(|name| !["config.json", "shadow", ".docker"].contains(name));
    found
}

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
        found::RULES,
        network::RULES,
    ]
    .into_iter()
    .flatten()
}
