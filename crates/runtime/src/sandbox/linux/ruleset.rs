//! Landlock: what may be read and written, and whether TCP may be used.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    PathBeneath, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus,
    Scope, make_bitflags,
};
use rustix::fs::{FileType, Mode, OFlags};

use super::hidden::{self, Secret};
use super::mounts::{DEVICES, TEMPORARY};
use crate::sandbox::order::Bounds;
use crate::sandbox::plan::{LANDLOCK_TCP, Plan};

/// The newest version whose restrictions are known here. Later ones are not used until they are.
const NEWEST: i32 = 6;
/// The first version that keeps signals and abstract sockets inside.
const SCOPED: i32 = 6;

/// Enforces the plan's rules on this process and all that it starts. Returns the version that is
/// enforced, 0 for none.
pub(super) fn enforce(plan: &Plan, bounds: &Bounds) -> Result<i32, String> {
    let (version, level) = match plan.landlock {
        Some(0) => return Ok(0),
        Some(version) => (version, CompatLevel::HardRequirement),
        None => (NEWEST, CompatLevel::BestEffort),
    };
    let said = |error: landlock::RulesetError| format!("Landlock: {error}");
    let abi = ABI::from(version);
    let mut rules =
        Ruleset::default().set_compatibility(level).handle_access(AccessFs::from_all(abi));
    if plan.namespaces.is_none() && !bounds.network && version >= LANDLOCK_TCP {
        rules = rules.and_then(|rules| rules.handle_access(AccessNet::from_all(abi)));
    }
    if version >= SCOPED {
        rules = rules.and_then(|rules| rules.scope(Scope::from_all(abi)));
    }
    let created = rules.and_then(Ruleset::create).map_err(said)?;
    let mut allowance = Allowance { rules: created, abi };
    if plan.namespaces.is_some() {
        allowance.inside_namespaces(bounds)?;
    } else {
        allowance.without_namespaces(bounds)?;
    }
    let status = allowance.rules.restrict_self().map_err(said)?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) if plan.landlock.is_none() => Ok(0),
        (RulesetStatus::NotEnforced, _) => Err("Landlock: not enforced".to_owned()),
        (_, LandlockStatus::Available { effective_abi, .. }) => {
            Ok((effective_abi as i32).min(version))
        }
        (_, LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) => Ok(0),
    }
}

/// Rules in the making.
struct Allowance {
    rules: RulesetCreated,
    abi: ABI,
}

impl Allowance {
    fn read(&self) -> BitFlags<AccessFs> {
        AccessFs::from_read(self.abi)
    }

    /// Everything but making devices.
    fn write(&self) -> BitFlags<AccessFs> {
        AccessFs::from_all(self.abi) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock})
    }

    /// To use a device as it is.
    fn device(&self) -> BitFlags<AccessFs> {
        AccessFs::from_all(self.abi)
            & make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev})
    }

    /// What is hidden is not there, so whole directories can be allowed.
    fn inside_namespaces(&mut self, bounds: &Bounds) -> Result<(), String> {
        let (read, write, device) = (self.read(), self.write(), self.device());
        self.allow_below(Path::new("/"), read)?;
        self.allow_below(Path::new("/dev"), device)?;
        let temporary = TEMPORARY.iter().filter_map(|path| fs::canonicalize(path).ok());
        for path in temporary.collect::<Vec<_>>() {
            self.allow_below(&path, write)?;
        }
        self.allow_below(Path::new("/dev/shm"), write)?;
        for path in bounds.writable() {
            self.allow_below(path, write)?;
        }
        Ok(())
    }

    /// A directory can only be allowed with all below it. So those that lead to something hidden are
    /// not allowed themselves, but what else lies in them is. All can be listed: programs fail
    /// without that, and names are no secret.
    fn without_namespaces(&mut self, bounds: &Bounds) -> Result<(), String> {
        let secrets =
            hidden::secrets(bounds).map_err(|error| format!("cannot see mounts: {error}"))?;
        let (read, write, device) = (self.read(), self.write(), self.device());
        self.allow_below(Path::new("/"), AccessFs::ReadDir.into())?;
        let mut closed = secrets.clone();
        closed.extend(secret_of("/dev"));
        self.allow_around(Path::new("/"), read, &closed)?;
        for path in bounds.writable().map(Path::to_path_buf).collect::<Vec<_>>() {
            self.allow_around(&path, write, &secrets)?;
        }
        if let Some(scratch) = &bounds.scratch {
            self.allow_below(Path::new(scratch), write)?;
        }
        for name in DEVICES {
            let path = Path::new("/dev").join(name);
            if path.exists() {
                self.allow_below(&path, device)?;
            }
        }
        Ok(())
    }

    fn allow_below(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), String> {
        let failed = |error| format!("Landlock: `{}`: {error}", path.display());
        let (held, kind) = open(path).map_err(failed)?;
        self.allow(path, held, kind, access)
    }

    fn allow(
        &mut self,
        path: &Path,
        held: OwnedFd,
        kind: FileType,
        access: BitFlags<AccessFs>,
    ) -> Result<(), String> {
        let access = if kind.is_dir() { access } else { access & AccessFs::from_file(self.abi) };
        let rule = PathBeneath::new(held, access);
        (&mut self.rules)
            .add_rule(rule)
            .map(drop)
            .map_err(|error| format!("Landlock: `{}`: {error}", path.display()))
    }

    /// Allows `path` with all below it, but nothing of `closed` and no directory that leads there.
    fn allow_around(
        &mut self,
        path: &Path,
        access: BitFlags<AccessFs>,
        closed: &[Secret],
    ) -> Result<(), String> {
        // What vanished meanwhile needs no rule, and what we cannot open nobody inside can.
        let Ok((held, kind)) = open(path) else { return Ok(()) };
        let Ok(found) = rustix::fs::fstat(&held) else { return Ok(()) };
        #[expect(clippy::useless_conversion, reason = "the types differ between architectures")]
        let identity = (u64::from(found.st_dev), u64::from(found.st_ino));
        if closed.iter().any(|secret| secret.identity == identity || secret.path == path) {
            return Ok(());
        }
        if !closed.iter().any(|secret| secret.path.starts_with(path)) {
            return match kind {
                FileType::Directory | FileType::RegularFile => self.allow(path, held, kind, access),
                // Links are followed to what they mean; the rest could be a disk.
                _ => Ok(()),
            };
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            self.allow_around(&entry.path(), access, closed)?;
        }
        Ok(())
    }
}

fn open(path: &Path) -> rustix::io::Result<(OwnedFd, FileType)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::open(path, flags, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&held)?.st_mode);
    Ok((held, kind))
}

fn secret_of(path: &str) -> Option<Secret> {
    let found = fs::symlink_metadata(path).ok()?;
    let identity = (found.dev(), found.ino());
    Some(Secret { path: PathBuf::from(path), identity, is_directory: found.is_dir() })
}
