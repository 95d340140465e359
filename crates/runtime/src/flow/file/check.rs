//! What only shows from the steps taken together: order, ways back, writes that meet, inputs that
//! nothing produces.
//!
//! Takes time in proportion to the file, but for flows in which many patterns of writes can meet.

use std::collections::BTreeMap;

use countersign_format::envelope::InputPath;
use countersign_format::id::is_name;
use countersign_protocol::flow::{
    FEATURE, FlowRoute, FlowStep, PatternReach, PlanFault, RESERVED_STEPS, StepBy, StepCondition,
    WritePattern,
};

use super::{FlowReading, StepOrder};
use crate::task::document::{Table, Value};
use crate::task::order::{Wait, circles};

/// Notes ids that stand twice or name no step, and steps that wait for themselves.
pub(super) fn names(steps: &[(FlowStep, Option<StepOrder>)], tables: &[Table<'_>]) {
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, ((step, _), table)) in steps.iter().zip(tables).enumerate() {
        // An id that is no name was told of when it was read.
        if step.id.is_empty() {
            continue;
        }
        if RESERVED_STEPS.contains(&step.id.as_str()) {
            table.fault_of("id", format!("`{}` means something else, take another name", step.id));
        }
        match index.get(step.id.as_str()).and_then(|&first| tables.get(first)) {
            Some(first) => {
                table
                    .fault_of("id", format!("`{}` is the id of {} already", step.id, first.path()));
            }
            None => drop(index.insert(&step.id, number)),
        }
    }
    let mut waits = Vec::new();
    for ((step, _), table) in steps.iter().zip(tables) {
        waits.push(needs(table, &index));
        if let (Some(to), Some(place)) = (step.way_back(), way_back(table))
            && !index.contains_key(to)
        {
            place.fault(format!("no step has the id `{to}`"));
        }
        for named in step.when.iter().flat_map(|when| when.steps()) {
            if !index.contains_key(named) {
                table.fault_of("when", format!("no step has the id `{named}`"));
            }
        }
    }
    let ids: Vec<&str> = steps.iter().map(|(step, _)| step.id.as_str()).collect();
    circles(&ids, &waits);
}

fn needs<'a>(table: &Table<'a>, index: &BTreeMap<&str, usize>) -> Vec<Wait<'a>> {
    let mut waits = Vec::new();
    for place in table.get("needs").iter().flat_map(Value::elements) {
        let Some(id) = place.string().filter(|id| is_name(id)) else { continue };
        match index.get(id) {
            Some(&to) => waits.push(Wait { to, place }),
            None => place.fault(format!("no step has the id `{id}`")),
        }
    }
    waits
}

/// Where a step says where it leads back.
fn way_back<'a>(table: &Table<'a>) -> Option<Value<'a>> {
    table.get("on_retry").or_else(|| table.table("approval")?.get("on_no"))
}

/// Notes why a plan cannot be carried out, where the file says so.
pub(super) fn unplannable(
    fault: &PlanFault,
    steps: &[(FlowStep, Option<StepOrder>)],
    tables: &[Table<'_>],
    root: &Table<'_>,
) {
    let named = match fault {
        PlanFault::NotBefore { step, .. } | PlanFault::Overlap(step) => Some(step),
        _ => None,
    };
    let found = named.and_then(|id| steps.iter().position(|(step, _)| step.id == *id));
    match found.and_then(|at| tables.get(at)).and_then(way_back) {
        Some(place) => place.fault(fault.to_string()),
        None => root.fault_of("steps", fault.to_string()),
    }
}

/// A flow whose references all lead somewhere.
pub(super) struct Whole<'a> {
    pub(super) route: &'a FlowRoute,
    pub(super) tables: &'a [Table<'a>],
    pub(super) orders: &'a [Option<StepOrder>],
    pub(super) feature_id: Option<&'a str>,
    pub(super) reading: &'a FlowReading<'a>,
}

