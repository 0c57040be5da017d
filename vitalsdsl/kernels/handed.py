"""Handed: the points of a block as windows take them."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vitalsdsl.kernels.deferred import Points

Array = Any


def handed(values: Sequence[float], first: int, stride: int) -> tuple[Points, Points]:
    """Points at steps that are equally far apart: as windows have them that drop NaN and ±inf, and as those that drop NaN."""
    newest = first + (len(values) - 1) * stride
    code = "i" if newest < 2**31 else "q"
    steps, own = array(code), array("d")
    steps.frombytes(np.arange(first, newest + 1, stride, dtype=code).tobytes())
    own.frombytes(struct.pack(f"{len(values)}d", *values))
    finite = known = Points(steps, own, None, len(values), first, newest, values[-1])
    if not math.isfinite(sum(values)):
        finite, known = _some(finite, np.isfinite(own)), _some(finite, ~np.isnan(own))
    return finite, known


def _some(points: Points, which: Array) -> Points:
    """The usable ones of some points, of which all have been before."""
    steps = array(points.steps.typecode)
    steps.frombytes(np.asarray(points.steps)[which].tobytes())
    values = array("d")
    values.frombytes(np.asarray(points.values)[which].tobytes())
    return replace(points, steps=steps, values=values, numbers=np.nonzero(which)[0].tolist())
