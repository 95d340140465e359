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

use std::sync::atomic::{AtomicBool, Ordering};
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

/// Exit status where nothing wrong was found, and not all of it was tried.
const NOT_ALL_TRIED: u8 = 4;

/// What decides a run.
#[derive(Debug)]
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
    /// Whether anybody has stopped because the time was over. A rig that was just done by then has
    /// not been cut short, and only whoever looks at the time knows which it is.
    ran_out: AtomicBool,
}

impl Default for Order<'_> {
    fn default() -> Self {
        Self {
            seed: SEED,
            count: None,
            minutes: None,
            setting: Setting::Long,
            only: None,
            skip: 0,
            ran_out: AtomicBool::new(false),
        }
    }
}

impl Order<'_> {
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
    fn deadline(&self) -> Deadline<'_> {
        let minutes = self.minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
        let end = minutes.and_then(|minutes| Instant::now().checked_add(minutes));
        Deadline { end, ran_out: &self.ran_out }
    }
}

/// The end of the time that a rig has, if it has one.
#[derive(Debug, Clone, Copy)]
struct Deadline<'o> {
    end: Option<Instant>,
    ran_out: &'o AtomicBool,
}

impl Deadline<'_> {
    /// Asked where there is more to try: whoever hears that it is over leaves that out.
    fn is_over(self) -> bool {
        let over = self.end.is_some_and(|end| Instant::now() >= end);
        if over {
            self.ran_out.store(true, Ordering::Relaxed);
        }
        over
    }
}

/// What became of a rig that found nothing wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    Passed,
    /// It could not be run here, or tried nothing, which is no proof of anything.
    NotRun(String),
}

/// Whether the seed decides anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Draw {
    BySeed,
    /// Every run is the same.
    Nothing,
}

/// A name, what it does, and how.
struct Rig {
    name: &'static str,
    about: &'static str,
    draw: Draw,
    run: fn(&Order) -> Result<Ending, String>,
}

const RIGS: &[Rig] = &[
    Rig {
        name: "kill",
        about: "sessions, MCP, proxy, hooks, work and flows in one workspace, killed at random",
        draw: Draw::BySeed,
        run: kill::run,
    },
    Rig {
        name: "power",
        about: "power is cut under a writer on ext4, and the image is mounted again",
        draw: Draw::BySeed,
        run: power::run,
    },
    Rig {
        name: "syscall",
        about: "the k-th system call fails, for every k and error, under strace",
        draw: Draw::BySeed,
        run: syscall::run,
    },
    Rig {
        name: "simulation",
        about: "3 to 50 agents on a simulated disk and clock, decided by a seed",
        draw: Draw::BySeed,
        run: simulation::run,
    },
    Rig {
        name: "mutation",
        about: "every small change of bytes, events, members and artifacts of a session",
        draw: Draw::BySeed,
        run: mutation::run,
    },
    Rig {
        name: "second-reader",
        about: "small changes of a session, before both verifiers",
        draw: Draw::BySeed,
        run: second_reader::run,
    },
    Rig {
        name: "http",
        about: "strangers, large bodies and slow connections before the MCP server",
        draw: Draw::Nothing,
        run: http::run,
    },
    Rig {
        name: "disk",
        about: "every operation of the store fails in turn, on simulated and on full disks",
        draw: Draw::Nothing,
        run: suites::disk,
    },
    Rig {
        name: "json",
        about: "hostile JSON before the strict reader, the writer and the scanner",
        draw: Draw::BySeed,
        run: suites::json,
    },
    Rig {
        name: "archives",
        about: "sealed files that were changed, and archives built to harm",
        draw: Draw::Nothing,
        run: suites::archives,
    },
    Rig {
        name: "mcp",
        about: "servers and clients that mean harm, before the MCP server and the proxy",
        draw: Draw::Nothing,
        run: suites::mcp,
    },
    Rig {
        name: "paths",
        about: "links that change places while files are written; escapes from the sandbox",
        draw: Draw::Nothing,
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
        println!("\nexit status: 0 all was tried and nothing found, 1 something was found,");
        println!("    {NOT_ALL_TRIED} nothing found, and not all of it was tried");
        return Ok(());
    };
    let mut heard = Heard::default();
    for rig in RIGS.iter().filter(|rig| name == ALL || name == rig.name) {
        match rig.draw {
            Draw::BySeed => println!("{}: seed {}", rig.name, order.seed),
            Draw::Nothing => println!("{}: nothing is drawn", rig.name),
        }
        let started = Instant::now();
        let ending = (rig.run)(&order);
        let cut_short = order.ran_out.swap(false, Ordering::Relaxed);
        let seconds = started.elapsed().as_secs_f64();
        match ending {
            Ok(Ending::Passed) if cut_short => {
                println!("{}: nothing found until its time was over, {seconds:.1} s\n", rig.name);
                heard.cut_short.push(rig.name);
            }
            Ok(Ending::Passed) => println!("{}: passed in {seconds:.1} s\n", rig.name),
            Ok(Ending::NotRun(why)) => {
                println!("{}: not run: {why}\n", rig.name);
                heard.not_run.push(rig.name);
            }
            Err(why) => {
                let again = repeated(rig, &order);
                let failed = format!("fire `{}`: {why}; repeat with {again}", rig.name);
                heard.failed.push(failed);
            }
        }
    }
    if !heard.not_run.is_empty() {
        println!("not run, and so not passed: {}", heard.not_run.join(", "));
    }
    if !heard.cut_short.is_empty() {
        println!("not tried to the end: {}", heard.cut_short.join(", "));
    }
    heard.verdict()
}

