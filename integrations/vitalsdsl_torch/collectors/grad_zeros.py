"""The collector of gradient elements that are zero."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import values_of


class GradZeros(Collector):
    """How much of the gradient is exactly zero: parts that nothing flows through, or half-precision underflow."""

    name = "grad_zeros"
    every = 500
    cost = "one pass over the gradients"
    metrics = {
        "grad_zero_frac": "share of the elements of all gradients that are exactly 0, 0 to 1; of a sparse gradient the "
        "rows that it leaves out count as 0",
    }

    def before(self, moment: Moment) -> None:
        tensors = [one.tensor for one in moment.parameters if one.tensor.grad is not None]
        elements = sum(tensor.numel() for tensor in tensors)
        if elements:
            filled = torch.stack([torch.count_nonzero(values_of(tensor.grad)) for tensor in tensors]).sum()
            moment.send(
                "zeros", 1 - filled.double() / elements if filled.device.type != "mps" else 1 - filled / elements
            )

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        yield from (("grad_zero_frac", share) for share in moment.received("zeros"))
