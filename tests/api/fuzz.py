"""Fuzzes the viewer's API from its own document, on this machine only.

    fuzz.py BASE_URL TOKEN MAX_EXAMPLES SEED [PATH]

BASE_URL is such as http://127.0.0.1:7318. Nobody else may write to the workspace meanwhile. Questions that wait
will be answered. With PATH, such as /traces, only what can be read there is fuzzed; the rest is looked at as always.
Prints `{"requests": n, "failures": [...], "unreached": [...]}` and ends with 1 if there are failures, with 2 if it was
called wrongly. `unreached` names operations that never succeeded: a failure where there was something for them.
"""

import collections
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import urllib.parse

import jsonschema_rs
import requests

HERE = pathlib.Path(__file__).resolve().parent
API = "/api/v1"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
KNOWN_MAX = 20
FAILURES_MAX = 50
MESSAGE_MAX = 800
RUN_SECONDS_MAX = 900
ANSWER_SECONDS_MAX = 20
LIVE_SECONDS_MAX = 10
# Which parameter of the document takes which of the ids that were found.
PARAMETERS = {
    "TraceId": "trace", "LiveTrace": "trace", "ArtifactHash": "artifact", "WorkId": "work", "FlowId": "flow",
    "QuestionId": "question", "ReportId": "report", "EventIndex": "index",
}


class Failures:
    """What went wrong, each thing once, and how many requests there were."""

    def __init__(self):
        self.requests = 0
        self.found = {}

    def add(self, check, operation, message, **more):
        if len(self.found) < FAILURES_MAX:
            key = (check, operation, message[:80])
            failure = {"check": check, "operation": operation, "message": message[:MESSAGE_MAX], **more}
            self.found.setdefault(key, failure)


class Server:
    """The server that is asked."""

    def __init__(self, base, token, failures):
        self.base = base.rstrip("/") + API
        self.headers = {"Authorization": f"Bearer {token}"}
        self.failures = failures
        self.session = requests.Session()
        # No proxy: nothing leaves this machine.
        self.session.trust_env = False

    def ask(self, path, token=True, headers=None, **more):
        self.failures.requests += 1
        sent = {**(self.headers if token else {}), **(headers or {})}
        return self.session.get(
            self.base + path, headers=sent, timeout=ANSWER_SECONDS_MAX, allow_redirects=False, **more
        )

    def value(self, path, **more):
        response = self.ask(path, **more)
        response.raise_for_status()
        return response.json()


def known_ids(server):
    """Ids of things that are there, so that not every request ends with 404."""
    found = {kind: [] for kind in set(PARAMETERS.values())}
    found["trace"] = [row["trace_id"] for row in server.value("/traces", params={"limit": KNOWN_MAX})["items"]]
    found["flow"] = [row["trace_id"] for row in server.value("/flows", params={"limit": KNOWN_MAX})["items"]]
    found["work"] = [item["item"] for item in server.value("/work")["items"]][:KNOWN_MAX]
    found["question"] = [question["id"] for question in server.value("/questions")["items"]][:KNOWN_MAX]
    for trace in found["trace"]:
        for item in server.value(f"/traces/{trace}/events", params={"limit": 200})["items"]:
            stored = (item["event"] or {}).get("artifacts") or []
            named = [descriptor.get("artifact_hash") for descriptor in stored if isinstance(descriptor, dict)]
            found["artifact"] += [value for value in named if isinstance(value, str)]
        found["report"] += [row["report_id"] for row in server.value(f"/traces/{trace}/reports")["items"]]
    found["artifact"] = list(dict.fromkeys(found["artifact"]))[:KNOWN_MAX]
    found["report"] = found["report"][:KNOWN_MAX]
    found["index"] = [0, 1, 2] if found["trace"] else []
    return found


def prefer(document, known):
    """The document with real ids beside all those that could be: what is valid stays the same."""
    for name, kind in PARAMETERS.items():
        if known[kind]:
            parameter = document["components"]["parameters"][name]
            parameter["schema"] = {"anyOf": [{"enum": known[kind]}, parameter["schema"]]}


def state(server):
    """What no GET may change: every trace, and every byte of the log."""
    rows, offset = [], 0
    while offset < 10_000:
        page = server.value("/traces", params={"offset": offset, "limit": 500, "order": "oldest"})
        members = ("trace_id", "events", "bytes", "head", "status", "closed")
        rows += [[row[member] for member in members] for row in page["items"]]
        offset += 500
        if offset >= page["matched"]:
            break
    about = server.value("/workspace")
    about.pop("now")
    log = hashlib.sha256(server.ask("/log/ledger").content).hexdigest()
    reports = {row[0]: len(server.value(f"/traces/{row[0]}/reports")["items"]) for row in rows[:KNOWN_MAX]}
    return {"workspace": about, "traces": rows, "log": log, "reports": reports}


