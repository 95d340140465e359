//! The writers that are killed: each a process of the product, and somebody who listens to it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use countersign_format::hash::Hash;
use countersign_runtime::known_roots::KnownRoots;
use serde_json::{Value, json};

use super::judge::{Judge, Wrong};
use super::place::{Room, Writer, said, writer_at};
use crate::product;

/// Calls of a client before it leaves by itself.
const CALLS: u64 = 6;
/// How long somebody who is not killed may take.
const LONG: Duration = Duration::from_secs(120);
/// How long what a killed process printed may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Session,
    Flow,
    Dispatch,
    Claim,
    Mcp,
    Proxy,
    Hook,
}

impl Part {
    pub(super) const ALL: [Self; 7] = [
        Self::Session,
        Self::Flow,
        Self::Dispatch,
        Self::Claim,
        Self::Mcp,
        Self::Proxy,
        Self::Hook,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "run",
            Self::Flow => "flow run",
            Self::Dispatch => "work dispatch",
            Self::Claim => "work claim",
            Self::Mcp => "mcp",
            Self::Proxy => "proxy",
            Self::Hook => "hook",
        }
    }
}

/// What came of one writer.
pub(super) struct Heard {
    /// Texts that must be in some trace from now on.
    pub(super) told: Vec<String>,
    /// Whether it said any of it itself.
    pub(super) answered: bool,
    pub(super) killed: bool,
    pub(super) code: Option<i32>,
    /// What it said besides.
    pub(super) talk: String,
}

/// How a command ended.
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) talk: String,
}

/// A workspace with everything that the writers need.
pub(super) struct Stage {
    room: Room,
    root: Hash,
    own: PathBuf,
    /// What stands before the command of a part.
    wrapper: Vec<String>,
}

const TASK: &str = r#"
task_id = "fire"
objective = "Write something down"
[[steps]]
id = "write"
objective = "Run a tool twice"
actions = [{ tool = "exec", argv = ["true"], idempotent = true },
           { tool = "file_read", path = "task.toml", idempotent = true }]
claims = [{ text = "It was run" }]
"#;

const FLOW: &str = r#"
workflow = "fire"
feature_id = "005"
[agents.a]
kind = "command"
command = ["sh", "-c", "cat > /dev/null; cat envelope.json"]
time_seconds = 20
[[steps]]
id = "one"
agent = "a"
action = "one"
[[steps]]
id = "two"
agent = "a"
action = "two"
needs = ["one"]
"#;

const ENVELOPE: &str =
    r#"{"success":true,"summary":"done","artifacts":[],"notes":[],"recommendation":"proceed"}"#;

impl Stage {
    pub(super) fn new(name: &str) -> Result<Self, String> {
        let room = Room::on_disk(name)?;
        let own = std::env::current_exe().map_err(said("find this program"))?;
        let mut stage = Self { room, root: Hash::GENESIS, own, wrapper: Vec::new() };
        stage.done(&["init"])?;
        let mut work = "[work]\nlease_seconds = 5\nattempts = 1000\nparallel = 2\n".to_owned();
        for (phase, name) in [
            ("DRAFT", "drafter"),
            ("IMPLEMENTATION", "author"),
            ("READY_FOR_REVIEW", "coordinator"),
            ("REVIEW", "critic"),
            ("READY_FOR_MERGE", "merger"),
        ] {
            let signal = json!({
                "protocol": "apm2_agent_exit", "version": "1.0.0", "phase_completed": phase,
                "exit_reason": "completed",
            });
            let script = format!(
                "printf '%s %s\\n' \"$COUNTERSIGN_EXIT_NONCE\" '{signal}' >&\"$COUNTERSIGN_EXIT_FD\""
            );
            let command = json!(["sh", "-c", script]);
            work += &format!("[work.agents.{phase}]\nname = \"{name}\"\ncommand = {command}\n");
        }
        work += "[work.ci]\ncommand = [\"true\"]\n";
        let files = [
            ("task.toml", TASK),
            ("flow.toml", FLOW),
            ("envelope.json", ENVELOPE),
            ("countersign.toml", &work),
        ];
        for (name, text) in files {
            fs::write(stage.room.path(name), text).map_err(said("write a file"))?;
        }
        stage.root = stage.find_root()?;
        Ok(stage)
    }

