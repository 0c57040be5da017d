"""Attention that sharpens until it is one-hot."""

from __future__ import annotations

import numpy as np

from vitalsdsl.generate.draft import Draft
from vitalsdsl.generate.registry import Span, curve
from vitalsdsl.generate.run import Numbers
from vitalsdsl.language.rules import Level


def _logits(draft: Draft, growth: Numbers) -> None:
    for layer in (0, 3):
        values = 8 + (growth if layer == 3 else 0.0) + 0.3 * draft.gauss(f"logit{layer}")
        draft.series[f"attn/layer{layer}/max_logit"] = draft.every(50, np.asarray(values))


@curve("attention logits grow", Level.ORANGE, shows=("attn/layer3/max_logit",))
def attn_logit_linear(draft: Draft, top: float = 150.0, onset: int | None = None) -> Span:
    """attn/layer3/max_logit from 8 linear up to `top` at the end of the run; a point each 50 steps.

    Source: Kimi K2's QK-clip acts at 100, which is Megatron's `qk_clip_threshold` too.
    """
    start = draft.onset(onset, 2)
    _logits(draft, (top - 8) * draft.ramp(start, draft.length - 1 - start))
    return start, draft.length - 1


@curve("attention logits grow", Level.ORANGE, shows=("attn/layer3/max_logit",))
def attn_logit_superlinear(draft: Draft, top: float = 1000.0, onset: int | None = None) -> Span:
    """attn/layer3/max_logit = 8 + (top - 8) u³, u from 0 at `onset` to 1 at the end of the run; a point each 50 steps.

    Source: M. Wortsman and others, Small-scale proxies for large-scale Transformer training instabilities, 2023.
    """
    start = draft.onset(onset, 2)
    _logits(draft, (top - 8) * draft.ramp(start, draft.length - 1 - start) ** 3)
    return start, draft.length - 1


@curve("attention entropy collapses", Level.YELLOW, most=Level.RED, shows=("attn/layer3/entropy",))
def entropy_collapse(draft: Draft, over: int = 1000, onset: int | None = None) -> Span:
    """attn/layer3/entropy from 2.5 to 0.05 nats within `over` steps, geometrically; layer 0 stays; a point each 50 steps.

    Source: S. Zhai and others, Stabilizing Transformer training by preventing attention entropy collapse, 2023.
    """
    start = draft.onset(onset)
    for layer in (0, 3):
        fall = (0.05 / 2.5) ** draft.ramp(start, over) if layer == 3 else 1.0
        values = 2.5 * fall * np.exp(0.03 * draft.gauss(f"entropy{layer}"))
        draft.series[f"attn/layer{layer}/entropy"] = draft.every(50, values)
    return start, draft.length - 1
