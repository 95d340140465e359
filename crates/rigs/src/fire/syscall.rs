//! One system call of a real process fails, every one in turn, with every error that a disk gives.
//!
//! The calls are counted in a run that nothing is done to; then each of them is made to fail under
//! strace. What a sync that failed did not make durable is taken away, as a loss of power would. Whatever
//! fails, nothing that was acknowledged is missing then, the process says what is wrong or has done its
//! work, and the next one goes on. Short writes cannot be injected truthfully from outside; the simulated
//! disk and the limits on file size have them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_testkit::dice::Dice;
use countersign_testkit::process::Process;

use super::cast::{Part, Stage};
use super::loss::Before;
use super::place::{Writer, said, texts};
use super::{Ending, Order};

/// Calls that are made to fail where no number is given; all in the long setting.
const CASES: [usize; 2] = [16, usize::MAX];
/// The calls by which anything is changed, and a lock, by which it is kept from others.
const CALLS: [&str; 12] = [
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "openat",
    "rename",
    "renameat2",
    "mkdir",
    "ftruncate",
    "flock",
    "unlink",
    "linkat",
];
const ERRORS: [&str; 4] = ["EIO", "ENOSPC", "EDQUOT", "EINTR"];
/// Who is struck.
const PARTS: [Part; 3] = [Part::Session, Part::Claim, Part::Hook];
/// After so many cases the workspace is a new one.
const FRESH: usize = 25;
/// Cases that are shown in full.
const SHOWN_MAX: usize = 20;
/// The status of a program that panicked.
const PANICKED: i32 = 101;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    part: Part,
    call: &'static str,
    error: &'static str,
    nth: usize,
}

/// What came of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    /// It was never reached: the process took another way.
    NotReached,
    /// The work was done all the same.
    Borne,
    /// The process said that something was wrong.
    Told,
}

/// What stands before a command whose calls are to be written down, with the paths of its files.
fn strace(inject: Option<&str>, out: &Path) -> Vec<String> {
    let (out, calls) = (out.display().to_string(), format!("trace={}", CALLS.join(",")));
    let all = ["strace", "-f", "-qq", "-y", "-s", "0", "-o", &out, "-e", &calls];
    let inject = inject.into_iter().flat_map(|inject| ["-e", inject]);
    all.into_iter().chain(inject).map(str::to_owned).collect()
}

/// How often each call is made by one thread of a part that nothing is done to: strace counts the
/// calls of each thread by themselves.
fn counted(stage: &mut Stage, part: Part) -> Result<BTreeMap<&'static str, usize>, String> {
    let traced = stage.path("strace");
    stage.wrap(strace(None, &traced));
    let heard = stage.play(part, 0, None);
    stage.wrap(Vec::new());
    let heard = heard?;
    if heard.code != Some(0) || !heard.answered {
        return Err(format!("{part:?} cannot be traced: {:?}: {}", heard.code, heard.talk));
    }
    let text = fs::read_to_string(&traced).unwrap_or_default();
    let mut each: BTreeMap<(&str, &'static str), usize> = BTreeMap::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let name = rest.trim_start().split('(').next();
        if let Some(call) = CALLS.iter().find(|call| Some(**call) == name) {
            *each.entry((thread, *call)).or_default() += 1;
        }
    }
    let mut found = BTreeMap::new();
    for ((_, call), count) in each {
        let most: &mut usize = found.entry(call).or_default();
        *most = count.max(*most);
    }
    Ok(found)
}

fn cases(order: &Order) -> Result<Vec<Case>, String> {
    let mut stage = Stage::new("syscall-counted")?;
    let mut all = Vec::new();
    for part in PARTS {
        for (call, count) in counted(&mut stage, part)? {
            for error in ERRORS {
                all.extend((1..=count).map(|nth| Case { part, call, error, nth }));
            }
        }
    }
    println!("{:<20}{:>8} can fail", "system calls", all.len());
    let [short, long] = CASES;
    let wanted = order.count(short, long);
    let mut dice = Dice::new(order.seed);
    // Drawn without repeating any: what a time limit leaves out is left out everywhere.
    for place in 0..all.len() {
        let other = place + dice.below(all.len() - place);
        all.swap(place, other);
    }
    all.truncate(wanted);
    Ok(all)
}

