"""An MCP server whose lists of tools are given to it.

    lists.py FILE

FILE holds one result of `tools/list` on each line, as bytes that are sent as they are; the last one is
sent again and again. A line that is empty is answered with an error.
"""

import json
import sys

OUT = sys.stdout.buffer


def raw(data):
    OUT.write(data)
    OUT.flush()


def say(message):
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def answer(number, body):
    say({"id": number, "result": {"content": [{"type": "text", "text": body}]}})


def call(number, name):
    if name == "tells":
        say({"method": "notifications/tools/list_changed"})
        answer(number, "told")
    elif name == "garbles":
        raw(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"\xff"}]}}\n' % number)
    elif name == "breaks":
        raw(b'{"jsonrpc":"2.0","result":{"content":[}]},"id":%d}\n' % number)
    else:
        answer(number, "ran " + name)


def serve(lists):
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            info = {"name": "lists", "version": "0"}
            version = message["params"]["protocolVersion"]
            caps = {"tools": {"listChanged": True}}
            say({"id": number, "result": {"protocolVersion": version, "capabilities": caps, "serverInfo": info}})
        elif method == "tools/list":
            result = lists[0]
            if len(lists) > 1:
                del lists[0]
            if result:
                raw(b'{"jsonrpc":"2.0","id":' + json.dumps(number).encode() + b',"result":' + result + b"}\n")
            else:
                say({"id": number, "error": {"code": -32601, "message": "no list"}})
        elif method == "tools/call":
            call(number, message["params"]["name"])
        elif number is not None:
            say({"id": number, "result": {}})


with open(sys.argv[1], "rb") as given:
    serve(given.read().split(b"\n"))
