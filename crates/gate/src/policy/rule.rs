//! One rule of a policy: what it needs beside what Cedar asks for, and whether it keeps its word.

use cedar_policy::{
    Authorizer, Effect, Policy as CedarPolicy, PolicyId, PolicySet, ValidationMode, Validator,
};
use serde_json::Value;

use super::facts::Circumstances;
use super::source::RuleSource;
use super::{PolicyFault, Proof, decision_of, example, schema, types};
use crate::risk::Features;
use crate::{Decision, GateRequest, Reason, guard};

/// A rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRule {
    /// Its name, in reasons.
    pub id: String,
    /// The line of the policy on which it begins.
    pub line: usize,
    /// What it decides where it applies.
    pub decision: Decision,
    /// Why, for a person to read.
    pub justification: String,
}

impl PolicyRule {
    /// The answer of this rule where it applies.
    pub(super) fn reason(&self) -> Reason {
        Reason::answered(&self.id, self.decision, &self.justification)
    }
}

/// Reads the text of a rule, or takes what was made of it before.
pub(super) fn parse(
    source: RuleSource<'_>,
    ready: Option<Value>,
) -> Result<CedarPolicy, PolicyFault> {
    let RuleSource { line, text } = source;
    if let Some(policy) = ready.and_then(|ready| CedarPolicy::from_json(None, ready).ok()) {
        return Ok(policy);
    }
    CedarPolicy::parse(None, text)
        .map_err(|errors| PolicyFault::Syntax { line, what: errors.to_string() })
}

/// Checks that a rule fits the schema, and holds it to its examples.
pub(super) fn read(
    line: usize,
    policy: CedarPolicy,
    proof: Proof,
) -> Result<(PolicyRule, CedarPolicy), PolicyFault> {
    let bare = |rule: Option<&str>, annotation| PolicyFault::Bare {
        line,
        rule: rule.map(str::to_owned),
        annotation,
    };
    // To ask for one by its name, Cedar would first read the name as it reads policies.
    let said = |name: &str| {
        let mut all = policy.annotations();
        let (_, said) = all.find(|(of, _)| *of == name)?;
        Some(said.trim()).filter(|it| !it.is_empty())
    };
    let id = said("id").ok_or_else(|| bare(None, "id"))?;
    check_annotations(&policy, id, line)?;
    let lacking = |annotation| bare(Some(id), annotation);
    let rule = PolicyRule {
        id: id.to_owned(),
        line,
        decision: decision_of(policy.effect(), said("decision") == Some("ask")),
        justification: said("justification").ok_or_else(|| lacking("justification"))?.to_owned(),
    };
    let must = said("match").ok_or_else(|| lacking("match"))?;
    let must_not = said("no_match").ok_or_else(|| lacking("no_match"))?;
    let policy = policy.new_id(PolicyId::new(id));
    if proof == Proof::Before {
        return Ok((rule, policy));
    }
    let alone = PolicySet::from_policies([policy.clone()])
        .map_err(|error| PolicyFault::Syntax { line, what: error.to_string() })?;
    validate(&rule, &alone)?;
    for text in example::lines(must) {
        if !applies(&rule, &alone, text)? {
            let (rule, example) = (rule.id, text.to_owned());
            return Err(PolicyFault::Misses { line, rule, example });
        }
    }
    for text in example::lines(must_not) {
        if applies(&rule, &alone, text)? {
            let (rule, example) = (rule.id, text.to_owned());
            return Err(PolicyFault::Overreaches { line, rule, example });
        }
    }
    Ok((rule, policy))
}

/// A misspelt annotation would change what a rule does without a word.
fn check_annotations(policy: &CedarPolicy, id: &str, line: usize) -> Result<(), PolicyFault> {
    for (name, value) in policy.annotations() {
        let what = match (name, value, policy.effect()) {
            ("id" | "justification" | "match" | "no_match", _, _)
            | ("decision", "ask" | "deny", Effect::Forbid) => continue,
            ("decision", _, Effect::Permit) => "a `permit` always allows",
            ("decision", _, Effect::Forbid) => "must be `ask` or `deny`",
            _ => "must be one of: id, justification, decision, match, no_match",
        };
        return Err(PolicyFault::Annotation {
            line,
            rule: id.to_owned(),
            annotation: name.to_owned(),
            value: value.to_owned(),
            what,
        });
    }
    Ok(())
}

fn validate(rule: &PolicyRule, alone: &PolicySet) -> Result<(), PolicyFault> {
    let validator = Validator::new(schema()?.clone());
    let found = validator.validate(alone, ValidationMode::Strict);
    let mut faults: Vec<String> = found.validation_errors().map(ToString::to_string).collect();
    // They come in no order, and one is enough to go on.
    faults.sort();
    match faults.into_iter().next() {
        Some(what) => Err(PolicyFault::Invalid { line: rule.line, rule: rule.id.clone(), what }),
        None => Ok(()),
    }
}

/// Whether the rule, by itself, applies to an example.
fn applies(rule: &PolicyRule, alone: &PolicySet, text: &str) -> Result<bool, PolicyFault> {
    let bad = |what: String| PolicyFault::BadExample {
        line: rule.line,
        rule: rule.id.clone(),
        example: text.to_owned(),
        what,
    };
    let request = example::request(text).map_err(bad)?;
    let features = Features::default();
    let programs = programs(&request);
    let known = Circumstances {
        risk: request.risk,
        programs: &programs,
        features: &features,
        paths: &request.paths,
    };
    let asking = types()?.asking(&request).map_err(bad)?;
    let asked = asking.request(&request, known).map_err(bad)?;
    let response = Authorizer::new().is_authorized(&asked, alone, &asking.entities);
    if let Some(error) = response.diagnostics().errors().next() {
        return Err(PolicyFault::FailsOn {
            line: rule.line,
            rule: rule.id.clone(),
            example: text.to_owned(),
            what: error.to_string(),
        });
    }
    Ok(response.diagnostics().reason().next().is_some())
}

fn programs(request: &GateRequest) -> Vec<String> {
    request.command.as_deref().map(guard::programs).unwrap_or_default()
}
