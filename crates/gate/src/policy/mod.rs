//! Policies: rules in Cedar, each with its reason and examples that hold it to its word.
//!
//! Decides whether a policy may be used at all, and what it says of a request. `permit` allows,
//! `forbid` denies, `@decision("ask") forbid` asks. Two things are stricter than in Cedar: where
//! nothing permits a person is asked, and a rule that fails counts as asking.

mod example;
mod facts;
mod fault;
mod rule;
mod source;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use cedar_policy::{Authorizer, Effect, PolicyId, PolicySet, Schema};
use serde_json::Value;

pub(crate) use facts::Circumstances;
use facts::{Askers, Types};
pub use fault::PolicyFault;
pub use rule::PolicyRule;
pub use source::{POLICY_BYTES_MAX, RULE_BYTES_MAX, RULES_MAX};

use crate::{Decision, GateRequest, Reason, Verdict};

/// Under which name the policy as a whole speaks.
const POLICY: &str = "policy";
const BUILT_IN: &str = include_str!("../../policy/default.cedar");
/// The rules of the built-in policy as Cedar keeps them once they are read, in the order of the text:
/// reading the text takes longer than everything else that a hook does. `cargo xtask vectors` makes it.
const READY: &str = include_str!("../../policy/default.json");
const SCHEMA: &str = include_str!("schema.cedarschema");

/// When a policy was shown to fit the schema and to hold to its examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// When it is read.
    Now,
    /// By the tests of this crate: it is the built-in one, to the byte.
    Before,
}

/// What rules that are not proven yet are held against. Who only decides needs none of it.
static CEDAR_SCHEMA: LazyLock<Result<Schema, PolicyFault>> = LazyLock::new(|| {
    Schema::from_cedarschema_str(SCHEMA)
        .map(|(schema, _)| schema)
        .map_err(|error| PolicyFault::Schema { what: error.to_string() })
});

static TYPES: LazyLock<Result<Types, PolicyFault>> =
    LazyLock::new(|| Types::known().map_err(|what| PolicyFault::Schema { what }));

fn schema() -> Result<&'static Schema, PolicyFault> {
    CEDAR_SCHEMA.as_ref().map_err(Clone::clone)
}

fn types() -> Result<&'static Types, PolicyFault> {
    TYPES.as_ref().map_err(Clone::clone)
}

/// A policy whose rules fit the schema and hold to their examples.
#[derive(Debug, Clone)]
pub struct Policy {
    text: String,
    rules: Vec<PolicyRule>,
    set: PolicySet,
    authorizer: Authorizer,
    askers: Askers,
}

impl Policy {
    /// Reads a policy and holds every rule to its examples.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with the rule and its line.
    pub fn parse(text: &str) -> Result<Self, PolicyFault> {
        Self::read(text, Proof::Now)
    }

    fn read(text: &str, proof: Proof) -> Result<Self, PolicyFault> {
        let mut rules: Vec<PolicyRule> = Vec::new();
        let mut set = PolicySet::new();
        let mut ready = match proof {
            Proof::Now => Vec::new(),
            // One that cannot be read is no loss: the text is there.
            Proof::Before => serde_json::from_str::<Vec<Value>>(READY).unwrap_or_default(),
        }
        .into_iter();
        for source in source::split(text)? {
            let policy = rule::parse(source, ready.next())?;
            let (rule, policy) = rule::read(source.line, policy, proof)?;
            if rules.iter().any(|other| other.id == rule.id) {
                return Err(PolicyFault::Twice { line: rule.line, rule: rule.id });
            }
            let what = |error: cedar_policy::PolicySetError| error.to_string();
            let line = rule.line;
            set.add(policy).map_err(|it| PolicyFault::Syntax { line, what: what(it) })?;
            rules.push(rule);
        }
        if rules.is_empty() {
            return Err(PolicyFault::Empty);
        }
        let (authorizer, askers) = (Authorizer::new(), Askers::default());
        Ok(Self { text: text.to_owned(), rules, set, authorizer, askers })
    }

    /// Reads a policy from the bytes of a file.
    ///
    /// # Errors
    /// As [`Policy::parse`], or the bytes are no text.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PolicyFault> {
        // A hook reads it for every call of an agent's tools.
        if bytes == BUILT_IN.as_bytes() {
            return Self::read(BUILT_IN, Proof::Before);
        }
        Self::parse(std::str::from_utf8(bytes).map_err(|_| PolicyFault::NotText)?)
    }

    /// The text of the policy that is in force where there is no other.
    #[must_use]
    pub const fn built_in() -> &'static str {
        BUILT_IN
    }

    /// The rules of the policy that is in force where there is no other, ready to be used.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn made_ready() -> Result<String, PolicyFault> {
        let mut rules = Vec::new();
        for source in source::split(BUILT_IN)? {
            let what = |what: String| PolicyFault::Syntax { line: source.line, what };
            let rule = rule::parse(source, None)?.to_json().map_err(|it| what(it.to_string()))?;
            rules.push(rule.to_string());
        }
        Ok(format!("[\n{}\n]\n", rules.join(",\n")))
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its rules, in the order of the text.
    #[must_use]
    pub fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    /// What it says of a request.
    pub(crate) fn judge(&self, request: &GateRequest, known: Circumstances<'_>) -> Verdict {
        let asked = types()
            .map_err(|fault| fault.to_string())
            .and_then(|types| self.askers.of(request, types))
            .and_then(|asking| Ok((asking.request(request, known)?, asking)));
        let (request, asking) = match asked {
            Ok(asked) => asked,
            Err(what) => return Reason::failed(POLICY, &what).into(),
        };
        let response = self.authorizer.is_authorized(&request, &self.set, &asking.entities);
        let mut failed: Vec<Reason> = Vec::new();
        let mut satisfied: Vec<&PolicyRule> =
            response.diagnostics().reason().filter_map(|id| self.rule(id)).collect();
        // Cedar lists them in no order.
        satisfied.sort_by_key(|rule| rule.line);
        let mut errors: Vec<(&PolicyRule, String)> = Vec::new();
        for error in response.diagnostics().errors() {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(error) = error;
            match self.rule(error.policy_id()) {
                Some(rule) => errors.push((rule, error.inner().to_string())),
                None => failed.push(Reason::failed(POLICY, &error.inner())),
            }
        }
        errors.sort_by_key(|(rule, _)| rule.line);
        failed.extend(errors.iter().map(|(rule, what)| Reason::failed(&rule.id, what)));
        let mut reasons: Vec<Reason> = satisfied.iter().map(|rule| rule.reason()).collect();
        if reasons.is_empty() {
            let because = "no rule permits this, and what no rule permits a person decides";
            reasons.push(Reason::answered(POLICY, Decision::Ask, because));
        }
        Verdict::strictest(reasons.into_iter().chain(failed))
    }

    fn rule(&self, id: &PolicyId) -> Option<&PolicyRule> {
        self.rules.iter().find(|rule| AsRef::<str>::as_ref(id) == rule.id)
    }
}

/// What a rule decides where it applies.
fn decision_of(effect: Effect, asks: bool) -> Decision {
    match (effect, asks) {
        (Effect::Permit, _) => Decision::Allow,
        (Effect::Forbid, true) => Decision::Ask,
        (Effect::Forbid, false) => Decision::Deny,
    }
}