def run(server, document, token, examples, seed, chosen, failures):
    """One run of schemathesis over the chosen operations; says which statuses each operation gave."""
    statuses = collections.defaultdict(set)
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "openapi.json").write_text(json.dumps(document))
        command = [
            sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml"), "run",
            "openapi.json", "--url", server.base, "--max-examples", str(examples), "--seed", str(seed), "--no-shrink",
            "--continue-on-failure", "--report", "json,ndjson", "--report-json-path", "run.json",
            "--report-ndjson-path", "run.ndjson", *chosen,
        ]
        environment = {**os.environ, "COUNTERSIGN_API_TOKEN": token, "NO_PROXY": "*", "no_proxy": "*"}
        try:
            ended = subprocess.run(
                command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=RUN_SECONDS_MAX, check=False, text=True, errors="replace",
            )
        except subprocess.TimeoutExpired:
            failures.add("run", " ".join(chosen), f"not done after {RUN_SECONDS_MAX} s")
            return statuses
        if not (place / "run.json").exists():
            failures.add("run", " ".join(chosen), "no report: " + ended.stdout[-MESSAGE_MAX + 20:])
            return statuses
        report = json.loads((place / "run.json").read_text())
        operations = report["operations"] or {}
        if report["errors"] or not report["complete"] or operations.get("tested") != operations.get("selected"):
            told = {"errors": report["errors"], "operations": operations, "stopped": report["stop_reason"]}
            failures.add("run", " ".join(chosen), json.dumps(told) + "\n" + ended.stdout[-400:])
        with (place / "run.ndjson").open(encoding="utf-8") as lines:
            for line in lines:
                read(json.loads(line), statuses, failures)
        listed = {failure["check"] for failure in failures.found.values()}
        if report["failures"] and not listed:
            failures.add("run", " ".join(chosen), json.dumps(report["failures"]))
    return statuses


def read(event, statuses, failures):
    """Takes what there is to know out of one event of a run."""
    recorder = event.get("ScenarioFinished", {}).get("recorder") or {}
    interactions = recorder.get("interactions") or {}
    for interaction in interactions.values():
        failures.requests += 1
        response = interaction.get("response")
        if response:
            statuses[recorder["label"]].add(response["status_code"])
    for case, checks in (recorder.get("checks") or {}).items():
        for check in checks:
            if check["status"] == "success":
                continue
            failure = (check.get("failure_info") or {}).get("failure") or {}
            interaction = interactions.get(case) or {}
            request, response = interaction.get("request") or {}, interaction.get("response") or {}
            failures.add(
                check["name"], recorder["label"], failure.get("message") or failure.get("title") or "failed",
                request=f"{request.get('method')} {request.get('uri')}"[:MESSAGE_MAX],
                status=response.get("status_code"),
            )


def messages(response, seconds):
    """The messages of a stream as they come, until the time is over."""
    until = time.monotonic() + seconds
    name, data = None, []
    for line in response.iter_lines(chunk_size=1):
        line = line.decode("utf-8")
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].strip())
        elif not line and data:
            yield name, json.loads("\n".join(data))
            name, data = None, []
        if time.monotonic() > until:
            return


def live(server, document, known, failures):
    """The live stream greets, tells what is there, and refuses what makes no sense."""
    where = "GET /live"
    for query, expected in [
        ("?trace=" + "7" * 26, 404), ("?from=-1", 400), ("?from=x", 400), ("?since=1", 400), ("?from=1&from=2", 400),
    ]:
        with server.ask("/live" + query, stream=True) as response:
            if response.status_code != expected:
                failures.add("live", where, f"{query} gave {response.status_code}, not {expected}")
    with server.ask("/live", token=False, stream=True) as response:
        if response.status_code != 401:
            failures.add("live", where, f"without the token it gave {response.status_code}, not 401")
    item = jsonschema_rs.validator_for({"$ref": "#/components/schemas/EventItem", "components": document["components"]})
    for trace in [None, *known["trace"][:3]]:
        query = f"?trace={trace}&from=0" if trace else ""
        wanted = ["hello", "events"] if trace else ["hello"]
        try:
            with server.ask("/live" + query, stream=True) as response:
                media = response.headers.get("Content-Type", "")
                if response.status_code != 200 or not media.startswith("text/event-stream"):
                    failures.add("live", where, f"{query} gave {response.status_code} {media}")
                    continue
                for name, value in messages(response, LIVE_SECONDS_MAX):
                    if wanted[0] == "hello" and name != "hello":
                        failures.add("live", where, f"{query} begins with {name}, not with hello")
                    if name == "events" and trace:
                        places = [line["index"] for line in value["items"]]
                        right = value["trace_id"] == trace and places == list(range(len(places)))
                        if not right or not all(item.is_valid(line) for line in value["items"]):
                            failures.add("live", where, f"{query} sent events {places} of {value['trace_id']}")
                    if name in wanted:
                        wanted.remove(name)
                    if not wanted:
                        break
        except requests.RequestException as error:
            failures.add("live", where, f"{query}: {error}")
        if wanted:
            failures.add("live", where, f"{query} sent no {wanted[0]} within {LIVE_SECONDS_MAX} s")


