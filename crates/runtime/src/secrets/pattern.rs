//! Secrets that are known by how they look, or by what stands before them.
//!
//! Every rule starts at a text that does not vary, found for all rules in one pass, and looks at
//! what surrounds it. No rule reads the same bytes again and again: what a rule refuses, it refuses
//! after a bounded look or after a run of characters in which it cannot start again.

use std::sync::LazyLock;

use super::finder::Finder;
use super::form::is_ours;
use super::name::{SETTINGS, is_secret_member, setting_ends};
use super::region::{Region, segments};

/// How much of a value is looked at before it is known to be one.
const VALUE_LOOK_MAX: usize = 512;
/// The least bytes of a value that stands behind a name.
const VALUE_BYTES_MIN: usize = 8;
/// White space between a name, its separator and its value.
const GAP_MAX: usize = 8;

/// Where a rule starts to look.
struct Anchor {
    text: &'static str,
    rule: &'static str,
    look: Look,
}

/// From the text and the place of an anchor to the place of a secret.
type LookAt = fn(&[u8], usize, usize) -> Option<(usize, usize)>;

/// How a rule looks at what surrounds its anchor.
enum Look {
    /// The anchor itself and a run of characters after it.
    Run(Run),
    /// A token of another form.
    Token(LookAt),
    /// What stands behind the anchor.
    Place(LookAt),
}

/// A token: a prefix and so many characters.
struct Run {
    member: fn(u8) -> bool,
    least: usize,
    most: usize,
    /// Whether nothing of the kind may stand right before it or, if it can have only one length,
    /// right after it.
    bounded: bool,
    /// Whether a digit must be among the characters.
    digit: bool,
}

const fn alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

const fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

const fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

const fn run(member: fn(u8) -> bool, least: usize) -> Look {
    Look::Run(Run { member, least, most: usize::MAX, bounded: false, digit: false })
}

const fn exact(member: fn(u8) -> bool, length: usize) -> Look {
    Look::Run(Run { member, least: length, most: length, bounded: true, digit: false })
}

const fn anchor(text: &'static str, rule: &'static str, look: Look) -> Anchor {
    Anchor { text, rule, look }
}

const SK: Look =
    Look::Run(Run { member: word, least: 20, most: usize::MAX, bounded: true, digit: true });

/// Tokens and everything else that is known by a text; the settings come on top.
const ANCHORS: &[Anchor] = &[
    anchor("AKIA", "aws-access-key-id", exact(upper, 16)),
    anchor("ASIA", "aws-access-key-id", exact(upper, 16)),
    anchor("ghp_", "github-token", run(alnum, 30)),
    anchor("gho_", "github-token", run(alnum, 30)),
    anchor("ghu_", "github-token", run(alnum, 30)),
    anchor("ghs_", "github-token", run(alnum, 30)),
    anchor("ghr_", "github-token", run(alnum, 30)),
    anchor("github_pat_", "github-token", run(word, 22)),
    anchor("glpat-", "gitlab-token", run(word, 20)),
    anchor("xoxa-", "slack-token", run(word, 10)),
    anchor("xoxb-", "slack-token", run(word, 10)),
    anchor("xoxe-", "slack-token", run(word, 10)),
    anchor("xoxo-", "slack-token", run(word, 10)),
    anchor("xoxp-", "slack-token", run(word, 10)),
    anchor("xoxr-", "slack-token", run(word, 10)),
    anchor("xoxs-", "slack-token", run(word, 10)),
    anchor("xapp-", "slack-token", run(word, 10)),
    anchor("sk_live_", "stripe-key", run(alnum, 16)),
    anchor("rk_live_", "stripe-key", run(alnum, 16)),
    anchor("sk_test_", "stripe-key", run(alnum, 16)),
    anchor("rk_test_", "stripe-key", run(alnum, 16)),
    anchor("whsec_", "stripe-key", run(alnum, 16)),
    anchor("sk-", "model-key", SK),
    anchor("AIza", "google-key", exact(word, 35)),
    anchor("npm_", "npm-token", run(alnum, 36)),
    anchor("pypi-", "pypi-token", run(word, 50)),
    anchor("hf_", "model-key", run(alnum, 30)),
    anchor("eyJ", "jwt", Look::Token(jwt)),
    anchor("-----BEGIN ", "private-key", Look::Place(private_key)),
    anchor("authorization", "authorization", Look::Place(authorization)),
    anchor("bearer ", "authorization", Look::Place(bearer)),
    anchor("://", "url-password", Look::Place(|text, _, end| password_in_url(text, end))),
];

