//! What the gate adds to an action of an agent: the slowest of a hundred decisions, in process.

use std::time::{Duration, Instant};

use countersign_format::receipt::ActionType;
use countersign_gate::{Decision, Features, Gate, GateRequest, Policy, RiskModel};

use super::{Measured, Target};

const DECISIONS: usize = 20_000;
/// Decisions before those that count: the first ones fill caches.
const WARM_UP: usize = 500;
/// Of how many decisions the slowest counts.
const ONE_OF: usize = 100;
const MICROSECONDS_MAX: f64 = 200.0;
/// Bytes of the diff of a typical action.
const DIFF_BYTES: usize = 2 << 10;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let request = request();
    let policy = Policy::parse(Policy::built_in()).map_err(|fault| fault.to_string())?;
    let mut model = RiskModel::default();
    for _ in 0..10 {
        model.learn(Features::of(&request).cell(), true);
    }
    let gate = Gate::new(policy, Some(model));
    let mut taken = Vec::with_capacity(DECISIONS);
    for _ in 0..WARM_UP + DECISIONS {
        let begun = Instant::now();
        let opinion = std::hint::black_box(&gate).decide(std::hint::black_box(&request));
        taken.push(begun.elapsed());
        if opinion.verdict.decision() != Decision::Allow {
            return Err(format!("a typical action is not allowed: {:?}", opinion.verdict));
        }
    }
    taken.drain(..WARM_UP);
    taken.sort_unstable();
    let slow: Duration =
        taken.get(DECISIONS - DECISIONS / ONE_OF).copied().ok_or("nothing was measured")?;
    Ok(vec![Measured {
        name: "gate",
        value: slow.as_secs_f64() * 1e6,
        unit: "us p99",
        bound: MICROSECONDS_MAX,
        target: Target::AtMost(1.0),
    }])
}

/// An edit of three files with its diff.
fn request() -> GateRequest {
    let paths = ["src/parser/mod.rs", "src/parser/token.rs", "tests/parser.rs"];
    let mut diff = String::new();
    for path in paths.iter().cycle() {
        diff += &format!("--- a/{path}\n+++ b/{path}\n@@ -10,4 +10,8 @@\n");
        diff += &" let unchanged = self.tokens.peek();\n".repeat(2);
        diff += &"-    old_call(unchanged);\n".repeat(2);
        diff += &"+    if let Some(token) = new_call(unchanged) {\n".repeat(6);
        if diff.len() >= DIFF_BYTES {
            break;
        }
    }
    GateRequest {
        description: "read tokens one at a time".to_owned(),
        paths: paths.map(str::to_owned).to_vec(),
        diff: Some(diff),
        ..GateRequest::new("claude-code", "executor", ActionType::CodeEdit, "edit")
    }
}
