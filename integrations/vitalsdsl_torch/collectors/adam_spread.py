"""The collector of the spread of Adam's second moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from vitalsdsl_torch.collectors.adam_state import second_moments
from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment

SAMPLE = 100_000
"""Elements of a group whose quantiles are taken."""


class AdamSpread(Collector):
    """By how many orders of magnitude a few second moments tower over the usual one: log10(p99.9 / p50).

    Elements that are still 0, such as the rows of words never met, do not count. Of sharded parameters each rank looks at
    the parts that it holds, and says what it sees there.
    """

    name = "adam_spread"
    every = 1000
    cost = "a sort of up to 100,000 elements of each group"
    needs = "an optimizer of Adam's family"
    metrics = {
        "adam/v_spread/<g>": "log10(p99.9 / p50) over evenly spaced elements of a group's second moments; orders of "
        "magnitude. NaN where all are 0; absent at the first step",
    }

    def at_step(self, moment: Moment) -> None:
        groups: dict[str, list[Any]] = {}
        for second in second_moments(self.watched.optimizer, moment):
            for group in second.parameter.groups:
                groups.setdefault(group, []).append(second.values)
        for group, values in groups.items():
            if not any(one.numel() for one in values):  # the parts that lie on other ranks
                continue
            spacing = max(1, -(-sum(one.numel() for one in values) // SAMPLE))
            whole = torch.cat([one.flatten()[::spacing].to(values[0].device) for one in values])
            used = torch.where(whole > 0, whole, torch.nan)
            # Both levels in one tensor would have to be copied to the device, which waits for it.
            half, top = torch.nanquantile(used, 0.5), torch.nanquantile(used, 0.999)
            moment.send(f"spread {group}", torch.log10(top / half))

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        for group in {group: None for parameter in moment.parameters for group in parameter.groups}:
            for spread in moment.received(f"spread {group}"):
                yield f"adam/v_spread/{group}", spread
