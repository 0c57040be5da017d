"""Sums without rounding: every float is a whole number of some 2^-k, and whole numbers add and take away exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

_BITS = 60
"""Where a grid begins: fine enough for numbers of order one."""
_EXACT = 2.0**1000
"""Up to here scaling by a power of two loses nothing."""


class Grid:
    """The multiples of 2^-bits, as whole numbers. It grows finer when a float comes that is not one of them.

    `widened` is told by how many bits, so that the sums made so far can be shifted along.

    >>> grid = Grid(lambda bits: print("finer by", bits))
    >>> grid.whole(0.5) == 2**59, grid.whole(2.0**-70)
    finer by 10
    (True, 1)
    """

    __slots__ = ("_scale", "_widened", "bits")

    def __init__(self, widened: Callable[[int], None]) -> None:
        self._widened = widened
        self._set(_BITS)

    def _set(self, bits: int) -> None:
        self.bits = bits
        self._scale = 2.0**bits if bits < 1000 else math.inf  # inf: too fine to scale a float to it

    def put(self, bits: int) -> None:
        """Be as fine as that, whatever has been summed."""
        self._set(bits)

    def reset(self) -> None:
        """Begin coarse again: nothing has been summed yet."""
        if self.bits != _BITS:
            self._set(_BITS)

    def refine(self, bits: int) -> None:
        """Be at least as fine as that."""
        more = bits - self.bits
        if more > 0:
            self._set(bits)
            self._widened(more)

    def whole(self, value: float) -> int:
        """A finite float in units of 2^-bits."""
        scaled = value * self._scale
        if -_EXACT < scaled < _EXACT:
            whole = int(scaled)
            if whole == scaled:
                return whole
        numerator, denominator = value.as_integer_ratio()
        need = denominator.bit_length() - 1
        self.refine(need)
        return numerator << (self.bits - need)


def ratio(above: int, below: int) -> float:
    """Rounded once; NaN where it is too large for a float (an infinite result of finite numbers is undefined).

    >>> ratio(1, 3), ratio(10**400, 10**399), ratio(10**400, 1)
    (0.3333333333333333, 10.0, nan)
    """
    try:
        return above / below
    except OverflowError:
        return math.nan


def root(above: int, below: int) -> float:
    """The square root of above / below, right to the last digit though neither may fit a float; NaN where it is too
    large.

    >>> root(2, 1), root(10**800, 4 * 10**200), root(1, 10**500)
    (1.4142135623730951, 5e+299, 1e-250)
    """
    if not above:
        return 0.0
    square = ratio(above, below)
    if 1e-290 < square < 1e290:
        return math.sqrt(square)
    shift = 128 - above.bit_length() + below.bit_length()
    shift += shift & 1
    quotient = (above << shift) // below if shift >= 0 else above // (below << -shift)
    try:
        return math.ldexp(math.isqrt(quotient), -shift // 2)
    except OverflowError:
        return math.nan


def midpoint(low: float, high: float) -> float:
    """The mean of two numbers, also where their sum is too large. Of -inf and inf it is NaN.

    >>> midpoint(1.0, 2.0), midpoint(1.5e308, 1.7e308), midpoint(3.0, float("inf"))
    (1.5, 1.6e+308, inf)
    """
    if low == high:
        return low
    both = low + high
    return both / 2 if both - both == 0.0 else low / 2 + high / 2


def total(values: Sequence[float]) -> float:
    """The sum of some numbers, rounded once; NaN where it is too large for a float, or where inf meets -inf.

    >>> total([1e20, 1.0, -1e20]), total([1e308, 1e308, -1e308]), total([1e308, 1e308])
    (1.0, 1e+308, nan)
    """
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        infinite = [value for value in values if math.isinf(value)]
        return sum(infinite) if infinite else ratio(*_fraction(values))


def mean(values: Sequence[float]) -> float:
    """The mean of one number or more; of equal numbers it is that number.

    >>> mean([0.1, 0.1, 0.1]), mean([1e20, 1.0, -1e20, 3.0]), mean([1.5e308, 1.7e308])
    (0.1, 1.0, 1.6e+308)
    """
    if min(values) == max(values):
        return values[0]
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):
        infinite = [value for value in values if math.isinf(value)]
        if infinite:
            return sum(infinite)
        above, below = _fraction(values)
        return ratio(above, below * len(values))


def _fraction(values: Sequence[float]) -> tuple[int, int]:
    """The sum as a fraction whose lower part is a power of two."""
    parts = [value.as_integer_ratio() for value in values]
    below = max(denominator for _, denominator in parts)
    return sum(numerator * (below // denominator) for numerator, denominator in parts), below
