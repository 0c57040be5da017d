"""The collector of dynamic loss scaling."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment


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
    }
    on_skipped = True

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
            moment.tally.skipped = 0
