"""Mean, variance and deviation of a window, against exact fractions, on what other ways of working them out do not stand."""

import math

import numpy as np
import pytest
from plain_statistics import exact, mean_of, root, squares

from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.points import Row
from vitalsdsl.ground.types import STEPS, Extent
from vitalsdsl.kernels.columns import Rows
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.ops.base import registry
from vitalsdsl.policies.policy import load
from vitalsdsl.streaming.stream import Stream

W = 500
TOLERANCE = 1e-12
CHANCE = np.random.default_rng(20261130)


def _plain():
    return CHANCE.gamma(2.0, 3.0, 4 * W) - 1.0


def _tiny_noise():
    return 2.7e8 + 1e-3 * CHANCE.standard_normal(4 * W)


def _level_step():
    noise = 1e-3 * CHANCE.standard_normal(4 * W)
    return np.where(np.arange(4 * W) < 2 * W, 1.3e8, 4.1e8) + noise


def _after(spike):
    x = 2.0 + 0.3 * CHANCE.standard_normal(4 * W)
    x[W // 2] = spike
    return x


def _gaps():
    x = CHANCE.lognormal(0.0, 0.7, 4 * W)
    x[CHANCE.random(4 * W) < 0.01] = math.nan
    return x


def _one_inf():
    x = 5.0 + CHANCE.standard_normal(4 * W)
    x[W // 3] = -math.inf
    return x


HARD = {
    "plain": _plain(),
    "tiny noise far from zero": _tiny_noise(),
    "a level step": _level_step(),
    "after a spike of 1e12": _after(-3.1e12),
    "after a spike of 1e20": _after(7.3e20),
    "one point in a hundred is NaN": _gaps(),
    "after one inf": _one_inf(),
}

NAMES = ("mean", "var", "std")
PLACES = sorted({W - 1, W, W + W // 3 - 1, W + W // 2, 2 * W - 1, 2 * W, 2 * W + 1, 3 * W - 1, 4 * W - 1})
"""The first full window; about where a spike leaves it; about a level step; the end."""


def true(name, window):
    """To the last digit; NaN and infinities are no points of a window."""
    xs = exact([x for x in window if math.isfinite(x)])
    if name == "mean":
        return float(mean_of(xs))
    variance = squares(xs, xs) / (len(xs) - 1)
    return float(variance) if name == "var" else root(variance)


def off(name, window, value):
    """How far a value is from the truth, relative to it."""
    exactly = true(name, window)
    return abs(value - exactly) / abs(exactly)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", HARD)
def test_a_step_at_a_time_it_is_right_to_the_last_digits(name, data):
    function, x = registry()[name], HARD[data]
    arguments = {"W": Extent(W, STEPS)}
    state = function.new(arguments)
    read = function.reader(state, arguments)
    for step, value in enumerate(x.tolist()):
        state.push(step, float(step), value)
        if step in PLACES:
            assert off(name, x[step - W + 1 : step + 1].tolist(), read(step, float(step))) < TOLERANCE, step


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", HARD)
def test_in_columns_it_is_as_right_or_owns_to_how_far_it_may_be_off(name, data):
    function, x = registry()[name], HARD[data]
    steps = np.arange(len(x))
    column = function.columns(Points(steps, x), Rows(steps, steps.astype(float)), {"W": Extent(W, STEPS)})
    assert column is not None
    slack = np.broadcast_to(column.slack, x.shape)
    for step in PLACES:
        window = x[step - W + 1 : step + 1].tolist()
        low, high = (column.values[step] + sign * slack[step] for sign in (-1, 1))
        assert off(name, window, float(column.values[step])) < TOLERANCE or low <= true(name, window) <= high, step


@pytest.mark.parametrize("data", HARD)
def test_rules_at_a_hair_above_and_below_the_truth_tell_them_apart(data):
    """At once and a step at a time alike."""
    x = HARD[data].tolist()
    lines, wanted = ["nonfinite off"], {}
    for name in NAMES:
        for step in PLACES:
            exactly = true(name, x[step - W + 1 : step + 1])
            for side, sign in (("above", 1), ("below", -1)):
                rule = f"{name}_{step}_{side}"
                bound = exactly + sign * TOLERANCE * abs(exactly)
                lines.append(f"rule {rule} {{ when {name}(x, {W} steps) > {bound!r} -> yellow }}")
                wanted[rule] = step, side == "below"
    policy = load("truth", text="\n".join(lines)).policy
    rows = [Row(step, {"x": value}) for step, value in enumerate(x)]
    stream = Stream(policy)
    pushed = [change for row in rows for change in stream.push_row(row)] + stream.finish()
    for found in (pushed, Batch(policy).transitions(rows)):
        for rule, (step, holds) in wanted.items():
            before = [change for change in found if change.rule == rule and change.step <= step]
            assert bool(before and before[-1].to) == holds, rule
