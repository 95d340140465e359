//! The kinds of document, and what is asked of each.

use std::ffi::OsStr;
use std::fmt::Display;

use countersign_format::envelope::{
    ENVELOPE_BYTES_MAX, EnvelopeError, InputEnvelope, Migration, OutputEnvelope, migrate_input,
    migrate_output,
};
use countersign_format::event::{SignatureFaults, event_faults};
use countersign_format::exit::{
    AGENT_EXIT_PROTOCOL_ENABLED, ExitFlag, ExitSignal, ExitSignalError, INPUT_BYTES_MAX,
};
use countersign_format::json::{self, LINE_BYTES_MAX, Value};
use countersign_format::receipt;
use countersign_format::shape::{FAULTS_MAX, Fault, Unknown};
use countersign_runtime::task::TASK_BYTES_MAX;
use serde::Serialize;

use super::HeldPhase;
use super::verdict::{Findings, FoundFaults, Migrated, PlacedFault, Refusal, Verdict};
use crate::Document;

/// What a document should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// JSON that every reader takes alike; prints its canonical form (RFC 8785)
    Json,
    /// One line of a trace: the canonical bytes of an object, and at most its line break
    LedgerLine,
    /// An event with the members of its schema, in whatever bytes; see `ledger-line` for those
    Event,
    /// A receipt, an action or its hashed fields; prints the receipt hash
    Receipt,
    /// What an agent says when it leaves a phase of work; prints the phase that follows
    ExitSignal,
    /// What an agent is given
    InputEnvelope,
    /// What an agent gives back
    OutputEnvelope,
    /// A task file (TOML), with what a session is for; prints who takes part and what is done
    Task,
    /// A flow file (TOML), with the agents that are composed; prints its steps
    Flow,
    /// An agent, run with a battery of envelopes: `check agent -- CMD…`
    Agent,
}

impl Kind {
    /// Bytes that such a document may have.
    pub(super) const fn bytes_max(self) -> usize {
        match self {
            Self::Json | Self::Event | Self::Receipt => LINE_BYTES_MAX,
            // The line and its break.
            Self::LedgerLine => LINE_BYTES_MAX + 1,
            Self::ExitSignal => INPUT_BYTES_MAX,
            Self::InputEnvelope | Self::OutputEnvelope => ENVELOPE_BYTES_MAX,
            Self::Task | Self::Flow | Self::Agent => TASK_BYTES_MAX,
        }
    }
}

/// JSON that every reader takes alike, and its canonical bytes.
pub(super) fn json(document: &Document) -> Verdict {
    match within(document, LINE_BYTES_MAX).and_then(|bytes| Ok(json::read(bytes)?)) {
        Ok(value) => {
            let canonical = json::to_bytes(&value);
            Verdict::Valid(Findings {
                canonical: Some(String::from_utf8_lossy(&canonical).into_owned()),
                data: Some(canonical),
                ..Findings::default()
            })
        }
        Err(fault) => Verdict::Invalid(not_valid(fault)),
    }
}

/// The canonical bytes of one object. The line break, if it is there, does not belong to them.
pub(super) fn ledger_line(document: &Document) -> Verdict {
    let line = within(document, LINE_BYTES_MAX + 1);
    let scan = |line: &[u8]| json::line::scan(line.strip_suffix(b"\n").unwrap_or(line)).map(drop);
    match line.and_then(|line| Ok(scan(line)?)) {
        Ok(()) => Verdict::Valid(Findings::default()),
        Err(fault) => Verdict::Invalid(not_valid(fault)),
    }
}

/// The members that the schema asks of an event.
pub(super) fn event(document: &Document) -> Verdict {
    let read = within(document, LINE_BYTES_MAX).and_then(|bytes| Ok(json::read(bytes)?));
    let faults = match read {
        Ok(event) => event_faults(&event, SignatureFaults::Listed, FAULTS_MAX),
        Err(fault) => return Verdict::Invalid(Refusal::listed("event", fault.into())),
    };
    if faults.is_empty() {
        Verdict::Valid(Findings::default())
    } else {
        Verdict::Invalid(Refusal::listed("event", faults.into()))
    }
}

/// A receipt that agrees with itself, or an action; and its hash.
pub(super) fn receipt(document: &Document) -> Verdict {
    let checked = within(document, LINE_BYTES_MAX)
        .map_err(FoundFaults::from)
        .and_then(|bytes| Ok(receipt::check_with(bytes, Unknown::Kept)?));
    match checked {
        Ok(checked) => Verdict::Valid(Findings {
            data: Some(format!("{}\n", checked.hash).into_bytes()),
            hash: Some(checked.hash.to_hex()),
            form: Some(checked.form.field_count()),
            receipt_kind: Some(checked.kind.as_str()),
            canonical: Some(checked.canonical),
            hints: placed(checked.unknown),
            ..Findings::default()
        }),
        Err(faults) => Verdict::Invalid(Refusal::listed("receipt", faults)),
    }
}

