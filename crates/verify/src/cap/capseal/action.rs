//! One action of a session, by itself: what it says in each of its copies, and its row.

use countersign_format::hash::Hash;
use countersign_format::json::line::containers;
use countersign_format::python::{self, PyObject, PyString, PyValue};
use countersign_format::receipt::{
    ActionType, AgentAction, ChainFault, CheckedReceipt, GateDecision, PolicyVerdict, ReceiptForm,
    ReceiptKind, Record, check,
};

use super::flat::Flat;
use super::rows::{halves, leaf};

/// Of which kind two copies of an action are the same.
pub(super) type Digest = u128;

/// What one line of `actions.jsonl` comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordSeen {
    pub(super) digest: Digest,
    pub(super) receipt_hash: Hash,
    pub(super) parent: Option<Hash>,
    /// The leaf of its row: with the gate taken for asked where it decided, and where it gave a score.
    pub(super) leaves: [Hash; 2],
}

/// Objects and lists of one action: what its tree costs follows from them. Short ones hold too few
/// to be counted.
const CONTAINERS_MAX: usize = 1_024;
const SHORT_BYTES: usize = 8 << 10;

fn not_heavy(index: u64, document: &[u8]) -> Result<(), String> {
    if document.len() > SHORT_BYTES && containers(document) > CONTAINERS_MAX {
        return Err(format!("action {index} has more than {CONTAINERS_MAX} objects and lists"));
    }
    Ok(())
}

/// Looks at a line of `actions.jsonl`.
pub(super) fn record(index: u64, line: &[u8]) -> Result<RecordSeen, String> {
    not_heavy(index, line)?;
    match quick_record(index, line) {
        Some(seen) => Ok(seen),
        None => whole_record(index, line),
    }
}

/// Looks at an element of `actions.json`.
pub(super) fn listed(index: u64, element: &[u8]) -> Result<Digest, String> {
    not_heavy(index, element)?;
    match quick_listed(element) {
        Some(digest) => Ok(digest),
        None => whole_listed(index, element),
    }
}

fn quick_record(index: u64, line: &[u8]) -> Option<RecordSeen> {
    let flat = Flat::of(line)?;
    let (canonical, form) = flat.canonical()?;
    let receipt_hash: Hash = flat.receipt_hash()?.parse().ok()?;
    if Hash::of(&canonical) != receipt_hash {
        return None;
    }
    let facts = RowFacts::of_flat(&flat)?;
    let leaves = facts.leaves(index, &receipt_hash);
    let covered = match form {
        ReceiptForm::Thirteen => receipt_hash,
        ReceiptForm::Twelve => Hash::of(&flat.covered(ReceiptForm::Thirteen)),
    };
    let digest = quick_digest(&flat, &covered)?;
    Some(RecordSeen { digest, receipt_hash, parent: facts.parent, leaves })
}

fn quick_listed(element: &[u8]) -> Option<Digest> {
    let flat = Flat::of(element)?;
    RowFacts::of_flat(&flat)?;
    flat.is_bare().then_some(())?;
    quick_digest(&flat, &Hash::of(&flat.covered(ReceiptForm::Thirteen)))
}

fn quick_digest(flat: &Flat<'_>, covered: &Hash) -> Option<Digest> {
    let metadata = python::loads(flat.metadata()).ok()?;
    Some(digest(covered, &metadata))
}

/// Covers all fourteen fields: the hash of thirteen, and the metadata.
fn digest(covered: &Hash, metadata: &PyValue) -> Digest {
    let metadata = python::dumps(metadata);
    let hash = Hash::of_pieces(&[covered.as_bytes(), metadata.as_bytes()]);
    let first = hash.as_bytes().first_chunk::<16>();
    first.map_or(0, |first| u128::from_be_bytes(*first))
}

fn whole_digest(action: &AgentAction) -> Digest {
    let metadata = action.metadata.clone().map_or(PyValue::Null, PyValue::Object);
    digest(&action.receipt_hash(ReceiptForm::Thirteen), &metadata)
}