impl Whole<'_> {
    pub(super) fn check(&self, root: &Table<'_>) {
        let before = Before::of(self.route);
        self.scaffold(root, &before);
        self.loops();
        self.conditions(&before);
        self.writes(&before);
        self.inputs(&before);
        self.budget(root);
    }

    fn steps(&self) -> impl Iterator<Item = (usize, &FlowStep, &Table<'_>)> {
        let steps = self.route.plan().steps.iter().zip(self.tables);
        steps.enumerate().map(|(at, (step, table))| (at, step, table))
    }

    /// Without a feature there is one step that gives it, before everything else.
    fn scaffold(&self, root: &Table<'_>, before: &Before) {
        let gives = |at: usize| self.route.agent(at).is_some_and(|agent| agent.scaffold);
        let mut found: Option<usize> = None;
        for (at, _, table) in self.steps().filter(|(at, ..)| gives(*at)) {
            if self.feature_id.is_some() {
                table.fault_of("scaffold", "the flow has a `feature_id` already");
            } else if found.is_some() {
                table.fault_of("scaffold", "another step gives the feature's id already");
            }
            found.get_or_insert(at);
        }
        match (self.feature_id, found) {
            (Some(_), _) => {}
            (None, None) => {
                root.fault_of("feature_id", "missing, and no step with `scaffold = true` gives it");
            }
            (None, Some(scaffold)) => {
                for (at, step, table) in self.steps() {
                    let agent = matches!(step.by, StepBy::Agent(_));
                    if agent && at != scaffold && !before.is(scaffold, at) {
                        let giver = self.id(scaffold);
                        let message = format!("runs before `{giver}` has given the feature's id");
                        table.fault_of("needs", message);
                    }
                }
            }
        }
    }

    fn id(&self, at: usize) -> &str {
        self.route.step(at).map(|step| step.id.as_str()).unwrap_or_default()
    }

    /// A way back to another step needs a bound that somebody has thought about.
    fn loops(&self) {
        for (_, step, table) in self.steps() {
            let Some(to) = step.way_back() else { continue };
            let target = self.route.place(to).and_then(|at| self.tables.get(at));
            let bounded = |table: &Table<'_>| table.get("max_iterations").is_some();
            if !bounded(table)
                && !target.is_some_and(bounded)
                && let Some(place) = way_back(table)
            {
                place.fault(format!(
                    "a loop without a bound: give `max_iterations` here or in `{to}`"
                ));
            }
        }
    }

    /// A condition can ask only what is known by then.
    fn conditions(&self, before: &Before) {
        for (at, step, table) in self.steps() {
            for asked in step.when.iter().flat_map(StepCondition::asked) {
                let by = self.route.place(&asked.id).and_then(|at| self.route.step(at));
                let wrong = match (by.map(|step| &step.by), &asked.answer) {
                    (Some(StepBy::Approval(approval)), Some(answer)) => approval
                        .answers
                        .check(answer)
                        .err()
                        .map(|reason| format!("the answer of `{}` {reason}", asked.id)),
                    (Some(StepBy::Agent(_)), Some(_)) => {
                        Some(format!("`{}` asks nobody, it has no answer", asked.id))
                    }
                    (Some(StepBy::Approval(_)), None) if asked.recommendation.is_some() => {
                        Some(format!("`{}` asks a person, who recommends nothing", asked.id))
                    }
                    _ => None,
                };
                if let Some(wrong) = wrong {
                    table.fault_of("when", wrong);
                }
            }
            for named in step.when.iter().flat_map(|when| when.steps()) {
                let known = self.route.place(named).is_some_and(|named| before.is(named, at));
                if !known {
                    let message = format!("`{named}` does not come before: add it to `needs`");
                    table.fault_of("when", message);
                }
            }
        }
    }

    /// Two steps that can run at the same time must not write the same file.
    fn writes(&self, before: &Before) {
        let mut writers: BTreeMap<WritePattern, Vec<usize>> = BTreeMap::new();
        for (at, ..) in self.steps() {
            for pattern in self.route.agent(at).into_iter().flat_map(|agent| &agent.writes) {
                writers.entry(pattern.for_feature(self.feature_id)).or_default().push(at);
            }
        }
        // Wildcards first, so that whatever can meet a pattern and comes after it begins with its
        // fixed part.
        let key = |pattern: &WritePattern| pattern.as_str().replace('*', "\0");
        let mut sorted: Vec<_> =
            writers.iter().map(|(pattern, steps)| (key(pattern), pattern, steps)).collect();
        sorted.sort();
        for (place, (text, pattern, steps)) in sorted.iter().enumerate() {
            self.apart(pattern, steps, &[], before);
            let fixed = match text.find('\0') {
                Some(wild) => text.get(..wild).and_then(|it| it.rfind('/')).map_or(0, |it| it + 1),
                None => continue,
            };
            let fixed = text.get(..fixed).unwrap_or_default();
            let after = sorted.get(place + 1..).unwrap_or_default();
            for (_, other, more) in after.iter().take_while(|(text, ..)| text.starts_with(fixed)) {
                if pattern.meets(other) {
                    self.apart(pattern, steps, more, before);
                }
            }
        }
    }

    /// All of these steps must come one after the other: it is enough that each comes before the
    /// next in some order of the whole.
    fn apart(&self, pattern: &WritePattern, some: &[usize], others: &[usize], before: &Before) {
        let mut all: Vec<usize> = some.iter().chain(others).copied().collect();
        all.sort_by_key(|&at| before.place(at));
        all.dedup();
        for pair in all.windows(2) {
            let [one, two] = pair else { continue };
            if !before.is(*one, *two)
                && let Some(table) = self.tables.get(*two)
            {
                let other = self.id(*one);
                table.fault_of("writes", format!(
                    "`{pattern}` can be written by `{other}` at the same time: let one need the \
                     other, or write elsewhere"
                ));
            }
        }
    }

    /// What a step reads must be there, or be written before or by it.
    fn inputs(&self, before: &Before) {
        let mut writers: BTreeMap<String, Vec<(usize, WritePattern)>> = BTreeMap::new();
        for (at, ..) in self.steps() {
            for pattern in self.route.agent(at).into_iter().flat_map(|agent| &agent.writes) {
                let pattern = pattern.for_feature(self.feature_id);
                let first = pattern.fixed().next().unwrap_or_default().to_owned();
                writers.entry(first).or_default().push((at, pattern));
            }
        }
        for ((at, step, table), order) in self.steps().zip(self.orders) {
            let mut wanted: Vec<(&str, &str, String)> = Vec::new();
            for (name, path) in order.iter().flat_map(|order| &order.paths) {
                let optional = order.iter().any(|order| order.optional.contains(name));
                let paths = match path {
                    InputPath::One(path) => std::slice::from_ref(path),
                    InputPath::Many(paths) => paths,
                };
                for path in paths.iter().filter(|_| !optional) {
                    wanted.push(("paths", path, format!("`{name}`: ")));
                }
            }
            for file in step.when.iter().flat_map(|when| when.files()) {
                if file.exists.is_none() {
                    wanted.push(("when", &file.path, String::new()));
                }
            }
            for (key, path, name) in wanted {
                let path = self.path(path);
                // What names the feature before there is one cannot be looked up.
                if path.contains(FEATURE) || (self.reading.exists)(path.trim_end_matches('/')) {
                    continue;
                }
                let first = path.split('/').next().unwrap_or_default();
                let near = writers.get(first).into_iter().chain(writers.get(""));
                let made = near.flatten().any(|(by, pattern)| {
                    (*by == at || before.is(*by, at))
                        && (pattern.reach(&path) != PatternReach::Outside
                            && (path.ends_with('/') || pattern.fits(&path)))
                });
                if !made {
                    table.fault_of(
                        key,
                        format!("{name}`{path}` is not there, and no step before writes it"),
                    );
                }
            }
        }
    }

    fn path(&self, path: &str) -> String {
        match self.feature_id {
            Some(feature_id) => path.replace(FEATURE, feature_id),
            None => path.to_owned(),
        }
    }

    /// A budget that not even a run without any trouble can keep to.
    fn budget(&self, root: &Table<'_>) {
        let due = |(_, step, _): &(usize, &FlowStep, &Table<'_>)| {
            step.when.is_none() && matches!(step.by, StepBy::Agent(_))
        };
        let least = self.steps().filter(due).count() as u64;
        let calls = self.route.plan().budget.calls;
        if let (Some(calls), Some(table)) = (calls, root.table("budget"))
            && calls < least
        {
            let message = format!("{least} steps run without a condition, each is a call");
            table.fault_of("calls", message);
        }
    }
}

