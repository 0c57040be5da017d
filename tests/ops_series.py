"""Random runs that are unkind to arithmetic and to windows, and the arguments with which each function meets them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent


class Moment(NamedTuple):
    """A closed step: a point of x and of y (None where there is none), and an evaluation of a condition."""

    step: int
    time: float
    x: float | None
    y: float | None
    condition: bool | None
    is_evaluated: bool


def _noise(chance: random.Random, step: int) -> float:
    return chance.gauss(3.0, 1.0)


def _coarse(chance: random.Random, step: int) -> float:
    """Ties everywhere."""
    return float(chance.randrange(4))


def _precise(chance: random.Random, step: int) -> float:
    """A small noise on a large level, which jumps."""
    return (1e8 if step % 60 < 40 else 3e8) + chance.gauss(0.0, 1e-3)


def _spiky(chance: random.Random, step: int) -> float:
    spike = chance.random() < 0.1
    return chance.choice([1e12, -1e20, 1e20, 1e300, 1e-200, 0.0]) if spike else chance.gauss(0.0, 1.0)


def _huge(chance: random.Random, step: int) -> float:
    return chance.choice([1.0, -1.0, 0.5]) * 1.7e308


def _tiny(chance: random.Random, step: int) -> float:
    return chance.gauss(0.0, 1e-150)


def _stairs(chance: random.Random, step: int) -> float:
    """Equal runs."""
    return 0.1 * (step // 25)


def _trend(chance: random.Random, step: int) -> float:
    return 2.0 + 0.05 * step * (1 if step % 200 < 120 else -1) + chance.gauss(0.0, 0.3)


VALUES = {v.__name__.strip("_"): v for v in (_noise, _coarse, _precise, _spiky, _huge, _tiny, _stairs, _trend)}
CADENCES = {"1": [1], "2": [2], "7": [7], "irregular": [1, 1, 2, 3, 9, 20]}


def run(values: str, cadence: str, seed: int, length: int = 80) -> Iterator[Moment]:
    """A run of closed steps, some of them without a point of x; NaN and ±inf come now and then, clocks stand still."""
    chance = random.Random(f"{values}/{cadence}/{seed}")
    step, time = chance.choice([0, 7, 40_000]), 1_764_000_000.0
    due = step + chance.randrange(4)
    clean = seed % 3 == 0
    for _ in range(length):
        x = y = None
        if step >= due:
            due = step + chance.choice(CADENCES[cadence])
            x = _spoilt(chance, VALUES[values](chance, step), clean)
            if chance.random() < 0.8:
                y = _spoilt(chance, VALUES[values](chance, step) + 1e-3 * x, clean)
        elif chance.random() < 0.1:
            y = chance.gauss(0.0, 1.0)
        condition = chance.choice([True, True, False, False, None])
        yield Moment(step, time, x, y, condition, chance.random() < 0.7)
        step += 1 if chance.random() < 0.9 else chance.randrange(1, 12)
        time += chance.choice([0.0, 30.0, 60.0, 61.5])


def _spoilt(chance: random.Random, value: float, clean: bool) -> float:
    if clean or chance.random() > 0.08:
        return value
    return chance.choice([math.nan, math.nan, math.inf, -math.inf])


def steps(*sizes: float) -> list[Extent]:
    return [Extent(size, STEPS) for size in sizes]


def samples(*sizes: float) -> list[Extent]:
    return [Extent(size, SAMPLES) for size in sizes]


def _each(name: str, extents: list[Extent], **others: Any) -> list[dict[str, Any]]:
    return [{name: extent, **others} for extent in extents]


WINDOWS = [*steps(1, 2, 9, 30), *samples(1, 5, 8, 13), Extent(90.0, TIME), Extent(1200.0, TIME)]

ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "quantile": [*_each("W", WINDOWS, q=0.9), *_each("W", WINDOWS[2:4], q=0.07), *_each("W", WINDOWS[2:4], q=1.0)],
    "flat": [*_each("W", WINDOWS, tol=0.02), *_each("W", WINDOWS[3:4], tol=0.0)],
    "count": [{}, *_each("W", WINDOWS)],
    "delta": [{}, *_each("D", WINDOWS)],
    "growth": _each("D", WINDOWS),
    "ema": _each("N", steps(1, 2, 10, 40)),
    "monotone_up": _each("n", samples(2, 3, 6)),
    "monotone_down": _each("n", samples(2, 3, 6)),
    "lowest": [{}],
    "highest": [{}],
    "since": [{}],
    "interval": [{}],
    "baseline": [
        *_each("N", [*steps(1, 10, 40), *samples(1, 7)], by="mean"),
        *_each("N", [*steps(10), *samples(8)], by="median"),
        *_each("N", [*steps(9), *samples(3)], by="mean", **{"from": "event"}),
        {"N": Extent(10, STEPS), "from": Extent(5, STEPS), "by": "mean"},
        {"N": Extent(6, SAMPLES), "from": Extent(4, SAMPLES), "by": "median"},
        {"N": Extent(600.0, TIME), "from": Extent(100.0, TIME), "by": "mean"},
        {"N": Extent(300.0, TIME), "from": "event", "by": "median"},
    ],
}
"""What each function is tried with; the others take a window W alone."""


def arguments_of(name: str) -> list[dict[str, Any]]:
    return ARGUMENTS.get(name, _each("W", WINDOWS))
