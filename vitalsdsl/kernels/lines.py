"""The least-squares lines through many windows of points, and by how much what is read of them may be off."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vitalsdsl.kernels.columns import Array
from vitalsdsl.kernels.in_order import stacks

LONGEST = 1024
"""Points of a window up to which a product with each is quicker than going through the points."""

_EXTRA = np.longdouble
_EPS, _FINE = float(np.finfo(float).eps), float(np.finfo(_EXTRA).eps)


class AboutTheMeans(NamedTuple):
    """Of each of some windows of `n` points the sums about the means of x squared, of s times x, of s squared; and by how
    much the root of the first may be off, which is nothing where all points are equal."""

    n: int
    squares: Array
    together: Array
    spread: Array
    off: Array


Read = Callable[[AboutTheMeans], "tuple[Array, Array]"]
"""A value for each window, and by how much it may be off."""


def slopes(of: AboutTheMeans) -> tuple[Array, Array]:
    """Change a step; NaN where all points are at one step."""
    values = of.together / of.spread
    return values, of.off / np.sqrt(of.spread) + 4 * _EPS * np.abs(values)


def scatters(of: AboutTheMeans) -> tuple[Array, Array]:
    """Standard deviation about the line, with n - 2."""
    values = np.sqrt(np.maximum(of.squares - of.together * of.together / of.spread, 0.0) / (of.n - 2))
    off = (4 * np.sqrt(of.squares) * of.off + 2 * of.off * of.off) / (of.n - 2)
    return values, np.where(off > 0, np.minimum(np.sqrt(off), off / values) + 4 * _EPS * values, 0.0)


def lined(read: Read, minimum: int, values: Array, steps: Array, lo: Array, hi: Array) -> tuple[Array, Array]:
    """What is read of the windows `values[lo:hi]`, NaN of those with too few points."""
    lengths, found = hi - lo, np.full((2, len(lo)), np.nan)
    stride = is_even(steps)
    for length in np.nonzero(np.bincount(lengths))[0].tolist():
        if length < minimum:
            continue
        with np.errstate(all="ignore"):
            if stride and length > 1:
                own = np.nonzero(lengths == length)[0]
                found[:, own] = read(_evenly_spaced(values, stride, lo[own], length))
                continue
            for own, (stack, places) in stacks(lo, lengths, length, values, steps):
                found[:, own] = read(_stacked(stack, places))
    return found[0], found[1]


def is_even(steps: Array) -> int:
    """From each step to the next; 0 where that differs."""
    if len(steps) < 2:
        return 0
    stride = int(steps[1] - steps[0])
    return stride if bool((steps[1:] - steps[:-1] == stride).all()) else 0


def _stacked(stack: Array, steps: Array) -> AboutTheMeans:
    """Of stacks of values and steps (windows x points)."""
    n = stack.shape[1]
    values = stack - stack[:, :1]
    middle = values.mean(axis=1)
    values -= middle[:, None]
    first = (steps - steps[:, :1]).astype(float)
    places = first - first.mean(axis=1, keepdims=True)
    squares = np.einsum("ij,ij->i", values, values)
    together = np.einsum("ij,ij->i", values, places)
    off = 4 * (n + 4) * _EPS * np.sqrt(n) * (np.abs(middle) + np.sqrt(squares))
    return AboutTheMeans(n, squares, together, np.einsum("ij,ij->i", places, places), off)


def _evenly_spaced(values: Array, stride: int, lo: Array, n: int) -> AboutTheMeans:
    """Of windows whose points are a stride apart: the same places stand against the points of each of them, so they are
    moved along the whole column; and x squared is summed once for all, about one pivot and in more digits."""
    places = stride * (np.arange(n) - (n - 1) / 2)
    spread = float(places @ places)
    fine = values.astype(_EXTRA) - values[0]
    about = fine.astype(float)
    together = np.correlate(about, places, "valid")[lo]
    first, second = (np.concatenate([[_EXTRA(0)], np.cumsum(part)]) for part in (fine, fine * fine))
    total, whole = first[lo + n] - first[lo], second[lo + n] - second[lo]
    squares = np.maximum((whole - total * total / n).astype(float), 0.0)
    lost = 32 * _FINE * len(values) ** 2 * float(np.abs(about).max()) ** 2 + _EPS * squares + 1e-300
    off = np.minimum(np.sqrt(lost), lost / np.sqrt(squares)) + 2 * (n + 4) * _EPS * np.sqrt(whole.astype(float))
    changes = np.concatenate([[0], np.cumsum(values[1:] != values[:-1])])
    is_level = changes[lo + n - 1] == changes[lo]
    for part in (squares, together, off):
        part[is_level] = 0.0
    return AboutTheMeans(n, squares, together, np.full(len(lo), spread), off)
