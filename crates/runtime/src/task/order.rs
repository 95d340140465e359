//! Whether the steps of a task can come one after the other.

use std::collections::BTreeMap;

use countersign_format::id::is_name;

use super::document::{Table, Value};
use super::fault::TASK_FAULTS_MAX;
use super::step::Step;

/// Steps of a circle that are named; the rest is left out.
const CIRCLE_NAMED_MAX: usize = 8;

/// One step that waits for another, and where the file says so.
pub(crate) struct Wait<'a> {
    pub(crate) to: usize,
    pub(crate) place: Value<'a>,
}

/// Notes ids that stand twice or name no step, and steps that wait for themselves.
pub(super) fn check(steps: &[Step], tables: &[Table<'_>]) {
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, (step, table)) in steps.iter().zip(tables).enumerate() {
        // An id that is no name was told of when it was read.
        if step.id.is_empty() {
            continue;
        }
        match index.get(step.id.as_str()).and_then(|&first| tables.get(first)) {
            Some(first) => {
                table
                    .fault_of("id", format!("`{}` is the id of {} already", step.id, first.path()));
            }
            None => drop(index.insert(&step.id, number)),
        }
    }
    let pairs = tables.iter().zip(steps);
    let waits: Vec<_> = pairs.map(|(table, step)| waits(table, step, &index)).collect();
    let ids: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    circles(&ids, &waits);
}

/// For which steps this one waits: for the success of some, for the failure of one.
fn waits<'a>(table: &Table<'a>, step: &Step, index: &BTreeMap<&str, usize>) -> Vec<Wait<'a>> {
    let mut waits = Vec::new();
    let mut wait = |place: Value<'a>, id: &str| match index.get(id) {
        Some(&to) => waits.push(Wait { to, place }),
        None => place.fault(format!("no step has the id `{id}`")),
    };
    for place in table.get("after").iter().flat_map(Value::elements) {
        if let Some(id) = place.string().filter(|id| is_name(id)) {
            wait(place, id);
        }
    }
    if let (Some(place), Some(id)) = (table.get("fallback_for"), &step.fallback_for) {
        if step.after.contains(id) {
            place.fault(format!(
                "`{id}` is in `after` too, a step cannot wait for both its success and its failure"
            ));
        } else {
            wait(place, id);
        }
    }
    waits
}

/// How far the search for circles has come with a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    NotMet,
    OnTheWay,
    Done,
}

/// Notes the waits that close a circle. Walks without recursion: a file may have many steps.
pub(crate) fn circles(ids: &[&str], waits: &[Vec<Wait<'_>>]) {
    let mut found = 0;
    let mut search = vec![Search::NotMet; ids.len()];
    let rest = |step: usize| waits.get(step).into_iter().flatten();
    for start in 0..ids.len() {
        if search.get(start) != Some(&Search::NotMet) {
            continue;
        }
        mark(&mut search, start, Search::OnTheWay);
        // The steps on the way from the start, each with the waits that are still to be followed.
        let mut way = vec![(start, rest(start))];
        while let Some((step, waits)) = way.last_mut() {
            let step = *step;
            let Some(wait) = waits.next() else {
                mark(&mut search, step, Search::Done);
                way.pop();
                continue;
            };
            match search.get(wait.to) {
                Some(Search::NotMet) => {
                    mark(&mut search, wait.to, Search::OnTheWay);
                    way.push((wait.to, rest(wait.to)));
                }
                Some(Search::OnTheWay) => {
                    let circle = way.iter().map(|(step, _)| *step).skip_while(|&at| at != wait.to);
                    wait.place.fault(told(ids, [step].into_iter().chain(circle)));
                    found += 1;
                }
                Some(Search::Done) | None => {}
            }
            // Each circle is as long as the file allows: more of them than are listed cost time.
            if found == TASK_FAULTS_MAX {
                return;
            }
        }
    }
}

fn mark(search: &mut [Search], step: usize, state: Search) {
    if let Some(at) = search.get_mut(step) {
        *at = state;
    }
}

/// Names the steps of a circle, of which the first is also the last.
fn told(ids: &[&str], circle: impl Iterator<Item = usize>) -> String {
    let ids = circle.filter_map(|step| ids.get(step)).map(|id| format!("`{id}`"));
    let mut ids: Vec<String> = ids.collect();
    if ids.len() > CIRCLE_NAMED_MAX {
        ids.splice(CIRCLE_NAMED_MAX - 2..ids.len() - 1, ["…".to_owned()]);
    }
    format!("waits for itself: {}", ids.join(" → "))
}
