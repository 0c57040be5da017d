"""Clipping by the norm of all gradients, as torch does it, also where that is sharded or mixed."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import gradient_norms, squares
from vitalsdsl_torch.collectors.shards import add_up

_EXACT = (torch.float32, torch.float64)


def unscale(scaler: Any, optimizer: Any) -> None:
    """Divide the gradients by the loss scale, if that was not done."""
    try:
        scaler.unscale_(optimizer)
    except RuntimeError as problem:
        if "already been called" not in str(problem):
            raise


def total_norm(moment: Moment) -> Tensor:
    """The L2 norm over all gradients, before clipping; a collective of all ranks where they are sharded.

    Of float32 gradients it has the bits of `torch.nn.utils.get_total_norm`, which takes sharded ones on one mesh, and
    plain ones, but not both together.
    """
    if any(hasattr(one.tensor, "placements") for one in moment.parameters):
        gradients = [one.tensor.grad for one in moment.parameters if one.tensor.grad is not None]
        meshes = {getattr(one, "device_mesh", None) for one in gradients}
        if None not in meshes and len(meshes) == 1 and all(one.dtype in _EXACT for one in gradients):
            total = torch.nn.utils.get_total_norm(gradients)
            return total.full_tensor() if hasattr(total, "full_tensor") else total
    found = gradient_norms(moment)
    if found is None:
        return torch.tensor(0.0)
    if not moment.splits:
        return torch.linalg.vector_norm(found)
    known = dict(zip(map(id, moment.measured), squares(found).unbind()))
    table = [known.get(id(one), torch.zeros_like(known[id(moment.measured[0])])) for one in moment.parameters]
    add_up(moment.splits, [table])
    return torch.cat(table).sum().sqrt().to(found.dtype)


def clip(moment: Moment, max_norm: float, total: Tensor) -> None:
    """Multiply all gradients by min(1, max_norm / (total + 1e-6)). With an infinite `max_norm` they stay as they are."""
    if max_norm == math.inf:
        return
    plain: list[Any] = []
    sharded: list[Any] = []
    for one in moment.parameters:
        if one.tensor.grad is not None:
            (sharded if hasattr(one.tensor, "placements") else plain).append(one.tensor)
    for tensors in (plain, sharded):  # torch takes both, but not in one list
        is_sparse = any(one.grad.is_sparse for one in tensors)
        torch.nn.utils.clip_grads_with_norm_(tensors, max_norm, total, foreach=False if is_sparse else None)
