//! The index, which is made anew where there is one. Where there is none, the next lookup makes it.

use countersign_runtime::Workspace;
use countersign_runtime::index::{INDEX_NAME, IndexPlace};

use super::{State, Visit, why};
use crate::narration::plural;

const AREA: &str = "index";

pub(super) fn look(workspace: &Workspace, visit: &mut Visit) {
    if workspace.home().join(INDEX_NAME).symlink_metadata().is_err() {
        return;
    }
    let made = workspace.rebuild_index().and_then(|mut index| {
        let traces = index.traces()?.len();
        Ok((traces, index.place().clone()))
    });
    match made {
        Ok((traces, IndexPlace::File)) => {
            let traces = plural(traces, "trace", "traces");
            visit.say(AREA, State::Ok, format!("made anew from {traces}"));
        }
        Ok((_, IndexPlace::Memory { why })) => {
            visit.say(AREA, State::Warning, format!("it cannot be made anew: {why}"));
            visit.hint("every lookup reads all traces until it can");
        }
        Err(error) => {
            visit.say(AREA, State::Warning, format!("it cannot be made anew: {}", why(error)));
        }
    }
}

#[cfg(test)]
mod tests {
    use countersign_testkit::TestHome;

    use super::*;

    fn findings(home: &TestHome) -> Vec<(State, String)> {
        let mut visit = Visit { findings: Vec::new() };
        look(&home.workspace, &mut visit);
        visit.findings.into_iter().map(|finding| (finding.state, finding.what)).collect()
    }

    #[test]
    fn an_index_is_made_anew_where_there_is_one() {
        let home = TestHome::new();
        let _recording = home.recording();
        assert_eq!(findings(&home), []);
        assert!(!home.path().join(INDEX_NAME).exists());
        std::fs::write(home.path().join(INDEX_NAME), "?").unwrap();
        assert_eq!(findings(&home), [(State::Ok, "made anew from 1 trace".to_owned())]);
        std::fs::remove_file(home.path().join(INDEX_NAME)).unwrap();
        std::fs::create_dir(home.path().join(INDEX_NAME)).unwrap();
        let found = findings(&home);
        let [(State::Warning, what)] = found.as_slice() else { panic!("{found:?}") };
        assert!(what.starts_with("it cannot be made anew: its file cannot be opened"), "{what}");
    }
}
