//! Can two accounts both be true?
//!
//! What contradicts is found by hashes alone. Whether it was signed decides what it shows: a
//! contradiction of two signed statements can be handed to somebody else as a file.

use std::io;

use countersign_format::event::SCHEMA_VERSION;
use countersign_format::hash::Hash;
use countersign_format::merkle::Tree;
use countersign_format::note::{Checkpoint, SignedNote};
use countersign_format::proof::{Equivocation, EquivocationForm, LeafHashes};

use crate::account::{Account, Telling};
use crate::equivocation::{KeyTable, contradict};
use crate::extract::sound_line;

/// Whether two accounts can both be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonAnswer {
    /// They can.
    Consistent,
    /// They cannot.
    Contradiction,
    /// Nobody can tell from what was given.
    Incomparable,
}

impl ComparisonAnswer {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Consistent => "consistent",
            Self::Contradiction => "contradiction",
            Self::Incomparable => "incomparable",
        }
    }
}

/// What was found between two accounts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// What agrees.
    pub agreements: Vec<String>,
    /// What cannot both be true.
    pub contradictions: Vec<String>,
    /// What could not be settled, and what would settle it.
    pub unsettled: Vec<String>,
    /// The root of the log, if its keys are at hand.
    pub root: Option<Hash>,
    /// A contradiction that can be shown to anybody.
    pub equivocation: Option<Box<Equivocation>>,
    /// What is missing to show a contradiction of a checkpoint and a log to others.
    pub missing: Option<String>,
}

impl Comparison {
    /// The answer.
    #[must_use]
    pub fn answer(&self) -> ComparisonAnswer {
        if !self.contradictions.is_empty() {
            ComparisonAnswer::Contradiction
        } else if !self.unsettled.is_empty() || self.agreements.is_empty() {
            ComparisonAnswer::Incomparable
        } else {
            ComparisonAnswer::Consistent
        }
    }
}

/// Compares `a` with `b`. `more` is a log or a proof that may settle more: it names keys, and what lies
/// between checkpoints.
///
/// # Errors
/// A line could not be read again.
pub fn compare(a: &Account, b: &Account, more: Option<&Account>) -> io::Result<Comparison> {
    let mut found = Comparison::default();
    if let (Some(one), Some(other)) = (&a.origin, &b.origin)
        && one != other
    {
        found.unsettled.push(format!("`{}` is of `{one}`", a.name));
        found.unsettled.push(format!("`{}` is of `{other}`, another log", b.name));
        return Ok(found);
    }
    let origin = a.origin.as_ref().or(b.origin.as_ref());
    let fits = |account: &&Account| origin.is_none() || account.origin.as_ref() == origin;
    let accounts: Vec<&Account> = [a, b].into_iter().chain(more.filter(fits)).collect();
    if let Some(more) = more.filter(|more| !fits(more)) {
        found.unsettled.push(format!("`{}` is of another log", more.name));
    }
    let mut run = Run { keys: Keys::of(&accounts), found };
    run.found.root = run.keys.table.as_ref().map(|table| table.root);
    let logs = a.origin.is_some() && b.origin.is_some();
    if logs {
        run.logs(&accounts)?;
        run.notes(&accounts);
    }
    match (&a.trace, &b.trace) {
        (Some(one), Some(other)) if one.id == other.id => {
            run.tellings("event", (&a.name, one), (&b.name, other))?;
        }
        _ if logs => {}
        (Some(one), Some(other)) => {
            run.found.unsettled.push(format!("they are of traces {} and {}", one.id, other.id));
        }
        _ => run.found.unsettled.push("one is of a log, the other of a trace".to_owned()),
    }
    Ok(run.found)
}

/// The keys that all accounts together know.
struct Keys {
    table: Option<KeyTable>,
    lines: Vec<String>,
}

impl Keys {
    fn of(accounts: &[&Account]) -> Self {
        let mut keys = Self { table: None, lines: Vec::new() };
        for line in accounts.iter().flat_map(|account| &account.key_lines) {
            if keys.lines.contains(line) {
                continue;
            }
            // What the root did not sign names no key, and is no reason to know none.
            let known = match &mut keys.table {
                Some(table) => table.learn(line).is_ok(),
                None => {
                    keys.table = KeyTable::from_lines([line.as_str()]).ok();
                    keys.table.is_some()
                }
            };
            keys.lines.extend(known.then(|| line.clone()));
        }
        keys
    }

    fn equivocation(
        &self,
        form: EquivocationForm,
        first: String,
        second: String,
    ) -> Box<Equivocation> {
        Box::new(Equivocation {
            countersign: "equivocation".to_owned(),
            first,
            form,
            keys: self.lines.clone(),
            leaves: None,
            schema_version: SCHEMA_VERSION.to_owned(),
            second,
        })
    }
}

