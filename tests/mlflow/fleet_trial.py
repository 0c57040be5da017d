"""A fleet under one watcher, measured: `python -m tests.mlflow.fleet_trial --runs 300 --metrics 20`, or `make fleet`.

Starts an MLflow server on loopback, writes runs that go on into its sqlite file, and watches the experiment from a process
of its own, under a policy with windows of up to 500 steps. Prints what was written, judged and missed, what was asked, how
far behind the watcher was, and what it needed. Not part of the tests: it goes on for minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
from vitalsdsl_mlflow.remote import RunFeed
from vitalsdsl_mlflow.rest import Rest
from vitalsdsl_mlflow.server import Server
from vitalsdsl_mlflow.targets import ExperimentTarget

from vitalsdsl.feeds import Batch, Cursor, Wanted
from vitalsdsl.points import Row
from vitalsdsl.policy import load
from vitalsdsl.watched import Reading, Watched
from vitalsdsl.watcher import Assignment, Shows, Watcher

POLICY = Path(__file__).with_name("fleet.vitals")

WARM_S = 30.0
"""What the first look at every run needs is not counted."""


class CountedRest(Rest):
    """Counts what is asked."""

    asked: Counter[str] = Counter()

    def _asked(self, method: str, url: str, options: dict[str, Any]) -> Any:
        self.asked["artifacts" if "/artifacts/" in url else url.rpartition("/mlflow/")[2]] += 1
        return super()._asked(method, url, options)


class Fleet(ExperimentTarget):
    """Counts the looks, and sums up the points that its runs give."""

    looks = 0

    def find(self) -> Sequence[RunFeed]:
        found = super().find()
        self.looks += 1
        for feed in found:
            if "read" not in vars(feed):
                feed.read = _summed(feed)  # type: ignore[method-assign]
        return found


sums: dict[str, list[int]] = {}
"""Of each run how many points were given, and the sum of their hashes: the same in any order."""


def hashed(key: str, step: int, value: str) -> int:
    return hash((len(key), *map(ord, key), step, *map(ord, value))) & 0xFFFFFFFF


def _summed(feed: RunFeed) -> Any:
    read, summed = feed.read, sums.setdefault(feed.info.name, [0, 0])

    def counting(cursor: Cursor | None) -> Batch:
        batch = read(cursor)
        for event in batch.events:
            if isinstance(event, Row):
                for key, value in event.values.items():
                    summed[0] += 1
                    summed[1] += hashed(key, event.step, repr(value))
        return batch

    return counting


class Behind(Shows):
    """How long each run was left alone between two readings, and what was said."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.gaps: list[float] = []
        self.over: set[str] = set()
        self.transitions = 0

    def saw(self, run: Watched, reading: Reading) -> None:
        name, now = run.feed.info.name, time.monotonic()
        if name in self.at and len(self.gaps) < 1_000_000:
            self.gaps.append(now - self.at[name])
        self.at[name] = now
        self.transitions += len(reading.transitions)
        if reading.is_over:
            self.over.add(name)

    def said(self, text: str) -> None:
        if ": not logged in the first" not in text:
            print(f"  said: {text}", file=sys.stderr)


def watch(uri: str, name: str, home: Path, policy: str, runs: int) -> None:
    """The watcher's own process: a line of JSON every five seconds, and one at the end."""
    loaded = load(policy)
    rest = CountedRest(uri)
    target = Fleet(Server(rest), uri, name, Wanted())
    behind = Behind()
    watcher = Watcher([Assignment(target, loaded)], home, shows=behind)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    me = psutil.Process()
    while thread.is_alive():
        thread.join(5.0)
        gaps, behind.gaps = behind.gaps, []
        times = me.cpu_times()
        print(json.dumps({
            "rss": me.memory_info().rss, "cpu": times.user + times.system, "at": time.monotonic(), "looks": target.looks,
            "asked": dict(rest.asked), "gaps": [round(gap, 2) for gap in gaps], "over": len(behind.over),
            "threads": me.num_threads(), "transitions": behind.transitions,
        }), flush=True)  # fmt: skip
        if len(behind.over) >= runs:
            watcher.stop()
    print(json.dumps({"sums": sums}), flush=True)


