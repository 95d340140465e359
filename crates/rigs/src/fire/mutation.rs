//! Every small change of a long session, and whether the verifier finds it.

use std::time::Instant;

use countersign_format::shape::Dialect;
use countersign_testkit::mutation::{MutationKind, Mutations, Struck, strike};
use countersign_testkit::tamper::Scene;
use countersign_verify::{OpenTraces, Options, Profile, exit_status, verify};

use super::Order;

/// Events of the session.
const EVENTS: usize = 200;
/// Mutations that were not found, of each kind, that are shown.
const SHOWN_MAX: usize = 20;

/// Tries all mutations, or so many of each kind, and says how many of each were tried.
pub(super) fn run(order: Order) -> Result<(), String> {
    let scene = Scene::of_size(Dialect::V1_1, EVENTS);
    let mutations = Mutations::of(&scene, &Scene::another(Dialect::V1_1));
    let options = scene.options(Profile::DEFAULT);
    let mut missed = 0;
    for kind in MutationKind::ALL {
        let chosen = chosen(mutations.count(kind), order);
        let started = Instant::now();
        let tally = strike(&mutations, kind, &chosen, |struck| fails(struck, &options));
        let seconds = started.elapsed().as_secs_f64();
        let (tried, found) = (tally.tried, tally.tried - tally.missed.len());
        println!("{:<20}{tried:>8} tried{found:>9} found{seconds:>9.1} s", kind.as_str());
        for what in tally.missed.iter().take(SHOWN_MAX) {
            println!("  not found: {what}");
        }
        missed += tally.missed.len();
    }
    if missed == 0 { Ok(()) } else { Err(format!("{missed} mutations were not found")) }
}

/// Which mutations of a kind are tried: all, or as many as were asked for, evenly spread from where
/// the seed begins.
fn chosen(all: usize, order: Order) -> Vec<usize> {
    match order.count {
        Some(count) if count < all => {
            let step = all / count.max(1);
            let first = usize::try_from(order.seed % step.max(1) as u64).unwrap_or(0);
            (0..count).map(|turn| first + turn * step).collect()
        }
        _ => (0..all).collect(),
    }
}

fn fails(struck: &Struck<'_>, options: &Options) -> Result<(), String> {
    let report = verify(struck, options).map_err(|error| error.to_string())?;
    match exit_status(&report, OpenTraces::Accepted) {
        3 if !report.failures.is_empty() => Ok(()),
        status => Err(format!("exit status {status}, {}", report.summary)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_all_mutations_is_spread_over_them() {
        assert_eq!(chosen(10, Order { seed: 1, count: None }).len(), 10);
        assert_eq!(chosen(10, Order { seed: 1, count: Some(50) }).len(), 10);
        assert_eq!(chosen(10, Order { seed: 5, count: Some(3) }), [2, 5, 8]);
        assert_eq!(chosen(10, Order { seed: 6, count: Some(3) }), [0, 3, 6]);
    }
}
