//! Many agents on one simulated machine, decided by a seed alone.
//!
//! They claim, renew, leave and record, die in the middle of it, sleep past their leases, lose power
//! together and come back. Whatever happens, nobody is told what is not so: see [`run`]. Agents take
//! turns, one whole act at a time; what happens between two system calls of an act is the disk's.

mod account;
mod agent;
mod machine;

use std::fmt;

use countersign_format::event::{Event, EventType};
use countersign_format::exit::WorkPhase;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_protocol::recording::RecordingCommand;
use countersign_protocol::work::Claimant;
use countersign_runtime::Workspace;
use countersign_runtime::inspect::each_event;
use countersign_runtime::store::LedgerId;
use countersign_runtime::work::NewWork;

use crate::dice::Dice;
use crate::sim::SimHome;
use account::Account;
use agent::{Agent, Board, Scene};
use machine::Machine;

/// The fewest and the most agents.
const AGENTS: [usize; 2] = [3, 50];
/// The fewest and the most turns in one run, besides those that let every agent come once.
const TURNS: [usize; 2] = [6, 16];
/// One of so many turns is for the few that come often.
const OFTEN: usize = 4;
/// Longer than any lease.
const LONG_MILLIS: i64 = 2 * 60 * 60 * 1_000;

/// What is wrong with a run that must be caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twin {
    /// The disk does not sync, and says that it did.
    NoSync,
    /// A writer appends where it wrote last, whatever others wrote since.
    OldHead,
    /// Exits are taken from whoever asks, whatever lease it has.
    AnyEpoch,
    /// Every other process has a clock of its own, an hour ahead.
    OwnClock,
}

impl Twin {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NoSync, Self::OldHead, Self::AnyEpoch, Self::OwnClock];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSync => "a disk that does not sync",
            Self::OldHead => "a writer that does not look at the head",
            Self::AnyEpoch => "exits without the lease they need",
            Self::OwnClock => "a process with its own clock",
        }
    }
}

/// What a run came to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// Agents that there were.
    pub agents: usize,
    /// Those of them that did something.
    pub acted: usize,
    /// Things that were tried.
    pub steps: u64,
    /// Leases that were granted.
    pub leases: u64,
    /// Exits that moved an item.
    pub exits: u64,
    /// Exits that had been taken before, unknown to whoever sent them.
    pub repeated: u64,
    /// Answers that said no.
    pub refusals: u64,
    /// Events in recordings.
    pub notes: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Times that power was lost.
    pub power_losses: u64,
    /// Events that were acknowledged.
    pub acknowledged: usize,
    /// Events that were verified in the end.
    pub verified: usize,
}

impl std::ops::AddAssign for Course {
    fn add_assign(&mut self, other: Self) {
        self.agents += other.agents;
        self.acted += other.acted;
        self.steps += other.steps;
        self.leases += other.leases;
        self.exits += other.exits;
        self.repeated += other.repeated;
        self.refusals += other.refusals;
        self.notes += other.notes;
        self.kills += other.kills;
        self.power_losses += other.power_losses;
        self.acknowledged += other.acknowledged;
        self.verified += other.verified;
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} agents acted, {} acts, {} leases, {} exits and {} again, {} notes, {} refusals, {} kills, \
             {} losses of power, {} events acknowledged, {} verified",
            self.acted,
            self.agents,
            self.steps,
            self.leases,
            self.exits,
            self.repeated,
            self.notes,
            self.refusals,
            self.kills,
            self.power_losses,
            self.acknowledged,
            self.verified
        )
    }
}