/// The rule of names and values.
pub(super) const ASSIGNMENT: &str = "assignment";

/// Everything that a rule starts at, in lower case: first the anchors, then the settings.
static FINDER: LazyLock<Finder> = LazyLock::new(|| {
    let texts = ANCHORS.iter().map(|anchor| anchor.text.to_ascii_lowercase());
    let texts: Vec<String> = texts.chain(SETTINGS.iter().map(|text| (*text).to_owned())).collect();
    Finder::new(texts.iter().map(String::as_bytes))
});

/// Finds everything in `text` that looks like a secret.
pub(super) fn find(text: &[u8], regions: &mut Vec<Region>) {
    let (mut done, mut tokens_done) = (0, 0);
    let lower = text.iter().map(u8::to_ascii_lowercase);
    FINDER.each(lower, |end, number| {
        let length = match (ANCHORS.get(number), SETTINGS.get(number.saturating_sub(ANCHORS.len())))
        {
            (Some(anchor), _) => anchor.text.len(),
            (None, Some(setting)) => setting.len(),
            (None, None) => return,
        };
        let start = end.saturating_sub(length);
        let anchor = ANCHORS.get(number);
        let token = anchor.is_some_and(|anchor| !matches!(anchor.look, Look::Place(_)));
        // What lies inside of a secret is gone with it, and looking again would take too long. A
        // token behind a name is looked at all the same: it has the better name.
        if start < if token { tokens_done } else { done } {
            return;
        }
        let found = match anchor {
            Some(anchor) => anchor.look_at(text, start, end).map(|found| (found, anchor.rule)),
            None => assignment(text, start, end).map(|found| (found, name_of(text, start, found))),
        };
        if let Some(((start, end), rule)) = found {
            done = done.max(end);
            if token {
                tokens_done = end;
            }
            regions.push(Region { start, end, rule });
        }
    });
}

impl Anchor {
    fn look_at(&self, text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
        match &self.look {
            Look::Place(look) | Look::Token(look) => look(text, start, end),
            // Prefixes of tokens have one spelling.
            Look::Run(run) if text.get(start..end) == Some(self.text.as_bytes()) => {
                run.look_at(text, start, end)
            }
            Look::Run(_) => None,
        }
    }
}

impl Run {
    fn look_at(&self, text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
        let before = start.checked_sub(1).and_then(|at| text.get(at));
        let fixed = self.most != usize::MAX;
        // A token of one length with base64 around it is a part of something else.
        let in_base64 = |next: Option<&u8>| fixed && next.is_some_and(|byte| b"+/".contains(byte));
        if self.bounded && (!begins_word(text, start, self.member) || in_base64(before)) {
            return None;
        }
        let rest = text.get(end..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| (self.member)(**byte)).count();
        let token = rest.get(..length)?;
        let next = rest.get(length);
        let goes_on = in_base64(next) || fixed && next == Some(&b'=');
        let digit = !self.digit || token.iter().any(u8::is_ascii_digit);
        (length >= self.least && length <= self.most && !goes_on && digit)
            .then_some((start, end + length))
    }
}

/// Whether a token can begin here: after anything else than its own characters, or after an escape
/// that ends in a letter, as in JSON, in addresses and in coloured output.
fn begins_word(text: &[u8], start: usize, member: fn(u8) -> bool) -> bool {
    let before = text.get(..start).unwrap_or_default();
    let Some(&last) = before.last() else { return true };
    if !member(last) && !last.is_ascii_alphanumeric() {
        return true;
    }
    let near = before.get(before.len().saturating_sub(12)..).unwrap_or_default();
    let coloured = last == b'm' && near.contains(&0x1b);
    match near {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
        [.., b'%', high, low] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        _ => coloured,
    }
}

/// Three parts of base64 with points between them; the third may have been cut off.
fn jwt(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    const PART_MIN: usize = 5;
    if text.get(start..end) != Some(b"eyJ") || !begins_word(text, start, word) {
        return None;
    }
    let part = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| word(**byte)).count()
    };
    let point = |at: usize| text.get(at) == Some(&b'.');
    let header = part(end);
    if header < end + PART_MIN || !point(header) {
        return None;
    }
    let payload = part(header + 1);
    if payload < header + 1 + PART_MIN {
        return None;
    }
    let signed = point(payload);
    let claims = text.get(header + 1..header + 4) == Some(b"eyJ");
    (signed || claims).then(|| (start, if signed { part(payload + 1) } else { payload }))
}

