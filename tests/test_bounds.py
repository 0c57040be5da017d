"""What is soon known of windows in order of size: bounds that hold, and the stream's transitions from them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.points import Row
from vitalsdsl.ground.types import Extent
from vitalsdsl.kernels import in_order, lines
from vitalsdsl.kernels.columns import Rows
from vitalsdsl.kernels.roughly import Roughly
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition

READ: dict[str, Any] = {
    "median": lambda windows: windows.median(),
    "usual": lambda windows: windows.usual(),
    "three quarters": lambda windows: windows.quantile(3, 4),
    "all but the highest": lambda windows: windows.quantile(99, 100),
    "mad": lambda windows: windows.mad(),
    "noise": lambda windows: windows.noise(),
}
SHAPES = ("noise", "few different values", "gaps", "a step")


def series(shape: str, seed: int, count: int = 900) -> tuple[Rows, Points]:
    chance = np.random.default_rng(seed)
    values, rows = chance.standard_normal(count), np.arange(count)
    if shape == "few different values":
        values = np.round(values)
    elif shape == "gaps":
        rows = np.nonzero(chance.random(count) < 0.8)[0]
        values = values[rows]
        values[chance.random(len(values)) < 0.05] = math.nan
    elif shape == "a step":
        values[count // 2 :] += 1000.0
    return Rows(np.arange(count), np.full(count, math.nan)), Points(rows, values)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("extent", [Extent(40, "samples"), Extent(300, "steps")], ids=["40 samples", "300 steps"])
def test_a_number_lies_between_its_bounds(name: str, shape: str, extent: Extent) -> None:
    for seed in range(3):
        rows, points = series(shape, seed)
        for windows in (points.windows(rows, extent, True), points.accepted(rows, extent)):
            exactly, roughly = READ[name](windows), READ[name](Roughly(windows))
            known = ~np.isnan(exactly.values)
            assert known.any() and (np.isnan(roughly.values) == ~known).all()
            slack = np.broadcast_to(roughly.slack, known.shape)[known]
            assert (np.abs(roughly.values - exactly.values)[known] <= slack).all()
            if shape == "noise" and name in ("median", "usual", "three quarters"):
                assert np.median(slack) < 0.5  # of a standard deviation


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("extent", [Extent(40, "samples"), Extent(300, "steps")], ids=["40 samples", "300 steps"])
def test_a_score_lies_between_its_bounds(shape: str, extent: Extent) -> None:
    for seed in range(3):
        rows, points = series(shape, seed)
        exactly, roughly = points.scores(rows, extent), points.scores_roughly(rows, extent)
        assert exactly is not None and roughly is not None
        is_bounded = ~np.isinf(roughly.slack)
        known = ~np.isnan(exactly.values)
        assert (np.isnan(roughly.values) == ~known)[is_bounded].all() and (known & is_bounded).any()
        off = np.abs(roughly.values - exactly.values)
        assert (off <= roughly.slack + exactly.slack)[known & is_bounded].all()
        if shape == "noise":
            assert np.median(roughly.slack[known]) < 1.0


BULK = """
rule far { when x > 2 * median(x, 200 steps) -> yellow }
rule scattered { when x - median(x, 100 samples) > 8 * mad(x, 100 samples) for 2 steps -> orange }
rule above { when x > 1.2 * quantile(x, 90%, 100 steps) for 3 of 5 samples -> yellow }
rule scored { when zscore(x, 200 steps) > 4 -> yellow }
rule usually { when x > usual(x, 60 samples) + 6 * noise(x, 60 samples) -> yellow clear for 5 steps }
rule slowly { when level > lowest(level) + greatest(10% * abs(level), noise(x, 50 samples) before 30 samples)
  and fall < 10% * (fall before 40 samples) and not surely(y > 3) for 3 steps -> orange }
phase start = count(x) <= 150
rule early in phase start { when x > 1.3 * median(x, 30 steps) -> yellow  when level > 1.2 * lowest(level) -> orange }
let level = median(x, 40 samples)
let fall = (level before 60 samples) - level
"""
"""What bounds mostly decide, in all ways in which they are put together."""


def policy() -> LoadedPolicy:
    return load("bounds", text=BULK)


def run(seed: int, length: int = 1200) -> list[Row]:
    chance = np.random.default_rng(seed)
    x = np.exp(0.1 * chance.standard_normal(length)) * np.linspace(1.5, 1.0, length)
    x[chance.integers(0, length, 4)] *= 3
    at = int(chance.integers(100, length - 200))
    x[at : at + 150] *= 1.4
    if seed % 3 == 1:
        x = np.round(x, 1)
    rows = []
    for step, value in enumerate(x.tolist()):
        if seed % 4 == 2 and chance.random() < 0.2:
            value = math.nan if chance.random() < 0.1 else math.inf if chance.random() < 0.05 else value
            if chance.random() < 0.5:
                continue
        rows.append(Row(step, {"x": value, "y": float(chance.random())}))
    return rows


def streamed(loaded: LoadedPolicy, rows: list[Row]) -> list[Transition]:
    stream, found = Stream(loaded.policy, "run", loaded.digest), []
    for row in rows:
        found += stream.push_row(row)
    return found + stream.finish()


@pytest.mark.parametrize("seed", range(8))
def test_what_bounds_decide_is_what_the_stream_says(seed: int) -> None:
    loaded, rows = policy(), run(seed)
    wanted = streamed(loaded, rows)
    found = Batch(loaded.policy, loaded.digest).transitions(rows)
    assert found and list(map(repr, found)) == list(map(repr, wanted))


def test_far_from_the_bulk_no_window_is_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*given: Any) -> Any:
        raise AssertionError("a window has been put in order")

    chance = np.random.default_rng(1)
    rows = [Row(step, {"x": x}) for step, x in enumerate(np.exp(0.1 * chance.standard_normal(3000)).tolist())]
    loaded = load("p", text="when x > 2 * median(x, 500 steps) -> yellow\nwhen x > 3 * usual(x, 100 steps) -> orange")
    for name in ("ranked", "_one_by_one"):
        monkeypatch.setattr(in_order.InOrder, name, asked)
    assert Batch(loaded.policy).transitions(rows) == []


@pytest.mark.parametrize("seed", range(6))
def test_lines_through_evenly_spaced_points_are_as_exact_as_is_said(seed: int) -> None:
    chance = np.random.default_rng(seed)
    count, n, stride = 150, 5 + 7 * seed, 1 + seed % 3
    values = chance.standard_normal(count) * 10.0 ** (seed - 3) + 10.0**seed
    values[60:75] = values[60]
    steps, lo = stride * np.arange(count), np.arange(count - n + 1)
    with np.errstate(all="ignore"):
        slopes, scatters = (lines.lined(read, 3, values, steps, lo, lo + n) for read in (lines.slopes, lines.scatters))
    for i in range(0, len(lo), 11):
        own = [Fraction(float(x)) for x in values[lo[i] : lo[i] + n]]
        at = [Fraction(stride * (2 * k - n + 1), 2) for k in range(n)]
        mean = sum(own) / n
        spread, together = sum(s * s for s in at), sum(s * (x - mean) for s, x in zip(at, own))
        assert abs(Fraction(float(slopes[0][i])) - together / spread) <= Fraction(float(slopes[1][i]))
        exactly = (sum((x - mean) ** 2 for x in own) - together * together / spread) / (n - 2)
        low, high = (Fraction(max(0.0, float(scatters[0][i] + sign * scatters[1][i]))) for sign in (-1, 1))
        assert low * low <= exactly <= high * high
