"""The collector of what a step changes in the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import root, sampled
from vitalsdsl_torch.collectors.watched import Watched


class Updates(Collector):
    """How far one step moves the weights, against their size, and how many of them it moves at all.

    A ratio about 1e-3 is usual; far above it the weights are rewritten, far below they stand still. Weights in half
    precision may not change at all where the step is smaller than their last digit. Measured on a copy of at most about
    a million evenly spaced elements of each parameter, held for the one step.
    """

    name = "updates"
    every = 500
    cost = "a copy of up to 2^20 elements of each parameter for one step"
    metrics = {
        "update_ratio/<g>": "‖after − before‖ / ‖before‖ over a group, weight decay included; infinity or NaN where the "
        "group was all 0",
        "update_rms/<g>": "root mean square of the change of one element",
        "weights_changed/<g>": "share of the elements that changed, 0 to 1",
    }

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._copies: list[Tensor] = []

    def at_step(self, moment: Moment) -> None:
        self._copies = [sampled(one.tensor).clone() for one in moment.parameters]

    def after(self, moment: Moment) -> None:
        if not self._copies:
            return
        numbers: list[Any] = []
        for parameter, copy in zip(moment.parameters, self._copies):
            now = sampled(parameter.tensor)
            moved = torch.linalg.vector_norm(now.float() - copy.float(), dtype=torch.float32)
            size = torch.linalg.vector_norm(copy, dtype=torch.float32)
            numbers.append(torch.stack([moved, size, torch.count_nonzero(now != copy).float()]))
        first = numbers[0].device
        moment.send("updates", torch.stack([one.to(first) for one in numbers]))
        self._copies = []

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        received = moment.received("updates")
        sums: dict[str, list[float]] = {}
        for at, parameter in enumerate(moment.parameters[: len(received) // 3]):
            moved, size, changed = received[3 * at : 3 * at + 3]
            for group in parameter.groups:
                of_group = sums.setdefault(group, [0.0] * 4)
                looked = sampled(parameter.tensor).numel()
                for place, number in enumerate((moved**2, size**2, changed, looked)):
                    of_group[place] += number
        for group, (moved, size, changed, looked) in sums.items():
            if looked:
                yield f"update_ratio/{group}", root(moved) / root(size) if size else math.inf if moved else math.nan
                yield f"update_rms/{group}", root(moved / looked)
                yield f"weights_changed/{group}", changed / looked
