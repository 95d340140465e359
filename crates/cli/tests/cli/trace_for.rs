//! `countersign trace for`, and the line in a commit's message that names its traces.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use countersign_runtime::actions::{Enforcement, RuntimeOptions};
use countersign_testkit::TestHome;
use serde_json::{Value, json};

use crate::coverage::{Hooked, git, repository, shadow};
use crate::place::Place;

fn edit(file: &str) -> Value {
    json!({ "file_path": file })
}

/// Runs `trace for` in a directory, and gives the code and the traces with how they were found.
fn found(place: &Place, dir: &Path, arguments: &[&str]) -> (i32, Vec<(String, String)>) {
    let mut command = place.command(&[&["trace", "for"], arguments, &["--json"]].concat());
    command.current_dir(dir);
    let screen = crate::binary::run_with(command, b"");
    let answer: Value =
        serde_json::from_slice(&screen.stdout).unwrap_or_else(|_| panic!("{screen}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let traces = answer["traces"].as_array().unwrap().iter();
    let traces = traces.map(|it| (text(&it["found_by"]), text(&it["trace_id"]))).collect();
    (screen.code, traces)
}

fn by(how: &str, id: impl ToString) -> (String, String) {
    (how.to_owned(), id.to_string())
}

#[test]
fn a_file_and_a_directory_have_the_traces_that_name_them_or_something_below() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let one = Hooked::in_home(repository(root), shadow());
    one.call("toolu_1", "Edit", &edit("src/a.rs"));
    let first = one.id();
    let two = Hooked::in_home(one.home, shadow());
    two.call("toolu_2", "Edit", &edit("src/a.rs.bak"));
    two.call("toolu_3", "Edit", &edit("docs/x.md"));
    let second = two.id();
    let place = Place::owner_of(&two.home);
    let both = vec![by("action", first), by("action", second)];
    let table = [
        (vec!["src/a.rs"], (0, vec![by("action", first)])),
        (vec!["src"], (0, both)),
        (vec!["./src/../src/a.rs"], (0, vec![by("action", first)])),
        // It was never there, or is gone.
        (vec!["docs/x.md", "--file"], (0, vec![by("action", second)])),
        (vec!["src/b.rs"], (3, vec![])),
    ];
    for (arguments, expected) in table {
        assert_eq!(found(&place, root, &arguments), expected, "{arguments:?}");
    }
    // From where one stands.
    let src = root.join("src");
    assert_eq!(found(&place, &src, &["a.rs"]), (0, vec![by("action", first)]));
}

#[test]
fn a_file_is_shown_with_what_became_of_each_action() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let options = RuntimeOptions { enforcement: Enforcement::Enforced, ..shadow() };
    let agent = Hooked::in_home(repository(root), options);
    agent.call("toolu_1", "Edit", &edit("src/a.rs"));
    agent.before("toolu_2", "Edit", &edit(".claude/settings.json"));
    let id = agent.id().to_string();
    let place = Place::owner_of(&agent.home);
    let mut command = place.command(&["trace", "for", "src/a.rs"]);
    command.current_dir(root);
    let screen = crate::binary::run_with(command, b"");
    assert_eq!(screen.code, 0, "{screen}");
    let lines: Vec<&str> = screen.stdout().lines().collect();
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(words[..5], [&*id, "action", "recording", "1", "0"], "{screen}");
    assert_eq!(lines[2..], ["    {\"file_path\":\"src/a.rs\"} (done)"], "{screen}");
    let mut command = place.command(&["trace", "for", "--file", ".claude/settings.json"]);
    command.current_dir(root);
    let screen = crate::binary::run_with(command, b"");
    assert!(screen.stdout().ends_with("settings.json\"} (refused)\n"), "{screen}");
}