fn whole_record(index: u64, line: &[u8]) -> Result<RecordSeen, String> {
    let place = usize::try_from(index).unwrap_or(usize::MAX);
    let record = Record::read(line).map_err(|faults| {
        let first = faults.first().map(ToString::to_string).unwrap_or_default();
        format!("`actions.jsonl` record {index}: {first}")
    })?;
    let said = |fault: ChainFault| format!("`actions.jsonl` {fault}");
    if let Some((field, own, canonical)) = record.disagreement() {
        return Err(said(ChainFault::FieldsDiffer { index: place, field, own, canonical }));
    }
    let (stored, computed) = (record.receipt_hash, record.computed_hash());
    if stored != computed {
        return Err(said(ChainFault::HashMismatch { index: place, stored, computed }));
    }
    let facts = RowFacts::of_action(&record.action)
        .map_err(|field| format!("`actions.jsonl` record {index}: `{field}` is no SHA-256"))?;
    Ok(RecordSeen {
        digest: whole_digest(&record.action),
        receipt_hash: computed,
        parent: facts.parent,
        leaves: facts.leaves(index, &computed),
    })
}

fn whole_listed(index: u64, element: &[u8]) -> Result<Digest, String> {
    let first = |faults: Vec<_>| {
        let first: String = faults.first().map(ToString::to_string).unwrap_or_default();
        format!("`actions.json` action {index}: {first}")
    };
    match check(element).map_err(first)? {
        CheckedReceipt { kind: ReceiptKind::Action, action, .. } => Ok(whole_digest(&action)),
        _ => Err(format!("`actions.json` action {index}: it is no action")),
    }
}

/// What a row says of an action.
struct RowFacts {
    action_type: ActionType,
    hashes: [Hash; 3],
    parent: Option<Hash>,
    flags: [u64; 2],
}

/// What became of an action, as flags of its row.
struct Outcome {
    success: bool,
    decision: Option<GateDecision>,
    scored: bool,
    verdict: Option<PolicyVerdict>,
    action_type: ActionType,
}

impl Outcome {
    fn flags(&self) -> [u64; 2] {
        [self.decision.is_some(), self.scored].map(|asked| self.flags_if(asked))
    }

    fn flags_if(&self, asked: bool) -> u64 {
        let bits = [
            self.success,
            self.decision != Some(GateDecision::Skip),
            asked,
            self.verdict.is_some(),
            self.action_type == ActionType::ToolCall,
            self.action_type == ActionType::CodeGen,
        ];
        bits.into_iter().enumerate().map(|(place, bit)| u64::from(bit) << place).sum()
    }
}

impl RowFacts {
    /// `None` where anything is not what it should be.
    fn of_flat(flat: &Flat<'_>) -> Option<Self> {
        let action_type = ActionType::from_name(flat.text("action_type")?)?;
        let hash = |name| flat.text(name)?.parse::<Hash>().ok();
        let parent = match flat.is_null("parent_receipt_hash") {
            true => None,
            false => Some(hash("parent_receipt_hash")?),
        };
        let decision = match flat.is_null("gate_decision") {
            true => None,
            false => Some(GateDecision::from_name(flat.text("gate_decision")?)?),
        };
        let verdict = match flat.is_null("policy_verdict") {
            true => None,
            false => Some(PolicyVerdict::from_name(flat.text("policy_verdict")?)?),
        };
        let scored = !flat.is_null("gate_score");
        let outcome = Outcome { success: flat.success(), decision, scored, verdict, action_type };
        Some(Self {
            action_type,
            hashes: [hash("instruction_hash")?, hash("input_hash")?, hash("output_hash")?],
            parent,
            flags: outcome.flags(),
        })
    }