/// What is answered while exit signals are switched off, whatever the document is; otherwise
/// nothing.
pub(super) fn exit_signals_disabled() -> Option<Verdict> {
    let value = std::env::var_os(AGENT_EXIT_PROTOCOL_ENABLED);
    match ExitFlag::from_env_value(value.as_deref().and_then(OsStr::to_str)) {
        ExitFlag::Enabled => None,
        ExitFlag::Disabled => {
            let hint = format!("set `{AGENT_EXIT_PROTOCOL_ENABLED}=true` to have it checked");
            let refusal = said(&ExitSignalError::ValidationDisabled).with_hint(hint);
            Some(Verdict::Invalid(refusal))
        }
    }
}

/// A signal, and the phase that follows: by the table alone, or for a session that holds `held`.
pub(super) fn exit_signal(document: &Document, held: Option<HeldPhase>) -> Verdict {
    let next = read_signal(document).map_err(|error| said(&error)).and_then(|signal| match held {
        None => signal.next_phase().map_err(|error| said(&error)),
        Some(HeldPhase(held)) => signal.check_for_phase(held).map_err(|refusal| said(&refusal)),
    });
    match next {
        Ok(next) => Verdict::Valid(Findings {
            data: Some(format!("{next}\n").into_bytes()),
            next_phase: Some(next.as_str()),
            ..Findings::default()
        }),
        Err(refusal) => Verdict::Invalid(refusal),
    }
}

fn read_signal(document: &Document) -> Result<ExitSignal, ExitSignalError> {
    if document.length > INPUT_BYTES_MAX {
        let (actual, max) = (document.length, INPUT_BYTES_MAX);
        return Err(ExitSignalError::InputTooLarge { actual, max });
    }
    ExitSignal::from_json_bytes(&document.bytes)
}

/// What an agent is given.
pub(super) fn input_envelope(document: &Document) -> Verdict {
    let read = envelope(document, InputEnvelope::from_bytes);
    told("input envelope", read.map(|envelope| envelope.legacy_hints()))
}

/// What an agent gives back.
pub(super) fn output_envelope(document: &Document) -> Verdict {
    let read = envelope(document, OutputEnvelope::from_bytes);
    told("output envelope", read.map(|envelope| envelope.legacy_hints()))
}

fn envelope<T>(
    document: &Document,
    read: impl FnOnce(&[u8]) -> Result<T, EnvelopeError>,
) -> Result<T, FoundFaults> {
    read(within(document, ENVELOPE_BYTES_MAX)?).map_err(faults_of)
}

fn faults_of(error: EnvelopeError) -> FoundFaults {
    match error {
        EnvelopeError::Json(error) => PlacedFault::from(error).into(),
        EnvelopeError::Faults(faults) => faults.into(),
    }
}

/// What an agent is given, in the present form.
pub(super) fn migrated_input(document: &Document) -> Verdict {
    migrated("input envelope", document, migrate_input, |bytes| {
        InputEnvelope::from_bytes(bytes).map(drop)
    })
}

/// What an agent gives back, in the present form.
pub(super) fn migrated_output(document: &Document) -> Verdict {
    migrated("output envelope", document, migrate_output, |bytes| {
        OutputEnvelope::from_bytes(bytes).map(drop)
    })
}

fn migrated(
    what: &'static str,
    document: &Document,
    migrate: impl FnOnce(Value) -> Migration,
    check: impl Fn(&[u8]) -> Result<(), EnvelopeError>,
) -> Verdict {
    let read = envelope(document, |bytes| {
        let value = json::read_up_to(bytes, ENVELOPE_BYTES_MAX)?;
        // What is no object has nothing to move, and is refused in the usual words.
        if value.is_object() { Ok(value) } else { check(bytes).map(|()| value) }
    });
    let Migration { value, changes, by_hand } = match read {
        Ok(value) => migrate(value),
        Err(faults) => return Verdict::Invalid(Refusal::listed(what, faults)),
    };
    let text = format!("{value:#}\n");
    let faults = check(text.as_bytes()).err().map(faults_of).unwrap_or_default();
    Verdict::Migrated(Migrated {
        what,
        text,
        envelope: value,
        changes: placed(changes),
        by_hand: placed(by_hand),
        valid: faults.is_empty(),
        faults,
    })
}

fn told(what: &str, hints: Result<Vec<Fault>, FoundFaults>) -> Verdict {
    match hints {
        Ok(hints) => Verdict::Valid(Findings { hints: placed(hints), ..Findings::default() }),
        Err(faults) => Verdict::Invalid(Refusal::listed(what, faults)),
    }
}

/// The whole document, if it is not longer than `max`.
fn within(document: &Document, max: usize) -> Result<&[u8], PlacedFault> {
    if document.length <= max {
        return Ok(&document.bytes);
    }
    let message = format!("document of {}, the limit is {max}", document.size());
    Err(PlacedFault::at_the_beginning(message))
}

fn not_valid(fault: PlacedFault) -> Refusal {
    Refusal::single(format!("not valid: {}", fault.said()), fault)
}

/// A refusal in the words of the specification.
fn said(reason: &impl Display) -> Refusal {
    Refusal::single(reason.to_string(), PlacedFault::of_document(reason.to_string()))
}

fn placed(faults: Vec<Fault>) -> Vec<PlacedFault> {
    faults.into_iter().map(PlacedFault::from).collect()
}
