"""The whole flow of an agent, spoken by the official Python SDK.

    flow.py ANSWER stdio COMMAND ARG...
    flow.py ANSWER http URL TOKEN_FILE

ANSWER is what the person at the client says when asked: yes, no, or none if the client cannot ask.
Prints what came back as one JSON object.
"""

import json
import os
import sys

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult, Implementation


def server(arguments):
    kind, *rest = arguments
    if kind == "stdio":
        command, *args = rest
        return StdioServerParameters(command=command, args=args, env=dict(os.environ))
    url, token_file = rest
    with open(token_file, encoding="ascii") as file:
        token = file.read().strip()
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30)
    return streamable_http_client(url, http_client=http)


async def flow(answer, arguments):
    said = {"asked": [], "calls": []}

    async def on_question(_context, params):
        said["asked"].append(params.message)
        if answer == "yes":
            return ElicitResult(action="accept", content={"approve": True})
        return ElicitResult(action="decline")

    can_ask = {} if answer == "none" else {"elicitation_callback": on_question}
    identity = Implementation(name="python-flow", version="1.2.3")
    async with Client(server(arguments), client_info=identity, **can_ask) as client:
        said["server"] = client.server_info.name
        said["version"] = client.protocol_version
        said["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        said["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
        prompt = await client.get_prompt("capseal-instructions")
        said["prompt"] = prompt.messages[0].content.text

        async def call(name, **given):
            result = await client.call_tool(name, given)
            text = json.loads(result.content[0].text)
            if not result.is_error:
                assert text == result.structured_content, (text, result.structured_content)
            said["calls"].append(text)
            return text

        await call("capseal_status")
        for number in range(2):
            what = {
                "action_type": "code_edit",
                "description": f"change number {number}",
                "files_affected": [f"src/file{number}.txt"],
            }
            diff = "--- a/src/file{0}.txt\n+++ b/src/file{0}.txt\n@@ -0,0 +1 @@\n+one line\n".format(number)
            gate = await call("capseal_gate", **what, diff_text=diff)
            done = {**what, "tool_name": "edit", "success": number == 0, "duration_ms": 12}
            await call("capseal_record", **done, output="done", gate_token=gate["gate_token"])
        # Something that the gate does not let pass by itself.
        what = {
            "action_type": "shell_exec",
            "description": "publish the package",
            "files_affected": [],
        }
        await call("capseal_gate", **what, command="npm publish")
        await call("capseal_record", action_type="observation")
        await call("capseal_seal", session_name="python flow")
        await call("capseal_context", file="src/file0.txt")
    print(json.dumps(said))


anyio.run(flow, sys.argv[1], sys.argv[2:])
