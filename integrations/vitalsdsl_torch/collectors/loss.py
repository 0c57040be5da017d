"""The collector of the training loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment

TOLD = ("loss", "weight", "has loss")


class Loss(Collector):
    """The loss of the whole optimizer step: Σ loss × tokens / Σ tokens over its micro-batches, and over all ranks.

    The mean of the micro-batches' means is another number wherever they hold different numbers of tokens.
    """

    name = "loss"
    every = 1
    cost = "none"
    needs = "`loss`, and `tokens` where micro-batches differ in size"
    metrics = {
        "loss": "mean over the valid tokens of the step; in the loss's own unit (nats). "
        "NaN and infinity as they come, NaN where the step had no token; absent where no loss was given",
        "loss_max": "largest loss of a rank, NaN where one is; only with several ranks",
    }
    told = TOLD
    on_skipped = True

    def close(self, moment: Moment) -> None:
        tally = moment.tally
        tell_loss(moment)
        if tally.has_loss:
            is_empty = not isinstance(tally.loss_weight, torch.Tensor) and tally.loss_weight == 0
            moment.send("loss", torch.as_tensor(math.nan if is_empty else tally.loss / tally.loss_weight))

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        if not moment.ranks:
            yield from (("loss", value) for value in moment.received("loss"))
        elif any(one["has loss"] for one in moment.ranks):
            weight = sum(one["weight"] for one in moment.ranks)
            yield "loss", sum(one["loss"] for one in moment.ranks) / weight if weight else math.nan
            yield "loss_max", largest(losses_of(moment))


def tell_loss(moment: Moment) -> None:
    """Tell the other ranks the sum of this rank's losses, and of their weights."""
    if moment.tally.has_loss:
        for name, number in zip(TOLD, (moment.tally.loss, moment.tally.loss_weight, 1.0)):
            moment.tell(name, number)


def losses_of(moment: Moment) -> list[float]:
    """The losses of the ranks that had a token."""
    return [one["loss"] / one["weight"] for one in moment.ranks if one["weight"]]


def largest(numbers: Sequence[float]) -> float:
    """The largest of them; NaN where one is, or where there is none."""
    return math.nan if not numbers or any(map(math.isnan, numbers)) else max(numbers)
