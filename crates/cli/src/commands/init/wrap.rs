//! `countersign init --wrap`: every server of an MCP client goes through the proxy, or no longer.
//!
//! What was there can be told from what is there, to the byte: a program stands as it was written
//! behind the proxy's own arguments, and of a server with an address the whole entry is kept in a
//! variable. So nothing has to be remembered elsewhere, and what others change meanwhile stays.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::client::{edited_file, store};
use super::client_file::{ServerList, server_lists};
use super::edited::{not_edited, replace};
use super::json_text::{
    JsonFault, Layout, Member, Node, inserted, node_at, plain, removed, spliced,
};
use crate::commands::proxy::WRAPPED_VARIABLE;
use crate::{Caller, CommandError, Exit, Format};

/// What the arguments of an added list begin with; ours begin without the space in a list that was
/// there.
const ADDED: &str = "[ \"--home\"";
/// What keeps a proxy from stopping anything; behind its name.
const SHADOW: &str = "--shadow";
/// Members of an entry that we made anew.
const OURS: [&str; 4] = ["type", "command", "args", "env"];

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Wrap,
    /// The same with proxies that decide and record, but stop nothing.
    WrapInShadow,
    Unwrap,
}

/// How a client starts the proxy.
#[derive(Debug, Clone)]
struct Proxy {
    program: String,
    home: String,
    /// Whether it stops nothing.
    shadow: bool,
}

/// What became of each server.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    changed: Vec<String>,
    /// Those that cannot be wrapped, with the reason.
    left: Vec<(String, &'static str)>,
}

pub(super) fn run(
    client: Option<&Path>,
    direction: Direction,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    let undo = direction == Direction::Unwrap;
    let home = store(undo, caller)?;
    let file = edited_file(client, &home);
    let text = fs::read_to_string(&file).map_err(|error| {
        let doing = format!("cannot read `{}`", file.display());
        CommandError::failed_doing(doing, error)
            .with_hint("name the client's configuration with `--client FILE`")
    })?;
    let proxy = proxy(&home, direction == Direction::WrapInShadow)?;
    let edited = match direction {
        Direction::Wrap | Direction::WrapInShadow => wrapped(&text, &proxy),
        Direction::Unwrap => unwrapped(&text, &proxy),
    };
    let (new, changes) = edited.map_err(|fault| {
        CommandError::failed_doing(format!("left `{}` as it is", file.display()), fault)
    })?;
    if new != text {
        replace(&file, &new, None).map_err(|error| not_edited(&file, error))?;
    }
    tell(caller, &file, &changes, direction)
}

fn proxy(home: &Path, shadow: bool) -> Result<Proxy, CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::failed_doing("cannot tell where this program is", error))?;
    let text = |path: PathBuf| {
        path.into_os_string().into_string().map_err(|path| {
            let error = format!("`{}` cannot be written in JSON: it is not UTF-8", path.display());
            CommandError::failed(error)
        })
    };
    Ok(Proxy { program: text(program)?, home: text(home.to_owned())?, shadow })
}

fn tell(
    caller: &mut Caller,
    file: &Path,
    changes: &Changes,
    direction: Direction,
) -> Result<Exit, CommandError> {
    let (output, file) = (&mut caller.output, file.display().to_string());
    let Changes { changed, left } = changes;
    for (server, why) in left {
        output.warning(format_args!("`{server}` is left as it is: {why}"));
    }
    if output.format() == Format::Json {
        output.json(&json!({ "client": file, "servers": changed }))?;
        return Ok(Exit::Done);
    }
    output.line(format_args!("client  {file}"))?;
    for server in changed {
        output.line(format_args!("server  {server}"))?;
    }
    match (changed.is_empty(), direction) {
        (true, _) => output.note("nothing to change"),
        (false, Direction::Wrap | Direction::WrapInShadow) => {
            output.note(
                "start your client anew; every call of these servers' tools is then recorded",
            );
        }
        (false, Direction::Unwrap) => output.note("as before; start your client anew"),
    }
    Ok(Exit::Done)
}

/// A server in a text: where, and what it is called there.
struct Server<'l> {
    list: &'l ServerList,
    member: &'l Member,
}

