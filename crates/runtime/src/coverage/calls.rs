//! Calls of transcripts against calls of traces.
//!
//! A call is recorded if an intent has its id and its arguments, each for one call. What went to a server behind the proxy has another id
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
    let mut by_id = RecordedById::default();
    for recorded in std::iter::once(trace).chain(related) {
        by_id.add(recorded);
    }
    // A call may stand in two transcripts, of an agent and of its sub-agent: it is one all the same.
    let mut calls: Vec<TranscriptCall> = Vec::new();
    let mut places = BTreeMap::new();
    for call in transcripts.iter().flat_map(|transcript| &transcript.calls) {
        let place = *places.entry(call.key()).or_insert(calls.len());
        match calls.get_mut(place) {
            Some(known) => known.result = known.result.max(call.result),
            None => calls.push(call.clone()),
        }
    }
    let found = by_id.account_for(&calls);
    let mut wanted = Wanted::default();
    for (call, found) in calls.iter().zip(&found) {
        if !matches!(found, Found::Nothing) {
            wanted.met.insert(call.id.clone());
        }
        match found {
            Found::Same(recorded) => done_anyway(call, recorded, report),
            Found::Other(recorded) => told_differently(call, recorded, report),
            Found::Nothing if OWN_TOOLS.contains(&call.tool.as_str()) => {}
            Found::Nothing if call.tool.starts_with(MCP_PREFIX) => wanted.add(call),
            Found::Nothing => report.gap_list.add(not_recorded(call)),
        }
    }
    for transcript in transcripts {
        let mut source = source(transcript);
        for call in &transcript.calls {
            let found = places.get(&call.key()).and_then(|&place| found.get(place));
            match found {
                Some(Found::Same(_) | Found::Other(_)) => source.recorded += 1,
                _ if OWN_TOOLS.contains(&call.tool.as_str()) => source.to_recorder += 1,
                _ => {}
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

/// The recorded call that accounts for one of a transcript.
#[derive(Debug, Clone, Copy)]
enum Found<'t> {
    /// One of the same arguments, as far as they can be compared.
    Same(&'t RecordedCall),
    /// One of other arguments.
    Other(&'t RecordedCall),
    Nothing,
}

/// Recorded calls by their ids. Each accounts for one call.
#[derive(Default)]
struct RecordedById<'t> {
    free: BTreeMap<&'t str, Vec<&'t RecordedCall>>,
}

impl<'t> RecordedById<'t> {
    fn add(&mut self, trace: &'t RecordedTrace) {
        for call in &trace.calls {
            if let Some(id) = &call.call_id {
                self.free.entry(id).or_default().push(call);
            }
        }
    }

    /// What accounts for each call: those with the same arguments first, then those whose arguments
    /// cannot be compared, then whatever is left.
    fn account_for(mut self, calls: &[TranscriptCall]) -> Vec<Found<'t>> {
        let mut found = vec![Found::Nothing; calls.len()];
        for likeness in [Likeness::Same, Likeness::Unknown, Likeness::Other] {
            for (call, found) in calls.iter().zip(&mut found) {
                if matches!(found, Found::Nothing)
                    && let Some(recorded) = self.take(call, likeness)
                {
                    *found = match likeness {
                        Likeness::Other => Found::Other(recorded),
                        Likeness::Same | Likeness::Unknown => Found::Same(recorded),
                    };
                }
            }
        }
        found
    }

    /// Uses up a recorded call, one that ran before one that did not: what was refused may have been
    /// reported once more when it was done.
    fn take(&mut self, call: &TranscriptCall, likeness: Likeness) -> Option<&'t RecordedCall> {
        let free = self.free.get_mut(call.id.as_str())?;
        let fits = |it: &&RecordedCall| Likeness::of(call, it) == likeness;
        let place = free.iter().position(fits)?;
        let taken = free.remove(place);
        if taken.may_have_run() {
            return Some(taken);
        }
        let later =
            |it: &&RecordedCall| it.may_have_run() && Likeness::of(call, it) != Likeness::Other;
        let Some(place) = free.iter().position(later) else { return Some(taken) };
        Some(free.remove(place))
    }
}

/// How the arguments of a recorded call are to those of a transcript's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Same,
    Unknown,
    Other,
}

impl Likeness {
    fn of(call: &TranscriptCall, recorded: &RecordedCall) -> Self {
        if call.hashes.is_empty() || !recorded.arguments {
            return Self::Unknown;
        }
        match recorded.input.is_some_and(|input| call.hashes.contains(&input)) {
            true => Self::Same,
            false => Self::Other,
        }
    }
}

/// A call that ran although the trace says that it was not let.
fn done_anyway(call: &TranscriptCall, recorded: &RecordedCall, report: &mut CoverageReport) {
    if call.result != CallResult::Ran || recorded.may_have_run() {
        return;
    }
    let kind = match recorded.decision {
        Decided::Asked => GapKind::DoneUnanswered,
        _ => GapKind::DoneDespite,
    };
    let event = Some(recorded.place.clone());
    report.gap_list.add(CoverageGap { kind, event, ..not_recorded(call) });
}

/// The same id, and something else: a transcript or a hook does not tell the truth, or a program
/// changed the arguments on the way.
fn told_differently(call: &TranscriptCall, recorded: &RecordedCall, report: &mut CoverageReport) {
    let why = format!("the transcript has other arguments: {}", call.input);
    report.told_differently.add(NotedCall { why, ..noted(recorded, "") });
    let (kind, event) = (GapKind::ToldDifferently, Some(recorded.place.clone()));
    report.gap_list.add(CoverageGap { kind, event, ..not_recorded(call) });
}

/// What the trace itself shows: calls that nobody asked about, that were refused and done, or that
/// nobody ended.
pub(super) fn look_at_trace(trace: &RecordedTrace, report: &mut CoverageReport) {
    for call in &trace.calls {
        if call.despite {
            report.gap_list.add(shown(GapKind::DoneDespite, call));
        } else if call.ungated && (call.by_hook || call.call_id.is_some()) {
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
