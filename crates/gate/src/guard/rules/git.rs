//! What `git` can lose, and what it can be made to run.

use countersign_format::risk::RiskClass;

use crate::Decision;
use crate::guard::rule::Example::Run;
use crate::guard::rule::{Matcher, Rule};
use crate::guard::scene::Step;
use crate::guard::word::Word;

pub(super) static RULES: &[Rule] = &[
    Rule {
        id: "git-rewrite",
        because: "rewrites or deletes history, here or for everybody",
        decision: Decision::Deny,
        risk: RiskClass::Critical,
        matches: Matcher::Step(rewrites),
        must: &[
            Run("git push --force"),
            Run("git push -f origin main"),
            Run("git push origin +main"),
            Run("git push --force-with-lease"),
            Run("git push origin --delete main"),
            Run("git push origin :main"),
            Run("git push --mirror"),
            Run("git filter-branch --all"),
            Run("git -C sub filter-repo --path x"),
            Run("git reflog expire --expire=now --all"),
            Run("git update-ref -d HEAD"),
        ],
        must_not: &[
            Run("git push origin main"),
            Run("git reflog"),
            Run("git commit -m 'push --force'"),
            Run("git fetch -f"),
        ],
    },
    Rule {
        id: "git-discard",
        because: "throws away work that no commit holds",
        decision: Decision::Ask,
        risk: RiskClass::Elevated,
        matches: Matcher::Step(discards),
        must: &[
            Run("git reset --hard HEAD~1"),
            Run("git clean -fdx"),
            Run("git clean -d --force"),
            Run("git branch -D topic"),
            Run("git branch --delete --force topic"),
            Run("git checkout -- ."),
            Run("git checkout -f main"),
            Run("git restore ."),
            Run("git restore --staged --worktree ."),
            Run("git rm -rf ."),
            Run("git stash drop"),
            Run("git -c user.name=x worktree remove --force w"),
        ],
        must_not: &[
            Run("git reset HEAD file"),
            Run("git clean -n"),
            Run("git branch -d topic"),
            Run("git checkout main"),
            Run("git restore --staged ."),
            Run("git stash"),
        ],
    },
    Rule {
        id: "git-programs",
        because: "makes git run a program later",
        decision: Decision::Ask,
        risk: RiskClass::Elevated,
        matches: Matcher::Step(sets_program),
        must: &[
            Run("git config core.hooksPath ./hooks"),
            Run("git config --global alias.st '!rm x'"),
            Run("git -c core.sshCommand=./x fetch"),
            Run("git config core.fsmonitor ./x"),
        ],
        must_not: &[
            Run("git config user.name Ana"),
            Run("git -c color.ui=never log"),
            Run("git config --get core.hooksPath"),
        ],
    },
    Rule {
        id: "git-elsewhere",
        because: "sends commits to another repository, or decides where they go",
        decision: Decision::Ask,
        risk: RiskClass::Elevated,
        matches: Matcher::Step(sends),
        must: &[
            Run("git push"),
            Run("git push origin main"),
            Run("git -C sub push https://example.org/x.git HEAD"),
            Run("git remote add evil https://example.org/x.git"),
            Run("git remote set-url origin https://example.org/x.git"),
            Run("git config remote.origin.url https://example.org/x.git"),
            Run("git send-email 0001.patch"),
            Run("git send-pack ../x"),
        ],
        must_not: &[
            Run("git status"),
            Run("git fetch"),
            Run("git remote -v"),
            Run("git commit -m 'push it'"),
            Run("git stash push"),
            Run("git config --get remote.origin.url"),
        ],
    },
    Rule {
        id: "git-files",
        because: "makes git write files that nobody names, or run a program",
        decision: Decision::Ask,
        risk: RiskClass::Elevated,
        matches: Matcher::Step(writes_or_runs),
        must: &[
            Run("git diff --output=.git/hooks/pre-commit"),
            Run("git log --output .bashrc"),
            Run("git apply x.patch"),
            Run("git am < x.mbox"),
            Run("git archive -o x.tar HEAD"),
            Run("git bisect run ./x.sh"),
            Run("git rebase --exec ./x.sh main"),
            Run("git rebase -x ./x.sh main"),
            Run("git submodule foreach ./x.sh"),
            Run("git grep -O./x.sh needle"),
            Run("git fetch --upload-pack=./x.sh ../y"),
            Run("git difftool -x ./x.sh"),
        ],
        must_not: &[
            Run("git diff --stat main..topic"),
            Run("git log --oneline -5"),
            Run("git add -A"),
            Run("git commit -am 'apply it'"),
            Run("git rebase main"),
            Run("git show HEAD"),
            Run("git grep -n needle"),
            Run("git apply --check x.patch"),
            Run("git bisect good"),
        ],
    },
];

fn any(args: &[Word], test: impl Fn(&str) -> bool) -> bool {
    args.iter().any(|word| test(&word.text))
}

