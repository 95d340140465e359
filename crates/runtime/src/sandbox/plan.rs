//! Which isolation is aimed at, and what comes of it.
//!
//! Decides the order in which sandboxes are tried, strongest first, and what level each is. What a
//! plan promises is reached by every call under it, or the call does not start.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::isolation::{
    Concealment, FileConfinement, Isolation, Level, LimitSet, NetworkReach, ProcessScope,
};
use super::order::Bounds;

/// The first version of Landlock that `truncate` does not escape.
pub(crate) const LANDLOCK_WHOLE: i32 = 3;
/// The first version of Landlock that knows TCP.
pub(crate) const LANDLOCK_TCP: i32 = 4;

/// What is said where nothing else says why there is no Landlock.
const NO_LANDLOCK: &str = if cfg!(target_os = "linux") {
    "Landlock: the kernel does not offer it"
} else {
    "sandboxes need Linux"
};

/// A sandbox that is to be entered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Namespaces for mounts, processes, System V objects and, unless it is granted, the network.
    pub(crate) namespaces: Option<Namespaces>,
    /// The version of Landlock to be enforced, 0 for none. None while it is not known: the best.
    pub(crate) landlock: Option<i32>,
}

/// How namespaces are entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Namespaces {
    /// By way of a user namespace, which needs no privilege and leaves none.
    pub(crate) user: bool,
    /// With a `/proc` of their own. Not to be had where that of the system is masked.
    pub(crate) proc: bool,
}

impl Plan {
    /// What is tried, in this order.
    pub(crate) fn candidates() -> Vec<Self> {
        let mut candidates = Vec::new();
        if cfg!(target_os = "linux") {
            let privileged = rustix::process::geteuid().is_root();
            let ways = [(true, true), (false, true), (true, false), (false, false)];
            let ways = ways.into_iter().filter(|(user, _)| *user || privileged);
            candidates.extend(ways.map(|(user, proc)| Self {
                namespaces: Some(Namespaces { user, proc }),
                landlock: None,
            }));
            candidates.push(Self { namespaces: None, landlock: None });
        }
        candidates.push(Self { namespaces: None, landlock: Some(0) });
        candidates
    }

    /// What it is called where it is said that it cannot be had.
    pub(crate) const fn title(&self) -> &'static str {
        match self {
            Self { namespaces: Some(Namespaces { user: true, proc: true }), .. } => {
                "namespaces of an unprivileged user"
            }
            Self { namespaces: Some(Namespaces { user: true, proc: false }), .. } => {
                "the same without a `/proc` of their own"
            }
            Self { namespaces: Some(Namespaces { user: false, proc: true }), .. } => {
                "namespaces of a privileged user"
            }
            Self { namespaces: Some(_), .. } => {
                "those of a privileged user without a `/proc` of their own"
            }
            Self { landlock: Some(0), .. } => "a process of its own",
            Self { .. } => "Landlock alone",
        }
    }

    /// Whether temporary files need a directory that is made for the call.
    pub(crate) fn needs_scratch(&self) -> bool {
        self.namespaces.is_none() && self.landlock != Some(0)
    }

    fn version(&self) -> i32 {
        self.landlock.unwrap_or_default()
    }

    /// What it promises; `missing` says why stronger ones could not be had.
    pub(crate) fn isolation(&self, bounds: &Bounds, mut missing: Vec<String>) -> Isolation {
        let landlock = self.version();
        let inside = self.namespaces.is_some();
        if landlock == 0 && !missing.iter().any(|reason| reason.starts_with("Landlock")) {
            missing.push(NO_LANDLOCK.to_owned());
        }
        match self.namespaces {
            Some(Namespaces { proc: false, .. }) => {
                missing.push("the command lines of other processes can be read".to_owned());
            }
            Some(_) => {}
            None => missing.extend(self.shortcomings(bounds)),
        }
        let files = match (inside, landlock) {
            (true, 0) => FileConfinement::Mounts,
            (true, _) => FileConfinement::MountsLandlock,
            (false, LANDLOCK_WHOLE..) => FileConfinement::Landlock,
            (false, 1..) => FileConfinement::LandlockPartial,
            (false, _) => FileConfinement::Open,
        };
        let concealment = match (inside, landlock) {
            (true, _) => Concealment::Hidden,
            (false, LANDLOCK_WHOLE..) => Concealment::Unreadable,
            (false, _) => Concealment::Open,
        };
        let network = match (bounds.network, inside, landlock) {
            (true, _, _) => NetworkReach::Granted,
            (false, true, _) => NetworkReach::Private,
            (false, false, LANDLOCK_TCP..) => NetworkReach::TcpBlocked,
            (false, false, _) => NetworkReach::Open,
        };
        let processes = match (inside, cfg!(target_os = "linux")) {
            (true, _) => ProcessScope::Namespace,
            (false, true) => ProcessScope::Descendants,
            (false, false) => ProcessScope::Group,
        };
        let level = match (inside, landlock) {
            (true, _) => Level::Full,
            (false, LANDLOCK_WHOLE..) => Level::Files,
            (false, _) => Level::None,
        };
        let limits = match bounds.memory_limit() {
            Some(_) => LimitSet::TimeOutputMemory,
            None => LimitSet::TimeOutput,
        };
        let (store, keys) = (concealment, concealment);
        Isolation { level, files, store, keys, network, processes, limits, missing }
    }

    /// What a sandbox without namespaces lacks or costs.
    fn shortcomings(&self, bounds: &Bounds) -> Vec<String> {
        let mut said = Vec::new();
        match self.version() {
            0 => {}
            found @ ..LANDLOCK_WHOLE => said.push(format!(
                "Landlock: version {found}, files can be cut short anywhere below {LANDLOCK_WHOLE}"
            )),
            found => {
                if found < LANDLOCK_TCP && !bounds.network {
                    said.push(format!("Landlock: version {found}, TCP needs {LANDLOCK_TCP}"));
                }
                said.extend(bounds.barred().map(|directory| {
                    format!("nothing can be made or removed directly in `{}`", directory.display())
                }));
            }
        }
        said
    }
}

