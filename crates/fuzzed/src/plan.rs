//! Task files and flow files: every fault has its place, and lines that say nothing change nothing.

use std::fmt::Debug;

use countersign_runtime::flow::{FlowFile, FlowReading};
use countersign_runtime::task::{TASK_BYTES_MAX, TASK_FAULTS_MAX, Task, TaskFault};

use crate::Target;

pub(crate) const TASK: Target = Target {
    name: "task_file",
    holds: |data| holds(data, Task::from_bytes),
    twin: |data| holds(data, |bytes| Task::from_bytes(bytes.trim_ascii())),
    tries: 4_000,
    words: WORDS,
};

pub(crate) const FLOW: Target = Target {
    name: "flow_file",
    holds: |data| holds(data, flow),
    twin: |data| holds(data, |bytes| flow(bytes.trim_ascii())),
    tries: 4_000,
    words: WORDS,
};

const WORDS: &str = "\n·\r\n·=·.·,·\"·'·\"\"\"·[·]·[[·]]·{·}·#·[[steps]]\n·[[steps.actions]]\n·\
        [agents.planner]\n·[limits]\n·[sandbox]\n·[policy]\n·[budget]\n·task_id = ·\
        objective = ·argv = ·kind = ·name = ·agent = ·after = ·when = ·params = ·paths = ·\
        repeat·approve·0x1F·1_000·-1·inf·nan·1979-05-27·true·\\u0000·\\U0010FFFF·\u{0}·\
        \u{feff}·é·../x·a = 1\n·steps = []\n·\"${steps.a.summary}\"·{{·}}· == ·\
        feature_id = ·workflow = ·iteration·timeout_seconds = ";

fn flow(bytes: &[u8]) -> Result<FlowFile, Vec<TaskFault>> {
    let exists = |path: &str| !path.contains("absent");
    FlowFile::from_bytes(bytes, &FlowReading { feature_id: None, exists: &exists })
}

fn holds<T: Debug + PartialEq>(data: &[u8], read: fn(&[u8]) -> Result<T, Vec<TaskFault>>) {
    let found = read(data);
    if let Err(faults) = &found {
        assert!(!faults.is_empty(), "refused without a fault");
        assert!(faults.len() <= TASK_FAULTS_MAX, "{} faults", faults.len());
        let places = faults.iter().map(|fault| (fault.line, fault.column));
        assert!(places.is_sorted(), "not in the order of the file");
        let lines = data.iter().filter(|byte| **byte == b'\n').count() + 1;
        for fault in faults {
            assert!((1..=lines).contains(&fault.line) && fault.column >= 1, "{fault}");
            let control = |letter: char| letter.is_control();
            assert!(!fault.message.is_empty() && !fault.to_string().contains(control), "{fault:?}");
        }
    }
    if data.len() + 2 > TASK_BYTES_MAX || data.starts_with(b"\xef\xbb\xbf") {
        return;
    }
    let mut moved = read(&[b"\n", data].concat());
    for fault in moved.as_mut().err().into_iter().flatten() {
        // What the document as a whole lacks is told at its beginning.
        fault.line = (fault.line - 1).max(1);
    }
    let in_order = |read: &Result<T, Vec<TaskFault>>| {
        let mut faults = read.as_ref().err().cloned().unwrap_or_default();
        faults.sort_by_cached_key(|fault| (fault.line, fault.column, fault.to_string()));
        faults
    };
    assert_eq!(in_order(&moved), in_order(&found), "a line before it changes its faults");
    assert_eq!(moved.as_ref().ok(), found.as_ref().ok(), "a line before it changes it");
    if found.is_ok() {
        assert_eq!(read(&[data, b"\n# x"].concat()), found, "a comment after it changes it");
    }
}
