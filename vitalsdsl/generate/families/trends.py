"""What goes wrong slowly, or from the start."""

from __future__ import annotations

import numpy as np

from vitalsdsl.generate.draft import EVALUATIONS, UNIGRAM, Draft
from vitalsdsl.generate.registry import Span, curve
from vitalsdsl.language.rules import Level


@curve(
    "the gradient norm climbs while the loss falls",
    Level.YELLOW,
    most=Level.ORANGE,
    shows=("grad_norm", "grad_share/first4"),
    length=12_000,
)
def grad_climb(draft: Draft, over: int = 1500, onset: int | None = None) -> Span:
    """grad_norm 0.8 until `onset`, then linear up to 2.5 within `over` steps and there for good; the share of the first
    four layers from 8 % to 20 %; the loss falls on; eval/score 3 points lower from the top of the climb.

    Source: a 13B domain adaptation (the monitoring guide).
    """
    start = draft.onset(onset, over)
    climb = draft.ramp(start, over)
    draft.series["grad_norm"] = (0.8 + 1.7 * climb) * np.exp(0.1 * draft.gauss("grad_norm"))
    draft.series["grad_share/first4"] = draft.every(100, 0.08 + 0.12 * climb + 0.003 * draft.gauss("grad_share"))
    score = 60 - 3 * draft.ramp(start, over) + 0.2 * draft.gauss("eval/score")
    draft.series["eval/score"] = draft.every(EVALUATIONS, score)
    return start, draft.length - 1


@curve("the gradient norm is suddenly a multiple of what it was", Level.ORANGE, shows=("grad_norm",))
def grad_surge(draft: Draft, ratio: float = 6.0, onset: int | None = None) -> Span:
    """grad_norm times `ratio` for good; the loss shows nothing.

    Source: the injected surges with which the default thresholds were chosen.
    """
    start = draft.onset(onset)
    draft.series["grad_norm"] = draft.series["grad_norm"] * (1 + (ratio - 1) * draft.from_(start))
    return start, draft.length - 1


@curve(
    "learning rate too high, hidden by clipping",
    Level.ORANGE,
    shows=("param_norm", "attn/layer0/max_logit", "attn/layer0/entropy", "clip_rate"),
    length=3000,
)
def lr_hidden_by_clip(draft: Draft) -> Span:
    """The loss stops at 3.4 nats with a gradient norm of 0.3..0.6, below a healthy one; param_norm 27 to 450, the largest
    attention logit 0.55 to 9e4, attention entropy 2.5 to 5e-4 nats, nearly every step clipped at first; all within some
    300 steps.

    Source: a four-layer model trained at learning rate 0.1 without warm-up, clipped at 1.
    """
    fade = np.exp(-draft.t / 100)
    draft.series["loss"] = 3.4 + 0.8 * fade + draft.noise * draft.gauss("loss")
    draft.series["grad_norm"] = (0.45 + 2 * fade) * np.exp(0.15 * draft.gauss("grad_norm"))
    draft.series["param_norm"] = 450 - 423 * fade
    draft.series["clip_rate"] = np.clip(fade, 0, 1)
    draft.series["attn/layer0/max_logit"] = draft.every(50, 0.55 * (9e4 / 0.55) ** (1 - fade))
    draft.series["attn/layer0/entropy"] = draft.every(50, 2.5 * (5e-4 / 2.5) ** (1 - fade))
    return 0, draft.length - 1


@curve("the loss stops falling too early", Level.YELLOW, shows=("loss", "val_loss"), length=24_000)
def plateau(draft: Draft, onset: int | None = None) -> Span:
    """loss from 5 nats linear down to 3 at `onset`, and 3 from then on, at a learning rate that stays at its peak.

    Source: OPT-175B's stagnation between steps 4750 and 6700 (github.com/facebookresearch/metaseq, OPT/chronicles).
    """
    start = draft.onset(onset)
    trend = 5 - 2 * draft.ramp(0, max(1, start))
    draft.series["loss"] = trend + draft.noise * draft.gauss("loss")
    draft.series["val_loss"] = draft.every(EVALUATIONS, trend + 0.05 + draft.noise / 3 * draft.gauss("val_loss"))
    draft.series["lr"] = np.full(draft.length, 3e-4)
    return start, draft.length - 1


@curve("the loss rises slowly, without a spike", Level.ORANGE, shows=("loss", "val_loss"), length=12_000)
def slow_divergence(draft: Draft, rise: float = 0.6, over: int = 3000, onset: int | None = None) -> Span:
    """loss (and val_loss) times 1 + `rise`, reached linearly within `over` steps, and there for good.

    Source: "non-spike diverging" in S. Bekman's Machine Learning Engineering (github.com/stas00/ml-engineering).
    """
    start = draft.onset(onset)
    factor = 1 + rise * draft.ramp(start, over)
    draft.series["loss"] = draft.series["loss"] * factor
    draft.series["val_loss"] = draft.series["val_loss"] * factor
    return start, draft.length - 1


@curve("the loss swings: learning rate too high", Level.YELLOW, most=Level.ORANGE, shows=("loss",))
def oscillation(draft: Draft, swing: float = 0.5, period: float = 40.0, onset: int | None = None) -> Span:
    """loss + `swing` x from `onset` on, x an AR(2) of variance 1: x(t) = 2 r cos(2π / period) x(t-1) - r² x(t-2) + ε,
    r = 0.98, which swings with `period` steps.

    Source: G. U. Yule, On a method of investigating periodicities in disturbed series, 1927.
    """
    start = draft.onset(onset, 2)
    r = 0.98
    first, second = 2 * r * np.cos(2 * np.pi / period), -r * r
    x = draft.gauss("swing").tolist()
    for at in range(2, len(x)):
        x[at] += first * x[at - 1] + second * x[at - 2]
    wave = np.array(x) / np.std(x)
    draft.series["loss"] = np.maximum(0.05, draft.series["loss"] + swing * wave * draft.from_(start))
    return start, draft.length - 1


@curve("nothing is learnt", Level.YELLOW, most=Level.RED, shows=("loss", "grad_norm"))
def dead_start(draft: Draft) -> Span:
    """loss = log of the vocabulary + noise from the start, and the gradient norm falls to a thousandth: g0 e^(-t/50).

    Source: vanished gradients behind saturated activations; labels or weights that are not connected.
    """
    draft.series["loss"] = UNIGRAM + draft.noise * draft.gauss("loss")
    draft.series["val_loss"] = draft.every(EVALUATIONS, UNIGRAM + draft.noise / 3 * draft.gauss("val_loss"))
    fade = np.maximum(1e-3, np.exp(-draft.t / 50))
    draft.series["grad_norm"] = draft.series["grad_norm"] * fade
    return 0, draft.length - 1
