"""Changes on purpose, and one that is not: learning rate, data, batch size, accumulation."""

from __future__ import annotations

import numpy as np

from vitalsdsl.generate.draft import Draft
from vitalsdsl.generate.registry import Span, curve
from vitalsdsl.language.rules import Level


@curve("the learning rate starts anew, and the loss makes a wave", Level.GREEN, most=Level.YELLOW, shows=("loss", "lr"))
def warm_restart(draft: Draft, wave: float = 0.15, onset: int | None = None) -> Span:
    """lr jumps from the foot of a cosine back to its peak at `onset`; loss + `wave` e^(-t/150) nats after it. Planned:
    worth advice at most.

    Source: I. Loshchilov and F. Hutter, SGDR, 2016; a longer warm-up of each restart flattens the wave.
    """
    start = draft.onset(onset, 500)
    spot = np.where(draft.t < start, draft.t / start, draft.since(start) / (draft.length - start))
    draft.series["lr"] = 3e-4 * (0.51 + 0.49 * np.cos(np.pi * spot))
    fade = draft.from_(start) * np.exp(-draft.since(start) / 150)
    draft.series["loss"] = draft.series["loss"] + wave * fade
    return start, start + 450


@curve("a switch of the data makes the loss rise", Level.YELLOW, most=Level.ORANGE, shows=("loss", "data/mix/code"))
def data_mix_switch(draft: Draft, rise: float = 1.0, onset: int | None = None) -> Span:
    """data/mix/code from 0.1 to 0.5 at `onset`; loss + `rise` e^(-t/100) + 0.05 nats, gradient norm three times, fading.

    Source: GLM-130B needed a ramp of 2000 steps for such a switch (github.com/THUDM/GLM-130B, its training log).
    """
    start = draft.onset(onset, 300)
    after = draft.from_(start)
    fade = after * np.exp(-draft.since(start) / 100)
    draft.series["loss"] = draft.series["loss"] + rise * fade + 0.05 * after
    draft.series["grad_norm"] = draft.series["grad_norm"] * (1 + 2 * fade)
    draft.series["data/mix/code"] = 0.1 + 0.4 * after
    draft.series["data/mix/web"] = 0.9 - 0.4 * after
    return start, start + 300


@curve()
def batch_size_ramp(draft: Draft) -> Span:
    """The batch doubles three times, each quarter of the run: gradient norm and noise of the loss fall like 1/sqrt(B),
    tokens come faster. Nothing is wrong.

    Source: the batch ramps of GPT-3 and BLOOM; the norm of a mean of B gradients that are mostly noise.
    """
    batch = 2.0 ** np.minimum(3, 4 * draft.t // draft.length)
    draft.series["loss"] = draft.trend + (draft.series["loss"] - draft.trend) / np.sqrt(batch)
    draft.series["grad_norm"] = draft.series["grad_norm"] / np.sqrt(batch)
    draft.series["tokens"] = 2.0**19 * np.cumsum(batch)
    return None


@curve("accumulated gradients are summed, not averaged", Level.ORANGE, shows=("loss", "grad_norm"))
def accum_x8(draft: Draft, factor: float = 8.0, onset: int | None = None) -> Span:
    """loss and grad_norm times `factor` from `onset` on, where the number of accumulated batches changed.

    Source: github.com/huggingface/transformers, pull request 34191; a small model with 8 batches: 12.2 for 1.53.
    """
    start = draft.onset(onset)
    times = 1 + (factor - 1) * draft.from_(start)
    draft.series["loss"] = draft.series["loss"] * times
    draft.series["grad_norm"] = draft.series["grad_norm"] * times
    return start, draft.length - 1
