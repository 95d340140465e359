//! Small changes of a closed session, and whether both readers say the same of each.

use std::time::Instant;

use countersign_testkit::second_reader::agreement;

use super::{Ending, Order};

/// Changes that are tried where no number is given.
const COUNT: [usize; 2] = [500, 10_000];
/// Disagreements that are shown.
const SHOWN_MAX: usize = 20;

/// Tries so many changes in all, and says how many of each kind, and where the readers disagree.
pub(super) fn run(order: &Order) -> Result<Ending, String> {
    let [short, long] = COUNT;
    let (started, deadline) = (Instant::now(), order.deadline());
    let found = agreement(order.seed, order.count(short, long), || deadline.is_over());
    for (kind, tried) in &found.tried {
        println!("{:<20}{tried:>8} tried", kind.as_str());
    }
    let tried: usize = found.tried.values().sum();
    let (disagreements, seconds) = (found.disagreements.len(), started.elapsed().as_secs_f64());
    println!(
        "{:<20}{tried:>8} tried{disagreements:>9} disagreements{seconds:>9.1} s",
        "both readers"
    );
    for how in found.disagreements.iter().take(SHOWN_MAX) {
        println!("  {how}");
    }
    match disagreements {
        0 if tried == 0 => Ok(Ending::NotRun("nothing was tried".to_owned())),
        0 => Ok(Ending::Passed),
        count => Err(format!("the readers disagree on {count} of {tried} changes")),
    }
}
