"""Runs that were resumed, or went back."""

from __future__ import annotations

import numpy as np

from vitalsdsl.generate.draft import Draft
from vitalsdsl.generate.registry import Span, curve
from vitalsdsl.language.rules import Level


def _resumed(draft: Draft, at: int) -> None:
    draft.series["resumed"] = (draft.t == at).astype(np.float64)


@curve("after a resume the data are seen again", Level.ORANGE, shows=("loss", "data_pos"))
def resume_repeat_data(draft: Draft, repeated: int = 1000, onset: int | None = None) -> Span:
    """From `onset` on, where the run was resumed, data_pos counts from 0 again and the loss is a tenth lower for
    `repeated` steps, since the model has seen these batches; then it jumps back.

    Source: a sampler that was not restored (S. Bekman's Machine Learning Engineering; Lightning, issue 18780).
    """
    start = draft.onset(onset, repeated)
    _resumed(draft, start)
    draft.series["data_pos"] = np.where(draft.t >= start, draft.since(start), draft.t)
    again = draft.from_(start) - draft.from_(start + repeated)
    draft.series["loss"] = draft.series["loss"] * (1 - 0.1 * again)
    return start, start + repeated - 1


@curve("a resume without the optimizer's state", Level.ORANGE, shows=("loss", "grad_norm"))
def resume_bad_optimizer(draft: Draft, rise: float = 0.6, onset: int | None = None) -> Span:
    """From `onset` on, where the run was resumed, loss + `rise` e^(-t/300) nats and three times the gradient norm,
    fading alike: the moments of the optimizer start anew.

    Source: github.com/PolymathicAI/the_well, issue 77.
    """
    start = draft.onset(onset, 300)
    _resumed(draft, start)
    fade = draft.from_(start) * np.exp(-draft.since(start) / 300)
    draft.series["loss"] = draft.series["loss"] + rise * fade
    draft.series["grad_norm"] = draft.series["grad_norm"] * (1 + 2 * fade)
    return start, min(draft.length - 1, start + 900)


@curve("the loss jumps and stays high", Level.ORANGE, shows=("loss", "grad_norm"))
def rollback_segment(draft: Draft, back: int = 1000, bad: int = 500, onset: int | None = None) -> Span:
    """From `onset` on the loss is a nat too high and the gradient norm four times too large; `bad` steps later the run
    goes back by `back` steps, and in the second attempt all is well. Steps of the first attempt come twice.

    `end` is the last step of the first attempt: what a policy says in the second is a false alarm.
    """
    start = draft.onset(onset, bad)
    target = max(-1, start + bad - 1 - back)
    first = np.arange(start + bad)
    again = np.arange(target + 1, draft.length)
    bad_rows = np.concatenate([first >= start, np.zeros(len(again), dtype=bool)]).astype(np.float64)
    draft.reordered(np.concatenate([first, again]))
    draft.rewinds[len(first)] = target
    draft.series["loss"] = draft.series["loss"] + bad_rows
    draft.series["grad_norm"] = draft.series["grad_norm"] * (1 + 3 * bad_rows)
    return start, start + bad - 1
