"""The collector of the gradient's spread over the depth of the model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import GRADIENTS, gradient_squares, send_gradients


class GradShare(Collector):
    """How the gradient is spread over the depth of the model: shares of its squared norm, which add up to 1.

    A share of the first layers that grows while the deep layers' stays is a known sign of trouble to come.
    """

    name = "grad_share"
    every = 500
    cost = "none where `grad_norm` is measured, else one pass over the gradients"
    metrics = {
        "grad_share/<band>": "share of the squared gradient norm, 0 to 1: first4, last4 (fewer layers where the model has "
        "fewer than eight), embed, head, rest. NaN where the norm is 0 or not finite",
    }
    is_detail = True
    summed = {GRADIENTS: 1}

    def before(self, moment: Moment) -> None:
        send_gradients(moment)

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        bands: dict[str, list[float]] = defaultdict(list)
        for parameter, squared in gradient_squares(moment):
            bands[parameter.band].append(squared)
        whole = sum(sum(squares) for squares in bands.values())
        for band, squares in bands.items():
            yield f"grad_share/{band}", sum(squares) / whole if 0 < whole < math.inf else math.nan
