//! Whether Claude Code runs the hooks that it was told of.

use std::fs;
use std::path::Path;

use super::{State, Visit};
use crate::commands::init::hooks_are_disabled;

/// Its settings in a workspace, of all and of one.
const FILES: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];
/// What our hooks run.
const OUR_WORDS: &str = " hook claude-code";

pub(super) fn look(home: &Path, visit: &mut Visit) {
    let beside = home.parent().unwrap_or(home);
    let texts = FILES.map(|file| fs::read_to_string(beside.join(file)).unwrap_or_default());
    if !texts.iter().any(|text| text.contains(OUR_WORDS)) {
        return;
    }
    for (file, _) in FILES.iter().zip(&texts).filter(|(_, text)| hooks_are_disabled(text)) {
        let what = format!("Claude Code runs no hooks: `disableAllHooks` is set in `{file}`");
        visit.say("hooks", State::Warning, what);
        visit.hint("take `disableAllHooks` out; until then nothing that it does is recorded");
    }
}