struct Run {
    keys: Keys,
    found: Comparison,
}

type Named<'a> = (&'a str, &'a Telling);
type NamedNote<'a> = (&'a str, &'a SignedNote, &'a Checkpoint);
type NamedLog<'a> = (&'a str, &'a [Hash], Tree);

impl Run {
    /// Entry by entry, as far as two know the same ones.
    fn logs(&mut self, accounts: &[&Account]) -> io::Result<()> {
        let logs: Vec<Named<'_>> =
            accounts.iter().filter_map(|it| Some((it.name.as_str(), it.log.as_ref()?))).collect();
        for (at, &one) in logs.iter().enumerate() {
            for &other in logs.iter().skip(at + 1) {
                self.tellings("entry", one, other)?;
            }
        }
        Ok(())
    }

    fn tellings(&mut self, what: &str, one: Named<'_>, other: Named<'_>) -> io::Result<()> {
        let (a, b) = (one.0, other.0);
        let all = one.1.all().is_some() && other.1.all().is_some();
        match one.1.compare(other.1) {
            (shared, Some(index)) => {
                let mut message = format!("{what} {index} of `{a}` is not that of `{b}`");
                if shared > 1 && all {
                    message.push_str(&format!("; the {} before it are the same", shared - 1));
                }
                if let Some(why) = self.signed_twice(index, one, other)? {
                    message.push_str(&format!("; {why}"));
                }
                self.found.contradictions.push(message);
            }
            (0, None) => {}
            (shared, None) => {
                let which = if all { "the first " } else { "" };
                let things = match (what, shared) {
                    (_, 1) => format!("{which}{what} of `{a}` and `{b}` is the same"),
                    ("entry", _) => {
                        format!("{which}{shared} entries of `{a}` and `{b}` are the same")
                    }
                    (_, _) => format!("{which}{shared} {what}s of `{a}` and `{b}` are the same"),
                };
                self.found.agreements.push(things);
            }
        }
        Ok(())
    }

    /// Makes a portable proof of two lines with one number, or says why it is none.
    fn signed_twice(
        &mut self,
        index: u64,
        one: Named<'_>,
        other: Named<'_>,
    ) -> io::Result<Option<String>> {
        let (Some(first), Some(second)) = (one.1.line(index)?, other.1.line(index)?) else {
            return Ok(None);
        };
        let Some(table) = &self.keys.table else {
            return Ok(Some("no keys are at hand to check the signatures".to_owned()));
        };
        for (name, line) in [(one.0, &first), (other.0, &second)] {
            let judged = sound_line(line)
                .map_err(|(_, code, message)| (code, message))
                .and_then(|line| table.vouches_for(&line));
            if let Err((code, message)) = judged {
                return Ok(Some(format!("that of `{name}` does not hold: {code}: {message}")));
            }
        }
        if one.1.id != other.1.id {
            return Ok(Some("they have different ids".to_owned()));
        }
        if self.found.equivocation.is_none() {
            let form = EquivocationForm::Events;
            self.found.equivocation = Some(self.keys.equivocation(form, first, second));
        }
        Ok(Some("both are signed".to_owned()))
    }

