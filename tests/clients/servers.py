"""Servers that people use, asked by the official Python SDK.

    servers.py CALLS COMMAND ARG...

CALLS is a JSON list of tools with their arguments. Prints what came back as one JSON object.
"""

import json
import os
import sys

import anyio
from mcp import Client, StdioServerParameters


async def main(calls, command, *args):
    server = StdioServerParameters(command=command, args=list(args), env=dict(os.environ))
    async with Client(server) as client:
        said = {
            "server": client.server_info.name,
            "version": client.protocol_version,
            "tools": (await client.list_tools()).model_dump(mode="json", by_alias=True),
            "calls": [],
        }
        for name, given in json.loads(calls):
            result = await client.call_tool(name, given)
            said["calls"].append(result.model_dump(mode="json", by_alias=True))
    print(json.dumps(said))


anyio.run(main, *sys.argv[1:])