impl Server<'_> {
    fn shown(&self) -> String {
        match self.list.within.as_str() {
            "" => self.member.key.clone(),
            within => format!("{} ({within})", self.member.key),
        }
    }
}

/// All servers, from the last to the first, so that places before a change stay what they are.
fn servers(lists: &[ServerList]) -> Vec<Server<'_>> {
    let all = lists
        .iter()
        .flat_map(|list| list.servers.members().iter().map(move |member| Server { list, member }));
    let mut all: Vec<Server<'_>> = all.collect();
    all.sort_by_key(|server| std::cmp::Reverse(server.member.value.span.start));
    all
}

/// Why a file is left alone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum WrapFault {
    #[error(transparent)]
    Text(#[from] JsonFault),
    #[error("it lists no servers, neither in `mcpServers` nor in `servers`")]
    NoServers,
}

/// The lists of servers; at least one.
fn lists_of(text: &str) -> Result<Vec<ServerList>, WrapFault> {
    let lists = server_lists(text)?;
    if lists.is_empty() { Err(WrapFault::NoServers) } else { Ok(lists) }
}

/// The text with every server behind the proxy.
fn wrapped(text: &str, proxy: &Proxy) -> Result<(String, Changes), WrapFault> {
    let lists = lists_of(text)?;
    let mut changes = Changes::default();
    let mut new = text.to_owned();
    for server in servers(&lists) {
        let member = server.member;
        let raw = text.get(member.value.span.clone()).unwrap_or_default();
        let value = member.value.value(text).unwrap_or_default();
        let is = |name: &str| value.get(name).is_some_and(Value::is_string);
        let done = match proxy.place_of(&member.key, &value) {
            Place::Ours => continue,
            Place::OtherStore => Err("it goes through the proxy of another workspace"),
            Place::OtherProgram | Place::OtherChoice => moved(&new, member, proxy),
            Place::Elsewhere if is("command") => program_wrapped(&new, member, &value, proxy),
            Place::Elsewhere if is("url") => {
                address_wrapped(&new, &server.list.servers, member, raw, &value, proxy)
            }
            Place::Elsewhere => Err("it has neither a command nor an address"),
        };
        match done {
            Ok(edited) => {
                new = edited;
                changes.changed.insert(0, server.shown());
            }
            Err(why) => changes.left.insert(0, (server.shown(), why)),
        }
    }
    Ok((new, changes))
}

/// Where the calls of a server go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Through this program into this store, as a proxy or as a server of its own.
    Ours,
    /// Through this program into another store.
    OtherStore,
    /// Through a proxy of ours that lies, or lay, somewhere else.
    OtherProgram,
    /// The same as ours, but for what it stops.
    OtherChoice,
    Elsewhere,
}

impl Proxy {
    /// Where the calls of the server `key` go. An entry is ours if it has exactly the form of ours.
    fn place_of(&self, key: &str, entry: &Value) -> Place {
        let argument = |at: usize| entry.get("args")?.get(at)?.as_str();
        let program = entry.get("command").and_then(Value::as_str).unwrap_or_default();
        let shadow = argument(4) == Some(SHADOW);
        let wrapped = argument(2) == Some("proxy")
            && argument(3) == Some(format!("--name={key}").as_str())
            && matches!(argument(4 + usize::from(shadow)), Some("--" | "--wrapped"));
        let own = argument(2) == Some("mcp") && matches!(argument(3), None | Some(SHADOW));
        if argument(0) != Some("--home") || !(wrapped || own) {
            return Place::Elsewhere;
        }
        let same = program == self.program
            || fs::canonicalize(program).is_ok_and(|it| it == Path::new(&self.program));
        let named = |path: &str| Path::new(path).file_name().map(ToOwned::to_owned);
        match (same, argument(1) == Some(self.home.as_str())) {
            (true, true) if wrapped && shadow != self.shadow => Place::OtherChoice,
            (true, true) => Place::Ours,
            (true, false) => Place::OtherStore,
            (false, _) if wrapped && named(program) == named(&self.program) => Place::OtherProgram,
            (false, _) => Place::Elsewhere,
        }
    }

    /// Whether `init --wrap` made an entry, of this program or of one that lay somewhere else.
    fn wrapped(&self, key: &str, entry: &Value) -> bool {
        self.place_of(key, entry) != Place::Elsewhere
            && entry.pointer("/args/2").and_then(Value::as_str) == Some("proxy")
    }
}

