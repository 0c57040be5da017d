"""The collector of what a step changes in the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import norms, root, sampled, squares
from vitalsdsl_torch.collectors.watched import Watched

WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
"""In what the difference of two weights is taken, where that of their own type would be coarse."""


class Updates(Collector):
    """How far one step moves the weights, against their size, and how many of them it moves at all.

    A ratio about 1e-3 is usual; far above it the weights are rewritten, far below they stand still. Weights in half
    precision may not change at all where the step is smaller than their last digit. Measured on a copy of at most about
    a million evenly spaced elements of each parameter, or of each rank's part of it, held for the one step.
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
    summed = {"updates": 4}

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
            lengths = squares(norms([now.to(WIDER.get(now.dtype, now.dtype)) - copy, copy]))[:, 0]
            changed = torch.count_nonzero(now != copy)[None]
            numbers.append(torch.cat([lengths, changed, torch.full_like(changed, now.numel())]))
        first = numbers[0].device
        moment.send_sums("updates", moment.parameters, torch.stack([one.to(first) for one in numbers]))
        self._copies = []

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        sums: dict[str, list[float]] = {}
        for parameter, numbers in moment.sums("updates"):
            for group in parameter.groups:
                sums[group] = [one + more for one, more in zip(sums.get(group, [0.0] * 4), numbers)]
        for group, (moved, size, changed, looked) in sums.items():
            if looked:
                yield f"update_ratio/{group}", root(moved) / root(size) if size else math.inf if moved else math.nan
                yield f"update_rms/{group}", root(moved / looked)
                yield f"weights_changed/{group}", changed / looked
