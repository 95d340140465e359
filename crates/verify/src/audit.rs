//! Whether what an audit recorded is what its report says, and whether the report is about this.

use std::io::{self, Read as _};

use countersign_format::event::{Event, EventType};
use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::report::{FailureCode, VERIFICATION_REPORT};
use countersign_format::shape::{Checker, Dialect, Shape};
use serde_json::Value;

use crate::findings::{CheckId, Findings, Place};
use crate::profile::Profile;
use crate::{Source, StoredArtifact};

/// Bytes that the report of an audit may have.
const REPORT_BYTES_MAX: usize = 16 << 20;
/// Events that may lie between the start of an audit and what its report covers.
const BETWEEN_MAX: usize = 4_096;

/// The audits of a trace.
#[derive(Debug, Default)]
pub(crate) struct Audits {
    /// The audit that is under way.
    run: Option<Run>,
    /// Audits that ended.
    ended: u64,
    /// Audits whose report could not be looked at.
    unread: u64,
}

/// An audit that is under way.
#[derive(Debug)]
struct Run {
    /// Events up to its start, which included.
    events: u64,
    /// The heads from there on.
    heads: Vec<Hash>,
}

/// What a report says, where it could be read.
enum Told {
    Report(Value),
    Misshapen(String),
    /// There is no store, or what is in it is not the report; that is for another check to say.
    Nothing,
}

impl Audits {
    /// Says how many audits there were. Behind `stop`, if there is one, nobody looked for any.
    pub(crate) fn finish(&self, stop: Option<u64>, findings: &mut Findings) {
        let check = CheckId::Finalization;
        match (self.ended, stop) {
            (0, None) => return findings.skip(check, "no audit has ended"),
            (0, Some(index)) => {
                let why = format!("no audit ends before event {index}, where reading stopped");
                return findings.skip(check, why);
            }
            _ => {}
        }
        let unread = match self.unread {
            0 => String::new(),
            count => format!(", {count} without a report that could be read"),
        };
        findings.scope(check, format!("{} audits{unread}", self.ended));
    }

    /// Takes in an event, at which the trace has `events` events and this head.
    pub(crate) fn meet(&mut self, event: &Event, events: u64, head: Hash) {
        match event.event_type {
            EventType::VerificationRunStarted => {
                self.run = Some(Run { events, heads: vec![head] });
            }
            _ => {
                if let Some(run) = self.run.as_mut().filter(|run| run.heads.len() < BETWEEN_MAX) {
                    run.heads.push(head);
                }
            }
        }
    }

    /// Looks at the end of an audit.
    pub(crate) fn end(
        &mut self,
        event: &Event,
        dialect: Dialect,
        source: Option<&dyn Source>,
    ) -> io::Result<Option<(FailureCode, String)>> {
        self.ended += 1;
        let run = self.run.take();
        // Without a run the rules have spoken; schema 1.0 does not say where a report lies.
        let Some(run) = run.filter(|_| dialect == Dialect::V1_1) else { return Ok(None) };
        let member = |name: &str| event.payload.get(name).and_then(Value::as_str);
        let Some(hash) = member("report_artifact").and_then(|text| text.parse::<Hash>().ok())
        else {
            return Ok(None);
        };
        let violation = |message: String| Some((FailureCode::RolePolicyViolation, message));
        if event.artifacts.iter().all(|artifact| artifact.artifact_hash != hash) {
            return Ok(violation(format!("the report {hash} is not listed among the artifacts")));
        }
        Ok(match source.map_or(Ok(Told::Nothing), |source| read(source, &hash))? {
            Told::Nothing => {
                self.unread += 1;
                None
            }
            Told::Misshapen(message) => Some((FailureCode::SchemaInvalid, message)),
            Told::Report(report) => run.differs(event, &report).and_then(violation),
        })
    }
}

/// Puts what was found at the end of an audit among the findings.
pub(crate) fn tell(
    (code, message): (FailureCode, String),
    event: &Event,
    place: &Place,
    profile: &Profile,
    findings: &mut Findings,
) {
    let report = event.payload.get("report_artifact").and_then(Value::as_str);
    let artifact = report.and_then(|text| text.parse().ok());
    let place = Place { artifact, ..place.clone() };
    findings.broken_rule((CheckId::Finalization, code), profile, &place, message);
}

impl Run {
    /// What is different in the report from what the trace says.
    fn differs(&self, event: &Event, report: &Value) -> Option<String> {
        let text = |name: &str| report.get(name).and_then(Value::as_str).unwrap_or_default();
        let stated = |name: &str| event.payload.get(name).and_then(Value::as_str);
        for (name, wanted) in [
            ("trace_id", Some(event.trace_id.as_str())),
            ("report_id", stated("report_id")),
            ("verification_status", stated("verification_status")),
        ] {
            let (found, wanted) = (text(name), wanted.unwrap_or_default());
            if found != wanted {
                return Some(format!("the report has the {name} `{found}`, not `{wanted}`"));
            }
        }
        let events = report.pointer("/metrics/events").and_then(Value::as_u64).unwrap_or(0);
        let after = events.checked_sub(self.events).and_then(|after| usize::try_from(after).ok());
        let covered = after.and_then(|after| self.heads.get(after)).map(Hash::to_hex);
        if covered.as_deref() == Some(text("head")) {
            return None;
        }
        Some(format!(
            "the report is about {events} events ending in `{}`: not those up to the start of the \
             audit, number {}",
            text("head"),
            self.events
        ))
    }
}

fn read(source: &dyn Source, hash: &Hash) -> io::Result<Told> {
    let StoredArtifact::Bytes(stored) = source.artifact(hash)? else { return Ok(Told::Nothing) };
    let mut bytes = Vec::new();
    stored.take(REPORT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > REPORT_BYTES_MAX {
        let message = format!("the report has more than {REPORT_BYTES_MAX} bytes");
        return Ok(Told::Misshapen(message));
    }
    if Hash::of(&bytes) != *hash {
        return Ok(Told::Nothing);
    }
    let report = match json::read_up_to(&bytes, REPORT_BYTES_MAX) {
        Ok(report) => report,
        Err(error) => return Ok(Told::Misshapen(format!("the report cannot be read: {error}"))),
    };
    let mut checker = Checker::new(Dialect::V1_1);
    checker.check(&Shape::Object(&VERIFICATION_REPORT), &report);
    Ok(match checker.into_faults().into_iter().next() {
        Some(fault) => Told::Misshapen(format!("the report is misshapen: {fault}")),
        None => Told::Report(report),
    })
}