/// The text with a server behind this proxy that was behind another one of ours.
fn moved(text: &str, member: &Member, proxy: &Proxy) -> Result<String, &'static str> {
    let object = node_at(text, member.value.span.start);
    let twice = "it has a member twice";
    let command = object.only("command").map_err(|_| twice)?.ok_or("it has no command")?;
    let args = object.only("args").map_err(|_| twice)?.ok_or("it has no arguments")?;
    let list = args.value.elements();
    let at =
        |place: usize| list.get(place).map(|node| node.span.clone()).ok_or("it has no arguments");
    let mut edits =
        vec![(command.value.span.clone(), literal(&proxy.program)), (at(1)?, literal(&proxy.home))];
    let (name, next) = (at(3)?, at(4)?);
    match (text.get(next.clone()) == Some(&literal(SHADOW)), proxy.shadow) {
        (true, false) => edits.push((name.end..next.end, String::new())),
        (false, true) => {
            let gap = text.get(name.end..next.start).unwrap_or(", ");
            edits.push((name.end..name.end, format!("{gap}{}", literal(SHADOW))));
        }
        _ => {}
    }
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let edit = |text: String, (span, new): &(_, String)| spliced(&text, Clone::clone(span), new);
    Ok(edits.iter().fold(text.to_owned(), edit))
}

/// The arguments of the proxy, up to where the server's own begin.
fn arguments(proxy: &Proxy, server: &str) -> Vec<String> {
    let name = format!("--name={server}");
    let always = ["--home".to_owned(), proxy.home.clone(), "proxy".to_owned(), name];
    always.into_iter().chain(proxy.shadow.then(|| SHADOW.to_owned())).collect()
}

fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

fn program_wrapped(
    text: &str,
    member: &Member,
    value: &Value,
    proxy: &Proxy,
) -> Result<String, &'static str> {
    let object = node_at(text, member.value.span.start);
    let twice = "it has a member twice";
    let command = object.only("command").map_err(|_| twice)?.ok_or("it has no command")?;
    let args = object.only("args").map_err(|_| twice)?;
    let command = command.value.span.clone();
    let own = text.get(command.clone()).unwrap_or_default();
    let ours = arguments(proxy, &member.key);
    let ours: Vec<String> = ours.iter().map(|argument| literal(argument)).collect();
    let ours = format!("{}, \"--\", {own}", ours.join(", "));
    let (args_at, args_text) = match args {
        None => (command.end, format!(", \"args\": [ {ours}]")),
        Some(args) => match value.get("args").and_then(Value::as_array) {
            Some(list) if list.iter().all(Value::is_string) => {
                let comma = if list.is_empty() { "" } else { ", " };
                (args.value.span.start + 1, format!("{ours}{comma}"))
            }
            _ => return Err("its arguments are no list of texts"),
        },
    };
    let program = literal(&proxy.program);
    // The later one first.
    let edit = |text: String, first: bool| match first == (args_at >= command.end) {
        true => spliced(&text, args_at..args_at, &args_text),
        false => spliced(&text, command.clone(), &program),
    };
    Ok(edit(edit(text.to_owned(), true), false))
}

fn address_wrapped(
    text: &str,
    servers: &Node,
    member: &Member,
    raw: &str,
    value: &Value,
    proxy: &Proxy,
) -> Result<String, &'static str> {
    let kind = value.get("type").or_else(|| value.get("transport")).and_then(Value::as_str);
    match kind {
        None | Some("http" | "streamable-http" | "streamableHttp" | "streamable_http") => {}
        Some("sse") => return Err("its transport, HTTP with SSE, is not spoken by the proxy"),
        Some(_) => return Err("its transport is not known"),
    }
    let mut args = arguments(proxy, &member.key);
    args.push("--wrapped".to_owned());
    let mut entry = json!({
        "command": proxy.program, "args": args, "env": { WRAPPED_VARIABLE: raw },
    });
    if let (Some(entry), true) = (entry.as_object_mut(), value.get("type").is_some()) {
        entry.insert("type".to_owned(), Value::from("stdio"));
    }
    let entry = Layout::of(text, servers).value(&entry);
    Ok(spliced(text, member.value.span.clone(), &entry))
}

