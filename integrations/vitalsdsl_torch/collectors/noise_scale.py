"""The collector of the gradient noise scale."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import GRADIENTS, gradient_squares, norms, send_gradients, values_of
from vitalsdsl_torch.collectors.watched import Watched

KEPT = 0.9
"""How much of the running means the next measurement leaves."""


def estimate(small: float, big: float, small_size: float, big_size: float) -> tuple[float, float]:
    """The noise tr Σ and the signal |G|² of one token's gradient, without bias, from two squared norms.

    `small` is that of the mean gradient over `small_size` tokens, `big` over `big_size`, of which the small are a part or
    not (https://arxiv.org/abs/1812.06162, appendix A).

    >>> estimate(small=1 + 8 / 2, big=1 + 8 / 16, small_size=2, big_size=16)
    (8.0, 1.0)
    """
    noise = (small - big) / (1 / small_size - 1 / big_size)
    signal = (big_size * big - small_size * small) / (big_size - small_size)
    return noise, signal


class NoiseScale(Collector):
    """The batch size above which more data a step brings little: tr Σ / |G|² by the first micro-batch and the whole step.

    Noise and signal are each averaged over measurements before they are divided: single ones are noise themselves.
    Right where a step's gradient is the mean over its tokens, so that the first micro-batch contributes its share.
    """

    name = "noise_scale"
    every = 50
    cost = "one more pass over the gradients, after the first micro-batch"
    needs = "`Vitals.micro_batch` after each backward pass, at least two of them a step, in a training of one process"
    metrics = {
        "gns": "noise scale, in tokens (or samples, or micro-batches, by what `micro_batch` is given); negative or infinite "
        "while there are too few measurements",
    }
    summed = {GRADIENTS: 1}

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._noise = self._signal = 0.0
        self._key, self._size = "first micro-batch", "its size"

    def first_batch(self, moment: Moment) -> None:
        """The gradient of the first micro-batch is there, times the loss scale and its share of the step."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            if torch.distributed.get_world_size() > 1:
                return
        gradients = [values_of(one.tensor.grad) for one in moment.parameters if one.tensor.grad is not None]
        if gradients:
            total = torch.linalg.vector_norm(norms(gradients))
            scale = getattr(self.watched.scaler, "_scale", None)
            moment.send(self._key, total if scale is None else total / scale.to(total.device))
            moment.send(self._size, torch.as_tensor(moment.tally.weight))

    def before(self, moment: Moment) -> None:
        if moment.sent(self._key) is not None:
            send_gradients(moment)

    def close(self, moment: Moment) -> None:
        if moment.sent(self._key) is not None:
            moment.send("step size", torch.as_tensor(moment.tally.weight))

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        squares = gradient_squares(moment)
        received = [moment.received(key) for key in (self._key, self._size, "step size")]
        if not squares or not all(received):
            return
        norm, size, whole = (one[0] for one in received)
        if not 0 < size < whole:
            return
        noise, signal = estimate((norm * whole / size) ** 2, sum(one for _, one in squares), size, whole)
        if math.isfinite(noise) and math.isfinite(signal):
            # Both start at 0, so that what is missing of either cancels in the quotient.
            self._noise = KEPT * self._noise + (1 - KEPT) * noise
            self._signal = KEPT * self._signal + (1 - KEPT) * signal
            yield "gns", self._noise / self._signal if self._signal else math.inf
