"""Sums of windows in blocks and at once: as far off as they say and no farther, on data that is hard to add up."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from steady_runs import SHAPES, value

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent
from vitalsdsl.kernels.at_once import MomentsAtOnce, bounds
from vitalsdsl.kernels.columns import Rows
from vitalsdsl.kernels.moments import Moments
from vitalsdsl.kernels.running import Room, Running, TooLarge
from vitalsdsl.kernels.whole_sums import whole_sums
from vitalsdsl.kernels.window import Window


def series(shape: str, count: int, seed: int = 0) -> np.ndarray:
    chance = random.Random(f"{shape} {seed}")
    return np.array([value(shape, step, chance) for step in range(count)])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("length", [1, 16, 17, 700])
def test_a_window_is_off_by_no_more_than_is_said(shape: str, length: int) -> None:
    values = series(shape, 9000)
    try:
        running = Running(values, Room())
    except TooLarge:
        assert shape in ("huge", "one inf")
        return
    exact = [Fraction(0) if x != x else Fraction(x) - Fraction(running.pivot) for x in values.tolist()]
    for end in (length, 4097, 9000):
        window = exact[end - length : end]
        first = Fraction(running.first[end]) - Fraction(running.first[end - length])
        second = Fraction(running.second[end]) - Fraction(running.second[end - length])
        assert abs(first - sum(window)) <= running.off(length)
        assert abs(second - sum(x * x for x in window)) <= running.off_squares(length)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in ("huge", "one inf")])
def test_the_extremes_of_windows(shape: str) -> None:
    values = series(shape, 300)
    running = Running(values, Room())
    for length in (1, 2, 3, 16, 50):
        least, greatest = running.extremes(False, length), running.extremes(True, length).copy()
        for i in (0, 17, 300 - length):
            known = [x for x in values[i : i + length].tolist() if x == x]
            assert np.array_equal(greatest[i], max(known, default=math.nan), equal_nan=True)
            assert np.array_equal(least[i], min(known, default=math.nan), equal_nan=True)


def test_room_is_used_again() -> None:
    room = Room()
    before = Running(series("plain", 500), room).first
    assert np.shares_memory(before, Running(series("plain", 400, seed=1), room).first)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_moments_at_once_are_those_of_the_kernel(shape: str, seed: int) -> None:
    values = series(shape, 40 * (seed + 1), seed)
    values = values[np.isfinite(values)]
    if not len(values):
        return
    extent = Extent(len(values), SAMPLES)
    kernel, at_once = Moments(extent), MomentsAtOnce(extent, values)
    for step, x in enumerate(values.tolist()):
        kernel.push(step, math.nan, x)
    for read in ("mean", "var", "std", "sum", "cv"):
        wanted, found = getattr(kernel, read)(), getattr(at_once, read)()
        assert repr(found) == repr(wanted), read


def test_whole_sums_are_exact_however_far_apart_numbers_are() -> None:
    chance = random.Random(5)
    values = [chance.choice([-1, 1]) * chance.random() * 2.0 ** chance.randint(-900, 900) for _ in range(400)]
    values += [0.0, -0.0, 5e-324, 1.7e308]
    total, squares, bits = whole_sums(np.array(values))
    assert Fraction(total, 2**bits) == sum(map(Fraction, values))
    assert Fraction(squares, 4**bits) == sum(Fraction(x) ** 2 for x in values)


class Counting(Window):
    """A window of which only its points matter."""

    def add(self, step: int, value: float) -> None: ...

    def drop(self, step: int, value: float) -> None: ...

    def clear(self) -> None: ...


@pytest.mark.parametrize("extent", [Extent(7, STEPS), Extent(1, STEPS), Extent(4, SAMPLES), Extent(90.0, TIME)])
@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_those_of_windows(extent: Extent, seed: int) -> None:
    chance = random.Random(seed)
    steps = np.cumsum([chance.choice([1, 1, 2, 6]) for _ in range(120)])
    times = np.fmax.accumulate([math.nan if i < 3 * seed else 30.0 * int(s) for i, s in enumerate(steps)])
    at = np.array(sorted(chance.sample(range(120), 80)))
    window, rows = Counting(extent), np.arange(120)
    begins, ends, warms = bounds(at, Rows(steps, times), extent, rows)
    pushed = 0
    for row, begin, end, warm in zip(rows.tolist(), begins.tolist(), ends.tolist(), warms.tolist()):
        step, time = int(steps[row]), float(times[row])
        if pushed < len(at) and at[pushed] == row:
            window.push(step, time, 1.0)
            pushed += 1
        window.advance(step, time)
        assert (end - begin, warm) == (window.usable, window.is_warm(step, time))