/// The text with every server as it was before.
fn unwrapped(text: &str, proxy: &Proxy) -> Result<(String, Changes), WrapFault> {
    let lists = lists_of(text)?;
    let mut changes = Changes::default();
    let mut new = text.to_owned();
    for server in servers(&lists) {
        let member = server.member;
        let value = member.value.value(text).unwrap_or_default();
        if !proxy.wrapped(&member.key, &value) {
            continue;
        }
        let kept = value.get("env").and_then(|env| env.get(WRAPPED_VARIABLE));
        let done = match kept.and_then(Value::as_str) {
            Some(kept) => address_unwrapped(&new, member, &value, kept),
            None => program_unwrapped(&new, member),
        };
        match done {
            Some(edited) => {
                new = edited;
                changes.changed.insert(0, server.shown());
            }
            None => changes.left.insert(0, (server.shown(), "it is not as it was wrapped")),
        }
    }
    Ok((new, changes))
}

fn program_unwrapped(text: &str, member: &Member) -> Option<String> {
    let object = node_at(text, member.value.span.start);
    let command = object.only("command").ok()??.value.span.clone();
    let at = object.members().iter().position(|member| member.key == "args")?;
    let args = &object.only("args").ok()??.value;
    let list = args.elements();
    let behind = list.iter().position(|it| text.get(it.span.clone()) == Some("\"--\""))?;
    let own = &list.get(behind + 1)?.span;
    let program = text.get(own.clone())?.to_owned();
    let added = text.get(args.span.clone())?.starts_with(ADDED) && list.len() == behind + 2;
    let shorter = |text: &str| match added {
        true => Some(removed(text, &object, at)),
        false => {
            let after = text.get(own.end..)?;
            let comma = match list.len() > behind + 2 {
                true => after
                    .strip_prefix(", ")
                    .map_or_else(|| plain(after).find(',').map(|at| at + 1), |_| Some(2))?,
                false => 0,
            };
            Some(spliced(text, args.span.start + 1..own.end + comma, ""))
        }
    };
    // The later one first.
    if args.span.start >= command.end {
        Some(spliced(&shorter(text)?, command, &program))
    } else {
        shorter(&spliced(text, command, &program))
    }
}

