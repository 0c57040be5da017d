"""Logits of attention, anew from the queries and keys that were given to it: a few rows of a few sequences."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SEQUENCES, ROWS = 2, 64
"""Sequences of a batch, and queries of each, that are looked at."""
ELEMENTS = 1 << 23
"""Logits that are computed at once: with long sequences fewer queries are looked at."""

_OF_MODULE = inspect.signature(functional.multi_head_attention_forward)
_PAIRS = (
    ("q_norm", "k_norm"),
    ("q_layernorm", "k_layernorm"),
    ("q_proj", "k_proj"),
    ("query", "key"),
    ("to_q", "to_k"),
    ("wq", "wk"),
    ("q", "k"),
)


@dataclass(frozen=True)
class Attention:
    """One call of attention: `(sequences, heads, words, width)` queries and keys, and what is added to their product."""

    query: Any
    key: Any
    scale: float
    bias: Any = None
    """Added to the logits, or, of bool, true where a pair counts."""
    is_causal: bool = False


def of_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Attention | None:
    """What `scaled_dot_product_attention` was given. None for what has no plain heads."""
    if not all(type(one) is Tensor for one in (query, key)) or not 2 <= query.dim() <= 4:
        return None
    lifted = (None,) * (4 - query.dim())
    bias = attn_mask if attn_mask is None or attn_mask.dim() < 3 else attn_mask[lifted]
    if bias is not None and bias.dim() == 4 and bias.shape[0] > 1:
        bias = bias[:SEQUENCES]
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    return Attention(query[lifted][:SEQUENCES], key[lifted][:SEQUENCES], scale, bias, is_causal)


def of_module(*args: Any, **kwargs: Any) -> Attention | None:
    """What `nn.MultiheadAttention` was given: queries and keys by its own projections. None where it adds keys."""
    bound = _OF_MODULE.bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    if given["bias_k"] is not None or given["add_zero_attn"] or given["static_k"] is not None:
        return None
    if any(hasattr(one, "placements") for one in given.values()):
        return None  # of sharded ones a slice is a talk of all ranks
    heads, width = given["num_heads"], given["embed_dim_to_check"]
    projected = []
    for number, name in enumerate(("query", "key")):
        words = given[name] if given[name].dim() == 3 else given[name][:, None]
        place = slice(number * width, (number + 1) * width)
        weight = (
            given[f"{name[0]}_proj_weight"] if given["use_separate_proj_weight"] else given["in_proj_weight"][place]
        )
        bias = None if given["in_proj_bias"] is None else given["in_proj_bias"][place].float()
        found = functional.linear(words[:, :SEQUENCES].float(), weight.float(), bias)
        projected.append(found.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3))
    bias = None
    if (mask := given["attn_mask"]) is not None:
        bias = _added(mask if mask.dim() == 2 else mask.unflatten(0, (-1, heads))[:SEQUENCES])
    if (padding := given["key_padding_mask"]) is not None:
        hidden = _added(padding if padding.dim() == 2 else padding[None])[:SEQUENCES, None, None]
        bias = hidden if bias is None else bias + hidden
    query, key = projected
    return Attention(query, key, 1 / math.sqrt(width // heads), bias)


def statistics(attention: Attention) -> Tensor:
    """The largest logit among pairs that count, the sum of the rows' entropies, and the number of rows: `(3,)`.

    Rows are evenly spaced queries, the last among them; one that may attend to nothing is none.
    """
    sequences, heads, length, _ = attention.query.shape
    keys = attention.key.shape[-2]
    rows = max(1, min(ROWS, ELEMENTS // max(1, sequences * heads * keys)))
    spacing = max(1, -(-length // rows))
    chosen = slice((length - 1) % spacing, None, spacing)
    query, key = attention.query[..., chosen, :].float(), attention.key.float()
    if key.shape[1] != heads:
        key = key.repeat_interleave(heads // key.shape[1], 1)
    logits = query @ key.transpose(-1, -2) * attention.scale
    bias = attention.bias
    if bias is not None:
        bias = bias[..., chosen, :] if bias.dim() > 1 and bias.shape[-2] == length else bias
        # A mask is often the lowest number of its type, which is to say none.
        is_hidden = ~bias if bias.dtype == torch.bool else bias <= torch.finfo(bias.dtype).min / 2
        logits = (logits if bias.dtype == torch.bool else logits + bias).masked_fill(is_hidden, -math.inf)
    if attention.is_causal:
        places = torch.arange(length, device=logits.device)[chosen, None]
        logits = logits.masked_fill(torch.arange(keys, device=logits.device) > places, -math.inf)
    is_row = ~(logits == -math.inf).all(-1)
    entropies = torch.where(is_row, torch.special.entr(logits.softmax(-1)).sum(-1), 0.0)
    return torch.stack([logits.amax(), entropies.sum(), is_row.sum().float()])


@dataclass(frozen=True)
class Projections:
    """The last modules that queries and keys go through before they are multiplied, as far as names tell."""

    query: nn.Module
    key: nn.Module
    width: int
    """Of one head."""
    scale: float


def projections(module: nn.Module) -> Projections | None:
    """Those of an attention module that has them as its parts, and says of a head's width and the scale. Else None."""
    parts = dict(module.named_children())
    pair = next((pair for pair in _PAIRS if pair[0] in parts and pair[1] in parts), None)
    if pair is None or ("norm" not in pair[0] and any("norm" in name or "ln" in name for name in parts)):
        return None  # a norm by another name: queries are not what the projection gives
    width = next((vars(module)[name] for name in ("head_dim", "attention_head_size", "key_value_proj_dim")
                  if isinstance(vars(module).get(name), int)), None)  # fmt: skip
    scale = next((vars(module)[name] for name in ("scaling", "softmax_scale", "scale")
                  if isinstance(vars(module).get(name), float)), None)  # fmt: skip
    return Projections(parts[pair[0]], parts[pair[1]], width, scale) if width and scale else None


def bound(made: Projections, query: Tensor, key: Tensor) -> Tensor:
    """No logit is above it: the product of the longest query and the longest key of a head; rotation changes neither."""
    longest = []
    for one in (query, key):
        heads = one[:SEQUENCES].float().unflatten(-1, (-1, made.width)).norm(dim=-1)
        # Where a head is normed by itself nobody says which dimension numbers them: the longest of all.
        longest.append(heads.amax(tuple(range(heads.dim() - 1))))
    of_query, of_key = longest
    if len(of_query) % len(of_key) == 0:
        of_key = of_key.repeat_interleave(len(of_query) // len(of_key))
    return (of_query * of_key).amax() * abs(made.scale)


def _added(mask: Any) -> Any:
    """A mask of `nn.MultiheadAttention`, true where a pair does not count, as what is added."""
    if mask.dtype != torch.bool:
        return mask.float()
    return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -math.inf)
