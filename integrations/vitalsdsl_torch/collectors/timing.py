"""The collector of how long a step takes, and on what."""

from __future__ import annotations

from collections.abc import Iterator

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment


class Timing(Collector):
    """How long a step takes, how much of it waits for data, and how much is ours.

    Means over the steps since the last report, by a clock that never goes back. The device is not waited for: on a GPU a
    mean over several steps is right, a single one is when it was handed over.
    """

    name = "timing"
    every = 1
    cost = "none"
    needs = "for `data_…`: batches taken through `Vitals.loader`"
    metrics = {
        "step_time": "seconds from step to step; absent at the first report",
        "data_time": "seconds of a step spent in waiting for the next batch",
        "data_frac": "data_time / step_time, 0 to 1",
        "collector/overhead_frac": "share of a step spent in the collectors on the host, 0 to 1; the wait for the device in "
        "the one read included, forward hooks not",
    }
    on_skipped = True

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        tally = moment.tally
        passed = tally.since("timing", moment.step, data=tally.data_seconds, own=tally.own_seconds)
        if passed.steps and passed.seconds > 0:
            yield "step_time", passed.seconds / passed.steps
            if tally.has_loader:
                yield "data_time", passed.sums["data"] / passed.steps
                yield "data_frac", passed.sums["data"] / passed.seconds
            yield "collector/overhead_frac", passed.sums["own"] / passed.seconds
