"""The collector of the gradient norm and of what clipping makes of it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import GRADIENTS, gradient_squares, root, send_gradients
from vitalsdsl_torch.collectors.watched import Watched

STEPS = 100
"""Measured steps over which `clip_rate` is taken."""


class GradNorm(Collector):
    """The norm of the gradient of the whole step: unscaled, accumulated, before clipping.

    Before clipping only if it is `Vitals.clip_grad_norm_` that clips: a gradient that was clipped by other means
    before the optimizer's step is measured clipped. Half-precision gradients are added up in float32.
    """

    name = "grad_norm"
    every = 1
    cost = "one pass over the gradients"
    metrics = {
        "grad_norm": "L2 norm over all trained parameters; in the loss's unit per unit of weight. "
        "NaN or infinity where a gradient holds one; absent at a skipped step",
        "grad_nonfinite": "tensors whose gradient holds NaN or infinity; a count",
        "grad_norm_clipped": "the norm after clipping; only with `clip_grad_norm_`",
        "clip_coef": "what clipping multiplies by, min(1, max_norm / (grad_norm + 1e-6)); only with `clip_grad_norm_`",
        "clip_rate": "share of the last 100 measured steps at which clipping made the gradient smaller, 0 to 1; "
        "only with `clip_grad_norm_`",
    }

    summed = {GRADIENTS: 1}

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._clipped: deque[bool] = deque(maxlen=STEPS)

    def before(self, moment: Moment) -> None:
        send_gradients(moment)

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        squares = [squared for _, squared in gradient_squares(moment)]
        if not squares:
            return
        norm = root(sum(squares))
        yield "grad_norm", norm
        yield "grad_nonfinite", float(sum(not math.isfinite(squared) for squared in squares))
        if moment.max_norm is not None:
            coefficient = moment.max_norm / (norm + 1e-6)
            # As torch clamps: a NaN stays one.
            coefficient = min(coefficient, 1.0)
            yield "grad_norm_clipped", norm * coefficient
            yield "clip_coef", coefficient
            self._clipped.append(coefficient < 1)
            yield "clip_rate", sum(self._clipped) / len(self._clipped)
