//! `countersign serve`.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use countersign_runtime::secrets::Redactor;
use countersign_serve::{Token, ViewerServer, ViewerSetup};
use serde_json::json;

use super::mcp::{explain_serving, refused_token};
use crate::{Caller, CommandError, Exit, Format};

/// Where the page is served unless somebody says otherwise.
const PORT: u16 = 7318;

/// Show the workspace in a browser, on this machine: traces, evidence, work, flows, questions
///
/// The page reads, and checks every trace with a verifier of its own that runs in the browser. The one
/// thing that it can change is to answer a question that waits for a person, with the operator's key.
/// Only this machine can reach it, and only with the token in the printed address.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The port; 0 for any that is free
    #[arg(long, default_value_t = PORT)]
    port: u16,
    /// A file with the token that opens the page, made if there is none; without one it is new each
    /// time
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

pub(crate) fn run(args: &ServeArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let (token, secret) = token(args, caller)?;
    let setup = ViewerSetup { workspace, redactor: Redactor::new(env::vars_os()), token };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let server = ViewerServer::bind(setup, address).map_err(explain_serving)?;
    let url = format!("http://{}/#token={secret}", server.address());
    let output = &mut caller.output;
    match output.format() {
        Format::Json => {
            output.json(&json!({ "url": url, "address": server.address().to_string() }))?;
            output.flush()?;
        }
        Format::Text => output.note(format_args!("open {url}")),
    }
    output.hint("stop it with Ctrl-C; nobody else should see the address: it holds the token");
    server.run().map_err(explain_serving)?;
    Ok(Exit::Done)
}

/// The token and its text: a new one, unless a file has one that is to stay.
fn token(args: &ServeArgs, caller: &Caller) -> Result<(Token, String), CommandError> {
    let Some(file) = &args.token_file else {
        let fresh = Token::fresh();
        return fresh.map_err(|error| CommandError::failed_doing("cannot draw a token", error));
    };
    let home = caller.home()?;
    let token = Token::load_or_make_outside(file, home.parent().unwrap_or(&home));
    let token = token.map_err(refused_token)?;
    let doing = || format!("cannot read the token file `{}`", file.display());
    let text = fs::read_to_string(file);
    let text = text.map_err(|error| CommandError::failed_doing(doing(), error))?;
    Ok((token, text.trim_ascii().to_owned()))
}
