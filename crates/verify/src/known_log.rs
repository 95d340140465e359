//! A workspace log that is read once, for any number of traces.

use std::fmt;
use std::io;

use countersign_format::report::VerificationReport;

use crate::against::{Against, Evidence};
use crate::findings::Findings;
use crate::log::{self, LogRead, Sizes, Traces, Wanted};
use crate::pipeline::Ledger;
use crate::profile::Profile;
use crate::trace::{log_report, pin_of, verify_against};
use crate::{Options, Source};

/// A log, everything that it says, and what is wrong with it.
pub struct KnownLog {
    log: LogRead,
    findings: Findings,
}

impl KnownLog {
    /// Reads the log of `source`, if it has one. What is kept grows with the log.
    pub fn read(source: &dyn Source, profile: Profile) -> io::Result<Option<Self>> {
        Self::read_at(source, profile, Sizes::All)
    }

    /// The same for traces that have seen the log at these sizes.
    pub(crate) fn read_at(
        source: &dyn Source,
        profile: Profile,
        sizes: Sizes,
    ) -> io::Result<Option<Self>> {
        let Some(reader) = source.log()? else { return Ok(None) };
        let checkpoints = source.checkpoints()?;
        let wanted = Wanted { traces: Traces::All, sizes, checkpoints: &checkpoints, profile };
        let mut findings = Findings::default();
        let log = log::read(reader, &wanted, &mut findings)?;
        Ok(Some(Self { log, findings }))
    }

    /// Verifies a trace against this log, whatever log its source has. The verdict is that of
    /// [`verify`](crate::verify).
    pub fn verify(&self, source: &dyn Source, options: &Options) -> io::Result<VerificationReport> {
        let mut findings = Findings::default();
        findings.take_over_from_log(self.findings.clone());
        let ledger = Ledger::open(source.events()?)?;
        let first = ledger.first_event();
        let pin = first.as_ref().and_then(pin_of);
        let stated = first.map(|event| event.trace_id).unwrap_or_default();
        let trace_id = options.expect_trace.as_deref().unwrap_or(&stated);
        let view = Some(self.log.view(trace_id, pin.as_ref()));
        let against = Against { ledger, pin, view, onlooker: None };
        verify_against(source, options, Evidence::Read, against, findings)
    }

    /// The traces that it knows.
    pub(crate) fn trace_ids(&self) -> impl Iterator<Item = &str> {
        self.log.trace_ids()
    }

    /// The verdict on the log itself.
    #[must_use]
    pub fn report(&self, options: &Options) -> VerificationReport {
        log_report(&self.log, options, self.findings.clone())
    }
}

impl fmt::Debug for KnownLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownLog").field("entries", &self.log.entries).finish_non_exhaustive()
    }
}
