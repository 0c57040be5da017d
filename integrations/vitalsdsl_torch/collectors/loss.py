"""The collector of the training loss."""

from __future__ import annotations

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
        "NaN and infinity as they come; absent where no loss was given",
    }
    on_skipped = True

    def close(self, moment: Moment) -> None:
        tally = moment.tally
        if tally.batches:
            mean = tally.loss / tally.weight if isinstance(tally.weight, torch.Tensor) or tally.weight else float("nan")
            moment.send("loss", torch.as_tensor(mean))

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        yield from (("loss", value) for value in moment.received("loss"))
