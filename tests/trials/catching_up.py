"""A watcher that finds many runs with a long past, measured: `python -m tests.trials.catching_up`.

Runs of twenty metrics are read in batches of ten thousand points and judged by a policy, once as columns and once step by
step, each in a process of its own. Said in the end: the CPU seconds of both, and what a run more costs in memory. Exits 1
where the transitions differ, or columns are not MUCH_QUICKER.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import vitalsdsl as vitals
from tests.feeding import ScriptedRun, ScriptedTarget
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.watching.watched import Reading, Watched
from vitalsdsl.watching.watcher import Assignment, Shows, Watcher

POLICIES = (str(Path(__file__).with_name("fleet.vitals")), "pack:core")
MUCH_QUICKER = 3.0
NAMES = ("train/loss", "train/grad_norm", *(f"m{i}" for i in range(2, 20)))


def past(number: int, steps: int) -> list[Row | Rewind]:
    """Quiet, with a jump of the loss in the second half."""
    dice = random.Random(number)
    rows: list[Row | Rewind] = []
    for step in range(steps):
        values = {name: 1.0 + 0.1 * dice.random() for name in NAMES}
        if 0.6 * steps < step < 0.6 * steps + 40:
            values["train/loss"] += 3.0
        rows.append(Row(step, values, 1.7e9 + step))
    return rows


class _Heard(Shows):
    def __init__(self) -> None:
        self.changes: list[list[Any]] = []

    def saw(self, run: Watched, reading: Reading) -> None:
        self.changes += [[t.run, t.id, t.message] for t in reading.transitions]


def watched(policy: str, runs: int, steps: int) -> dict[str, Any]:
    """What it takes to catch up with some runs, made beforehand so that only the watcher is measured."""
    made = [ScriptedRun(str(i), past(i, steps), at_a_time=500) for i in range(min(runs, 4))]
    again = [ScriptedRun(str(i), made[i % len(made)].events, at_a_time=500) for i in range(runs)]
    for run in again:
        run.go_on(over=True)
    heard = _Heard()
    with tempfile.TemporaryDirectory() as home:
        assignment = Assignment(ScriptedTarget(*again), vitals.load(policy))
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        Watcher([assignment], Path(home), shows=heard).run(once=True)
        took = time.process_time() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"seconds": took, "megabytes": grown / 1024, "changes": sorted(heard.changes)}


def measured(way: str, policy: str, runs: int, steps: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.trials.catching_up", "--way", way, "--policy", policy]
    done = subprocess.run(
        [*command, "--runs", str(runs), "--steps", str(steps)], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--by-step", type=int, default=2, help="so many runs are gone through step by step as well")
    parser.add_argument("--policy")
    parser.add_argument("--way", choices=("columns", "steps"))
    asked = parser.parse_args()
    if asked.way:
        if asked.way == "steps":
            Watched._begin = lambda self, batch, out: batch.events  # type: ignore[method-assign]
        print(json.dumps(watched(asked.policy, asked.runs, asked.steps)))
        return 0
    ok = True
    for policy in [asked.policy] if asked.policy else POLICIES:
        slow = measured("steps", policy, asked.by_step, asked.steps)
        few = measured("columns", policy, asked.by_step, asked.steps)
        many = measured("columns", policy, asked.runs, asked.steps)
        a_run, before = many["seconds"] / asked.runs, slow["seconds"] / asked.by_step
        print(
            f"{policy}: {a_run:.2f} CPU s a run of {asked.steps:,} steps, step by step {before:.2f}, {before / a_run:.1f}x;"
            f" {many['megabytes']:.0f} MB for {asked.runs} runs, {few['megabytes']:.0f} for {asked.by_step};"
            f" {len(many['changes'])} changes"
        )
        ok &= few["changes"] == slow["changes"] and before > MUCH_QUICKER * a_run
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
