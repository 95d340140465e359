//! Scripts of `sed` that do more than edit.

use countersign_format::risk::RiskClass;

use crate::Decision;
use crate::guard::rule::Example::Run;
use crate::guard::rule::{Matcher, Rule};
use crate::guard::scene::Step;

pub(super) static RULES: &[Rule] = &[Rule {
    id: "sed-run",
    because: "makes sed run a command, or write a file that its script names",
    decision: Decision::Ask,
    risk: RiskClass::Elevated,
    matches: Matcher::Step(runs),
    must: &[
        Run("sed '1e id' x"),
        Run("sed -n '$e touch y' x"),
        Run("sed 's/.*/touch y/e' x"),
        Run("sed -e p -e 's,a,b,ge' x"),
        Run("sed --expression='e id' x"),
        Run("sed '/x/{p;e id\n}' x"),
        Run("sed 's/a/b/w .bashrc' x"),
        Run("sed '/a/,/b/ w out' x"),
        Run("sed -ne '1e id' x"),
        Run("cat x | sed '\\,a,e id'"),
    ],
    must_not: &[
        Run("sed -n '1,5p' x"),
        Run("sed 's/we/e/g' x"),
        Run("sed -e '/else/d' -e 's|/e|w|' x"),
        Run("sed '/x/{s/a/b/;p}' x"),
        Run("sed 'y/abc/ewr/' x"),
        Run("sed '$!N;s/\\n/ /' x"),
        Run("sed '/x/a\\\ne text' x"),
        Run("sed -n '/a;e/p' x"),
        Run("sed ':a;N;$!ba;s/\\n/,/g' x"),
    ],
}];

/// Whether a script has a command that runs something or writes a file: `e`, `w`, or `s` with one of
/// them behind it.
fn runs(step: &Step) -> bool {
    step.is(&["sed", "gsed"]) && scripts(step).into_iter().any(script_runs)
}

fn scripts(step: &Step) -> Vec<&str> {
    let (mut scripts, mut next) = (Vec::new(), false);
    for word in step.args.iter().map(|word| &*word.text) {
        let cluster = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        let option = cluster.and_then(|rest| {
            let (letters, script) = rest.split_once('e')?;
            letters.chars().all(|letter| "nrEsuz".contains(letter)).then_some(script)
        });
        match word.strip_prefix("--expression=").or(option) {
            _ if std::mem::take(&mut next) => scripts.push(word),
            Some("") => next = true,
            Some(script) => scripts.push(script),
            None => next = word == "--expression",
        }
    }
    if scripts.is_empty() { step.operands().next().into_iter().collect() } else { scripts }
}

/// Walks over the commands of a script, addresses included.
fn script_runs(script: &str) -> bool {
    let mut rest = script.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = match byte {
            b'/' => behind_part(behind, b'/'),
            b'\\' => match behind.split_first() {
                Some((&mark, behind)) => behind_part(behind, mark),
                None => return false,
            },
            b'e' | b'w' | b'W' => return true,
            b's' | b'y' => {
                let Some((&mark, behind)) = behind.split_first() else { return false };
                let behind = behind_part(behind_part(behind, mark), mark);
                let end = behind.iter().position(|it| matches!(it, b';' | b'\n' | b'}'));
                let (flags, behind) = behind.split_at(end.unwrap_or(behind.len()));
                if byte == b's' && flags.iter().any(|flag| matches!(flag, b'e' | b'w')) {
                    return true;
                }
                behind
            }
            // A text or the name of a file goes on to the end of the line.
            b'a' | b'i' | b'c' | b'#' | b'r' | b'R' => behind_line(behind, b'\n'),
            // So does a label, unless another command follows it.
            b':' | b'b' | b't' | b'T' => behind_line(behind, b';'),
            _ => behind,
        };
    }
    false
}

/// What follows a part that ends with `mark`.
fn behind_part(mut bytes: &[u8], mark: u8) -> &[u8] {
    while let Some((&byte, behind)) = bytes.split_first() {
        bytes = match byte {
            b'\\' => behind.get(1..).unwrap_or_default(),
            _ if byte == mark => return behind,
            _ => behind,
        };
    }
    bytes
}

/// What follows a line, or what `end` ends before it; a line that ends in a backslash goes on.
fn behind_line(mut bytes: &[u8], end: u8) -> &[u8] {
    while let Some((&byte, behind)) = bytes.split_first() {
        bytes = match byte {
            b'\\' => behind.get(1..).unwrap_or_default(),
            b'\n' => return behind,
            _ if byte == end => return behind,
            _ => behind,
        };
    }
    bytes
}