/// Lets a call fail in what is done meanwhile, and takes away what a failed sync left to a loss of power.
fn struck<T>(
    stage: &mut Stage,
    [call, error]: [&str; 2],
    nth: usize,
    work: impl FnOnce(&Stage) -> Result<T, String>,
) -> Result<Struck<T>, String> {
    let traced = stage.path("strace");
    let before = Before::of(&stage.home()).map_err(said("look at the workspace"))?;
    let inject = format!("inject={call}:error={error}:when={nth}");
    stage.wrap(strace(Some(&inject), &traced));
    let done = work(stage);
    stage.wrap(Vec::new());
    let done = done?;
    let calls = fs::read_to_string(&traced).map_err(said("read what was traced"))?;
    let taken = before.take_away(&calls).map_err(said("take away what was not synced"))?;
    Ok(Struck { done, reached: calls.contains("(INJECTED)"), taken })
}

/// What was done while a call failed.
struct Struck<T> {
    done: T,
    /// Whether it came to that call.
    reached: bool,
    /// How much was taken away afterwards.
    taken: usize,
}

/// Lets one call fail, and looks at what is left; anything wrong is an error.
fn strike(stage: &mut Stage, case: Case, number: u64) -> Result<(Came, usize), String> {
    let call = case.call;
    let struck =
        struck(stage, [call, case.error], case.nth, |stage| stage.play(case.part, number, None))?;
    let heard = struck.done;
    let told: BTreeSet<String> = heard.told.into_iter().collect();
    // As it is found, before anybody has gone on with it.
    stage.look(&told)?;
    let came = match heard.code {
        // Nobody is told nothing by work that was done.
        Some(0) if !heard.answered => {
            return Err(format!("ended well and told nothing: {}", heard.talk));
        }
        Some(0) => Came::Borne,
        None | Some(PANICKED) => {
            return Err(format!("ended with {:?}: {}", heard.code, heard.talk));
        }
        // Whoever cannot write cannot say so either.
        Some(_) if call == "write" || !heard.talk.trim().is_empty() => Came::Told,
        Some(2) if case.part == Part::Hook => Came::Told,
        Some(code) => return Err(format!("ended with {code} and no word")),
    };
    stage.done(&["doctor", "--repair"])?;
    let next = stage.play(case.part, number + 1, None)?;
    if next.code != Some(0) || !next.answered {
        return Err(format!("the next one ended with {:?}: {}", next.code, next.talk));
    }
    stage.look(&told.into_iter().chain(next.told).collect())?;
    Ok((if struck.reached { came } else { Came::NotReached }, struck.taken))
}

pub(super) fn run(order: &Order) -> Result<Ending, String> {
    let there = Command::new("strace").arg("--version").stdout(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return Ok(Ending::NotRun("there is no strace".to_owned()));
    }
    let (cases, deadline) = (cases(order)?, order.deadline());
    let next = AtomicUsize::new(0);
    let found = Mutex::new((BTreeMap::<Came, usize>::new(), Vec::new(), 0));
    let work = |worker: usize| {
        let mut stage: Option<Stage> = None;
        let mut done = 0;
        while let Some(&case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if deadline.is_over() {
                return;
            }
            if done % FRESH == 0 {
                // The old one is removed before the new one is made in its place.
                drop(stage.take());
            }
            done += 1;
            let came =
                match stage.take().map_or_else(|| Stage::new(&format!("syscall-{worker}")), Ok) {
                    Ok(mut fresh) => {
                        let came = strike(&mut fresh, case, 10 * done as u64);
                        // What is wrong with one is not to be found in all that follow.
                        stage = came.is_ok().then_some(fresh);
                        came
                    }
                    Err(why) => Err(why),
                };
            let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match came {
                Ok((came, taken)) => {
                    *found.0.entry(came).or_default() += 1;
                    found.2 += usize::from(taken > 0);
                }
                Err(why) => found.1.push(format!("{case:?}: {why}")),
            }
        }
    };
    std::thread::scope(|scope| {
        for worker in 0..std::thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(move || work(worker));
        }
    });
    let (came, wrong, taken) =
        found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let count = |kind| came.get(&kind).copied().unwrap_or_default();
    let (told, borne) = (count(Came::Told), count(Came::Borne));
    let tried = came.values().sum::<usize>() + wrong.len();
    println!(
        "{:<20}{tried:>8} tried{told:>9} told{borne:>9} borne{:>9} not reached{:>9} wrong",
        "made to fail",
        count(Came::NotReached),
        wrong.len()
    );
    for what in wrong.iter().take(SHOWN_MAX) {
        println!("  {what}");
    }
    println!("{:<20}{taken:>8} cases in which a failed sync left something to lose", "syncs");
    let mut missed = Vec::new();
    for twin in &TWINS {
        let cases = twin.nths.len();
        let caught = caught(twin)?;
        println!("{:<20}{cases:>8} tried{caught:>9} caught, at {}", twin.name, twin.call);
        if caught < cases {
            missed.push(format!("the {} was not caught at {}", twin.name, twin.call));
        }
    }
    match (wrong.len(), missed.is_empty()) {
        (0, true) => Ok(Ending::Passed),
        (0, false) => Err(missed.join("; ")),
        (wrong, _) => Err(format!("{wrong} of {tried} went wrong")),
    }
}