/// Runs what `seed` decides, and checks that
///
/// - no lease was granted while another held, and none was used after a newer one;
/// - a holder in time was never refused its exit;
/// - phases moved by the table alone;
/// - every event that was acknowledged is there after a last loss of power, once;
/// - once the next writer has come, the verifier finds nothing wrong with any trace or the log;
/// - and every item can be taken up again.
///
/// # Errors
/// Something of this does not hold.
pub fn run(home: &SimHome, seed: u64, twin: Option<Twin>) -> Result<Course, String> {
    let mut dice = Dice::new(seed);
    let mut machine = Machine::new(home, seed, twin);
    let (mut account, mut told, mut board) =
        (Account::default(), Course::default(), Board::default());
    account.now = machine_time(&machine);
    open_items(&mut machine, &mut dice, &mut account, &mut board)?;
    let mut agents: Vec<Agent> =
        (0..crowd(&mut dice)).map(|number| Agent::new(number, twin)).collect();
    let mut turns = Turns::default();
    for _ in 0..turns_of(agents.len(), &mut dice) {
        pass_time(&machine, &mut dice, &mut account);
        if dice.one_in(20) {
            machine.power().light(1 + dice.below(60) as u64);
        }
        let who = turns.next(agents.len(), &mut dice);
        let mut scene = Scene {
            dice: &mut dice,
            account: &mut account,
            board: &mut board,
            told: &mut told,
            trouble: None,
        };
        agents[who].step(&mut machine, &mut scene)?;
        let trouble = scene.trouble;
        if machine.power().is_burnt() {
            told.power_losses += 1;
            agents.iter_mut().for_each(|agent| agent.die(&mut dice));
            machine.lose_power(dice.roll());
        } else if agents[who].was_killed() {
            told.kills += 1;
            agents[who].die(&mut dice);
        } else if let Some(trouble) = trouble {
            return Err(format!("failed without a cause: {trouble}"));
        }
    }
    (told.agents, told.acted) = (agents.len(), agents.iter().filter(|it| it.has_acted()).count());
    drop(agents);
    told.power_losses += 1;
    machine.lose_power(dice.roll());
    settle(home, &mut machine, &account, &board)?;
    told.acknowledged = account.facts();
    told.verified = verified(home, &account)?;
    Ok(told)
}

/// How many agents there are: often few, who meet more often, and sometimes as many as there can be.
fn crowd(dice: &mut Dice) -> usize {
    let [fewest, most] = AGENTS;
    let bound = 1 + dice.below(most - fewest + 1);
    fewest + dice.below(bound)
}

/// Enough turns for each of so many agents, and some more.
fn turns_of(agents: usize, dice: &mut Dice) -> usize {
    let [fewest, most] = TURNS;
    agents * OFTEN / (OFTEN - 1) + fewest + dice.below(most - fewest)
}

/// Whose turn it is. Everybody comes before anybody comes again, but for the few that come often: so
/// that some are stale and some are not.
#[derive(Default)]
struct Turns(Vec<usize>);

impl Turns {
    fn next(&mut self, agents: usize, dice: &mut Dice) -> usize {
        if dice.one_in(OFTEN) {
            return dice.below(AGENTS[0]);
        }
        if self.0.is_empty() {
            self.0 = (0..agents).collect();
        }
        let drawn = dice.below(self.0.len());
        self.0.swap_remove(drawn)
    }
}

fn machine_time(machine: &Machine<'_>) -> i64 {
    use countersign_runtime::clock::Clock as _;
    machine.clock().now().as_millis()
}

fn pass_time(machine: &Machine<'_>, dice: &mut Dice, account: &mut Account) {
    let millis = match dice.below(40) {
        0 => -i64::try_from(1 + dice.below(120_000)).unwrap(),
        1..=4 => i64::try_from(dice.below(60_000)).unwrap(),
        _ => i64::try_from(dice.below(1_500)).unwrap(),
    };
    machine.clock().advance(millis);
    if millis < 0 {
        account.set_back = true;
    } else {
        account.now += millis;
    }
}

fn open_items(
    machine: &mut Machine<'_>,
    dice: &mut Dice,
    account: &mut Account,
    board: &mut Board,
) -> Result<(), String> {
    let (workspace, _) = machine.start().map_err(|error| format!("{error:?}"))?;
    for number in 0..=dice.below(3) {
        let phases = [WorkPhase::Draft, WorkPhase::Implementation, WorkPhase::Review];
        let new = NewWork {
            title: format!("item {number}"),
            label: None,
            phase: phases[dice.below(3)],
            author_may_review: dice.one_in(2),
            links: None,
        };
        let item = workspace.open_work(&new).map_err(|error| format!("{error:?}"))?;
        account.begun(item.id(), EventType::WorkOpened);
        board.items.push(item.id());
    }
    Ok(())
}

