//! Shell text taken apart into simple commands.
//!
//! Knows quotes, substitutions, pipelines, groups, functions, redirections and here-documents, as
//! far as they decide which programs run with which words. It expands nothing but variables that
//! the text itself sets, and says where it cannot follow; it is no shell, and can be fooled.

mod expansion;

use std::collections::BTreeMap;

use super::word::{Redirect, Word};

/// How deep commands may be nested before we stop following.
pub(super) const DEPTH_MAX: usize = 16;
/// How many bytes variables may grow to, all uses taken together.
const EXPANSION_BYTES_MAX: usize = 1 << 18;
/// How many commands before one are remembered as feeding it.
const PIPELINE_MAX: usize = 32;

/// One command with its words, wherever in the text it stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Simple {
    /// The program and its arguments.
    pub(super) words: Vec<Word>,
    /// Files that it reads and writes.
    pub(super) redirects: Vec<Redirect>,
    /// What it reads, where the text says so: a here-document or a here-string.
    pub(super) input: Option<Word>,
    /// Commands before it in its pipeline, by their places in the script.
    pub(super) fed_by: Vec<usize>,
    /// Commands whose output stands among its words, by their places in the script.
    pub(super) made_of: Vec<usize>,
    /// The function in whose body it stands.
    pub(super) function: Option<String>,
}

/// All commands of a text.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Inner commands come before those that they stand in.
    pub(super) commands: Vec<Simple>,
    /// What could not be followed.
    pub(super) murk: Vec<&'static str>,
}

/// Takes `text` apart.
pub(super) fn parse(text: &str) -> Script {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        script: Script::default(),
        variables: BTreeMap::new(),
        function: None,
        bodies: Vec::new(),
        in_backticks: false,
        expanded: 0,
    };
    parser.list(Close::End);
    if !parser.bodies.is_empty() {
        parser.script.murk.push("a here-document is not there");
    }
    parser.script
}

/// What ends a list of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Close {
    End,
    Paren,
    Brace,
    Backtick,
}

/// The command that is being read.
#[derive(Debug, Default)]
struct Line {
    words: Vec<Word>,
    redirects: Vec<Redirect>,
    input: Option<Word>,
    made_of: Vec<usize>,
    /// Whether a `|` stands before it.
    piped: bool,
}

/// A here-document whose body is still to come.
#[derive(Debug)]
struct Body {
    delimiter: String,
    literal: bool,
    tabs: bool,
    of: Option<usize>,
}

/// What a variable holds.
#[derive(Debug, Clone)]
struct Value {
    text: String,
    /// Whether it is one of the names that the text stands for, as in a loop over them.
    found: bool,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    script: Script,
    variables: BTreeMap<String, Value>,
    function: Option<String>,
    bodies: Vec<Body>,
    /// Whether a backtick closes rather than opens.
    in_backticks: bool,
    /// Bytes that variables have grown to so far.
    expanded: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Reads commands up to `close`, and returns the places of all that were found.
    fn list(&mut self, close: Close) -> Vec<usize> {
        if self.depth >= DEPTH_MAX {
            self.script.murk.push("commands are nested too deep");
            self.at = self.text.len();
            return Vec::new();
        }
        self.depth += 1;
        let outer = std::mem::replace(&mut self.in_backticks, close == Close::Backtick);
        let first = self.script.commands.len();
        let (mut line, mut pipeline) = (Line::default(), Vec::new());
        loop {
            self.blanks();
            let Some(next) = self.peek() else {
                if close != Close::End {
                    self.script.murk.push("something is not closed");
                }
                break;
            };
            match next {
                '#' => self.comment(),
                ')' if close == Close::Paren => break self.at += 1,
                '`' if close == Close::Backtick => break self.at += 1,
                '}' if close == Close::Brace && line.words.is_empty() => break self.at += 1,
                '\n' | ';' | '&' | '|' | ')' => {
                    self.operator(next, &mut line, &mut pipeline, first);
                }
                '(' => self.paren(&mut line, &mut pipeline),
                '{' if line.opens_group(self.rest()) => self.group(&mut line, &mut pipeline),
                '<' | '>' => self.redirect(&mut line),
                _ => self.take_word(&mut line),
            }
        }
        self.finish(&mut line, &mut pipeline, first);
        self.in_backticks = outer;
        self.depth -= 1;
        (first..self.script.commands.len()).collect()
    }

    fn blanks(&mut self) {
        while self.eat(" ") || self.eat("\t") || self.eat("\r") || self.eat("\\\n") {}
    }

    fn comment(&mut self) {
        let length = self.rest().find('\n').unwrap_or(self.rest().len());
        self.at += length;
    }