/// A commit names its traces; one that it does not name, but that wrote its files between its parent
/// and it, is a guess.
#[test]
fn a_commit_has_the_traces_that_it_names_and_those_that_may_have_written_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let one = Hooked::in_home(repository(root), shadow());
    let place = Place::owner_of(&one.home);
    one.call("toolu_1", "Edit", &edit("src/a.rs"));
    let first = one.id();
    let commit = |file: &str, message: &str, time: &str| {
        fs::write(root.join(file), message).unwrap();
        let mut command = Command::new("git");
        command.current_dir(root).env("GIT_COMMITTER_DATE", time).env("GIT_AUTHOR_DATE", time);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.args([
            "-c",
            "user.name=n",
            "-c",
            "user.email=n@example.org",
            "commit",
            "-q",
            "-a",
            "-m",
        ]);
        assert!(command.arg(message).status().unwrap().success());
        git(root, &["rev-parse", "HEAD"])
    };
    // The traces' clock stands at 04:05 of this day.
    let early = commit("src/b.rs", "before", "2026-02-03T04:00:00Z");
    let guessed = commit("src/a.rs", "no word of a trace", "2026-02-03T04:30:00Z");
    let elsewhere = "01arz3ndektsv4rrffq69g5fav";
    let message = format!("named\n\nCountersign-Trace: {first}\nCountersign-Trace: {elsewhere}\n");
    let named = commit("src/c.rs", &message, "2026-02-03T04:31:00Z");
    let late = commit("src/a.rs", "the same file, later", "2026-02-03T05:00:00Z");
    assert_eq!(found(&place, root, &[&early]), (3, vec![]));
    assert_eq!(found(&place, root, &[&guessed[..10]]), (0, vec![by("guess", first)]));
    let both = vec![by("trailer", elsewhere), by("trailer", first)];
    assert_eq!(found(&place, root, &[&named, "--commit"]), (0, both));
    assert_eq!(found(&place, root, &[&late]), (3, vec![]));
    let mut command = place.command(&["trace", "for", "no-such-thing"]);
    command.current_dir(root);
    let screen = crate::binary::run_with(command, b"");
    assert_eq!(screen.code, 1, "{screen}");
    assert!(screen.stderr.contains("`no-such-thing` is no file here, and no commit"), "{screen}");
}

#[test]
fn a_damaged_trace_is_named_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let one = Hooked::in_home(repository(root), shadow());
    one.call("toolu_1", "Edit", &edit("src/a.rs"));
    let broken = one.id();
    let two = Hooked::in_home(one.home, shadow());
    two.call("toolu_2", "Edit", &edit("src/a.rs"));
    let place = Place::owner_of(&two.home);
    let file = two.home.workspace.trace_file(broken);
    let text = fs::read_to_string(&file).unwrap().replacen("\"seq\":2", "\"seq\":\"2", 1);
    fs::write(&file, text).unwrap();
    let mut command = place.command(&["trace", "for", "src/a.rs"]);
    command.current_dir(root);
    let screen = crate::binary::run_with(command, b"");
    assert_eq!(screen.code, 0, "{screen}");
    assert!(screen.stderr.contains(&format!("trace {broken} cannot be read")), "{screen}");
    assert!(screen.stdout().contains(&two.id().to_string()), "{screen}");
}

/// A repository with the hook in it, and a commit that is made with it.
fn commit(root: &Path, message: &str) -> String {
    git(root, &["commit", "--quiet", "-m", message]);
    git(root, &["log", "-1", "--format=%B"])
}

fn hooked(root: &Path) -> (Hooked, Place) {
    let agent = Hooked::in_home(repository(root), shadow());
    let place = Place::owner_of(&agent.home);
    let made = place.run(&["init", "--git"]);
    assert_eq!(made.code, 0, "{made}");
    (agent, place)
}

#[test]
fn a_commit_names_the_traces_that_changed_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let (agent, place) = hooked(root);
    agent.call("toolu_1", "Edit", &edit("src/a.rs"));
    let id = agent.id();
    fs::write(root.join("src/a.rs"), "by the agent\n").unwrap();
    fs::write(root.join("src/b.rs"), "by a person\n").unwrap();
    git(root, &["add", "src/b.rs"]);
    assert_eq!(commit(root, "a person's"), "a person's");
    git(root, &["add", "src/a.rs"]);
    assert_eq!(commit(root, "an agent's"), format!("an agent's\n\nCountersign-Trace: {id}"));
    assert_eq!(found(&place, root, &["HEAD"]), (0, vec![by("trailer", id)]));
    // Made anew, it names the trace once.
    git(root, &["commit", "--quiet", "--amend", "-m", "an agent's again"]);
    let message = git(root, &["log", "-1", "--format=%B"]);
    assert_eq!(message.matches("Countersign-Trace").count(), 1, "{message}");
    // With `git commit FILE` another index counts.
    fs::write(root.join("src/a.rs"), "once more\n").unwrap();
    git(root, &["commit", "--quiet", "-m", "one file", "src/a.rs"]);
    assert!(git(root, &["log", "-1", "--format=%B"]).contains(&id.to_string()));
    // The hook does not depend on the workspace being there.
    fs::rename(root.join(".countersign"), root.join("elsewhere")).unwrap();
    fs::write(root.join("src/a.rs"), "and again\n").unwrap();
    git(root, &["add", "src/a.rs"]);
    assert_eq!(commit(root, "made all the same"), "made all the same");
}

