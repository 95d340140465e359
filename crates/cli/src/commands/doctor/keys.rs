//! Whether the private keys of the workspace can be used.

use std::path::Path;

use countersign_format::key::{AgentIdentity, KeyStatus};
use countersign_runtime::Workspace;
use countersign_runtime::keyring::KeyringError;

use super::{State, Visit, why};

/// One thing that keeps keys from being used. A directory with a wrong mode keeps all of them.
struct Trouble {
    what: String,
    kind: Kind,
    agents: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The file is not there.
    Missing,
    /// The file may not be used; the error says how to change that.
    Forbidden,
    /// The file is not what it should be.
    Damaged,
}

pub(super) fn look(workspace: &Workspace, visit: &mut Visit) {
    let known = workspace.keys().and_then(|keys| Ok((keys, workspace.keyless_agents()?)));
    let (keys, keyless) = match known {
        Ok(known) => known,
        Err(error) => {
            let what = format!("the log does not tell which keys there are: {}", why(error));
            return visit.say("keys", State::Wrong, what);
        }
    };
    let active: Vec<_> = keys.iter().filter(|key| key.status == KeyStatus::Active).collect();
    let troubles = troubles(workspace, &active);
    if troubles.is_empty() {
        visit.say("keys", State::Ok, format!("{} active keys can be used", active.len()));
    }
    for trouble in &troubles {
        visit.say("keys", State::Wrong, trouble.finding(active.len()));
        if let Some(hint) = trouble.hint(active.len()) {
            visit.hint(hint);
        }
    }
    for agent in keyless {
        visit.say("keys", State::Warning, format!("`{agent}` has no active key"));
        visit.hint(format!("run `countersign keys rotate {agent}`"));
    }
}

/// Keys in the reach of every agent that works here are not kept from it.
pub(super) fn look_at_place(workspace: &Workspace, visit: &mut Visit) {
    let home = workspace.home();
    let beside = home.parent().filter(|_| home.file_name().is_some_and(|it| it == ".countersign"));
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (config, root) = (resolved(workspace.config()), resolved(beside.unwrap_or(home)));
    if config.starts_with(&root) {
        let config = config.display();
        let what = format!("`{config}` lies in the workspace, where agents can read private keys");
        visit.say("keys", State::Warning, what);
        visit.hint("move it elsewhere, and let `COUNTERSIGN_CONFIG` name the new place");
    }
}

fn troubles(workspace: &Workspace, keys: &[&AgentIdentity]) -> Vec<Trouble> {
    let mut found: Vec<Trouble> = Vec::new();
    for key in keys {
        let (what, kind) = match key.key_id.parse().map(|id| workspace.keyring().entry(id)) {
            Ok(Ok(_)) => continue,
            Ok(Err(KeyringError::Missing { path, .. })) => {
                (format!("missing from `{}`", path.display()), Kind::Missing)
            }
            Ok(Err(error @ KeyringError::File(_))) => (why(error), Kind::Forbidden),
            Ok(Err(error)) => (why(error), Kind::Damaged),
            Err(error) => (why(error), Kind::Damaged),
        };
        match found.iter_mut().find(|trouble| trouble.what == what) {
            Some(trouble) => trouble.agents.push(key.agent_id.clone()),
            None => found.push(Trouble { what, kind, agents: vec![key.agent_id.clone()] }),
        }
    }
    found
}

impl Trouble {
    fn finding(&self, active: usize) -> String {
        let what = &self.what;
        match self.agents.as_slice() {
            agents if agents.len() == active => {
                format!("none of the {active} active keys can be used: {what}")
            }
            [agent] => format!("the key of `{agent}` cannot be used: {what}"),
            agents => format!("the keys of `{}` cannot be used: {what}", agents.join("`, `")),
        }
    }

    fn hint(&self, active: usize) -> Option<String> {
        match (self.kind, self.agents.as_slice()) {
            (Kind::Forbidden, _) => None,
            (Kind::Missing, agents) if agents.len() == active => Some(
                "put the keys back, or let `COUNTERSIGN_CONFIG` name the directory that has them"
                    .to_owned(),
            ),
            (_, agents) if agents.iter().any(|agent| agent == "root") => Some(
                "put the root key back from a copy: without it no key can be changed".to_owned(),
            ),
            (_, [agent]) => Some(format!("run `countersign keys rotate {agent}`")),
            (_, _) => Some("run `countersign keys rotate NAME` for each of them".to_owned()),
        }
    }
}
