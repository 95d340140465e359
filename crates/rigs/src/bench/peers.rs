//! Ours beside the peers that can be installed: the same tool calls, on the same machine, in turns.
//!
//! Each peer is driven by a program below `tests/peers`, as its documentation says that a user would;
//! ours by `ours`. What is told of each is what the page shows, and the targets are held against.

mod driver;
mod ours;
mod targets;

use std::fs;

use xtask::place::root;

use super::Measured;
use super::bounds::{Bounds, Turns, on_one_core};
use super::home::Home;
use super::verify::median;

pub(super) use driver::{Noticed, Recorded, Verified};
pub(crate) use ours::drive;
pub(super) use targets::targets;

use driver::{Driver, Programs};

/// Records of a short store and of a long one.
pub(super) const FEW: u64 = 1_000;
pub(super) const MANY: u64 = 100_000;
/// How long anybody may take to record the long one.
pub(super) const SECONDS_MAX: u64 = 60;
/// Turns of what is short.
const ROUNDS: usize = 3;
/// A long recording that takes longer is made once: what comes and goes has its share in it.
pub(super) const SECONDS_AGAIN: f64 = 20.0;
/// Records between which syncs are counted.
const WATCHED: [u64; 2] = [100, 500];

/// What can be done to a store, and to whoever reads it.
pub(super) const ATTACKS: &[&str] = &["edit", "tail", "rollback", "resign", "split"];

/// How the signature of a record is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signs {
    /// With a private key: who verifies cannot forge.
    Each(&'static str),
    /// With a private key, once in so many records.
    Some(&'static str),
    /// With a secret that whoever verifies has too.
    Shared(&'static str),
}

impl Signs {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Each(name) | Self::Some(name) | Self::Shared(name) => name,
        }
    }
}

/// Somebody who records and verifies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) name: &'static str,
    /// What it is called where it is installed from, and pinned.
    pub(super) package: &'static str,
    pub(super) language: &'static str,
    pub(super) signs: Signs,
    pub(super) stores: &'static str,
    driver: Driver,
}

const OURS_ONE: Candidate = Candidate {
    name: "countersign, 1 caller",
    package: "countersign",
    language: "Rust",
    signs: Signs::Each("Ed25519"),
    stores: "JSON lines, workspace log",
    driver: Driver::Ours("one"),
};
const OURS_CROWD: Candidate =
    Candidate { name: "countersign, 64 callers", driver: Driver::Ours("crowd"), ..OURS_ONE };

const PEERS: &[Candidate] = &[
    Candidate {
        name: "signet-core",
        package: "signet-core",
        language: "Rust",
        signs: Signs::Each("Ed25519"),
        stores: "JSON lines",
        driver: Driver::Signet,
    },
    Candidate {
        name: "obsigna",
        package: "obsigna",
        language: "Python",
        signs: Signs::Each("Ed25519"),
        stores: "SQLite",
        driver: Driver::Python("obsigna_driver.py"),
    },
    Candidate {
        name: "aat-mcp",
        package: "aat-mcp",
        language: "Python",
        signs: Signs::Each("ES256"),
        stores: "nothing: lines by the driver",
        driver: Driver::Python("aat_driver.py"),
    },
    Candidate {
        name: "chain-receipt-core",
        package: "chain-receipt-core",
        language: "Python",
        signs: Signs::Each("Ed25519"),
        stores: "nothing: lines by the driver",
        driver: Driver::Python("chain_receipt_driver.py"),
    },
    Candidate {
        name: "vaara",
        package: "vaara",
        language: "Python",
        signs: Signs::Some("ES256, one a call"),
        stores: "SQLite, a file for each receipt",
        driver: Driver::Python("vaara_driver.py"),
    },
    Candidate {
        name: "agentmesh-platform",
        package: "agentmesh_platform",
        language: "Python",
        signs: Signs::Shared("HMAC, shared secret"),
        stores: "JSON lines",
        driver: Driver::Python("agentmesh_driver.py"),
    },
];

/// What was found of one of them.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    pub(super) who: Candidate,
    pub(super) version: String,
    /// Calls that make something durable, for each record; of nobody knows, nothing.
    pub(super) syncs: Option<f64>,
    /// The first records of a new store: microseconds for each.
    pub(super) short_us: f64,
    pub(super) long: Recorded,
    /// Nothing for the second way of ours to record: what it writes is the same.
    pub(super) verified: Option<Checked>,
    /// By the names of [`ATTACKS`].
    pub(super) noticed: Vec<Noticed>,
}

/// What verifying takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Checked {
    /// Microseconds for each record of the short store.
    pub(super) short_us: f64,
    pub(super) long: Verified,
    /// The same with one core, where more than one is used.
    pub(super) one_core: Option<Verified>,
}

/// Everything that was found in one run.
#[derive(Debug, Clone)]
pub(super) struct Comparison {
    pub(super) cores: usize,
    pub(super) bounds: Bounds,
    /// Ours, with one caller and with many; then the peers.
    pub(super) all: Vec<Standing>,
}

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    Ok(targets(&compare()?))
}

