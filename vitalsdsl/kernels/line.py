"""The least-squares line through the points of a window."""

from __future__ import annotations

import math

from vitalsdsl.ground.types import Extent
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.exact import Grid, ratio, root


class Line(Deferred):
    """The sums of s, s², x, s·x and x² as whole numbers, s being a point's step, so that slope and scatter are exact."""

    __slots__ = ("_grid", "_products", "_squares", "_steps", "_steps_squared", "_values")

    enough = 3
    looks_at_steps = True

    def __init__(self, extent: Extent) -> None:
        self._grid = Grid(self._widened)
        super().__init__(extent)

    def clear(self) -> None:
        self._grid.reset()
        self._steps = self._steps_squared = 0
        self._values = self._products = self._squares = 0

    def _widened(self, bits: int) -> None:
        self._values <<= bits
        self._products <<= bits
        self._squares <<= 2 * bits

    def add(self, step: int, value: float) -> None:
        whole = self._grid.whole(value)
        self._steps += step
        self._steps_squared += step * step
        self._values += whole
        self._products += step * whole
        self._squares += whole * whole

    def drop(self, step: int, value: float) -> None:
        whole = self._grid.whole(value)
        self._steps -= step
        self._steps_squared -= step * step
        self._values -= whole
        self._products -= step * whole
        self._squares -= whole * whole

    def slope(self) -> float:
        """Change of x a step; NaN where all points are at one step."""
        spread, together, _ = self._about_the_means()
        return ratio(together, spread << self._grid.bits) if spread else math.nan

    def scatter(self) -> float:
        """Standard deviation about the line, with n - 2; NaN for fewer than three points."""
        n = self.usable
        spread, together, squares = self._about_the_means()
        if n < 3 or not spread:
            return math.nan
        return root(spread * squares - together * together, (spread * n * (n - 2)) << (2 * self._grid.bits))

    def _about_the_means(self) -> tuple[int, int, int]:
        """n times the sums of squares and products about the means: of steps, of both, of values."""
        self.learn()
        n, steps, values = self.usable, self._steps, self._values
        return (
            n * self._steps_squared - steps * steps,
            n * self._products - steps * values,
            n * self._squares - values * values,
        )
