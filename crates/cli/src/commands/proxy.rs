//! `countersign proxy`.

use std::env;
use std::path::Path;
use std::time::Duration;

use countersign_runtime::actions::Enforcement;
use countersign_runtime::secrets::Redactor;
use countersign_runtime::tool_lists::ToolLists;
use countersign_serve::{HttpTarget, ProxyError, ProxySetup, ProxyTarget, TargetHeader, run_proxy};
use serde_json::{Value, json};

use super::init::plain_json;
use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// Where `init --wrap` puts what a client knew of a server that has an address.
pub(crate) const WRAPPED_VARIABLE: &str = "COUNTERSIGN_WRAPPED";
/// Programs that start others: the server's name is that of what they start.
const RUNNERS: [&str; 10] =
    ["npx", "bunx", "pnpx", "uvx", "node", "nodejs", "python", "python3", "ruby", "perl"];
/// Programs that start others by words of their own, `docker run`: nobody can tell the server's name.
const NAMELESS: [&str; 19] = [
    "bash", "bun", "cargo", "deno", "docker", "env", "go", "java", "nix", "npm", "php", "pipx",
    "pnpm", "podman", "sh", "ssh", "sudo", "uv", "yarn",
];
/// Options of runners behind which code stands, and no name.
const CODE: [&str; 4] = ["-c", "-e", "--eval", "-"];
/// What many servers call the file that they begin with.
const COMMON: [&str; 8] = ["app", "cli", "index", "main", "mcp", "run", "server", "start"];

/// Gate and record every call to somebody else's MCP server
///
/// Stands between an MCP client, on standard input and output, and a server: a program that it starts,
/// or an address (`--http`). Each call of a tool goes before the gate; it is sent on or refused, and
/// recorded with its arguments and its result. Everything else passes as it came. Each run is a
/// recording. `countersign init --wrap` puts it before all servers of a client.
#[derive(Debug, clap::Args)]
pub(crate) struct ProxyArgs {
    /// What the server is called in the record, instead of what its command is called
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The address of a server that speaks streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "accept_tools"])]
    http: Option<String>,
    /// A header for that server, `Name: value`; other programs can see it
    #[arg(long, value_name = "HEADER", requires = "http")]
    header: Vec<String>,
    /// A header for that server whose value is in a variable, `Name=VARIABLE`
    #[arg(long, value_name = "HEADER", requires = "http")]
    header_env: Vec<String>,
    /// Take address and headers from the variable `COUNTERSIGN_WRAPPED`, where `init --wrap` put them
    #[arg(long, conflicts_with_all = ["http", "command", "accept_tools"])]
    wrapped: bool,
    /// How long a call waits for `countersign approve` where the client cannot ask its user
    #[arg(long, value_name = "SECONDS", default_value_t = 50)]
    wait: u64,
    /// How long the server has to answer a call
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    call_timeout: u64,
    /// Decide and record, but stop nothing
    #[arg(long)]
    shadow: bool,
    /// What the agent is called in the record, instead of what its client says
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Agree to all tools of the server `--name` as it last listed them, and do nothing else
    #[arg(long, requires = "name", conflicts_with = "command")]
    accept_tools: bool,
    /// The server's program and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(crate) fn run(args: &ProxyArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    if args.accept_tools {
        return accept_tools(args.name.as_deref().unwrap_or_default(), caller);
    }
    let target = target(args)?;
    let name = match &args.name {
        Some(name) if !name.trim().is_empty() => name.clone(),
        _ => name_of(&args.command).ok_or_else(|| {
            CommandError::usage("its command does not tell what the server is called").with_hint(
                "give it a name of its own with `--name`: its list of tools is kept under it",
            )
        })?,
    };
    let ended = run_proxy(ProxySetup {
        workspace: caller.workspace()?,
        redactor: Redactor::new(env::vars_os()),
        enforcement: if args.shadow { Enforcement::Shadow } else { Enforcement::Enforced },
        agent: args.agent.clone(),
        name,
        target,
        wait: Duration::from_secs(args.wait),
        call_timeout: Duration::from_secs(args.call_timeout),
    })
    .map_err(told)?;
    if let Some(trace) = ended.trace_id {
        caller.output.note(format_args!("recorded as {trace}"));
    }
    if ended.dropped > 0 {
        let dropped = ended.dropped;
        caller.output.warning(format_args!(
            "{dropped} messages of the server were not passed on: answers that nobody had asked for, \
             or no messages at all"
        ));
    }
    Ok(Exit::Done)
}

fn accept_tools(server: &str, caller: &mut Caller) -> Result<Exit, CommandError> {
    let lists = ToolLists::of(caller.workspace()?);
    if lists.get(server).map_err(explain)?.is_none() {
        let error = format!("no server `{server}` has listed its tools here");
        return Err(CommandError::no(error));
    }
    let accepted = lists.accept_all(server).map_err(explain)?;
    let left = lists.get(server).map_err(explain)?;
    let output = &mut caller.output;
    if output.format() == Format::Json {
        output.json(&json!({ "server": server, "accepted": accepted }))?;
    } else {
        for tool in &accepted {
            output.line(format_args!("{tool}"))?;
        }
        if accepted.is_empty() {
            output.note("no tool waits to be accepted");
        }
    }
    for (tool, because) in left.iter().flat_map(|list| list.held()) {
        output.warning(format_args!("`{tool}` cannot be accepted: {because}"));
    }
    Ok(Exit::Done)
}

