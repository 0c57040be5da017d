"""Short logs, 1 to 500 rows, as frameworks print them: each shape of incident that published logs show, and healthy ones.

A shape is a function that writes rows with a `Pen` and returns the step at which things go wrong, None for health. What is
drawn differs by the seed: levels, noise, cadence, length. Only shapes are published logs', no number of theirs is here.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vitalsdsl.generate.draft import START
from vitalsdsl.generate.run import HEALTHY, Run, Truth
from vitalsdsl.language.rules import Level

CADENCES = (1, 1, 5, 10, 10, 50, 100, 500)
"""Steps between two rows, as logs have them."""
SECONDS = 3.0
"""Between two rows."""


class Pen:
    """Writes the rows of one log; what it draws is the seed's."""

    def __init__(self, name: str, seed: int) -> None:
        self._random = np.random.default_rng([seed, zlib.crc32(name.encode())])
        self.rows: list[tuple[int, dict[str, float]]] = []

    def between(self, low: float, high: float) -> float:
        """A number of any size between two: evenly by its logarithm."""
        return math.exp(self._random.uniform(math.log(low), math.log(high)))

    def whole(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        return int(self._random.integers(low, high + 1))

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self._random.integers(len(choices)))]

    def gauss(self, deviation: float = 1.0) -> float:
        return float(self._random.normal(0.0, deviation))

    def factor(self, deviation: float) -> float:
        """Noise of a number that scatters by factors: the exponential of a normal one."""
        return math.exp(self.gauss(deviation))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """One row. A step that comes again adds to its row."""
        if self.rows and self.rows[-1][0] == step:
            self.rows[-1][1].update(values)
        else:
            self.rows.append((step, dict(values)))

    def trained(self, rows: int, stride: int, loss: Callable[[float], float], **more: Callable[[float], float]) -> None:
        """Rows of Hugging Face's trainer: loss, gradient norm, rate and epoch, each `stride` steps. Each of the functions
        is given the share of the run that has gone by; a metric of `more` takes the place of the usual one."""
        per_epoch, norm = rows / self.one_of(1, 2, 3), self.between(0.3, 5)
        scatter = self.between(0.05, 0.4)
        for row in range(1, rows + 1):
            share = row / rows
            values = {
                "loss": loss(share),
                "grad_norm": norm * (1 + 1.5 * math.exp(-8 * share)) * self.factor(scatter),
                "learning_rate": 5e-5 * min(1.0, share / 0.05) * (1.05 - share),
                "epoch": row / per_epoch,
            }
            self.log(row * stride, {**values, **{name: of(share) for name, of in more.items()}})


@dataclass(frozen=True)
class Shape:
    """A kind of short log. `level` is what a good policy reaches, `most` what is not too severe."""

    draw: Callable[[Pen], int | None]
    level: Level
    most: Level


_shapes: dict[str, Shape] = {}


def shape(
    level: Level = Level.GREEN, most: Level | None = None
) -> Callable[[Callable[[Pen], int | None]], Callable[[Pen], int | None]]:
    """Make a function a shape under its own name."""

    def named(draw: Callable[[Pen], int | None]) -> Callable[[Pen], int | None]:
        highest = (Level.RED if level is Level.ORANGE else Level.ORANGE) if level else Level.YELLOW
        _shapes[draw.__name__] = Shape(draw, level, most if most is not None else highest)
        return draw

    return named


def shapes() -> Mapping[str, Shape]:
    """All shapes by name, in the order of their files."""
    from tests.detecting import short_healthy, short_ill  # they fill it

    assert short_healthy and short_ill
    return _shapes


def make(name: str, seed: int) -> Run:
    """The log of a shape: the same for the same seed."""
    made, pen = shapes()[name], Pen(name, seed)
    onset = made.draw(pen)
    steps = np.array([step for step, _ in pen.rows], dtype=np.int64)
    names = list(dict.fromkeys(key for _, values in pen.rows for key in values))
    series = {}
    for key in names:
        data = [values.get(key, math.nan) for _, values in pen.rows]
        series[key] = np.ma.array(data, mask=[key not in values for _, values in pen.rows])
    kind = HEALTHY if onset is None else name.replace("_", " ")
    end = None if onset is None else int(steps[-1])
    truth = Truth(kind, made.level, made.most, () if onset is None else tuple(names), onset, end)
    times = START + SECONDS * np.arange(len(steps), dtype=np.float64)
    return Run(name, seed, 1, steps, times, series, truth)
