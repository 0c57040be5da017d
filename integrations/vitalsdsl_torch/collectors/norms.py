"""Norms and samples of many tensors at once, in float32, without a word to the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.parameters import Parameter

SAMPLE = 1 << 20
"""Elements of one tensor that are looked at where all of them would cost too much memory."""


def values_of(tensor: Tensor) -> Tensor:
    """The elements of a tensor that are stored: of a sparse gradient its rows, each once."""
    return tensor.coalesce().values() if tensor.is_sparse else tensor


def norms(tensors: Sequence[Tensor]) -> Tensor:
    """The L2 norm of each tensor, `(n,)` float32 on the device of the first; squares are added in float32."""
    return torch.stack([norm.to(tensors[0].device) for norm in torch._foreach_norm(tensors, 2, dtype=torch.float32)])


GRADIENTS = "gradient norms"


def gradient_norms(moment: Moment) -> Tensor | None:
    """The norm of each gradient, unscaled: one pass, whoever asks first, and sent. None where there is no gradient."""
    if moment.gradients is None:
        moment.measured = [one for one in moment.parameters if one.tensor.grad is not None]
        if moment.measured:
            measured = norms([values_of(one.tensor.grad) for one in moment.measured])
            moment.gradients = measured if moment.scale is None else measured / moment.scale
            moment.send(GRADIENTS, moment.gradients)
    return moment.gradients


def gradient_squares(moment: Moment) -> list[tuple[Parameter, float]]:
    """The squared norm of each gradient, on the host in float64. Empty where nothing was measured."""
    return [(one, norm * norm) for one, norm in zip(moment.measured, moment.received(GRADIENTS))]


def root(squared: float) -> float:
    """The square root; NaN and infinity pass."""
    return math.sqrt(squared) if squared >= 0 else math.nan


def sampled(tensor: Any) -> Tensor:
    """At most about a million elements of a tensor, flat: all of a small one, else evenly spaced ones.

    The spacing has no divisor in common with the size, hence none with a dimension: all rows and all columns are met
    alike, always the same elements, and no random number is drawn.
    """
    flat = tensor.detach().reshape(-1)
    if flat.numel() <= SAMPLE:
        return flat
    spacing = math.ceil(flat.numel() / SAMPLE)
    while math.gcd(spacing, flat.numel()) != 1:
        spacing += 1
    return flat[::spacing]
