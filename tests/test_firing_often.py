"""Rules that fire and clear hundreds of times in a run: from whole columns the stream's transitions, with and without words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.points import Row
from vitalsdsl.policies.policy import load
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition

OFTEN = """
nonfinite off
rule half { when x > mean(x, 20 steps) -> yellow }
rule lasting { when x > mean(x, 20 steps) for 3 steps -> yellow }
rule counted { when x < mean(x, 20 steps) for 2 samples -> yellow clear for 4 samples }
rule timed { when x > mean(x, 20 steps) for 30 s -> yellow }
rule both { when x > mean(x, 20 steps) for 2 samples and 3 steps -> yellow }
rule shares { when x > mean(x, 20 steps) for 3 of 5 samples -> yellow }
rule rungs { when x > mean(x, 20 steps) for 2 steps -> yellow -> orange after 1 step -> red after 2 steps }
rule two { when abs(x) > 1 -> yellow  when std(x, 20 steps) > std(x, 60 steps) -> orange }
rule waits { when x > 1 for 2 steps -> yellow  clear when mean(x, 5 steps) < 0.5 for 2 steps }
rule often_waits { when x > 1 -> yellow  clear when x < 0.3 for 2 of 4 samples }
phase early = mean(x, 50 steps) > 0
rule inside in phase early { when x > mean(x, 20 steps) for 2 steps -> yellow }
"""
SHAPES = ("noise", "whole numbers", "gaps of NaN", "steps that are skipped", "a clock that stands still")


def rows_of(shape: str, seed: int, count: int = 700) -> list[Row]:
    chance = np.random.default_rng(seed)
    values, steps, times = chance.standard_normal(count), np.arange(count), 10.0 * np.arange(count)
    if shape == "whole numbers":
        values = np.round(1.5 * values)
    elif shape == "gaps of NaN":
        values[chance.random(count) < 0.1] = math.nan
    elif shape == "steps that are skipped":
        steps = np.cumsum(chance.integers(1, 4, count))
    elif shape == "a clock that stands still":
        times = np.maximum.accumulate(times * (chance.random(count) < 0.5))
        times[:50] = math.nan
    return [Row(step, {"x": x}, time) for step, x, time in zip(steps.tolist(), values.tolist(), times.tolist())]


def without_words(one: Transition) -> Transition:
    return replace(one, message="", values={}, margin=math.nan)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_all_changes_are_found_that_the_stream_finds(shape: str, seed: int) -> None:
    policy, rows = load("often", text=OFTEN).policy, rows_of(shape, seed)
    stream = Stream(policy)
    wanted = [one for row in rows for one in stream.push_row(row)] + stream.finish()
    assert len({one.rule for one in wanted}) > 8 and len(wanted) > 500
    assert list(map(repr, Batch(policy).transitions(rows))) == list(map(repr, wanted))
    found = Batch(policy).transitions(rows, wordless=True)
    assert list(map(repr, found)) == [repr(without_words(one)) for one in wanted]