/// Measures everybody. It takes long: what is slow is given time.
pub(super) fn compare() -> Result<Comparison, String> {
    let programs = Programs::install()?;
    let home = Home::new("peers")?;
    let all: Vec<Candidate> =
        [OURS_ONE, OURS_CROWD].into_iter().chain(PEERS.iter().copied()).collect();
    let run = Run { programs: &programs, home: &home };
    let mut turns = Turns::default();
    let short = run.short_turns(&all)?;
    let mut standings = Vec::new();
    for (at, (&who, short_us)) in (0..).zip(all.iter().zip(short)) {
        turns.take(&home)?;
        eprintln!("    peers: {} records", who.name);
        let place = format!("long-{at}");
        let long = run.record_long(who, &place)?;
        let ours_again = at == 1;
        let verified = if ours_again { None } else { Some(run.check(who, &place, &long)?) };
        let noticed = if ours_again { Vec::new() } else { run.attacks(who, at)? };
        let _ = fs::remove_dir_all(home.below(&place));
        let syncs = run.syncs(who, at)?;
        standings.push(Standing {
            who,
            version: version(who)?,
            syncs,
            short_us,
            long,
            verified,
            noticed,
        });
    }
    turns.take(&home)?;
    let cores = std::thread::available_parallelism().map_err(|error| error.to_string())?.get();
    Ok(Comparison { cores, bounds: turns.median()?, all: standings })
}

/// Where it runs, and with what.
struct Run<'a> {
    programs: &'a Programs,
    home: &'a Home,
}

impl Run<'_> {
    fn place(&self, name: &str) -> String {
        self.home.below(name).to_string_lossy().into_owned()
    }

    fn record(&self, who: Candidate, count: u64, place: &str) -> Result<Recorded, String> {
        let told = self.programs.tell(
            who.driver,
            &["record", &count.to_string(), &self.place(place), &SECONDS_MAX.to_string()],
        )?;
        Recorded::read(&told)
    }

    /// A long store, which stays; of several that take only seconds, what the middle one took.
    fn record_long(&self, who: Candidate, place: &str) -> Result<Recorded, String> {
        let first = self.record(who, MANY, place)?;
        if first.seconds > SECONDS_AGAIN {
            return Ok(first);
        }
        let mut all = vec![first];
        for _ in 1..ROUNDS {
            let again = format!("{place}-again");
            all.push(self.record(who, MANY, &again)?);
            let _ = fs::remove_dir_all(self.home.below(&again));
        }
        all.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
        Ok(all.swap_remove(ROUNDS / 2))
    }

    /// The first records of a new store, everybody in turns.
    fn short_turns(&self, all: &[Candidate]) -> Result<Vec<f64>, String> {
        let mut costs = vec![Vec::new(); all.len()];
        for round in 0..ROUNDS {
            for (&who, costs) in all.iter().zip(&mut costs) {
                let place = format!("short-{round}");
                let recorded = self.record(who, FEW, &place)?;
                costs.push(recorded.seconds * 1e6 / recorded.records as f64);
                let _ = fs::remove_dir_all(self.home.below(&place));
            }
        }
        costs.iter_mut().map(|costs| median(costs)).collect()
    }

    fn fill(&self, who: Candidate, count: u64, place: &str) -> Result<(), String> {
        self.programs.tell(who.driver, &["fill", &count.to_string(), &self.place(place)]).map(drop)
    }

    fn verify(&self, who: Candidate, place: &str) -> Result<Verified, String> {
        match who.driver {
            Driver::Ours(_) => ours::verify(&self.home.below(place)),
            driver => Verified::read(&self.programs.tell(driver, &["verify", &self.place(place)])?),
        }
    }

    /// Verifies a short store and a long one.
    fn check(&self, who: Candidate, place: &str, recorded: &Recorded) -> Result<Checked, String> {
        let ours = matches!(who.driver, Driver::Ours(_));
        self.fill(who, FEW, "few")?;
        let mut costs = Vec::new();
        for _ in 0..ROUNDS {
            let verified = self.verify(who, "few")?;
            costs.push(verified.seconds * 1e6 / verified.records as f64);
        }
        let _ = fs::remove_dir_all(self.home.below("few"));
        // What did not get there in time is made without syncs; ours must have ended.
        let filled = (recorded.stopped || ours).then(|| format!("{place}-filled"));
        if let Some(filled) = &filled {
            eprintln!("    peers: {} is filled up to be verified", who.name);
            self.fill(if ours { OURS_CROWD } else { who }, MANY, filled)?;
        }
        let place = filled.as_deref().unwrap_or(place);
        let mut long: Vec<Verified> = Vec::new();
        for _ in 0..if ours { ROUNDS } else { 1 } {
            long.push(self.verify(who, place)?);
        }
        long.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
        let one_core = match ours {
            true => Some(on_one_core(|| self.verify(who, place))?),
            false => None,
        };
        let _ = fs::remove_dir_all(self.home.below(place));
        let long = *long.get(long.len() / 2).ok_or("nothing was verified")?;
        Ok(Checked { short_us: median(&mut costs)?, long, one_core })
    }

    fn attacks(&self, who: Candidate, at: usize) -> Result<Vec<Noticed>, String> {
        let attack = |name: &&str| {
            let place = self.place(&format!("attack-{at}-{name}"));
            Noticed::read(&self.programs.tell(who.driver, &["attack", name, &place])?)
        };
        ATTACKS.iter().map(attack).collect()
    }

    /// Counted by the system, in runs of their own.
    fn syncs(&self, who: Candidate, at: usize) -> Result<Option<f64>, String> {
        let mut counts = Vec::new();
        for count in WATCHED {
            let place = self.place(&format!("watched-{at}-{count}"));
            let list = self.home.below("watched");
            let limit = SECONDS_MAX.to_string();
            let order = ["record", &count.to_string(), &place, &limit];
            let Some(counted) = self.programs.count_syncs(who.driver, &order, &list)? else {
                return Ok(None);
            };
            counts.push(counted as f64);
        }
        let [few, many] = WATCHED;
        let more = counts.last().zip(counts.first()).map(|(last, first)| last - first);
        Ok(more.map(|more| more / (many - few) as f64))
    }
}

