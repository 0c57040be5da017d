"""Parameter groups for an optimizer: rates by depth, embeddings and head apart, no decay on biases and norms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from vitalsdsl.ground.errors import UsageError
from vitalsdsl_torch.collectors.parameters import is_embedding, kind_of, layers, owned, plain

NO_DECAY = "_no_decay"
"""What the name of a group ends with whose weights are not decayed."""


def parameter_groups(
    model: nn.Module,
    lr: float,
    weight_decay: float = 0.0,
    *,
    layer_decay: float = 1.0,
    embed_scale: float = 1.0,
    head_scale: float = 1.0,
) -> list[dict[str, Any]]:
    """Groups for any optimizer of torch, each with `params`, `lr`, `weight_decay` and a `name`.

    Of n layers the one at depth d, from 0, has the rate lr × layer_decay^(n − 1 − d): the last one has `lr`. Embeddings
    have lr × embed_scale, the head lr × head_scale, all else `lr`. Biases, the weights of norms and all of fewer than two
    dimensions are not decayed. The groups are `layer<i>`, numbered as in the vitals' metrics (or `trunk`, all layers
    and what stands beside them, where `layer_decay` is 1), `trunk`, `embed` and `head`, each with a second one
    for what is not decayed: `layer0_no_decay`. The first has the rate `lr`; empty ones are left out.

    Each parameter that requires a gradient is in one group, a tied one where its first name belongs: a head tied to the
    embedding is an embedding. Layers are found as for the vitals, in any numbered list; several lists (encoder and
    decoder, stages) are counted through in the order of the model, as one way through it.

    ```python
    optimizer = torch.optim.AdamW(parameter_groups(model, lr=3e-4, weight_decay=0.1, layer_decay=0.95, embed_scale=0.5))
    ```

    Raises UsageError for a `layer_decay` outside (0, 1], a negative rate, decay or scale, a model without anything to
    train, and one whose lazy modules have no shape as yet.
    """
    if not 0 < layer_decay <= 1:
        raise UsageError(f"layer_decay is {layer_decay}: it must be above 0 and at most 1")
    for name, value in (("lr", lr), ("weight_decay", weight_decay), ("embed_scale", embed_scale)):
        _not_negative(name, value)
    _not_negative("head_scale", head_scale)
    places = sorted(set(layers(model).places.values()))
    factors = {f"layer{place}": layer_decay**depth for depth, place in enumerate(reversed(places))}
    factors = (factors if layer_decay < 1 else {}) | {"trunk": 1.0, "embed": embed_scale, "head": head_scale}
    members: dict[str, list[Tensor]] = {}
    for home, is_decayed, one in _homes(model):
        place = home if home in factors else "trunk"
        members.setdefault(place if is_decayed else place + NO_DECAY, []).append(one)
    if not members:
        raise UsageError("the model has no parameter that requires a gradient")
    return [
        {"params": members[name], "lr": lr * factor, "weight_decay": decay, "name": name}
        for place, factor in factors.items()
        for name, decay in ((place, weight_decay), (place + NO_DECAY, 0.0))
        if name in members
    ]


def _homes(model: nn.Module) -> Iterator[tuple[str, bool, Tensor]]:
    """Where each parameter under training belongs, whether it is decayed, and itself."""
    numbered, seen = layers(model), set()
    for path, module, one in owned(model):
        if not one.requires_grad or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, nn.parameter.UninitializedTensorMixin):
            raise UsageError(f"the shape of `{path}` is not known: run one batch through the model first")
        name = plain(path)
        layer = numbered.of(name)
        # By its type: a linear layer within a norm (adaptive ones have it) is decayed.
        is_decayed = one.dim() > 1 and "Norm" not in type(module).__name__ and not name.endswith("bias")
        if layer is not None:
            yield f"layer{layer}", is_decayed, one
        else:
            yield "embed" if is_embedding(name) else kind_of(name, module, layer), is_decayed, one


def _not_negative(name: str, value: float) -> None:
    if not value >= 0:
        raise UsageError(f"{name} is {value}: it must not be negative")
