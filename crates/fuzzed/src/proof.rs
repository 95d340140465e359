//! Proofs of events and of equivocation: one spelling, and no changed one proves what it did not.

use std::io::{self, BufRead};

use countersign_format::id::Ulid;
use countersign_format::json::{self, Value};
use countersign_format::proof::{
    EquivocationStatus, InclusionStatus, LogExtract, NoProof, PortableProof,
};
use countersign_format::time::Timestamp;
use countersign_verify::{Options, Profile, Source, verify_equivocation, verify_proof};

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "proof",
    holds: |data| holds(data, PortableProof::read),
    twin: |data| holds(data, |bytes| PortableProof::read(&canonical(bytes))),
    tries: 1_500,
    words: "{·}·[·]·,·:·\"·\\n·\\\"·0·1·7·\"entries\":·\"path\":·\"line\":·\"extents\":·\
        \"leaves\":·\"prefix\"·\"checkpoints\"·\"events\"·\"1.1.0\"· ",
};

/// The vectors that hold.
const INCLUDED: [&str; 3] = [
    include_str!("../../../docs/formats/vectors/proofs/after-rotation.json"),
    include_str!("../../../docs/formats/vectors/proofs/before-rotation.json"),
    include_str!("../../../docs/formats/vectors/proofs/first-event.json"),
];
const PROVEN: [&str; 3] = [
    include_str!("../../../docs/formats/vectors/proofs/older-is-no-prefix.json"),
    include_str!("../../../docs/formats/vectors/proofs/two-checkpoints.json"),
    include_str!("../../../docs/formats/vectors/proofs/two-entries.json"),
];

/// A reader that has kept nothing of any log.
pub(crate) struct NothingKept;

impl Source for NothingKept {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(io::empty()))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        Ok(None)
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }
}

/// A reader that brings nothing along.
pub(crate) fn options() -> Options {
    Options {
        trusted_roots: std::collections::BTreeSet::new(),
        keys: Vec::new(),
        profile: Profile::DEFAULT,
        expect_trace: None,
        expect_head: None,
        expect_count: None,
        report_id: Ulid::from_parts(Timestamp::EPOCH, 0).to_string(),
        now: Timestamp::EPOCH,
    }
}

/// What a reader would make of a text that is not canonical and who does not mind.
fn canonical(bytes: &[u8]) -> Vec<u8> {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    value.map_or_else(|| bytes.to_vec(), |value| json::to_bytes(&value))
}

fn holds(data: &[u8], read: fn(&[u8]) -> Result<PortableProof, NoProof>) {
    if let Ok(extract) = LogExtract::read(data) {
        assert_eq!(extract.to_bytes(), data, "another spelling of an extract");
    }
    let Ok(proof) = read(data) else { return };
    let text = data.strip_suffix(b"\n").unwrap_or(data);
    match &proof {
        PortableProof::Event(proof) => {
            assert_eq!(proof.to_bytes().strip_suffix(b"\n"), Some(text), "another spelling");
            let report = verify_proof(proof, &NothingKept, &options()).expect("memory can be read");
            let fails = report.inclusion_status == InclusionStatus::Fail;
            assert_eq!(fails, !report.failures.is_empty());
            let same = INCLUDED.iter().filter_map(|it| read(it.as_bytes()).ok()).any(|it| {
                matches!(it, PortableProof::Event(it)
                    if (&it.event, &it.first) == (&proof.event, &proof.first))
            });
            assert!(fails || same, "an event that nobody signed is shown");
        }
        PortableProof::Equivocation(proof) => {
            assert_eq!(proof.to_bytes().strip_suffix(b"\n"), Some(text), "another spelling");
            let report = verify_equivocation(proof, &options());
            let proven = report.equivocation_status == EquivocationStatus::Proven;
            let statements = |first: &str, second: &str| {
                let mut both = [first.to_owned(), second.to_owned()];
                both.sort();
                both
            };
            let same = PROVEN.iter().filter_map(|it| read(it.as_bytes()).ok()).any(|it| {
                matches!(it, PortableProof::Equivocation(it)
                    if statements(&it.first, &it.second) == statements(&proof.first, &proof.second))
            });
            assert!(!proven || same, "somebody is accused of what nobody said");
        }
    }
}
