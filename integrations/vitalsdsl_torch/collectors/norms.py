"""Norms and samples of many tensors at once, in float32, without a word to the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.parameters import Parameter
from vitalsdsl_torch.collectors.shards import local

SAMPLE = 1 << 20
"""Elements of one tensor that are looked at where all of them would cost too much memory."""


def values_of(tensor: Any) -> Tensor:
    """The elements of a tensor that are stored here: of a sparse gradient its rows, each once; of a sharded one its part.
    A complex element is two, its real and its imaginary part."""
    here = local(tensor)
    here = here.coalesce().values() if here.is_sparse else here
    return torch.view_as_real(here.resolve_conj()) if here.is_complex() else here


def size_of(tensor: Any) -> int:
    """How many numbers a whole tensor holds; a complex one is two."""
    return int(tensor.numel()) * (2 if tensor.is_complex() else 1)


def norms(tensors: Sequence[Tensor]) -> Tensor:
    """The L2 norm of each tensor, `(n,)` on the device of the first; squares are added in float32, of float64 in that."""
    dtype = torch.float32
    if any(one.dtype == torch.float64 for one in tensors):
        tensors, dtype = [one.double() for one in tensors], torch.float64
    return torch.stack([norm.to(tensors[0].device) for norm in torch._foreach_norm(tensors, 2, dtype=dtype)])


def wide(tensor: Tensor) -> Tensor:
    """In float64, where the device has that."""
    return tensor if tensor.device.type == "mps" else tensor.double()


def numbers(values: Sequence[float], device: torch.device) -> Tensor:
    """Numbers of the host as float64 on a device, which is not waited for."""
    there = torch.tensor(values, dtype=torch.float32 if device.type == "mps" else torch.float64)
    return there.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else there.to(device)


def squares(of: Tensor) -> Tensor:
    """The squares of norms, `(n, 1)`: in float64, since those of float32 overflow it."""
    return wide(of).square()[:, None]


GRADIENTS = "gradients"


def gradient_norms(moment: Moment) -> Tensor | None:
    """The norm of each gradient, or of its part on this rank, unscaled: one pass, whoever asks first.

    None where there is no gradient.
    """
    if moment.gradients is None:
        moment.measured = [one for one in moment.parameters if one.tensor.grad is not None]
        if moment.measured:
            measured = norms([values_of(one.tensor.grad) for one in moment.measured])
            moment.gradients = measured if moment.scale is None else measured / moment.scale
    return moment.gradients


def send_gradients(moment: Moment) -> None:
    """Send the squared norm of each gradient, once."""
    if not moment.has_sent(GRADIENTS) and (found := gradient_norms(moment)) is not None:
        moment.send_sums(GRADIENTS, moment.measured, squares(found))


def gradient_squares(moment: Moment) -> list[tuple[Parameter, float]]:
    """The squared norm of each whole gradient, on the host in float64. Empty where nothing was measured."""
    return [(one, squared) for one, (squared,) in moment.sums(GRADIENTS)]


def root(squared: float) -> float:
    """The square root; NaN and infinity pass."""
    return math.sqrt(squared) if squared >= 0 else math.nan


def sampled(tensor: Any) -> Tensor:
    """At most about a million elements of a tensor, or of its part on this rank: a small one as it is, of a larger one
    evenly spaced elements, flat.

    The spacing has no divisor in common with the size, hence none with a dimension: all rows and all columns are met
    alike, always the same elements, and no random number is drawn.
    """
    here = values_of(tensor)
    if here.numel() <= SAMPLE:
        return here
    flat = here.detach().reshape(-1)
    spacing = math.ceil(flat.numel() / SAMPLE)
    while math.gcd(spacing, flat.numel()) != 1:
        spacing += 1
    return flat[::spacing]
