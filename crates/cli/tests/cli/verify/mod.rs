//! `countersign verify`, as a stranger runs it.

mod all;
mod cut;
mod hostile;
#[cfg(target_os = "linux")]
mod read_only;

use std::fs;
use std::path::{Path, PathBuf};

use countersign_testkit::SessionStory;
use countersign_testkit::second_reader::{Inquiry, SecondReader, Subject, difference};
use countersign_verify::Profile;
use serde_json::Value;

use crate::binary::Screen;
use crate::place::Place;

/// A closed session in files, and a reader who has nothing but those.
struct Files {
    place: Place,
    root: String,
    trace: PathBuf,
}

impl Files {
    fn closed() -> Self {
        let story = SessionStory::whole();
        let place = Place::empty();
        let home = place.path().join("home");
        story.write_to(&home);
        let trace = home.join("traces").join(story.id().to_string());
        Self { place, root: story.fingerprint().to_hex(), trace }
    }

    fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }

    fn ledger(&self) -> PathBuf {
        self.trace.join("events.jsonl")
    }

    /// Verifies `target` without writing, trusting the root.
    fn verify(&self, target: &Path, more: &[&str]) -> Screen {
        let target = target.display().to_string();
        let always = ["verify", &target, "--no-write", "--trust", &self.root];
        self.place.run(&[&always, more].concat())
    }
}

/// How often people said yes in a trace of a workspace with the usual place, as both readers count it.
pub(crate) fn approvals(place: &Place, trace: &str) -> Value {
    let verified = place.run(&["verify", trace, "--no-write", "--json"]);
    let report: Value = serde_json::from_str(verified.stdout()).unwrap();
    let inquiry = Inquiry {
        subject: Subject::InHome {
            home: place.path().join(".countersign"),
            ledger: trace.to_owned(),
            root: report["root"].as_str().unwrap().parse().unwrap(),
        },
        profile: Profile::DEFAULT,
        expected: None,
    };
    assert_eq!(difference(&mut SecondReader::start(), &inquiry), None);
    report["approvals"].clone()
}

/// All files below `dir` with their bytes.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                found.push((path.clone(), fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}
