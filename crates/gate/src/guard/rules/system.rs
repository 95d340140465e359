//! The machine itself: privilege, power, other processes, the kernel, and what outlives a session.

use countersign_format::risk::RiskClass;

use crate::Decision;
use crate::guard::place::components;
use crate::guard::rule::Example::{Read, Run, Write};
use crate::guard::rule::{Matcher, Rule};
use crate::guard::scene::{Scene, Step};
use crate::guard::written::written;

use super::files::touched_for_writing;

pub(super) static RULES: &[Rule] = &[
    Rule {
        id: "privilege",
        because: "acts with the rights of somebody else",
        decision: Decision::Deny,
        risk: RiskClass::Critical,
        matches: Matcher::Step(takes_privilege),
        must: &[
            Run("sudo make install"),
            Run("su - -c id"),
            Run("doas ls"),
            Run("pkexec id"),
            Run("chmod u+s tool"),
            Run("chmod 4755 tool"),
            Run("env X=1 nice sudo -u root id"),
            Run("setcap cap_net_raw+ep tool"),
        ],
        must_not: &[Run("chmod 755 tool"), Run("chmod +x tool"), Run("echo sudo"), Run("sum a")],
    },
    Rule {
        id: "power",
        because: "stops the machine",
        decision: Decision::Deny,
        risk: RiskClass::Critical,
        matches: Matcher::Step(stops_machine),
        must: &[
            Run("shutdown -h now"),
            Run("reboot"),
            Run("systemctl poweroff"),
            Run("init 0"),
            Run("echo b > /proc/sysrq-trigger"),
        ],
        must_not: &[Run("systemctl status x"), Run("git init"), Run("init"), Run("cat shutdown")],
    },
    Rule {
        id: "kill-everything",
        because: "ends processes that it did not start",
        decision: Decision::Deny,
        risk: RiskClass::Critical,
        matches: Matcher::Step(kills_everything),
        must: &[
            Run("kill -9 -1"),
            Run("kill -- -1"),
            Run("pkill -f ."),
            Run("pkill -u ana"),
            Run("killall -r '.*'"),
            Run("kill -9 1"),
        ],
        must_not: &[
            Run("kill -9 4711"),
            Run("kill -1 4711"),
            Run("kill %1"),
            Run("pkill -f server"),
        ],
    },
    Rule {
        id: "kill-by-name",
        because: "ends every process of that name, whoever started it",
        decision: Decision::Ask,
        risk: RiskClass::Elevated,
        matches: Matcher::Step(|step| {
            step.is(&["pkill", "killall", "killall5", "skill"]) && !step.flag("l", &["list"])
                || step.is(&["fuser"]) && step.flag("k", &["kill"])
        }),
        must: &[Run("pkill -f server"), Run("killall node"), Run("fuser -k 8080/tcp")],
        must_not: &[Run("pgrep -f server"), Run("kill 4711"), Run("killall -l")],
    },
    Rule {
        id: "kernel",
        because: "changes the kernel, its mounts or its firewall, or leaves the container",
        decision: Decision::Deny,
        risk: RiskClass::Critical,
        matches: Matcher::Step(changes_kernel),
        must: &[
            Run("mount /dev/sdb1 mnt"),
            Run("insmod x.ko"),
            Run("sysctl -w kernel.panic=1"),
            Run("iptables -F"),
            Run("nsenter -t 1 -m sh"),
            Run("docker run --privileged image"),
            Run("docker run -v /:/host image"),
        ],
        must_not: &[
            Run("mount"),
            Run("sysctl kernel.panic"),
            Run("docker run -v ./data:/data image"),
            Run("lsmod"),
        ],
    },
    Rule {
        id: "persistence",
        because: "leaves something behind that runs later, when nobody records it",
        decision: Decision::Deny,
        risk: RiskClass::Critical,
        matches: Matcher::Scene(persists),
        must: &[
            Run("crontab jobs"),
            Run("echo x | crontab -"),
            Run("systemctl --user enable spy.service"),
            Run("at now + 1 hour < job"),
            Run("echo 'alias ls=x' >> ~/.bashrc"),
            Run("cp x.service ~/.config/systemd/user/x.service"),
            Run("systemd-run --user sleep 100"),
            Write(".config/systemd/user/x.service"),
            Run("launchctl load x.plist"),
        ],
        must_not: &[
            Run("crontab -l"),
            Run("systemctl status x"),
            Run("cat ~/.bashrc"),
            Read(".bashrc"),
            Write("docs/cron.md"),
        ],
    },
    Rule {
        id: "system-files",
        because: "writes to a directory of the system",
        decision: Decision::Deny,
        risk: RiskClass::Critical,
        matches: Matcher::Scene(writes_system),
        must: &[
            Run("echo x > /etc/hosts"),
            Run("cp tool /usr/local/bin/"),
            Run("echo x | tee -a /etc/profile"),
            Run("sed -i s/a/b/ /etc/hosts"),
            Run("ln -s x /usr/bin/x"),
            Run("chmod -R 755 /"),
            Run("curl -o /usr/bin/x https://example.org/x"),
            Write("/etc/passwd"),
        ],
        must_not: &[
            Run("cat /etc/hosts"),
            Run("cp /etc/hosts hosts"),
            Run("python3 /usr/share/x.py"),
            Run("echo x > /tmp/file"),
            Run("mv x /tmp/"),
            Run("make 2> /dev/null"),
            Write("etc/hosts"),
        ],
    },
    Rule {
        id: "world-writable",
        because: "lets everybody on the machine write",
        decision: Decision::Ask,
        risk: RiskClass::Elevated,
        matches: Matcher::Step(opens_to_all),
        must: &[
            Run("chmod 777 x"),
            Run("chmod -R 0666 src"),
            Run("chmod a+rwx x"),
            Run("chmod o+w x"),
            Run("umask 000"),
        ],
        must_not: &[Run("chmod 755 x"), Run("chmod +x x"), Run("chmod o-w x"), Run("umask 022")],
    },
];