/// The version that is pinned.
fn version(who: Candidate) -> Result<String, String> {
    let read = |path: &str| {
        fs::read_to_string(root().join(path))
            .map_err(|error| format!("cannot read `{path}`: {error}"))
    };
    let found = match who.driver {
        Driver::Ours(_) => Some(env!("CARGO_PKG_VERSION").to_owned()),
        Driver::Signet => read("tests/peers/signet/Cargo.toml")?.lines().find_map(|line| {
            let version = line.strip_prefix(who.package)?.strip_prefix(" = \"=")?;
            version.strip_suffix('"').map(str::to_owned)
        }),
        Driver::Python(_) => read("tests/peers/requirements.txt")?
            .lines()
            .find_map(|line| line.strip_prefix(who.package)?.strip_prefix("==").map(str::to_owned)),
    };
    found.ok_or_else(|| format!("`{}` is not pinned", who.package))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A comparison with round numbers: ours is ahead of everybody.
    pub(in super::super) fn example() -> Comparison {
        let bounds = Bounds {
            sign: 40_000.0,
            sign_ours: 70_000.0,
            strict_one: 20_000.0,
            strict_all: 40_000.0,
            sha256: 1_500.0,
            syncs: 2_000.0,
        };
        let long = Recorded {
            records: MANY,
            calls: MANY,
            seconds: 50.0,
            stopped: false,
            first_us: 400.0,
            last_us: 500.0,
            bytes: 100_000_000,
            peak_mib: 20.0,
        };
        let verified = Verified { records: MANY, seconds: 10.0, peak_mib: 50.0 };
        let yes = Noticed { plain: true, kept: None };
        let no = Noticed { plain: false, kept: None };
        let ours = Standing {
            who: OURS_ONE,
            version: "0.1.0".to_owned(),
            syncs: Some(1.0),
            short_us: 510.0,
            long: Recorded { calls: MANY / 3, ..long.clone() },
            verified: Some(Checked {
                short_us: 60.0,
                long: Verified { seconds: 2.5, peak_mib: 12.0, ..verified },
                one_core: Some(Verified { seconds: 5.0, peak_mib: 11.0, ..verified }),
            }),
            noticed: vec![yes, yes, Noticed { plain: false, kept: Some(true) }, yes, yes],
        };
        let crowd = Standing {
            who: OURS_CROWD,
            syncs: Some(0.03),
            long: Recorded { calls: MANY / 3, seconds: 4.0, ..long.clone() },
            verified: None,
            noticed: Vec::new(),
            ..ours.clone()
        };
        let slow = PEERS.first().copied().map(|who| Standing {
            who,
            version: "0.11.0".to_owned(),
            syncs: Some(0.0),
            short_us: 250.0,
            long: Recorded {
                records: 20_000,
                calls: 20_000,
                seconds: 60.5,
                stopped: true,
                first_us: 250.0,
                last_us: 6_000.0,
                ..long.clone()
            },
            verified: Some(Checked { short_us: 110.0, long: verified, one_core: None }),
            noticed: vec![yes, no, no, Noticed { plain: false, kept: Some(true) }, no],
        });
        let synced = PEERS.get(1).copied().map(|who| Standing {
            who,
            version: "0.16.0".to_owned(),
            syncs: Some(4.0),
            short_us: 2_000.0,
            long: Recorded { seconds: 200.0, ..long },
            verified: Some(Checked { short_us: 500.0, long: verified, one_core: None }),
            noticed: vec![yes, Noticed { plain: false, kept: Some(true) }, no, yes, no],
        });
        let all = [ours, crowd].into_iter().chain(slow).chain(synced).collect();
        Comparison { cores: 2, bounds, all }
    }

    #[test]
    fn every_peer_is_pinned_and_has_a_driver() {
        for &peer in PEERS {
            assert!(version(peer).is_ok(), "{}", peer.name);
            if let Driver::Python(script) = peer.driver {
                assert!(root().join("tests/peers").join(script).is_file(), "{script}");
            }
        }
    }
}
