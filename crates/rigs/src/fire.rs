//! Heavy fire: what takes too long for every test run, and must hold all the same.
//!
//! A rig is a file below `fire/` with one function, and a line in [`RIGS`]. It says what it tried and
//! what it found; what is drawn is drawn by a seed, which is shown, so that a run can be repeated.
//! Most rigs also fire at a broken twin, and fail where they do not notice. Short settings run with
//! the tests, long ones by hand, in a release build.

mod cast;
mod http;
mod judge;
mod kill;
mod loss;
mod mutation;
mod place;
mod power;
mod second_reader;
mod simulation;
mod suites;
mod syscall;

pub(crate) use cast::echo_server;

use std::time::{Duration, Instant};

use xtask::Failure;

/// The seed where none is given.
const SEED: u64 = 1;

/// How much is tried where no number is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// As much as a test run can take.
    Short,
    Long,
}

/// What decides a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order<'a> {
    seed: u64,
    /// How much is drawn; without it, as much as the setting asks for.
    count: Option<usize>,
    /// How long it may take; what was not tried by then is left out.
    minutes: Option<u64>,
    setting: Setting,
    /// Nothing but kinds of changes in whose names this stands.
    only: Option<&'a str>,
    /// How many of a kind an earlier run has tried.
    skip: usize,
}

impl Order<'_> {
    /// Where nothing was said.
    const USUAL: Self = Self {
        seed: SEED,
        count: None,
        minutes: None,
        setting: Setting::Long,
        only: None,
        skip: 0,
    };

    /// Whether changes of this kind are to be made.
    fn wants(&self, kind: &str) -> bool {
        self.only.is_none_or(|only| kind.contains(only))
    }

    /// How much is to be tried, by the setting if nobody said.
    fn count(&self, short: usize, long: usize) -> usize {
        let usual = if self.setting == Setting::Short { short } else { long };
        self.count.unwrap_or(usual)
    }

    /// When it has to end.
    fn deadline(&self) -> Deadline {
        let minutes = self.minutes.map(|minutes| Duration::from_secs(60 * minutes));
        Deadline(minutes.and_then(|minutes| Instant::now().checked_add(minutes)))
    }
}

/// The end of the time that a rig has, if it has one.
#[derive(Debug, Clone, Copy)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn is_over(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// What became of a rig that found nothing wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    Passed,
    /// It could not be run here, which is no proof of anything.
    NotRun(String),
}

/// A name, what it does, and how.
struct Rig {
    name: &'static str,
    about: &'static str,
    run: fn(&Order) -> Result<Ending, String>,
}

const RIGS: &[Rig] = &[
    Rig {
        name: "kill",
        about: "sessions, MCP, proxy, hooks, work and flows in one workspace, killed at random",
        run: kill::run,
    },
    Rig {
        name: "power",
        about: "power is cut under a writer on ext4, and the image is mounted again",
        run: power::run,
    },
    Rig {
        name: "syscall",
        about: "the k-th system call fails, for every k and error, under strace",
        run: syscall::run,
    },
    Rig {
        name: "simulation",
        about: "3 to 50 agents on a simulated disk and clock, decided by a seed",
        run: simulation::run,
    },
    Rig {
        name: "mutation",
        about: "every small change of bytes, events, members and artifacts of a session",
        run: mutation::run,
    },
    Rig {
        name: "second-reader",
        about: "small changes of a session, before both verifiers",
        run: second_reader::run,
    },
    Rig {
        name: "http",
        about: "strangers, large bodies and slow connections before the MCP server",
        run: http::run,
    },
    Rig {
        name: "disk",
        about: "every operation of the store fails in turn, on simulated and on full disks",
        run: suites::disk,
    },
    Rig {
        name: "json",
        about: "hostile JSON before the strict reader, the writer and the scanner",
        run: suites::json,
    },
    Rig {
        name: "archives",
        about: "sealed files that were changed, and archives built to harm",
        run: suites::archives,
    },
    Rig {
        name: "mcp",
        about: "servers and clients that mean harm, before the MCP server and the proxy",
        run: suites::mcp,
    },
    Rig {
        name: "paths",
        about: "links that change places while files are written; escapes from the sandbox",
        run: suites::paths,
    },
];

const ALL: &str = "all";

