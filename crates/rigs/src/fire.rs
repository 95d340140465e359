//! Heavy fire: what takes too long for every test run, and must hold all the same.
//!
//! A fire is a file below `fire/` with one function, and a line in [`FIRES`]. It says what it tried
//! and what it found; what is drawn is drawn by a seed, which is shown, so that a run can be repeated.
//! Fires run in a release build.

mod http;
mod mutation;
mod second_reader;

use xtask::Failure;

/// The seed where none is given.
const SEED: u64 = 1;

/// What decides a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order {
    seed: u64,
    /// How much is drawn; without it, as much as the fire asks for.
    count: Option<usize>,
}

/// A name, and what it does.
type Fire = (&'static str, fn(Order) -> Result<(), String>);

const FIRES: &[Fire] =
    &[("http", http::run), ("mutation", mutation::run), ("second-reader", second_reader::run)];

/// Runs the fire that is named, or all.
pub(crate) fn run(options: &[&str]) -> Result<(), Failure> {
    let (name, order) = parse(options)?;
    for (fire, run) in FIRES.iter().filter(|(fire, _)| name.is_none_or(|name| name == *fire)) {
        println!("{fire}: seed {}", order.seed);
        run(order).map_err(|why| {
            format!("fire `{fire}`: {why}; repeat with {}", repeated(fire, order))
        })?;
    }
    Ok(())
}

fn repeated(fire: &str, order: Order) -> String {
    let count = order.count.map(|count| format!(" --count {count}")).unwrap_or_default();
    format!("`cargo xtask fire {fire} --seed {}{count}`", order.seed)
}

fn parse<'a>(options: &[&'a str]) -> Result<(Option<&'a str>, Order), Failure> {
    let (mut name, mut order) = (None, Order { seed: SEED, count: None });
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        let mut number = || {
            let value = options.next().and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| Failure::Usage(format!("`{option}` needs a number")))
        };
        match option {
            "--seed" => order.seed = number()?,
            "--count" => order.count = usize::try_from(number()?).ok(),
            _ if name.is_none() && FIRES.iter().any(|(fire, _)| *fire == option) => {
                name = Some(option);
            }
            _ => {
                let known: Vec<_> = FIRES.iter().map(|(fire, _)| *fire).collect();
                let known = known.join(", ");
                let message = format!("no fire or option `{option}`, there are: {known}");
                return Err(Failure::Usage(message));
            }
        }
    }
    Ok((name, order))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed<'a>(options: &[&'a str]) -> Option<(Option<&'a str>, Order)> {
        parse(options).ok()
    }

    #[test]
    fn a_run_is_decided_by_name_seed_and_count() {
        assert_eq!(parsed(&[]), Some((None, Order { seed: 1, count: None })));
        let order = Order { seed: 7, count: Some(100) };
        let options = ["--count", "100", "mutation", "--seed", "7"];
        assert_eq!(parsed(&options), Some((Some("mutation"), order)));
        assert_eq!(repeated("mutation", order), "`cargo xtask fire mutation --seed 7 --count 100`");
        for wrong in [&["--seed"][..], &["--count", "many"], &["mutations"]] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
    }
}
