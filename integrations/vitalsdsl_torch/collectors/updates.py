"""The collector of what a step changes in the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import norms, numbers, root, sampled, squares
from vitalsdsl_torch.collectors.watched import Watched


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
        now = [sampled(one.tensor) for one in moment.parameters]
        apart = [(wider(one), wider(copy)) for one, copy in zip(now, self._copies)]
        moved = norms(torch._foreach_sub([one for one, _ in apart], [copy for _, copy in apart]))
        first = moved.device
        changed = torch.stack([torch.count_nonzero(one != copy).to(first) for one, copy in zip(now, self._copies)])
        looked = numbers([one.numel() for one in now], first)
        columns = [squares(moved), squares(norms(self._copies)), changed[:, None], looked[:, None]]
        moment.send_sums("updates", moment.parameters, torch.cat(columns, 1))
        self._copies = []

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        sums: dict[str, list[float]] = {}
        for parameter, columns in moment.sums("updates"):
            for group in parameter.groups:
                sums[group] = [one + more for one, more in zip(sums.get(group, [0.0] * 4), columns)]
        for group, (moved, size, changed, looked) in sums.items():
            if looked:
                yield f"update_ratio/{group}", root(moved) / root(size) if size else math.inf if moved else math.nan
                yield f"update_rms/{group}", root(moved / looked)
                yield f"weights_changed/{group}", changed / looked


def wider(tensor: Tensor) -> Tensor:
    """In float32 where it is in half precision: the difference of two such weights would be coarse."""
    return tensor.float() if tensor.itemsize < 4 else tensor