/// A broken writer, and which of its calls fail.
struct Twin {
    name: &'static str,
    writer: Writer,
    /// What it writes.
    arguments: &'static [&'static str],
    call: &'static str,
    nths: &'static [usize],
}

const TWINS: [Twin; 4] = [
    Twin {
        name: "twin that acks early",
        writer: Writer::Early,
        arguments: &["5"],
        call: "pwrite64",
        nths: &[1, 2, 3, 5],
    },
    Twin {
        name: "twin that is deaf",
        writer: Writer::Deaf,
        arguments: &["5"],
        call: "fdatasync",
        nths: &[1, 2, 3, 5],
    },
    // Each event has an artifact: its bytes are synced before the line.
    Twin {
        name: "twin that is deaf",
        writer: Writer::Deaf,
        arguments: &["5", "artifacts=1"],
        call: "fdatasync",
        nths: &[1, 2, 3, 4, 9],
    },
    // Their names are synced by their directory.
    Twin {
        name: "twin that is deaf",
        writer: Writer::Deaf,
        arguments: &["5", "artifacts=1"],
        call: "fsync",
        nths: &[1],
    },
];

/// Lets calls of a broken writer fail, and the same of a sound one; says how often the judge of the
/// others noticed.
fn caught(twin: &Twin) -> Result<usize, String> {
    let mut caught = 0;
    let mut stage = Stage::new(&format!("syscall-twin-{caught}"))?;
    for (number, &nth) in twin.nths.iter().enumerate() {
        for kind in [Writer::Sound, twin.writer] {
            // Begun by somebody whom nothing is done to.
            let begun = Process::run(&mut stage.writer("new", &["begin", "0"], Writer::Sound)?).1;
            let id = begun.begun.first().ok_or("no recording was begun")?.to_string();
            let name = format!("twin-{kind:?}-{number}");
            let arguments: Vec<&str> =
                std::iter::once(name.as_str()).chain(twin.arguments.iter().copied()).collect();
            let struck = struck(&mut stage, [twin.call, "EIO"], nth, |stage| {
                Ok(Process::run(&mut stage.writer(&id, &arguments, kind)?).1)
            })?;
            if !struck.reached {
                return Err(format!("{} {nth} of the twin was never reached", twin.call));
            }
            let looked = stage.look(&texts(&struck.done));
            match (kind, looked) {
                (Writer::Sound, Err(wrong)) => {
                    let why = String::from(wrong);
                    return Err(format!("our writer, struck at {} {nth}: {why}", twin.call));
                }
                (_, Ok(())) => {}
                (_, Err(_)) => {
                    caught += 1;
                    // What is broken now is not to be found again.
                    stage = Stage::new(&format!("syscall-twin-{caught}"))?;
                }
            }
        }
    }
    Ok(caught)
}
