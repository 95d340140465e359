//! What an agent's own program wrote down: the tool calls in a transcript of Claude Code.
//!
//! A transcript is JSON lines that nobody signed. It is taken as a list of calls that are to be found
//! in a trace, never as proof of anything. Lines of other sorts are searched for calls, and those
//! without one counted; a line that cannot be read might hide a call, so each of them is named.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::text::to_nfc;
use countersign_format::time::Timestamp;
use countersign_verify::open_regular;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::secrets::Redactor;

/// Bytes of a line: results of tools stand in them, images included.
pub const TRANSCRIPT_LINE_BYTES_MAX: usize = 32 << 20;
/// Bytes of a transcript.
pub const TRANSCRIPT_BYTES_MAX: u64 = 4 << 30;
/// Calls of a transcript.
pub const TRANSCRIPT_CALLS_MAX: usize = 500_000;
/// Elements of the JSON of a line.
const ELEMENTS_MAX: usize = 2_000_000;
/// Lines that cannot be read and are named one by one.
const BAD_LINES_MAX: usize = 1_000;
/// Characters of an input that are kept to show what a call was.
const SHOWN_CHARACTERS_MAX: usize = 160;
/// Characters of the name of a tool or of a call.
const NAME_CHARACTERS_MAX: usize = 256;

/// Why a transcript could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is too long.
    #[error("it has more than {TRANSCRIPT_BYTES_MAX} bytes")]
    TooLong,
    /// It names too many calls.
    #[error("it names more than {TRANSCRIPT_CALLS_MAX} calls")]
    TooManyCalls,
    /// It is something else, or empty.
    #[error("no line of it is one of a transcript")]
    NotOne,
}

/// What a transcript says.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// What the file is called, without its directory.
    pub name: String,
    /// Hash of its bytes.
    pub sha256: Option<Hash>,
    /// Its lines.
    pub lines: u64,
    /// Lines that say nothing of calls.
    pub other_lines: u64,
    /// Whether its last line is torn.
    pub torn: bool,
    /// Calls that the model's provider ran by itself.
    pub server_calls: u64,
    /// Lines that could not be read, by number from 1, and why not.
    pub bad_lines: Vec<(u64, &'static str)>,
    /// How many more of those there are.
    pub more_bad_lines: u64,
    /// The calls, in their order, each once.
    pub calls: Vec<TranscriptCall>,
    /// The call that an id stands for at this place.
    places: BTreeMap<String, usize>,
    known: BTreeMap<CallKey, usize>,
    understood: u64,
}

/// What makes two calls of transcripts one: id, tool, and arguments.
pub(super) type CallKey = (String, String, Vec<Hash>, String);

/// A call in a transcript. Whatever could be shown of it is without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptCall {
    /// What the agent's program calls it.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// When, as the transcript says.
    pub at: Option<Timestamp>,
    /// Whether a sub-agent made it.
    pub by_sub_agent: bool,
    /// Its arguments, as far as they are shown.
    pub input: String,
    /// Hashes that the recorded arguments can have: as they are, and without secrets.
    pub hashes: Vec<Hash>,
    /// What became of it.
    pub result: CallResult,
}

/// What a transcript says became of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallResult {
    /// There is no result.
    #[default]
    Unknown,
    /// It gave an error: it failed, or was refused.
    Error,
    /// It gave a result.
    Ran,
}

