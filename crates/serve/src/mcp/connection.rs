//! One client's connection: what it is told of the server, and how its calls are run.
//!
//! Calls run one after the other in the order in which they came. Where there are many clients that is
//! off the thread that speaks to them, since each waits for the disk; where there is one, it waits for
//! its answer anyway, and waking another thread twice would be a good part of what it waits for. While
//! a person is asked, later calls go on.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use countersign_runtime::actions::AgentRuntime;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    Implementation, InitializeRequestParams, InitializeResult, JsonObject, ListPromptsResult,
    ListToolsResult, PaginatedRequestParams, Prompt, PromptMessage, ProtocolVersion, Role,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::sync::{Mutex, watch};

use super::Recorder;
use super::calls::{self, AskedAction, Reply, Step};
use super::instructions::{INSTRUCTIONS, PROMPT_DESCRIPTION, PROMPT_NAME};
use super::question::{self, can_ask};
use super::tools::{self, ToolName};
use crate::question::Word;

/// By which name the server goes.
const SERVER_NAME: &str = "countersign";
/// The newest protocol in which a client begins a connection and keeps it. Later ones have requests
/// that stand alone, and a recording is of one connection.
const NEWEST_VERSION: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// One client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    recorder: Arc<Recorder>,
    /// Who is at the other end, once it has said so.
    client: OnceLock<InitializeRequestParams>,
    /// Its line to the workspace, made for its first call.
    runtime: OnceLock<Arc<AgentRuntime>>,
    connected: Instant,
    turn: Mutex<()>,
    /// True once the client sends nothing more, not even answers. Set where it is the only client.
    over: Option<watch::Receiver<bool>>,
}

impl Connection {
    /// A connection whose end the library notices.
    pub(crate) fn new(recorder: Arc<Recorder>) -> Self {
        Self {
            recorder,
            client: OnceLock::new(),
            runtime: OnceLock::new(),
            connected: Instant::now(),
            turn: Mutex::default(),
            over: None,
        }
    }

