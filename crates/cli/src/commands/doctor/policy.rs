//! Whether the gate can use the policy of the workspace. The built-in one is not looked at.

use countersign_gate::Policy;
use countersign_runtime::Workspace;

use super::{State, Visit, why};

const AREA: &str = "policy";

pub(super) fn look(workspace: &Workspace, visit: &mut Visit) {
    let loaded = match workspace.gate() {
        Ok(loaded) => loaded,
        Err(error) => return visit.say(AREA, State::Wrong, why(error)),
    };
    let Some(path) = loaded.policy_file else { return };
    let path = path.display();
    match Policy::from_bytes(&loaded.policy_bytes) {
        Ok(policy) => {
            let rules = policy.rules().len();
            visit.say(AREA, State::Ok, format!("`{path}`: {rules} rules hold to their examples"));
        }
        Err(fault) => {
            let what = format!("`{path}` cannot be used, so that the gate asks about everything");
            visit.say(AREA, State::Wrong, format!("{what}: {fault}"));
            visit
                .hint("run `countersign gate policy` to see it, or remove it for the built-in one");
        }
    }
}