impl Transcript {
    /// Reads the transcript in `path`; nothing of it is kept with the secrets that `redactor` knows.
    ///
    /// # Errors
    /// It cannot be read, is too large, or is something else.
    pub fn read(path: &Path, redactor: &Redactor) -> Result<Self, TranscriptError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self::from_reader(&name, open_regular(path)?, redactor)
    }

    /// Reads a transcript that is called `name`.
    ///
    /// # Errors
    /// As for [`Transcript::read`].
    pub fn from_reader(
        name: &str,
        from: impl Read,
        redactor: &Redactor,
    ) -> Result<Self, TranscriptError> {
        let mut transcript = Self { name: shown(name, redactor), ..Self::default() };
        let mut lines = Lines {
            reader: BufReader::with_capacity(256 << 10, from.take(TRANSCRIPT_BYTES_MAX + 1)),
            hasher: Sha256::new(),
            bytes: 0,
            line: Vec::new(),
        };
        while let Some(cut) = lines.next()? {
            if lines.bytes > TRANSCRIPT_BYTES_MAX {
                return Err(TranscriptError::TooLong);
            }
            transcript.lines += 1;
            let read = match cut {
                Cut::TooLong => Err("it is too long"),
                Cut::Whole | Cut::Torn => document(&lines.line),
            };
            match (read, cut) {
                (Ok(document), _) => transcript.take(&document, redactor)?,
                // Its writer is at it, or died.
                (Err(_), Cut::Torn) => transcript.torn = true,
                (Err(why), _) if transcript.bad_lines.len() < BAD_LINES_MAX => {
                    transcript.bad_lines.push((transcript.lines, why));
                }
                (Err(_), _) => transcript.more_bad_lines += 1,
            }
        }
        transcript.sha256 = Some(Hash::from_bytes(lines.hasher.finalize().into()));
        // A file of which nothing is understood says nothing, least of all that all is well.
        match transcript.understood {
            0 => Err(TranscriptError::NotOne),
            _ => Ok(transcript),
        }
    }

    fn take(&mut self, document: &Document, redactor: &Redactor) -> Result<(), TranscriptError> {
        let line = &document.value;
        let text = |name: &str| line.get(name).and_then(Value::as_str);
        let sort = text("type");
        let is_sub = line.get("isSidechain").and_then(Value::as_bool).unwrap_or(false);
        let mut found = FoundItems {
            at: text("timestamp").and_then(|at| at.parse().ok()),
            by_sub_agent: is_sub || text("agentId").is_some_and(|id| !id.is_empty()),
            strict: document.strict,
            any: false,
        };
        let content = line.pointer("/message/content").and_then(Value::as_array);
        let content = content.filter(|_| matches!(sort, Some("assistant" | "user")));
        if let Some(content) = content {
            for item in content {
                self.take_item(item, &mut found, redactor)?;
            }
        } else {
            // A line of a sort that nobody knows may hold the calls of a sub-agent, at any depth.
            found.by_sub_agent = true;
            self.search(line, &mut found, redactor)?;
        }
        self.understood += u64::from(sort.is_some() || found.any);
        self.other_lines += u64::from(content.is_none() && !found.any);
        Ok(())
    }

    /// Looks for calls and their results in whatever a value holds.
    fn search(
        &mut self,
        value: &Value,
        found: &mut FoundItems,
        redactor: &Redactor,
    ) -> Result<(), TranscriptError> {
        match value {
            Value::Array(values) => {
                for value in values {
                    self.search(value, found, redactor)?;
                }
            }
            Value::Object(members) => {
                if self.take_item(value, found, redactor)? {
                    return Ok(());
                }
                for value in members.values() {
                    self.search(value, found, redactor)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes a call, or the result of one, in. Says whether it is one of these.
    fn take_item(
        &mut self,
        item: &Value,
        found: &mut FoundItems,
        redactor: &Redactor,
    ) -> Result<bool, TranscriptError> {
        let member = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        match member("type") {
            "tool_use" => {
                let mut call = TranscriptCall {
                    id: shown(member("id"), redactor),
                    tool: shown(member("name"), redactor),
                    at: found.at,
                    by_sub_agent: found.by_sub_agent,
                    input: String::new(),
                    hashes: Vec::new(),
                    result: CallResult::Unknown,
                };
                call.look_at(item.get("input"), found.strict, redactor);
                self.add(call)?;
            }
            "server_tool_use" | "mcp_tool_use" => self.server_calls += 1,
            "tool_result" => {
                let failed = item.get("is_error").and_then(Value::as_bool).unwrap_or(false);
                let result = if failed { CallResult::Error } else { CallResult::Ran };
                let place = self.places.get(&shown(member("tool_use_id"), redactor));
                if let Some(call) = place.and_then(|&place| self.calls.get_mut(place)) {
                    call.result = call.result.max(result);
                }
            }
            _ => return Ok(false),
        }
        found.any = true;
        Ok(true)
    }

    /// A session that is resumed repeats its lines: a call counts once. Another call under the same
    /// name is another call, and the results that follow are its own.
    fn add(&mut self, call: TranscriptCall) -> Result<(), TranscriptError> {
        let place = match self.known.get(&call.key()) {
            Some(&place) => place,
            None if self.calls.len() >= TRANSCRIPT_CALLS_MAX => {
                return Err(TranscriptError::TooManyCalls);
            }
            None => {
                self.known.insert(call.key(), self.calls.len());
                self.calls.push(call.clone());
                self.calls.len() - 1
            }
        };
        self.places.insert(call.id, place);
        Ok(())
    }
}

/// What is known of the items of a line, and whether there were any.
struct FoundItems {
    at: Option<Timestamp>,
    by_sub_agent: bool,
    strict: bool,
    any: bool,
}

impl TranscriptCall {
    /// By what it is known as the same call in another place.
    pub(super) fn key(&self) -> CallKey {
        let input = if self.hashes.is_empty() { self.input.clone() } else { String::new() };
        (self.id.clone(), self.tool.clone(), self.hashes.clone(), input)
    }

    /// Takes in what goes into the call. Secrets are looked for in all of it before it is cut.
    fn look_at(&mut self, input: Option<&Value>, strict: bool, redactor: &Redactor) {
        let canonical = json::to_bytes(input.unwrap_or(&Value::Null));
        let clean = redactor.redact(&canonical).bytes;
        self.input = cut(&String::from_utf8_lossy(&clean), SHOWN_CHARACTERS_MAX);
        if !strict {
            return;
        }
        self.hashes.push(Hash::of(&canonical));
        let again = json::read_within(&clean, TRANSCRIPT_LINE_BYTES_MAX, ELEMENTS_MAX);
        let again = again.ok().map(|value| Hash::of(&json::to_bytes(&value)));
        self.hashes.extend(again.filter(|hash| !self.hashes.contains(hash)));
    }
}

/// A line as it was read.
struct Document {
    value: Value,
    /// Whether its JSON has one meaning, so that what is in it has a canonical form.
    strict: bool,
}

fn document(line: &[u8]) -> Result<Document, &'static str> {
    if let Ok(value) = json::read_within(line, TRANSCRIPT_LINE_BYTES_MAX, ELEMENTS_MAX) {
        return Ok(Document { value, strict: true });
    }
    let value = serde_json::from_slice(line).map_err(|_| "it is no JSON")?;
    Ok(Document { value, strict: false })
}

/// A name as it may be shown and compared.
fn shown(name: &str, redactor: &Redactor) -> String {
    to_nfc(&cut(&redactor.redact_text(name).0, NAME_CHARACTERS_MAX))
}

/// The beginning of a text.
pub(super) fn cut(text: &str, characters: usize) -> String {
    let short: String = text.chars().take(characters).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

/// How a line ends.
#[derive(Clone, Copy)]
enum Cut {
    Whole,
    Torn,
    TooLong,
}

/// Lines in bounded memory, with the hash of all that was read.
struct Lines<R> {
    reader: BufReader<R>,
    hasher: Sha256,
    bytes: u64,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    fn next(&mut self) -> io::Result<Option<Cut>> {
        self.line.clear();
        let (mut any, mut too_long) = (false, false);
        loop {
            let available = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available?,
            };
            if available.is_empty() {
                return Ok(match (any, too_long) {
                    (false, _) => None,
                    (true, true) => Some(Cut::TooLong),
                    (true, false) => Some(Cut::Torn),
                });
            }
            any = true;
            let end = available.iter().position(|&byte| byte == b'\n');
            let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            if self.line.len() + part.len() > TRANSCRIPT_LINE_BYTES_MAX {
                too_long = true;
                self.line.clear();
            } else if !too_long {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.hasher.update(available.get(..used).unwrap_or_default());
            self.bytes += used as u64;
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(if too_long { Cut::TooLong } else { Cut::Whole }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Transcript, TranscriptError> {
        Transcript::from_reader("t.jsonl", text.as_bytes(), &Redactor::none())
    }

    fn used(id: &str, command: &str) -> String {
        let item = json!({ "type": "tool_use", "id": id, "name": "Bash",
            "input": { "command": command } });
        let line = json!({ "type": "assistant", "timestamp": "2026-02-03T04:05:06.000Z",
            "message": { "role": "assistant", "content": [{ "type": "text", "text": "x" }, item] } });
        format!("{line}\n")
    }

    fn result(id: &str, is_error: bool) -> String {
        let item = json!({ "type": "tool_result", "tool_use_id": id, "is_error": is_error });
        format!("{}\n", json!({ "type": "user", "message": { "content": [item] } }))
    }

    #[test]
    fn calls_are_read_with_what_became_of_them() {
        let text = used("toolu_1", "ls")
            + &result("toolu_1", false)
            + &used("toolu_2", "rm")
            + &result("toolu_2", true)
            + &used("toolu_3", "cat")
            + "{\"type\":\"summary\",\"summary\":\"x\"}\n";
        let read = read(&text).unwrap();
        let seen: Vec<_> = read.calls.iter().map(|it| (&*it.id, &*it.input, it.result)).collect();
        assert_eq!(
            seen,
            [
                ("toolu_1", "{\"command\":\"ls\"}", CallResult::Ran),
                ("toolu_2", "{\"command\":\"rm\"}", CallResult::Error),
                ("toolu_3", "{\"command\":\"cat\"}", CallResult::Unknown),
            ]
        );
        assert_eq!((read.lines, read.other_lines, read.torn), (6, 1, false));
        assert_eq!(read.calls[0].hashes, [Hash::of(b"{\"command\":\"ls\"}")]);
        assert_eq!(read.sha256, Some(Hash::of(text.as_bytes())));
    }

    #[test]
    fn a_call_in_a_line_of_an_unknown_sort_is_one_of_a_sub_agent() {
        let item = json!({ "type": "tool_use", "id": "toolu_2", "name": "Bash",
            "input": { "command": "rm" } });
        let said = json!({ "type": "assistant", "message": { "content": [item] } });
        let result = json!({ "type": "tool_result", "tool_use_id": "toolu_2", "content": "ok" });
        let lines = [
            json!({ "type": "progress", "data": { "type": "agent_progress", "message": said } }),
            json!({ "data": [[{ "message": { "content": [result] } }]] }),
            json!({ "type": "progress", "data": "nothing" }),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let read = read(&(used("toolu_1", "ls") + &text)).unwrap();
        let seen: Vec<_> =
            read.calls.iter().map(|it| (&*it.id, it.by_sub_agent, it.result)).collect();
        assert_eq!(
            seen,
            [("toolu_1", false, CallResult::Unknown), ("toolu_2", true, CallResult::Ran)]
        );
        assert_eq!((read.lines, read.other_lines), (4, 1));
    }

    #[test]
    fn a_result_belongs_to_the_call_before_it() {
        let text = used("a", "ls") + &result("a", true) + &used("a", "rm") + &result("a", false);
        let read = read(&(text.clone() + &text)).unwrap();
        let seen: Vec<_> = read.calls.iter().map(|it| (&*it.input, it.result)).collect();
        assert_eq!(
            seen,
            [
                ("{\"command\":\"ls\"}", CallResult::Error),
                ("{\"command\":\"rm\"}", CallResult::Ran)
            ]
        );
    }

    #[test]
    fn a_repeated_call_counts_once_and_another_under_its_name_is_another() {
        let text = used("toolu_1", "ls") + &used("toolu_1", "ls") + &used("toolu_1", "rm");
        let inputs: Vec<_> = read(&text).unwrap().calls.into_iter().map(|it| it.input).collect();
        assert_eq!(inputs, ["{\"command\":\"ls\"}", "{\"command\":\"rm\"}"]);
    }

    #[test]
    fn a_torn_end_is_no_line_and_what_cannot_be_read_is_named() {
        let text = used("toolu_1", "ls") + "not json\n" + "{\"type\":\"assis";
        let read = read(&text).unwrap();
        assert_eq!((read.bad_lines, read.torn), (vec![(2, "it is no JSON")], true));
        // A last line that lacks its line break only is one all the same.
        let text = used("toolu_1", "ls");
        let whole = super::tests::read(text.trim_end()).unwrap();
        assert_eq!((whole.calls.len(), whole.torn), (1, false));
    }

    #[test]
    fn something_else_is_no_transcript() {
        for text in ["", "hello\n", "[]\n{\"a\":1}\n"] {
            assert!(matches!(read(text), Err(TranscriptError::NotOne)), "{text}");
        }
    }

    #[test]
    fn secrets_are_replaced_before_anything_is_cut() {
        let secret = "zq81-very-secret-value-77xk";
        let redactor = Redactor::new([(OsString::from("DEPLOY_TOKEN"), OsString::from(secret))]);
        // The cut would leave the first half of it.
        let command = format!("{} {secret}", "x".repeat(SHOWN_CHARACTERS_MAX - 20));
        let text = used("toolu_1", &command);
        let read = Transcript::from_reader("t", text.as_bytes(), &redactor).unwrap();
        assert!(!read.calls[0].input.contains("zq81"), "{}", read.calls[0].input);
        assert_eq!(read.calls[0].hashes.len(), 2);
    }

    #[test]
    fn a_line_that_is_too_long_is_named_and_not_held() {
        let long = "x".repeat(TRANSCRIPT_LINE_BYTES_MAX + 1);
        let read = read(&format!("{}{long}\n{}", used("a", "ls"), used("b", "ls"))).unwrap();
        assert_eq!((read.bad_lines, read.calls.len()), (vec![(2, "it is too long")], 2));
    }
}