    fn find_root(&self) -> Result<Hash, String> {
        let known = KnownRoots::new(&self.room.path("config")).list();
        let known = known.map_err(|error| error.to_string())?;
        let root = known.first().ok_or("the workspace has no root")?;
        Ok(root.fingerprint)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.room.path(".countersign")
    }

    /// Who says whether anything is lost here.
    pub(super) fn judge(&self) -> Judge {
        Judge::new(self.home(), self.root)
    }

    /// Whether everything that was told is there, and every trace verifies or is open.
    pub(super) fn look(&self, told: &BTreeSet<String>) -> Result<(), Wrong> {
        self.judge().look(told)
    }

    /// Has every part started by this program from now on.
    pub(super) fn wrap(&mut self, wrapper: Vec<String>) {
        self.wrapper = wrapper;
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.room.path(name)
    }

    /// The command of a part.
    fn part(&self, arguments: &[&str]) -> Command {
        self.wrapped(self.command(arguments))
    }

    fn wrapped(&self, inner: Command) -> Command {
        match self.wrapper.as_slice() {
            [] => inner,
            [program, more @ ..] => {
                let mut command = self.started(program);
                command.args(more).arg(inner.get_program()).args(inner.get_args());
                command
            }
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.started(product::binary());
        command.args(arguments);
        command
    }

    fn started(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.room.dir());
        command.env("COUNTERSIGN_CONFIG", self.room.path("config"));
        command.env("AGENT_EXIT_PROTOCOL_ENABLED", "true").env("USER", "somebody");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Result<Ended, String> {
        let output = self.command(arguments).output().map_err(said("run the product"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, talk) = (text(&output.stdout), text(&output.stderr));
        Ok(Ended { code: output.status.code(), out, talk })
    }

    /// Runs a command that must be done; gives what it printed.
    pub(super) fn done(&self, arguments: &[&str]) -> Result<String, String> {
        let ended = self.run(arguments)?;
        match ended.code {
            Some(0) => Ok(ended.out.trim_end().to_owned()),
            code => {
                let (out, talk) = (ended.out, ended.talk);
                Err(format!("`{}` ended with {code:?}: {out}{talk}", arguments.join(" ")))
            }
        }
    }

    /// A writer of the test kit in this workspace, started as the parts are.
    pub(super) fn writer(
        &self,
        recording: &str,
        arguments: &[&str],
        kind: Writer,
    ) -> Result<Command, String> {
        let config = self.room.path("config");
        let inner = writer_at(&config, &self.home(), recording, arguments, kind)?;
        Ok(self.wrapped(inner))
    }

    /// Lets a part be played, to its end or until it is killed.
    pub(super) fn play(
        &self,
        part: Part,
        number: u64,
        kill: Option<Duration>,
    ) -> Result<Heard, String> {
        match part {
            Part::Session => self.listen(&["run", "task.toml", "--json"], kill, event_id),
            Part::Flow => self.listen(&["flow", "run", "flow.toml", "--json"], kill, event_id),
            Part::Dispatch => {
                let item = self.run(&["work", "open", &format!("item {number}")])?;
                let mut heard =
                    self.listen(&["work", "dispatch", "--json"], kill, session_started)?;
                // Whoever opened it was told its id.
                heard.told.extend((item.code == Some(0)).then(|| item.out.trim_end().to_owned()));
                Ok(heard)
            }
            Part::Claim => {
                let item = self.done(&["work", "open", &format!("item {number}")])?;
                // Whoever claims it is told so; of as many digits each, so that no name holds another.
                let holder = format!("claimant-{number:09}");
                let claim = ["work", "claim", &item, "--for", "1s", "--as", &holder];
                let mut heard = self.listen(&claim, kill, |_| Some(holder.clone()))?;
                heard.told.push(item);
                Ok(heard)
            }
            Part::Mcp => self.converse(self.part(&["mcp"]), number, kill, receipt_in_answer),
            Part::Proxy => {
                let own = self.own.display().to_string();
                let arguments = ["proxy", "--name", "echo", "--", &own, "echo-server"];
                self.converse(self.part(&arguments), number, kill, hash_of_result)
            }
            Part::Hook => self.hook(number, kill),
        }
    }

    /// Hears every line that a command prints.
    fn listen(
        &self,
        arguments: &[&str],
        kill: Option<Duration>,
        told: impl Fn(&str) -> Option<String>,
    ) -> Result<Heard, String> {
        let child = self.part(arguments).spawn().map_err(said("start the product"))?;
        Ok(until_killed(child, kill, |_| {})?.heard(told))
    }

    /// Tells of an action that was done, as an agent's hook does.
    fn hook(&self, number: u64, kill: Option<Duration>) -> Result<Heard, String> {
        let done = json!({
            "event": "after", "client": "fire", "session": format!("s{}", number % 3),
            "call": format!("c{number}"),
            "action": { "type": "shell_exec", "tool": "shell", "command": format!("ls {number}"),
                        "arguments": { "cmd": "ls" } },
            "result": { "success": true, "output": "a\n", "duration_ms": 3 },
        });
        let mut command = self.part(&["hook", "generic"]);
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(said("start the hook"))?;
        if let Some(mut input) = child.stdin.take() {
            // It may be dead before it has read everything.
            let _ = input.write_all(done.to_string().as_bytes());
        }
        Ok(until_killed(child, kill, |_| {})?.heard(|line| {
            let answer: Value = serde_json::from_str(line).ok()?;
            Some(answer.get("receipt_hash")?.as_str()?.to_owned())
        }))
    }

    /// Speaks MCP with a process, one call after the other.
    fn converse(
        &self,
        mut command: Command,
        number: u64,
        kill: Option<Duration>,
        told: impl Fn(&str) -> Option<String>,
    ) -> Result<Heard, String> {
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(said("start a server"))?;
        let input = child.stdin.take().ok_or("no standard input")?;
        let mut client = Client { input: Some(input), number, asked: 0 };
        client.begin();
        Ok(until_killed(child, kill, |_| client.next())?.heard(told))
    }
}

/// A client that asks again as soon as it is answered.
struct Client {
    input: Option<ChildStdin>,
    number: u64,
    asked: u64,
}

impl Client {
    fn send(&mut self, message: &Value) {
        if let Some(input) = &mut self.input {
            // A server that was killed does not read; its end is heard elsewhere.
            let _ = input.write_all(format!("{message}\n").as_bytes());
        }
    }

    fn begin(&mut self) {
        self.send(&json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": { "protocolVersion": "2025-06-18", "capabilities": {},
                        "clientInfo": { "name": "fire", "version": "1" } },
        }));
    }

    fn next(&mut self) {
        if self.asked == 0 {
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        self.asked += 1;
        if self.asked > CALLS {
            self.input = None;
            return;
        }
        let what = format!("call {} of client {}", self.asked, self.number);
        self.send(&json!({
            "jsonrpc": "2.0", "id": self.asked, "method": "tools/call",
            "params": { "name": "capseal_record", "arguments": {
                "action_type": "code_edit", "description": what, "tool_name": "edit",
                "files_affected": ["src/a.txt"], "success": true,
            } },
        }));
    }
}

