//! The small documents of a session, in which the same facts stand again.

use countersign_format::hash::Hash;
use countersign_format::python::{self, PyObject, PyString, PyValue};

use super::action::at;
use super::rows::halves;

/// What the actions themselves come to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    pub(super) actions: u64,
    pub(super) last: Hash,
    /// The roots that the rows may have.
    pub(super) roots: [Hash; 2],
}

/// The small documents, as far as they are there.
#[derive(Debug, Default)]
pub(super) struct Documents {
    pub(super) manifest: PyObject,
    pub(super) metadata: Option<PyObject>,
    pub(super) capsule: Option<PyObject>,
    pub(super) proof: Option<(PyObject, Hash)>,
}

/// Reads a document that is an object.
pub(super) fn read(name: &str, bytes: &[u8]) -> Result<PyObject, String> {
    match python::loads(bytes) {
        Ok(PyValue::Object(members)) => Ok(members),
        Ok(other) => Err(format!("`{name}` is {}, not an object", other.describe())),
        Err(error) => Err(format!("`{name}` cannot be read: {error}")),
    }
}

/// Everything in which the documents contradict the actions or each other.
pub(super) fn disagreements(documents: &Documents, truth: &Truth) -> Vec<String> {
    let mut faults = Faults::default();
    faults.manifest(&documents.manifest, truth);
    if let Some(metadata) = &documents.metadata {
        let mut of = faults.of("run_metadata.json", metadata);
        of.number("num_actions", truth.actions);
        of.text("final_receipt_hash", &truth.last.to_hex());
        of.same("agent", "manifest.json", &documents.manifest, "agent");
        of.same("proved", "manifest.json", &documents.manifest, "proof_generated");
    }
    if let Some(capsule) = &documents.capsule {
        faults.capsule(capsule, truth);
        let mut of = faults.of("agent_capsule.json", capsule);
        let (place, manifest) = ("verification/proof_type", &documents.manifest);
        of.same(place, "manifest.json", manifest, "proof_type");
        if let Some((proof, hash)) = &documents.proof {
            of.text("proof/proof_hash", &hash.to_hex());
            faults.proof(proof, capsule, truth);
        }
    }
    faults.found
}

#[derive(Default)]
struct Faults {
    found: Vec<String>,
}

/// A document, and what is wrong with it.
struct Of<'a> {
    name: &'static str,
    document: &'a PyObject,
    found: &'a mut Vec<String>,
}

impl Faults {
    fn of<'a>(&'a mut self, name: &'static str, document: &'a PyObject) -> Of<'a> {
        Of { name, document, found: &mut self.found }
    }

    fn manifest(&mut self, manifest: &PyObject, truth: &Truth) {
        let last = truth.last.to_hex();
        let mut of = self.of("manifest.json", manifest);
        of.number("actions_count", truth.actions);
        of.text("root_hex", &last);
        of.text("chain_hash", &last);
        of.text("capsule_id", last.get(..16).unwrap_or_default());
        of.same("run_id", "manifest.json", manifest, "trace_id");
    }

    fn capsule(&mut self, capsule: &PyObject, truth: &Truth) {
        let mut of = self.of("agent_capsule.json", capsule);
        of.hash_of("statement_hash", "statement");
        of.own_hash("capsule_hash");
        of.text("schema", "agent_capsule_v1");
        of.is_true("verification/constraints_valid");
        of.number("statement/public_inputs/num_actions", truth.actions);
        of.text("statement/public_inputs/final_receipt_hash", &truth.last.to_hex());
        let [low, high] = halves(&truth.last);
        of.number_if_there("statement/public_inputs/final_receipt_lo", low);
        of.number_if_there("statement/public_inputs/final_receipt_hi", high);
        for place in ["statement/num_rows", "commitment/num_rows", "profile/num_rows"] {
            of.number_if_there(place, truth.actions);
        }
        of.is_true_if_there("profile/constraints_valid");
        of.one_of_roots("commitment/row_root", truth);
        of.one_of_roots("statement/row_commitment", truth);
        of.same("statement/air_id", "agent_capsule.json", capsule, "air_id");
    }

    fn proof(&mut self, proof: &PyObject, capsule: &PyObject, truth: &Truth) {
        let mut of = self.of("proof.json", proof);
        of.number("statement/num_actions", truth.actions);
        of.text("statement/final_receipt_hash", &truth.last.to_hex());
        let [low, high] = halves(&truth.last);
        of.number_if_there("statement/final_receipt_lo", low);
        of.number_if_there("statement/final_receipt_hi", high);
        of.number_if_there("commitment/num_rows", truth.actions);
        of.one_of_roots("commitment/row_root", truth);
        of.is_true("constraint_verification/valid");
        for (place, other) in [
            ("air_id", "air_id"),
            ("proof_type", "verification/proof_type"),
            ("commitment/row_root", "commitment/row_root"),
            ("statement/trace_spec_hash", "statement/trace_spec_hash"),
        ] {
            of.same(place, "agent_capsule.json", capsule, other);
        }
        if let Some(PyValue::String(root)) = at(proof, "commitment/row_root") {
            let seed = Hash::of_pieces(&[b"agent_alphas:", root.to_lossy().as_bytes()]);
            of.text_if_there("alphas_seed", &seed.to_hex());
        }
    }
}