/// What became of rigs that did not pass, by name.
#[derive(Default)]
struct Heard {
    failed: Vec<String>,
    not_run: Vec<&'static str>,
    cut_short: Vec<&'static str>,
}

impl Heard {
    fn verdict(&self) -> Result<(), Failure> {
        if !self.failed.is_empty() {
            return Err(Failure::Chore(self.failed.join("\n")));
        }
        match self.not_run.is_empty() && self.cut_short.is_empty() {
            true => Ok(()),
            false => Err(Failure::Said(NOT_ALL_TRIED)),
        }
    }
}

fn repeated(rig: &Rig, order: &Order) -> String {
    let seed = match rig.draw {
        Draw::BySeed => format!(" --seed {}", order.seed),
        Draw::Nothing => String::new(),
    };
    let count = order.count.map(|count| format!(" --count {count}")).unwrap_or_default();
    let short = if order.setting == Setting::Short { " --short" } else { "" };
    let only = order.only.map(|only| format!(" --only '{only}'")).unwrap_or_default();
    let skip = if order.skip > 0 { format!(" --skip {}", order.skip) } else { String::new() };
    format!("`cargo xtask fire {}{seed}{count}{short}{only}{skip}`", rig.name)
}

fn parse<'a>(options: &[&'a str]) -> Result<(Option<&'a str>, Order<'a>), Failure> {
    let mut order = Order::default();
    let mut name = None;
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        let mut number = || {
            let value = options.next().and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| Failure::Usage(format!("`{option}` needs a number")))
        };
        // Nothing would be tried, and nothing found.
        let mut some = || match number()? {
            0 => Err(Failure::Usage(format!("`{option} 0` would try nothing"))),
            number => Ok(number),
        };
        let is_name = option == ALL || RIGS.iter().any(|rig| rig.name == option);
        match option {
            "--count" => order.count = usize::try_from(some()?).ok(),
            "--minutes" => order.minutes = Some(some()?),
            "--seed" => order.seed = number()?,
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
    if !mutation::kinds().any(|kind| order.wants(kind)) {
        let (only, kinds) = (order.only.unwrap_or_default(), mutation::kinds().collect::<Vec<_>>());
        let message = format!("no kind of change `{only}`, there are: {}", kinds.join(", "));
        return Err(Failure::Usage(message));
    }
    Ok((name, order))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name and order, as they are shown; `None` if they make no sense.
    fn parsed(options: &[&str]) -> Option<(Option<String>, String)> {
        let (name, order) = parse(options).ok()?;
        Some((name.map(str::to_owned), format!("{order:?}")))
    }

    fn shown(name: &str, order: &Order) -> Option<(Option<String>, String)> {
        Some((Some(name.to_owned()), format!("{order:?}")))
    }

    fn rig(name: &str) -> &'static Rig {
        RIGS.iter().find(|rig| rig.name == name).unwrap()
    }

    #[test]
    fn a_run_is_decided_by_name_seed_count_time_and_setting() {
        assert_eq!(parsed(&[]), Some((None, format!("{:?}", Order::default()))));
        let order = Order {
            seed: 7,
            count: Some(100),
            minutes: Some(3),
            setting: Setting::Short,
            ..Order::default()
        };
        let options = ["--count", "100", "mutation", "--seed", "7", "--short", "--minutes", "3"];
        assert_eq!(parsed(&options), shown("mutation", &order));
        assert_eq!(
            repeated(rig("mutation"), &order),
            "`cargo xtask fire mutation --seed 7 --count 100 --short`"
        );
        for wrong in [&["--seed"][..], &["--count", "many"], &["mutations"], &["all", "kill"]] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_run_that_would_try_nothing_is_refused() {
        for wrong in [["kill", "--count", "0"], ["all", "--minutes", "0"]] {
            assert_eq!(parsed(&wrong), None, "{wrong:?}");
        }
        assert!(parsed(&["kill", "--seed", "0"]).is_some());
    }

    #[test]
    fn a_rig_that_draws_nothing_is_repeated_without_a_seed() {
        let order = Order { count: Some(2), ..Order::default() };
        assert_eq!(repeated(rig("paths"), &order), "`cargo xtask fire paths --count 2`");
        assert_eq!(repeated(rig("json"), &order), "`cargo xtask fire json --seed 1 --count 2`");
    }

    #[test]
    fn a_run_of_mutations_goes_on_with_one_kind_where_another_ended() {
        let order = Order { only: Some("field"), skip: 24_832, ..Order::default() };
        let options = ["mutation", "--only", "field", "--skip", "24832"];
        assert_eq!(parsed(&options), shown("mutation", &order));
        assert!(order.wants("field edited") && !order.wants("event moved"));
        assert!(Order::default().wants("event moved"));
        assert_eq!(
            repeated(rig("mutation"), &order),
            "`cargo xtask fire mutation --seed 1 --only 'field' --skip 24832`"
        );
        for wrong in [
            &["kill", "--only", "field"][..],
            &["--skip", "1"],
            &["mutation", "--only"],
            &["mutation", "--only", "nothing"],
        ] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_number_that_is_given_counts_more_than_the_setting() {
        let short = Order { setting: Setting::Short, ..Order::default() };
        assert_eq!(short.count(3, 1_000), 3);
        assert_eq!(Order::default().count(3, 1_000), 1_000);
        assert_eq!(Order { count: Some(8), ..short }.count(3, 1_000), 8);
    }

    #[test]
    fn a_rig_is_cut_short_only_if_it_had_more_to_try() {
        let order = Order { minutes: Some(0), ..Order::default() };
        let deadline = order.deadline();
        assert!(!order.ran_out.load(Ordering::Relaxed), "nobody has stopped for it yet");
        assert!(deadline.is_over() && order.ran_out.load(Ordering::Relaxed));
        let endless = Order::default();
        assert!(!endless.deadline().is_over() && !endless.ran_out.load(Ordering::Relaxed));
    }

    #[test]
    fn what_was_not_tried_is_no_success_and_what_was_found_counts_more() {
        let heard = |failed: &[&str], not_run, cut_short| Heard {
            failed: failed.iter().map(|&why| why.to_owned()).collect(),
            not_run,
            cut_short,
        };
        assert!(heard(&[], vec![], vec![]).verdict().is_ok());
        for heard in [heard(&[], vec!["power"], vec![]), heard(&[], vec![], vec!["kill"])] {
            assert!(matches!(heard.verdict(), Err(Failure::Said(NOT_ALL_TRIED))));
        }
        let found = heard(&["it is gone"], vec!["power"], vec!["kill"]);
        assert!(matches!(found.verdict(), Err(Failure::Chore(_))));
    }
}