def ranges(server, known, chance, examples, failures):
    """A part is that part of the whole, and the whole has its hash."""
    paths = [f"/artifacts/{value}" for value in known["artifact"]] + ["/log/ledger"]
    paths += [f"/traces/{trace}/ledger" for trace in known["trace"]]
    for path in chance.sample(paths, min(len(paths), 8)):
        response = server.ask(path)
        if response.status_code in (404, 409):
            continue
        whole = response.content
        if path.startswith("/artifacts/") and hashlib.sha256(whole).hexdigest() != path.rsplit("/", 1)[1]:
            failures.add("ranges", "GET /artifacts/{hash}", f"{path} has other bytes")
        for _ in range(examples):
            first, last = chance.randrange(len(whole) + 3), chance.randrange(len(whole) + 3)
            if last < first:
                continue
            response = server.ask(path, headers={"Range": f"bytes={first}-{last}"})
            expected = (206, whole[first:last + 1]) if first < len(whole) else (416, None)
            content = response.content if response.status_code == 206 else None
            if (response.status_code, content) != expected:
                failures.add("ranges", f"GET {path}", f"bytes {first} to {last} gave {response.status_code}")


def pages(server, known, chance, failures):
    """Pages lie beside each other without a gap, and their counts are right."""
    for trace in known["trace"][:3]:
        path, limit = f"/traces/{trace}/events", chance.randrange(1, 8)
        first = server.value(path, params={"limit": 200})
        places = []
        for offset in range(0, min(first["total"], 200), limit):
            page = server.value(path, params={"offset": offset, "limit": limit})
            places += [line["index"] for line in page["items"]]
        if first["matched"] != first["total"] or places[:200] != [line["index"] for line in first["items"]]:
            failures.add("pages", "GET /traces/{id}/events", f"pages of {limit} of {trace} are not the whole")


def reports(server, known, failures):
    """Every report that is listed is there, as that report."""
    for trace in known["trace"]:
        for row in server.value(f"/traces/{trace}/reports")["items"][:3]:
            response = server.ask(f"/traces/{trace}/reports/{row['report_id']}")
            if response.status_code != 200 or response.json()["verification_status"] != row["verification_status"]:
                failures.add("reports", "GET /traces/{id}/reports/{report_id}", f"{row['report_id']} differs")


def fuzz(base, token, examples, seed, only):
    failures = Failures()
    server = Server(base, token, failures)
    document = server.value("/openapi.json", token=False)
    known = known_ids(server)
    preferred = json.loads(json.dumps(document))
    prefer(preferred, known)
    chance = random.Random(seed)

    before = state(server)
    chosen = ["--include-path", only] if only else ["--exclude-method", "POST"]
    statuses = run(server, preferred, token, examples, seed, chosen, failures)
    live(server, document, known, failures)
    ranges(server, known, chance, examples, failures)
    pages(server, known, chance, failures)
    reports(server, known, failures)
    after = state(server)
    for member, value in before.items():
        if after[member] != value:
            became = json.dumps(after[member])[:300]
            failures.add("state", "GET", f"{member} changed: {json.dumps(value)[:300]} became {became}")
    if not only:
        statuses.update(run(server, preferred, token, examples, seed, ["--include-method", "POST"], failures))

    # A run in which nothing was ever found shows nothing.
    unreached = []
    for path, operations in ({} if only else document["paths"]).items():
        for method in operations:
            label = f"{method.upper()} {path}"
            if not statuses[label] & {200, 206}:
                unreached.append(label)
                parameters = [it["$ref"].rsplit("/", 1)[1] for it in operations[method].get("parameters", [])]
                # A report belongs to one trace, and the two are drawn apart: `reports` asks for those that fit.
                certain = method == "get" and "ReportId" not in parameters
                if certain and all(known[PARAMETERS[name]] for name in parameters if name in PARAMETERS):
                    failures.add("reached", label, f"never succeeded; statuses: {sorted(statuses[label])}")
    return {"requests": failures.requests, "failures": list(failures.found.values()), "unreached": unreached}


def main():
    if len(sys.argv) not in (5, 6):
        sys.stderr.write(__doc__)
        return 2
    base, token, examples, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    only = sys.argv[5] if len(sys.argv) == 6 else None
    if urllib.parse.urlsplit(base).hostname not in LOOPBACK:
        sys.stderr.write(f"{base} is not on this machine; nothing else is fuzzed\n")
        return 2
    try:
        summary = fuzz(base, token, examples, seed, only)
    except (requests.RequestException, KeyError, TypeError, ValueError) as error:
        failure = {"check": "begin", "operation": "", "message": repr(error)[:MESSAGE_MAX]}
        summary = {"requests": 0, "failures": [failure], "unreached": []}
    print(json.dumps(summary, indent=2))
    return 1 if summary["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