fn takes_privilege(step: &Step) -> bool {
    step.is(&["sudo", "su", "doas", "pkexec", "run0", "sudoedit", "visudo", "runuser", "setcap"])
        || step.is(&["useradd", "usermod", "adduser", "passwd", "chpasswd", "gpasswd", "dzdo"])
        || step.is(&["chmod"]) && step.args.iter().any(|mode| is_setuid(&mode.text))
        || step.is(&["install"]) && step.args.iter().any(|arg| is_setuid(&arg.text))
}

/// Whether a mode makes a program run with its owner's rights: `4755`, `u+s`, `g=xs`.
fn is_setuid(mode: &str) -> bool {
    let mode = mode.strip_prefix("-m").or(mode.strip_prefix("--mode=")).unwrap_or(mode);
    let octal = mode.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    if octal && mode.len() >= 4 {
        let special = mode.len() - 4;
        return mode.as_bytes().get(special).is_some_and(|digit| digit & 0b110 != 0);
    }
    mode.split(',').any(|clause| {
        let (who, what) = clause.split_at(clause.find(['+', '=']).unwrap_or(clause.len()));
        who.chars().all(|c| "ugoa".contains(c)) && what.contains('s') && what.len() <= 7
    })
}

fn stops_machine(step: &Step) -> bool {
    const VERBS: &[&str] =
        &["poweroff", "reboot", "halt", "kexec", "suspend", "hibernate", "rescue", "emergency"];
    step.is(&["shutdown", "reboot", "halt", "poweroff", "telinit"])
        || step.is(&["init"]) && matches!(step.subcommand().0, "0" | "1" | "6")
        || step.is(&["systemctl", "loginctl"]) && VERBS.contains(&step.subcommand().0)
        || step.written().any(|path| path.starts_with("/proc/sys"))
}

fn kills_everything(step: &Step) -> bool {
    match &*step.program {
        "kill" => {
            // `kill -1 4711` sends signal 1; `kill -9 -1` ends everything.
            let targets = step.args.iter().skip(usize::from(
                step.args.first().is_some_and(|first| first.text.starts_with('-')),
            ));
            targets.map(|word| &*word.text).any(|target| target == "-1" || target == "1")
        }
        "pkill" | "killall" => {
            let broad = |pattern: &str| pattern.chars().all(|c| ".*^$".contains(c));
            let by_user = step.flag("uUG", &["user", "euid", "uid"]);
            let named = step.operands().count() > 0;
            by_user || named && step.operands().any(broad) || step.has("")
        }
        "killall5" => true,
        _ => false,
    }
}

