"""Sum, mean and variance of a window: exact, so nothing drifts and no spike lingers."""

from __future__ import annotations

import math
from importlib import import_module

from vitalsdsl.ground.types import Extent
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.exact import Grid, ratio, root

_MANY = 64
"""From so many points on NumPy sums them sooner, once it is there."""


class Moments(Deferred):
    """The sums of x and of x² as whole numbers: adding and taking away are exact, and each answer is rounded once."""

    __slots__ = ("_grid", "_squares", "_sum")

    enough = 2

    def __init__(self, extent: Extent) -> None:
        self._grid = Grid(self._widened)
        super().__init__(extent)

    def clear(self) -> None:
        self._grid.reset()
        self._sum = 0
        self._squares = 0

    def put(self, total: int, squares: int, bits: int, usable: int) -> None:
        """Know of so many points nothing but their sums, in units of 2^-bits."""
        self._grid.put(bits)
        self._sum, self._squares, self.usable = total, squares, usable

    def _widened(self, bits: int) -> None:
        self._sum <<= bits
        self._squares <<= 2 * bits

    def add(self, step: int, value: float) -> None:
        whole = self._grid.whole(value)
        self._sum += whole
        self._squares += whole * whole

    def drop(self, step: int, value: float) -> None:
        whole = self._grid.whole(value)
        self._sum -= whole
        self._squares -= whole * whole

    def add_between(self, begin: int, end: int) -> None:
        if end - begin < _MANY:
            super().add_between(begin, end)
        else:
            self._take(begin, end, 1)

    def drop_between(self, begin: int, end: int) -> None:
        if end - begin < _MANY:
            super().drop_between(begin, end)
        else:
            self._take(begin, end, -1)

    def _take(self, begin: int, end: int, sign: int) -> None:
        # Loaded only here: with it comes NumPy, which reading a policy does without.
        total, squares, bits = import_module("vitalsdsl.kernels.whole_sums").whole_sums(self.trail.values(begin, end))
        self._grid.refine(bits)
        finer = self._grid.bits - bits
        self._sum += sign * (total << finer)
        self._squares += sign * (squares << 2 * finer)

    def sum(self) -> float:
        self.learn()
        return ratio(self._sum, 1 << self._grid.bits)

    def mean(self) -> float:
        self.learn()
        return ratio(self._sum, self.usable << self._grid.bits)

    def var(self) -> float:
        """With n - 1; NaN for fewer than two points."""
        return ratio(*self._spread()) if self.usable > 1 else math.nan

    def std(self) -> float:
        """The root of a variance that may itself be too large or too small for a float."""
        return root(*self._spread()) if self.usable > 1 else math.nan

    def cv(self) -> float:
        """std / abs(mean), also where the std itself would be too large; NaN where the mean is 0."""
        self.learn()
        n, mean = self.usable, self._sum
        return root(n * self._spread()[0], (n - 1) * mean * mean) if n > 1 and mean else math.nan

    def _spread(self) -> tuple[int, int]:
        self.learn()
        n = self.usable
        return n * self._squares - self._sum * self._sum, (n * (n - 1)) << (2 * self._grid.bits)
