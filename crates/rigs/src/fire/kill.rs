//! Every kind of writer at once in one workspace, each killed at some moment.
//!
//! What a writer was told is a text that must be found in a trace afterwards: the id of an event that
//! it printed, the hash of a receipt that it was given, a session that holds a lease, the hash of a
//! result that the proxy passed on. The twin acknowledges what it is about to write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use countersign_testkit::dice::Dice;
use countersign_testkit::process::Process;

use super::cast::{Heard, Part, Stage};
use super::judge::Wrong;
use super::place::{Writer, texts};
use super::{Ending, Order};

/// Kills where no number is given.
const KILLS: [usize; 2] = [24, 1_000];
/// Writers that run at once.
const AT_ONCE: usize = 6;
/// Kills after which the rig says how far it is.
const TELL_EVERY: usize = 100;
/// Kills of the twin.
const TWIN_KILLS: usize = 12;
/// Of so many of them in a hundred it must be caught.
const CAUGHT_PERCENT_MIN: usize = 90;
/// How much longer than its usual time a writer may be left alone before it is killed.
const PATIENCE: f64 = 1.2;

pub(super) fn run(order: &Order) -> Result<Ending, String> {
    let [short, long] = KILLS;
    let (wanted, deadline) = (order.count(short, long), order.deadline());
    let mut dice = Dice::new(order.seed);
    let mut company = Company::new(order.seed)?;
    company.rehearse()?;
    let broken = company.judge_is_judged()?;
    println!("{:<20}{broken:>8} broken copies, all refused", "judge");
    let mut told = 0;
    while company.kills() < wanted && !deadline.is_over() {
        company.round(&mut dice)?;
        if company.kills() >= told + TELL_EVERY {
            told = company.kills();
            let acknowledged = company.acknowledged.len();
            println!("{:<20}{told:>8} of {wanted}{acknowledged:>9} acknowledged", "kills");
        }
    }
    company.last_look()?;
    company.report();
    let caught = twin(&mut dice)?;
    println!("{:<20}{TWIN_KILLS:>8} kills{caught:>9} caught", "twin that acks early");
    if caught * 100 < TWIN_KILLS * CAUGHT_PERCENT_MIN {
        return Err(format!("the twin was caught in only {caught} of {TWIN_KILLS} kills"));
    }
    Ok(Ending::Passed)
}

/// Everybody who writes, and what they were told.
struct Company {
    stage: Stage,
    usual: BTreeMap<Part, Duration>,
    /// How many of each part were started, killed, and how much they were told.
    tally: BTreeMap<Part, [usize; 3]>,
    acknowledged: BTreeSet<String>,
    slowest: Duration,
    number: u64,
}

impl Company {
    fn new(seed: u64) -> Result<Self, String> {
        Ok(Self {
            stage: Stage::new(&format!("kill-{seed}"))?,
            usual: BTreeMap::new(),
            tally: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            slowest: Duration::ZERO,
            number: 0,
        })
    }

    fn kills(&self) -> usize {
        self.tally.values().map(|[_, killed, _]| killed).sum()
    }

    /// Lets each part come to its end once: how long that takes, and that it is told something.
    fn rehearse(&mut self) -> Result<(), String> {
        for part in Part::ALL {
            self.number += 1;
            let begun = Instant::now();
            let heard = self.stage.play(part, self.number, None)?;
            self.usual.insert(part, begun.elapsed());
            if !heard.answered {
                let stopped = format!("{part:?} was told nothing, and nothing could be lost");
                return Err(format!("{stopped}\n{}", heard.talk));
            }
            self.take_in(part, heard);
        }
        Ok(self.stage.look(&self.acknowledged)?)
    }

    /// Shows the judge what it must refuse; how much that was.
    fn judge_is_judged(&self) -> Result<usize, String> {
        let aside = self.stage.path("broken");
        self.stage.judge().refuses_what_is_broken(&self.acknowledged, &aside)
    }

    fn take_in(&mut self, part: Part, heard: Heard) {
        let [started, killed, told] = self.tally.entry(part).or_default();
        *started += 1;
        *killed += usize::from(heard.killed);
        *told += heard.told.len();
        self.acknowledged.extend(heard.told);
    }

    /// Several at once, each killed at some moment; then whoever comes next must find all of it.
    fn round(&mut self, dice: &mut Dice) -> Result<(), String> {
        let mut parts = Vec::new();
        for _ in 0..AT_ONCE {
            let part = *dice.pick(&Part::ALL).unwrap_or(&Part::Session);
            let usual = self.usual.get(&part).copied().unwrap_or_default();
            let share = dice.below(1_000) as f64 / 1_000.0 * PATIENCE;
            self.number += 1;
            parts.push((part, self.number, usual.mul_f64(share)));
        }
        let stage = &self.stage;
        let heard: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = parts
                .iter()
                .map(|&(part, number, after)| {
                    scope.spawn(move || (part, stage.play(part, number, Some(after))))
                })
                .collect();
            running.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        for one in heard {
            let (part, heard) = one.map_err(|_| "a part broke off".to_owned())?;
            self.take_in(part, heard?);
        }
        let begun = Instant::now();
        self.stage.done(&["doctor", "--repair"])?;
        self.slowest = self.slowest.max(begun.elapsed());
        Ok(self.stage.look(&self.acknowledged)?)
    }

    /// What the program itself says of all of it.
    fn last_look(&self) -> Result<(), String> {
        self.stage.done(&["doctor", "--repair"])?;
        let verified = self.stage.run(&["verify", "--all"])?;
        if matches!(verified.code, Some(0 | 4)) {
            return Ok(());
        }
        let (out, talk) = (verified.out, verified.talk);
        let wrong: Vec<&str> = out.lines().filter(|line| !line.contains("pass")).collect();
        Err(format!("`verify --all` ends with {:?}: {}{talk}", verified.code, wrong.join("\n")))
    }

    fn report(&self) {
        for (part, [started, killed, told]) in &self.tally {
            let name = part.as_str();
            println!("{name:<20}{started:>8} started{killed:>9} killed{told:>9} acknowledged");
        }
        let (kills, told) = (self.kills(), self.acknowledged.len());
        let (traces, slow) = (self.stage.judge().traces().len(), self.slowest.as_secs_f64());
        println!(
            "{:<20}{kills:>8} killed{told:>9} acknowledged, all there; {traces} traces verify; \
             repaired in {slow:.1} s at most",
            "all"
        );
    }
}

/// Kills writers that acknowledge too early; says how often the judge of the others noticed.
fn twin(dice: &mut Dice) -> Result<usize, String> {
    let stage = Stage::new("kill-twin")?;
    let mut caught = 0;
    for kill in 0..TWIN_KILLS {
        let name = format!("twin-{kill:02}");
        let mut early = stage.writer("new", &[&name, "1000000"], Writer::Early)?;
        let mut early = Process::start(&mut early);
        early.wait_for_acks(1 + dice.below(5));
        early.listen(Duration::from_micros(dice.below(2_000) as u64));
        match stage.look(&texts(&early.kill())) {
            Ok(()) => {}
            Err(Wrong::Lost(_)) => caught += 1,
            Err(Wrong::Unsound(why)) => return Err(format!("the twin left {why}")),
        }
    }
    Ok(caught)
}
