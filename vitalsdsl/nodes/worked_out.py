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
        infinite = np.isinf(values)
        if infinite.any():
            values = np.where(infinite & np.isfinite(a) & np.isfinite(b), np.nan, values)
    if not (np.any(left.slack) or np.any(right.slack)):
        return Column(values)
    return Column(values, _grown(symbol, left, right, values))


def _grown(symbol: str, left: Column, right: Column, values: Array) -> Array:
    """How far off the result may be, whatever its operands are within theirs. Without bound where it may be unknown."""
    a, b, s, t, size = np.abs(left.values), np.abs(right.values), left.slack, right.slack, np.abs(values)
    with np.errstate(all="ignore"):
        if symbol in "+-":
            off = s + t
        elif symbol == "*":
            off = a * t + (b + t) * s if np.any(t) else b * s
        else:
            room = b - t
            off = np.where(room > 0, (s + size * t) / np.where(room > 0, room, 1.0), np.inf)
        both = s + t
        off = np.where(both == 0, 0.0, off * (1 + 1e-9) + (1e-15 * size + _TINY))
        is_plain = size < _LARGE
        is_plain &= off < np.inf
        if not is_plain.all():
            odd = ~is_plain
            off[odd] = _of_the_odd(symbol, *(np.broadcast_to(one, off.shape)[odd] for one in (a, b, t, both)))
        return off


def _of_the_odd(symbol: str, a: Array, b: Array, t: Array, both: Array) -> Array:
    """The same of results that are unknown, nearly too large for a float, or may be off by anything."""
    is_sure = (both == 0) | (np.isnan(a) | np.isnan(b)) & np.isfinite(both)
    if symbol == "/":
        is_sure |= (b == 0) & (t == 0)
    return np.where(is_sure, 0.0, np.inf)


_TINY = 1e-300
"""What a product may lose that is too small for a float of full precision."""

_LARGE = 1e300
"""Beyond this a result may be too large for a float, and unknown, as its operands may be off."""
