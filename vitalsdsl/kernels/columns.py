"""A whole run at once: the closed steps, and a number at each of them, as NumPy columns.

The vectorised form of a function gives, for each closed step, the very number that its streaming form gives there, to the
last digit; or it says by how much it may be off (`slack`, in x's own unit), and whoever compares takes care of that.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
"""A NumPy array; floats where NaN is unknown, unless said otherwise."""

Slack = Any
"""How far a column may be off, at most: 0.0, one number for all of it, or one for each step."""


@dataclass(frozen=True)
class Rows:
    """The closed steps of a run, in order, and their times (NaN where the run has no clock)."""

    steps: Array
    times: Array

    def __len__(self) -> int:
        return len(self.steps)

    @functools.cached_property
    def gaps(self) -> tuple[int, int]:
        """Steps from one to the next, at least and at most; 1 of a single one."""
        gaps = np.diff(self.steps)
        return (int(gaps.min()), int(gaps.max())) if len(gaps) else (1, 1)


@dataclass(frozen=True)
class Column:
    """A number at each closed step."""

    values: Array
    slack: Slack = 0.0


def dense(at: Array, values: Array, count: int, before: Any = np.nan) -> Array:
    """At each of so many rows what stands there since the newest of some rows; `before` the first of them."""
    out = np.full(count, before, dtype=values.dtype if values.dtype != np.int64 else float)
    if len(at):
        out[int(at[0]) :] = np.repeat(values, np.diff(np.append(at, count)))
    return out
