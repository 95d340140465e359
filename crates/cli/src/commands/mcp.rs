//! `countersign mcp`.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;

use countersign_runtime::actions::Enforcement;
use countersign_runtime::secrets::Redactor;
use countersign_serve::{HttpServer, McpSetup, PATH, Recorder, ServeError, Token, TokenError};

use crate::{Caller, CommandError, Exit};

/// Where HTTP is served unless somebody says otherwise.
const HTTP_ADDRESS: &str = "127.0.0.1:7317";
/// The token's file in the settings directory.
const TOKEN_FILE: &str = "mcp-token";
/// What the agent and its model are called, if their client does not know better.
const AGENT_VARIABLE: &str = "CAPSEAL_AGENT";
const MODEL_VARIABLE: &str = "CAPSEAL_MODEL";

/// Let an agent ask before it acts, and record what it does, over MCP
///
/// Speaks MCP on standard input and output, for a client that starts it (`countersign init --mcp`
/// tells yours how), or on HTTP with `--http`. Each connection is a recording of its own. It has five
/// tools: capseal_gate, capseal_record, capseal_seal, capseal_status and capseal_context.
#[derive(Debug, clap::Args)]
pub(crate) struct McpArgs {
    /// Serve HTTP instead, on this address of this machine [default address: 127.0.0.1:7317]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = HTTP_ADDRESS)]
    http: Option<SocketAddr>,
    /// Let other machines come in: without encryption, whoever listens reads the token
    #[arg(long, requires = "http")]
    allow_remote: bool,
    /// The file with the token that clients must show; made if there is none
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// Decide and record, but stop nothing
    #[arg(long)]
    shadow: bool,
    /// What the agent is called in the record, instead of what its client says
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

pub(crate) fn run(args: &McpArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let recorder = Recorder::new(McpSetup {
        workspace: caller.workspace()?,
        redactor: Redactor::new(env::vars_os()),
        enforcement: if args.shadow { Enforcement::Shadow } else { Enforcement::Enforced },
        agent: args.agent.clone().or_else(|| said(AGENT_VARIABLE)),
        model: said(MODEL_VARIABLE),
    });
    match args.http {
        Some(address) => serve_http(args, address, recorder, caller)?,
        None => countersign_serve::serve_stdio(recorder).map_err(explain_serving)?,
    }
    Ok(Exit::Done)
}

fn serve_http(
    args: &McpArgs,
    address: SocketAddr,
    recorder: Recorder,
    caller: &mut Caller,
) -> Result<(), CommandError> {
    if !address.ip().is_loopback() && !args.allow_remote {
        let error = format!("{address} can be reached from other machines");
        return Err(CommandError::usage(error)
            .with_hint(format!("use {HTTP_ADDRESS}, or add `--allow-remote` if you mean it")));
    }
    let default = caller.config()?.join(TOKEN_FILE);
    let file = args.token_file.as_ref().unwrap_or(&default);
    let home = caller.home()?;
    let token = match args.token_file {
        Some(_) => Token::load_or_make_outside(file, home.parent().unwrap_or(&home)),
        None => Token::load_or_make(file),
    };
    let server = HttpServer::bind(recorder, address, token.map_err(refused_token)?)
        .map_err(explain_serving)?;
    let output = &mut caller.output;
    if args.allow_remote {
        output.warning(
            "other machines can reach this server; what is said is not encrypted, so whoever can \
             read the network can read the token and act as your agent",
        );
    }
    output.note(format_args!("listening on http://{}{PATH}", server.address()));
    output.note(format_args!(
        "clients send: Authorization: Bearer, and the token in {}",
        file.display()
    ));
    server.run().map_err(explain_serving)
}

/// What a variable says, if it says anything.
fn said(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.trim().is_empty())
}

pub(super) fn explain_serving(error: ServeError) -> CommandError {
    let hint = match &error {
        ServeError::Bind { .. } => Some("name another port, or 0 for any that is free"),
        ServeError::NoBeginning { .. } => {
            Some("this is for MCP clients; `countersign init --mcp` tells yours to start it")
        }
        ServeError::Start(_) => None,
    };
    let explained = CommandError::failed(error);
    match hint {
        Some(hint) => explained.with_hint(hint),
        None => explained,
    }
}

pub(super) fn refused_token(error: TokenError) -> CommandError {
    let hint = match &error {
        TokenError::TooOpen { path, .. } => Some(format!(
            "delete `{}`, so that a new one is made, and give that to your clients",
            path.display()
        )),
        TokenError::InWorkspace { .. } => Some("name a file elsewhere".to_owned()),
        _ => None,
    };
    let explained = CommandError::failed(error);
    match hint {
        Some(hint) => explained.with_hint(hint),
        None => explained,
    }
}
