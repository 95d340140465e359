//! Changing whatever a search finds.

use countersign_format::risk::RiskClass;

use crate::Decision;
use crate::guard::pattern;
use crate::guard::place::{Place, place};
use crate::guard::rule::Example::Run;
use crate::guard::rule::{Matcher, Rule};
use crate::guard::scene::{Step, base_name};
use crate::guard::word::Word;
use crate::guard::wrapper::{Inner, inner};
use crate::guard::written::Target;

use super::files::{AGENT_FILES, is_agent_file};

pub(super) static RULES: &[Rule] = &[Rule {
    id: "agent-files-found",
    because: "changes whatever it finds, also what decides what agents may do, or what is recorded \
              of them; let it start in a directory of its own, such as src",
    decision: Decision::Deny,
    risk: RiskClass::Critical,
    matches: Matcher::Step(|step| match &*step.program {
        "find" => acts(step) && starts(step) && finds(&step.args),
        "fd" | "fdfind" => {
            let hidden = step.flag("Hu", &["hidden", "unrestricted", "no-ignore"]);
            hidden && acts(step) && step.operands().next().is_none_or(may_name)
        }
        _ => false,
    }),
    must: &[
        Run("find . -name settings.json -delete"),
        Run("find . -name 'sett*' -exec truncate -s 0 {} +"),
        Run("find . -type f -exec sed -i s/a/b/ {} +"),
        Run("find -path '*claude*' -delete"),
        Run("find .cl* -delete"),
        Run("find . -name '*.rs' -o -type f -delete"),
        Run("find . -not -path './.git/*' -exec touch {} +"),
        Run("find .. -iname SETTINGS.json -exec sh -c 'rm $1' _ {} ;"),
        Run("fd -H settings -x rm"),
    ],
    must_not: &[
        Run("find . -name '*.tmp' -delete"),
        Run("find . -type f \\( -name '*.o' -o -name '*.d' \\) -delete"),
        Run("find src -type f -exec sed -i s/a/b/ {} +"),
        Run("find . -name settings.json"),
        Run("find . -type f -exec grep -l x {} +"),
        Run("find . -name '*.rs' -exec rustfmt {} +"),
        Run("find . -path './src/*' -exec touch {} +"),
        Run("fd settings -x rm"),
        Run("fd -H settings"),
    ],
}];

/// Files that lie in the directories of agents and of the recorder.
const KNOWN: &[&str] = &[
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".cursor/mcp.json",
    ".cursor/hooks.json",
    ".gemini/settings.json",
    ".mcp.json",
    ".countersign/gate/policy.cedar",
    ".countersign/gate/model.json",
    ".countersign/log/events.jsonl",
    ".countersign/log/checkpoint",
    ".countersign/traces/x/events.jsonl",
    ".countersign/traces/x/trace.json",
    ".countersign/traces/x/snapshot",
];

/// Programs that only read the files that they are given.
const READERS: &[&str] = &[
    "[",
    "awk",
    "basename",
    "cat",
    "cksum",
    "cmp",
    "cut",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "fgrep",
    "file",
    "grep",
    "head",
    "hexdump",
    "jq",
    "ls",
    "md5sum",
    "nl",
    "od",
    "printf",
    "readlink",
    "realpath",
    "rg",
    "sha1sum",
    "sha256sum",
    "stat",
    "tail",
    "test",
    "true",
    "wc",
    "xxd",
];

/// Whether it does more with what it finds than to read it.
fn acts(step: &Step) -> bool {
    let deletes =
        ["-delete", "-fprint", "-fprint0", "-fprintf", "-fls"].iter().any(|it| step.has(it));
    let reads = |words: &[Word]| {
        let program = words.first().map_or("", |word| base_name(&word.text));
        let in_place =
            |word: &Word| word.text.starts_with("-i") || word.text.starts_with("--in-pl");
        READERS.contains(&program) || program == "sed" && !words.iter().any(in_place)
    };
    let runs = inner(step, |_| None);
    deletes || runs.iter().any(|run| !matches!(run, Inner::Words { words, .. } if reads(words)))
}

/// Whether it starts where such files may be below it.
fn starts(step: &Step) -> bool {
    let test = |word: &&Word| !word.text.starts_with(['-', '(', '!']);
    let mut starts = step.args.iter().take_while(test).peekable();
    starts.peek().is_none()
        || starts.any(|word| {
            let to = Target::of(word);
            place(to.text) != Place::Inside || to.is_open() || to.may_be(AGENT_FILES, is_agent_file)
        })
}

/// Whether what a search looks for may be one of these files. Every part that an `-o` stands between
/// has to say a name.
fn finds(args: &[Word]) -> bool {
    args.split(|word| matches!(&*word.text, "-o" | "-or" | ",")).any(|part| {
        let tests = part.iter().enumerate().filter_map(|(at, word)| {
            let negated = at.checked_sub(1).and_then(|before| part.get(before));
            let negated = negated.is_some_and(|it| matches!(&*it.text, "!" | "-not"));
            let wanted = part.get(at + 1).filter(|_| !negated)?;
            let of_path = matches!(&*word.text, "-path" | "-ipath" | "-wholename" | "-iwholename");
            let of_name = matches!(&*word.text, "-name" | "-iname");
            (of_path || of_name).then_some((of_path, wanted))
        });
        let mut tests = tests.peekable();
        tests.peek().is_none()
            || tests.all(|(of_path, wanted)| KNOWN.iter().any(|file| fits(wanted, of_path, file)))
    })
}

/// Whether the pattern of a test matches a file, or a directory that it lies in.
fn fits(wanted: &Word, of_path: bool, file: &str) -> bool {
    if !wanted.known {
        return true;
    }
    let pattern = &*wanted.text;
    if of_path {
        let from_start = pattern.strip_prefix("./").unwrap_or(pattern);
        return !pattern::matched(from_start, &[file]).is_empty();
    }
    file.split('/').any(|name| !pattern::matched(pattern, &[name]).is_empty())
}

/// Whether an expression of `fd` may name one of these files.
fn may_name(expression: &str) -> bool {
    let plain = expression.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    !plain || KNOWN.iter().any(|file| file.contains(&expression.to_lowercase()))
}
