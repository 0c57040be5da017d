"""The time that reading and checking takes grows with the policy, not with its square; a run's memory not with its steps."""

from __future__ import annotations

import gc
import math
import random
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks.work import Work
from vitalsdsl.policies.policy import load, read
from vitalsdsl.streaming.stream import Stream

LEVELS = ("yellow", "orange")
SHAPES: dict[str, Callable[[int], str]] = {
    "rules without names": lambda n: "\n".join(f"when loss > {i} for 20 steps -> yellow" for i in range(n)),
    "rules with names": lambda n: "\n".join(f"rule r{i} {{ when m{i} > 3 for 20 steps -> yellow }}" for i in range(n)),
    "rules of two levels": lambda n: "\n".join(f"when loss > {i} -> {LEVELS[i % 2]}" for i in range(n)),
    "clauses of one rule": lambda n: "rule a {" + "\n".join(f"when loss > {i} -> {LEVELS[i % 2]}" for i in range(n)) + "}",
    "rules that inhibit": lambda n: "\n".join(
        f"rule r{i} {{ when loss > {i} -> {LEVELS[i % 2]} inhibits r{max(0, i - 1)} }}" for i in range(1, n)
    ) + "\nrule r0 { when loss > 0 -> yellow }",
    "lets": lambda n: "\n".join(f"let a{i} = x{i} / 2\nwhen a{i} > 3 -> yellow" for i in range(n // 2)),
    "comments that silence": lambda n: "\n".join(
        f"# vitals: off V205 until 2047-01-15 because so it is\nwhen m{i} == 3.5 -> yellow" for i in range(n // 2)
    ),
}  # fmt: skip


def seconds(text: str) -> float:
    began = time.process_time()
    read("p.vitals", text=text)
    return time.process_time() - began


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_eight_times_the_rules_take_about_eight_times_as_long(shape: Callable[[int], str]) -> None:
    seconds(shape(50))  # the parser's tables and the patterns of the lints are made once a process
    small = min(seconds(shape(250)) for _ in range(3))
    large = min(seconds(shape(2_000)) for _ in range(2))
    assert large < 20 * small  # its square would be 64 times


def test_the_rules_of_a_run_of_twenty_metrics_take_little_memory_and_no_more_as_it_goes_on() -> None:
    policy = load(Path(__file__).parent / "trials" / "fleet.vitals").policy  # windows of up to 500 steps
    names = ["train/loss", "train/grad_norm", *(f"m{i}" for i in range(2, 20))]
    dice = random.Random(0)

    def go_on(stream: Stream, first: int, last: int) -> Stream:
        for step in range(first, last):
            stream.push({name: 1.0 + 0.1 * dice.random() for name in names}, step)
        gc.collect()
        return stream

    shared = go_on(Stream(policy, keep_rows=False), 0, 5)  # what all runs share is there from now on
    gc.collect()
    tracemalloc.start()
    stream = go_on(Stream(policy, keep_rows=False, quick=False), 0, 600)  # as a watcher of many has them
    filled = tracemalloc.get_traced_memory()[0]
    go_on(stream, 600, 1000)
    later = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert shared.closed is not None and stream.closed == 998
    assert filled < 225_000, filled
    assert later < 1.05 * filled, (filled, later)


def test_a_watched_run_of_ten_metrics_with_windows_of_five_thousand_points_takes_half_a_megabyte() -> None:
    work = Work.made(5_100, healthy=True)
    policy, rows = work.policy().policy, work.rows()

    def watched(last: int) -> Stream:
        stream = Stream(policy, keep_rows=False, quick=False)
        for row in rows[:last]:
            stream.push_row(row)
        gc.collect()
        return stream

    shared = watched(5)
    tracemalloc.start()
    stream = watched(len(rows))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(policy.statements) == 51 and shared.level == stream.level
    assert held < 525_000, held  # a value of each point: 400,000


@pytest.mark.parametrize("length", ["600 steps", "600 samples"])
@pytest.mark.parametrize("lost", [0.0, 0.02])
def test_where_points_come_at_even_steps_nothing_is_kept_of_a_step(length: str, lost: float) -> None:
    lines = [f"rule {f}_{m} {{ when {f}(m{m}, {length}) > 9 -> yellow }}" for m in range(4) for f in ("mean", "min")]
    policy, dice = load("p", text="nonfinite off\n" + "\n".join(lines)).policy, random.Random(0)
    stream = Stream(policy, keep_rows=False, quick=False)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    held = []
    for step in range(0, 21_000, 7):
        stream.push({f"m{m}": math.nan if dice.random() < lost else dice.random() for m in range(4)}, step)
        if step in (20_300, 20_993):
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()
    points = 4 * 600 if "samples" in length else 4 * 600 // 7
    assert max(held) < 8 * points + 24 * 4 * (1 + 2 * 600 * lost) + 20_000, held


def test_windows_over_one_stream_hold_its_points_once() -> None:
    shapes = ("{f}(m{m}, 500 steps)", "{f}(m{m}, 5000 steps)")
    text = "\n".join(
        f"rule r_{m}_{f}_{i} {{ when {shape.format(f=f, m=m)} > 9 -> yellow }}"
        for m in range(2) for f in ("mean", "max") for i, shape in enumerate(shapes)
    )  # fmt: skip
    policy, dice = load("p", text=text).policy, random.Random(0)
    stream = Stream(policy, keep_rows=False, quick=False)
    tracemalloc.start()
    for step in range(7_000):
        stream.push({"m0": dice.random(), "m1": dice.random()}, step)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 2 * 5000 * 8 * 1.05 + 40_000, held  # a value of each point; each window by itself: 270,000
