"""Spikes of the loss: those that heal, those that do not, and those that come again."""

from __future__ import annotations

import math

import numpy as np

from vitalsdsl.generate.draft import Draft
from vitalsdsl.generate.registry import Span, curve
from vitalsdsl.language.rules import Level

LEAD = 4
"""Steps by which the gradient rises before the loss, as it did in BLOOM-176B."""
HEALED = 0.05
"""A spike is over when the loss is within this share of what it was: STAS' and Meta's reading of "recovered"."""


def spike(draft: Draft, top: int, height: float, recovery: float) -> int:
    """Add a spike with its top at a step: the loss h e^(-(t - top)/τ), the gradient thirtyfold and fading within some
    steps, after four steps of threefold growth. Returns the step at which it has healed."""
    draft.series["loss"] = draft.series["loss"] + draft.from_(top) * height * np.exp(-draft.since(top) / recovery)
    _jolt(draft, top)
    return min(draft.length - 1, top + math.ceil(recovery * math.log(max(1.0, height / (HEALED * draft.level(top))))))


def _jolt(draft: Draft, top: int) -> None:
    lead = np.clip(draft.t - (top - LEAD - 1), 0, None)
    before = np.where(draft.t < top, 3.0 ** np.minimum(lead, LEAD) - 1, 0.0)
    after = draft.from_(top) * 80 * np.exp(-draft.since(top) / 3)
    draft.series["grad_norm"] = draft.series["grad_norm"] * (1 + before + after)


@curve("a spike of the loss that heals", Level.YELLOW, shows=("loss", "grad_norm"))
def spike_benign(draft: Draft, height: float = 2.0, recovery: float = 50.0, onset: int | None = None) -> Span:
    """loss + h e^(-(t - top)/τ), h = `height` nats, τ = `recovery` steps, 30..100 being usual; the gradient norm
    (1 + 80 e^(-(t - top)/3)) times as large, and threefold a step in the four steps before. `onset` is that of the
    gradient, four steps before the top.

    Source: the shape of BLOOM-176B's spike at iteration 31219, from its published log.
    """
    top = draft.onset(None if onset is None else onset + LEAD, 2)
    return max(0, top - LEAD), spike(draft, top, height, recovery)


@curve("some bad batches: a block of high loss that ends", Level.YELLOW, shows=("loss", "grad_norm"))
def bad_batches(draft: Draft, steps: int = 1, height: float = 4.0, onset: int | None = None) -> Span:
    """loss + `height` nats and three times the gradient norm for `steps` steps, then as if nothing had been.

    Source: one batch of uniform tokens in a small trained model: loss 6.26 for 1.72, gradient 3.2 times, back at once.
    """
    start = draft.onset(onset, steps + 1)
    inside = draft.from_(start) - draft.from_(start + steps)
    draft.series["loss"] = draft.series["loss"] + height * inside
    draft.series["grad_norm"] = draft.series["grad_norm"] * (1 + 2.2 * inside)
    return start, start + steps - 1


BLOOM_FIRST, BLOOM_GAP, BLOOM_LAST = 31214, 31222, 31250
BLOOM_LOSS = (2.199, 2.220, 2.595, 2.242, 2.345, 5.098, 3.492, 3.213, 2.805)
BLOOM_NORM = (0.242, 0.947, 2.390, 15.886, 145.1, 960.4, 353.2, 379.3, 650.2)
BLOOM_LOSS_AFTER = (2.216, 2.236)
BLOOM_NORM_AFTER = (0.267, 0.205)


@curve("a spike of the loss that heals", Level.YELLOW, most=Level.ORANGE, shows=("loss", "grad_norm"), length=6000)
def bloom_31219(draft: Draft) -> Span:
    """The spike of BLOOM-176B at iteration 31219, the published numbers as they are; the onset is iteration 31215.

    Around them a calm run at 2.2 nats (sd `noise`, else 0.02) with gradient norm 0.15 lognormal(0.1). Of the iterations
    31223 to 31249, which are not published, each is on the straight line of the logarithms between its neighbours.

    Source: BigScience, tr11-176B-ml/chronicles.md (github.com/bigscience-workshop/bigscience).
    """
    first = draft.onset(None, 100)
    draft.steps += BLOOM_FIRST - first
    loss = 2.2 + draft.noise_or(0.02) * draft.gauss("loss")
    norm = 0.15 * np.exp(0.1 * draft.gauss("grad_norm"))
    missing = BLOOM_LAST - BLOOM_GAP - 1
    for column, known, after in ((loss, BLOOM_LOSS, BLOOM_LOSS_AFTER), (norm, BLOOM_NORM, BLOOM_NORM_AFTER)):
        between = np.geomspace(known[-1], after[0], missing + 2)[1:-1]
        values = np.concatenate([known, between, after])
        column[first : first + len(values)] = values
    draft.series = {"loss": loss, "grad_norm": norm}
    return BLOOM_FIRST + 1, BLOOM_LAST


@curve("the loss jumps and stays high", Level.ORANGE, shows=("loss", "grad_norm"))
def spike_pathological(draft: Draft, rise: float = 1.0, onset: int | None = None) -> Span:
    """loss + `rise` nats for good, 0.2..3 being usual; the gradient as in `spike_benign`.

    Source: A spike that has not recovered within 500 steps, or settles higher, is pathological (the monitoring guide).
    """
    top = draft.onset(None if onset is None else onset + LEAD, 2)
    draft.series["loss"] = draft.series["loss"] + rise * draft.from_(top)
    _jolt(draft, top)
    return max(0, top - LEAD), draft.length - 1


@curve("a spike of the loss that helps", Level.YELLOW, shows=("loss", "grad_norm"))
def spike_helpful(draft: Draft, gain: float = 0.1, onset: int | None = None) -> Span:
    """`spike_benign`, after which the loss is `gain` nats lower than it was going to be.

    Source: the plateau after a spike says whether it harmed (the monitoring guide).
    """
    top = draft.onset(None if onset is None else onset + LEAD, 2)
    end = spike(draft, top, 2.0, 50.0)
    draft.series["loss"] = draft.series["loss"] - gain * draft.ramp(top, 200)
    return max(0, top - LEAD), end


@curve("a spike of the loss that heals", Level.YELLOW, most=Level.ORANGE, shows=("loss", "grad_norm"))
def spike_2_1_to_8_9(draft: Draft, onset: int | None = None) -> Span:
    """From 2.1 to 8.9 nats within a step, and back within some hundred steps (τ = 100).

    Source: the example of the monitoring guide.
    """
    top = draft.onset(None if onset is None else onset + LEAD, 2)
    draft.series["loss"] = draft.series["loss"] + (2.1 - draft.level(top))
    return max(0, top - LEAD), spike(draft, top, 6.8, 100.0)


@curve("spikes of the loss at shrinking intervals", Level.ORANGE, most=Level.ORANGE, shows=("loss",), length=20_000)
def periodic(draft: Draft, period: float = 3000.0, shrink: float = 0.95, onset: int | None = None) -> Span:
    """A spike of 2 nats each `period` steps, each interval `shrink` times the one before; the first at `onset`.

    Source: a subset of the data that was refreshed on a timer (the monitoring guide).
    """
    first = draft.onset(int(period) if onset is None else onset)
    top, interval, end = float(first), period, first
    while top < draft.length:
        end = spike(draft, int(top), 2.0, 50.0)
        top, interval = top + interval, interval * shrink
    return max(0, first - LEAD), end