fn address_unwrapped(text: &str, member: &Member, value: &Value, kept: &str) -> Option<String> {
    serde_json::from_str::<Value>(&plain(kept)).ok().filter(Value::is_object)?;
    let mut new = spliced(text, member.value.span.clone(), kept);
    // What somebody else has added since stays.
    for (name, added) in
        value.as_object()?.iter().filter(|(name, _)| !OURS.contains(&name.as_str()))
    {
        new = inserted(&new, &node_at(&new, member.value.span.start), Some(name), added);
    }
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy() -> Proxy {
        Proxy { program: "/bin/countersign".into(), home: "/w/.countersign".into(), shadow: false }
    }

    fn wrap(text: &str) -> String {
        wrapped(text, &proxy()).unwrap().0
    }

    #[test]
    fn a_program_goes_behind_the_proxy_as_it_was_written() {
        let text = r#"{"mcpServers":{"git":{"command":"uvx","args":["mcp-server-git","-v"],"env":{"A":"b"}}}}"#;
        let expected = concat!(
            r#"{"mcpServers":{"git":{"command":"/bin/countersign","args":["--home", "/w/.countersign", "#,
            r#""proxy", "--name=git", "--", "uvx", "mcp-server-git","-v"],"env":{"A":"b"}}}}"#
        );
        assert_eq!(wrap(text), expected);
    }

    /// Whatever the layout, every byte is back afterwards, and wrapping twice is wrapping once.
    #[test]
    fn unwrapping_gives_back_every_byte() {
        for text in [
            r#"{"mcpServers":{"git":{"command":"uvx","args":["a"]}}}"#,
            r#"{"mcpServers":{"a":{"command":"x"},"b":{"args":[],"command":"y"},"c":{"command":"z","args":[ ]}}}"#,
            "{\n\t\"mcpServers\" : {\n\t\t\"a b\": {\n\t\t\t\"args\" : [\n\t\t\t\t\"-y\",\n\t\t\t\t\"\\u0041\"\n\t\t\t],\n\
             \t\t\t\"command\" :\"n\\u0070x\",\n\t\t\t\"n\": 1.50\n\t\t}\n\t},\n\t\"z\": []\n}\n",
            "{\"servers\": {\"x\": {\"type\": \"stdio\", \"command\": \"c\",\r\n \"cwd\": \"/a\"}}}\r\n",
            "{\"mcpServers\": {\"h\": {\"type\":\"http\",  \"url\":\"https://a.example/mcp\",\n\
             \"headers\": {\"Authorization\": \"Bearer ${T}\"} }, \"i\": {\"url\": \"http://b.example\"}}}",
            r#"{"mcpServers":{"":{"command":"--","args":["--"]}}}"#,
            r#"{"mcpServers":{}}"#,
            "{ // mine\n  \"servers\": {\n    /* git */ \"git\": { \"type\": \"stdio\", // local\n      \"command\": \"uvx\", /* of uv */\n\
             \x20     \"args\": [ // two\n        \"mcp-server-git\", // one\n        \"-v\",\n      ], },\n    // \"off\": { \"command\": \"x\" },\n\
             \x20   \"far\": { \"url\": \"https://a.example/mcp\", // \"headers\": {},\n    },\n\
             \x20   \"bare\": { \"command\": \"y\", /* no arguments */ },\n  },\n  \"inputs\": [],\n}\n",
        ] {
            let once = wrap(text);
            let value: Value = serde_json::from_str(&plain(&once)).unwrap();
            let servers = value.get("mcpServers").or(value.get("servers")).unwrap();
            for (name, entry) in servers.as_object().unwrap() {
                assert_eq!(entry["command"], json!("/bin/countersign"), "{once}");
                assert_eq!(entry["args"][3], json!(format!("--name={name}")), "{once}");
            }
            assert_eq!(wrap(&once), once);
            let back = unwrapped(&once, &proxy()).unwrap();
            assert_eq!(back.0, text);
            assert_eq!(unwrapped(text, &proxy()).unwrap(), (text.to_owned(), Changes::default()));
        }
    }

    #[test]
    fn what_others_change_meanwhile_stays() {
        let once = wrap(
            r#"{"mcpServers":{"a":{"command":"x","args":["1"]},"h":{"url":"http://b.example"}}}"#,
        );
        let edited = once.replace("\"1\"]", "\"1\", \"2\"], \"env\": {}").replacen(
            "\"command\":\"/bin/countersign\",\"args\":[\"--home\",\"/w",
            "\"timeout\":5,\"command\":\"/bin/countersign\",\"args\":[\"--home\",\"/w",
            1,
        );
        assert_ne!(edited, once);
        let (back, changes) = unwrapped(&edited, &proxy()).unwrap();
        let value: Value = serde_json::from_str(&back).unwrap();
        let expected = json!({ "mcpServers": {
            "a": { "command": "x", "args": ["1", "2"], "env": {} },
            "h": { "url": "http://b.example", "timeout": 5 },
        } });
        assert_eq!((value, changes.changed), (expected, vec!["a".to_owned(), "h".to_owned()]));
    }

    #[test]
    fn a_file_that_a_program_wrote_anew_is_unwrapped_in_its_meaning() {
        let once = wrap(r#"{"mcpServers":{"a":{"command":"x","args":["1"]},"b":{"command":"y"}}}"#);
        let value: Value = serde_json::from_str(&once).unwrap();
        let (back, _) =
            unwrapped(&serde_json::to_string_pretty(&value).unwrap(), &proxy()).unwrap();
        let back: Value = serde_json::from_str(&back).unwrap();
        let expected = json!({ "mcpServers": {
            "a": { "command": "x", "args": ["1"] }, "b": { "command": "y", "args": [] },
        } });
        assert_eq!(back, expected);
    }

    #[test]
    fn what_cannot_be_wrapped_is_left_and_named() {
        let text = concat!(
            r#"{"mcpServers":{"old":{"type":"sse","url":"http://a.example"},"none":{},"odd":{"command":"x","args":"y"},"#,
            r#""countersign":{"args":["--home","/w/.countersign","mcp"],"command":"/bin/countersign"}}}"#
        );
        let (new, changes) = wrapped(text, &proxy()).unwrap();
        assert_eq!(new, text);
        let left = [
            ("old", "its transport, HTTP with SSE, is not spoken by the proxy"),
            ("none", "it has neither a command nor an address"),
            ("odd", "its arguments are no list of texts"),
        ];
        assert_eq!(changes.left, left.map(|(name, why)| (name.to_owned(), why)));
        assert_eq!(wrapped("{}", &proxy()).unwrap_err(), WrapFault::NoServers);
    }

    #[test]
    fn an_entry_is_ours_only_if_it_is_exactly_ours() {
        let foreign = [
            r#"{"mcpServers":{"a":{"command":"/tmp/evil","args":["--home","x","proxy"]}}}"#,
            r#"{"mcpServers":{"a":{"command":"/tmp/evil","args":["--home","/w/.countersign","mcp"]}}}"#,
            r#"{"mcpServers":{"a":{"command":"c","args":["--home","p","proxy","--","z"]}}}"#,
            r#"{"mcpServers":{"a":{"command":"/bin/countersign","args":["--home","p","proxy","--name=b","--","z"]}}}"#,
        ];
        for text in foreign {
            let (new, changes) = wrapped(text, &proxy()).unwrap();
            assert_eq!(changes.changed, ["a"], "{text}");
            let value: Value = serde_json::from_str(&new).unwrap();
            assert_eq!(value["mcpServers"]["a"]["args"][3], json!("--name=a"), "{new}");
            assert_eq!(unwrapped(&new, &proxy()).unwrap().0, text);
            assert_eq!(unwrapped(text, &proxy()).unwrap(), (text.to_owned(), Changes::default()));
        }
        // Into another store on purpose.
        let other = r#"{"mcpServers":{"a":{"command":"/bin/countersign","args":["--home","/v","proxy","--name=a","--","z"]}}}"#;
        let (new, changes) = wrapped(other, &proxy()).unwrap();
        assert_eq!((&*new, changes.left.len()), (other, 1));
    }

    #[test]
    fn a_proxy_that_lies_elsewhere_by_now_is_put_right_and_taken_out() {
        let theirs = r#"{"mcpServers":{"a":{"command":"x","args":["1"]}}}"#;
        let old =
            Proxy { program: "/old/countersign".into(), home: "/old/home".into(), shadow: true };
        let once = wrapped(theirs, &old).unwrap().0;
        assert_eq!(wrap(&once), wrap(theirs));
        assert_eq!(unwrapped(&once, &proxy()).unwrap().0, theirs);
    }

    #[test]
    fn what_the_proxies_stop_can_be_chosen_anew() {
        let theirs = r#"{"mcpServers":{"a":{"command":"x","args":["--shadow"]},"h":{"url":"http://b.example"}}}"#;
        let shadow = Proxy { shadow: true, ..proxy() };
        let (in_shadow, changes) = wrapped(theirs, &shadow).unwrap();
        assert_eq!((in_shadow.matches("\"--shadow\"").count(), changes.changed.len()), (3, 2));
        assert_eq!(wrapped(&in_shadow, &shadow).unwrap().0, in_shadow);
        assert_eq!(wrap(&in_shadow), wrap(theirs));
        assert_eq!(wrapped(&wrap(theirs), &shadow).unwrap().0, in_shadow);
        assert_eq!(unwrapped(&in_shadow, &proxy()).unwrap().0, theirs);
    }

    #[test]
    fn every_list_of_servers_is_wrapped_and_unwrapped() {
        let text = concat!(
            r#"{"servers":{"s":{"command":"x"}},"mcpServers":{"m":{"command":"y"}},"mcp":{"servers":{"v":{"command":"z"}}},"#,
            r#""projects":{"/a":{"mcpServers":{"p":{"command":"w"}}},"/b":{"mcpServers":{},"servers":{"n":{"command":"no"}}}}}"#
        );
        let (new, changes) = wrapped(text, &proxy()).unwrap();
        assert_eq!(changes.changed, ["s", "m", "v (mcp)", "p (projects /a)"]);
        assert_eq!(new.matches("/bin/countersign").count(), 4, "{new}");
        assert_eq!(unwrapped(&new, &proxy()).unwrap().0, text);
    }
}
