"""Healthy runs that are recorded badly: rows late or twice, a metric away, constant numbers, a clock that jumps."""

from __future__ import annotations

import numpy as np

from vitalsdsl.generate.draft import Draft
from vitalsdsl.generate.registry import Span, curve
from vitalsdsl.language.rules import Level


@curve()
def out_of_order(draft: Draft, share: float = 0.01) -> Span:
    """A `share` of the rows comes after the next one, as from a writer that buffers."""
    order = np.arange(draft.length)
    late = np.flatnonzero(draft.random("late").random(draft.length - 1) < share)
    late = late[np.diff(late, prepend=-2) > 1]
    order[late], order[late + 1] = late + 1, late
    draft.reordered(order)
    return None


@curve()
def duplicate_rows(draft: Draft, share: float = 0.01) -> Span:
    """A `share` of the rows comes twice, as from a writer that tries again."""
    twice = draft.random("twice").random(draft.length) < share
    draft.reordered(np.repeat(np.arange(draft.length), 1 + twice))
    return None


@curve()
def metric_missing(draft: Draft, steps: int = 1500, onset: int | None = None) -> Span:
    """grad_norm is not logged for `steps` steps, then it is again."""
    start = draft.onset(onset, steps)
    gone = (draft.t >= start) & (draft.t < start + steps)
    draft.series["grad_norm"] = np.ma.array(draft.series["grad_norm"], mask=gone)
    return None


@curve()
def constant_metric(draft: Draft) -> Span:
    """No noise at all: the loss on its curve, grad_norm and param_norm exactly constant, so that every scatter is 0."""
    draft.series["loss"] = draft.trend
    draft.series["val_loss"] = draft.every(500, draft.trend + 0.05)
    draft.series["grad_norm"] = np.full(draft.length, 1.0)
    draft.series["param_norm"] = np.full(draft.length, 100.0)
    return None


@curve("the clock jumps", Level.GREEN, most=Level.ORANGE)
def clock_jump(draft: Draft) -> Span:
    """Wall time jumps an hour ahead at a third of the run, and two hours back at two thirds. The training is well; but by
    the clock an hour without a row is a hang, and whoever says so is right.

    Source: clocks that are set while a training runs, and machines that sleep.
    """
    ahead, back = draft.length // 3, 2 * draft.length // 3
    draft.jumps[ahead], draft.jumps[back] = 3600.0, -7200.0
    return ahead, back
