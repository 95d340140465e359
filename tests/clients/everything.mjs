// Everything that the reference server can do, asked for by the official TypeScript SDK.
//
//     node everything.mjs NODE_MODULES stdio COMMAND ARG...
//     node everything.mjs NODE_MODULES http URL
//
// Prints every message that was sent and received, in order, as one JSON object. Nothing is asked before
// what was asked before it has been answered, so that two runs against the same server say the same.

import { pathToFileURL } from "node:url";

const [modules, kind, ...rest] = process.argv.slice(2);
const sdk = (name) =>
  import(pathToFileURL(`${modules}/@modelcontextprotocol/sdk/dist/esm/${name}.js`).href);
const { Client } = await sdk("client/index");
const types = await sdk("types");

const sent = [];
const received = [];
const waiting = [];

/** Resolves with the first message from now on, or from `since` on, that fits. */
function heard(fits, since = received.length) {
  return new Promise((resolve) => {
    const early = received.slice(since).find(fits);
    if (early) resolve(early);
    else waiting.push({ fits, resolve });
  });
}

async function transport() {
  if (kind === "stdio") {
    const { StdioClientTransport } = await sdk("client/stdio");
    const [command, ...args] = rest;
    return new StdioClientTransport({ command, args, env: process.env });
  }
  const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp");
  return new StreamableHTTPClientTransport(new URL(rest[0]));
}

/** A transport that writes down what passes. */
function noted(inner) {
  const send = inner.send.bind(inner);
  inner.send = (message, options) => {
    sent.push(structuredClone(message));
    return send(message, options);
  };
  const start = inner.start.bind(inner);
  inner.start = async () => {
    const deliver = inner.onmessage;
    inner.onmessage = (message, extra) => {
      received.push(structuredClone(message));
      for (const each of waiting.splice(0)) {
        if (each.fits(message)) each.resolve(message);
        else waiting.push(each);
      }
      deliver(message, extra);
    };
    return start();
  };
  return inner;
}

const client = new Client(
  { name: "everything-client", version: "7.8.9" },
  {
    capabilities: {
      roots: { listChanged: true },
      sampling: {},
      elicitation: { form: {}, url: {} },
      tasks: { list: {}, cancel: {}, requests: { sampling: { createMessage: {} }, elicitation: { create: {} } } },
    },
  },
);
let roots = [{ uri: "file:///a", name: "a" }];
client.setRequestHandler(types.ListRootsRequestSchema, async () => ({ roots }));

// What the server wants as a task is done at once, and asked for afterwards.
const done = new Map();
function orAsTask(params, result) {
  if (!params.task) return result;
  const taskId = `task-${done.size}`;
  const at = "2026-01-01T00:00:00Z";
  const task = { taskId, status: "completed", ttl: 60000, createdAt: at, lastUpdatedAt: at };
  done.set(taskId, { task, result });
  return { task };
}
client.setRequestHandler(types.CreateMessageRequestSchema, async ({ params }) =>
  orAsTask(params, {
    model: "m",
    role: "assistant",
    content: { type: "text", text: `sampled: ${JSON.stringify(params.messages)}` },
    stopReason: "endTurn",
  }),
);
client.setRequestHandler(types.ElicitRequestSchema, async ({ params }) =>
  params.mode === "url"
    ? { action: "decline" }
    : orAsTask(params, {
        action: "accept",
        content: { name: "N", check: true, integer: 1, number: 2.5 },
      }),
);
client.setRequestHandler(types.GetTaskRequestSchema, async ({ params }) => done.get(params.taskId).task);
client.setRequestHandler(
  types.GetTaskPayloadRequestSchema,
  async ({ params }) => done.get(params.taskId).result,
);

/** A request in raw form; an error is an answer too. */
const ask = (method, params, options) =>
  client.request({ method, params }, types.ResultSchema, options).catch((error) => error);
const call = (name, given, options) => ask("tools/call", { name, arguments: given }, options);
const log = (text) => (message) =>
  message.method === "notifications/message" && String(message.params.data).includes(text);

await client.connect(noted(await transport()));
// The server asks for the roots a moment after the beginning.
await heard(log("Roots updated"), 0);
await ask("ping");
await ask("logging/setLevel", { level: "debug" });

