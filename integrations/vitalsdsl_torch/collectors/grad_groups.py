"""The collector of gradient norms by group and by layer."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import GRADIENTS, gradient_squares, root, send_gradients, size_of


class GradGroups(Collector):
    """Which part of the model the gradient comes from: its norm by kind of parameter and by layer."""

    name = "grad_groups"
    every = 500
    cost = "none where `grad_norm` is measured, else one pass over the gradients"
    metrics = {
        "grad_norm/group/<g>": "L2 norm over a group's gradients, before clipping: embed, head, attn, mlp, norm, router, "
        "expert, other, and trunk (all but embed and head)",
        "grad_rms/group/<g>": "the same, divided by the root of the number of elements that have a gradient",
        "grad_norm/layer/<i>": "L2 norm over the gradients of layer i, from 0",
    }
    is_detail = True
    summed = {GRADIENTS: 1}

    def before(self, moment: Moment) -> None:
        send_gradients(moment)

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        groups: dict[str, list[float]] = defaultdict(list)
        layers: dict[int, list[float]] = defaultdict(list)
        elements: dict[str, int] = defaultdict(int)
        for parameter, squared in gradient_squares(moment):
            for group in parameter.groups:
                groups[group].append(squared)
                elements[group] += size_of(parameter.tensor)
            if parameter.layer is not None:
                layers[parameter.layer].append(squared)
        for group, squares in groups.items():
            yield f"grad_norm/group/{group}", root(sum(squares))
            yield f"grad_rms/group/{group}", root(sum(squares) / elements[group]) if elements[group] else math.nan
        for layer, squares in sorted(layers.items()):
            yield f"grad_norm/layer/{layer}", root(sum(squares))