#[test]
fn the_hook_comes_and_goes_and_replaces_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let (_agent, place) = hooked(root);
    let hook = root.join(".git/hooks/commit-msg");
    assert_eq!(fs::metadata(&hook).unwrap().permissions().mode() & 0o111, 0o111);
    let again = place.run(&["init", "--git"]);
    assert!(again.stderr.contains("nothing to change"), "{again}");
    assert_eq!(place.run(&["init", "--git", "--undo"]).code, 0);
    assert!(!hook.exists());
    fs::write(&hook, "#!/bin/sh\necho mine\n").unwrap();
    let refused = place.run(&["init", "--git"]);
    assert_eq!(refused.code, 1, "{refused}");
    assert!(
        refused.stderr.contains("hint: add this line to it, before any `exit`: h='"),
        "{refused}"
    );
    assert_eq!(place.run(&["init", "--git", "--undo"]).code, 0);
    assert_eq!(fs::read_to_string(&hook).unwrap(), "#!/bin/sh\necho mine\n");
    // Elsewhere, where the repository says so; not where all repositories look.
    fs::remove_file(&hook).unwrap();
    git(root, &["config", "core.hooksPath", ".githooks"]);
    assert_eq!(place.run(&["init", "--git"]).code, 0);
    assert!(root.join(".githooks/commit-msg").exists() && !hook.exists());
    let shared = tempfile::tempdir().unwrap();
    git(root, &["config", "core.hooksPath", shared.path().to_str().unwrap()]);
    let refused = place.run(&["init", "--git"]);
    assert_eq!(refused.code, 1, "{refused}");
    assert!(refused.stderr.contains("where other repositories may too"), "{refused}");
}

#[test]
fn a_hook_of_ours_that_came_before_the_message_goes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let (_agent, place) = hooked(root);
    let hook = root.join(".git/hooks/commit-msg");
    let old = root.join(".git/hooks/prepare-commit-msg");
    for arguments in [&["init", "--git"][..], &["init", "--git", "--undo"]] {
        fs::copy(&hook, &old).unwrap();
        assert_eq!(place.run(arguments).code, 0);
        assert!(!old.exists(), "{arguments:?}");
    }
    fs::write(&old, "#!/bin/sh\necho mine\n").unwrap();
    assert_eq!(place.run(&["init", "--git"]).code, 0);
    assert!(old.exists() && hook.exists());
}

/// Commits with an editor that leaves this message behind, and says whether there is a new commit.
fn edited(root: &Path, options: &[&str], message: &str) -> bool {
    let editor = root.join(".git/editor");
    fs::write(&editor, format!("#!/bin/sh\nprintf '{message}' > \"$1\"\n")).unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let before = git(root, &["rev-parse", "HEAD"]);
    let mut command = Command::new("git");
    command.current_dir(root).args(["-c", "user.name=n", "-c", "user.email=n@example.org"]);
    command.arg("commit").args(options);
    command.env("GIT_EDITOR", &editor).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let ended = command.output().unwrap();
    let made = git(root, &["rev-parse", "HEAD"]) != before;
    assert_eq!(ended.status.success(), made, "{}", String::from_utf8_lossy(&ended.stderr));
    made
}

