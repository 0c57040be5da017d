"""A loopback server that speaks W&B's protocol: enough of it for the real SDK to log in, train, resume and end a run.

    with Server() as server:
        os.environ.update(server.environment())

What it answers is what W&B's own programs were seen to send and accept. These are guesses about the real service, and
no test of the product may rest on them:

- how a run that is resumed, rewound or written by two processes at once merges its summary, config and tags;
- that an alert of the same title is never suppressed;
- that `lastStep`, `historyLineCount` and the rows of a page always agree (faults make them disagree on purpose);
- how many runs one question may be about, each under an alias (here any number; `most_aliases` sets a bound);
- over how many seconds the service counts the questions of which it allows a number (here a minute, by `limit`);
- in which words errors are said.

`faults` are taken one by one: `server.fail("HistoryPage", status=429, headers={"Retry-After": "2"})`. `asked` lists the
operations in order; `unknown` those it had no answer for.
"""

from __future__ import annotations

import base64
import copy
import functools
import gzip
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "0123456789abcdef0123456789abcdef01234567"
ENTITY = "team"

Json = dict[str, Any]


@dataclass
class Run:
    """One run as the service keeps it."""

    entity: str
    project: str
    name: str
    state: str = "running"
    tags: list[str] = field(default_factory=list)
    config: Json = field(default_factory=dict)
    summary: Json = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    created: float = field(default_factory=time.time)
    heartbeat: float = field(default_factory=time.time)
    stopped: bool = False
    display: str = ""
    last_step: int | None = None
    """What is said of the newest step, where that is not the truth."""

    @property
    def id(self) -> str:
        return base64.b64encode(f"Run:v1:{self.name}:{self.project}:{self.entity}".encode()).decode()

    def rows(self) -> Iterator[tuple[int, str]]:
        for line in self.lines:
            yield step_of(line), line

    def log(self, *rows: Json) -> None:
        """Put rows into the history, as a trainer would; `_step` counts on, `_timestamp` is now."""
        newest = self.newest()
        for row in rows:
            newest += 1
            self.lines.append(json.dumps({"_step": newest, "_timestamp": time.time(), **row}))
        self.heartbeat = time.time()

    def count(self) -> int:
        return len(self.lines)

    def newest(self) -> int:
        """The last step; -1 before the first."""
        return max((step for step, _ in self.rows()), default=-1)

    def between(self, low: int, high: int) -> list[str]:
        """The rows of a range of steps (without `high`), in the order of their steps."""
        return [line for _, line in sorted((r for r in self.rows() if low <= r[0] < high), key=lambda row: row[0])]

    def keys(self) -> Json:
        found = [*json.loads(self.lines[-1])] if self.lines else []
        return {key: {"typeCounts": [{"type": "number", "count": 1}]} for key in found}

    def node(self) -> Json:
        last = self.last_step if self.last_step is not None else self.newest()
        return {
            "id": self.id,
            "name": self.name,
            "displayName": self.display or self.name,
            "description": "",
            "notes": "",
            "state": self.state,
            "tags": list(self.tags),
            "config": json.dumps(self.config),
            "summaryMetrics": json.dumps(self.summary),
            "createdAt": iso(self.created),
            "heartbeatAt": iso(self.heartbeat),
            "stopped": self.stopped,
            "historyLineCount": self.count(),
            "historyKeys": {"sets": [], "keys": self.keys(), "lastStep": last} if self.count() else None,
            "sweepName": None,
            "group": None,
            "jobType": None,
            "projectId": 1,
            "project": {"id": "p", "name": self.project, "entity": {"id": "e", "name": self.entity}},
        }


