//! The recipe for CI in `examples/ci`, with a real repository and real sealed files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_runtime::actions::{Enforcement, RuntimeOptions};
use countersign_testkit::TestHome;
use serde_json::json;

use crate::coverage::{Hooked, git, shadow};
use crate::place::Place;

const RECIPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ci");

/// What an agent would write to look like something else in a comment.
const FORGERY: &str = "`</code></details>\n\n## All is well | verified | @everyone \
    [here](https://example.org) <img src=x> #1\u{202e}";

/// A repository with a pull request of a branch on top of `main`.
struct PullRequest {
    dir: tempfile::TempDir,
    agent: Hooked,
    owner: Place,
}

/// How the script ended, and what it wrote.
struct Comment {
    code: i32,
    text: String,
}

impl PullRequest {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "--quiet", "--initial-branch=main"]);
        git(dir.path(), &["commit", "--quiet", "--allow-empty", "-m", "begin"]);
        git(dir.path(), &["checkout", "--quiet", "-b", "work"]);
        let options = RuntimeOptions { enforcement: Enforcement::Enforced, ..shadow() };
        let agent = Hooked::in_home(TestHome::new(), options);
        agent.call("toolu_1", "Edit", &json!({ "file_path": "src/a.rs", "note": FORGERY }));
        agent.before("toolu_2", "Edit", &json!({ "file_path": ".claude/settings.json" }));
        let owner = Place::owner_of(&agent.home);
        Self { dir, agent, owner }
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn trust(&self) -> String {
        self.agent.home.workspace.root().to_hex()
    }

    /// Seals the recording into a file of the repository.
    fn seal(&self, name: &str) -> PathBuf {
        let file = self.root().join(name);
        let id = self.agent.id().to_string();
        let sealed = self.owner.run(&["seal", &id, "-o", file.to_str().unwrap(), "--force"]);
        assert_eq!(sealed.code, 0, "{sealed}");
        file
    }

    fn commit(&self, message: &str) {
        git(self.root(), &["add", "."]);
        git(self.root(), &["commit", "--quiet", "--allow-empty", "-m", message]);
    }

    fn verify(&self, arguments: &[&str]) -> Comment {
        let mut command = Command::new("sh");
        command.arg(format!("{RECIPE}/verify-pr.sh")).args(["--base", "main"]).args(arguments);
        let ended = prepared(command, self.root()).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(said, "", "{arguments:?}");
        Comment {
            code: ended.status.code().unwrap(),
            text: String::from_utf8(ended.stdout).unwrap(),
        }
    }
}

fn prepared(mut command: Command, root: &Path) -> Command {
    command
        .current_dir(root)
        .env("COUNTERSIGN", env!("CARGO_BIN_EXE_countersign"))
        .env("COUNTERSIGN_CONFIG", root.join("no-settings"))
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    command
}

#[test]
fn a_pull_request_with_a_good_file_is_told_what_the_agent_did() {
    let request = PullRequest::new();
    request.seal("agent run.cap");
    request.commit("work of an agent");
    let comment = request.verify(&["--trust", &request.trust()]);
    assert_eq!(comment.code, 0, "{}", comment.text);
    for words in [
        "<!-- countersign -->\n## What the agent did\n",
        "### <code>agent run&#46;cap</code>: verified",
        "- actions: 2, of which 1 were refused, 0 failed, 0 were never asked about",
        "- approvals by people: none",
        "- coverage: nobody compared this trace with what the agent did",
        "<details><summary>Refused: 1</summary>",
        "<details><summary>Actions: 2</summary>",
    ] {
        assert!(comment.text.contains(words), "{words}\n{}", comment.text);
    }
    // Nobody trusts the root here.
    let comment = request.verify(&[]);
    assert_eq!(comment.code, 4, "{}", comment.text);
    assert!(comment.text.contains("Anybody can have made a file like this."), "{}", comment.text);
}

/// Whatever an agent wrote stays within its code: no markup of it, and no line of it, is markup of the
/// comment.
#[test]
fn what_an_agent_wrote_cannot_forge_the_comment() {
    let request = PullRequest::new();
    request.seal("a`<b>.cap");
    request.commit("work of an agent");
    let comment = request.verify(&["--trust", &request.trust()]);
    assert_eq!(comment.code, 0, "{}", comment.text);
    let mut shown = 0;
    for part in comment.text.split("<code>").skip(1) {
        let code = part.split("</code>").next().unwrap();
        let safe = |c: char| c.is_ascii_alphanumeric() || " &#;".contains(c);
        assert!(code.chars().all(safe), "{code}");
        shown += usize::from(code.contains("All is well"));
    }
    assert!(shown > 0, "{}", comment.text);
    let outside = |words: &str| {
        let mut rest = comment.text.clone();
        while let (Some(start), Some(end)) = (rest.find("<code>"), rest.find("</code>")) {
            rest.replace_range(start..end + "</code>".len(), "");
        }
        rest.contains(words)
    };
    for words in ["All is well", "@everyone", "<img", "example", "`", "\u{202e}", "](", "settings"]
    {
        assert!(!outside(words), "{words}\n{}", comment.text);
    }
    assert_eq!(comment.text.matches("\n## ").count(), 1);
}

