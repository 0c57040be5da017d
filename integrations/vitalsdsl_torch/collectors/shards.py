"""Parameters of which each rank holds a part: what is here, and how sums over parts become sums over the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Split:
    """A process group over whose ranks some parameters are split, and their numbers: the same on all of its ranks."""

    group: Any
    numbers: tuple[int, ...]


def local(tensor: Any) -> Tensor:
    """What lies on this rank: of a sharded tensor its part, which may be empty; of another all of it.

    A gradient that is still to be added up over the ranks of tensor parallelism (`Partial`) is added up first, in a copy:
    squares of its parts say nothing. That is one collective, on all of its ranks alike.
    """
    if not hasattr(tensor, "placements"):
        return tensor
    if any(one.is_partial() for one in tensor.placements):
        whole = torch.distributed.tensor.Replicate()
        tensor = tensor.redistribute(placements=[whole if one.is_partial() else one for one in tensor.placements])
    return tensor.to_local()


def splits(tensors: Sequence[Any]) -> tuple[Split, ...]:
    """The groups over which any of these are split. Dimensions of a mesh over which a tensor is replicated do not count:
    each rank there holds the same part."""
    found: dict[Any, list[int]] = {}
    for number, tensor in enumerate(tensors):
        for dimension, placement in enumerate(getattr(tensor, "placements", ())):
            if not placement.is_replicate() and tensor.device_mesh.size(dimension) > 1:
                found.setdefault(tensor.device_mesh.get_group(dimension), []).append(number)
    return tuple(Split(group, tuple(numbers)) for group, numbers in found.items())


def add_up(between: Sequence[Split], tables: Sequence[list[Tensor]]) -> None:
    """Turn the rows of these tables, one a parameter, from sums over parts into sums over whole parameters.

    One collective a group, whatever the number of tables; all its ranks have to come with tables of the same shapes.
    """
    for split in between:
        rows = [(table, number) for table in tables for number in split.numbers]
        vector = torch.cat([table[number] for table, number in rows])
        torch.distributed.all_reduce(vector, group=split.group)
        parts = vector.split([table[number].numel() for table, number in rows])
        for (table, number), part in zip(rows, parts):
            table[number] = part
