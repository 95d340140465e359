//! What somebody kept of the log, held against a proof: a copy of the log, or checkpoints of it.
//!
//! A copy that is longer than the proof's checkpoint knows more: its keys then count.

use std::io::{self, BufRead};

use countersign_format::event::Reading;
use countersign_format::note::NoteKey;
use countersign_format::proof::EventProof;
use countersign_format::report::FailureCode;

use crate::Source;
use crate::extract::{ExtractView, parse_note};
use crate::findings::{CheckId, Findings, Place};
use crate::inclusion::{Pair, pin_of, sound};
use crate::lines::{Lines, RawLine};
use crate::log::{self, Traces, Wanted};
use crate::profile::Profile;

/// Compares a proof with what was kept. Gives the number of log entries whose keys counted.
pub(crate) fn compare(
    proof: &EventProof,
    pair: &Pair<'_>,
    view: &ExtractView,
    kept: &dyn Source,
    findings: &mut Findings,
) -> io::Result<u64> {
    let checkpoints = kept.checkpoints()?;
    let Some(reader) = kept.log()? else {
        for bytes in &checkpoints {
            checkpoint(bytes, view, &proof.log.checkpoint, findings);
        }
        return Ok(view.size);
    };
    let entries = shared_entries(reader, view, findings)?;
    if entries < view.size {
        shorter(entries, view, findings);
        for bytes in &checkpoints {
            checkpoint(bytes, view, &proof.log.checkpoint, findings);
        }
        return Ok(view.size);
    }
    whole_log(proof, pair, checkpoints, kept, findings)
}

/// A log that reaches at least as far as the proof: it counts, and must be intact.
fn whole_log(
    proof: &EventProof,
    pair: &Pair<'_>,
    mut checkpoints: Vec<Vec<u8>>,
    kept: &dyn Source,
    findings: &mut Findings,
) -> io::Result<u64> {
    let Some(reader) = kept.log()? else { return Ok(0) };
    checkpoints.insert(0, proof.log.checkpoint.clone().into_bytes());
    let pin = pin_of(&pair.first.event);
    let trace_id = &pair.event.event.trace_id;
    let wanted = Wanted {
        traces: Traces::One(trace_id),
        sizes: pin.iter().map(|pin| pin.size).collect(),
        checkpoints: &checkpoints,
        profile: Profile::DEFAULT,
    };
    let mut own = Findings::default();
    let log = log::read(reader, &wanted, &mut own)?.view(trace_id, pin.as_ref());
    findings.take_over_from_log(own);
    let covering = log.extents.iter().find(|extent| extent.size > pair.event.seq);
    let shown = proof.extents.first().map(|paths| paths.entry);
    if covering.map(|extent| extent.entry) != shown {
        let message = "the log has this trace earlier than the proof shows it".to_owned();
        findings.fail(CheckId::Log, FailureCode::ChainBreak, &Place::default(), message);
    }
    if sound(findings) {
        pair.signatures(|_| log.book.clone(), findings);
    }
    Ok(log.entries)
}

/// Says that the log given does not reach as far.
pub(crate) fn shorter(entries: u64, view: &ExtractView, findings: &mut Findings) {
    let message = format!(
        "the log given has {entries} entries, the proof's checkpoint is of {}: only the entries that \
         both have were compared",
        view.size
    );
    unused(findings, message);
}

/// Compares entry by entry what both have, and gives the number of entries that the log has.
pub(crate) fn shared_entries(
    reader: Box<dyn BufRead + '_>,
    view: &ExtractView,
    findings: &mut Findings,
) -> io::Result<u64> {
    let (mut lines, mut index) = (Lines::new(reader), 0);
    let mut differs = None;
    while let Some(raw) = lines.next_line()? {
        let RawLine::Complete(line) = raw else { break };
        if let Some(hash) = view.hashes.get(&index)
            && !Reading::of(line).is_ok_and(|reading| reading.event_hash == *hash)
        {
            differs = differs.or(Some(index));
        }
        index += 1;
    }
    if let Some(index) = differs {
        let message = format!("entry {index} of the log given is another than that of the proof");
        findings.fail(CheckId::Log, FailureCode::ChainBreak, &Place::default(), message);
    }
    Ok(index)
}

/// A checkpoint alone: at the same size it must say the same.
pub(crate) fn checkpoint(bytes: &[u8], view: &ExtractView, own: &str, findings: &mut Findings) {
    let (note, kept) = match parse_note(bytes) {
        Ok(parsed) => parsed,
        Err(message) => {
            let place = Place::default();
            return findings.warn(CheckId::Log, "CHECKPOINT_UNREADABLE", &place, message);
        }
    };
    let Ok((_, ours)) = parse_note(own.as_bytes()) else { return };
    let fail = |findings: &mut Findings, code, message| {
        findings.fail(CheckId::Log, code, &Place::default(), message);
    };
    if kept.origin != ours.origin {
        let message =
            format!("the checkpoint given is of `{}`, the log of `{}`", kept.origin, ours.origin);
        return fail(findings, FailureCode::ChainBreak, message);
    }
    if kept.size != ours.size {
        let message = format!(
            "the checkpoint given is of {} entries, that of the proof of {}: without the log they \
             cannot be compared",
            kept.size, ours.size
        );
        return unused(findings, message);
    }
    let known: &[NoteKey] = &view.recorders;
    if !note.verify(known).is_ok_and(|signers| !signers.is_empty()) {
        let message = "the checkpoint given is not signed by a recorder key of this log".to_owned();
        fail(findings, FailureCode::SigInvalid, message);
    } else if kept.root == ours.root {
        findings.evidence(CheckId::Log, format!("checkpoint kept at entry {}", kept.size));
    } else {
        let message = format!(
            "the checkpoint given has another root at {} entries: the log was told differently",
            kept.size
        );
        fail(findings, FailureCode::ChainBreak, message);
    }
}

fn unused(findings: &mut Findings, message: String) {
    findings.warn(CheckId::Log, "CHECKPOINT_UNUSED", &Place::default(), message);
}