    /// Names the first field that is no hash.
    fn of_action(action: &AgentAction) -> Result<Self, &'static str> {
        let hash = |name: &'static str, text: &PyString| {
            text.as_str().and_then(|text| text.parse::<Hash>().ok()).ok_or(name)
        };
        let parent = action.parent_receipt_hash.as_ref();
        let outcome = Outcome {
            success: action.success,
            decision: action.gate_decision,
            scored: action.gate_score.is_some(),
            verdict: action.policy_verdict,
            action_type: action.action_type,
        };
        Ok(Self {
            action_type: action.action_type,
            hashes: [
                hash("instruction_hash", &action.instruction_hash)?,
                hash("input_hash", &action.input_hash)?,
                hash("output_hash", &action.output_hash)?,
            ],
            parent: parent.map(|text| hash("parent_receipt_hash", text)).transpose()?,
            flags: outcome.flags(),
        })
    }

    fn leaves(&self, index: u64, receipt_hash: &Hash) -> [Hash; 2] {
        let [instruction, input, output] = self.hashes.each_ref().map(halves);
        let kind = halves(&Hash::of(self.action_type.as_str().as_bytes()));
        let parent = self.parent.as_ref().map_or([0, 0], halves);
        let mut row = vec![index];
        for pair in [kind, instruction, input, output, parent, halves(receipt_hash)] {
            row.extend(pair);
        }
        let [decided, scored] = self.flags;
        row.push(decided);
        let first = leaf(index, &row);
        if decided == scored {
            return [first, first];
        }
        row.pop();
        row.push(scored);
        [first, leaf(index, &row)]
    }
}

/// The value at a place in a document of Python's.
pub(super) fn at<'a>(document: &'a PyObject, path: &str) -> Option<&'a PyValue> {
    let mut names = path.split('/');
    let mut value = document.get(&PyString::from(names.next()?))?;
    for name in names {
        let PyValue::Object(members) = value else { return None };
        value = members.get(&PyString::from(name))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(index: u64, change: impl Fn(&mut AgentAction)) -> String {
        let hash = Hash::of(&index.to_be_bytes()).to_hex();
        let mut action = AgentAction::from_json(&serde_json::json!({
            "action_id": format!("act_{index:04}"), "action_type": "code_gen",
            "instruction_hash": hash, "input_hash": hash, "output_hash": hash,
            "gate_score": 0.125, "gate_decision": "skip", "policy_verdict": "PROOF_ONLY",
            "success": false, "duration_ms": 7, "timestamp": "2024-01-15T10:30:00Z",
            "metadata": { "b": "x", "a": [1, { "c": "}" }] },
        }))
        .unwrap();
        change(&mut action);
        let form =
            [ReceiptForm::Twelve, ReceiptForm::Thirteen][usize::from(index.is_multiple_of(2))];
        Record::new(action, form).to_line().unwrap()
    }

    /// Where the quick reader speaks, it says what the whole reader says.
    #[test]
    fn both_ways_of_reading_an_action_agree() {
        for index in 0..4 {
            let text = line(index, |_| {});
            let quick = quick_record(index, text.as_bytes()).unwrap();
            assert_eq!(Ok(quick.clone()), whole_record(index, text.as_bytes()));
            let end = text.find(", \"receipt_hash\"").unwrap();
            let listed = format!("{} }}", &text[..end]);
            assert_eq!(quick_listed(listed.as_bytes()), Some(quick.digest));
            assert_eq!(whole_listed(index, listed.as_bytes()), Ok(quick.digest));
        }
    }

    #[test]
    fn what_is_unusual_is_left_to_the_whole_reader() {
        let plain = line(1, |_| {});
        for (from, to) in [
            ("act_0001", "act_\\u00e9"),
            ("act_0001", "act_é"),
            ("0.125", "0.1250"),
            ("0.125", "NaN"),
            ("\"duration_ms\": 7", "\"duration_ms\": -0"),
            ("\"success\": false", "\"success\": 0"),
            ("{\"action_id\"", "{\"x\": 1, \"action_id\""),
            ("{\"action_id\"", "{\"action_id\": \"y\", \"action_id\""),
            ("code_gen", "code"),
        ] {
            let odd = plain.replace(from, to);
            assert_ne!(odd, plain);
            assert_eq!(quick_record(1, odd.as_bytes()), None, "{to}");
        }
        // Read by the whole reader, it is right or wrong for its own reason.
        let odd = line(1, |action| action.action_id = "é\u{7f}".into());
        assert_eq!(quick_record(1, odd.as_bytes()), None);
        record(1, odd.as_bytes()).unwrap();
        let forged = plain.replace("\"success\": false", "\"success\": true");
        let error = record(1, forged.as_bytes()).unwrap_err();
        assert!(error.starts_with("`actions.jsonl` record 1 has `receipt_hash`"), "{error}");
    }
}