impl Bounds {
    /// The limit of memory, unless it is as good as none.
    pub(crate) fn memory_limit(&self) -> Option<u64> {
        (self.memory_bytes != 0 && self.memory_bytes != u64::MAX).then_some(self.memory_bytes)
    }

    /// Writable directories that lead to something hidden. Landlock allows a directory with all
    /// below it or not at all, so with it alone these cannot be allowed.
    fn barred(&self) -> impl Iterator<Item = &Path> {
        let hidden = || self.hidden.iter().map(Path::new);
        let mut barred: Vec<_> = self
            .writable()
            .flat_map(|writable| {
                hidden()
                    .filter_map(Path::parent)
                    .flat_map(Path::ancestors)
                    .filter(move |directory| directory.starts_with(writable))
            })
            .collect();
        barred.sort();
        barred.dedup();
        barred.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            root: "/w".into(),
            read_only: false,
            write: vec!["/cache".into()],
            hidden: vec!["/w/a/.countersign".into(), "/k/keys".into()],
            scratch: None,
            network: false,
            memory_bytes: 1 << 30,
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn landlock_alone_says_what_it_costs() {
        let plan = Plan { namespaces: None, landlock: Some(6) };
        let expected = Isolation {
            level: Level::Files,
            files: FileConfinement::Landlock,
            store: Concealment::Unreadable,
            keys: Concealment::Unreadable,
            network: NetworkReach::TcpBlocked,
            processes: ProcessScope::Descendants,
            limits: LimitSet::TimeOutputMemory,
            missing: vec![
                "x".to_owned(),
                "nothing can be made or removed directly in `/w`".to_owned(),
                "nothing can be made or removed directly in `/w/a`".to_owned(),
            ],
        };
        assert_eq!(plan.isolation(&bounds(), vec!["x".to_owned()]), expected);
    }

    #[test]
    fn landlock_that_truncate_escapes_is_no_level() {
        let plan = Plan { namespaces: None, landlock: Some(2) };
        let found = plan.isolation(&bounds(), Vec::new());
        assert_eq!((found.level, found.files), (Level::None, FileConfinement::LandlockPartial));
        assert_eq!((found.store, found.network), (Concealment::Open, NetworkReach::Open));
        let whole = Plan { namespaces: None, landlock: Some(3) };
        let found = whole.isolation(&bounds(), Vec::new());
        assert_eq!((found.level, found.network), (Level::Files, NetworkReach::Open));
    }

    #[test]
    fn namespaces_are_full_with_or_without_landlock() {
        let namespaces = Some(Namespaces { user: true, proc: true });
        for (landlock, files) in
            [(0, FileConfinement::Mounts), (6, FileConfinement::MountsLandlock)]
        {
            let plan = Plan { namespaces, landlock: Some(landlock) };
            let found = plan.isolation(&bounds(), Vec::new());
            assert_eq!((found.level, found.files), (Level::Full, files));
            assert_eq!(found.network, NetworkReach::Private);
            let missing = if landlock == 0 { vec![NO_LANDLOCK.to_owned()] } else { Vec::new() };
            assert_eq!(found.missing, missing);
        }
    }

    #[test]
    fn the_weakest_candidate_needs_nothing() {
        let last = Plan::candidates().pop();
        assert_eq!(last, Some(Plan { namespaces: None, landlock: Some(0) }));
    }
}