    /// Runs one call when its turn has come, and asks the person at the client if it comes to that.
    async fn answer(
        &self,
        tool: ToolName,
        arguments: JsonObject,
        client: &InitializeRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Reply {
        let alone = self.over.is_some();
        let begin = || Arc::new(self.recorder.runtime_for(client, alone));
        let runtime = self.runtime.get_or_init(begin);
        let (turn, connected) = (self.turn.lock().await, self.connected);
        let call = move |runtime: &AgentRuntime| calls::run(tool, &arguments, runtime, connected);
        let step = match self.over {
            Some(_) if tool.is_brief() => on_the_thread(runtime, call),
            _ => off_the_thread(runtime, call).await,
        };
        drop(turn);
        let asked = match step {
            Some(Step::Done(reply)) => return reply,
            Some(Step::Asked(asked)) => asked,
            None => return calls::broken(tool, runtime),
        };
        let word = match can_ask(client) {
            true => self.ask(&asked, runtime, context).await,
            false => Word::Silence,
        };
        let reply = off_the_thread(runtime, move |runtime| match word {
            Word::Silence => asked.reply(runtime),
            Word::Yes => asked.answered(runtime, true),
            Word::No => asked.answered(runtime, false),
        })
        .await;
        reply.unwrap_or_else(|| calls::broken(tool, runtime))
    }

    /// Does what nobody waits for: what was stored for a call is taken to its place.
    fn tidy_up(&self) {
        let runtime = self.runtime.get().filter(|it| it.workspace().store().many_wait());
        if let Some(runtime) = runtime.map(Arc::clone) {
            drop(tokio::task::spawn_blocking(move || runtime.workspace().store().place_if_many()));
        }
    }

    /// Asks until the question's deadline, or until nobody is there any more to answer.
    async fn ask(
        &self,
        asked: &AskedAction,
        runtime: &AgentRuntime,
        context: &RequestContext<RoleServer>,
    ) -> Word {
        let now = runtime.workspace().now();
        let deadline = asked.answer.question_deadline.unwrap_or(now);
        let patience = deadline.as_millis().saturating_sub(now.as_millis());
        let patience = Duration::from_millis(u64::try_from(patience).unwrap_or(0));
        let hung_up = async {
            match self.over.clone() {
                Some(mut over) => {
                    let _ = over.wait_for(|over| *over).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            word = question::ask(&context.peer, asked, patience) => word,
            () = hung_up => Word::Silence,
            () = context.ct.cancelled() => Word::Silence,
        }
    }

    /// The connection of the only client, which has hung up when `over` becomes true.
    pub(crate) fn until(recorder: Arc<Recorder>, over: watch::Receiver<bool>) -> Self {
        Self { over: Some(over), ..Self::new(recorder) }
    }
}

impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().build();
        let mut info = ServerConfig::new(capabilities).with_instructions(INSTRUCTIONS);
        info.server_info = Implementation::new(SERVER_NAME, env!("CARGO_PKG_VERSION"));
        info.protocol_version = NEWEST_VERSION;
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&NEWEST_VERSION))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let answer = self.negotiate_initialize(&request)?;
        // A client that introduces itself twice stays who it was.
        let _ = self.client.set(request);
        Ok(answer)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::find(&request.name) else {
            let known: Vec<&str> = tools::all().iter().map(|tool| tool.name.as_ref()).collect();
            let message = format!("no tool of this name; there are: {}", known.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        // Requests that stand alone, without a connection, end up here too.
        let Some(client) = self.client.get() else {
            let message =
                "begin the connection with `initialize`; requests of their own are not answered";
            return Err(ErrorData::invalid_request(message, None));
        };
        let _call = self.recorder.calls.begin();
        let arguments = request.arguments.unwrap_or_default();
        let reply = self.answer(tool, arguments, client, &context).await;
        self.tidy_up();
        Ok(CallToolResponse::from(in_both_forms(reply)))
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompt = Prompt::new(PROMPT_NAME, Some(PROMPT_DESCRIPTION), None);
        Ok(ListPromptsResult::with_all_items(vec![prompt]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != PROMPT_NAME {
            let message = format!("no prompt of this name; there is: {PROMPT_NAME}");
            return Err(ErrorData::invalid_params(message, None));
        }
        let message = PromptMessage::new_text(Role::User, INSTRUCTIONS);
        let result = GetPromptResult::new(vec![message]).with_description(PROMPT_DESCRIPTION);
        Ok(result.into())
    }

    /// A request that the library knows by its method but could not read comes as a custom one.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let known =
            ["tools/call", "tools/list", "prompts/get", "prompts/list", "initialize", "ping"];
        if known.contains(&request.method.as_str()) {
            let message =
                format!("the parameters of `{}` do not have the right shape", request.method);
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no such method", None))
    }
}

/// Does something that waits for the disk. None if it panicked.
async fn off_the_thread<T: Send + 'static>(
    runtime: &Arc<AgentRuntime>,
    work: impl FnOnce(&AgentRuntime) -> T + Send + 'static,
) -> Option<T> {
    let runtime = Arc::clone(runtime);
    tokio::task::spawn_blocking(move || work(&runtime)).await.ok()
}

/// Does something brief that waits for the disk, where nobody else waits for the thread. None if it
/// panicked.
fn on_the_thread<T>(runtime: &AgentRuntime, work: impl FnOnce(&AgentRuntime) -> T) -> Option<T> {
    // What was locked says itself that its holder panicked, as it does across threads.
    std::panic::catch_unwind(AssertUnwindSafe(|| work(runtime))).ok()
}

/// An answer as text, for a model, and as structured content, for a program. A failure comes as text
/// alone: clients hold what is structured against the schema of what went well.
fn in_both_forms(reply: Reply) -> CallToolResult {
    let shown = |value: &Value| {
        vec![ContentBlock::text(serde_json::to_string_pretty(value).unwrap_or_default())]
    };
    match reply {
        Reply::Answer(value) => {
            let mut result = CallToolResult::success(shown(&value));
            result.structured_content = Some(value);
            result
        }
        Reply::Failure(value) => CallToolResult::error(shown(&value)),
    }
}
