"""`for 20 steps` over a whole run: where a condition with a span holds, or can have held."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent
from vitalsdsl.kernels.columns import Array, Rows
from vitalsdsl.nodes.holding import Span

_MEASURED = (SAMPLES, STEPS, TIME)


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
    if span.n:
        return _often(span, true)
    long = _Long([extent for extent in span.extents if extent.unit in _MEASURED], true, where, at)
    reached = np.zeros(len(true), bool)
    for first, end in zip(long.firsts.tolist(), long.ends.tolist()):
        reached[first:end] = True
    return reached


def _often(span: Span, true: Array) -> Array:
    """Whether k of the last n evaluations are true."""
    trues, places = np.concatenate([[0], np.cumsum(true)]), np.arange(1, len(true) + 1)
    often: Array = trues[places] - trues[np.maximum(places - span.n, 0)] >= span.k
    return often


class _Long:
    """The stretches of true evaluations that are long enough from somewhere on: most are not. `begins` are their first
    places, `ends` those after their last, `firsts` those from which on they are."""

    def __init__(self, extents: Sequence[Extent], true: Array, where: Array, at: Rows) -> None:
        least, is_enough = _least_places(extents, where, at)
        self.begins, self.ends = stretches(true, least)
        if is_enough:
            self.firsts = self.begins + (least - 1)
        else:
            self.firsts, which = _long_enough(extents, self.begins, self.ends, where, at)
            self.begins, self.ends = self.begins[which], self.ends[which]


def _long_enough(extents: Sequence[Extent], begins: Array, ends: Array, where: Array, at: Rows) -> tuple[Array, Array]:
    """Of the stretches that are long enough from where on they are, and which these are."""
    firsts, which = begins, np.arange(len(begins))
    for extent in extents:
        if extent.unit == SAMPLES:
            least = begins + math.ceil(extent.size) - 1
        else:
            now, own = (at.steps if extent.unit == STEPS else at.times), extent.unit == STEPS
            is_long = now[where[ends - 1]] - now[where[begins]] + own >= extent.size
            begins, ends, firsts, which = begins[is_long], ends[is_long], firsts[is_long], which[is_long]
            least = _first_beyond(extent.size - own, begins, ends, where, now)
        firsts = np.maximum(firsts, least)
        is_long = firsts < ends
        if not is_long.all():
            begins, ends, firsts, which = begins[is_long], ends[is_long], firsts[is_long], which[is_long]
    return firsts, which


def _first_beyond(size: float, begins: Array, ends: Array, where: Array, now: Array) -> Array:
    """In each stretch the first place that lies so far beyond its first; its last does."""
    low, high, begin = begins.copy(), ends - 1, now[where[begins]]
    left = np.nonzero(low < high)[0]
    while len(left):
        middle = (low[left] + high[left]) // 2
        is_beyond = now[where[middle]] - begin[left] >= size
        high[left[is_beyond]] = middle[is_beyond]
        low[left[~is_beyond]] = middle[~is_beyond] + 1
        left = left[low[left] < high[left]]
    return low


def stretches(true: Array, least: int = 1) -> tuple[Array, Array]:
    """The stretches of so many true evaluations at least: their first places, and those after their last."""
    if least > len(true):
        return np.arange(0), np.arange(0)
    lasting = _lasting(true, least)
    edges = np.concatenate([[0], np.nonzero(lasting[1:] != lasting[:-1])[0] + 1, [len(lasting)]])
    first = 0 if len(lasting) and lasting[0] else 1
    return edges[first:-1:2], edges[first + 1 :: 2] + (least - 1)


def _lasting(true: Array, count: int) -> Array:
    """Whether all of so many places are true that begin at each: of 1, 2, 4, … in a row, of which two cover it."""
    width = 1
    while 2 * width <= count:
        true, width = true[width:] & true[:-width], 2 * width
    rest = count - width
    return true[rest:] & true[: len(true) - rest] if rest else true


def _least_places(extents: Sequence[Extent], where: Array, at: Rows) -> tuple[int, bool]:
    """So many evaluations at least are in a stretch that is long enough, and whether each with so many is."""
    least, is_enough = 1, True
    for extent in extents:
        if extent.unit == SAMPLES:
            least = max(least, math.ceil(extent.size))
        elif extent.unit == STEPS:
            shortest, longest = _gaps(where, at)
            least = max(least, math.ceil((extent.size - 1) / longest) + 1)
            is_enough = is_enough and shortest == longest
        else:
            is_enough = False
    return least, is_enough


def _gaps(where: Array, at: Rows) -> tuple[int, int]:
    """Bounds of the steps from one evaluation to the next."""
    if not len(where) or int(where[-1] - where[0]) == len(where) - 1:
        return at.gaps
    gaps = np.diff(at.steps[where])
    return int(gaps.min()), int(gaps.max())


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
    """Where a condition has been true for its span, from whatever row on it is counted: in stretches of true evaluations,
    of which only those are looked at that may be long enough.

    `rows` are its known evaluations, `true` what it is at them; at those of which `counts` is false it is not asked.
    """

    def __init__(self, span: Span, rows: Array, true: Array, at: Rows, counts: Array | None = None) -> None:
        if any(extent.unit not in _MEASURED for extent in span.extents):
            raise ValueError("a span by the run's counters")
        self._span = span
        self._rows = rows
        self._true = true
        self._at = at
        self._counted = None if counts is None else np.nonzero(counts)[0]
        self._long = _Long(span.extents, true, rows, at)

    @property
    def is_plain(self) -> bool:
        """Whether each stretch says by itself where it is reached."""
        return not self._span.n and self._counted is None

    def anew(self) -> tuple[Array, Array]:
        """Of a plain one the first row of each stretch at which it is reached, and the stretch's first row."""
        return self._rows[self._long.firsts], self._rows[self._long.begins]

    @functools.cached_property
    def _firsts(self) -> Array:
        """The first places at which it is reached and asked, of all stretches of which there is one."""
        firsts, is_within = self._asked(self._long.firsts, self._long.ends)
        return firsts[is_within]

    def _asked(self, places: Array, ends: Array) -> tuple[Array, Array]:
        """The first places from these on at which it is asked, and whether they come before the stretches' ends."""
        if self._counted is not None:
            places = np.append(self._counted, len(self._rows))[np.searchsorted(self._counted, places)]
        return places, places < ends

    @functools.cached_property
    def _often(self) -> Array:
        """The places at which k of the last n evaluations are true, whatever is forgotten of them, and it is asked."""
        places = np.nonzero(self._true & _often(self._span, self._true))[0]
        return places if self._counted is None else np.intersect1d(places, self._counted, assume_unique=True)

    def first(self, after: int, beyond: int) -> int:
        """The first row beyond one at which it is reached, evaluations up to the row `after` being forgotten; -1 for none."""
        counted, place = np.searchsorted(self._rows, (after, beyond), side="right").tolist()
        found = self._first_often(place, counted) if self._span.n else self._first_long(place, counted)
        return int(self._rows[found]) if found >= 0 else -1

    def onset(self, row: int, after: int) -> int:
        """The row at which the stretch of true evaluations begins that goes on at a row, counted likewise."""
        place, counted = int(np.searchsorted(self._rows, row)), int(np.searchsorted(self._rows, after, side="right"))
        stretch = int(np.searchsorted(self._long.ends, place, side="right"))
        return int(self._rows[max(int(self._long.begins[stretch]), counted)])

    def _first_long(self, place: int, counted: int) -> int:
        """The first place from one on in a stretch that is as long there as the extents ask; -1 for none."""
        long = self._long
        stretch = int(np.searchsorted(long.ends, place, side="right"))
        if stretch == len(long.ends):
            return -1
        # What is forgotten can only be of the stretch that goes on there.
        begin, end = long.begins[stretch : stretch + 1], long.ends[stretch : stretch + 1]
        firsts, _ = _long_enough(self._span.extents, np.maximum(begin, counted), end, self._rows, self._at)
        places, is_within = self._asked(np.maximum(firsts, place), end)
        if len(places) and is_within[0]:
            return int(places[0])
        places = self._firsts[np.searchsorted(self._firsts, end[0]) :]
        return int(places[0]) if len(places) else -1

    def _first_often(self, place: int, counted: int) -> int:
        """The first place from one on at which k of the last n evaluations are true; -1 for none."""
        # Of the last n at the first n places some are forgotten.
        own = self._true[counted : counted + self._span.n]
        places = counted + np.nonzero(own & (np.cumsum(own) >= self._span.k))[0]
        places = places[np.searchsorted(places, place) :]
        if self._counted is not None:
            places = np.intersect1d(places, self._counted, assume_unique=True)
        if not len(places):
            places = self._often[np.searchsorted(self._often, max(place, counted + self._span.n)) :]
        return int(places[0]) if len(places) else -1


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
