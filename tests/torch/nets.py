"""Small models and plain float64 computations that the collectors are held against."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

torch.set_num_threads(1)  # several threads for so little work only wait for each other

WORDS, WIDTH = 40, 16


class Block(nn.Module):
    """One layer: an MLP behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))
        self.attn = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Any) -> Any:
        return hidden + self.mlp(self.norm(hidden)) + self.attn(hidden)


class Net(nn.Module):
    """A language model without attention. It can have the known difficulties: tied, frozen, sparse, unused, empty."""

    def __init__(self, layers: int = 3, *, tied: bool = False, sparse: bool = False, odd: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH, sparse=sparse)
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.lm_head = nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.lm_head.weight = self.embed.weight
        if odd:
            self.unused = nn.Linear(WIDTH, WIDTH)  # its gradient stays None
            self.empty = nn.Parameter(torch.zeros(0, 3))
            self.layers[0].attn.requires_grad_(False)

    def forward(self, words: Any) -> Any:
        hidden = self.embed(words)
        if hasattr(self, "empty"):
            hidden = hidden + self.empty.sum()
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(hidden)


def net(seed: int = 0, **options: Any) -> Net:
    """A model of this seed."""
    torch.manual_seed(seed)
    return Net(**options)


def words(seed: int, rows: int = 8, length: int = 9) -> Any:
    """A batch of random words."""
    return torch.randint(WORDS, (rows, length), generator=torch.Generator().manual_seed(seed))


def loss_of(model: Any, batch: Any) -> Any:
    """The mean loss over the words to come."""
    logits = model(batch[:, :-1])
    return functional.cross_entropy(logits.reshape(-1, WORDS).float(), batch[:, 1:].reshape(-1))


def sum_of_squares(tensors: Iterable[Any]) -> float:
    """Added up one element after the other in float64."""
    total = 0.0
    for tensor in tensors:
        dense = tensor.to_dense() if tensor.is_sparse else tensor
        for number in dense.detach().double().flatten().tolist():
            total += number * number
    return total


def plain_norm(tensors: Iterable[Any]) -> float:
    """The L2 norm, from `sum_of_squares`."""
    return math.sqrt(sum_of_squares(tensors))


def gradients(model: Any) -> dict[str, Any]:
    """The gradients of a model by name, tied ones once, and None left out."""
    return {name: one.grad for name, one in model.named_parameters() if one.grad is not None}


def same_bits(one: Any, other: Any) -> bool:
    """Whether two float32 tensors are the same bit for bit, NaN included."""
    return torch.equal(one.contiguous().view(torch.int32), other.contiguous().view(torch.int32))


class Mixture(nn.Module):
    """A language model of one layer whose MLP is a mixture of experts: of each word the two that its router likes."""

    def __init__(self, experts: int = 4, choices: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList([Experts(experts, choices), Experts(experts, choices)])
        self.lm_head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: Any) -> Any:
        hidden = self.embed(words)
        for layer in self.layers:
            hidden = hidden + layer(hidden)
        return self.lm_head(hidden)


class Experts(nn.Module):
    """A router and its experts; each expert computes all words, for the sake of plainness."""

    def __init__(self, experts: int, choices: int) -> None:
        super().__init__()
        self.top_k = choices
        self.gate = nn.Linear(WIDTH, experts)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(experts))

    def forward(self, hidden: Any) -> Any:
        weights = self.gate(hidden).softmax(-1)
        chosen = torch.zeros_like(weights).scatter(-1, weights.topk(self.top_k, -1).indices, 1.0)
        outputs = torch.stack([expert(hidden) for expert in self.experts], -1)
        return (outputs * (weights * chosen)[..., None, :]).sum(-1)