/// Where the server is.
fn target(args: &ProxyArgs) -> Result<ProxyTarget, CommandError> {
    if args.wrapped {
        return wrapped(env::var(WRAPPED_VARIABLE).ok().as_deref());
    }
    let Some(url) = &args.http else {
        if args.command.is_empty() {
            return Err(CommandError::usage("no server was named").with_hint(
                "name its program behind `--`: `countersign proxy -- npx some-server`, or its address \
                 with `--http`",
            ));
        }
        return Ok(ProxyTarget::Command(args.command.clone()));
    };
    let mut headers = Vec::new();
    for header in &args.header {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| CommandError::usage("a header has the form `Name: value`"))?;
        headers.push((name.to_owned(), value.to_owned()));
    }
    for header in &args.header_env {
        let (name, variable) = header.split_once('=').ok_or_else(|| {
            CommandError::usage("a header from a variable has the form `Name=VARIABLE`")
        })?;
        let value = env::var(variable)
            .map_err(|_| CommandError::usage(format!("the variable `{variable}` is not set")))?;
        headers.push((name.to_owned(), value));
    }
    at_address(url, &headers)
}

fn at_address(url: &str, headers: &[(String, String)]) -> Result<ProxyTarget, CommandError> {
    let headers = headers.iter().map(|(name, value)| TargetHeader::new(name, value));
    let headers = headers.collect::<Result<Vec<_>, _>>().map_err(CommandError::usage)?;
    HttpTarget::new(url, headers).map(ProxyTarget::Http).map_err(CommandError::usage)
}

/// The address and the headers that a client had for a server.
fn wrapped(entry: Option<&str>) -> Result<ProxyTarget, CommandError> {
    let hint = "`countersign init --unwrap` puts back what was there";
    let unusable =
        |why: &str| CommandError::usage(format!("{WRAPPED_VARIABLE} {why}")).with_hint(hint);
    let entry = entry.ok_or_else(|| unusable("is not set"))?;
    let entry: Value =
        serde_json::from_str(&plain_json(entry)).map_err(|_| unusable("holds no JSON"))?;
    let url = entry.get("url").and_then(Value::as_str);
    let url = url.ok_or_else(|| unusable("holds no address"))?;
    let headers = entry.get("headers").and_then(Value::as_object).into_iter().flatten();
    let headers: Option<Vec<_>> =
        headers.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
    at_address(url, &headers.ok_or_else(|| unusable("holds a header that is no text"))?)
}

/// What a server is called that nobody named; none where two servers could be called the same.
fn name_of(command: &[String]) -> Option<String> {
    let last = |text: &str| {
        let name = Path::new(text).file_name()?.to_str()?;
        Some(name.to_owned()).filter(|name| !name.is_empty())
    };
    let (program, arguments) = command.split_first()?;
    let program = last(program)?;
    if NAMELESS.contains(&&*program) {
        return None;
    }
    if !RUNNERS.contains(&&*program) {
        return Some(program);
    }
    let is_option = |argument: &&String| argument.starts_with('-') && *argument != "-";
    let options = arguments.iter().take_while(is_option).count();
    let (options, rest) = arguments.split_at_checked(options)?;
    let started = rest.first().filter(|_| !options.iter().any(|it| CODE.contains(&it.as_str())))?;
    let name = last(started)?;
    let stem = name.split('.').next().unwrap_or_default();
    (!COMMON.contains(&stem) && !CODE.contains(&name.as_str())).then_some(name)
}

fn told(error: ProxyError) -> CommandError {
    match error {
        ProxyError::Unclosed(error) => {
            let explained = explain(error);
            explained.with_hint("`countersign seal TRACE` closes a recording that is still open")
        }
        error => CommandError::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_as_its_program_or_as_what_that_starts() {
        let name =
            |command: &str| name_of(&command.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for (command, expected) in [
            ("/opt/bin/mcp-server-git --repository .", "mcp-server-git"),
            ("npx -y @modelcontextprotocol/server-everything stdio", "server-everything"),
            ("python3 -u weather.py", "weather.py"),
            ("python3 -m mcp_server_git", "mcp_server_git"),
        ] {
            assert_eq!(name(command).as_deref(), Some(expected), "{command}");
        }
        for command in [
            "docker run -i mcp/git",
            "/usr/bin/docker run -i mcp/time",
            "uv run a",
            "npm exec b",
            "sh -c x",
            "node --version",
            "node -e code",
            "python3 -",
            "node dist/index.js",
            "python3 server.py",
        ] {
            assert_eq!(name(command), None, "{command}");
        }
    }

    #[test]
    fn what_a_client_knew_of_an_address_is_taken_from_the_variable() {
        let entry = r#"{"type":"http","url":"https://a.example/mcp","headers":{"x-key":"v"}}"#;
        assert!(matches!(wrapped(Some(entry)), Ok(ProxyTarget::Http(_))));
        let with_comments = "{ \"url\": \"https://a.example/mcp\", // far\n}";
        assert!(matches!(wrapped(Some(with_comments)), Ok(ProxyTarget::Http(_))));
        for bad in [None, Some("{"), Some("{}"), Some(r#"{"url":"http://a/","headers":{"a":1}}"#)] {
            assert_eq!(wrapped(bad).unwrap_err().exit, Exit::Usage, "{bad:?}");
        }
    }
}