    /// What separates two commands; only `|` makes the first feed the second.
    fn operator(
        &mut self,
        operator: char,
        line: &mut Line,
        pipeline: &mut Vec<usize>,
        first: usize,
    ) {
        if self.eat("&>") {
            self.eat(">");
            self.target(true, line);
            return;
        }
        self.at += 1;
        if operator == ')' {
            // Nothing is open that it could close: the words before it are a pattern of `case`.
            *line = Line::default();
            return;
        }
        let doubled = operator != '\n' && self.eat(&operator.to_string());
        let pipes = operator == '|' && !doubled;
        if pipes {
            self.eat("&");
        }
        // A line break after `|` goes on with the pipeline.
        let goes_on = operator == '\n' && line.piped && line.words.is_empty();
        self.finish(line, pipeline, first);
        line.piped = pipes || goes_on;
        if !line.piped {
            pipeline.clear();
        }
        if operator == '\n' {
            self.read_bodies();
        }
    }

    fn paren(&mut self, line: &mut Line, pipeline: &mut Vec<usize>) {
        self.at += 1;
        self.blanks();
        if !line.words.is_empty() && self.eat(")") {
            self.define(line);
            return;
        }
        let found = self.list(Close::Paren);
        pipeline.extend(found);
    }

    fn define(&mut self, line: &mut Line) {
        let name = line.words.pop().map(|word| word.text);
        *line = Line::default();
        let body = self.rest().trim_start();
        if !body.starts_with(['{', '(']) {
            return;
        }
        self.at = self.text.len() - body.len() + 1;
        let close = if body.starts_with('{') { Close::Brace } else { Close::Paren };
        let outer = std::mem::replace(&mut self.function, name);
        self.list(close);
        self.function = outer;
    }

    fn group(&mut self, line: &mut Line, pipeline: &mut Vec<usize>) {
        if line.words.first().is_some_and(|word| word.text == "function") {
            self.define(line);
            return;
        }
        self.at += 1;
        let found = self.list(Close::Brace);
        pipeline.extend(found);
        *line = Line::default();
    }

    fn take_word(&mut self, line: &mut Line) {
        let word = self.word(&mut line.made_of);
        let descriptor = !word.quoted && word.text.bytes().all(|byte| byte.is_ascii_digit());
        if descriptor && !word.text.is_empty() && matches!(self.peek(), Some('<' | '>')) {
            return;
        }
        line.words.extend(word.expanded());
    }

