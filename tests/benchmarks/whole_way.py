"""What lies round the rules: a long log from its file to its transitions, and a transition from the rules to the disk."""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic_core import from_json
from vitalsdsl_files import read

from tests.benchmarks.contest import Contender, Contest, Measured, cpu, outcomes
from tests.benchmarks.work import Work
from vitalsdsl.acting.dispatch import Dispatcher
from vitalsdsl.acting.journal import Journal
from vitalsdsl.acting.ledger import silence
from vitalsdsl.acting.memory import Memory
from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.points import RunInfo
from vitalsdsl.language.rules import Level, Policy
from vitalsdsl.nodes.table import Table
from vitalsdsl.policies.policy import load
from vitalsdsl.verdicts.verdict import Transition

METRICS = 12

REPLAYS = (
    Contender("vitalsdsl, from the file to its transitions", str),
    Contender("vitalsdsl, where another key is the step", str),
    Contender("vitalsdsl, from the file to columns", str),
    Contender("vitalsdsl, from the file to rows", str),
    Contender("vitalsdsl, from the same numbers as CSV to columns", str),
    Contender("json.loads of each line, and nothing done", str),
    Contender("limit: what parses JSON for us, and nothing done", str),
    Contender("limit: each line, and nothing done", str),
)


def race_replays(steps: int, rounds: int) -> Contest:
    """A log of JSON lines as trackers export them: a dozen metrics at each step."""
    work = Work.made(steps, METRICS, healthy=True)
    policy = load("three", text="when m0 > 100 -> red\nwhen m1 > 6 * mean(m1, 500 steps) -> red\nwhen m2 < 0 -> red\n")
    with tempfile.TemporaryDirectory() as folder:
        for name, key in (("steps.jsonl", "step"), ("other.jsonl", "_step")):
            with Path(folder, name).open("w", encoding="utf-8") as file:
                file.writelines(json.dumps({key: at, **row}) + "\n" for at, row in enumerate(work.values()))
        with Path(folder, "steps.csv").open("w", encoding="utf-8") as file:
            file.write(",".join(["step", *work.columns]) + "\n")
            file.writelines(f"{at},{','.join(map(repr, row.values()))}\n" for at, row in enumerate(work.values()))
        log, other, table = (Path(folder, name) for name in ("steps.jsonl", "other.jsonl", "steps.csv"))
        megabytes = log.stat().st_size / 1e6

        def replayed(place: Path) -> None:
            [run] = read(place)
            batch = Batch(policy.policy, policy.digest)
            batch.replayed(run.events, run.info.name, run.info.total_steps, Table.of(run.events))

        ways: dict[str, Callable[[], Any]] = dict(
            zip(
                (one.name for one in REPLAYS),
                (
                    lambda: replayed(log),
                    lambda: replayed(other),
                    lambda: [Table.of(run.events) for run in read(log)],
                    lambda: [deque(run.events, 0) for run in read(log)],
                    lambda: [Table.of(run.events) for run in read(table)],
                    lambda: _each_line(log, json.loads),
                    lambda: _each_line(log, from_json),
                    lambda: _each_line(log, len),
                ),
                strict=True,
            )
        )
        measured: Measured = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                measured[name].append(1000 * cpu(way) / megabytes)
    return Contest("a long log of JSON lines", outcomes(REPLAYS, measured), "ms a MB")


def _each_line(place: Path, act: Callable[[str], object]) -> None:
    with place.open(encoding="utf-8") as file:
        deque(map(act, file), 0)


DISPATCHES = (
    Contender("vitalsdsl decides what to do about a transition", str),
    Contender("vitalsdsl, asked with no transition", str),
    Contender("vitalsdsl writes one line of its journal to the disk", str),
    Contender("vitalsdsl reads one line of a long journal back", str),
    Contender("limit: such a line as JSON", str),
)


def race_dispatches(rounds: int, count: int) -> Contest:
    """CPU time of what happens about a transition, each of its parts by itself."""
    policy = load("one", text="rule spike { when loss > 3 -> orange }").policy
    measured: Measured = {one.name: [] for one in DISPATCHES}
    with tempfile.TemporaryDirectory() as folder:
        for n in range(rounds):
            for one, each in zip(DISPATCHES, _dispatched(policy, Path(folder, str(n)), count), strict=True):
                measured[one.name].append(each)
    return Contest("what is done about transitions", outcomes(DISPATCHES, measured), "us")


def _dispatched(policy: Policy, folder: Path, count: int) -> list[float]:
    written, kept = folder / "written.journal.jsonl", folder / "kept.journal.jsonl"
    dispatcher = Dispatcher(policy, [Memory()], Journal(written), RunInfo("run"), start_worker=False)
    took = [_each(count, lambda step: dispatcher.take([_change(step)])), _each(count, lambda step: dispatcher.take([]))]
    dispatcher.close()
    journal = Journal(kept)
    took.append(_each(min(count, 100), lambda step: journal.append([silence("run", "act_*", "known", None, 0.0)])))
    lines = written.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines) * (1 + 10_000 // len(lines)))
    took.append(cpu(lambda: Journal(kept)) / len(kept.read_bytes().splitlines()) * 1e6)
    records = list(map(json.loads, lines))
    return [*took, _each(count, lambda step: json.dumps(records[step % len(records)]))]


def _change(step: int) -> Transition:
    before, after = (Level.GREEN, Level.ORANGE) if step % 2 == 0 else (Level.ORANGE, Level.GREEN)
    return Transition("run", 0, "spike", None, step, step, before, after, "condition")


def _each(count: int, act: Callable[[int], object]) -> float:
    """Microseconds of one of so many."""
    gc.collect()
    began = time.process_time()
    for at in range(count):
        act(at)
    return (time.process_time() - began) / count * 1e6