/// What a process said, and how it ended.
struct Said {
    lines: Vec<String>,
    killed: bool,
    code: Option<i32>,
    talk: String,
}

impl Said {
    /// What it was told, by what it said.
    fn heard(self, told: impl Fn(&str) -> Option<String>) -> Heard {
        let told: Vec<_> = self.lines.iter().filter_map(|line| told(line)).collect();
        let answered = !told.is_empty();
        Heard { told, answered, killed: self.killed, code: self.code, talk: self.talk }
    }
}

/// Reads the lines of a process until its end, which comes by itself or by a kill.
fn until_killed(
    mut child: Child,
    kill: Option<Duration>,
    mut heard: impl FnMut(&str),
) -> Result<Said, String> {
    let out = child.stdout.take().ok_or("no standard output")?;
    let mut err = child.stderr.take().ok_or("no standard error")?;
    let talk = std::thread::spawn(move || {
        let mut talk = String::new();
        let _ = err.read_to_string(&mut talk);
        talk
    });
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        let (mut out, mut line) = (BufReader::new(out), String::new());
        // A line without its end was cut off, and says nothing.
        while out.read_line(&mut line).is_ok_and(|got| got > 0 && line.ends_with('\n')) {
            if tell.send(line.trim_end().to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    let until = Instant::now() + kill.unwrap_or(LONG);
    let mut all = Vec::new();
    let ended = take(&lines, until, &mut all, &mut heard);
    let alive = child.try_wait().map_err(said("look at a process"))?.is_none();
    let killed = !ended && alive;
    if killed {
        child.kill().map_err(said("kill a process"))?;
    }
    let code = child.wait().map_err(said("wait for a process"))?.code();
    take(&lines, Instant::now() + LAST_WORDS, &mut all, &mut |_: &str| {});
    if kill.is_none() && killed {
        return Err(format!("a writer that nobody killed was not done in {LONG:?}"));
    }
    // What a killed process started may hold its standard error for longer than anybody waits.
    let talk = if killed { String::new() } else { talk.join().unwrap_or_default() };
    Ok(Said { lines: all, killed, code, talk })
}

/// Takes lines until then; whether there will be no more.
fn take(
    lines: &Receiver<String>,
    until: Instant,
    all: &mut Vec<String>,
    heard: &mut impl FnMut(&str),
) -> bool {
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                heard(&line);
                all.push(line);
            }
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
}

fn event_id(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    Some(format!("\"event_id\":\"{}\"", event.get("event_id")?.as_str()?))
}

fn session_started(line: &str) -> Option<String> {
    let news: Value = serde_json::from_str(line).ok()?;
    let session = news.get("session_id").or_else(|| news.get("session"))?.as_str()?;
    Some(format!("\"session_id\":\"{session}\""))
}

fn receipt_in_answer(line: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(line).ok()?;
    let given = answer.pointer("/result/structuredContent/receipt_hash");
    Some(given?.as_str()?.to_owned())
}

/// What the proxy keeps of a result is its bytes, as they stand in the line.
fn hash_of_result(line: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(line).ok()?;
    let text = answer.pointer("/result/content/0/text")?.as_str()?;
    let result = result_of(text);
    line.contains(&result).then(|| Hash::of(result.as_bytes()).to_hex())
}

fn result_of(text: &str) -> String {
    format!("{{\"content\":[{{\"text\":{},\"type\":\"text\"}}]}}", json!(text))
}

/// A server with one tool, which says what it was told.
pub(crate) fn echo_server() {
    let mut out = std::io::stdout();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let Ok(asked) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(id) = asked.get("id") else { continue };
        let result = match asked.get("method").and_then(Value::as_str) {
            Some("initialize") => json!({
                "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                "serverInfo": { "name": "echo", "version": "1" },
            })
            .to_string(),
            Some("tools/list") => {
                let tool = json!({ "name": "capseal_record", "inputSchema": { "type": "object" } });
                json!({ "tools": [tool] }).to_string()
            }
            Some("tools/call") => {
                let said = asked.pointer("/params/arguments/description");
                result_of(said.and_then(Value::as_str).unwrap_or_default())
            }
            _ => "{}".to_owned(),
        };
        let _ = writeln!(out, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
        let _ = out.flush();
    }
}
