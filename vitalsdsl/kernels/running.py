"""Running sums of a stretch of points: a window's sum is a difference of two of them, and may be off by so and so much."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vitalsdsl.kernels.columns import Array
from vitalsdsl.kernels.sliding import LARGEST

EPS = 2.0**-52
TINY = 2.0**-1000
"""What a product may lose that is too small for a float of full precision."""


class TooLarge(Exception):
    """Points whose squares may not be added, or that are infinite."""


class Room:
    """Memory by what it is for, handed out again for the same: to be given new memory takes longer than to fill it."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def take(self, purpose: str, size: int) -> Array:
        """So many numbers of any value."""
        found = self._arrays.get(purpose)
        if found is None or len(found) < size:
            found = self._arrays[purpose] = np.empty(size)
        return found[:size]


class Running:
    """Points in a row, and what runs up to each of them; NaN counts as no point. Raises TooLarge.

    It stands in a room until that is used for another.

    >>> running = Running(np.array([1.0, 2.0, 4.0]), Room())
    >>> (running.first[2:] - running.first[:-2] + 2 * running.pivot).tolist()
    [3.0, 6.0]
    """

    def __init__(self, values: Array, room: Room) -> None:
        self.values = values
        self._room = room
        self.least, self.greatest = float(values.min()), float(values.max())
        self.missing: Array | None = None
        """How many points before each are NaN; None where none is."""
        if self.least != self.least:
            missing = np.isnan(values)
            self.missing = np.concatenate([[0.0], np.cumsum(missing, dtype=float)])
            known = values[~missing]
            self.least, self.greatest = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        if not -LARGEST <= self.least <= self.greatest <= LARGEST:
            raise TooLarge
        self.most = max(-self.least, self.greatest)
        """How large a point is at most."""
        sample = sorted(x for x in values[:: max(1, len(values) // 9)].tolist() if x == x)
        self.is_exact = self._are_whole(sample)
        """Whether no sum is ever rounded, as of counts and of marks: then windows are often equal, and it is seen."""
        self.pivot = sample[len(sample) // 2] if sample and not self.is_exact else 0.0
        self.apart = max(self.greatest - self.pivot, self.pivot - self.least) * (1 + EPS)
        """How far a point lies from the pivot at most; 0 where all are equal."""
        self._extremes: dict[tuple[bool, int], Array] = {}
        self._fewest: dict[int, int] = {}

    def _are_whole(self, sample: Sequence[float]) -> bool:
        """Whether all points are whole numbers, so small that those up to the sum of their squares are floats."""
        if self.most**2 * len(self.values) >= 2.0**53 or not all(x.is_integer() for x in sample):
            return False
        whole = np.rint(self.values, out=self._room.take("whole", len(self.values)))
        return bool(
            (whole == self.values).all()
            if self.missing is None
            else (whole == self.values).sum() + self.missing[-1] == len(whole)
        )

    def fewest(self, length: int) -> int:
        """How many points that are not NaN a window has at least."""
        if self.missing is None:
            return length
        if length not in self._fewest:
            missing = self.missing[length:] - self.missing[:-length]
            self._fewest[length] = length - int(missing.max(initial=0))
        return self._fewest[length]

    @functools.cached_property
    def first(self) -> Array:
        """What the points before each come to, about the pivot."""
        return self._sums[0]

    @functools.cached_property
    def second(self) -> Array:
        """The same of their squares."""
        return self._sums[1]

    @functools.cached_property
    def _sums(self) -> tuple[Array, Array]:
        count, size = len(self.values), _LANE * _LANES
        about = self._room.take("about", -(-count // size) * size)
        about[count:] = 0.0
        own = np.subtract(self.values, self.pivot, out=about[:count])
        if self.missing is not None:
            own[np.isnan(own)] = 0.0
        first = _run_up(about, self._room.take("first", len(about) + 1))
        np.multiply(about, about, out=about)
        second = _run_up(about, self._room.take("second", len(about) + 1))
        return first[: count + 1], second[: count + 1]

    def off(self, length: int) -> float:
        """By how much a window's sum may be off."""
        if not self.apart or self.is_exact:
            return 0.0
        largest = math.sqrt(len(self.values) * float(self.second[-1])) * (1 + 1e-6)  # by Cauchy's inequality
        return EPS * ((length / _LANE + 4) * largest + (_LANE / 2 + 1) * (length + 4 * _LANE) * self.apart)

    def off_squares(self, length: int) -> float:
        """By how much a window's sum of squares may be off."""
        if not self.apart or self.is_exact:
            return 0.0
        largest = float(self.second[-1])
        own = min(largest, (length + 4 * _LANE) * self.apart**2)
        return EPS * ((length / _LANE + 4) * largest + (_LANE / 2 + 3) * own) + length * TINY

    def extremes(self, greatest: bool, length: int) -> Array:
        """The extreme of each so many points in a row, from those of 1, 2, 4, … in a row: two of them cover it."""
        found = self._extremes.get((greatest, length))
        if found is not None:
            return found
        better: Any = np.maximum if greatest else np.minimum
        level = self.values
        if self.missing is not None:
            level = np.where(np.isnan(level), -math.inf if greatest else math.inf, level)
        width, spare, other = 1, self._room.take("one", len(level)), self._room.take("other", len(level))
        while 2 * width <= length:
            spare, other, level = other, spare, better(level[:-width], level[width:], out=spare[: len(level) - width])
            width *= 2
        rest = length - width
        room = self._room.take(f"extremes {greatest} {length}", len(level) - rest)
        found = better(level[: len(level) - rest], level[rest:], out=room)
        if self.missing is not None:
            found[np.isinf(found)] = np.nan
        self._extremes[greatest, length] = found
        return found


_LANE = 16
_LANES = 256
"""So many numbers are summed by one product of matrices, small enough for one core: ten times as quick as one by one."""

_UP_TO = np.triu(np.ones((_LANE, _LANE)))


def _run_up(values: Array, found: Array) -> Array:
    """What the numbers before each come to, and all of them at last.

    Within a lane each sum is rounded a dozen times, and then a lane at a time: what lies between two of them is rounded less
    often than if they were added one by one.
    """
    found[0] = 0.0
    np.matmul(values.reshape(-1, _LANES, _LANE), _UP_TO, out=found[1:].reshape(-1, _LANES, _LANE))
    lanes = found[1:].reshape(-1, _LANE)
    lanes[1:] += np.cumsum(lanes[:-1, -1])[:, None]
    return found