/// Lets one more process come, long after, that goes on with everything.
fn settle(
    home: &SimHome,
    machine: &mut Machine<'_>,
    account: &Account,
    board: &Board,
) -> Result<(), String> {
    machine.clock().advance(LONG_MILLIS);
    let (workspace, _) = machine.start().map_err(|error| format!("cannot open: {error:?}"))?;
    workspace.reconcile_all().map_err(|error| format!("cannot reconcile: {error:?}"))?;
    for id in home.traces() {
        if events(home, id).is_empty() {
            // Its first event never reached the disk, and nobody was told of it.
            continue;
        }
        let done = match board.items.contains(&id) {
            true => take_up(&workspace, id),
            false => add(&workspace, id),
        };
        done.map_err(|error| format!("cannot go on with {id}: {error}"))?;
    }
    // The note beside the log is only a cache; it is written anew with the log's next entry.
    workspace.begin_recording(Some("the-last"), None).map_err(|error| format!("{error:?}"))?;
    let missing = account.traces().into_iter().find(|id| events(home, *id).is_empty());
    missing.map_or(Ok(()), |id| Err(format!("trace {id} was acknowledged, and is not there")))
}

fn take_up(workspace: &Workspace, id: Ulid) -> Result<(), String> {
    let told = |error: &dyn fmt::Debug| format!("{error:?}");
    let item = workspace.work(id).map_err(|error| told(&error))?;
    // Refused where nobody needs to vouch for it.
    let _ = item.confirm_clock("it is right");
    let phase = item.look(|state| state.phase).map_err(|error| told(&error))?;
    let done = match phase {
        WorkPhase::Completed => item.expire().map(drop),
        WorkPhase::Blocked => item.unblock("looked at").map(drop),
        _ => {
            let ci = phase == WorkPhase::CiPending;
            let claimant = if ci { Claimant::Ci } else { Claimant::Agent };
            item.claim("the-last", Some("the-last.1"), 60_000, claimant).map(drop)
        }
    };
    // Nothing can be done with a completed item but to ask for what is not to be had.
    match done {
        Err(error) if phase == WorkPhase::Completed => {
            let refused = error.to_string();
            if refused.contains("has ended") { Ok(()) } else { Err(told(&error)) }
        }
        done => done.map_err(|error| told(&error)),
    }
}

fn add(workspace: &Workspace, id: Ulid) -> Result<(), String> {
    let recording = workspace.recording(id).map_err(|error| format!("{error:?}"))?;
    let (artifact_hash, reason) = (Hash::of(b"whatever"), "test".to_owned());
    let redact = RecordingCommand::Redact { artifact_hash, reason };
    recording.submit(redact).map_err(|error| format!("{error:?}")).map(drop)
}

fn events(home: &SimHome, id: Ulid) -> Vec<Event> {
    let mut events = Vec::new();
    let _ = each_event(&home.trace_file(id), LedgerId::Trace(id), |event| events.push(event));
    events
}

/// Reads everything as a stranger would; says how many events there are.
fn verified(home: &SimHome, account: &Account) -> Result<usize, String> {
    let mut count = 0;
    let (known, log) = home.known_log();
    if !log.failures.is_empty() || !log.warnings.is_empty() {
        return Err(format!("the log: {:?} {:?}", log.failures, log.warnings));
    }
    for id in home.traces() {
        let events = events(home, id);
        if events.is_empty() {
            continue;
        }
        account.check(id, &events)?;
        count += events.len();
        let report = home.verify_with(&known, id);
        if !report.failures.is_empty() || !report.warnings.is_empty() {
            return Err(format!("{id}: {:?} {:?}", report.failures, report.warnings));
        }
    }
    Ok(count)
}
