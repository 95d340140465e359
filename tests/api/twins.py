"""Shows that fuzz.py finds what it looks for: puts one fault after the other between it and a server that has none.

    twins.py BASE_URL TOKEN SEED [FAULT...]

Prints `{"caught": [...], "missed": [...]}` and ends with 1 if a fault was missed. Answers none of the questions.
"""

import http.client
import json
import pathlib
import subprocess
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FUZZ = pathlib.Path(__file__).resolve().parent / "fuzz.py"
API = "/api/v1"
EXAMPLES = 5
SECONDS_MAX = 300
# Headers that belong to a connection and not to an answer.
HOP = ("connection", "transfer-encoding", "content-length", "keep-alive", "date")


class Answer:
    """What the server said, to be spoilt."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def edit(self, change):
        value = json.loads(self.body)
        change(value)
        self.body = json.dumps(value).encode()


class Fault:
    """A server with one thing wrong. `check` is what has to find it; `path` is where it shows."""

    def __init__(self, check, path, before=None, after=None):
        self.check, self.path, self.before, self.after = check, path, before, after


def is_list(path):
    return urllib.parse.urlsplit(path).path == API + "/traces"


def fails(ask, path, headers, answer):
    if is_list(path) and "order=oldest" in path and "limit=500" not in path:
        answer.status, answer.body = 500, b'{"error":{"code":"failed","message":"no"}}'


def adds_a_member(ask, path, headers, answer):
    if is_list(path) and answer.status == 200:
        answer.edit(lambda page: page.update(extra=1))


def other_type(ask, path, headers, answer):
    if is_list(path):
        answer.headers["content-type"] = "text/html"


def other_status(ask, path, headers, answer):
    if is_list(path) and answer.status == 200 and "limit=500" not in path and "limit=20" not in path:
        answer.status = 203


def forgets_a_header(ask, path, headers, answer):
    answer.headers.pop("x-content-type-options", None)


def takes_any_parameter(ask, path, headers, answer):
    if is_list(path) and answer.status == 400:
        again = ask(path.split("?")[0], headers)
        answer.status, answer.headers, answer.body = again.status, again.headers, again.body


def refuses_what_fits(ask, path, headers, answer):
    if is_list(path) and "closed=true" in path:
        answer.status, answer.body = 400, b'{"error":{"code":"bad_request","message":"no"}}'


def allows_every_method(ask, path, headers, answer):
    if answer.status == 405:
        answer.status, answer.body = 404, b'{"error":{"code":"not_found","message":"no"}}'


def brings_the_token(token):
    def before(path, headers):
        headers["Authorization"] = f"Bearer {token}"
    return before


def counts_requests():
    asked = []

    def after(ask, path, headers, answer):
        if path == API + "/workspace" and answer.status == 200:
            asked.append(path)
            answer.edit(lambda about: about.update(log_entries=about["log_entries"] + len(asked)))
    return after


def stays_silent(ask, path, headers, answer):
    if path.startswith(API + "/live") and answer.status == 200:
        answer.body = b": still here\n\n"


def shifts_a_range(ask, path, headers, answer):
    if answer.status == 206 and answer.body:
        answer.body = answer.body[1:] + b"?"


def loses_a_line(ask, path, headers, answer):
    if "/events?" in path and "limit=200" not in path and answer.status == 200:
        answer.edit(lambda page: page.update(items=page["items"][1:]))


def faults(token):
    return {
        "fails": Fault("not_a_server_error", "/traces", after=fails),
        "adds-a-member": Fault("response_schema_conformance", "/traces", after=adds_a_member),
        "other-type": Fault("content_type_conformance", "/traces", after=other_type),
        "other-status": Fault("status_code_conformance", "/traces", after=other_status),
        "forgets-a-header": Fault("response_headers_conformance", "/workspace", after=forgets_a_header),
        "takes-any-parameter": Fault("negative_data_rejection", "/traces", after=takes_any_parameter),
        "refuses-what-fits": Fault("positive_data_acceptance", "/traces", after=refuses_what_fits),
        "allows-every-method": Fault("unsupported_method", "/workspace", after=allows_every_method),
        "brings-the-token": Fault("ignored_auth", "/workspace", before=brings_the_token(token)),
        "changes-on-get": Fault("state", "/workspace", after=counts_requests()),
        "stays-silent": Fault("live", "/workspace", after=stays_silent),
        "shifts-a-range": Fault("ranges", "/workspace", after=shifts_a_range),
        "loses-a-line": Fault("pages", "/workspace", after=loses_a_line),
    }


def between(base, fault):
    """A server that asks the one at `base` and spoils what it says."""
    place = urllib.parse.urlsplit(base)

    def ask(path, headers, method="GET", body=None):
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
        connection.request(method, path, body=body, headers={**headers, "Host": place.netloc, "Connection": "close"})
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.getheaders()}
        if named.get("content-type", "").startswith("text/event-stream"):
            # A stream never ends: its first messages are passed on.
            told = b""
            while told.count(b"\n\n") < (2 if "trace=0" in path else 1):
                piece = response.read1(65536)
                if not piece:
                    break
                told += piece
        else:
            told = response.read()
        connection.close()
        return Answer(response.status, named, told)

    class Between(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def log_message(self, *_):
            pass

        def __getattr__(self, name):
            if name.startswith("do_"):
                return self.answer
            raise AttributeError(name)

        def answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            headers = {name: value for name, value in self.headers.items() if name.lower() not in (*HOP, "host")}
            if fault.before:
                fault.before(self.path, headers)
            answer = ask(self.path, headers, self.command, body)
            if fault.after:
                fault.after(ask, self.path, headers, answer)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name not in HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    return Server(("127.0.0.1", 0), Between)


def caught(base, token, seed, fault):
    """Which checks fail when this fault lies between."""
    server = between(base, fault)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    command = [sys.executable, str(FUZZ), address, token, str(EXAMPLES), seed, fault.path]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=SECONDS_MAX, check=False, text=True)
    finally:
        server.shutdown()
        server.server_close()
    try:
        failures = json.loads(ended.stdout)["failures"]
    except ValueError:
        return {"no summary: " + ended.stderr[-300:]}
    return {failure["check"] for failure in failures} if ended.returncode == 1 else set()


def main():
    if len(sys.argv) < 4:
        sys.stderr.write(__doc__)
        return 2
    base, token, seed = sys.argv[1:4]
    every = {"none": Fault(None, "/workspace"), **faults(token)}
    summary = {"caught": [], "missed": []}
    for name in sys.argv[4:] or every:
        fault, found = every[name], caught(base, token, seed, every[name])
        # Without a fault nothing may be found, or all the rest shows nothing.
        right = fault.check in found if fault.check else not found
        summary["caught" if right else "missed"].append({"fault": name, "found": sorted(found)})
    print(json.dumps(summary, indent=2))
    return 1 if summary["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
