//! What the tests need on the machine, and how it gets there.
//!
//! Debian's packages are installed where we are root. The Python on `PATH` may be one that cannot
//! see them, so an interpreter counts only once it has imported what the tests import; and a Node
//! counts only once it has said that it is new enough.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::clients;
use super::pinned::{API_FUZZER, MCP_CLIENT, environment};
use crate::place::{cargo, succeed, target};

/// What goes into the virtual environment if no installed Python will do.
const CRYPTOGRAPHY: &str = "cryptography==48.0.0";
/// An interpreter counts if it can run this; it then says where it really is, since a name on
/// `PATH` means nothing to a test that sets its own environment.
const PROBE: &str = "import sys; print(sys.executable); \
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey";

/// Node has what the second verifier is written on from here on.
const NODE_MAJOR_MIN: u32 = 20;
/// By which names browsers that are driven like Chromium go.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A program that tests run, and how to see that it is there.
struct Tool {
    probe: &'static [&'static str],
    package: &'static str,
}

/// Tools that exist on Linux only are asked for on Linux only.
const TOOLS: &[Tool] = if cfg!(target_os = "linux") {
    &[
        Tool { probe: &["strace", "--version"], package: "strace" },
        Tool { probe: &["script", "--version"], package: "bsdutils" },
    ]
} else {
    &[]
};

/// Installs what is missing, or says which command would.
pub(super) fn install() -> Result<(), String> {
    for component in ["fmt", "clippy"] {
        if !answers(&mut cargo(&[component, "--version"])) {
            let name = if component == "fmt" { "rustfmt" } else { component };
            succeed(Command::new("rustup").args(["component", "add", name]))?;
        }
    }
    let mut packages: Vec<&str> =
        TOOLS.iter().filter(|tool| !tool.is_there()).map(|tool| tool.package).collect();
    if python().is_none() && (is_root() || base_python().is_none()) {
        packages.extend(["python3", "python3-cryptography"]);
    }
    if node().is_none() {
        packages.push("nodejs");
    }
    if browser().is_none() {
        packages.push("chromium");
    }
    let pinned = [MCP_CLIENT, API_FUZZER];
    if pinned.iter().any(|it| it.python().is_none()) && base_python().is_none() {
        packages.push("python3-venv");
    }
    if clients::node_modules().is_none() && !answers(Command::new("npm").arg("--version")) {
        packages.push("npm");
    }
    if !packages.is_empty() {
        install_packages(&packages)?;
    }
    let node = node().ok_or_else(|| {
        format!(
            "no Node {NODE_MAJOR_MIN} or newer, not even with the package `nodejs` installed\n\
             hint: install one from nodejs.org and put it first on `PATH`"
        )
    })?;
    eprintln!("    node: {}", node.display());
    if python().is_none() {
        make_environment()?;
    }
    let python = python().ok_or_else(|| {
        format!("no Python here imports `cryptography`, not even with {CRYPTOGRAPHY} installed")
    })?;
    eprintln!("    python: {}", python.display());
    clients::install(base_python())?;
    API_FUZZER.install(base_python())
}

/// The first interpreter that has what the tests need.
pub(super) fn python() -> Option<PathBuf> {
    let candidates = [PathBuf::from("python3"), "/usr/bin/python3".into(), environment_python()];
    candidates.iter().find_map(|candidate| {
        let output = Command::new(candidate).args(["-c", PROBE]).output().ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| PathBuf::from(path.trim_end()))
    })
}

/// The first Node that is new enough.
pub(super) fn node() -> Option<PathBuf> {
    ["node", "/usr/bin/node"].map(PathBuf::from).into_iter().find(|node| {
        let output = Command::new(node).arg("--version").output();
        output.is_ok_and(|output| node_major(&output.stdout) >= Some(NODE_MAJOR_MIN))
    })
}

/// The first number of what Node says of its version.
fn node_major(said: &[u8]) -> Option<u32> {
    let said = std::str::from_utf8(said).ok()?;
    said.strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// A browser that can be driven without a window.
pub(super) fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|browser| answers(Command::new(browser).arg("--version")))
}

impl Tool {
    fn is_there(&self) -> bool {
        match self.probe {
            [program, arguments @ ..] => answers(Command::new(program).args(arguments)),
            [] => false,
        }
    }
}

/// The directory of the virtual environment.
fn environment_place() -> PathBuf {
    target().join("test-env")
}

fn environment_python() -> PathBuf {
    environment_place().join("bin/python3")
}

/// An interpreter from which a virtual environment can be made.
pub(crate) fn base_python() -> Option<&'static Path> {
    let candidates = ["python3", "/usr/bin/python3"].map(Path::new);
    let able =
        |python: &&Path| answers(Command::new(python).args(["-c", "import ensurepip, venv"]));
    candidates.into_iter().find(able)
}

fn make_environment() -> Result<(), String> {
    let base = base_python().ok_or("no Python with `venv` to install `cryptography` into")?;
    environment(base, &environment_place(), &[CRYPTOGRAPHY])
}

fn install_packages(packages: &[&str]) -> Result<(), String> {
    let list = packages.join(" ");
    if !answers(Command::new("apt-get").arg("--version")) {
        return Err(format!("missing, by the names of Debian's packages: {list}"));
    }
    if !is_root() {
        return Err(format!(
            "missing packages\nhint: run `sudo apt-get update && sudo apt-get install -y {list}`"
        ));
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        // Its talk must not mix with what stdout is for.
        succeed(command.stdout(Stdio::null()))
    };
    apt(&["update"])?;
    apt(&[&["install", "-y"], packages].concat())
}

/// Whether `command` runs and succeeds, whatever it prints.
fn answers(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_exist_is_not_there() {
        let tool = Tool { probe: &["no-such-program-anywhere"], package: "none" };
        assert!(!tool.is_there());
    }

    #[test]
    fn the_version_of_node_is_its_first_number() {
        assert_eq!(node_major(b"v20.20.2\n"), Some(20));
        assert_eq!(node_major(b"20.20.2"), None);
        assert_eq!(node_major(b""), None);
    }

    #[test]
    fn an_answer_is_a_successful_exit() {
        assert!(answers(Command::new("/bin/sh").args(["-c", "echo loud; exit 0"])));
        assert!(!answers(Command::new("/bin/sh").args(["-c", "exit 1"])));
    }
}
