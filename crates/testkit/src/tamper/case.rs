//! One case of tampering, as the shared file has it.

use std::collections::BTreeSet;

use countersign_format::shape::Dialect;
use serde_json::Value;

/// How the codes of a case are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// These and no others.
    Exact,
    /// At least these.
    Includes,
}

/// One case of tampering.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Who tampers: nobody, somebody without keys, an insider with all of them.
    pub attacker: String,
    /// The profile under which it is verified.
    pub profile: String,
    /// How the codes are compared.
    pub matching: Match,
    /// The codes of failures.
    pub codes: BTreeSet<String>,
    /// The verdict.
    pub verdict: String,
    /// The codes of warnings, where the case gives all of them.
    pub warnings: Option<BTreeSet<String>>,
    /// Codes of warnings that are among them.
    pub warnings_included: BTreeSet<String>,
    /// What is done.
    pub ops: Vec<Value>,
    /// What the verifier is given besides.
    pub args: Vec<String>,
}

fn texts(value: &Value) -> impl Iterator<Item = String> + '_ {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
}

impl Case {
    /// Reads the cases of a file, one a line.
    #[must_use]
    pub fn all(file: &str) -> Vec<Self> {
        let lines = file.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| Self::of(&serde_json::from_str(line).unwrap())).collect()
    }

    fn of(case: &Value) -> Self {
        let text = |name: &str, usual: &str| {
            case.get(name).and_then(Value::as_str).unwrap_or(usual).to_owned()
        };
        let set = |name: &str| texts(&case[name]).collect::<BTreeSet<_>>();
        let codes = set("expected_failure_codes");
        let usual = if codes.is_empty() { "pass" } else { "fail" };
        Self {
            name: text("name", ""),
            attacker: text("attacker", "no-key"),
            profile: text("profile", "default"),
            matching: if text("match", "exact") == "includes" {
                Match::Includes
            } else {
                Match::Exact
            },
            codes,
            verdict: text("verdict", usual),
            warnings: case.get("expected_warnings").map(|_| set("expected_warnings")),
            warnings_included: set("expected_warnings_includes"),
            ops: case["ops"].as_array().cloned().unwrap_or_default(),
            args: texts(&case["args"]).collect(),
        }
    }

    /// The schema of the trace that the case is about: ours, unless it needs what only a file of keys
    /// can say, a key that ended at no stated time.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        let dateless = |op: &Value| {
            let has = |name: &str| op.get(name).is_some();
            let ended = matches!(op["status"].as_str(), Some("revoked" | "rotated"));
            op["op"] == "registry_set" && ended && !has("revoked_at") && !has("rotated_at")
        };
        if self.ops.iter().any(dateless) { Dialect::V1_0 } else { Dialect::V1_1 }
    }

    /// Whether the attacker holds the keys of the workspace.
    #[must_use]
    pub fn is_insider(&self) -> bool {
        self.attacker == "insider"
    }
}
