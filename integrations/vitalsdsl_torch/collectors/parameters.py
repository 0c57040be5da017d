"""The parameters under training: each once, with the groups to which its name and its module assign it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

_WRAPPERS = re.compile(r"(^|\.)(_orig_mod|module|_fsdp_wrapped_module|_checkpoint_wrapped_module)(?=\.|$)")
_LAYER = re.compile(r"^(?P<container>|(?:(?!experts?\.)[^.]+\.)*?(?!experts?\.)[^.\d][^.]*\.)(?P<index>\d+)(?=\.|$)")


def _within(*words: str) -> re.Pattern[str]:
    """Any of these anywhere in a name."""
    return re.compile("|".join(words), re.IGNORECASE)


def _component(*words: str) -> re.Pattern[str]:
    """Any of these as a component of a dotted name, or as its end behind an underscore."""
    return re.compile(rf"(^|\.)(\w+_)?({'|'.join(words)})(\.|$)", re.IGNORECASE)


# In this order: a norm inside an attention block is a norm, an expert's projection an expert's.
_KINDS: Sequence[tuple[str, re.Pattern[str]]] = (
    ("expert", _component("experts?")),
    ("router", re.compile(r"(^|[._])(router|gate)(\.(wg|layer))?(\.(weight|bias|e_score_correction_bias))?$|gating")),
    ("norm", _within("norm", r"(^|[._])ln_?\w?[._]", r"(^|\.)bn\d?\.")),
    ("attn", _within("attn", "attention", "(^|[.])[qkvo]_proj", "query_key_value", "qkv", "mixer")),
    ("mlp", _within("mlp", "ffn?[._]", "feed_?forward", r"linear_?\d", r"fc_?\d", "c_fc", "intermediate", "dense")),
)
_EMBED = _component(r"embed\w*", "wte", "wpe", r"pos_emb\w*")
_HEAD = _component("heads?", "embed_out", "unembed", "output(_layer|_projection)?", "classifier", "score", "fc_out")

BANDS = 4
"""Layers in the first and in the last band; fewer where the model has fewer than twice as many."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of the optimizer. `kind` is embed, head, attn, mlp, norm, router, expert or other."""

    name: str
    tensor: Any
    kind: str
    layer: int | None
    band: str
    """`first<k>`, `last<k>`, `embed`, `head`, or `rest`: each parameter is in one, so that shares add up to 1."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups it counts in: its kind, and `trunk` where it is neither embedding nor head."""
        return (self.kind,) if self.kind in ("embed", "head") else (self.kind, "trunk")


@dataclass(frozen=True)
class Layers:
    """The blocks of a model, numbered. `places` maps the dotted name of each block to its number.

    With one list of blocks the numbers are the model's own. With several (encoder and decoder, the stages of a
    convolutional net) they are counted through in the order of the model.
    """

    places: Mapping[str, int] = field(default_factory=dict)

    def of(self, name: str) -> int | None:
        """The layer in which a parameter or module of this name lies.

        >>> Layers({"model.layers.0": 0, "model.layers.1": 1}).of("model.layers.1.mlp.up_proj.weight")
        1
        """
        place = _place(name)
        return self.places.get(place) if place else None


def plain(name: str) -> str:
    """The name as the user wrote the model: without what DDP, compilation and checkpointing put around it.

    >>> plain("module._orig_mod.layers.0.weight")
    'layers.0.weight'
    """
    return _WRAPPERS.sub(r"\1", name).replace("..", ".").strip(".")


def _place(name: str) -> str:
    found = _LAYER.match(name)
    # A head or an embedding made of several modules is no layer.
    return (
        found.group()
        if found and not _EMBED.search(found["container"]) and not _HEAD.search(found["container"])
        else ""
    )


def layers(model: nn.Module) -> Layers:
    """The blocks of a model that have parameters."""
    places: dict[str, None] = {}
    for name, _ in model.named_parameters(remove_duplicate=False):
        if place := _place(plain(name)):
            places.setdefault(place)
    containers = {place.rpartition(".")[0] for place in places}
    if len(containers) == 1:
        return Layers({place: int(place.rpartition(".")[2]) for place in places})
    return Layers({place: number for number, place in enumerate(places)})


def is_embedding(name: str) -> bool:
    """Whether a parameter outside the layers belongs to the embeddings by its name, their norms and biases too.

    >>> is_embedding("bert.embeddings.LayerNorm.weight"), is_embedding("embed_out.weight")
    (True, False)
    """
    return bool(_EMBED.search(name)) and not _HEAD.search(name)


def kind_of(name: str, module: nn.Module | None, layer: int | None) -> str:
    """The kind of a parameter, from the module that owns it and from its name.

    >>> kind_of("transformer.h.3.ln_1.weight", None, 3), kind_of("lm_head.weight", None, None)
    ('norm', 'head')
    >>> kind_of("model.layers.0.self_attn.q_proj.weight", None, 0), kind_of("tok_embeddings.weight", None, None)
    ('attn', 'embed')
    >>> kind_of("model.layers.2.block_sparse_moe.gate.weight", None, 2)
    'router'
    """
    if module is not None and re.search(r"(Layer|RMS|Batch|Group|Instance)Norm", type(module).__name__):
        return "norm"
    if layer is None:
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            return "embed"
        if not re.search(r"norm", name, re.IGNORECASE):
            if is_embedding(name):
                return "embed"
            if _HEAD.search(name):
                return "head"
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "other")


def trained(model: nn.Module, optimizer: Any) -> tuple[Parameter, ...]:
    """The parameters that the optimizer holds and that require a gradient: each once, tied ones under their first name."""
    held = {id(one): one for group in optimizer.param_groups for one in group["params"] if one.requires_grad}
    numbered = layers(model)
    found = [(plain(name), module, held.pop(id(one))) for name, module, one in owned(model) if id(one) in held]
    found += [(f"optimizer.{number}", None, one) for number, one in enumerate(held.values())]
    indices = sorted({layer for name, _, _ in found if (layer := numbered.of(name)) is not None})
    size = min(BANDS, len(indices) // 2)
    bands = dict.fromkeys(indices[:size], f"first{size}")
    bands |= dict.fromkeys(indices[len(indices) - size :], f"last{size}")
    parameters = []
    for name, module, tensor in found:
        layer = numbered.of(name)
        kind = kind_of(name, module, layer)
        band = kind if kind in ("embed", "head") else bands.get(layer, "rest") if layer is not None else "rest"
        parameters.append(Parameter(name, tensor, kind, layer, band))
    return tuple(parameters)


def owned(model: nn.Module) -> Iterator[tuple[str, nn.Module, Tensor]]:
    """Each parameter with its name and the module that holds it; a tied one comes once under each of its names."""
    for path, module in model.named_modules():
        for name, tensor in module.named_parameters(recurse=False):
            yield f"{path}.{name}" if path else name, module, tensor


def head(model: nn.Module) -> nn.Module | None:
    """The module that makes the logits: the last outside the layers with a head's name and a weight, tied or not."""
    numbered = layers(model)
    heads = [
        module
        for path, module in model.named_modules()
        if getattr(module, "weight", None) is not None
        and numbered.of(plain(path)) is None
        and _HEAD.search(plain(path))
    ]
    return heads[-1] if heads else None
