"""The six curves of textbooks, by their formulas."""

from __future__ import annotations

import numpy as np

from vitalsdsl.generate.draft import Draft
from vitalsdsl.generate.registry import Span, curve
from vitalsdsl.language.rules import Level


@curve(length=1000)
def seed_ideal(draft: Draft) -> Span:
    """loss = 3 e^(-t/300) + 0.8 + 0.05 ε: an ideal training."""
    draft.series = {"loss": 3 * np.exp(-draft.t / 300) + 0.8 + 0.05 * draft.gauss("loss")}
    return None


@curve("the loss swings: learning rate too high", Level.YELLOW, shows=("loss",), most=Level.ORANGE, length=1000)
def seed_lr_high(draft: Draft) -> Span:
    """loss = 2 + 0.5 sin(t/50) + 0.3 ε: it swings and does not fall."""
    draft.series = {"loss": 2 + 0.5 * np.sin(draft.t / 50) + 0.3 * draft.gauss("loss")}
    return 0, draft.length - 1


@curve("overfitting: validation loss rises", Level.YELLOW, most=Level.ORANGE, shows=("val_loss",), length=1000)
def seed_overfit(draft: Draft) -> Span:
    """loss = 2 e^(-t/200) + 0.3 + 0.02 ε; val_loss = 2 e^(-t/300) + 0.8 + 0.05 ε, and 0.5 (t - 600)/400 from step 600;
    an evaluation each 10 steps."""
    onset = draft.onset(600)
    validation = 2 * np.exp(-draft.t / 300) + 0.8 + 0.05 * draft.gauss("val_loss") + 0.5 * draft.since(onset) / 400
    draft.series = {
        "loss": 2 * np.exp(-draft.t / 200) + 0.3 + 0.02 * draft.gauss("loss"),
        "val_loss": draft.every(10, validation),
    }
    return onset, draft.length - 1


@curve("the loss explodes into garbage", Level.ORANGE, shows=("loss",), length=1000)
def seed_explode(draft: Draft) -> Span:
    """loss = 2 e^(-t/200) + 0.5, and + 100 ε from step 900: half of what follows is below zero, which no loss is."""
    onset = draft.onset(900)
    draft.series = {"loss": 2 * np.exp(-draft.t / 200) + 0.5 + 100 * draft.gauss("loss") * draft.from_(onset)}
    return onset, draft.length - 1


@curve("underfitting: the loss hardly falls", Level.YELLOW, most=Level.ORANGE, shows=("loss",), length=1000)
def seed_underfit(draft: Draft) -> Span:
    """loss = 3 - 0.3 (1 - e^(-t/500)) + 0.1 ε."""
    draft.series = {"loss": 3 - 0.3 * (1 - np.exp(-draft.t / 500)) + 0.1 * draft.gauss("loss")}
    return 0, draft.length - 1


@curve(length=1000)
def seed_noisy(draft: Draft) -> Span:
    """loss = 2.8 e^(-t/250) + 0.6 + 0.08 ε: noisy, and normal."""
    draft.series = {"loss": 2.8 * np.exp(-draft.t / 250) + 0.6 + 0.08 * draft.gauss("loss")}
    return None
