"""What a condition can be at each step: true, false, unknown; more than one of them where a number is not known to the
last digit. So what cannot be true anywhere is surely not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vitalsdsl.kernels.columns import Array, Column


@dataclass(frozen=True)
class Possible:
    """Three columns of truth values (or one truth value for all steps): at each step at least one of them is true."""

    true: Array
    false: Array
    unknown: Array
    surely_one: bool = False
    """Whether it has been seen that there is one answer at each step."""

    @classmethod
    def exactly(cls, true: Array, unknown: Array) -> Possible:
        """Of a condition that is known for certain where it is not unknown."""
        true = np.logical_and(true, np.logical_not(unknown))
        return cls(true, np.logical_not(np.logical_or(true, unknown)), unknown, True)

    @classmethod
    def of_numbers(cls, values: Array) -> Possible:
        """From 1, 0 and NaN."""
        return cls.exactly(values == 1.0, np.isnan(values))

    @property
    def is_open(self) -> Array:
        """Where there is more than one answer."""
        return self.true & self.false | self.true & self.unknown | self.false & self.unknown

    @property
    def is_certain(self) -> bool:
        """Whether there is one answer at each step."""
        return self.surely_one or not bool(np.any(self.is_open))

    def put(self, rows: Array, other: Possible, count: int) -> Possible:
        """The same with another's answers, one for each of some rows, at these: all at which it is open."""
        found = []
        for own, new in ((self.true, other.true), (self.false, other.false), (self.unknown, other.unknown)):
            column = np.array(np.broadcast_to(own, (count,)))
            column[rows] = new
            found.append(column)
        true, false, unknown = found
        return Possible(true, false, unknown, other.surely_one)

    def at(self, rows: Array, count: int) -> Possible:
        """The same at some of so many rows."""
        if len(rows) == count:
            return self
        true, false, unknown = (np.broadcast_to(part, (count,))[rows] for part in (self.true, self.false, self.unknown))
        return Possible(true, false, unknown, self.surely_one)

    def numbers(self, count: int) -> Array:
        """1, 0 and NaN, where it is certain."""
        return np.broadcast_to(np.where(self.unknown, np.nan, np.where(self.true, 1.0, 0.0)), (count,))

    def negated(self) -> Possible:
        return Possible(self.false, self.true, self.unknown, self.surely_one)

    def surely(self) -> Possible:
        """True where it is true, else false."""
        return Possible(self.true, np.logical_or(self.false, self.unknown), np.False_)


NEVER_KNOWN = Possible(np.False_, np.False_, np.True_)


def all_of(parts: Iterable[Possible]) -> Possible:
    """Kleene's `and`."""
    found: Possible | None = None
    for part in parts:
        if found is None:
            found = part
        else:
            found = Possible(
                found.true & part.true,
                found.false | part.false,
                (found.unknown & (part.unknown | part.true)) | (found.true & part.unknown),
            )
    return found or Possible(np.True_, np.False_, np.False_)


def any_of(parts: Iterable[Possible]) -> Possible:
    """Kleene's `or`."""
    return all_of(part.negated() for part in parts).negated()


def at_least(count: int, parts: Iterable[Possible]) -> Possible | None:
    """`2 of (…)`; None where a part is not certain."""
    parts = list(parts)
    if not all(part.is_certain for part in parts):
        return None
    true = sum(np.asarray(part.true, dtype=int) for part in parts)
    unknown = sum(np.asarray(part.unknown, dtype=int) for part in parts)
    return Possible(true >= count, true + unknown < count, (true < count) & (true + unknown >= count))


COMPARE = {
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def compared(symbol: str, left: Column, right: Column) -> Possible:
    """A comparison: both answers are possible where the two sides are no further apart than they may be off, and all three
    where a side may be off without bound: it may as well be unknown."""
    unknown = np.isnan(left.values) | np.isnan(right.values)
    with np.errstate(invalid="ignore"):
        true = COMPARE[symbol](left.values, right.values) & ~unknown
        false = ~true & ~unknown
        slack = left.slack + right.slack
        if np.any(slack):
            anything = np.isinf(slack)
            close = ~(np.abs(left.values - right.values) > slack) & ~unknown & (np.asarray(slack) > 0) | anything
            true, false, unknown = true | close, false | close, unknown | anything
            return Possible(true, false, unknown)
    return Possible(true, false, unknown, True)