/// Runs the rig that is named, or all; without a name, says which there are.
pub(crate) fn run(options: &[&str]) -> Result<(), Failure> {
    let (name, order) = parse(options)?;
    let Some(name) = name else {
        println!("cargo xtask fire NAME [--seed S] [--count N] [--minutes M] [--short]");
        println!("    mutation: [--only KIND] [--skip N], to go on where a run's time was over\n");
        for rig in RIGS {
            println!("  {:<15}{}", rig.name, rig.about);
        }
        println!("  {ALL:<15}all of them, one after the other");
        return Ok(());
    };
    let (mut failed, mut not_run, mut cut_short) = (Vec::new(), Vec::new(), Vec::new());
    for rig in RIGS.iter().filter(|rig| name == ALL || name == rig.name) {
        println!("{}: seed {}", rig.name, order.seed);
        let (started, deadline) = (Instant::now(), order.deadline());
        let ending = (rig.run)(&order);
        let seconds = started.elapsed().as_secs_f64();
        match ending {
            Ok(Ending::Passed) if deadline.is_over() => {
                println!("{}: nothing found until its time was over, {seconds:.1} s\n", rig.name);
                cut_short.push(rig.name);
            }
            Ok(Ending::Passed) => println!("{}: passed in {seconds:.1} s\n", rig.name),
            Ok(Ending::NotRun(why)) => {
                println!("{}: not run: {why}\n", rig.name);
                not_run.push(rig.name);
            }
            Err(why) => {
                let again = repeated(rig.name, &order);
                failed.push(format!("fire `{}`: {why}; repeat with {again}", rig.name));
            }
        }
    }
    if !not_run.is_empty() {
        println!("not run, and so not passed: {}", not_run.join(", "));
    }
    if !cut_short.is_empty() {
        println!("not tried to the end: {}", cut_short.join(", "));
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::Chore(failed.join("\n"))) }
}

fn repeated(rig: &str, order: &Order) -> String {
    let count = order.count.map(|count| format!(" --count {count}")).unwrap_or_default();
    let short = if order.setting == Setting::Short { " --short" } else { "" };
    let only = order.only.map(|only| format!(" --only '{only}'")).unwrap_or_default();
    let skip = if order.skip > 0 { format!(" --skip {}", order.skip) } else { String::new() };
    format!("`cargo xtask fire {rig} --seed {}{count}{short}{only}{skip}`", order.seed)
}

fn parse<'a>(options: &[&'a str]) -> Result<(Option<&'a str>, Order<'a>), Failure> {
    let mut order = Order::USUAL;
    let mut name = None;
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        let mut number = || {
            let value = options.next().and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| Failure::Usage(format!("`{option}` needs a number")))
        };
        let is_name = option == ALL || RIGS.iter().any(|rig| rig.name == option);
        match option {
            "--seed" => order.seed = number()?,
            "--count" => order.count = usize::try_from(number()?).ok(),
            "--minutes" => order.minutes = Some(number()?),
            "--short" => order.setting = Setting::Short,
            "--skip" => order.skip = usize::try_from(number()?).unwrap_or(usize::MAX),
            "--only" => {
                let only = options.next().copied();
                let needs = || Failure::Usage("`--only` needs a kind of change".to_owned());
                order.only = Some(only.ok_or_else(needs)?);
            }
            _ if name.is_none() && is_name => name = Some(option),
            _ => {
                let known: Vec<_> = RIGS.iter().map(|rig| rig.name).collect();
                let known = known.join(", ");
                let message = format!("no rig or option `{option}`, there are: {known}, {ALL}");
                return Err(Failure::Usage(message));
            }
        }
    }
    if (order.only.is_some() || order.skip > 0) && name != Some("mutation") {
        let message = "`--only` and `--skip` are for the rig `mutation`".to_owned();
        return Err(Failure::Usage(message));
    }
    Ok((name, order))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed<'a>(options: &[&'a str]) -> Option<(Option<&'a str>, Order<'a>)> {
        parse(options).ok()
    }

    #[test]
    fn a_run_is_decided_by_name_seed_count_time_and_setting() {
        assert_eq!(parsed(&[]), Some((None, Order::USUAL)));
        let order = Order {
            seed: 7,
            count: Some(100),
            minutes: Some(3),
            setting: Setting::Short,
            ..Order::USUAL
        };
        let options = ["--count", "100", "mutation", "--seed", "7", "--short", "--minutes", "3"];
        assert_eq!(parsed(&options), Some((Some("mutation"), order)));
        assert_eq!(
            repeated("mutation", &order),
            "`cargo xtask fire mutation --seed 7 --count 100 --short`"
        );
        for wrong in [&["--seed"][..], &["--count", "many"], &["mutations"], &["all", "kill"]] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_run_of_mutations_goes_on_with_one_kind_where_another_ended() {
        let (name, order) = parsed(&["mutation", "--only", "field", "--skip", "24832"]).unwrap();
        let expected = Order { only: Some("field"), skip: 24_832, ..Order::USUAL };
        assert_eq!((name, order), (Some("mutation"), expected));
        assert!(order.wants("field edited") && !order.wants("event moved"));
        assert!(Order::USUAL.wants("event moved"));
        assert_eq!(
            repeated("mutation", &order),
            "`cargo xtask fire mutation --seed 1 --only 'field' --skip 24832`"
        );
        for wrong in [&["kill", "--only", "field"][..], &["--skip", "1"], &["mutation", "--only"]] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_number_that_is_given_counts_more_than_the_setting() {
        let order = Order { setting: Setting::Short, ..Order::USUAL };
        assert_eq!(order.count(3, 1_000), 3);
        assert_eq!(Order { setting: Setting::Long, ..order }.count(3, 1_000), 1_000);
        assert_eq!(Order { count: Some(8), ..order }.count(3, 1_000), 8);
        assert!(!order.deadline().is_over());
        assert!(Order { minutes: Some(0), ..order }.deadline().is_over());
    }
}
