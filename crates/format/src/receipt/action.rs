//! One action: reading it out of a document, and the text over which its hash is computed.

use super::table::{AGENT_ACTION, ActionType, GateDecision, PolicyVerdict, ReceiptForm};
use crate::hash::Hash;
use crate::json::{self, INTEGER_MAX};
use crate::python::{self, PyInteger, PyObject, PyString, PyValue};
use crate::shape::{Fault, Faults};

/// One thing that an agent did, as spec and CapSeal's code agree on it. The types hold whatever
/// Python can hash; [`Record::to_line`](super::Record::to_line) refuses what only Python can read.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentAction {
    /// Its id, unique in its chain.
    pub action_id: PyString,
    /// What sort of action it is.
    pub action_type: ActionType,
    /// Hash of the instruction that led to it.
    pub instruction_hash: PyString,
    /// Hash of what went in.
    pub input_hash: PyString,
    /// Hash of what came out.
    pub output_hash: PyString,
    /// The action before it.
    pub parent_action_id: Option<PyString>,
    /// Receipt hash of the action before it.
    pub parent_receipt_hash: Option<PyString>,
    /// How risky the gate found it.
    pub gate_score: Option<GateScore>,
    /// What the gate said.
    pub gate_decision: Option<GateDecision>,
    /// How far policy was enforced.
    pub policy_verdict: Option<PolicyVerdict>,
    /// Whether it did what it was meant to do.
    pub success: bool,
    /// How long it took.
    pub duration_ms: PyInteger,
    /// When it happened, in the writer's own notation.
    pub timestamp: PyString,
    /// Anything else; never hashed.
    pub metadata: Option<PyObject>,
}

/// A risk score. `1` and `1.0` have different receipt hashes.
#[derive(Debug, Clone, PartialEq)]
pub enum GateScore {
    /// Written without fraction and exponent.
    Integer(PyInteger),
    /// Any other number.
    Float(f64),
}

impl AgentAction {
    /// Reads the members of an action; absent optional ones are null. What it gives counts only if no
    /// fault was noted. Members that an action does not have are the caller's affair.
    pub(super) fn from_members(members: &PyObject, faults: &mut Faults) -> Option<Self> {
        MemberReader { members, faults }.action()
    }

