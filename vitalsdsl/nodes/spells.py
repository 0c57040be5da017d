"""`for 20 steps` over a whole run: where a condition with a span holds, or can have held."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent
from vitalsdsl.kernels.columns import Array, Rows
from vitalsdsl.nodes.holding import Span


@dataclass(frozen=True)
class Spells:
    """What became of a condition with a span at its evaluations, which are at `rows`: `held` is 1, 0 or NaN, `known`
    whether its source was, `edges` the rows at which it became true."""

    rows: Array
    held: Array
    known: Array
    edges: Array


def spells(said: Array, rows: Array, at: Rows, span: Span, apart: Extent | None, is_event: bool) -> Spells:
    """What `Held` and `Event` make of a condition that is 1, 0 or NaN at these rows. Spans in steps, samples or time."""
    known = said == said
    places = np.nonzero(known)[0]
    true = said[places] == 1.0
    holds = true & _reached(span, true, rows[places], at) if span.extents or span.n else true
    if is_event and span.n:
        # Once it has held, an event stays true for as long as its condition does.
        since = np.maximum.accumulate(np.where(holds, np.arange(len(holds)), -1))
        holds = true & (since >= _begins(true))
    held = np.full(len(rows), np.nan)
    if len(places):
        newest = np.cumsum(known) - 1
        held[places[0] :] = holds[newest[places[0] :]]
    before = np.concatenate([[False], holds[:-1]])
    edges = places[holds & ~before]
    if apart is not None:
        edges = _kept(edges, apart, rows, at)
    return Spells(rows, held, known, rows[edges])


def _begins(true: Array) -> Array:
    """At each place that is true the first of those before it between which all are; elsewhere the place after it."""
    at = np.arange(len(true))
    return np.maximum.accumulate(np.where(true, 0, at + 1))


def _reached(span: Span, true: Array, where: Array, at: Rows) -> Array:
    """Whether the stretch of true evaluations that ends at each place is as long as the span asks."""
    if not span.n and all(extent.unit in (SAMPLES, STEPS) for extent in span.extents):
        return _long_enough(span.extents, true, where, at)
    places = np.arange(len(true))
    begins = np.minimum(_begins(true), places)
    if span.n:
        trues = np.concatenate([[0], np.cumsum(true)])
        return trues[places + 1] - trues[np.maximum(places + 1 - span.n, 0)] >= span.k
    reached = np.ones(len(true), bool)
    for extent in span.extents:
        if extent.unit == SAMPLES:
            reached &= places - begins + 1 >= extent.size
        elif extent.unit == STEPS:
            reached &= at.steps[where] - at.steps[where[begins]] + 1 >= extent.size
        elif extent.unit == TIME:
            reached &= at.times[where] - at.times[where[begins]] >= extent.size
    return reached


def _long_enough(extents: Sequence[Extent], true: Array, where: Array, at: Rows) -> Array:
    """The same by stretches, of which there are few: in each, from where on it is long enough."""
    begins, ends = stretches(true)
    firsts = begins
    for extent in extents:
        if extent.unit == SAMPLES:
            firsts = np.maximum(firsts, begins + math.ceil(extent.size) - 1)
        elif len(begins):
            far = np.ceil(at.steps[where[begins]] + extent.size - 1)
            firsts = np.maximum(firsts, np.searchsorted(where, np.searchsorted(at.steps, far)))
    reached = np.zeros(len(true), bool)
    for first, end in zip(firsts.tolist(), ends.tolist()):
        reached[first:end] = True
    return reached


def stretches(true: Array) -> tuple[Array, Array]:
    """The stretches of true evaluations: their first places, and those after their last."""
    edges = np.concatenate([[0], np.nonzero(true[1:] != true[:-1])[0] + 1, [len(true)]])
    first = 0 if len(true) and true[0] else 1
    return edges[first:-1:2], edges[first + 1 :: 2]


def _kept(edges: Array, apart: Extent, rows: Array, at: Rows) -> Array:
    """The edges without those that come too soon after the last one kept."""
    now = {STEPS: at.steps, TIME: at.times}.get(apart.unit)
    places = edges if now is None else now[rows[edges]]
    kept: list[int] = []
    newest = -np.inf
    for edge, place in zip(edges.tolist(), places.tolist()):
        if not kept or not place - newest < apart.size:
            kept.append(edge)
            newest = place
    return np.array(kept, dtype=np.int64)


class Reached:
    """Where a condition has been true for its span, from whatever row on it is counted.

    `rows` are its known evaluations, `true` what it is at them; at those of which `counts` is false it is not asked.
    """

    def __init__(self, span: Span, rows: Array, true: Array, at: Rows, counts: Array | None = None) -> None:
        if any(extent.unit not in (SAMPLES, STEPS, TIME) for extent in span.extents):
            raise ValueError("a span by the run's counters")
        self._span = span
        self._rows = rows
        self._true = true
        self._at = at
        self._counted = None if counts is None else np.nonzero(counts)[0]
        self._begins, self._ends = stretches(true)

    def first(self, after: int, beyond: int) -> int:
        """The first row beyond one at which it is reached, evaluations up to the row `after` being forgotten; -1 for none."""
        counted, place = np.searchsorted(self._rows, (after, beyond), side="right").tolist()
        stretch = int(np.searchsorted(self._ends, place, side="right"))
        for i in range(stretch, len(self._ends)):
            begin, end = int(self._begins[i]), int(self._ends[i])
            found = self._first_within(max(begin, counted), max(begin, place), end, counted)
            if found < end:
                return int(self._rows[found])
        return -1

    def onset(self, row: int, after: int) -> int:
        """The row at which the stretch of true evaluations begins that goes on at a row, counted likewise."""
        place, counted = int(np.searchsorted(self._rows, row)), int(np.searchsorted(self._rows, after, side="right"))
        stretch = int(np.searchsorted(self._ends, place, side="right"))
        return int(self._rows[max(int(self._begins[stretch]), counted)])

    def _first_within(self, begin: int, place: int, end: int, counted: int) -> int:
        """The first place from one on at which it is reached, in a stretch between two places; `end` where there is none."""
        for extent in self._span.extents:
            place = max(place, self._first_after(extent, begin, end))
        if self._span.n:
            place = self._often_enough(place, end, counted)
        if self._counted is None or place >= end:
            return place
        next_ = int(np.searchsorted(self._counted, place))
        return min(int(self._counted[next_]), end) if next_ < len(self._counted) else end

    def _first_after(self, extent: Extent, begin: int, end: int) -> int:
        """The first place that lies an extent beyond one."""
        if extent.unit == SAMPLES:
            return min(begin + math.ceil(extent.size) - 1, end)
        now = (self._at.steps if extent.unit == STEPS else self._at.times)[self._rows[begin:end]]
        reached = now - now[0] + (extent.unit == STEPS) >= extent.size
        found = int(np.argmax(reached))
        return begin + found if reached[found] else end

    def _often_enough(self, place: int, end: int, counted: int) -> int:
        """The first place at which k of the last n evaluations are true."""
        first = max(counted, place + 1 - self._span.n)
        trues = np.concatenate([[0], np.cumsum(self._true[first:end])])
        last = np.arange(place, end) + 1 - first
        often = trues[last] - trues[np.maximum(last - self._span.n, 0)] >= self._span.k
        found = int(np.argmax(often)) if len(often) else 0
        return place + found if len(often) and often[found] else end


def may_hold(span: Span, true: Array, surely_false: Array, at: Rows, rows: Array) -> Array:
    """Where a condition that can be true at these evaluations can have held for a span. One by the run's counters is taken
    to be none."""
    if not (span.extents or span.n):
        return true
    # Where it can only be unknown it neither extends nor resets anything.
    known = true | surely_false
    begin = int(np.argmax(known)) if len(known) else 0
    held = np.zeros(len(true), bool)
    if known[begin:].all():
        held[begin:] = true[begin:] & _reached(span, true[begin:], rows[begin:], at)
        return held
    places = np.nonzero(known)[0]
    held[places] = true[places] & _reached(span, true[places], rows[places], at)
    return held
