"""Newest: the points of short windows, as generated code goes through them."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vitalsdsl.ground.types import STEPS
from vitalsdsl.kernels.deferred import Deferred

Array = Any


@dataclass
class Newest:
    """The points before the next, one entry for each place where one could be.

    `values` has NaN where none is, `away` how far each is from the pivot, 0 where none is that is finite: these are `missed`.
    """

    values: list[float] = field(default_factory=list)
    away: list[float] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    counts: dict[Deferred, int] = field(default_factory=dict)
    """How many places a window has, that of the next point among them; without the windows that have points elsewhere."""

    @classmethod
    def of(cls, windows: Collection[Deferred], step: int, stride: int, pivot: float) -> Newest:
        """Of windows over one stream of which the span has been lived, the next point being at a step, and those before it
        as a rule so many steps apart."""
        found = cls()
        if not windows:
            return found
        by_step = any(window.unit == STEPS for window in windows)
        size = max(places_in(window, stride) for window in windows) - 1
        values = np.full(size, math.nan)
        for window in windows:
            back, own, is_even = _places(window, step, stride, by_step)
            if is_even:
                found.counts[window] = places_in(window, stride)
            is_near = back <= size
            values[size - back[is_near]] = own[is_near]
        is_missed = ~np.isfinite(values)
        away = values - pivot
        away[is_missed] = 0.0
        found.values, found.away = values.tolist(), away.tolist()
        found.missed = np.nonzero(is_missed)[0].tolist()
        return found


def places_in(window: Deferred, stride: int) -> int:
    """In how many places a window can have points so many steps apart."""
    return math.ceil(window.size / stride) if window.unit == STEPS else math.ceil(window.size)


def _places(window: Deferred, step: int, stride: int, by_step: bool) -> tuple[Array, Array, bool]:
    """By how many places each of its points comes before the next, and its value, of those that are in some place; and
    whether all are in places of its own."""
    trail = window.trail
    at = step if window.unit == STEPS else window.seen
    begin = trail.up_to(at - math.ceil(window.size))
    places, values = map(np.asarray, trail.ring.columns(begin, trail.end))
    own = at - places.astype(np.int64)
    if not by_step:
        return own, values, True
    back, rest = np.divmod(step - trail.ring.step_column(begin, trail.end), stride)
    if not rest.any():
        return back, values, window.unit == STEPS or bool((back == own).all())
    is_placed = rest == 0
    return back[is_placed], values[is_placed], False