    /// Its fields in the order of the specification.
    pub(super) fn members(&self) -> [(&'static str, PyValue); 14] {
        let text = |text: &PyString| PyValue::String(text.clone());
        let name = |name: &str| PyValue::String(name.into());
        let or_null = |value: Option<PyValue>| value.unwrap_or(PyValue::Null);
        [
            ("action_id", text(&self.action_id)),
            ("action_type", name(self.action_type.as_str())),
            ("instruction_hash", text(&self.instruction_hash)),
            ("input_hash", text(&self.input_hash)),
            ("output_hash", text(&self.output_hash)),
            ("parent_action_id", or_null(self.parent_action_id.as_ref().map(text))),
            ("parent_receipt_hash", or_null(self.parent_receipt_hash.as_ref().map(text))),
            ("gate_score", or_null(self.gate_score.as_ref().map(GateScore::to_value))),
            ("gate_decision", or_null(self.gate_decision.map(|it| name(it.as_str())))),
            ("policy_verdict", or_null(self.policy_verdict.map(|it| name(it.as_str())))),
            ("success", PyValue::Bool(self.success)),
            ("duration_ms", PyValue::Integer(self.duration_ms.clone())),
            ("timestamp", text(&self.timestamp)),
            ("metadata", or_null(self.metadata.clone().map(PyValue::Object))),
        ]
    }

    /// The fields that the hash covers.
    #[must_use]
    pub fn canonical_fields(&self, form: ReceiptForm) -> PyObject {
        let covered = self.members().into_iter().filter(|(name, _)| form.covers(name));
        covered.map(|(name, value)| (name.into(), value)).collect()
    }

    /// The text that is hashed.
    #[must_use]
    pub fn canonical(&self, form: ReceiptForm) -> String {
        python::dumps(&PyValue::Object(self.canonical_fields(form)))
    }

    /// The text that is hashed according to the specification.
    #[must_use]
    pub fn canonical_12(&self) -> String {
        self.canonical(ReceiptForm::Twelve)
    }

    /// The text that CapSeal's code hashes.
    #[must_use]
    pub fn canonical_13(&self) -> String {
        self.canonical(ReceiptForm::Thirteen)
    }

    /// The receipt hash.
    #[must_use]
    pub fn receipt_hash(&self, form: ReceiptForm) -> Hash {
        Hash::of(self.canonical(form).as_bytes())
    }

    /// The action as it may stand in an event; refuses what strict JSON cannot hold, and a score
    /// whose receipt hash would not survive there.
    pub fn to_json(&self) -> Result<json::Value, Vec<Fault>> {
        let mut faults = Faults::default();
        let mut object = json::Map::new();
        for (name, value) in self.members() {
            note_unwritable(&value, &format!("/{name}"), &mut faults);
            object.insert(name.to_owned(), to_strict(&value));
        }
        if !faults.is_empty() {
            return Err(faults.into_vec());
        }
        let object = json::Value::Object(object);
        match Self::from_json(&object) {
            Ok(again) if again.canonical_13() == self.canonical_13() => Ok(object),
            Ok(_) => Err(vec![fault("/gate_score", "must be a float other than -0.0")]),
            Err(faults) => Err(faults),
        }
    }

    /// Reads an action out of an event. Canonical JSON writes `1.0` as `1`; a score is a float, so
    /// it becomes one again, and the receipt hash is the one that was computed before. Members that
    /// an action does not have stay in the event, which binds them.
    pub fn from_json(value: &json::Value) -> Result<Self, Vec<Fault>> {
        let read = python::loads(&json::to_bytes(value));
        let document = read.map_err(|error| vec![fault("", &error.to_string())])?;
        let PyValue::Object(members) = document else {
            return Err(vec![wrong_type("", "an object", &document)]);
        };
        let mut faults = Faults::default();
        let mut action = match Self::from_members(&members, &mut faults) {
            Some(action) if faults.is_empty() => action,
            _ => return Err(faults.into_vec()),
        };
        if let Some(GateScore::Integer(integer)) = &action.gate_score {
            action.gate_score = integer.to_string().parse().ok().map(GateScore::Float);
        }
        Ok(action)
    }
}

impl GateScore {
    fn to_value(&self) -> PyValue {
        match self {
            Self::Integer(integer) => PyValue::Integer(integer.clone()),
            Self::Float(float) => PyValue::Float(*float),
        }
    }
}

impl From<f64> for GateScore {
    fn from(score: f64) -> Self {
        Self::Float(score)
    }
}

fn fault(pointer: &str, message: &str) -> Fault {
    Fault { pointer: pointer.to_owned(), message: message.to_owned() }
}

fn wrong_type(pointer: &str, wanted: &str, found: &PyValue) -> Fault {
    fault(pointer, &not_a(wanted, found))
}

/// What is said of a value of another type.
pub(super) fn not_a(wanted: &str, found: &PyValue) -> String {
    format!("must be {wanted}, found {}", found.describe())
}

/// `place` and one step further down.
pub(super) fn below(place: &str, step: &str) -> String {
    format!("{place}/{}", step.replace('~', "~0").replace('/', "~1"))
}

/// Notes `message` at every member that is neither a field of an action nor in `more`.
pub(super) fn note_unknown(members: &PyObject, more: &[&str], message: &str, noted: &mut Faults) {
    let known = |key: &PyString| {
        let mut names =
            AGENT_ACTION.fields.iter().map(|field| field.name).chain(more.iter().copied());
        names.any(|name| *key == *name)
    };
    noted.within_list(|noted| {
        for key in members.keys().filter(|&key| !known(key)) {
            noted.note(&below("", &key.to_lossy()), message);
        }
    });
}

/// Notes everything in `value` that only Python would read back as it was.
pub(super) fn note_unwritable(value: &PyValue, place: &str, faults: &mut Faults) {
    const SURROGATE: &str = "holds a lone surrogate";
    match value {
        PyValue::Null | PyValue::Bool(_) => {}
        PyValue::Integer(integer) => {
            let safe = |value| (-INTEGER_MAX..=INTEGER_MAX).contains(&value);
            if !integer.as_i64().is_some_and(safe) {
                faults.note(place, "integer beyond ±9007199254740991");
            }
        }
        PyValue::Float(float) if float.is_finite() => {}
        PyValue::Float(_) => faults.note(place, "must be a finite number"),
        PyValue::String(text) if text.as_str().is_some() => {}
        PyValue::String(_) => faults.note(place, SURROGATE),
        PyValue::Array(elements) => faults.within_list(|faults| {
            for (index, element) in elements.iter().enumerate() {
                note_unwritable(element, &below(place, &index.to_string()), faults);
            }
        }),
        PyValue::Object(members) => faults.within_list(|faults| {
            for (key, member) in members {
                let place = below(place, &key.to_lossy());
                if key.as_str().is_none() {
                    faults.note(&place, SURROGATE);
                }
                note_unwritable(member, &place, faults);
            }
        }),
    }
}

/// The same value for strict JSON; [`note_unwritable`] has found nothing in it.
fn to_strict(value: &PyValue) -> json::Value {
    match value {
        PyValue::Null => json::Value::Null,
        PyValue::Bool(value) => (*value).into(),
        PyValue::Integer(integer) => integer.as_i64().into(),
        PyValue::Float(float) => (*float).into(),
        PyValue::String(text) => text.to_lossy().into(),
        PyValue::Array(elements) => elements.iter().map(to_strict).collect(),
        PyValue::Object(members) => {
            members.iter().map(|(key, member)| (key.to_lossy(), to_strict(member))).collect()
        }
    }
}

struct MemberReader<'a> {
    members: &'a PyObject,
    faults: &'a mut Faults,
}