/// Which step comes before which.
struct Before {
    /// For each step, a bit for every other that comes before it.
    above: Vec<Vec<u64>>,
    /// Where each step stands in one order of all of them.
    places: Vec<usize>,
}

impl Before {
    fn of(route: &FlowRoute) -> Self {
        let count = route.plan().steps.len();
        let mut above: Vec<Vec<u64>> = vec![Vec::new(); count];
        let mut places = vec![0; count];
        for (place, &at) in route.order().iter().enumerate() {
            let mut bits = vec![0_u64; count.div_ceil(64)];
            for &need in route.needs(at) {
                for (bit, more) in bits.iter_mut().zip(above.get(need).into_iter().flatten()) {
                    *bit |= more;
                }
                if let Some(bit) = bits.get_mut(need / 64) {
                    *bit |= 1 << (need % 64);
                }
            }
            if let (Some(mine), Some(it)) = (above.get_mut(at), places.get_mut(at)) {
                *mine = bits;
                *it = place;
            }
        }
        Self { above, places }
    }

    fn is(&self, one: usize, two: usize) -> bool {
        let bits = self.above.get(two).and_then(|bits| bits.get(one / 64));
        bits.is_some_and(|bits| bits & (1 << (one % 64)) != 0)
    }

    fn place(&self, at: usize) -> usize {
        self.places.get(at).copied().unwrap_or_default()
    }
}