#[test]
fn a_file_that_does_not_verify_fails_and_is_not_repeated() {
    let request = PullRequest::new();
    let file = request.seal("run.cap");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    request.commit("a forged file");
    let comment = request.verify(&["--trust", &request.trust()]);
    assert_eq!(comment.code, 3, "{}", comment.text);
    assert!(comment.text.contains("**does not verify**"), "{}", comment.text);
    assert!(!comment.text.contains("actions:"), "{}", comment.text);
}

#[test]
fn coverage_gaps_are_told_and_can_fail_the_request() {
    let request = PullRequest::new();
    let item = json!({ "type": "tool_use", "id": "toolu_9", "name": "Bash", "input": {} });
    let line = json!({ "type": "assistant", "message": { "content": [item] } });
    fs::write(request.owner.path().join("t.jsonl"), format!("{line}\n")).unwrap();
    let id = request.agent.id().to_string();
    assert_eq!(request.owner.run(&["coverage", &id, "--transcript", "t.jsonl"]).code, 3);
    request.seal("run.cap");
    request.commit("work of an agent");
    let trust = request.trust();
    let comment = request.verify(&["--trust", &trust]);
    assert_eq!(comment.code, 0, "{}", comment.text);
    let words = "- coverage: **1 gap**: something bypassed the recorder, compared with: <code>";
    assert!(comment.text.contains(words), "{}", comment.text);
    assert_eq!(request.verify(&["--trust", &trust, "--fail-on-gaps"]).code, 3);
}

#[test]
fn traces_that_commits_name_are_looked_for_and_missed() {
    let request = PullRequest::new();
    let id = request.agent.id().to_string();
    // On the base already: the request only names it.
    git(request.root(), &["checkout", "--quiet", "main"]);
    fs::create_dir(request.root().join("runs")).unwrap();
    request.seal(&format!("runs/{id}.cap"));
    request.commit("the file");
    git(request.root(), &["checkout", "--quiet", "work"]);
    git(request.root(), &["rebase", "--quiet", "main"]);
    assert_eq!(request.verify(&[]).code, 0);
    assert_eq!(request.verify(&["--require"]).code, 3);
    request.commit(&format!("work\n\nCountersign-Trace: {id}"));
    let comment = request.verify(&["--trust", &request.trust()]);
    assert_eq!(comment.code, 0, "{}", comment.text);
    assert!(comment.text.contains(&format!("trace <code>{id}</code>, by ")), "{}", comment.text);
    request.commit("more\n\nCountersign-Trace: 01arz3ndektsv4rrffq69g5fav");
    let comment = request.verify(&["--trust", &request.trust()]);
    assert_eq!(comment.code, 4, "{}", comment.text);
    let words = "names trace <code>01arz3ndektsv4rrffq69g5fav</code>, of which there is no file";
    assert!(comment.text.contains(words), "{}", comment.text);
}

/// A step of the workflow.
#[derive(Default)]
struct Step {
    name: String,
    /// What it runs; nothing if it uses something of others.
    script: String,
    /// Where.
    directory: String,
    /// What it checks out.
    reference: String,
}

fn workflow() -> String {
    fs::read_to_string(format!("{RECIPE}/countersign.yml")).unwrap()
}

