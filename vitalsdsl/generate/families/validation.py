"""Training and validation that part."""

from __future__ import annotations

import numpy as np

from vitalsdsl.generate.draft import EVALUATIONS, Draft
from vitalsdsl.generate.registry import Span, curve
from vitalsdsl.language.rules import Level


@curve(
    "the gap between validation and training widens ever faster",
    Level.GREEN,
    most=Level.YELLOW,
    shows=("val_loss",),
    length=8000,
)
def gap_accel(draft: Draft, ratio: float = 1.5, onset: int | None = None) -> Span:
    """val_loss - loss grows by 0.05 nats a 1000 steps until `onset`, from then on in each 1000 steps `ratio` times what it
    grew in the 1000 before. With 1.5 it lies on the border at which acceleration is worth a word: either answer is right.

    Source: "gap growth over the last 1000 steps above 1.5 times that of the 1000 before" (the monitoring guide).
    """
    start = draft.onset(onset)
    blocks, within = np.divmod(draft.since(start), 1000)
    whole = blocks if ratio == 1 else ratio * (ratio**blocks - 1) / (ratio - 1)
    grown = np.minimum(draft.t, start) / 1000 + whole + ratio ** (blocks + 1) * within / 1000
    values = draft.trend + 0.05 + 0.05 * grown + draft.noise / 10 * draft.gauss("val_loss")
    draft.series["val_loss"] = draft.every(EVALUATIONS, values)
    return start, draft.length - 1


@curve("overfitting: validation loss rises", Level.YELLOW, most=Level.ORANGE, shows=("val_loss",))
def overfit_e3(draft: Draft, epoch: int = 1500, rise: float = 0.25) -> Span:
    """Fine-tuning at 1.3 nats: from the third epoch on the training loss falls by a fifth with each epoch, and val_loss
    rises by `rise` of itself an epoch; an evaluation each 250 steps.

    Source: early overfitting in instruction tuning, at the third epoch (the monitoring guide).
    """
    start = draft.onset(2 * epoch)
    epochs = draft.t / epoch
    stair = 0.8 ** np.maximum(0.0, np.floor(epochs) - 1)
    base = 1.3 + 1.5 * np.exp(-draft.t / 150)
    draft.series["loss"] = base * stair + draft.noise * draft.gauss("loss")
    validation = (base + 0.08) * (1 + rise * np.maximum(0.0, epochs - 2)) + draft.noise / 3 * draft.gauss("val_loss")
    draft.series["val_loss"] = draft.every(250, validation)
    draft.series["epoch"] = epochs
    return start, draft.length - 1


@curve("the validation set was changed", Level.YELLOW, shows=("val_loss", "val_fingerprint"), length=12_000)
def val_snapshot(draft: Draft, onset: int | None = None) -> Span:
    """val_loss 1.95 until `onset`, 2.1 from then on; val_fingerprint changes there; the training loss is on a plateau.

    Source: a field of the validation set whose format had been altered (the monitoring guide).
    """
    start = draft.onset(onset)
    draft.series["loss"] = 1.9 + 2 * np.exp(-draft.t / 500) + draft.noise * draft.gauss("loss")
    settled = 1.95 + 2 * np.exp(-draft.t / 500)
    values = settled + 0.15 * draft.from_(start) + draft.noise / 5 * draft.gauss("val_loss")
    draft.series["val_loss"] = draft.every(EVALUATIONS, values)
    draft.series["val_fingerprint"] = draft.every(EVALUATIONS, 3405691582 - 1e6 * draft.from_(start))
    return start, draft.length - 1
