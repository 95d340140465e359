//! Calls of transcripts against calls of traces.
//!
//! A call is recorded if an intent has its id. What went to a server behind the proxy has another id
//! there: it counts as recorded if some trace of the workspace has a call of that tool with these
//! arguments at about that time, each for one call.

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;

use super::recorded::{Decided, EndOfCall, RecordedCall, RecordedTrace};
use super::report::{
    CoverageGap, CoverageReport, ElsewhereCall, GapKind, NotedCall, TranscriptSource,
};
use super::transcript::{CallResult, Transcript, TranscriptCall};

/// How far apart the clocks of a transcript and of a recorder may be, with the wait for a person
/// between them.
const APART_MILLIS_MAX: i64 = 20 * 60 * 1_000;
/// How clients name the tools of MCP servers.
const MCP_PREFIX: &str = "mcp__";
/// The tools by which agents speak to this recorder, as `init --mcp` wires them up.
const OWN_TOOLS: [&str; 5] = [
    "mcp__countersign__capseal_context",
    "mcp__countersign__capseal_gate",
    "mcp__countersign__capseal_record",
    "mcp__countersign__capseal_seal",
    "mcp__countersign__capseal_status",
];

/// Calls of transcripts that were not found by their ids, but may be elsewhere in the workspace.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    calls: Vec<Option<TranscriptCall>>,
    by_input: BTreeMap<(String, Hash), Vec<usize>>,
    used: BTreeSet<(Ulid, u64)>,
    met: BTreeSet<String>,
}

/// Compares the calls of `transcripts` with those of the trace and of `related` ones. What is left to
/// be looked for elsewhere is given back.
pub(super) fn compare(
    trace: &RecordedTrace,
    related: &[RecordedTrace],
    transcripts: &[Transcript],
    report: &mut CoverageReport,
) -> Wanted {
    let mut by_id: BTreeMap<&str, Vec<(Ulid, &RecordedCall)>> = BTreeMap::new();
    for recorded in std::iter::once(trace).chain(related) {
        for call in &recorded.calls {
            if let Some(id) = &call.call_id {
                by_id.entry(id).or_default().push((recorded.id, call));
            }
        }
    }
    let mut wanted = Wanted::default();
    for transcript in transcripts {
        let mut source = source(transcript);
        for call in &transcript.calls {
            let found = by_id.get(call.id.as_str());
            if let Some(found) = found {
                source.recorded += 1;
                wanted.met.insert(call.id.clone());
                told_differently(call, found, report);
            } else if OWN_TOOLS.contains(&call.tool.as_str()) {
                source.to_recorder += 1;
            } else if call.tool.starts_with(MCP_PREFIX) {
                wanted.add(call);
            } else {
                report.gap_list.add(not_recorded(call));
            }
        }
        for (line, why) in &transcript.bad_lines {
            let what = format!("line {line} of {}: {why}", transcript.name);
            report.gap_list.add(gap(GapKind::UnreadableLine, what));
        }
        report.gap_list.count += transcript.more_bad_lines;
        report.transcripts.push(source);
    }
    wanted
}

/// What the trace itself shows: calls that nobody asked about, that were refused and done, or that
/// nobody ended.
pub(super) fn look_at_trace(trace: &RecordedTrace, report: &mut CoverageReport) {
    for call in &trace.calls {
        if call.despite {
            report.gap_list.add(shown(GapKind::DoneDespite, call));
        } else if call.ungated && call.call_id.is_some() {
            report.gap_list.add(shown(GapKind::NotAsked, call));
        }
        let why = match (call.decision, call.started, call.end) {
            (Decided::Approved, false, _) => "it was approved, and nobody reported it done",
            (_, true, None) => "it began, and nobody recorded how it ended",
            (_, true, Some(EndOfCall::Unknown)) => "it began, and nobody knows how it ended",
            _ => continue,
        };
        report.unknown.add(noted(call, why));
    }
}

impl Wanted {
    fn add(&mut self, call: &TranscriptCall) {
        for hash in &call.hashes {
            let places = self.by_input.entry((call.tool.clone(), *hash)).or_default();
            places.push(self.calls.len());
        }
        self.calls.push(Some(call.clone()));
    }

