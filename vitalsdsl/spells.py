"""`for 20 steps` over a whole run: where a condition with a span holds, or can have held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitalsdsl.holding import Span
from vitalsdsl.kernels.columns import Array, Rows
from vitalsdsl.types import SAMPLES, STEPS, TIME, Extent


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
    holds = true & _reached(span, true, rows[places], at)
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


def may_hold(span: Span, true: Array, surely_false: Array, at: Rows, rows: Array) -> Array:
    """Where a condition that can be true at these evaluations can have held for a span. One by the run's counters is taken
    to be none."""
    # Where it can only be unknown it neither extends nor resets anything.
    places = np.nonzero(true | surely_false)[0]
    held = np.zeros(len(true), bool)
    held[places] = true[places] & _reached(span, true[places], rows[places], at)
    return held