/// A message with nothing but our line in it would be committed although nobody wrote one.
#[test]
fn a_commit_that_was_given_up_stays_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let (agent, _place) = hooked(root);
    agent.call("toolu_1", "Edit", &edit("src/a.rs"));
    fs::write(root.join("src/a.rs"), "by the agent\n").unwrap();
    git(root, &["add", "src/a.rs"]);
    let scissors = "# ------------------------ >8 ------------------------\\ndiff --git a b\\n";
    for (options, message) in [
        (&[][..], ""),
        (&[], "\\n \\n"),
        (&[], "# only a comment\\n#another\\n"),
        (&["--signoff"], "\\nSigned-off-by: n <n@example.org>\\n"),
        (&["--verbose"], scissors),
    ] {
        assert!(!edited(root, options, message), "{message}");
    }
    fs::write(root.join(".git/template"), "What: \n# and why\n").unwrap();
    git(root, &["config", "commit.template", root.join(".git/template").to_str().unwrap()]);
    assert!(!edited(root, &[], "What: \\n# and why\\n"));
    git(root, &["config", "--unset", "commit.template"]);
    // With another sign for comments, these are none.
    git(root, &["config", "core.commentChar", ";"]);
    assert!(!edited(root, &[], "; only a comment\\n"));
    git(root, &["config", "--unset", "core.commentChar"]);
    // Something was said.
    let said = format!("say it\\n\\n---\\nand more\\n# a comment\\n{scissors}");
    assert!(edited(root, &["--verbose"], &said));
    let message = git(root, &["log", "-1", "--format=%B"]);
    let id = agent.id();
    assert_eq!(message, format!("say it\n\n---\nand more\n\nCountersign-Trace: {id}"));
}

#[test]
fn a_commit_in_another_worktree_names_the_traces_of_its_own_files() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("main");
    fs::create_dir(&root).unwrap();
    let (agent, place) = hooked(&root);
    let other = dir.path().join("other");
    git(&root, &["worktree", "add", "--quiet", other.to_str().unwrap()]);
    agent.call("toolu_1", "Edit", &edit("src/a.rs"));
    agent.call("toolu_2", "Edit", &edit(other.join("src/b.rs").to_str().unwrap()));
    let id = agent.id();
    let again = place.run(&["init", "--git"]);
    assert!(again.stderr.contains("nothing to change"), "{again}");
    for (file, named) in [("src/a.rs", false), ("src/b.rs", true)] {
        fs::write(other.join(file), "changed there\n").unwrap();
        git(&other, &["add", file]);
        let message = commit(&other, file);
        assert_eq!(message.contains(&id.to_string()), named, "{message}");
    }
    fs::write(root.join("src/a.rs"), "changed here\n").unwrap();
    git(&root, &["add", "src/a.rs"]);
    assert!(commit(&root, "here").contains(&id.to_string()));
    // A workspace of the other worktree counts there.
    let home = TestHome::at(&other.join(".countersign"));
    let own = Hooked::in_home(home, shadow());
    own.call("toolu_3", "Edit", &edit("src/c.rs"));
    let place = Place::owner_of(&own.home);
    assert_eq!(place.run(&["init", "--git"]).code, 0);
    assert!(root.join(".git/hooks/commit-msg").exists());
    fs::write(other.join("src/c.rs"), "changed there\n").unwrap();
    git(&other, &["add", "src/c.rs"]);
    assert!(commit(&other, "there").contains(&own.id().to_string()));
    fs::write(root.join("src/a.rs"), "changed here again\n").unwrap();
    git(&root, &["add", "src/a.rs"]);
    assert!(commit(&root, "here").contains(&id.to_string()));
}

#[test]
fn hooks_of_a_repository_are_put_where_git_runs_them_whatever_directory_the_workspace_is_of() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    drop(repository(root));
    let inner = root.join("src");
    let agent = Hooked::in_home(TestHome::at(&inner.join(".countersign")), shadow());
    let place = Place::owner_of(&agent.home);
    git(root, &["config", "core.hooksPath", ".githooks"]);
    assert_eq!(place.run(&["init", "--git"]).code, 0);
    assert!(root.join(".githooks/commit-msg").exists());
    agent.call("toolu_1", "Edit", &edit("a.rs"));
    fs::write(root.join("src/a.rs"), "by the agent\n").unwrap();
    git(root, &["add", "src/a.rs"]);
    assert!(commit(root, "inner").contains(&agent.id().to_string()));
}

#[test]
fn without_a_repository_there_is_no_hook() {
    let dir = tempfile::tempdir().unwrap();
    let home = TestHome::at(&dir.path().join(".countersign"));
    let refused = Place::owner_of(&home).run(&["init", "--git"]);
    assert_eq!(refused.code, 1, "{refused}");
    assert!(refused.stderr.contains("lies in no git repository"), "{refused}");
}
