"""Arithmetic on columns, with how far off the result may be."""

from __future__ import annotations

import numpy as np

from vitalsdsl.kernels.columns import Array, Column


def worked_out(symbol: str, left: Column, right: Column) -> Column:
    a, b = left.values, right.values
    with np.errstate(all="ignore"):
        if symbol == "/":
            values = np.where(np.asarray(b) == 0.0, np.nan, np.divide(a, b))
        else:
            values = {"+": np.add, "-": np.subtract, "*": np.multiply}[symbol](a, b)
        lost = np.isinf(values) & np.isfinite(a) & np.isfinite(b)
        values = np.where(lost, np.nan, values)
    if not (np.any(left.slack) or np.any(right.slack)):
        return Column(values)
    return Column(values, _grown(symbol, left, right, values))


def _grown(symbol: str, left: Column, right: Column, values: Array) -> Array:
    """How far off the result may be, whatever its operands are within theirs. Without bound where it may be unknown."""
    a, b, s, t = np.abs(left.values), np.abs(right.values), left.slack, right.slack
    with np.errstate(all="ignore"):
        if symbol in "+-":
            off = s + t
        elif symbol == "*":
            off = a * t + b * s + s * t
        else:
            room = b - t
            off = np.where(room > 0, (s + np.abs(values) * t) / np.where(room > 0, room, 1.0), np.inf)
        off = off * (1 + 1e-9) + 1e-15 * np.abs(values) + _TINY
        both = s + t
        is_near_the_largest = (both > 0) & ~(np.abs(values) < _LARGE)
        off = np.where(is_near_the_largest | np.isnan(off), np.inf, off)
        is_sure = (both == 0) | (np.isnan(a) | np.isnan(b)) & np.isfinite(both)
        if symbol == "/":
            is_sure |= (b == 0) & (t == 0)
        return np.where(is_sure, 0.0, off)


_TINY = 1e-300
"""What a product may lose that is too small for a float of full precision."""

_LARGE = 1e300
"""Beyond this a result may be too large for a float, and unknown, as its operands may be off."""
