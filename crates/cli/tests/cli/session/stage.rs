//! A directory in which sessions are run, and what they left there.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::binary::{Screen, command};
use crate::place::Place;

/// A project with a workspace of its own.
pub(super) struct Stage {
    pub(super) place: Place,
}

impl Stage {
    pub(super) fn new() -> Self {
        let place = Place::empty();
        assert_eq!(place.run(&["init"]).code, 0);
        Self { place }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(super) fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Runs a task with these contents.
    pub(super) fn run_task(&self, task: &str) -> Screen {
        self.write("task.toml", task);
        self.place.run(&["run", "task.toml"])
    }

    /// A command that runs in this place.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command
            .current_dir(self.place.path())
            .env("COUNTERSIGN_CONFIG", self.path("config"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts a command and lets it run.
    pub(super) fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// The ids of all traces, the oldest first.
    pub(super) fn traces(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(".countersign/traces")) else { return Vec::new() };
        let mut ids: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        ids.sort();
        ids
    }

    /// The only trace.
    pub(super) fn trace(&self) -> String {
        let traces = self.traces();
        assert_eq!(traces.len(), 1, "{traces:?}");
        traces.into_iter().next().unwrap()
    }

    pub(super) fn ledger(&self, trace: &str) -> PathBuf {
        self.path(&format!(".countersign/traces/{trace}/events.jsonl"))
    }

    pub(super) fn events_of(&self, trace: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.ledger(trace)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The events of the only trace.
    pub(super) fn events(&self) -> Vec<Value> {
        self.events_of(&self.trace())
    }

    /// The types of the events of the only trace, each with its role.
    pub(super) fn story(&self) -> Vec<String> {
        self.events().iter().map(told).collect()
    }

    /// The payloads of the events of this type.
    pub(super) fn payloads(&self, event_type: &str) -> Vec<Value> {
        let events = self.events();
        let matching = events.iter().filter(|event| event["event_type"] == event_type);
        matching.map(|event| event["payload"].clone()).collect()
    }

    pub(super) fn artifact(&self, hash: &Value) -> Vec<u8> {
        let hash = hash.as_str().unwrap();
        let (a, b) = (&hash[..2], &hash[2..4]);
        fs::read(self.path(&format!(".countersign/artifacts/sha256/{a}/{b}/{hash}"))).unwrap()
    }

    pub(super) fn text(&self, hash: &Value) -> String {
        String::from_utf8(self.artifact(hash)).unwrap()
    }

    /// Verifies the only trace.
    pub(super) fn verify(&self) -> Screen {
        self.place.run(&["verify", &self.trace()])
    }

    /// The verifier's report on the only trace.
    pub(super) fn report(&self) -> Value {
        let screen = self.place.run(&["verify", &self.trace(), "--json", "--no-write"]);
        serde_json::from_slice(&screen.stdout).unwrap()
    }
}

fn told(event: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    format!("{} {}", text(&event["actor"]["role"]), text(&event["event_type"]))
}