/// A whole block, or what there is of it.
fn private_key(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    const LABEL_MAX: usize = 64;
    let rest = text.get(end..).unwrap_or_default();
    let label = rest.get(..rest.len().min(LABEL_MAX)).unwrap_or_default();
    let label = label.get(..find_bytes(label, b"-----")?)?;
    find_bytes(label, b"PRIVATE KEY")?;
    let close = find_bytes(rest, b"-----END ").map(|at| at + 9);
    let last = close.and_then(|at| Some(at + find_bytes(rest.get(at..)?, b"-----")? + 5));
    Some((start, last.map_or(text.len(), |last| end + last)))
}

fn find_bytes(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// The credential of a header, without its scheme.
fn authorization(text: &[u8], _: usize, end: usize) -> Option<(usize, usize)> {
    const SCHEMES: [&[u8]; 7] =
        [b"apikey", b"basic", b"bearer", b"digest", b"negotiate", b"token", b"bot"];
    let (at, _) = separator(text, end)?;
    let at = at + usize::from(text.get(at) == Some(&b'\\'));
    let at = at + usize::from(text.get(at).is_some_and(|byte| is_quote(*byte)));
    let rest = text.get(at..).unwrap_or_default();
    let scheme = SCHEMES.into_iter().find_map(|scheme| {
        let found = rest.get(..scheme.len())?.eq_ignore_ascii_case(scheme);
        (found && rest.get(scheme.len()) == Some(&b' ')).then_some(scheme.len() + 1)
    });
    let start = at + scheme.unwrap_or(0);
    let (start, end) = until(text, start, ends_word)?;
    let value = text.get(start..end)?;
    let least = if scheme.is_some() { 6 } else { VALUE_BYTES_MIN };
    (value.len() >= least && is_a_value(value)).then_some((start, end))
}

/// A credential behind the scheme alone.
fn bearer(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    const TOKEN_MIN: usize = 16;
    if !begins_word(text, start, word) {
        return None;
    }
    let (_, last) = until(text, end, |byte| !(word(byte) || b".~+/=".contains(&byte)))?;
    let value = text.get(end..last)?;
    let telling = value.len() >= TOKEN_MIN && value.iter().any(u8::is_ascii_digit);
    (telling && is_a_value(value)).then_some((end, last))
}

/// The password in an address whose authority starts at `at`, or a token in the place of a user.
pub(super) fn password_in_url(text: &[u8], at: usize) -> Option<(usize, usize)> {
    const USER_TOKEN_MIN: usize = 20;
    let rest = text.get(at..).unwrap_or_default();
    let rest = rest.get(..rest.len().min(VALUE_LOOK_MAX)).unwrap_or_default();
    let stops = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'<>`\\".contains(byte);
    let authority = rest.get(..rest.iter().position(stops).unwrap_or(rest.len()))?;
    let host = authority.iter().rposition(|&byte| byte == b'@')?;
    let user = authority.get(..host)?;
    let from = match user.iter().position(|&byte| byte == b':') {
        Some(colon) => colon + 1,
        None if host >= USER_TOKEN_MIN => 0,
        None => return None,
    };
    let value = user.get(from..)?;
    (!value.is_empty() && is_a_value(value) && !is_reference(value))
        .then_some((at + from, at + host))
}

/// Which rule a value behind a name falls under: forty characters behind `secret_access_key` are of
/// a kind of their own.
fn name_of(text: &[u8], start: usize, (from, to): (usize, usize)) -> &'static str {
    const AWS_LENGTH: usize = 40;
    let name = text.get(start..from).unwrap_or_default().to_ascii_lowercase();
    let aws = to - from == AWS_LENGTH && find_bytes(&name, b"access").is_some();
    if aws { "aws-secret-key" } else { ASSIGNMENT }
}

const fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// Where the value begins behind a name that ends at `at`, and whether there is white space between
/// the two: `: `, `=`, ` => `, `":"`, `\":\"`.
fn separator(text: &[u8], at: usize) -> Option<(usize, bool)> {
    let gap = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.iter().take(GAP_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
    };
    let mut name = at;
    name += usize::from(text.get(name) == Some(&b'\\'));
    name += usize::from(text.get(name).is_some_and(|byte| is_quote(*byte)));
    name += usize::from(text.get(name) == Some(&b']'));
    let sign = gap(name);
    let rest = text.get(sign..).unwrap_or_default();
    let length = match rest {
        [b'=', b'=', ..] => return None,
        [b'=', b'>', ..] | [b':', b'=', ..] => 2,
        [b'=' | b':' | b'>', ..] => 1,
        _ => return None,
    };
    let value = gap(sign + length);
    Some((value, sign > name || value > sign + length))
}