    /// Checkpoints against each other, and against the longest log that is at hand.
    fn notes(&mut self, accounts: &[&Account]) {
        // By account, not by name: who names one file twice has two accounts that agree.
        let (owners, notes): (Vec<usize>, Vec<NamedNote<'_>>) = accounts
            .iter()
            .enumerate()
            .flat_map(|(owner, it)| {
                let notes = it.notes.iter();
                notes.map(move |(note, size)| (owner, (it.name.as_str(), note, size)))
            })
            .filter(|(_, note)| self.is_evidence(note))
            .unzip();
        let logs: Vec<NamedLog<'_>> = accounts
            .iter()
            .filter_map(|it| Some((it.name.as_str(), it.log.as_ref()?.all()?)))
            .map(|(name, hashes)| (name, hashes, Tree::new(hashes)))
            .collect();
        let longest = logs.iter().max_by_key(|(_, hashes, _)| hashes.len());
        let mut settled = vec![false; notes.len()];
        for (at, one) in notes.iter().enumerate() {
            for (place, other) in notes.iter().enumerate().skip(at + 1) {
                if owners.get(at) != owners.get(place) && one.2.size == other.2.size {
                    self.same_size(one, other);
                    for place in [at, place] {
                        settled.get_mut(place).into_iter().for_each(|it| *it = true);
                    }
                }
            }
        }
        for (note, settled) in notes.iter().zip(settled) {
            self.against_log(note, longest, settled);
        }
        for older in &notes {
            for newer in notes.iter().filter(|newer| newer.2.size > older.2.size) {
                self.is_no_prefix(older, newer, &logs);
            }
        }
        if self.keys.table.is_none() && !notes.is_empty() {
            let message = "signatures were not checked: no log or proof is at hand that names keys";
            let list = match self.found.unsettled.is_empty() {
                true => &mut self.found.agreements,
                false => &mut self.found.unsettled,
            };
            list.push(message.to_owned());
        }
    }

    /// Whether a note is signed, as far as that can be known. One that is not says nothing.
    fn is_evidence(&mut self, (name, note, checkpoint): &NamedNote<'_>) -> bool {
        let Some(table) = &self.keys.table else { return true };
        let signed = !table.signers(note).is_empty();
        if !signed {
            let size = checkpoint.size;
            let message = format!(
                "the checkpoint of {size} entries in `{name}` is not signed by a recorder key of \
                 this log: it says nothing"
            );
            self.found.unsettled.push(message);
        }
        signed
    }

    fn same_size(&mut self, one: &NamedNote<'_>, other: &NamedNote<'_>) {
        let (a, b, size) = (one.0, other.0, one.2.size);
        match (contradict(one.2, other.2), &self.keys.table) {
            (None, _) => {
                let message = format!("`{a}` and `{b}` have the same checkpoint of {size} entries");
                self.found.agreements.push(message);
            }
            (Some(message), Some(_)) => {
                self.found.contradictions.push(format!("{message}; both are signed"));
                // The stronger of the two forms: checkpoints are made of durable entries only.
                let form = EquivocationForm::Checkpoints;
                let (first, second) = (one.1.to_string(), other.1.to_string());
                self.found.equivocation = Some(self.keys.equivocation(form, first, second));
            }
            (Some(message), None) => self.found.unsettled.push(message),
        }
    }

    /// Two checkpoints of different sizes, if a log is at hand that the newer one is of.
    fn is_no_prefix(
        &mut self,
        older: &NamedNote<'_>,
        newer: &NamedNote<'_>,
        logs: &[NamedLog<'_>],
    ) {
        let (size, root) = (newer.2.size, Some(newer.2.root));
        let of_newer = logs.iter().find(|(_, _, tree)| tree.root_at(size) == root);
        let Some((_, hashes, tree)) = of_newer.filter(|_| self.keys.table.is_some()) else {
            return;
        };
        if tree.root_at(older.2.size) == Some(older.2.root) {
            return;
        }
        let message = format!(
            "the {size} entries of the checkpoint in `{}` do not begin with the {} of that in `{}`; \
             both are signed",
            newer.0, older.2.size, older.0
        );
        self.found.contradictions.push(message);
        let (form, notes) = (EquivocationForm::Prefix, (older.1.to_string(), newer.1.to_string()));
        let mut equivocation = self.keys.equivocation(form, notes.0, notes.1);
        let leaves = usize::try_from(size).ok().and_then(|size| hashes.get(..size));
        equivocation.leaves = leaves.map(|leaves| LeafHashes(leaves.to_vec()));
        let known = self.found.equivocation.as_ref().map(|known| known.form);
        match equivocation.within_limits() {
            // Two checkpoints of one size are the smaller proof, two events the weaker one.
            Ok(()) if known.is_none_or(|form| form == EquivocationForm::Events) => {
                self.found.equivocation = Some(equivocation);
            }
            Ok(()) => {}
            Err(fault) => self.found.missing = Some(fault.to_string()),
        }
    }

    fn against_log(&mut self, note: &NamedNote<'_>, log: Option<&NamedLog<'_>>, settled: bool) {
        let (name, _, Checkpoint { size, root, .. }) = note;
        match log.and_then(|(log, _, tree)| Some((log, tree.root_at(*size)?))) {
            Some((log, found)) if found == *root => {
                let message = format!("the first {size} entries of `{log}` are those of `{name}`");
                self.found.agreements.push(message);
            }
            Some((log, found)) => {
                let message = format!(
                    "the first {size} entries of `{log}` have the root {found}, the checkpoint in \
                     `{name}` has {root}"
                );
                match &self.keys.table {
                    Some(_) => {
                        self.found.contradictions.push(message);
                        self.found.missing = Some(format!(
                            "to show it to others takes a signed checkpoint of `{log}` itself, of at \
                             least {size} entries, which `--log` may name"
                        ));
                    }
                    None => self.found.unsettled.push(message),
                }
            }
            None if settled => {}
            None => {
                let message = format!(
                    "the checkpoint in `{name}` is of {size} entries: a copy of the log with at \
                     least so many would settle it"
                );
                self.found.unsettled.push(message);
            }
        }
    }
}
