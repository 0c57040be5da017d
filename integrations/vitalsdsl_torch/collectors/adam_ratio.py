"""The collector of gradients against what Adam expects of them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from vitalsdsl_torch.collectors.adam_state import second_moments
from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import norms, numbers, sampled, squares


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
        found = [
            (second, gradient)
            for second in second_moments(self.watched.optimizer, moment)
            if (gradient := second.parameter.tensor.grad) is not None and not gradient.is_sparse
        ]
        if not found:
            return
        expected = [second.values for second, _ in found]
        torch._foreach_clamp_min_(expected, [second.epsilon**2 for second, _ in found])
        torch._foreach_sqrt_(expected)
        ratios = norms(torch._foreach_div([sampled(gradient).float() for _, gradient in found], expected))
        if moment.scale is not None:
            ratios = ratios / moment.scale
        looked = numbers([one.numel() for one in expected], ratios.device)
        columns = torch.cat([squares(ratios), looked[:, None]], 1)
        moment.send_sums("adam ratio", [second.parameter for second, _ in found], columns)

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        sums: dict[str, list[float]] = {}
        for parameter, (ratios, looked) in moment.sums("adam ratio"):
            for group in parameter.groups:
                of_group = sums.setdefault(group, [0.0, 0.0])
                of_group[0] += ratios
                of_group[1] += looked
        for group, (ratios, looked) in sums.items():
            yield f"adam/rms_ratio/{group}", (ratios / looked) ** 0.5