/// Whether no unquoted value goes on here.
const fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || byte.is_ascii_control()
        || matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b',' | b';' | b'<')
}

/// From `start` up to a byte that `stops`.
fn until(text: &[u8], start: usize, stops: impl Fn(u8) -> bool) -> Option<(usize, usize)> {
    let rest = text.get(start..)?;
    let length = rest.iter().position(|&byte| stops(byte)).unwrap_or(rest.len());
    Some((start, start + length))
}

/// The value behind a name such as `password`.
fn assignment(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    let name = setting_ends(text, end)?;
    let (at, spaced) = separator(text, name).or_else(|| behind_option(text, start, name))?;
    let escaped = usize::from(text.get(at) == Some(&b'\\'));
    let quote = text.get(at + escaped).copied().filter(|byte| is_quote(*byte));
    let start = if quote.is_some() { at + escaped + 1 } else { at };
    let stops = |byte: u8| match quote {
        Some(quote) => byte == quote || byte == b'\n' || escaped == 1 && byte == b'\\',
        None => ends_word(byte) || b"&>()[]{}|".contains(&byte),
    };
    let look = text.get(..text.len().min(start.saturating_add(VALUE_LOOK_MAX)))?;
    let (_, seen) = until(look, start, stops)?;
    let value = text.get(start..seen)?;
    let next = text.get(seen).copied().unwrap_or(b' ');
    let in_tags = start.checked_sub(1).and_then(|at| text.get(at)) == Some(&b'>');
    let called = matches!(next, b'(' | b'[' | b'{') || next == b'<' && !in_tags;
    let code = quote.is_none() && (is_code(value, spaced) || called);
    if value.len() < VALUE_BYTES_MIN || !is_a_value(value) || is_reference(value) || code {
        return None;
    }
    until(text, start, stops)
}

/// Whether a member of this name, with this text, holds a secret.
pub(super) fn is_secret_of(name: &str, value: &[u8]) -> bool {
    // What was replaced in part keeps the rest, or it would change once more each time.
    value.len() >= VALUE_BYTES_MIN
        && is_secret_member(name)
        && is_a_value(value)
        && !is_reference(value)
        && segments(value).len() == 1
}

/// Where the value of an option begins that is a word of its own, `--password hunter22`, or the next
/// entry of a list, `"--password", "hunter22"`.
fn behind_option(text: &[u8], start: usize, end: usize) -> Option<(usize, bool)> {
    const NAME_MAX: usize = 40;
    let before = text.get(..start)?.iter().rev().take(NAME_MAX);
    let name = before.take_while(|byte| word(**byte)).count();
    let option = text.get(start - name..end)?.starts_with(b"--");
    if !option {
        return None;
    }
    match text.get(end) {
        Some(b' ') => Some((end + 1, false)),
        Some(&quote) if is_quote(quote) => {
            let blank = |from: usize| {
                let rest = text.get(from..).unwrap_or_default();
                from + rest.iter().take(GAP_MAX).take_while(|b| b.is_ascii_whitespace()).count()
            };
            let comma = blank(end + 1);
            let value = blank(comma + 1);
            // Another option is no value.
            let listed = text.get(comma) == Some(&b',')
                && text.get(value) == Some(&quote)
                && text.get(value + 1) != Some(&b'-');
            listed.then_some((value, false))
        }
        _ => None,
    }
}

/// Whether a value can be a secret: it has no form of ours and is not blanked out.
fn is_a_value(value: &[u8]) -> bool {
    !is_ours(value) && value.iter().any(|byte| Some(byte) != value.first())
}

/// Whether a value only names the place of another: `${TOKEN}`, `<your token>`, `{{ token }}`.
fn is_reference(value: &[u8]) -> bool {
    value.first().is_some_and(|first| b"$<{%&*".contains(first))
}

/// Whether an unquoted value reads like code: a path of names, or a name behind white space.
fn is_code(value: &[u8], spaced: bool) -> bool {
    let names = value.iter().all(|byte| byte.is_ascii_alphabetic() || b"_.:".contains(byte));
    names && (spaced || value.contains(&b'.') || find_bytes(value, b"::").is_some())
}
