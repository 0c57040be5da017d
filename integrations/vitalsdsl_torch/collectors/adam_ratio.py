"""The collector of gradients against what Adam expects of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from vitalsdsl_torch.collectors.adam_state import second_moments
from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import sampled, wide
from vitalsdsl_torch.collectors.parameters import Parameter


class AdamRatio(Collector):
    """How much larger the gradient is than Adam's second moment expects, which lags behind: √ mean(g² / max(v̂, ε²)).

    v̂ is the second moment before this step, without bias; g is the gradient that the optimizer uses. Above about 2.3
    in the embedding it precedes loss spikes by 1 to 8 steps (https://arxiv.org/abs/2304.13013).
    """

    name = "adam_ratio"
    every = 50
    cost = "a few operations on up to 2^20 elements of each parameter"
    needs = "an optimizer of Adam's family"
    metrics = {
        "adam/rms_ratio/<g>": "√ mean(g² / max(v̂, ε²)) over a group; about 1 in a steady training. Absent at its first step"
    }
    summed = {"adam ratio": 2}

    def at_step(self, moment: Moment) -> None:
        sums: list[Any] = []
        looked: list[Parameter] = []
        for second in second_moments(self.watched.optimizer, moment):
            gradient = second.parameter.tensor.grad
            if gradient is None or gradient.is_sparse:
                continue
            gradient = sampled(gradient).float()
            if moment.scale is not None:
                gradient = gradient / moment.scale
            ratios = gradient.square() / second.values.clamp(min=second.epsilon**2)
            total = wide(ratios.sum())
            sums.append(torch.stack([total, torch.full_like(total, ratios.numel())]))
            looked.append(second.parameter)
        if sums:
            moment.send_sums("adam ratio", looked, torch.stack([one.to(sums[0].device) for one in sums]))

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        sums: dict[str, list[float]] = {}
        for parameter, (ratios, looked) in moment.sums("adam ratio"):
            for group in parameter.groups:
                of_group = sums.setdefault(group, [0.0, 0.0])
                of_group[0] += ratios
                of_group[1] += looked
        for group, (ratios, looked) in sums.items():
            yield f"adam/rms_ratio/{group}", (ratios / looked) ** 0.5
