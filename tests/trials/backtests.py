"""A backtest of many runs, measured: points a second, and the memory of the parent and of its workers.

    python -m tests.trials.backtests 40

writes 40 runs of 10,000 steps and 20 metrics into a folder of its own, and judges a quarter of them, then all, by pack:core
in two processes. What the parent holds must not grow with their number, but for some kB a run.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

STEPS, METRICS = 10_000, 20


def write_runs(folder: Path, count: int) -> None:
    for run in range(count):
        draw = random.Random(run)
        names = [f"layer{at}/norm" for at in range(METRICS - 2)]
        with (folder / f"run{run:05}.jsonl").open("w") as log:
            for step in range(STEPS):
                row = {"step": step, "loss": 2 + draw.gauss(0, 0.02), "grad_norm": draw.lognormvariate(0, 0.2)}
                log.write(json.dumps({**row, **{name: round(draw.random(), 6) for name in names}}) + "\n")


def peak(pid: int) -> int:
    """The most memory that a process has had, in kB; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:  # the thread has just ended
            continue
    return found


def watch(pid: int, over: threading.Event, peaks: dict[int, int]) -> None:
    while not over.wait(0.1):
        for one in (pid, *children(pid)):
            peaks[one] = max(peaks.get(one, 0), peak(one))


def measure(files: list[Path]) -> None:
    words = [sys.executable, "-m", "vitalsdsl", "backtest", "pack:core", *map(str, files)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with subprocess.Popen([*words, "--no-cache", "--jobs", "2", "--format", "json"], stdout=subprocess.PIPE) as running:
        over, peaks = threading.Event(), {running.pid: 0}
        looking = threading.Thread(target=watch, args=(running.pid, over, peaks))
        looking.start()
        out = running.communicate()[0]
        over.set()
        looking.join()
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = json.loads(out)["summary"]
    points = found["steps"] * METRICS
    workers = sorted((size for pid, size in peaks.items() if pid != running.pid), reverse=True)[:2]
    print(
        f"{found['runs']} runs, {points:,} points: {wall:.1f} s, {points / wall:,.0f} points/s; "
        f"{spent:.1f} s of processor, {points / spent:,.0f} points in each; "
        f"parent {peaks[running.pid] / 1024:.0f} MB, workers {' and '.join(f'{size / 1024:.0f}' for size in workers)} MB"
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    with tempfile.TemporaryDirectory() as folder:
        write_runs(Path(folder), count)
        files = sorted(Path(folder).iterdir())
        measure(files[: max(2, count // 4)])
        measure(files)


if __name__ == "__main__":
    main()
