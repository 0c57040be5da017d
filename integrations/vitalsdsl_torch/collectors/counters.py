"""The collector of how far the training is."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment


class Counters(Collector):
    """How much data the training has seen. Rules that count in tokens, samples or epochs read these."""

    name = "counters"
    every = 1
    cost = "none"
    needs = "`tokens`, `samples`, `epoch`, `data_pos` where they are given"
    metrics = {
        "tokens": "tokens since the start of the run, on all ranks",
        "samples": "samples since the start of the run, on all ranks",
        "epoch": "as last given to `Vitals.step`",
        "data_pos": "as last given to `Vitals.step`: a position in the data",
    }
    on_skipped = True

    def close(self, moment: Moment) -> None:
        for name, number in (moment.tally.totals | moment.tally.given).items():
            moment.send(
                name, torch.as_tensor(number, dtype=None if isinstance(number, torch.Tensor) else torch.float64)
            )

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        over_ranks = moment.totals_of_ranks()
        for name in (*moment.tally.totals, *moment.tally.given):
            yield from ((name, over_ranks.get(name, value)) for value in moment.received(name))
