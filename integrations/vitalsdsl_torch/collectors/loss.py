"""The collector of the training loss."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment


class Loss(Collector):
    """The loss of the whole optimizer step: Σ loss × tokens / Σ tokens over its micro-batches.

    The mean of the micro-batches' means is another number wherever they hold different numbers of tokens.
    """

    name = "loss"
    every = 1
    cost = "none"
    needs = "`loss`, and `tokens` where micro-batches differ in size"
    metrics = {
        "loss": "mean over the valid tokens of the step, on this rank; in the loss's own unit (nats). "
        "NaN and infinity as they come, NaN where the step had no token; absent where no loss was given",
    }
    on_skipped = True

    def close(self, moment: Moment) -> None:
        tally = moment.tally
        if tally.has_loss:
            is_empty = not isinstance(tally.loss_weight, torch.Tensor) and tally.loss_weight == 0
            moment.send("loss", torch.as_tensor(math.nan if is_empty else tally.loss / tally.loss_weight))

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        yield from (("loss", value) for value in moment.received("loss"))
