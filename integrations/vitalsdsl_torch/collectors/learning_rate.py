"""The collector of the learning rate."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment


class LearningRate(Collector):
    """The learning rate of the step just done, also where the scheduler has gone on since.

    Of a skipped step, at which the optimizer was not called, that at the call of `Vitals.step`.
    """

    name = "learning_rate"
    every = 1
    cost = "none"
    metrics = {
        "lr": "of the first parameter group",
        "lr/group/<name>": "of each, by its `name` or else its number from 0; where there are several",
    }
    on_skipped = True

    def close(self, moment: Moment) -> None:
        for number, rate in enumerate(moment.rates):
            if isinstance(rate, torch.Tensor):
                moment.send(f"lr {number}", rate)

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        rates = [next(iter(moment.received(f"lr {number}")), rate) for number, rate in enumerate(moment.rates)]
        if rates:
            yield "lr", float(rates[0])
        if len(rates) > 1:
            for number, (rate, group) in enumerate(zip(rates, self.watched.optimizer.param_groups)):
                yield f"lr/group/{group.get('name', number)}", float(rate)
