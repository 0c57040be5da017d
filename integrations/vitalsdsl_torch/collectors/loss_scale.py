"""The collector of dynamic loss scaling."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.watched import Watched

STEPS = 1000
"""Optimizer steps over which `overflow_rate` is taken."""


class LossScale(Collector):
    """The loss scale, and the steps that it skipped because a gradient overflowed.

    A skip now and then is how a dynamic scale finds its place; many, or a scale that sinks, are not.
    """

    name = "loss_scale"
    every = 1
    cost = "none"
    needs = "a `GradScaler` that is enabled"
    metrics = {
        "loss_scale": "the scale when `Vitals.step` is called: after `update()` that for the next step",
        "step_skipped": "steps skipped since this was last reported: with a cadence of 1, whether this one was, 0 or 1",
        "overflow_rate": "share of the last 1,000 steps, or of those since the start of the process, that were skipped, 0 to 1",
    }
    on_skipped = True

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._spans: deque[tuple[int, int]] = deque()
        self._seen_to = 0

    def close(self, moment: Moment) -> None:
        scaler = self.watched.scaler
        if scaler is not None:
            # `get_scale` would wait for the device; the tensor travels with the others.
            scale = getattr(scaler, "_scale", None)
            moment.send("loss scale", scale if scale is not None else torch.tensor(float(scaler.get_scale())))

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        for scale in moment.received("loss scale"):
            yield "loss_scale", scale
            yield "step_skipped", float(moment.tally.skipped)
            yield "overflow_rate", self._rate(moment.step, moment.tally.skipped)
            moment.tally.skipped = 0

    def _rate(self, step: int, skipped: int) -> float:
        """Over whole spans between reports: those of which a step is among the last so many."""
        if self._spans:
            self._spans.append((step, skipped))
        else:
            self._seen_to = step - 1
            self._spans.append((step, min(1, skipped)))
        while self._spans[0][0] <= step - STEPS:
            self._seen_to, _ = self._spans.popleft()
        return sum(skips for _, skips in self._spans) / (step - self._seen_to)
