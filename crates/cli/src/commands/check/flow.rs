//! Flow files: what they compose, in short.
//!
//! Says nothing about files that are not there: `flow check` does, in a workspace.

use countersign_runtime::flow::{FlowFile, FlowReading};
use countersign_runtime::task::TASK_BYTES_MAX;

use super::task::too_long;
use super::verdict::{Findings, PlacedFault, Refusal, Verdict};
use crate::Document;
use crate::commands::flow::FlowSummary;

/// A flow file, and what it composes.
pub(super) fn flow(document: &Document) -> Verdict {
    let reading = FlowReading { feature_id: None, exists: &|_| true };
    let read = match document.length {
        0..=TASK_BYTES_MAX => FlowFile::from_bytes(&document.bytes, &reading),
        _ => Err(vec![too_long(document)]),
    };
    match read {
        Ok(flow) => {
            let summary = FlowSummary::of(&flow);
            let data = Some(summary.text().into_bytes());
            Verdict::Valid(Findings { data, flow: Some(summary), ..Findings::default() })
        }
        Err(faults) => {
            let faults: Vec<_> = faults.into_iter().map(PlacedFault::from).collect();
            Verdict::Invalid(Refusal::listed("flow", faults.into()))
        }
    }
}