impl MemberReader<'_> {
    /// Every field is read before the first missing one ends it, so that all faults are noted.
    fn action(&mut self) -> Option<AgentAction> {
        let action_id = self.required("action_id", "a string", string);
        let action_type =
            self.required_name("action_type", ActionType::from_name, ActionType::NAMES);
        let instruction_hash = self.required("instruction_hash", "a string", string);
        let input_hash = self.required("input_hash", "a string", string);
        let output_hash = self.required("output_hash", "a string", string);
        let parent_action_id = self.optional("parent_action_id", "a string or null", string);
        let parent_receipt_hash = self.optional("parent_receipt_hash", "a string or null", string);
        let gate_score = self.optional("gate_score", "a number or null", number);
        let gate_decision =
            self.optional_name("gate_decision", GateDecision::from_name, GateDecision::NAMES);
        let policy_verdict =
            self.optional_name("policy_verdict", PolicyVerdict::from_name, PolicyVerdict::NAMES);
        let success = self.required("success", "true or false", boolean);
        let duration_ms = self.required("duration_ms", "an integer", integer);
        let timestamp = self.required("timestamp", "a string", string);
        let metadata = self.optional("metadata", "an object or null", object);
        Some(AgentAction {
            action_id: action_id?,
            action_type: action_type?,
            instruction_hash: instruction_hash?,
            input_hash: input_hash?,
            output_hash: output_hash?,
            parent_action_id,
            parent_receipt_hash,
            gate_score,
            gate_decision,
            policy_verdict,
            success: success?,
            duration_ms: duration_ms?,
            timestamp: timestamp?,
            metadata,
        })
    }

    fn required<T>(&mut self, name: &str, wanted: &str, read: Read<T>) -> Option<T> {
        if python::member(self.members, name).is_none() {
            self.faults.note(&below("", name), "missing");
        }
        self.present(name, wanted, read)
    }

    fn optional<T>(&mut self, name: &str, wanted: &str, read: Read<T>) -> Option<T> {
        match python::member(self.members, name) {
            Some(PyValue::Null) => None,
            _ => self.present(name, wanted, read),
        }
    }

    fn present<T>(&mut self, name: &str, wanted: &str, read: Read<T>) -> Option<T> {
        let value = python::member(self.members, name)?;
        let found = read(value);
        if found.is_none() {
            self.faults.note(&below("", name), not_a(wanted, value));
        }
        found
    }

    fn required_name<T>(
        &mut self,
        name: &str,
        from_name: fn(&str) -> Option<T>,
        names: &[&str],
    ) -> Option<T> {
        let text = self.required(name, "a string", string)?;
        self.one_of(name, &text, from_name, names)
    }

    fn optional_name<T>(
        &mut self,
        name: &str,
        from_name: fn(&str) -> Option<T>,
        names: &[&str],
    ) -> Option<T> {
        let text = self.optional(name, "a string or null", string)?;
        self.one_of(name, &text, from_name, names)
    }

    fn one_of<T>(
        &mut self,
        name: &str,
        text: &PyString,
        from_name: fn(&str) -> Option<T>,
        names: &[&str],
    ) -> Option<T> {
        let found = text.as_str().and_then(from_name);
        if found.is_none() {
            let message = format!("must be one of: {}", names.join(", "));
            self.faults.note(&below("", name), message);
        }
        found
    }
}

type Read<T> = fn(&PyValue) -> Option<T>;

fn string(value: &PyValue) -> Option<PyString> {
    if let PyValue::String(text) = value { Some(text.clone()) } else { None }
}

fn boolean(value: &PyValue) -> Option<bool> {
    if let PyValue::Bool(value) = value { Some(*value) } else { None }
}

fn integer(value: &PyValue) -> Option<PyInteger> {
    if let PyValue::Integer(integer) = value { Some(integer.clone()) } else { None }
}

fn number(value: &PyValue) -> Option<GateScore> {
    match value {
        PyValue::Integer(integer) => Some(GateScore::Integer(integer.clone())),
        PyValue::Float(float) => Some(GateScore::Float(*float)),
        _ => None,
    }
}

fn object(value: &PyValue) -> Option<PyObject> {
    if let PyValue::Object(members) = value { Some(members.clone()) } else { None }
}
