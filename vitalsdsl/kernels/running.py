"""Running sums of a stretch of points: a window's sum is a difference of two of them, and may be off by so and so much."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from vitalsdsl.kernels.columns import Array
from vitalsdsl.kernels.sliding import LARGEST

EPS = 2.0**-52
TINY = 2.0**-1000
"""What a product may lose that is too small for a float of full precision."""


class TooLarge(Exception):
    """Points whose squares may not be added, or that are infinite."""


class Running:
    """Points in a row, and what runs up to each of them; NaN counts as no point. Raises TooLarge.

    >>> running = Running(np.array([1.0, 2.0, 4.0]))
    >>> (running.first[2:] - running.first[:-2] + 2 * running.pivot).tolist()
    [3.0, 6.0]
    """

    def __init__(self, values: Array) -> None:
        self.values = values
        self.least, self.greatest = float(values.min()), float(values.max())
        self.missing: Array | None = None
        """How many points before each are NaN; None where none is."""
        if self.least != self.least:
            missing = np.isnan(values)
            self.missing = np.concatenate([[0], np.cumsum(missing)])
            known = values[~missing]
            self.least, self.greatest = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        if not -LARGEST <= self.least <= self.greatest <= LARGEST:
            raise TooLarge
        self.most = max(-self.least, self.greatest)
        """How large a point is at most."""
        sample = sorted(x for x in values[:: max(1, len(values) // 9)].tolist() if x == x)
        self.pivot = sample[len(sample) // 2] if sample else 0.0
        self.apart = max(self.greatest - self.pivot, self.pivot - self.least) * (1 + EPS)
        """How far a point lies from the pivot at most; 0 where all are equal."""
        self._extremes: dict[tuple[bool, int], Array] = {}

    @functools.cached_property
    def _about(self) -> Array:
        about = self.values - self.pivot
        if self.missing is not None:
            about[np.isnan(about)] = 0.0
        return about

    @functools.cached_property
    def first(self) -> Array:
        """What the points before each come to, about the pivot."""
        return _run_up(self._about)

    @functools.cached_property
    def second(self) -> Array:
        """The same of their squares."""
        return _run_up(self._about * self._about)

    def off(self, length: int) -> float:
        """By how much a window's sum may be off."""
        # Each addition rounds what it has come to: between two ends that happens once for each point.
        total = math.sqrt(len(self.values) * float(self.second[-1])) * (1 + 1e-6)  # by Cauchy's inequality
        return (length + 3) * EPS * (total + 2 * self.apart) if self.apart else 0.0

    def off_squares(self, length: int) -> float:
        """By how much a window's sum of squares may be off."""
        return (length + 3) * (EPS * (float(self.second[-1]) + 4 * self.apart**2) + TINY) if self.apart else 0.0

    def extremes(self, greatest: bool, length: int) -> Array:
        """The extreme of each so many points in a row, from those of 1, 2, 4, … in a row: two of them cover it."""
        found = self._extremes.get((greatest, length))
        if found is not None:
            return found
        better: Any = np.maximum if greatest else np.minimum
        level = self.values
        if self.missing is not None:
            level = np.where(np.isnan(level), -math.inf if greatest else math.inf, level)
        width, spare, other = 1, np.empty(len(level)), np.empty(len(level))
        while 2 * width <= length:
            spare, other, level = other, spare, better(level[:-width], level[width:], out=spare[: len(level) - width])
            width *= 2
        rest = length - width
        found = better(level[: len(level) - rest], level[rest:])
        if self.missing is not None:
            found[np.isinf(found)] = np.nan
        self._extremes[greatest, length] = found
        return found


def _run_up(values: Array) -> Array:
    found = np.empty(len(values) + 1)
    found[0] = 0.0
    np.cumsum(values, out=found[1:])
    return found