@dataclass
class Fault:
    """What happens instead of (or, with `after`, after) the answer to one operation.

    `cut`: the connection ends in the middle of the answer. `drip`: seconds between single bytes of it.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: bool = False
    drip: float = 0.0
    sleep: float = 0.0
    after: bool = False
    change: Callable[[Json], None] | None = None


class Server:
    """The server and all that it keeps. Runs are found by `entity/project/name`."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.alerts: list[Json] = []
        self.asked: list[str] = []
        self.variables: list[Json] = []
        self.unknown: list[str] = []
        self.faults: list[tuple[str, Fault]] = []
        self.before: dict[str, Callable[[Json], None]] = {}
        self.headers: dict[str, str] = {}
        self.most_aliases = 10_000
        self.limit: int | None = None
        self.refused = 0
        self._window = (0.0, 0)
        self.key = KEY
        self.lock = threading.RLock()
        self._http = _Http(("127.0.0.1", 0), type("Bound", (_Handler,), {"server_of": self}))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Server:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def environment(self) -> dict[str, str]:
        return {"WANDB_BASE_URL": self.url, "WANDB_API_KEY": self.key, "WANDB_ENTITY": ENTITY}

    def run(self, name: str = "r1", project: str = "p", **facts: Any) -> Run:
        """A run that is there, made where it is new."""
        run = self.runs.setdefault(f"{ENTITY}/{project}/{name}", Run(ENTITY, project, name))
        for key, value in facts.items():
            setattr(run, key, value)
        return run

    def fail(self, operation: str, times: int = 1, **how: Any) -> None:
        """The next answers to an operation go wrong."""
        self.faults += [(operation, Fault(**how))] * times

    def take_fault(self, operation: str) -> Fault | None:
        with self.lock:
            for at, (name, fault) in enumerate(self.faults):
                if name in (operation, "*"):
                    del self.faults[at]
                    return fault
        return None

    def allowance(self) -> dict[str, str]:
        """What is said of the limit with each answer; nothing where there is none."""
        if self.limit is None:
            return {}
        with self.lock:
            began, count = self._window
            if time.monotonic() - began >= 60.0:
                began, count = time.monotonic(), 0
            self._window = began, count + 1
            reset = max(0.0, 60.0 - (time.monotonic() - began))
        return {"RateLimit-Remaining": str(self.limit - count - 1), "RateLimit-Reset": f"{reset:.0f}"}

    # ---------------------------------------------------------------- operations

    def answer(self, operation: str, query: str, variables: Json) -> Json:
        with self.lock:
            self.asked.append(operation)
            self.variables.append(variables)
            hook = self.before.get(operation)
            if hook is not None:
                hook(variables)
            method = getattr(self, f"do_{operation}", None)
            if method is None:
                self.unknown.append(operation)
                return {"errors": [{"message": f"no answer for {operation}"}], "data": None}
            if len(re.findall(r"\w+: run\(", query)) > self.most_aliases:
                return {"errors": [{"message": "the query is too complex"}], "data": None}
            return {"data": method(variables, query)}

    def _named(self, given: Json) -> Run | None:
        entity = given.get("entity") or given.get("entityName") or ENTITY
        project = given.get("project") or given.get("projectName")
        name = given.get("run") or given.get("name") or given.get("runName")
        return self.runs.get(f"{entity}/{project}/{name}")

    def _by_id(self, given: Json) -> Run | None:
        return next((run for run in self.runs.values() if run.id == given.get("id")), None)

    def do_Viewer(self, given: Json, query: str) -> Json:
        viewer = {"id": "u", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}", "teams": {"edges": []}}
        return {"viewer": viewer}

    def do_ServerFeaturesQuery(self, given: Json, query: str) -> Json:
        return {"serverInfo": {"features": []}}

    def do_OrganizationCoreWeaveOrganizationID(self, given: Json, query: str) -> Json:
        return {"entity": {"organization": None}}

    def do_UpsertBucket(self, given: Json, query: str) -> Json:
        run = self._by_id(given) or self._named(given)
        is_new = run is None
        if run is None:
            run = self.run(given["name"], given.get("project") or "uncategorized")
        if given.get("tags") is not None:
            run.tags = list(given["tags"])
        if given.get("config"):
            run.config.update(json.loads(given["config"]))
        if given.get("displayName"):
            run.display = given["displayName"]
        if given.get("host"):  # a process that trains, not somebody outside
            run.state = "running"
            run.heartbeat = time.time()
        return {"upsertBucket": {"bucket": run.node(), "inserted": is_new}}

    def do_RunResumeStatus(self, given: Json, query: str) -> Json:
        run = self._named(given)
        if run is None:
            return {
                "model": {"id": "p", "name": given["project"], "entity": {"id": "e", "name": ENTITY}, "bucket": None}
            }
        tail = json.dumps(run.lines[-1:])
        bucket = {
            **run.node(),
            "logLineCount": 0,
            "eventsLineCount": 0,
            "historyTail": tail,
            "eventsTail": "[]",
            "wandbConfig": json.dumps({"t": {"value": 1}}),
        }
        return {"model": {"id": "p", "name": run.project, "entity": {"id": "e", "name": ENTITY}, "bucket": bucket}}

    def do_RewindRun(self, given: Json, query: str) -> Json:
        run = self._named(given)
        assert run is not None
        run.lines = [line for step, line in run.rows() if step <= given["metricValue"]]
        return {"rewindRun": {"rewoundRun": run.node()}}

    def do_CreateRunFiles(self, given: Json, query: str) -> Json:
        files = [{"name": name, "uploadUrl": f"{self.url}/storage/{name}"} for name in given["files"]]
        return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}

    def do_ArtifactType(self, given: Json, query: str) -> Json:
        kind = {"id": "t", "name": given.get("artifactTypeName")}
        return {"project": {"id": "p", "artifactType": kind if kind["name"] else None, "artifact": None}}

    def do_CreateArtifact(self, given: Json, query: str) -> Json:
        """What is known already need not be sent: no artifact is kept here."""
        artifact = {"id": "a", "state": "COMMITTED", "artifactSequence": {"id": "s", "latestArtifact": {"id": "a"}}}
        return {"createArtifact": {"artifact": {**artifact, "createdAt": iso(0), "updatedAt": iso(0)}}}

    def do_NotifyScriptableRunAlert(self, given: Json, query: str) -> Json:
        self.alerts.append(copy.copy(given))
        return {"notifyScriptableRunAlert": {"success": True}}

    def do_StopRun(self, given: Json, query: str) -> Json:
        run = self._by_id(given)
        if run is not None:
            run.stopped = True
        return {"stopRun": {"success": run is not None}}

    def do_Run(self, given: Json, query: str) -> Json:
        run = self._named(given)
        return {"project": {"run": run.node() if run is not None else None}}

    def do_Configs(self, given: Json, query: str) -> Json:
        found = {}
        for alias, name in re.findall(r'(\w+):\s*run\(name:\s*"([^"]*)"\)', query):
            run = self._named({**given, "run": name})
            found[alias] = run.node() if run is not None else None
        return {"project": found}

    def do_HistoryPage(self, given: Json, query: str) -> Json:
        run = self._named(given)
        if run is None:
            return {"project": {"run": None}}
        return {"project": {"run": _with_history(run, given["minStep"], given["maxStep"], given["pageSize"])}}

    def do_HistoryPages(self, given: Json, query: str) -> Json:
        """Pages of several runs, each under a name of its own, as GraphQL has it."""
        parts = re.findall(
            r"(\w+): run\(name: \$(\w+)\) \{[^{}]*history\(minStep: \$(\w+), maxStep: \$(\w+), samples: \$(\w+)\)",
            query,
        )
        found: Json = {}
        for alias, name, *numbers in parts:
            run = self._named({**given, "run": given[name]})
            found[alias] = None if run is None else _with_history(run, *(given[number] for number in numbers))
        return {"project": found}

    def do_Runs(self, given: Json, query: str) -> Json:
        wanted = json.loads(given.get("filters") or "{}")
        found = [
            run
            for run in self.runs.values()
            if (run.entity, run.project) == (given["entity"], given["project"]) and matches(run.node(), wanted)
        ]
        if not any(run.project == given["project"] for run in self.runs.values()):
            return {"project": None}
        found.sort(key=lambda run: run.created, reverse=(given.get("order") or "+").startswith("-"))
        start = int(given.get("cursor") or 0)
        page = found[start : start + (given.get("perPage") or 50)]
        stop = start + len(page)
        edges = [{"node": run.node(), "cursor": str(start + at + 1)} for at, run in enumerate(page)]
        info = {"endCursor": str(stop), "hasNextPage": stop < len(found)}
        return {"project": {"internalId": "1", "runCount": len(found), "runs": {"edges": edges, "pageInfo": info}}}

    def do_GetProjects(self, given: Json, query: str) -> Json:
        names = sorted({run.project for run in self.runs.values() if run.entity == given["entity"]})
        if not names:
            return {"models": None}
        start = int(given.get("cursor") or 0)
        page = names[start : start + (given.get("perPage") or 50)]
        stop = start + len(page)
        edges = [{"node": {"name": name}} for name in page]
        return {"models": {"edges": edges, "pageInfo": {"endCursor": str(stop), "hasNextPage": stop < len(names)}}}

    def file_stream(self, name: str, sent: Json) -> Json:
        with self.lock:
            run = self.runs[name]
            run.heartbeat = time.time()
            for file, part in (sent.get("files") or {}).items():
                if file == "wandb-history.jsonl":
                    run.lines[part["offset"] :] = part["content"]
                elif file == "wandb-summary.json":
                    run.summary.update(json.loads(part["content"][-1]))
            if sent.get("complete"):
                run.state = "finished" if not sent.get("exitcode") else "failed"
            return {"limits": {}, **({"stopped": True} if run.stopped else {})}