impl Of<'_> {
    fn value(&self, place: &str) -> Option<String> {
        at(self.document, place).map(python::dumps)
    }

    fn wrong(&mut self, place: &str, found: Option<&str>, expected: &str) {
        let name = self.name;
        self.found.push(match found {
            Some(found) => {
                format!("`{name}` has the `{place}` {}, the actions give {expected}", short(found))
            }
            None => format!("`{name}` has no `{place}`"),
        });
    }

    fn expect(&mut self, place: &str, expected: &str) {
        let found = self.value(place);
        if found.as_deref() != Some(expected) {
            self.wrong(place, found.as_deref(), expected);
        }
    }

    fn text(&mut self, place: &str, expected: &str) {
        self.expect(place, &python::dumps(&PyValue::String(expected.into())));
    }

    fn text_if_there(&mut self, place: &str, expected: &str) {
        if self.value(place).is_some() {
            self.text(place, expected);
        }
    }

    fn number(&mut self, place: &str, expected: u64) {
        self.expect(place, &expected.to_string());
    }

    fn number_if_there(&mut self, place: &str, expected: u64) {
        if self.value(place).is_some() {
            self.number(place, expected);
        }
    }

    fn is_true(&mut self, place: &str) {
        if self.value(place).as_deref() != Some("true") {
            self.found.push(format!("`{}` does not say that `{place}` is true", self.name));
        }
    }

    fn is_true_if_there(&mut self, place: &str) {
        if self.value(place).is_some() {
            self.is_true(place);
        }
    }

    fn one_of_roots(&mut self, place: &str, truth: &Truth) {
        let Some(found) = self.value(place) else { return };
        let quoted = truth.roots.map(|root| format!("\"{root}\""));
        if !quoted.contains(&found) {
            let [first, _] = &quoted;
            self.wrong(place, Some(&found), first);
        }
    }

    /// Another document says the same, if it says anything.
    fn same(&mut self, place: &str, name: &str, other: &PyObject, there: &str) {
        let (here, there_says) = (self.value(place), at(other, there).map(python::dumps));
        if let (Some(here), Some(said)) = (&here, &there_says)
            && here != said
        {
            let (own, here, said) = (self.name, short(here), short(said));
            self.found.push(format!("`{own}` has the `{place}` {here}, `{name}` {said}"));
        }
    }

    /// A hash over a part of the document, in Python's usual text.
    fn hash_of(&mut self, place: &str, part: &str) {
        let Some(part) = at(self.document, part) else {
            self.found.push(format!("`{}` has no `{part}`", self.name));
            return;
        };
        let computed = Hash::of(python::dumps_spaced(part).as_bytes());
        self.own(place, computed);
    }

    /// A hash over the rest of the document.
    fn own_hash(&mut self, place: &str) {
        let mut rest = self.document.clone();
        rest.remove(&PyString::from(place));
        let computed = Hash::of(python::dumps_spaced(&PyValue::Object(rest)).as_bytes());
        self.own(place, computed);
    }

    fn own(&mut self, place: &str, computed: Hash) {
        let found = self.value(place);
        if found.as_deref() != Some(&format!("\"{computed}\"")) {
            let found = found.as_deref().map_or("nothing", short);
            let name = self.name;
            self.found.push(format!("`{name}` has the `{place}` {found}, computed {computed}"));
        }
    }
}

/// Enough of a value to know it by.
fn short(text: &str) -> &str {
    text.get(..100).unwrap_or(text)
}
