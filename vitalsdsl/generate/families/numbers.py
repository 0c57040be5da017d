"""Numbers that are none, and precision at its end."""

from __future__ import annotations

import numpy as np

from vitalsdsl.generate.draft import GROWTH_INTERVAL, Draft
from vitalsdsl.generate.families.spikes import spike
from vitalsdsl.generate.registry import Span, curve
from vitalsdsl.language.rules import Level


@curve("the loss is NaN", Level.ORANGE, shows=("loss", "grad_norm"))
def nan_at(draft: Draft, onset: int | None = None) -> Span:
    """loss, grad_norm, param_norm and val_loss are NaN from `onset` on: the weights are lost.

    Source: fp16 overflow, or a bad batch at a learning rate too high (the monitoring guide).
    """
    start = draft.onset(onset)
    for name in ("loss", "grad_norm", "param_norm", "val_loss"):
        draft.set_from(start, name, np.nan)
    return start, draft.length - 1


@curve("a NaN that the logger hides", Level.ORANGE, shows=("loss", "grad_norm"))
def hf_nan_filtered(draft: Draft, frozen: bool = False, onset: int | None = None) -> Span:
    """loss exactly 0 and grad_norm NaN from `onset` on; with `frozen` the loss is instead what it was just before.

    Source: `logging_nan_inf_filter` of the Hugging Face Trainer (github.com/huggingface/trl, issue 6702).
    """
    start = draft.onset(onset)
    shown = float(draft.series["loss"][max(0, start - 1)]) if frozen else 0.0
    draft.set_from(start, "loss", shown)
    draft.set_from(start, "grad_norm", np.nan)
    return start, draft.length - 1


@curve("the loss scale plunges", Level.YELLOW, most=Level.ORANGE, shows=("loss_scale",))
def loss_scale_plunge(draft: Draft, onset: int | None = None) -> Span:
    """loss_scale 2^24, 2^16 from `onset` on, growing again each 2000 steps; a spike of the loss of 1 nat with it.

    Source: gradient overflow (the monitoring guide); GLM-130B saw the scale fall some 30 steps before the loss exploded.
    """
    start = draft.onset(onset)
    draft.series["loss_scale"] = 2.0 ** np.where(
        draft.t < start, 24, np.minimum(24, 16 + draft.since(start) // GROWTH_INTERVAL)
    )
    return start, spike(draft, start, 1.0, 30.0)


@curve("the loss scale sinks to its floor", Level.ORANGE, shows=("loss_scale", "step_skipped"))
def loss_scale_sink(draft: Draft, halving: int = 10, onset: int | None = None) -> Span:
    """loss_scale halves each `halving` steps from `onset` on, down to 2^-10: each of those steps is skipped.

    Source: OPT-175B stalled with the scale at its minimum (OPT/chronicles); github.com/pytorch/pytorch, issue 40497.
    """
    start = draft.onset(onset)
    falls = np.where(draft.t >= start, draft.since(start) // halving + 1, 0.0)
    scale = np.maximum(2.0**-10, draft.series["loss_scale"] * 0.5**falls)
    draft.series["loss_scale"] = scale
    is_cut = np.diff(scale, prepend=scale[0]) < 0
    draft.series["step_skipped"] = is_cut.astype(np.float64)
    return start, draft.length - 1


@curve()
def amp_normal(draft: Draft) -> Span:
    """A loss scale in good health: it starts at 2^24, is halved in each of the first five steps until nothing overflows,
    then doubles each 2000 steps, overflows at once and is halved again: one skipped step for each.

    Source: torch.amp.GradScaler; five skips from 2^24 were measured with a small model.
    """
    cuts = np.minimum(draft.t + 1, 5)
    grown = (draft.t > 0) & (draft.t % GROWTH_INTERVAL == 0)
    draft.series["loss_scale"] = 2.0 ** (24 - cuts + grown)
    draft.series["step_skipped"] = ((draft.t < 5) | ((draft.t > 1) & (draft.t % GROWTH_INTERVAL == 1))).astype(float)
    return None


@curve("activations grow towards overflow", Level.YELLOW, most=Level.RED, shows=("act/layer7/absmax",))
def act_outlier(draft: Draft, top: float = 2e4, onset: int | None = None) -> Span:
    """act/layer7/absmax from 40 up to `top` within 1500 steps, geometrically; that of layers 0 and 11 stays; a point each
    50 steps.

    Source: values above 1e4 locate the layer of an fp16 overflow, whose largest number is 65504 (the monitoring guide).
    """
    start = draft.onset(onset, 1500)
    for layer, calm in ((0, 12.0), (7, 40.0), (11, 60.0)):
        ratio = top / calm if layer == 7 else 1.0
        values = calm * ratio ** draft.ramp(start, 1500) * np.exp(0.05 * draft.gauss(f"act{layer}"))
        draft.series[f"act/layer{layer}/absmax"] = draft.every(50, values)
    return start, draft.length - 1