const { tools } = await ask("tools/list", {});
await ask("prompts/list", {});
for (const [name, given] of [
  ["simple-prompt", {}],
  ["args-prompt", { city: "Berlin", state: "B" }],
  ["completable-prompt", { department: "Sales", name: "David" }],
  ["resource-prompt", { resourceType: "Text", resourceId: "1" }],
  ["no-such-prompt", {}],
]) {
  await ask("prompts/get", { name, arguments: given });
}
for (const [ref, argument, context] of [
  [{ type: "ref/prompt", name: "completable-prompt" }, { name: "department", value: "S" }],
  [
    { type: "ref/prompt", name: "completable-prompt" },
    { name: "name", value: "D" },
    { arguments: { department: "Sales" } },
  ],
  [
    { type: "ref/resource", uri: "demo://resource/dynamic/text/{resourceId}" },
    { name: "resourceId", value: "1" },
  ],
]) {
  await ask("completion/complete", { ref, argument, ...(context && { context }) });
}
const { resources } = await ask("resources/list", {});
await ask("resources/templates/list", {});
for (const { uri } of resources) await ask("resources/read", { uri });
await ask("resources/read", { uri: "demo://resource/dynamic/text/2" });
await ask("resources/read", { uri: "demo://resource/dynamic/blob/2" });
await ask("resources/read", { uri: "demo://no/such/resource" });

await call("echo", { message: "grüße \u2028 \ud83d\ude80 \u0000" });
await call("echo", {});
await call("get-sum", { a: 1.5, b: 1e21 });
await call("get-tiny-image", {});
await call("get-annotated-message", { messageType: "error", includeImage: true });
await call("get-resource-reference", { resourceType: "Text", resourceId: 1 });
await call("get-resource-links", { count: 3 });
await call("get-structured-content", { location: "Chicago" });
await call("get-env", {});
await call("gzip-file-as-resource", {
  name: "x.gz",
  data: "data:text/plain;base64,aGVsbG8=",
  outputType: "resource",
});
await call("get-roots-list", {});
await call("trigger-sampling-request", { prompt: "p", maxTokens: 10 });
await call("trigger-sampling-request-async", { prompt: "p", maxTokens: 10 }, { timeout: 30000 });
await call("trigger-elicitation-request", {});
await call("trigger-elicitation-request-async", {}, { timeout: 30000 });
await call("trigger-url-elicitation", { url: "https://example.org/", message: "m" });
await ask("no/such/method", { unknown: [1, { a: null }] });

// Subscriptions and logs, which come by themselves.
const uri = "demo://resource/dynamic/text/1";
await ask("resources/subscribe", { uri });
let since = received.length;
await call("toggle-subscriber-updates", {});
await heard((message) => message.method === "notifications/resources/updated", since);
await call("toggle-subscriber-updates", {});
await ask("resources/unsubscribe", { uri });
since = received.length;
await call("toggle-simulated-logging", {});
await heard((message) => message.method === "notifications/message", since);
await call("toggle-simulated-logging", {});

// A task: the call gives a handle, the result is asked for with it.
if (tools.some(({ name }) => name === "simulate-research-query")) {
  const params = { name: "simulate-research-query", arguments: { topic: "t" }, task: { ttl: 60000 } };
  const { task } = await ask("tools/call", params);
  if (task) {
    await ask("tasks/result", { taskId: task.taskId }, { timeout: 30000 });
    await ask("tasks/get", { taskId: task.taskId });
    await ask("tasks/list", {});
    const other = await ask("tools/call", params);
    await ask("tasks/cancel", { taskId: other.task.taskId });
  }
}

// What the client tells by itself.
roots = [...roots, { uri: "file:///b" }];
since = received.length;
await client.sendRootsListChanged();
await heard(log("Roots updated: 2"), since);

// Progress, and a call that is cancelled while it runs.
await call("trigger-long-running-operation", { duration: 0.4, steps: 4 }, { onprogress() {} });
since = received.length;
const stop = new AbortController();
const step = (number) => (message) =>
  message.method === "notifications/progress" && message.params.progress === number;
const cancelled = call(
  "trigger-long-running-operation",
  { duration: 1.5, steps: 3 },
  { onprogress() {}, signal: stop.signal },
);
await heard(step(1), since);
stop.abort("enough");
await cancelled;
await heard(step(3), since);
await ask("ping");
await client.close();
console.log(JSON.stringify({ sent, received }));
