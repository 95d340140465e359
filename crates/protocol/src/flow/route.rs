//! The ways through a plan: what each step needs and waits for, and what runs again together.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::condition::StepCondition;
use super::plan::{
    AgentStep, FLOW_STEPS_MAX, FlowPlan, FlowStep, PlanFault, RESERVED_STEPS, StepBy,
};

/// How much of who waits for whose loops is looked at. Plans that people write come nowhere near.
const EDGES_MAX: usize = 10_000_000;

/// A plan whose references all lead somewhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "FlowPlan", into = "FlowPlan")]
pub struct FlowRoute {
    plan: FlowPlan,
    index: BTreeMap<String, usize>,
    needs: Vec<Vec<usize>>,
    followers: Vec<Vec<usize>>,
    /// Steps for which each waits although it does not need them: those that may still send back
    /// what it needs.
    waits: Vec<Vec<usize>>,
    loops: BTreeMap<usize, FlowLoop>,
    /// The steps so that each comes after what it needs and waits for.
    order: Vec<usize>,
}

/// What may run again together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FlowLoop {
    /// The steps that may lead back.
    pub(super) closers: Vec<usize>,
    /// The steps between the target and those that may lead back to it, with both.
    pub(super) body: Vec<bool>,
}

impl From<FlowRoute> for FlowPlan {
    fn from(route: FlowRoute) -> Self {
        route.plan
    }
}

impl TryFrom<FlowPlan> for FlowRoute {
    type Error = PlanFault;

    fn try_from(plan: FlowPlan) -> Result<Self, PlanFault> {
        if plan.steps.is_empty() || plan.steps.len() > FLOW_STEPS_MAX {
            return Err(PlanFault::Steps(plan.steps.len()));
        }
        let mut index = BTreeMap::new();
        for (at, step) in plan.steps.iter().enumerate() {
            if RESERVED_STEPS.contains(&step.id.as_str()) {
                return Err(PlanFault::Reserved(step.id.clone()));
            }
            if index.insert(step.id.clone(), at).is_some() {
                return Err(PlanFault::Twice(step.id.clone()));
            }
            let attempts = match &step.by {
                StepBy::Agent(agent) => agent.attempts.min(agent.time_seconds),
                StepBy::Approval(_) => 1,
            };
            if step.max_iterations == 0 || attempts == 0 {
                return Err(PlanFault::NoBound(step.id.clone()));
            }
        }
        let mut route = Self {
            needs: vec![Vec::new(); plan.steps.len()],
            followers: vec![Vec::new(); plan.steps.len()],
            waits: vec![Vec::new(); plan.steps.len()],
            loops: BTreeMap::new(),
            order: Vec::new(),
            plan,
            index,
        };
        route.link()?;
        route.sorted().map_err(PlanFault::Circle)?;
        route.find_loops()?;
        route.order = route.sorted().map_err(PlanFault::Overlap)?;
        Ok(route)
    }
}

impl FlowRoute {
    /// The plan.
    #[must_use]
    pub const fn plan(&self) -> &FlowPlan {
        &self.plan
    }

    /// The step at this place.
    #[must_use]
    pub fn step(&self, at: usize) -> Option<&FlowStep> {
        self.plan.steps.get(at)
    }

    /// The agent's part of the step at this place, if an agent does it.
    #[must_use]
    pub fn agent(&self, at: usize) -> Option<&AgentStep> {
        match &self.step(at)?.by {
            StepBy::Agent(agent) => Some(agent),
            StepBy::Approval(_) => None,
        }
    }

