"""How routers spread words over experts: found in the model, and added up over the micro-batches of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from vitalsdsl_torch.collectors.parameters import plain
from vitalsdsl_torch.collectors.watched import Watched

_ROUTERS = ("router", "gate", "gating", "wg", "gate_network")
_CHOICES = ("top_k", "topk", "num_experts_per_tok", "moe_top_k", "k")
_EXPERTS = ("num_experts", "n_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True)
class Routing:
    """What the user showed of one layer's router: see `Vitals.routing`."""

    counts: Tensor
    layer: int
    dropped: Tensor | float | None
    logits: Tensor | None


@dataclass(frozen=True)
class Router:
    """A router of the model: what stands beside `experts` under a router's name."""

    layer: int
    module: nn.Module
    experts: int
    choices: int | None
    """Experts that a word goes to, where the model says so."""


@dataclass
class Spread:
    """Sums over micro-batches of one layer, on the device."""

    sums: dict[str, Any] = field(default_factory=dict)
    is_shown: bool = False

    def add(self, name: str, number: Any) -> None:
        """Add to one of the sums."""
        self.sums[name] = self.sums[name] + number if name in self.sums else number

    def add_logits(self, logits: Tensor) -> None:
        """Add what is told by a router's logits: log Σ exp squared, the probabilities, and their lowest."""
        rows = logits.detach().reshape(-1, logits.shape[-1]).float()
        self.add("squares", torch.logsumexp(rows, -1).square().sum())
        self.add("probabilities", rows.softmax(-1).sum(0))
        self.add("words", torch.full((), float(len(rows)), device=rows.device))
        if rows.numel():
            lowest = rows.min()
            self.sums["lowest"] = torch.minimum(self.sums.get("lowest", lowest), lowest)


def routers(watched: Watched) -> Iterator[Router]:
    """The routers of the model, in its order. Those outside the layers are numbered behind the last layer."""
    after = max(watched.layers.places.values(), default=-1) + 1
    for path, module in watched.model.named_modules():
        parts = dict(module.named_children())
        router = next((parts[name] for name in _ROUTERS if name in parts), None)
        if router is None or "experts" not in parts:
            continue
        experts = _number((router, module, parts["experts"]), (*_EXPERTS, "out_features"))
        if experts is None and isinstance(parts["experts"], nn.ModuleList | nn.ModuleDict):
            experts = len(parts["experts"])
        layer = watched.layers.of(f"{plain(path)}.")
        if experts:
            yield Router(after if layer is None else layer, router, experts, _number((router, module), _CHOICES))
            after += layer is None


def add_seen(spread: Spread, router: Router, output: Any) -> None:
    """Add what a router gave back: the experts it chose, or a mask of them, or logits of which the largest are chosen."""
    tensors = [one.detach() for one in (output if isinstance(output, tuple | list) else [output]) if _is_tensor(one)]
    logits = next((one for one in tensors if one.is_floating_point() and one.shape[-1] == router.experts), None)
    chosen = next((one for one in tensors if not one.is_floating_point()), None)
    if logits is not None:
        spread.add_logits(logits)
    if chosen is not None and chosen.shape[-1] == router.experts and router.choices != router.experts:
        counts = chosen.reshape(-1, router.experts).ne(0).sum(0)
        spread.add("counts", counts)
        if router.choices in (1, None):
            spread.add("dropped", chosen.numel() // router.experts - counts.sum())
        return
    if chosen is None and logits is not None and router.choices:
        chosen = logits.reshape(-1, router.experts).topk(router.choices, -1).indices
    if chosen is not None:
        # A number that is no expert's says that the choice was dropped; counted in a place of its own.
        places = chosen.reshape(-1).long()
        places = torch.where((places < 0) | (places >= router.experts), router.experts, places)
        bins = torch.zeros(router.experts + 1, dtype=torch.int64, device=places.device)
        bins.scatter_add_(0, places, torch.ones_like(places))
        spread.add("counts", bins[:-1])


def _is_tensor(one: Any) -> bool:
    # Sums of sharded ones would be a talk of all ranks.
    return type(one) is Tensor and one.dim() > 0 and one.dtype != torch.bool


def _number(owners: tuple[nn.Module, ...], names: tuple[str, ...]) -> int | None:
    found = (getattr(owner, name, None) for owner in owners for name in names)
    return next((one for one in found if isinstance(one, int) and one > 0 and not isinstance(one, bool)), None)