class Watching:
    """The other process, and what it says of itself."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "tests.mlflow.fleet_trial", "watch", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.told: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.append(json.loads(line))
            if "VITALS_TRIAL" in os.environ:
                said = self.told[-1]
                print(f"  {said.get('looks')} {said.get('asked')} over {said.get('over')} cpu {said.get('cpu')} thr {said.get('threads')} gaps {len(said.get('gaps', ()))}", file=sys.stderr)

    def ended(self, timeout: float) -> dict[str, list[int]]:
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.terminate()
        self._thread.join()
        return self.told.pop()["sums"] if self.told and "sums" in self.told[-1] else {}


def cpu_of(group: int) -> float:
    """CPU seconds of the processes of a group."""
    total = 0.0
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group:
                times = process.cpu_times()
                total += times.user + times.system
        except (psutil.Error, OSError):
            continue
    return total


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--metrics", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two steps of a run")
    parser.add_argument("--apart", type=int, default=0, help="steps by which each run is ahead of the one before")
    parser.add_argument(
        "--before", type=int, default=600, help="steps that each run has logged before the watch begins"
    )
    parser.add_argument("--again", type=int, default=3, help="runs that go back half-way and log steps again")
    parser.add_argument("--policy", default=str(POLICY))
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        trial(asked, Path(folder))


def trial(asked: argparse.Namespace, folder: Path) -> None:
    from tests.mlflow.conftest import Server as TrackingServer
    from tests.mlflow.fleet_writer import FleetWriter

    server = TrackingServer(folder / "server", _empty(folder))
    try:
        server.wait()
        writer = FleetWriter(folder / "server" / "server.db", "fleet", asked.runs, asked.metrics, apart=asked.apart)
        for _ in range(asked.before):
            writer.step(range(asked.runs))
        watching = Watching(server.uri, "fleet", folder / "home", asked.policy, asked.runs)
        marks = _write(writer, asked, server.process.pid)
        writer.end()
        sums = watching.ended(90.0)
        report(asked, writer, watching.told, sums, marks)
    finally:
        server.end()


def _write(writer: Any, asked: argparse.Namespace, group: int) -> list[tuple[float, float]]:
    """Log for as long as the trial goes on; the server's CPU seconds on the way."""
    began, marks, done = time.monotonic(), [(time.monotonic(), cpu_of(group))], 0
    due = [began + asked.every * number / asked.runs for number in range(asked.runs)]
    while (now := time.monotonic()) < began + asked.seconds:
        ready = [number for number in range(asked.runs) if due[number] <= now]
        for number in ready:
            due[number] += asked.every
        writer.step(ready)
        if done < asked.again and now > began + asked.seconds * (1 + done) / (2 + asked.again):
            writer.again(done, 100, math.nan)
            done += 1
        if now - marks[-1][0] >= 5.0:
            marks.append((now, cpu_of(group)))
        time.sleep(0.25)
    return marks


def _empty(folder: Path) -> Path:
    """A sqlite file with MLflow's tables in it, made by a process that ends."""
    file = folder / "empty.db"
    make = "import sys, mlflow; mlflow.MlflowClient(tracking_uri=sys.argv[1]).search_experiments()"
    subprocess.run([sys.executable, "-c", make, f"sqlite:///{file}"], cwd=folder, check=True, capture_output=True)
    return file


def report(
    asked: argparse.Namespace,
    writer: Any,
    told: list[dict[str, Any]],
    sums: dict[str, list[int]],
    marks: list[tuple[float, float]],
) -> None:
    wrong = 0
    for run, written in zip(writer.runs, writer.written):
        points = [point for point, count in written.items() for _ in range(count)]
        if sums.get(run) != [len(points), sum(hashed(*point) for point in points)]:
            wrong += 1
    count = sum(sum(written.values()) for written in writer.written)
    judged = sum(given for given, _ in sums.values())
    print(f"runs {asked.runs}, metrics {asked.metrics}, a step every {asked.every:g} s, {asked.apart} steps apart")
    print(f"points: written {count}, judged {judged}, runs whose points are not all there once {wrong}")
    end = marks[-1][0]
    warm = [said for said in told if said["at"] > told[0]["at"] + WARM_S and said["at"] <= end]
    if len(warm) < 3:
        print("too short to say more")
        return
    first, last = warm[0], warm[-1]
    wall, looks = last["at"] - first["at"], max(1, last["looks"] - first["looks"])
    requests = {call: n - first["asked"].get(call, 0) for call, n in last["asked"].items()}
    gaps = sorted(gap for said in warm[1:] for gap in said["gaps"])
    print(
        f"requests a look {sum(requests.values()) / looks:.1f}, a second {sum(requests.values()) / wall:.1f}: {requests}"
    )
    print(f"a look every {wall / looks:.1f} s; a run is read every {statistics.median(gaps):.1f} s (median), "
          f"{gaps[int(0.99 * len(gaps))]:.1f} s (99 %), {gaps[-1]:.1f} s (most)")  # fmt: skip
    used = last["cpu"] - first["cpu"]
    served = [mark for mark in marks if first["at"] <= mark[0] <= last["at"]]
    print(f"watcher: CPU {100 * used / wall:.0f} % of a core, {used / looks:.2f} s a look, {last['threads']} threads")
    print(f"server: CPU {100 * (served[-1][1] - served[0][1]) / (served[-1][0] - served[0][0]):.0f} % of a core")
    print("RSS, MB: " + ", ".join(f"{said['rss'] / 1e6:.0f}" for said in told[:: max(1, len(told) // 12)]))
    print(f"RSS at the end {last['rss'] / 1e6:.1f} MB; transitions {last['transitions']}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["watch"]:
        watch(sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5], int(sys.argv[6]))
    else:
        main(sys.argv[1:])
