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
    """How far off the result may be: a little more than the first order says."""
    a, b, s, t = np.abs(left.values), np.abs(right.values), left.slack, right.slack
    with np.errstate(all="ignore"):
        if symbol in "+-":
            off = s + t
        elif symbol == "*":
            off = a * t + b * s + s * t
        else:
            room = b - t
            off = np.where(room > 0, (s + np.abs(values) * t) / np.where(room > 0, room, 1.0), np.inf)
        return np.nan_to_num(2 * off + 1e-15 * np.abs(values), nan=np.inf)
