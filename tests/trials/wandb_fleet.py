"""A whole project of W&B under one watcher, measured: `python -m tests.trials.wandb_fleet`, or `make trials`.

A loopback server in a process of its own holds 300 runs that log 20 metrics a second and allows a thousand questions a
minute; one process watches them by `fleet.vitals`. Said in the end: which rows were missed, what was
asked, how long a pass takes, how busy one core is, and what a run costs in memory. Exits 1 where a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from vitalsdsl_wandb import remote

import vitalsdsl as vitals
from tests.wandb.server import Json, Run, Server, iso
from vitalsdsl.watching.feeds import Feed, Wanted
from vitalsdsl.watching.watched import Reading, Watched
from vitalsdsl.watching.watcher import Assignment, Shows, Watcher

POLICY = Path(__file__).with_name("fleet.vitals")
NOISY = Path(__file__).with_name("noisy.vitals")
HERE = "tests.trials.wandb_fleet"
MOST_MEGABYTES = 0.5
MOST_CORES = 1.0
PASS_SECONDS = 15.0


# ---------------------------------------------------------------- the project


@dataclass
class Growing(Run):
    """A run whose rows are a function of their number, so that any length of it costs nothing. One in four is quiet."""

    number: int = 0
    metrics: int = 20
    past: int = 0
    every: float = 1.0
    held_at: float = field(default=0.0)

    def count(self) -> int:
        seconds = (self.held_at or time.time()) - self.created
        return self.past + (0 if self.number % 4 == 3 else int(seconds / self.every))

    def newest(self) -> int:
        return self.count() - 1

    def between(self, low: int, high: int) -> list[str]:
        return [json.dumps(self.row(step)) for step in range(max(low, 0), min(high, self.count()))]

    def keys(self) -> Json:
        return {name: {"typeCounts": [{"type": "number", "count": 1}]} for name in self.row(0)}

    def row(self, step: int) -> Json:
        at = self.created + (step - self.past) * self.every
        scatter = [
            ((step * 7919 + self.number * 104_729 + k * 1_299_709) % 10_007) / 10_007 for k in range(self.metrics)
        ]
        values = {f"m{k}": 1.0 + 0.1 * x for k, x in enumerate(scatter)}
        values |= {"train/loss": 2.0 + 3.0 / (1 + step / 100) + 0.1 * scatter[0], "train/grad_norm": 1.0 + scatter[1]}
        for unread in ("m0", "m1"):
            del values[unread]
        return {"_step": step, "_timestamp": at, "_runtime": step * self.every, **values}

    def node(self) -> Json:
        self.heartbeat = time.time()
        return {**super().node(), "heartbeatAt": iso(self.heartbeat)}


def serve(options: argparse.Namespace) -> None:
    """Keep the project until stdin ends; each line of it is answered by how things stand."""
    with Server() as server:
        server.limit = options.limit
        for number in range(options.runs):
            name = f"r{number:03}"
            run = Growing(
                "team", "p", name, number=number, metrics=options.metrics, past=options.past, every=options.every
            )
            server.runs[f"team/p/{name}"] = run
        print(json.dumps(server.environment()), flush=True)
        for line in sys.stdin:
            with server.lock:
                if line.strip() == "hold":
                    for run in server.runs.values():
                        run.held_at = time.time()
                asked, unknown = Counter(server.asked), Counter(server.unknown)
            rows = {name.rpartition("/")[2]: run.count() for name, run in server.runs.items()}
            print(json.dumps({"asked": asked, "unknown": unknown, "refused": server.refused, "rows": rows}), flush=True)


class Project:
    """The server's process, from outside it."""

    def __init__(self, options: argparse.Namespace) -> None:
        told = [f"--{name}={getattr(options, name)}" for name in ("runs", "metrics", "past", "every", "limit")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", HERE, "--serve", *told], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lock = threading.Lock()
        os.environ.update(json.loads(self._out.readline()))

    @property
    def _out(self) -> TextIO:
        assert self._process.stdout is not None
        return self._process.stdout

    def stands(self, word: str = "now") -> Json:
        with self._lock:
            assert self._process.stdin is not None
            print(word, file=self._process.stdin, flush=True)
            found: Json = json.loads(self._out.readline())
            return found

    def close(self) -> None:
        self._process.communicate()


# ---------------------------------------------------------------- the watcher


class Timed:
    """A target whose looks are noted: a pass lasts from one until all runs that it led to have been read."""

    is_open = True

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.passes: list[list[float]] = []

    @property
    def tells_feeds(self) -> bool:
        return bool(self._inner.tells_feeds)

    def find(self) -> Sequence[Feed]:
        self.passes.append([time.monotonic(), time.monotonic()])
        found: Sequence[Feed] = self._inner.find()
        return found

    def close(self) -> None:
        self._inner.close()


class Judged(Shows):
    """How many rows of each run have been judged, and what was said."""

    def __init__(self, target: Timed) -> None:
        self.rows: Counter[str] = Counter()
        self.transitions = 0
        self.lines: Counter[str] = Counter()
        self._target = target

    def saw(self, run: Watched, reading: Reading) -> None:
        self.rows[run.feed.info.name] += reading.rows
        self.transitions += len(reading.transitions)
        self._target.passes[-1][1] = time.monotonic()

    def said(self, text: str) -> None:
        self.lines[text] += 1


def measure(options: argparse.Namespace) -> Json:
    """Watch the project for a while, then hold it, and see whether all has been judged."""
    project = Project(options)
    policy = vitals.load(str(NOISY if options.noisy else POLICY))
    target = Timed(remote.target("team/p", Wanted(step_key=policy.axis)))
    judged = Judged(target)
    with tempfile.TemporaryDirectory() as home:
        watcher = Watcher([Assignment(target, policy, reference="wandb:team/p")], Path(home), shows=judged)
        with ThreadPoolExecutor(1) as pool:
            observed = pool.submit(_observe, options, project, target, judged, watcher)
            watcher.run()
            found = observed.result()
    project.close()
    return found


def _observe(options: argparse.Namespace, project: Project, target: Timed, judged: Judged, watcher: Watcher) -> Json:
    found: Json = {}
    try:
        began, cpu = time.monotonic(), time.process_time()
        caught_up = _until(lambda: _behind(project, judged) <= 3 * PASS_SECONDS / options.every, 600.0)
        found["caught up"] = {"seconds": time.monotonic() - began, "in time": caught_up,
                              "cpu": time.process_time() - cpu, **_memory()}  # fmt: skip
        found["while catching up"] = {word: project.stands()[word] for word in ("asked", "refused")}
        time.sleep(2 * PASS_SECONDS)
        before, first = project.stands(), len(target.passes)
        found["memory at first"] = _memory()
        began, cpu = time.monotonic(), time.process_time()
        time.sleep(60.0 * options.minutes)
        after, seconds = project.stands(), time.monotonic() - began
        asked = Counter(after["asked"]) - Counter(before["asked"])
        found["cores"] = (time.process_time() - cpu) / seconds
        found["a minute"] = {name: count * 60.0 / seconds for name, count in asked.items()}
        lasted = [end - start for start, end in target.passes[first:-1]] or [0.0]
        found["a pass"] = {"count": len(lasted), "longest": max(lasted), "mean": sum(lasted) / len(lasted)}
        found["memory at last"] = _memory()
        held = project.stands("hold")
        _until(lambda: _behind(project, judged) <= 0, 5 * PASS_SECONDS)
        written = Counter(held["rows"])
        found |= {"written": sum(written.values()), "judged": sum(judged.rows.values()), "refused": held["refused"],
                  "missed": sum((written - judged.rows).values()), "twice": sum((judged.rows - written).values()),
                  "transitions": judged.transitions, "said": dict(judged.lines.most_common(8)),
                  "unknown": held["unknown"]}  # fmt: skip
        return found
    finally:
        watcher.stop()


def _behind(project: Project, judged: Judged) -> int:
    """By how many rows the watcher is behind where it is so most."""
    rows = project.stands()["rows"]
    return max(count - judged.rows[name] for name, count in rows.items())


def _until(is_so: Any, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


def _memory() -> dict[str, float]:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return {"MB": int(line.split()[1]) / 1024}
    raise OSError("this system does not say how much memory a process has")


# ---------------------------------------------------------------- both


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--metrics", type=int, default=20)
    parser.add_argument("--past", type=int, default=600, help="rows that each run has at first")
    parser.add_argument("--every", type=float, default=1.0, help="seconds from row to row")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--limit", type=int, default=1000, help="questions that the server allows a minute")
    parser.add_argument("--noisy", action="store_true", help="a transition in every hundred rows")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options)
        return 0
    if options.measure:
        print(json.dumps(measure(options)))
        return 0
    one, many = (_apart(options, runs) for runs in (1, options.runs))
    each = {when: (many[f"memory at {when}"]["MB"] - one[f"memory at {when}"]["MB"]) / (options.runs - 1)
            for when in ("first", "last")}  # fmt: skip
    print(json.dumps({"one run": one, f"{options.runs} runs": many, "MB a run": each}, indent=2))
    broken = {
        "rows are missed, or judged twice": many["missed"] + many["twice"] > 0,
        "questions are refused": many["refused"] > many["while catching up"]["refused"],
        "a pass takes longer than the time between two": many["a pass"]["longest"] > PASS_SECONDS,
        "more than a core is used": many["cores"] > MOST_CORES,
        "a run takes too much memory": max(each.values()) > MOST_MEGABYTES,
    }
    for what in (what for what, is_so in broken.items() if is_so):
        print(f"broken: {what}")
    return 1 if any(broken.values()) else 0


def _apart(options: argparse.Namespace, runs: int) -> Json:
    """A measurement in a process of its own."""
    minutes = options.minutes if runs > 1 else min(0.5, options.minutes)
    told = [f"--{name}={getattr(options, name)}" for name in ("metrics", "past", "every", "limit")]
    noisy = ["--noisy"] if options.noisy else []
    command = [sys.executable, "-m", HERE, "--measure", f"--runs={runs}", f"--minutes={minutes}", *told, *noisy]
    found: Json = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
