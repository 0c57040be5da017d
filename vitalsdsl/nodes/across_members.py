"""Functions over the members of a family, for all closed steps of a run at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vitalsdsl.kernels.columns import Array, Column
from vitalsdsl.kernels.in_order import CHUNK, midpoints
from vitalsdsl.kernels.sliding import LARGEST
from vitalsdsl.nodes.possible import NEVER_KNOWN, Possible, all_of, any_of
from vitalsdsl.ops.base import aggregates

_EPS, _FINE = float(np.finfo(float).eps), float(np.finfo(np.longdouble).eps)
_WHOLE = 2.0**53


def numbers(compute: Callable[..., Any], members: Sequence[tuple[Column, int]], count: int) -> Column | None:
    """The `max`, `min`, `median`, `sum` or `mean` of the members that are known, each from the row on at which it joined.
    None where the numbers are too large to be added here."""
    read = _READ[next(name for name, known in aggregates().items() if known.value is compute)]
    values, off = np.full(count, np.nan), np.zeros(count)
    if not members:
        return Column(values)
    at_once = max(1, CHUNK // len(members))
    for begin in range(0, count, at_once):
        part = slice(begin, min(begin + at_once, count))
        stack, slack = _stacked(members, part, count)
        known = ~np.isnan(stack)
        with np.errstate(all="ignore"):
            found = read(stack, known, np.where(known, slack, 0.0))
        if found is None:
            return None
        values[part], off[part] = found
    return Column(np.where(np.isnan(values), np.nan, values), off if off.any() else 0.0)


def _stacked(members: Sequence[tuple[Column, int]], part: slice, count: int) -> tuple[Array, Array]:
    """The members' values and slacks at some rows: (members x rows), NaN before a member joined."""
    rows = part.stop - part.start
    stack, slack = np.empty((len(members), rows)), np.empty((len(members), rows))
    for i, (column, since) in enumerate(members):
        stack[i] = np.broadcast_to(column.values, (count,))[part]
        slack[i] = np.broadcast_to(column.slack, (count,))[part]
        stack[i, : max(0, since - part.start)] = np.nan
    return stack, slack


Read = Callable[[Array, Array, Array], "tuple[Array, Array] | None"]
"""From the members' values, where they are known, and their slacks, at each row a value and a slack."""


def _greatest(stack: Array, known: Array, slack: Array) -> tuple[Array, Array]:
    return np.fmax.reduce(stack), slack.max(axis=0)


def _least(stack: Array, known: Array, slack: Array) -> tuple[Array, Array]:
    return np.fmin.reduce(stack), slack.max(axis=0)


def _median(stack: Array, known: Array, slack: Array) -> tuple[Array, Array]:
    ordered = np.sort(stack, axis=0)  # NaN goes to the end
    n, row = known.sum(axis=0), np.arange(stack.shape[1])
    values = midpoints(ordered[np.maximum(n - 1, 0) // 2, row], ordered[np.minimum(n // 2, len(stack) - 1), row])
    return np.where(n > 0, values, np.nan), slack.max(axis=0)


def _sum(stack: Array, known: Array, slack: Array) -> tuple[Array, Array] | None:
    stack = np.where(known, stack, 0.0)
    size = np.abs(stack).sum(axis=0)
    if not (size < LARGEST).all():
        return None
    values = stack.astype(np.longdouble).sum(axis=0).astype(float)
    is_exact = (size < _WHOLE) & (np.rint(stack) == stack).all(axis=0)
    off = np.where(is_exact, 0.0, _EPS * np.abs(values) + len(stack) * _FINE * size)
    return np.where(known.any(axis=0), values, np.nan), off + slack.sum(axis=0)


def _mean(stack: Array, known: Array, slack: Array) -> tuple[Array, Array] | None:
    added = _sum(stack, known, slack)
    if added is None:
        return None
    n = np.maximum(known.sum(axis=0), 1)
    values, off = added[0] / n, added[1] / n
    least, greatest = np.fmin.reduce(stack), np.fmax.reduce(stack)
    are_equal = least == greatest
    off = np.where(are_equal, slack.max(axis=0), np.where(off > 0, off + _EPS * np.abs(values), 0.0))
    return np.where(are_equal, least, values), off


_READ: dict[str, Read] = {"max": _greatest, "min": _least, "median": _median, "sum": _sum, "mean": _mean}


# -------------------------------------------------------------------- of conditions


def holds(compute: Callable[..., Any], members: Sequence[tuple[Possible, int]], count: int) -> Possible:
    """`any`, `all`."""
    join = any_of if compute is aggregates()["any"].value else all_of
    neutral = join is all_of
    parts, there = [], np.zeros(count, bool)
    for said, since in members:
        joined = np.arange(count) >= since
        there |= joined
        true, false = (np.where(joined, said.true, neutral), np.where(joined, said.false, not neutral))
        parts.append(Possible(true, false, np.where(joined, said.unknown, False)))
    if not parts:
        return NEVER_KNOWN
    found = join(parts)
    return Possible(found.true & there, found.false & there, found.unknown | ~there)


def how_many(members: Sequence[tuple[Possible, int]], count: int) -> Column | None:
    """For how many members a condition is true. None where it is open whether it is known for any."""
    most, surely, known, perhaps = np.zeros(count), np.zeros(count), np.zeros(count, bool), np.zeros(count, bool)
    for said, since in members:
        joined = np.arange(count) >= since
        most += said.true & joined
        surely += said.true & ~np.asarray(said.false) & ~np.asarray(said.unknown) & joined
        known |= ~np.asarray(said.unknown) & joined
        perhaps |= (said.true | said.false) & joined
    if (perhaps & ~known).any():
        return None
    off = (most - surely) / 2
    return Column(np.where(known, surely + off, np.nan), off if off.any() else 0.0)
