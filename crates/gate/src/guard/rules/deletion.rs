//! Deleting more than anybody meant to, and destroying disks.

use countersign_format::risk::RiskClass;

use crate::Decision;
use crate::guard::place::{Place, place};
use crate::guard::rule::Example::{Run, Write};
use crate::guard::rule::{Matcher, Rule};
use crate::guard::scene::Step;
use crate::guard::written::Target;

pub(super) static RULES: &[Rule] = &[
    Rule {
        id: "delete-everything",
        because: "deletes the system, a home, or the workspace with all that is in it",
        decision: Decision::Deny,
        risk: RiskClass::Critical,
        matches: Matcher::Step(|step| deletes(step, EVERYTHING)),
        must: &[
            Run("rm -rf /"),
            Run("rm -r -f ~"),
            Run("rm --recursive --force ."),
            Run("rm -fr -- /*"),
            Run("cd src && rm -rf .."),
            Run("rm --rec $HOME/"),
            Run("find / -delete"),
            Run("find . -exec rm -rf {} +"),
            Run("rm -rf /usr/lib"),
            Run("rm -rf /tmp"),
        ],
        must_not: &[
            Run("rm -rf target"),
            Run("rm /"),
            Run("rm -rf ./build/*"),
            Run("find . -name '*.pyc' -delete"),
            Run("echo rm -rf /"),
        ],
    },
    Rule {
        id: "delete-outside",
        because: "deletes a directory outside of the workspace",
        decision: Decision::Ask,
        risk: RiskClass::Elevated,
        matches: Matcher::Step(|step| deletes(step, &[Place::Outside, Place::BelowHome])),
        must: &[
            Run("rm -rf /tmp/build"),
            Run("rm -r ../other"),
            Run("rm -rf ~/.cache"),
            Run("find /srv/data -delete"),
            Run("find /tmp -name x -delete"),
        ],
        must_not: &[Run("rm -rf target"), Run("rm /tmp/file"), Run("ls -R /tmp/build")],
    },
    Rule {
        id: "delete-unknown",
        because: "deletes everything if a variable is empty",
        decision: Decision::Ask,
        risk: RiskClass::Elevated,
        matches: Matcher::Step(|step| is_recursive_rm(step) && step.operands().any(may_be_root)),
        must: &[Run("rm -rf \"$BUILD/\"*"), Run("rm -rf ${DIR}/"), Run("rm -r $A$B/*")],
        must_not: &[Run("rm -rf \"$BUILD/out\""), Run("rm -rf \"$BUILD\""), Run("ls $DIR/")],
    },
    Rule {
        id: "delete-history",
        because: "deletes the repository's history or the record of what agents did",
        decision: Decision::Deny,
        risk: RiskClass::Critical,
        matches: Matcher::Step(|step| {
            let mut operands = step.operand_words().map(Target::of);
            step.is(&["rm", "mv", "shred", "truncate", "unlink"])
                && operands.any(|it| it.may_be(&[".git", ".countersign"], is_history))
        }),
        must: &[
            Run("rm -rf .git"),
            Run("rm -r ./.countersign"),
            Run("mv .git elsewhere"),
            Run("rm -rf .gi*"),
            Run("truncate -s 0 .countersign/log/events.jsonl"),
        ],
        must_not: &[Run("rm .gitignore"), Run("ls .git"), Run("rm -rf src/git")],
    },
    Rule {
        id: "disk-write",
        because: "writes to a disk past its file system",
        decision: Decision::Deny,
        risk: RiskClass::Critical,
        matches: Matcher::Step(writes_device),
        must: &[
            Run("dd if=/dev/zero of=/dev/sda bs=1M"),
            Run("mkfs.ext4 /dev/sdb1"),
            Run("wipefs -a image"),
            Run("cat image > /dev/nvme0n1"),
            Run("echo x | tee /dev/sda"),
            Run("cp image /dev/disk2"),
            Run("shred /dev/sda"),
        ],
        must_not: &[
            Run("dd if=/dev/zero of=image bs=1M count=1"),
            Run("make > /dev/null 2>&1"),
            Run("cat /dev/sda"),
            Write("dev/sda"),
        ],
    },
];

/// Places that are lost as a whole.
const EVERYTHING: &[Place] = &[
    Place::Root,
    Place::System,
    Place::Shared,
    Place::Device,
    Place::Home,
    Place::Workspace,
    Place::Above,
];

fn is_recursive_rm(step: &Step) -> bool {
    step.is(&["rm"]) && step.flag("rR", &["recursive"])
}

/// Whether `step` deletes with all that is in it something that lies in one of `places`.
fn deletes(step: &Step, places: &[Place]) -> bool {
    if is_recursive_rm(step) {
        return step.names_place(places);
    }
    if !step.is(&["find"]) {
        return false;
    }
    let removes = step.has("-delete") || step.has("rm") && !step.has("-name");
    // What is picked by name is not everything, unless it is picked from everywhere.
    let narrow = step.args.iter().any(|word| NARROWS.contains(&&*word.text));
    let starts = step.args.iter().map(|word| &*word.text).take_while(|word| !word.starts_with('-'));
    let picked = |start| if narrow && start == Place::Shared { Place::Outside } else { start };
    let mut starts: Vec<Place> = starts.map(place).map(picked).collect();
    if starts.is_empty() {
        starts.push(Place::Workspace);
    }
    removes
        && starts.into_iter().any(|start| {
            let here = matches!(start, Place::Workspace | Place::Inside);
            places.contains(&start) && !(narrow && here)
        })
}

/// Tests of `find` that pick some files among all.
const NARROWS: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-regex",
    "-mtime",
    "-mmin",
    "-newer",
    "-size",
    "-empty",
    "-maxdepth",
];

/// Whether a path is the root if what only the shell knows turns out to be empty.
fn may_be_root(path: &str) -> bool {
    let Some(mut rest) = path.strip_prefix('$') else { return false };
    loop {
        rest = match rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}').map_or("", |(_, rest)| rest),
            None => rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_'),
        };
        match rest.strip_prefix('$') {
            Some(next) => rest = next,
            None => return rest.starts_with('/') && place(rest) == Place::Root,
        }
    }
}

fn is_history(path: &str) -> bool {
    let parts = crate::guard::place::components(path);
    parts.iter().any(|part| part == ".countersign")
        || parts.last().is_some_and(|last| last == ".git")
}

fn writes_device(step: &Step) -> bool {
    let device = |path: &str| place(path) == Place::Device;
    let of = |arg: &str| arg.strip_prefix("of=").is_some_and(device);
    step.program.starts_with("mkfs")
        || step.is(&["wipefs", "blkdiscard", "fdisk", "sfdisk", "sgdisk", "parted", "mkswap"])
        || step.is(&["dd"]) && step.args.iter().any(|arg| of(&arg.text))
        || step.is(&["tee", "cp", "mv", "shred", "truncate"])
            && step.operands().last().is_some_and(device)
        || step.written().any(device)
}
