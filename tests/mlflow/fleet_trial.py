"""A fleet under one watcher, measured: `python -m tests.mlflow.fleet_trial --runs 300 --metrics 20`, or `make trials`.

Starts an MLflow server on loopback, writes runs that go on into its sqlite file, and watches the experiment from a process
of its own, under a policy with windows of up to 500 steps, by which each run has a few transitions, or with `--noisy` some
150. Prints what was written, judged and missed, what was asked, how far behind the watcher was, and what it needed. Not
part of the tests: it goes on for minutes.
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

from vitalsdsl_mlflow.remote import RunFeed
from vitalsdsl_mlflow.rest import NotThere, Rest
from vitalsdsl_mlflow.server import Server
from vitalsdsl_mlflow.targets import ExperimentTarget

from tests.mlflow.growing_server import GrowingServer
from tests.mlflow.watching import wave
from vitalsdsl.ground.points import Row
from vitalsdsl.policies.policy import load
from vitalsdsl.watching.feeds import Batch, Cursor, Wanted
from vitalsdsl.watching.watched import Reading, Watched
from vitalsdsl.watching.watcher import Assignment, Shows, Watcher

POLICY = Path(__file__).with_name("fleet.vitals")
NOISY = Path(__file__).with_name("noisy.vitals")


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
        if cursor is None:  # from the beginning, also where it went back and is read anew
            summed[:] = 0, 0
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
        self.current: set[str] = set()
        self.over: set[str] = set()
        self.transitions = 0

    def saw(self, run: Watched, reading: Reading) -> None:
        name, now = run.feed.info.name, time.monotonic()
        if name in self.at and len(self.gaps) < 1_000_000:
            self.gaps.append(now - self.at[name])
        self.at[name] = now
        self.transitions += len(reading.transitions)
        if not reading.more:
            self.current.add(name)
        if reading.is_over:
            self.over.add(name)

    def said(self, text: str) -> None:
        if ": not logged in the first" not in text:
            print(f"  said: {text}", file=sys.stderr)


class PretendedServer(GrowingServer):
    """One whose runs go on as the clock does. Its artifacts lie on disk, as the memory that is measured is the watcher's."""

    def __init__(self, asked: argparse.Namespace) -> None:
        super().__init__(asked.runs, asked.metrics, every=asked.every, apart=asked.apart)
        self._began = time.monotonic() - asked.every * asked.before
        self._ends = time.monotonic() + asked.seconds
        self._folder: Path = asked.home / "artifacts"

    def get(self, call: str, **asked: Any) -> dict[str, Any]:
        self._go_on()
        return super().get(call, **asked)

    def post(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        self._go_on()
        return super().post(call, body)

    def upload(self, path: str, content: bytes) -> None:
        self.asked["artifacts"] += 1
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def download(self, path: str) -> bytes:
        self.asked["artifacts"] += 1
        file = self._folder / path
        if not file.exists():
            raise NotThere(f"there is no {path}")
        return file.read_bytes()

    def _go_on(self) -> None:
        now = time.monotonic()
        self.is_over = now > self._ends
        self.now = min(now, self._ends) - self._began

    def summed(self) -> dict[str, list[int]]:
        """As `sums`, of all that the runs have logged."""
        found = {}
        for run in self.ids:
            hashes = [
                hashed(key, step, repr(wave(at, step))) for at, key in enumerate(self.keys) for step in self.steps(run)
            ]
            found[run] = [len(hashes), sum(hashes)]
        return found


def watch(uri: str, home: Path, asked: argparse.Namespace) -> None:
    """The watcher's own process: a line of JSON every five seconds, and one at the end. Where there is no server, what one
    would answer is worked out here, which costs CPU that is not the watcher's."""
    loaded = load(asked.policy)
    rest: Any = CountedRest(uri) if uri else PretendedServer(asked)
    target = Fleet(Server(rest), rest.uri, "fleet", Wanted())
    behind = Behind()
    watcher = Watcher([Assignment(target, loaded)], home, shows=behind)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    while thread.is_alive():
        thread.join(5.0)
        gaps, behind.gaps = behind.gaps, []
        times = os.times()
        print(json.dumps({
            "rss": resident(), "cpu": times.user + times.system, "at": time.monotonic(), "looks": target.looks,
            "asked": dict(rest.asked), "gaps": [round(gap, 2) for gap in gaps], "over": len(behind.over), "current": len(behind.current),
            "threads": threading.active_count(), "transitions": behind.transitions,
        }), flush=True)  # fmt: skip
        if len(behind.over) >= asked.runs:
            watcher.stop()
    print(json.dumps({"sums": sums, "written": {} if uri else rest.summed()}), flush=True)


class Watching:
    """The other process, and what it says of itself."""

    def __init__(self, uri: str, home: Path, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", "tests.mlflow.fleet_trial", *arguments, "--watch", uri, "--home", str(home)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.told: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.append(json.loads(line))

    def ended(self, timeout: float) -> dict[str, dict[str, list[int]]]:
        """What it gave, and what there was if it knows."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.terminate()
        self._thread.join()
        return self.told.pop() if self.told and "sums" in self.told[-1] else {"sums": {}, "written": {}}


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_of(group: int) -> float:
    """CPU seconds of the processes of a group."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            told = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(told[2]) == group:
            ticks += int(told[11]) + int(told[12])
    return ticks / os.sysconf("SC_CLK_TCK")


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
    parser.add_argument("--noisy", action="store_const", dest="policy", const=str(NOISY), help="a burst of transitions")
    parser.add_argument(
        "--pretend", action="store_true", help="no server: its answers are worked out, for one busy core"
    )
    parser.add_argument("--patience", type=float, default=600.0, help="seconds for the watcher to come to the end")
    parser.add_argument("--watch", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.watch is not None:
        watch(asked.watch, asked.home, asked)
        return
    with tempfile.TemporaryDirectory() as folder:
        trial(asked, Path(folder), arguments)


def trial(asked: argparse.Namespace, folder: Path, arguments: Sequence[str]) -> None:
    if asked.pretend:
        alone = Watching("", folder / "alone", [*arguments, "--runs", "1", "--seconds", "20"])
        alone.ended(asked.patience)
        watching = Watching("", folder / "home", arguments)
        end = watching.ended(asked.seconds + asked.patience)
        report(asked, end["written"], watching.told, end["sums"], [])
        share = (watching.told[-1]["rss"] - alone.told[-1]["rss"]) / (asked.runs - 1) if asked.runs > 1 else 0.0
        print(f"RSS beyond that of a watcher of one run: {share / 1e6:.2f} MB a run")
        return
    from tests.mlflow.conftest import Server as TrackingServer
    from tests.mlflow.fleet_writer import FleetWriter

    server = TrackingServer(folder / "server", _empty(folder))
    try:
        server.wait()
        writer = FleetWriter(folder / "server" / "server.db", "fleet", asked.runs, asked.metrics, apart=asked.apart)
        for _ in range(asked.before):
            writer.step(range(asked.runs))
        watching = Watching(server.uri, folder / "home", arguments)
        marks = _write(writer, asked, server.process.pid)
        writer.end()
        end = watching.ended(asked.patience)
        written = {}
        for run, points in zip(writer.runs, writer.written):
            written[run] = [sum(points.values()), sum(count * hashed(*point) for point, count in points.items())]
        report(asked, written, watching.told, end["sums"], marks)
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
    written: dict[str, list[int]],
    told: list[dict[str, Any]],
    sums: dict[str, list[int]],
    marks: list[tuple[float, float]],
) -> None:
    wrong = sum(sums.get(run) != summed for run, summed in written.items())
    count, judged = sum(count for count, _ in written.values()), sum(count for count, _ in sums.values())
    print(f"runs {asked.runs}, metrics {asked.metrics}, a step every {asked.every:g} s, {asked.apart} steps apart")
    print(f"points: written {count}, judged {judged}, runs whose points are not all there once {wrong}")
    if not told:
        return
    end = marks[-1][0] if marks else told[0]["at"] + asked.seconds
    caught_up = [said for said in told if said["current"] >= asked.runs]
    if caught_up:
        first = caught_up[0]
        print(f"caught up after {first['at'] - told[0]['at'] + 5.0:.0f} s and {first['cpu']:.0f} s of CPU, with "
              f"{first['rss'] / 1e6:.0f} MB and {sum(first['asked'].values())} requests")  # fmt: skip
    warm = [said for said in caught_up if said["at"] <= end]
    if len(warm) < 3 or not any(said["gaps"] for said in warm[1:]):
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
    print(f"watcher: CPU {100 * used / wall:.0f} % of a core, {used / looks:.2f} s a look, {last['threads']} threads")
    served = [mark for mark in marks if first["at"] <= mark[0] <= last["at"]]
    if len(served) > 1:
        share = (served[-1][1] - served[0][1]) / (served[-1][0] - served[0][0])
        print(f"server: CPU {100 * share:.0f} % of a core")
    print("RSS, MB: " + ", ".join(f"{said['rss'] / 1e6:.0f}" for said in told[:: max(1, len(told) // 12)]))
    print(f"RSS at the end {last['rss'] / 1e6:.1f} MB; transitions {last['transitions']}")
    print(f"requests in all {sum(told[-1]['asked'].values())}: {told[-1]['asked']}")


if __name__ == "__main__":
    main(sys.argv[1:])