/// The steps of the workflow. The file keeps to the plainest YAML: spaces, mappings, lists and literal
/// blocks; anything else fails here.
fn steps() -> Vec<Step> {
    let text = workflow();
    let (mut steps, mut block): (Vec<Step>, Option<usize>) = (Vec::new(), None);
    for line in text.lines() {
        assert!(!line.contains('\t') && line == line.trim_end(), "{line}");
        let indent = line.len() - line.trim_start().len();
        if let Some(inner) = block {
            if indent >= inner {
                let script = &mut steps.last_mut().unwrap().script;
                script.push_str(&line[inner..]);
                script.push('\n');
                continue;
            }
            block = None;
        }
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        assert_eq!(indent % 2, 0, "{line}");
        let entry = line.strip_prefix("- ").unwrap_or(line);
        let (key, value) = entry.split_once(':').unwrap_or_else(|| panic!("no mapping: {line}"));
        assert!(key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{line}");
        assert!(value.is_empty() || value.starts_with(' '), "{line}");
        match (key, value.trim()) {
            ("name", name) if line.starts_with("- ") => {
                steps.push(Step { name: name.to_owned(), ..Step::default() });
            }
            ("run", "|") => block = Some(indent + 2),
            ("working-directory", value) => steps.last_mut().unwrap().directory = value.to_owned(),
            ("ref", value) => steps.last_mut().unwrap().reference = value.to_owned(),
            (_, value) => assert!(!value.contains(": ") && !value.starts_with('&'), "{line}"),
        }
    }
    steps
}

/// What judges a pull request is not its own: the workflow is the base's, countersign is built before
/// the pull request is there, and who may write never sees it.
#[test]
fn nothing_of_a_pull_request_decides_how_it_is_judged() {
    let text = workflow();
    assert!(text.contains("\non:\n  pull_request_target:\n") && !text.contains("pull_request:"));
    let steps = steps();
    let at = |name: &str| steps.iter().position(|step| step.name == name).unwrap();
    let head = |step: &&Step| step.reference.contains("pull_request.head");
    let theirs: Vec<&str> = steps.iter().filter(head).map(|step| &*step.name).collect();
    assert_eq!(theirs, ["Check out the pull request"]);
    assert!(at("Build countersign") < at("Check out the pull request"));
    assert_eq!(steps[at("Build countersign")].directory, "countersign-source");
    assert_eq!(steps[at("Verify")].directory, "pull-request");
    let (verify, comment) = text.split_once("\n  comment:\n").unwrap();
    assert!(!verify.contains("write") && !verify.contains("GH_TOKEN"), "{verify}");
    assert!(!comment.contains("checkout") && !comment.contains("contents:"), "{comment}");
}

/// The steps as the runner would run them, with stand-ins for what is not here: a build and the forge.
#[test]
fn the_steps_of_the_workflow_verify_and_comment() {
    let request = PullRequest::new();
    let root = request.root().to_owned();
    git(&root, &["checkout", "--quiet", "main"]);
    fs::create_dir_all(root.join(".github/countersign")).unwrap();
    fs::copy(format!("{RECIPE}/verify-pr.sh"), root.join(".github/countersign/verify-pr.sh"))
        .unwrap();
    fs::write(root.join(".github/countersign/roots"), format!("{}\n", request.trust())).unwrap();
    request.commit("the recipe");
    git(&root, &["checkout", "--quiet", "work"]);
    git(&root, &["rebase", "--quiet", "main"]);
    request.seal("run.cap");
    // What it is judged by is the base's: this changes nothing.
    fs::write(root.join(".github/countersign/verify-pr.sh"), "exit 0\n").unwrap();
    fs::write(root.join(".github/countersign/roots"), "").unwrap();
    fs::create_dir(root.join(".cargo")).unwrap();
    fs::write(root.join(".cargo/config.toml"), "[build]\nrustc-wrapper = \"./evil\"\n").unwrap();
    request.commit("work");

    let aside = tempfile::tempdir().unwrap();
    let stand_in = |name: &str, script: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let file = aside.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    };
    fs::create_dir(aside.path().join("countersign-source")).unwrap();
    stand_in(
        "cargo",
        "printf '%s in %s\\n' \"$*\" \"$PWD\" >> \"$RUNNER_TEMP/cargo.log\"\n\
         mkdir -p target/release; cp \"$COUNTERSIGN\" target/release/countersign",
    );
    stand_in(
        "gh",
        "case \"$*\" in *--paginate*) ;; *) printf '%s\\n' \"$*\" >> \"$RUNNER_TEMP/gh.log\" ;; esac",
    );
    let mut ran = Vec::new();
    for Step { name, script, directory, .. } in steps() {
        if script.is_empty() {
            continue;
        }
        let directory = match directory.as_str() {
            "countersign-source" => aside.path().join("countersign-source"),
            "pull-request" => root.clone(),
            _ => aside.path().to_owned(),
        };
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script]);
        let mut path = aside.path().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        command
            .env("PATH", path)
            .env("RUNNER_TEMP", aside.path())
            .env("GITHUB_STEP_SUMMARY", aside.path().join("step-summary"))
            .env("BASE", git(&root, &["rev-parse", "main"]))
            .env("HEAD", git(&root, &["rev-parse", "work"]))
            .env("REPOSITORY", "owner/name")
            .env("NUMBER", "7");
        let ended = prepared(command, &directory).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        ran.push((name, ended.status.code(), said));
    }
    let expected = ["Build countersign", "Verify", "Comment"];
    assert_eq!(ran, expected.map(|name| (name.to_owned(), Some(0), String::new())));
    let read = |name: &str| fs::read_to_string(aside.path().join(name)).unwrap();
    assert_eq!(read("step-summary"), read("summary.md"));
    assert!(
        read("summary.md").contains("<code>run&#46;cap</code>: verified"),
        "{}",
        read("summary.md")
    );
    assert!(
        read("gh.log")
            .starts_with("api --method POST repos/owner/name/issues/7/comments -F body=@")
    );
    let source = aside.path().canonicalize().unwrap().join("countersign-source");
    let expected =
        format!("build --locked --release --package countersign in {}\n", source.display());
    assert_eq!(read("cargo.log"), expected);
}