    fn redirect(&mut self, line: &mut Line) {
        if self.eat("<(") || self.eat(">(") {
            let found = self.list(Close::Paren);
            line.made_of.extend(found);
            line.words.push(Word::unknown("<()"));
        } else if self.eat("<<<") {
            self.blanks();
            line.input = Some(self.word(&mut line.made_of));
        } else if self.eat("<<") {
            let tabs = self.eat("-");
            self.blanks();
            let delimiter = self.word(&mut Vec::new());
            let (delimiter, literal) = (delimiter.text, delimiter.quoted);
            self.bodies.push(Body { delimiter, literal, tabs, of: None });
        } else if self.eat("<&") {
            self.word(&mut Vec::new());
        } else if self.eat("<>") {
            self.target(true, line);
        } else if self.eat("<") {
            self.target(false, line);
        } else if self.eat(">&") {
            self.blanks();
            // `>&2` and `>&-` name a descriptor, everything else a file.
            let target = self.word(&mut line.made_of);
            if !target.text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
                line.redirects.push(Redirect { writes: true, target });
            }
        } else {
            self.at += 1;
            let _ = self.eat(">") || self.eat("|");
            self.target(true, line);
        }
    }

    fn target(&mut self, writes: bool, line: &mut Line) {
        self.blanks();
        let target = self.word(&mut line.made_of);
        line.redirects.push(Redirect { writes, target });
    }

    /// The bodies of here-documents, which follow the line that names them.
    fn read_bodies(&mut self) {
        for body in std::mem::take(&mut self.bodies) {
            let (mut text, mut closed) = (String::new(), false);
            while !self.rest().is_empty() && !closed {
                let line = self.rest().split_inclusive('\n').next().unwrap_or_default().to_owned();
                self.at += line.len();
                let line = if body.tabs { line.trim_start_matches('\t') } else { &line };
                closed = line.trim_end_matches(['\r', '\n']) == body.delimiter;
                if !closed {
                    text.push_str(line);
                }
            }
            if !closed {
                self.script.murk.push("a here-document is not closed");
            }
            let found = if body.literal { Vec::new() } else { self.substitutions(&text) };
            let known = body.literal || !text.contains(['$', '`']);
            if let Some(command) = body.of.and_then(|of| self.script.commands.get_mut(of)) {
                command.input = Some(Word { known, ..Word::literal(&text) });
                command.made_of.extend(found);
            }
        }
    }

    /// The commands that stand as substitutions in a text that is data otherwise.
    fn substitutions(&mut self, text: &str) -> Vec<usize> {
        if !text.contains("$(") && !text.contains('`') {
            return Vec::new();
        }
        if self.depth >= DEPTH_MAX {
            self.script.murk.push("commands are nested too deep");
            return Vec::new();
        }
        let mut inner = Parser {
            text,
            at: 0,
            depth: self.depth + 1,
            script: std::mem::take(&mut self.script),
            variables: std::mem::take(&mut self.variables),
            function: self.function.clone(),
            bodies: Vec::new(),
            in_backticks: false,
            expanded: self.expanded,
        };
        let mut found = Vec::new();
        let mut word = Word::empty();
        while let Some(next) = inner.bump() {
            match next {
                '\\' => drop(inner.bump()),
                '$' => inner.dollar(&mut word, &mut found, true),
                '`' => found.extend(inner.list(Close::Backtick)),
                _ => {}
            }
        }
        self.script = inner.script;
        self.variables = inner.variables;
        self.expanded = inner.expanded;
        found
    }

    /// Ends the command that is being read.
    fn finish(&mut self, line: &mut Line, pipeline: &mut Vec<usize>, first: usize) {
        let Line { mut words, redirects, input, made_of, .. } = std::mem::take(line);
        let is_lead = |word: &&Word| !word.quoted && LEADS.contains(&&*word.text);
        words.drain(..words.iter().take_while(is_lead).count());
        let keyword = words.first().filter(|word| !word.quoted).map_or("", |word| &*word.text);
        if ENDS.contains(&keyword) {
            // What follows a pipe behind `done` reads what the whole loop prints.
            let end = self.script.commands.len();
            *pipeline = (first.max(end.saturating_sub(PIPELINE_MAX))..end).collect();
            return;
        }
        if HEADS.contains(&keyword) {
            self.remember_loop(&words);
            return;
        }
        self.remember(&words);
        let assigned = words.iter().take_while(|word| word.assignment().is_some()).count();
        words.drain(..assigned);
        if words.is_empty() && redirects.is_empty() {
            return;
        }
        let at = self.script.commands.len();
        pipeline.drain(..pipeline.len().saturating_sub(PIPELINE_MAX));
        for body in self.bodies.iter_mut().filter(|body| body.of.is_none()) {
            body.of = Some(at);
        }
        self.script.commands.push(Simple {
            words,
            redirects,
            input,
            fed_by: pipeline.clone(),
            made_of,
            function: self.function.clone(),
        });
        pipeline.push(at);
    }

    /// Keeps what variables were set to, where the text says it.
    fn remember(&mut self, words: &[Word]) {
        let declares = words.first().is_some_and(|word| DECLARES.contains(&&*word.text));
        for word in words.iter().skip(usize::from(declares)) {
            match word.assignment() {
                Some((name, value)) if word.known => {
                    let value = Value { text: value.to_owned(), found: false };
                    self.variables.insert(name.to_owned(), value);
                }
                Some((name, _)) => drop(self.variables.remove(name)),
                None => break,
            }
        }
        if words.first().is_some_and(|word| READERS.contains(&&*word.text)) {
            words.iter().for_each(|word| drop(self.variables.remove(&word.text)));
        }
    }

    /// Keeps what the variable of a loop goes through, if that is one word.
    fn remember_loop(&mut self, words: &[Word]) {
        let [_, name, rest @ ..] = words else { return };
        match rest {
            [within, over] if within.text == "in" && over.known => {
                let value = Value { text: over.text.clone(), found: true };
                self.variables.insert(name.text.clone(), value);
            }
            _ => drop(self.variables.remove(&name.text)),
        }
    }
}

impl Line {
    /// Whether the brace with which `rest` starts opens a group of commands.
    fn opens_group(&self, rest: &str) -> bool {
        let stands_alone = rest.get(1..2).is_none_or(|next| next.trim().is_empty());
        let leads = self.words.iter().all(|word| LEADS.contains(&&*word.text));
        let function = self.words.first().is_some_and(|word| word.text == "function");
        stands_alone && (leads || function)
    }
}

/// Words before a command that are not part of it.
const LEADS: &[&str] =
    &["if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "coproc"];
/// Words that end a compound command.
const ENDS: &[&str] = &["done", "fi", "esac"];
/// Words that begin something that is no command.
const HEADS: &[&str] = &["for", "select", "case", "function"];
/// Programs that set variables to what they read.
const READERS: &[&str] = &["read", "mapfile", "readarray", "getopts"];
/// Programs that set variables.
const DECLARES: &[&str] = &["export", "declare", "local", "readonly", "typeset"];