fn changes_kernel(step: &Step) -> bool {
    let engine = step.is(&["docker", "podman", "nerdctl"]);
    let host = |word: &str| word.starts_with("/:") || word == "/" || word.contains("docker.sock");
    let mounted = |word: &str| {
        host(word) || word.split(['=', ',']).any(host) || word.strip_prefix("-v").is_some_and(host)
    };
    step.is(&["insmod", "rmmod", "modprobe", "iptables", "ip6tables", "nft", "ufw", "nsenter"])
        || step.is(&["umount", "swapoff", "pivot_root", "kexec", "bpftool", "losetup"])
        || step.is(&["mount", "chroot"]) && step.operands().count() > 1
        || step.is(&["sysctl"])
            && (step.flag("wp", &["write", "load"])
                || step.args.iter().any(|arg| arg.text.contains('=')))
        || engine
            && (step.has("--privileged")
                || step.has("--pid=host")
                || step.args.iter().any(|arg| mounted(&arg.text)))
}

fn persists(scene: &Scene<'_>) -> Option<String> {
    const VERBS: &[&str] =
        &["enable", "start", "restart", "link", "edit", "mask", "unmask", "set-property"];
    let commands = scene.find(|step| {
        step.is(&["crontab"]) && !step.flag("l", &[])
            || step.is(&["systemctl"]) && VERBS.contains(&step.subcommand().0)
            || step.is(&["launchctl"])
                && matches!(step.subcommand().0, "load" | "bootstrap" | "submit")
            || step.is(&["at", "batch", "systemd-run", "update-rc.d", "chkconfig", "anacron"])
    });
    commands.or_else(|| touched_for_writing(scene, &[], is_run_later))
}

/// Files that something else runs: at login, at start, at a time.
fn is_run_later(path: &str) -> bool {
    const STARTS: &[&str] = &[
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".profile",
        ".zshrc",
        ".zprofile",
        ".zshenv",
        ".zlogin",
        ".xinitrc",
        ".xprofile",
        ".inputrc",
        ".kshrc",
        "config.fish",
    ];
    const DIRECTORIES: &[&str] = &[
        "cron.d",
        "cron.daily",
        "cron.hourly",
        "cron.monthly",
        "cron.weekly",
        "crontab",
        "crontabs",
        "launchagents",
        "launchdaemons",
    ];
    let parts = components(path);
    let has = |pair: &[&str]| parts.windows(pair.len()).any(|window| window == pair);
    parts.last().is_some_and(|last| STARTS.contains(&&**last))
        || parts.iter().any(|part| DIRECTORIES.contains(&&**part))
        || has(&["systemd", "user"])
        || has(&["systemd", "system"])
        || has(&[".config", "autostart"])
        || has(&["etc", "init.d"])
}

fn writes_system(scene: &Scene<'_>) -> Option<String> {
    use crate::guard::place::{Place, place};
    let outside = |path: &str| matches!(place(path), Place::Root | Place::System);
    let by_step = scene.find(|step| {
        // Deleting the root has a rule of its own.
        let root = |path: &str| step.is(&["rm"]) && place(path) == Place::Root;
        written(step).into_iter().any(|to| outside(to.text) && !root(to.text))
    });
    by_step.or_else(|| {
        let writes = !matches!(scene.action.tool, "exec" | "file_read");
        scene.action.paths.iter().find(|path| writes && outside(path)).cloned()
    })
}

fn opens_to_all(step: &Step) -> bool {
    match &*step.program {
        "chmod" => step.operands().next().is_some_and(|mode| {
            let octal = mode.len() >= 3 && mode.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
            let symbolic = |clause: &str| {
                let (who, what) = clause.split_at(clause.find(['+', '=']).unwrap_or(clause.len()));
                who.contains(['o', 'a']) && what.contains('w')
            };
            if octal {
                mode.bytes().last().is_some_and(|digit| digit & 0b010 != 0)
            } else {
                mode.split(',').any(symbolic)
            }
        }),
        "umask" => step.operands().next().is_some_and(|mask| {
            mask.bytes().all(|byte| (b'0'..=b'7').contains(&byte))
                && mask.bytes().last().is_some_and(|digit| digit & 0b010 == 0)
        }),
        _ => false,
    }
}
