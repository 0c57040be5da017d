"""The collector of the speed of the training."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment


class Throughput(Collector):
    """How fast data goes through: a mean over the time since the last report."""

    name = "throughput"
    every = timedelta(minutes=10)
    cost = "none"
    needs = "`tokens`, `samples` where they are given"
    metrics = {
        "throughput": "tokens per second, of all ranks together; absent at the first report",
        "throughput/samples": "samples per second, of all ranks together",
    }
    on_skipped = True

    def close(self, moment: Moment) -> None:
        for name, number in moment.tally.totals.items():
            if isinstance(number, torch.Tensor):
                moment.send(name, number)

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        totals = {name: next(iter(moment.received(name)), number) for name, number in moment.tally.totals.items()}
        totals |= moment.totals_of_ranks()
        passed = moment.tally.since("throughput", moment.step, **totals)
        if passed.steps and passed.seconds > 0:
            for name, metric in (("tokens", "throughput"), ("samples", "throughput/samples")):
                if name in passed.sums:
                    yield metric, passed.sums[name] / passed.seconds
