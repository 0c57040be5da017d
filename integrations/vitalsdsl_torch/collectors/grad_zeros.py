"""The collector of gradient elements that are zero."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import size_of, values_of


class GradZeros(Collector):
    """How much of the gradient is exactly zero: parts that nothing flows through, or half-precision underflow."""

    name = "grad_zeros"
    every = 500
    cost = "one pass over the gradients"
    metrics = {
        "grad_zero_frac": "share of the elements of all gradients that are exactly 0, 0 to 1; of a sparse gradient the "
        "rows that it leaves out count as 0",
    }
    summed = {"zeros": 1}

    def before(self, moment: Moment) -> None:
        looked = [one for one in moment.parameters if one.tensor.grad is not None]
        if looked:
            filled = [torch.count_nonzero(values_of(one.tensor.grad)) for one in looked]
            moment.send_sums("zeros", looked, torch.stack([one.to(filled[0].device) for one in filled])[:, None])

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        counted = moment.sums("zeros")
        if elements := sum(size_of(parameter.tensor) for parameter, _ in counted):
            yield "grad_zero_frac", 1 - sum(filled for _, (filled,) in counted) / elements