    /// Whether there is nothing to look for.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes out what the calls of `trace` account for, each for one.
    pub(super) fn look_in(&mut self, trace: &RecordedTrace, report: &mut CoverageReport) {
        for recorded in &trace.calls {
            let (Some(tool), Some(input)) = (client_name(&recorded.tool), recorded.input) else {
                continue;
            };
            let Some(places) = self.by_input.get_mut(&(tool, input)) else { continue };
            let near = |place: &usize| {
                let call = self.calls.get(*place).and_then(Option::as_ref);
                call.is_some_and(|call| {
                    call.at.is_none_or(|at| apart(at, recorded.at) <= APART_MILLIS_MAX)
                })
            };
            let Some(found) = places.iter().position(near) else { continue };
            let call = self.calls.get_mut(places.remove(found)).and_then(Option::take);
            if let Some(call) = call {
                self.used.insert((trace.id, recorded.place.seq));
                report.recorded_elsewhere.add(ElsewhereCall {
                    call_id: call.id,
                    tool: call.tool,
                    trace_id: trace.id.to_string(),
                    event: recorded.place.clone(),
                });
            }
        }
    }

    /// What is nowhere; and what the trace has beside that.
    pub(super) fn give_up(self, trace: &RecordedTrace, report: &mut CoverageReport) {
        for call in self.calls.iter().flatten() {
            report.gap_list.add(not_recorded(call));
        }
        if report.transcripts.is_empty() {
            return;
        }
        for call in &trace.calls {
            let Some(id) = &call.call_id else { continue };
            if !self.met.contains(id) && !self.used.contains(&(trace.id, call.place.seq)) {
                report.not_in_transcript.add(noted(call, "no transcript that was given has it"));
            }
        }
    }
}

fn apart(one: Timestamp, other: Timestamp) -> i64 {
    (one.as_millis() - other.as_millis()).abs()
}

/// What a client calls a tool that the proxy calls `server/tool`.
fn client_name(tool: &str) -> Option<String> {
    let plain = |text: &str| -> String {
        let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        text.chars().map(|c| if keep(c) { c } else { '_' }).collect()
    };
    let (server, tool) = tool.split_once('/')?;
    Some(format!("{MCP_PREFIX}{}__{}", plain(server), plain(tool)))
}

/// The same id, and something else: a transcript or a hook does not tell the truth, or a program
/// changed the arguments on the way.
fn told_differently(
    call: &TranscriptCall,
    found: &[(Ulid, &RecordedCall)],
    report: &mut CoverageReport,
) {
    let comparable: Vec<_> = found.iter().filter(|(_, it)| it.arguments).collect();
    let same =
        |recorded: &RecordedCall| recorded.input.is_some_and(|input| call.hashes.contains(&input));
    if call.hashes.is_empty() || comparable.iter().any(|(_, recorded)| same(recorded)) {
        return;
    }
    if let Some((_, recorded)) = comparable.first() {
        let why = format!("the transcript has other arguments: {}", call.input);
        report.told_differently.add(NotedCall { why, ..noted(recorded, "") });
    }
}

fn source(transcript: &Transcript) -> TranscriptSource {
    TranscriptSource {
        name: transcript.name.clone(),
        sha256: transcript.sha256,
        lines: transcript.lines,
        other_lines: transcript.other_lines,
        torn: transcript.torn,
        calls: transcript.calls.len() as u64,
        recorded: 0,
        to_recorder: 0,
        server_calls: transcript.server_calls,
    }
}

fn not_recorded(call: &TranscriptCall) -> CoverageGap {
    CoverageGap {
        call_id: Some(call.id.clone()),
        tool: Some(call.tool.clone()),
        at: call.at,
        result: Some(call.result),
        by_sub_agent: call.by_sub_agent,
        ..gap(GapKind::NotRecorded, call.input.clone())
    }
}

fn shown(kind: GapKind, call: &RecordedCall) -> CoverageGap {
    CoverageGap {
        call_id: call.call_id.clone(),
        tool: Some(call.tool.clone()),
        at: Some(call.at),
        event: Some(call.place.clone()),
        ..gap(kind, call.description.clone())
    }
}

pub(super) fn gap(kind: GapKind, what: String) -> CoverageGap {
    CoverageGap {
        kind,
        call_id: None,
        tool: None,
        at: None,
        what,
        result: None::<CallResult>,
        by_sub_agent: false,
        event: None::<EventRef>,
    }
}

fn noted(call: &RecordedCall, why: &str) -> NotedCall {
    NotedCall {
        call_id: call.call_id.clone(),
        tool: call.tool.clone(),
        at: call.at,
        event: call.place.clone(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_behind_the_proxy_are_known_by_their_clients_names() {
        let table = [
            ("files/read_file", Some("mcp__files__read_file")),
            ("my server/a.b", Some("mcp__my_server__a_b")),
            ("Bash", None),
        ];
        for (tool, expected) in table {
            assert_eq!(client_name(tool).as_deref(), expected);
        }
    }
}