/// Whether an option stands among `args`: a letter in a cluster, or a long one.
fn option(args: &[Word], letter: char, long: &str) -> bool {
    any(args, |word| {
        let cluster = word.starts_with('-') && !word.starts_with("--") && word.contains(letter);
        cluster || word.split('=').next() == Some(long)
    })
}

fn rewrites(step: &Step) -> bool {
    let Some((subcommand, args)) = step.git() else { return false };
    match subcommand {
        "push" => {
            option(args, 'f', "--force")
                || option(args, 'd', "--delete")
                || any(args, |word| {
                    word.starts_with("--force-")
                        || matches!(word, "--mirror" | "--prune")
                        || word.len() > 1 && word.starts_with(['+', ':'])
                })
        }
        "filter-branch" | "filter-repo" => true,
        "reflog" => any(args, |word| matches!(word, "expire" | "delete")),
        "update-ref" => any(args, |word| matches!(word, "-d" | "--stdin")),
        "gc" => any(args, |word| word.starts_with("--prune=")),
        "prune" => true,
        _ => false,
    }
}

fn discards(step: &Step) -> bool {
    let Some((subcommand, args)) = step.git() else { return false };
    let everything = |word: &str| matches!(word, "." | "./" | ":/" | "*");
    match subcommand {
        "reset" => any(args, |word| matches!(word, "--hard" | "--merge")),
        "clean" => option(args, 'f', "--force"),
        "branch" => {
            option(args, 'D', "-D")
                || any(args, |word| word == "--delete") && option(args, 'f', "--force")
        }
        "checkout" | "switch" => {
            option(args, 'f', "--force")
                || any(args, |word| everything(word) || word == "--discard-changes")
        }
        "restore" => {
            let staged = any(args, |word| matches!(word, "--staged" | "-S"));
            let worktree = any(args, |word| matches!(word, "--worktree" | "-W"));
            (!staged || worktree) && any(args, everything)
        }
        "rm" => option(args, 'f', "--force") && any(args, everything),
        "stash" => any(args, |word| matches!(word, "drop" | "clear")),
        "worktree" => any(args, |word| word == "remove") && option(args, 'f', "--force"),
        _ => false,
    }
}

fn sends(step: &Step) -> bool {
    let Some((subcommand, args)) = step.git() else { return false };
    match subcommand {
        "push" | "send-email" | "send-pack" | "http-push" | "imap-send" => true,
        "remote" => any(args, |word| matches!(word, "add" | "set-url" | "rename")),
        "config" => {
            let key = |word: &str| {
                let key = word.to_lowercase();
                ["remote.", "url.", "branch."].iter().any(|start| key.starts_with(start))
            };
            !reads_settings(args) && any(args, key)
        }
        _ => false,
    }
}

fn writes_or_runs(step: &Step) -> bool {
    let Some((subcommand, args)) = step.git() else { return false };
    // Git takes the beginning of a long option for the whole.
    let long = |start: &str| any(args, |word| word.starts_with(start));
    let told = |word: &str| any(args, |arg| arg == word);
    if long("--outp") || long("--upload-pack") || long("--receive-pack") || long("--ext-diff") {
        return true;
    }
    match subcommand {
        "apply" => !["--check", "--stat", "--numstat", "--summary"].iter().any(|it| told(it)),
        "am" | "mergetool" | "fast-import" | "daemon" | "instaweb" => true,
        "archive" | "bundle" => subcommand == "bundle" && told("create") || option(args, 'o', "-o"),
        "bisect" => told("run"),
        "difftool" => true,
        "rebase" => long("--exec") || told("-x"),
        "submodule" => told("foreach"),
        "grep" => option(args, 'O', "--open-files-in-pager"),
        _ => false,
    }
}

/// Whether `git config` only shows.
fn reads_settings(args: &[Word]) -> bool {
    any(args, |word| word.starts_with("--get") || matches!(word, "-l" | "--list" | "get" | "list"))
}

fn sets_program(step: &Step) -> bool {
    const KEYS: &[&str] = &[
        "core.hookspath",
        "core.fsmonitor",
        "core.sshcommand",
        "core.editor",
        "core.pager",
        "core.gitproxy",
        "core.askpass",
        "credential.helper",
        "gpg.program",
        "diff.external",
        "sequence.editor",
    ];
    let runs = |key: &str| {
        let key = key.to_lowercase();
        KEYS.contains(&&*key)
            || key.starts_with("alias.")
            || key.starts_with("filter.")
            || key.starts_with("include")
    };
    let Some((subcommand, args)) = step.git() else { return false };
    let reads = reads_settings(args);
    let given = step.args.windows(2).any(|pair| match pair {
        [option, value] if option.text == "-c" => {
            value.text.split_once('=').is_some_and(|(key, _)| runs(key))
        }
        _ => false,
    });
    given || subcommand == "config" && !reads && any(args, runs)
}