class _Http(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, as a program of W&B does at its end, is no error of a test."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server_of: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        server = self.server_of
        expected = "Basic " + base64.b64encode(f"api:{server.key}".encode()).decode()
        if self.headers.get("Authorization") != expected:
            self._send(401, {"errors": [{"message": "user is not logged in"}]})
            return
        stream = re.fullmatch(r"/files/([^/]+/[^/]+/[^/]+)/file_stream", self.path)
        if stream is not None:
            self._send(200, server.file_stream(stream[1], json.loads(body)))
            return
        if self.path != "/graphql":
            self._send(404, {})
            return
        asked = json.loads(body)
        named = re.search(r"(?:query|mutation)\s+(\w+)", asked["query"])
        operation = asked.get("operationName") or (named[1] if named else "")
        allowed = server.allowance()
        if allowed.get("RateLimit-Remaining", "").startswith("-"):
            server.refused += 1
            self._send(429, {"errors": [{"message": "rate limit exceeded"}]}, {**allowed, "RateLimit-Remaining": "0"})
            return
        fault = server.take_fault(operation)
        if fault is None:
            self._send(200, server.answer(operation, asked["query"], asked.get("variables") or {}), allowed)
            return
        answer: Json = {"errors": [{"message": f"injected; the key is {server.key}"}]}
        if fault.status == 200 or fault.after:
            answer = server.answer(operation, asked["query"], asked.get("variables") or {})
        else:
            server.asked.append(operation)
            server.variables.append(asked.get("variables") or {})
        if fault.change is not None:
            fault.change(answer)
        self._go_wrong(fault, json.dumps(answer).encode() if fault.body is None else fault.body)

    def _go_wrong(self, fault: Fault, body: bytes) -> None:
        time.sleep(fault.sleep)
        self.send_response_only(fault.status)
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            if fault.drip:
                for at in range(len(body)):
                    self.wfile.write(body[at : at + 1])
                    self.wfile.flush()
                    time.sleep(fault.drip)
            else:
                self.wfile.write(body[: len(body) // 2] if fault.cut else body)
        except OSError:
            pass  # the other side had enough
        self.close_connection = fault.cut or bool(fault.drip)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._send(200, {})

    def do_GET(self) -> None:
        self._send(404, {})

    def _send(self, status: int, answer: Json, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in {**self.server_of.headers, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _with_history(run: Run, low: int, high: int, samples: int) -> Json:
    """A run with a range of its rows, of which some are left out where there are more than were asked for."""
    lines = run.between(low, high)
    if len(lines) > samples:
        every = len(lines) / samples
        lines = [lines[int(at * every)] for at in range(samples)]
    return {**run.node(), "history": lines}


@functools.cache
def step_of(line: str) -> int:
    return int(json.loads(line)["_step"])


def iso(when: float) -> str:
    return datetime.fromtimestamp(when, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def matches(node: Json, wanted: Json) -> bool:
    """The part of MongoDB's language of filters that W&B documents, as far as it is asked for."""
    for key, test in wanted.items():
        if key == "$and":
            fits = all(matches(node, one) for one in test)
        elif key == "$or":
            fits = any(matches(node, one) for one in test)
        else:
            value = node[key]
            values = value if isinstance(value, list) else [value]
            tests = test if isinstance(test, dict) else {"$eq": test}
            fits = all(any(_holds(op, one, other) for one in values) for op, other in tests.items())
        if not fits:
            return False
    return True


def _holds(op: str, one: Any, other: Any) -> bool:
    return {
        "$eq": lambda: one == other,
        "$in": lambda: one in other,
        "$gte": lambda: one >= other,
        "$gt": lambda: one > other,
    }[op]()  # type: ignore[no-any-return]
