"""Our own time by what a run logs and by how close the rules are to it: the other tables are of one kind of noise."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import numpy as np

from tests.benchmarks.contest import Contender, Contest, Measured, outcomes
from tests.benchmarks.steps import Ours
from tests.benchmarks.work import FIVE, Array, Rule, Work

CLOSE: tuple[Rule, ...] = (
    ("{m} > mean({m}, {s} steps) + 3 * std({m}, {s} steps)", 1),
    ("{m} > mean({m}, {l} steps)", 20),
    ("{m} > 0.9 * max({m}, {s} steps)", 20),
    ("mean({m}, {s} steps) > 1.02 * mean({m}, {l} steps)", 20),
    ("std({m}, {s} steps) > std({m}, {l} steps)", 20),
)
"""Rules that are true every other step, or go off now and then."""

OTHERS: tuple[Rule, ...] = (
    ("{m} > 3 * baseline({s})", 20),
    ("{m} > 2 * median({m}, {s} steps)", 1),
    ("zscore({m}, {s} steps) > 9", 1),
    ("slope({m}, {s} steps) > 0.01", 20),
    ("ema({m}, 100 steps) > 2 * mean({m}, {l} steps)", 1),
)
"""Rules that ask for something else than the sums of windows."""


def _noise(chance: np.random.Generator, steps: int) -> Array:
    return np.exp(0.1 * chance.standard_normal(steps))


def _missing(chance: np.random.Generator, steps: int) -> Array:
    return np.where(chance.random(steps) < 0.01, np.nan, _noise(chance, steps))


def _correlated(chance: np.random.Generator, steps: int) -> Array:
    state, found = 0.0, []
    for shock in chance.standard_normal(steps).tolist():
        state = 0.95 * state + 0.1 * shock
        found.append(state)
    return np.exp(found)


Kind = tuple[Callable[[np.random.Generator, int], Array], tuple[Rule, ...]]

KINDS: dict[str, Kind] = {
    "vitalsdsl, noise about 1": (_noise, FIVE),
    "vitalsdsl, one value in a hundred is NaN": (_missing, FIVE),
    "vitalsdsl, a loss that falls": (
        lambda chance, n: 2 + 8 * np.exp(-np.arange(n) / n * 4) + chance.normal(0, 0.05, n),
        FIVE,
    ),
    "vitalsdsl, a random walk": (lambda chance, n: 10 + np.cumsum(chance.normal(0, 0.01, n)), FIVE),
    "vitalsdsl, noise that remembers": (_correlated, FIVE),
    "vitalsdsl, numbers around 0": (lambda chance, n: chance.standard_normal(n), FIVE),
    "vitalsdsl, heavy tails": (lambda chance, n: np.abs(chance.standard_t(3, n)) + 0.5, FIVE),
    "vitalsdsl, noise, rules that are close to it": (_noise, CLOSE),
    "vitalsdsl, noise, rules over medians, lines and averages": (_noise, OTHERS),
}


CONTENDERS = tuple(Contender(name, Ours) for name in KINDS)


def race_kinds(fill: int, chunk: int, rounds: int) -> Contest:
    """A step at a time, fifty rules each, by turns."""
    walks = {}
    for number, (name, (kind, rules)) in enumerate(KINDS.items()):
        chance = np.random.default_rng(number)
        columns = {f"m{i}": kind(chance, fill + rounds * chunk) for i in range(10)}
        walks[name] = Ours(Work(columns, 500, 5000, rules))
        walks[name].fill(fill)
    measured: Measured = {name: [] for name in KINDS}
    for n in range(rounds):
        for name, walk in walks.items():
            gc.collect()
            began = time.process_time()
            walk.walk(fill + n * chunk, fill + (n + 1) * chunk)
            measured[name].append((time.process_time() - began) / chunk * 1e6)
    return Contest("fifty rules a step at a time, by what is logged", outcomes(CONTENDERS, measured))
