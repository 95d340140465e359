//! One system call of a real process fails, every one in turn, with every error that a disk gives.
//!
//! The calls are counted in a run that nothing is done to; then each of them is made to fail under
//! strace. Whatever fails, nothing that was acknowledged is missing, the process says what is wrong or
//! has done its work, and the next one goes on. Short writes cannot be injected truthfully from
//! outside; the simulated disk and the limits on file size have them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_testkit::TestHome;
use countersign_testkit::dice::Dice;
use countersign_testkit::process::Process;

use super::cast::{Part, Stage};
use super::place::{Writer, lost, writer};
use super::{Ending, Order};

/// Calls that are made to fail where no number is given; all in the long setting.
const CASES: [usize; 2] = [16, usize::MAX];
/// The calls by which anything is changed.
const CALLS: [&str; 11] = [
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

fn strace(more: &[&str], out: &Path) -> Vec<String> {
    let out = out.display().to_string();
    let all = ["strace", "-f", "-qq", "-o", &out];
    all.iter().chain(more).map(|&text| text.to_owned()).collect()
}

/// How often each call is made by one thread of a part that nothing is done to: strace counts the
/// calls of each thread by themselves.
fn counted(stage: &mut Stage, part: Part) -> Result<BTreeMap<&'static str, usize>, String> {
    let (traced, calls) = (stage.path("strace"), format!("trace={}", CALLS.join(",")));
    stage.wrap(strace(&["-e", &calls], &traced));
    let heard = stage.play(part, 0, None);
    stage.wrap(Vec::new());
    let heard = heard?;
    if heard.code != Some(0) || heard.told.is_empty() {
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

/// Lets one call fail, and looks at what is left; anything wrong is an error.
fn strike(stage: &mut Stage, case: Case, number: u64) -> Result<Came, String> {
    let (call, error, nth) = (case.call, case.error, case.nth);
    let traced = stage.path("strace");
    let inject = format!("inject={call}:error={error}:when={nth}");
    stage.wrap(strace(&["-e", &format!("trace={call}"), "-e", &inject], &traced));
    let heard = stage.play(case.part, number, None);
    stage.wrap(Vec::new());
    let heard = heard?;
    let reached = fs::read_to_string(&traced).unwrap_or_default().contains("(INJECTED)");
    let told: BTreeSet<String> = heard.told.into_iter().collect();
    // As it is found, before anybody has gone on with it.
    stage.look(&told)?;
    let came = match heard.code {
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
    if next.code != Some(0) || next.told.is_empty() {
        return Err(format!("the next one ended with {:?}: {}", next.code, next.talk));
    }
    stage.look(&told.into_iter().chain(next.told).collect())?;
    Ok(if reached { came } else { Came::NotReached })
}

pub(super) fn run(order: &Order) -> Result<Ending, String> {
    let there = Command::new("strace").arg("--version").stdout(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return Ok(Ending::NotRun("there is no strace".to_owned()));
    }
    let (cases, deadline) = (cases(order)?, order.deadline());
    let next = AtomicUsize::new(0);
    let found = Mutex::new((BTreeMap::<Came, usize>::new(), Vec::new()));
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
                Ok(came) => *found.0.entry(came).or_default() += 1,
                Err(why) => found.1.push(format!("{case:?}: {why}")),
            }
        }
    };
    std::thread::scope(|scope| {
        for worker in 0..std::thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(move || work(worker));
        }
    });
    let (came, wrong) = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
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
    let caught = twin()?;
    println!("{:<20}{:>8} tried{caught:>9} caught", "twin that acks early", TWIN_CASES.len());
    match (wrong.len(), caught == TWIN_CASES.len()) {
        (0, true) => Ok(Ending::Passed),
        (0, false) => Err("a writer that acknowledges too early was not caught".to_owned()),
        (wrong, _) => Err(format!("{wrong} of {tried} went wrong")),
    }
}

/// Which write of the twin fails.
const TWIN_CASES: [usize; 4] = [1, 2, 3, 5];

/// Lets a write of a writer fail that has acknowledged it before; says how often that is noticed.
fn twin() -> Result<usize, String> {
    let mut caught = 0;
    for nth in TWIN_CASES {
        let home = TestHome::new();
        let id = home.recording().id().to_string();
        let mut told = Vec::new();
        for kind in [Writer::Sound, Writer::Early] {
            let inner = writer(&home, &id, &["0", "5"], kind)?;
            let inject = format!("inject=pwrite64:error=EIO:when={nth}");
            let traced = home.config().join("strace");
            let prefix = strace(&["-e", "trace=pwrite64", "-e", &inject], &traced);
            let Some((program, more)) = prefix.split_first() else { continue };
            let mut command = Command::new(program);
            command.args(more).arg(inner.get_program()).args(inner.get_args());
            told.push(Process::run(&mut command).1);
            let is_lost = lost(&home, &told).is_err();
            match kind {
                Writer::Sound if is_lost => return Err("our writer lost an event".to_owned()),
                Writer::Sound => told.clear(),
                _ => caught += usize::from(is_lost),
            }
        }
    }
    Ok(caught)
}
