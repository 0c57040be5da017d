"""The collector of the size of the logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.parameters import head
from vitalsdsl_torch.collectors.watched import Look, Watched, first_tensor

ROWS = 1024


class Logits(Collector):
    """How far the logits have drifted: the softmax is blind to a common shift, half precision is not.

    Looked at in the first micro-batch of a step that is due, on up to 1,024 evenly spaced tokens, in float32.
    """

    name = "logits"
    every = 500
    cost = "a few passes over the logits of up to 1,024 tokens"
    needs = "a head that a module of its own computes (lm_head, head, output, classifier, …)"
    metrics = {
        "logits/absmax": "largest absolute logit",
        "logits/lse_mean": "mean of log Σ exp(logits), the log of the softmax's denominator; nats",
        "logits/lse_sq": "mean of its square: what a z-loss punishes",
    }

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._seen: torch.Tensor | None = None
        found = head(watched.model)
        watched.tap([found] if found is not None else [], self._look, lambda: self.is_due)

    def _look(self, number: int) -> Look:
        def look(args: Any, output: Any) -> None:
            logits = first_tensor(output)
            if logits is not None and logits.dim() and logits.numel():
                rows = logits.flatten(0, -2) if logits.dim() > 1 else logits[None]
                rows = rows[:: -(-rows.shape[0] // ROWS)].float()
                sums = torch.logsumexp(rows, -1)
                self._seen = torch.stack([rows.abs().max(), sums.mean(), sums.square().mean()])

        return look

    def close(self, moment: Moment) -> None:
        if self._seen is not None:
            moment.send("logits", self._seen)
        self._seen = None

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        yield from zip(("logits/absmax", "logits/lse_mean", "logits/lse_sq"), moment.received("logits"))
