//! The published proofs: the verifier says of each what stands beside them.

use std::fs;
use std::path::PathBuf;

use countersign_format::proof::{EquivocationStatus, InclusionStatus, PortableProof};
use countersign_format::report::Failure;
use countersign_verify::verify_equivocation;
use serde_json::{Value, json};

use crate::forge::{judge, options};

fn codes(failures: &[Failure]) -> Vec<&'static str> {
    failures.iter().map(|failure| failure.failure_code.as_str()).collect()
}

#[test]
fn the_published_proofs_get_the_published_answers() {
    let proofs =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/vectors/proofs"));
    let expected = fs::read(proofs.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    for (name, wanted) in expected.as_object().unwrap() {
        let bytes = fs::read(proofs.join(format!("{name}.json"))).unwrap();
        let (status, failures) = match PortableProof::read(&bytes).unwrap() {
            PortableProof::Event(proof) => {
                let report = judge(&proof);
                let included = report.inclusion_status == InclusionStatus::Included;
                (if included { "included" } else { "fail" }, report.failures)
            }
            PortableProof::Equivocation(proof) => {
                let report = verify_equivocation(&proof, &options());
                let proven = report.equivocation_status == EquivocationStatus::Proven;
                (if proven { "proven" } else { "fail" }, report.failures)
            }
        };
        let found = json!({ "status": status, "failures": codes(&failures) });
        assert_eq!(found, *wanted, "{name}: {failures:?}");
    }
}