    /// Where the step of this name stands.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<usize> {
        self.index.get(id).copied()
    }

    /// The steps that the one at this place needs, in the order in which it names them.
    #[must_use]
    pub fn needs(&self, at: usize) -> &[usize] {
        self.needs.get(at).map_or(&[], Vec::as_slice)
    }

    /// The steps that may still send back what the one at this place needs.
    #[must_use]
    pub fn waits(&self, at: usize) -> &[usize] {
        self.waits.get(at).map_or(&[], Vec::as_slice)
    }

    /// The steps so that each comes after what it needs and waits for.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The step of a loop that may run least often, and how often: as often the loop goes round.
    #[must_use]
    pub fn bound_of_loop(&self, from: usize) -> Option<(&str, u64)> {
        let body = &self.loops.get(&from)?.body;
        let steps = self.plan.steps.iter().zip(body).filter(|(_, within)| **within);
        let least = steps.min_by_key(|(step, _)| step.max_iterations)?.0;
        Some((&least.id, least.max_iterations))
    }

    /// The loop that begins at this step.
    pub(super) fn loop_from(&self, at: usize) -> Option<&FlowLoop> {
        self.loops.get(&at)
    }

    /// The step itself and everything that comes after it.
    #[must_use]
    pub fn from_on(&self, at: usize) -> Vec<bool> {
        reach(self.followers.len(), at, |at| self.followers.get(at).into_iter().flatten())
    }

    /// Everything that comes before the step, and the step itself.
    #[must_use]
    pub fn up_to(&self, at: usize) -> Vec<bool> {
        reach(self.needs.len(), at, |at| self.needs(at))
    }

    fn known(&self, step: &str, named: &str) -> Result<usize, PlanFault> {
        self.place(named)
            .ok_or_else(|| PlanFault::Unknown { step: step.to_owned(), named: named.to_owned() })
    }

    fn link(&mut self) -> Result<(), PlanFault> {
        for (at, step) in self.plan.steps.iter().enumerate() {
            for need in &step.needs {
                let before = self.known(&step.id, need)?;
                if let Some(needs) = self.needs.get_mut(at) {
                    needs.push(before);
                }
                if let Some(followers) = self.followers.get_mut(before) {
                    followers.push(at);
                }
            }
            for named in step.when.iter().flat_map(StepCondition::steps) {
                self.known(&step.id, named)?;
            }
        }
        Ok(())
    }

    /// The steps so that each comes after what it needs and waits for; or one that waits for itself.
    fn sorted(&self) -> Result<Vec<usize>, String> {
        let count = self.plan.steps.len();
        let mut behind: Vec<Vec<usize>> = self.followers.clone();
        let mut open: Vec<usize> = self.needs.iter().map(Vec::len).collect();
        for (at, waits) in self.waits.iter().enumerate() {
            for &other in waits {
                if let (Some(behind), Some(open)) = (behind.get_mut(other), open.get_mut(at)) {
                    behind.push(at);
                    *open += 1;
                }
            }
        }
        let mut free: Vec<usize> =
            open.iter().enumerate().filter(|(_, left)| **left == 0).map(|(at, _)| at).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(at) = free.pop() {
            order.push(at);
            for &follower in behind.get(at).into_iter().flatten() {
                if let Some(left) = open.get_mut(follower) {
                    *left -= 1;
                    if *left == 0 {
                        free.push(follower);
                    }
                }
            }
        }
        if order.len() == count {
            return Ok(order);
        }
        let stuck = |at: &usize| open.get(*at).is_some_and(|left| *left > 0);
        // Of the steps that are stuck, one that closes a loop says most.
        let closes = (0..count)
            .filter(stuck)
            .find(|at| self.step(*at).is_some_and(|step| step.way_back().is_some()));
        let found = closes.or_else(|| (0..count).find(stuck)).and_then(|at| self.step(at));
        Err(found.map(|step| step.id.clone()).unwrap_or_default())
    }

    /// Which steps may run again together, and what waits until they do not.
    fn find_loops(&mut self) -> Result<(), PlanFault> {
        let mut closers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, step) in self.plan.steps.iter().enumerate() {
            let Some(to) = step.way_back() else { continue };
            let target = self.known(&step.id, to)?;
            if target == at {
                continue;
            }
            if self.up_to(at).get(target) != Some(&true) {
                let (step, to) = (step.id.clone(), to.to_owned());
                return Err(PlanFault::NotBefore { step, to });
            }
            closers.entry(target).or_default().push(at);
        }
        // For each step, the loops for which it waits.
        let mut awaited = vec![Vec::new(); self.needs.len()];
        let mut left = EDGES_MAX;
        for (number, (target, closers)) in closers.into_iter().enumerate() {
            let after = self.from_on(target);
            let mut body = vec![false; after.len()];
            for &closer in &closers {
                let before = self.up_to(closer);
                for (it, (after, before)) in body.iter_mut().zip(after.iter().zip(before)) {
                    *it |= *after && before;
                }
            }
            let within = |at: &usize| body.get(*at) == Some(&true);
            for (at, needs) in self.needs.iter().enumerate() {
                // What follows those waits for them, and so for the loop.
                if !within(&at)
                    && needs.iter().any(within)
                    && let (Some(waits), Some(awaited)) =
                        (self.waits.get_mut(at), awaited.get_mut(at))
                {
                    left = left.checked_sub(closers.len()).ok_or(PlanFault::Entangled)?;
                    waits.extend(closers.iter().filter(|closer| !needs.contains(closer)));
                    awaited.push(number);
                }
            }
            self.loops.insert(target, FlowLoop { closers, body });
        }
        self.wait_for_outer_loops(&awaited, left)
    }

    /// What waits for a loop also waits for those that may let it go round again, but for those that
    /// come after the one that waits.
    fn wait_for_outer_loops(
        &mut self,
        awaited: &[Vec<usize>],
        mut left: usize,
    ) -> Result<(), PlanFault> {
        let all = std::mem::take(&mut self.loops);
        let loops: Vec<&FlowLoop> = all.values().collect();
        let outer: Vec<Vec<usize>> = loops.iter().map(|one| outer_loops(one, &loops)).collect();
        let mut waited_by = vec![Vec::new(); self.needs.len()];
        for (at, waits) in self.waits.iter().enumerate() {
            for &other in waits {
                push_at(&mut waited_by, other, at);
            }
        }
        for (at, awaited) in awaited.iter().enumerate() {
            let mut met = vec![false; loops.len()];
            let mut open = awaited.clone();
            let mut closers: BTreeSet<usize> = BTreeSet::new();
            while let Some(number) = open.pop() {
                for &next in outer.get(number).into_iter().flatten() {
                    left = left.checked_sub(1).ok_or(PlanFault::Entangled)?;
                    let (Some(met), Some(next_loop)) = (met.get_mut(next), loops.get(next)) else {
                        continue;
                    };
                    if !std::mem::replace(met, true) && next_loop.body.get(at) != Some(&true) {
                        closers.extend(&next_loop.closers);
                        open.push(next);
                    }
                }
            }
            if closers.is_empty() {
                continue;
            }
            let behind = |at: usize| {
                let [needed, waited] = [&self.followers, &waited_by].map(|edges| edges.get(at));
                needed.into_iter().flatten().chain(waited.into_iter().flatten())
            };
            left = left.checked_sub(closers.len()).ok_or(PlanFault::Entangled)?;
            let after = reach(self.needs.len(), at, behind);
            let known: BTreeSet<usize> =
                self.waits(at).iter().chain(self.needs(at)).copied().collect();
            for closer in closers.difference(&known).copied() {
                if after.get(closer) != Some(&true) {
                    push_at(&mut self.waits, at, closer);
                    push_at(&mut waited_by, closer, at);
                }
            }
        }
        self.loops = all;
        Ok(())
    }
}

/// The other loops, by number, in which one that sends this one back lies.
fn outer_loops(one: &FlowLoop, loops: &[&FlowLoop]) -> Vec<usize> {
    let contains =
        |other: &FlowLoop| one.closers.iter().any(|closer| other.body.get(*closer) == Some(&true));
    let others = loops.iter().enumerate().filter(|(_, other)| !std::ptr::eq(**other, one));
    others.filter(|(_, other)| contains(other)).map(|(number, _)| number).collect()
}

fn push_at(edges: &mut [Vec<usize>], from: usize, to: usize) {
    if let Some(edges) = edges.get_mut(from) {
        edges.push(to);
    }
}

/// For each of `count` steps, whether these edges lead to it from the one at `from`, or it is that.
fn reach<'a, I: IntoIterator<Item = &'a usize>>(
    count: usize,
    from: usize,
    edges: impl Fn(usize) -> I,
) -> Vec<bool> {
    let mut reached = vec![false; count];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        match reached.get_mut(at) {
            Some(met) if !*met => *met = true,
            _ => continue,
        }
        open.extend(edges(at));
    }
    reached
}
