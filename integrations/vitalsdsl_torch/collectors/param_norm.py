"""The collector of the size of the weights."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import norms, root, squares, values_of


class ParamNorm(Collector):
    """How large the weights are after the step: all, by group and by layer."""

    name = "param_norm"
    every = 50
    cost = "one pass over the parameters"
    metrics = {
        "param_norm": "L2 norm over the trained parameters, as the optimizer holds them",
        "param_norm/group/<g>": "the same over a group: embed, head, attn, mlp, norm, router, expert, other, trunk",
        "param_norm/layer/<i>": "the same over layer i, from 0",
        "param_norm/<band>": "the same over first4 and last4 (fewer layers where the model has fewer than eight)",
        "param_nonfinite": "parameters that hold NaN or infinity; a count of tensors",
    }
    summed = {"parameters": 1}

    def after(self, moment: Moment) -> None:
        if moment.parameters:
            found = norms([values_of(one.tensor) for one in moment.parameters])
            moment.send_sums("parameters", moment.parameters, squares(found))

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        received = moment.sums("parameters")
        if not received:
            return
        sums: dict[str, float] = defaultdict(float)
        for parameter, (squared,) in received:
            sums["param_norm"] += squared
            for group in parameter.groups:
                sums[f"param_norm/group/{group}"] += squared
            if parameter.layer is not None:
                sums[f"param_norm/layer/{parameter.layer}"] += squared
            if parameter.band not in (parameter.kind, "rest"):
                sums[f"param_norm/{parameter.band}"] += squared
        for metric, whole in sums.items():
            yield metric, root(whole)
        yield "param_nonfinite", float(sum(not math.isfinite(squared) for _, (squared,) in received))
