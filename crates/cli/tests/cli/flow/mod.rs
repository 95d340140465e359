//! `countersign flow`: agents composed by envelopes, run by the real binary with real processes.

mod asked;
mod cases;
mod checked;
mod cut_off;
mod examples;
mod files;
mod kit;
mod random;
mod run;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::binary::Screen;
use crate::place::Place;

/// Reads its envelope and does what `answers/ACTION-ITERATION`, else `answers/ACTION`, says.
const AGENT: &str = r#"IN=$(cat)
IT=$(printf %s "$IN" | sed -n 's/.*"iteration":\([0-9]*\).*/\1/p')
AC=$(printf %s "$IN" | sed -n 's/.*"action":"\([a-z0-9_-]*\)".*/\1/p')
F="answers/$AC-$IT"; [ -f "$F" ] || F="answers/$AC"
. "./$F"
"#;

/// What every flow of these tests begins with.
pub(super) const HEAD: &str = "workflow = \"specify\"\nfeature_id = \"005\"\n\
    [agents.a]\nkind = \"command\"\ncommand = [\"sh\", \"agent.sh\"]\ntime_seconds = 20\n\
    [agents.join]\nkind = \"built-in\"\n";

/// A workspace with an agent in it.
pub(super) fn workspace() -> Place {
    let place = Place::empty();
    let made = place.run(&["init"]);
    assert_eq!(made.code, 0, "{made}");
    std::fs::create_dir(place.path().join("answers")).unwrap();
    write(&place, "agent.sh", AGENT);
    place
}

pub(super) fn write(place: &Place, path: &str, text: &str) {
    let path = place.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// What the agent does when it is asked for `action`.
pub(super) fn script(place: &Place, action: &str, shell: &str) {
    write(place, &format!("answers/{action}"), shell);
}

/// What the agent prints when it is asked for `action`.
pub(super) fn says(place: &Place, action: &str, envelope: &Value) {
    write(place, &format!("answers/{action}.json"), &envelope.to_string());
    script(place, action, &format!("cat answers/{action}.json\n"));
}

/// An output envelope that proceeds, with these files to create.
pub(super) fn writes(files: &[(&str, &str)]) -> Value {
    let files: Vec<Value> = files
        .iter()
        .map(|(path, content)| json!({ "path": path, "operation": "create", "content": content }))
        .collect();
    json!({
        "success": true, "summary": "done", "artifacts": files, "notes": [],
        "recommendation": "proceed",
    })
}

/// One that writes nothing.
pub(super) fn recommends(success: bool, recommendation: &str, notes: &[&str]) -> Value {
    json!({
        "success": success, "summary": format!("I say {recommendation}"), "artifacts": [],
        "notes": notes, "recommendation": recommendation,
    })
}

pub(super) fn flow(place: &Place, steps: &str) {
    write(place, "flow.toml", &format!("{HEAD}{steps}"));
}

/// Runs `flow.toml`.
pub(super) fn run(place: &Place) -> Ran {
    ran(place, place.run(&["flow", "run", "flow.toml", "--json"]))
}

/// A run of a flow, and what was recorded of it.
pub(super) struct Ran {
    pub(super) screen: Screen,
    pub(super) trace: String,
    pub(super) events: Vec<Value>,
}

pub(super) fn ran(place: &Place, screen: Screen) -> Ran {
    let first: Value = match screen.stdout().lines().next() {
        Some(line) => serde_json::from_str(line).unwrap(),
        None => panic!("{screen}"),
    };
    let trace = first["trace_id"].as_str().unwrap().to_owned();
    let events = events(place, &trace);
    Ran { screen, trace, events }
}

pub(super) fn events(place: &Place, trace: &str) -> Vec<Value> {
    let path = place.path().join(".countersign/traces").join(trace).join("events.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Ran {
    pub(super) fn of(&self, event_type: &str) -> Vec<&Value> {
        let events = self.events.iter().filter(|event| event["event_type"] == event_type);
        events.map(|event| &event["payload"]).collect()
    }

    pub(super) fn outcome(&self) -> &str {
        self.of("flow_finished").last().map_or("open", |it| it["outcome"].as_str().unwrap())
    }

    /// The steps in the order in which they were called.
    pub(super) fn called(&self) -> Vec<String> {
        let name = |it: &&Value| format!("{}#{}", it["step"].as_str().unwrap(), it["iteration"]);
        self.of("step_dispatched").iter().map(name).collect()
    }

    /// The input envelope of a call.
    pub(super) fn input(&self, place: &Place, call: usize) -> Value {
        let hash = self.of("step_dispatched")[call]["envelope_artifact"].as_str().unwrap();
        let bytes = place.run(&["artifact", "show", hash]);
        serde_json::from_slice(&bytes.stdout).unwrap()
    }

    /// Whether the trace verifies and its decisions come out the same again.
    pub(super) fn holds(&self, place: &Place, code: i32) {
        let verified = place.run(&["verify", &self.trace, "--no-write"]);
        assert_eq!(verified.code, code, "{verified}");
        let replayed = place.run(&["flow", "replay", &self.trace]);
        assert_eq!(replayed.code, 0, "{replayed}");
    }
}

/// Every file of the workspace that is not the store, the keys or the agent's.
pub(super) fn files(place: &Place) -> BTreeMap<String, String> {
    fn walk(root: &Path, at: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let ours = [".countersign", "config", "answers", "agent.sh", "flow.toml"];
            if ours.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&place.path(), &place.path(), &mut found);
    found
}
