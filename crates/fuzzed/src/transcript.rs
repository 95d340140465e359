//! Transcripts of agents: however the bytes come, the same calls are in them.

use std::io::{self, Read};

use countersign_format::hash::Hash;
use countersign_runtime::coverage::Transcript;
use countersign_runtime::secrets::Redactor;

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "transcript",
    holds: |data| holds(data, |from| read(from)),
    twin: |data| {
        holds(data, |from| {
            let mut first = [0; 64];
            let count = from.read(&mut first).unwrap_or_default();
            read(&mut first.get(..count).unwrap_or_default())
        });
    },
    tries: 2_000,
    words: "{·}·[·]·,·:·\"·\n·\"type\":\"assistant\"·\"type\":\"user\"·\"type\":\"tool_use\"·\
        \"type\":\"tool_result\"·\"id\":·\"tool_use_id\":·\"name\":\"Bash\"·\"input\":{·\
        \"content\":[·\"message\":{·\"isSidechain\":true·\"is_error\":true·\
        \"timestamp\":\"2026-01-01T00:00:00.000Z\"·\"type\":\"response_item\"·\"payload\":{·\
        \"call_id\":·\"arguments\":·\"function_call\"·null·\\ud800·server_tool_use",
};

fn read(from: &mut dyn Read) -> Result<Transcript, String> {
    Transcript::from_reader("t.jsonl", from, &Redactor::none()).map_err(|error| error.to_string())
}

/// Gives few bytes at a time.
struct Slow<'d>(&'d [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(1 + self.0.len() % 61);
        self.0.read(into.get_mut(..most).unwrap_or_default())
    }
}

fn holds(data: &[u8], read: impl Fn(&mut dyn Read) -> Result<Transcript, String>) {
    let whole = read(&mut &*data);
    let slowly = read(&mut Slow(data));
    assert_eq!(format!("{slowly:?}"), format!("{whole:?}"), "in pieces it says otherwise");
    let Ok(transcript) = whole else { return };
    assert_eq!(transcript.sha256, Some(Hash::of(data)), "the hash of the file");
    let breaks = data.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert!(transcript.lines >= breaks && transcript.lines <= breaks + 1, "its lines");
    let bad = transcript.bad_lines.len() as u64 + transcript.more_bad_lines;
    assert!(transcript.other_lines + bad + u64::from(transcript.torn) <= transcript.lines);
    assert!(transcript.bad_lines.iter().all(|(line, _)| (1..=transcript.lines).contains(line)));
}
