"""Runs in which nothing is wrong, whatever they look like."""

from __future__ import annotations

import math

import numpy as np

from vitalsdsl.generate.draft import EVALUATIONS, Draft
from vitalsdsl.generate.registry import Span, curve


@curve(length=20_000)
def healthy(draft: Draft) -> Span:
    """The draft as it is: loss a + b (t + t0)^(-c), its gradient norm, evaluations and counters.

    Source: the usual power law of language model pretraining, J. Kaplan and others, 2020 (arxiv.org/abs/2001.08361).
    """
    return None


@curve(length=20_000)
def healthy_lm(draft: Draft) -> Span:
    """Pretraining of all tempers: noise of the loss AR(1), sd 0.01..0.15 nats, ρ 0..0.9; gradient norm lognormal, sd
    0.1..0.5, one step in 500 three times as large, and a natural rise up to twofold over the run.
    """
    draw = draft.random("lm")
    noise, rho = draft.noise_or(draw.uniform(0.01, 0.15)), draw.uniform(0, 0.9)
    scatter, rise = draw.uniform(0.1, 0.5), draw.uniform(1, 2)
    draft.series["loss"] = draft.trend + noise * draft.correlated("loss", rho)
    draft.series["val_loss"] = draft.every(EVALUATIONS, draft.trend + 0.05 + noise / 3 * draft.gauss("val_loss"))
    _rough_gradient(draft, scatter, rise)
    return None


@curve(length=20_000)
def healthy_sft(draft: Draft) -> Span:
    """Fine-tuning: loss L (1 + 3 e^(-10 t / T)) with L 0.02..0.4 nats, T the length of the run, scattering in proportion,
    by 5..40 %; gradient norm as in `healthy_lm`.
    """
    draw = draft.random("sft")
    level = math.exp(draw.uniform(math.log(0.02), math.log(0.4)))
    share = draft.noise_or(draw.uniform(0.05, 0.4))
    scatter, rise = draw.uniform(0.1, 0.5), draw.uniform(1, 2)
    trend = level * (1 + 3 * np.exp(-10 * draft.t / draft.length))
    draft.series["loss"] = trend * np.exp(share * draft.gauss("loss"))
    draft.series["val_loss"] = draft.every(EVALUATIONS, 1.1 * trend * np.exp(share / 5 * draft.gauss("val_loss")))
    _rough_gradient(draft, scatter, rise)
    return None


def _rough_gradient(draft: Draft, scatter: float, rise: float) -> None:
    outliers = np.where(draft.random("outliers").random(draft.length) < 1 / 500, 3.0, 1.0)
    draft.series["grad_norm"] = (
        (1 + 2 * np.exp(-draft.t / 300))
        * rise ** (draft.t / draft.length)
        * np.exp(scatter * draft.gauss("grad_norm"))
        * outliers
    )


@curve(length=20_000)
def healthy_inside(draft: Draft) -> Span:
    """The draft with all that a guard's collectors see inside a sound model: activations, attention, moments of Adam,
    shares of the gradient, updates, a router; each about a level of its own with a scatter of 3..15 %.

    Source: what a small sound model showed: update ratio 7e-3, rms ratio of Adam 1.4, attention entropy 2.5 nats.
    """
    for layer in range(4):
        _about(draft, f"act/layer{layer}/mean", 0.02, 0.1)
        _about(draft, f"act/layer{layer}/std", 1 + 0.2 * layer, 0.03)
        _about(draft, f"act/layer{layer}/absmax", 12 + 4 * layer, 0.08)
        _about(draft, f"attn/layer{layer}/max_logit", 8 + layer, 0.08)
        _about(draft, f"attn/layer{layer}/entropy", 2.5 - 0.2 * layer, 0.03)
        _about(draft, f"grad_norm/layer/{layer}", 0.3, 0.15)
        draft.series[f"act/layer{layer}/nonfinite"] = draft.every(50, np.zeros(draft.length))
        draft.series[f"dead_frac/layer{layer}"] = draft.every(50, np.abs(0.02 + 0.005 * draft.gauss(f"dead{layer}")))
    for group, norm in (("embed", 0.4), ("attn", 0.5), ("mlp", 0.6), ("head", 0.3)):
        _about(draft, f"grad_norm/group/{group}", norm, 0.15)
        _about(draft, f"grad_rms/group/{group}", norm / 1000, 0.15)
        _about(draft, f"update_ratio/{group}", 2e-3, 0.1)
        _about(draft, f"adam/rms_ratio/{group}", 1.4, 0.08)
        _about(draft, f"adam/v_spread/{group}", 1.5, 0.05)
    for band, share in (("first4", 0.08), ("last4", 0.3)):
        _about(draft, f"grad_share/{band}", share, 0.08)
    _about(draft, "moe/maxvio", 0.35, 0.15)
    _about(draft, "moe/entropy", 1.9, 0.02)
    _about(draft, "moe/z", 4.0, 0.05)
    _about(draft, "moe/drop_frac", 0.01, 0.3)
    draft.series["moe/dead"] = draft.every(50, np.zeros(draft.length))
    draft.series["clip_rate"] = np.clip(0.03 + 0.01 * draft.gauss("clip_rate"), 0, 1)
    draft.series["param_nonfinite"] = np.zeros(draft.length)
    draft.series["grad_nonfinite"] = np.zeros(draft.length)
    return None


def _about(draft: Draft, name: str, level: float, scatter: float) -> None:
    draft.series[name] = draft.every(50, level * np.exp(scatter * draft.gauss(name)))
