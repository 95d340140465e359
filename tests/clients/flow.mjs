// The whole flow of an agent, spoken by the official TypeScript SDK, as the inspector brings it.
//
//     node flow.mjs NODE_MODULES stdio COMMAND ARG...
//     node flow.mjs NODE_MODULES http URL TOKEN_FILE
//
// Prints what came back as one JSON object.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [modules, kind, ...rest] = process.argv.slice(2);
const sdk = (name) =>
  import(pathToFileURL(`${modules}/@modelcontextprotocol/sdk/dist/esm/client/${name}.js`).href);
const { Client } = await sdk("index");

async function transport() {
  if (kind === "stdio") {
    const { StdioClientTransport } = await sdk("stdio");
    const [command, ...args] = rest;
    return new StdioClientTransport({ command, args, env: process.env });
  }
  const { StreamableHTTPClientTransport } = await sdk("streamableHttp");
  const [url, tokenFile] = rest;
  const token = readFileSync(tokenFile, "ascii").trim();
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  return new StreamableHTTPClientTransport(new URL(url), { requestInit });
}

const client = new Client({ name: "typescript-flow", version: "4.5.6" }, { capabilities: {} });
await client.connect(await transport());
const said = { server: client.getServerVersion().name, calls: [] };
said.tools = (await client.listTools()).tools.map((tool) => tool.name);

async function call(name, given) {
  const result = await client.callTool({ name, arguments: given });
  const text = JSON.parse(result.content[0].text);
  said.calls.push(text);
  return text;
}

await call("capseal_status", {});
const what = { action_type: "file_write", description: "write a page", files_affected: ["page.txt"] };
const gate = await call("capseal_gate", what);
const done = { ...what, tool_name: "write", success: true, gate_token: gate.gate_token };
await call("capseal_record", done);
await call("capseal_seal", {});
await call("capseal_context", { file: "page.txt" });
await client.close();
console.log(JSON.stringify(said));
