"""The collector of attention: how large its logits are, and how sharp it is."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.attention_logits import Attention as Given
from vitalsdsl_torch.collectors.attention_logits import Projections, bound, statistics
from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.parameters import plain
from vitalsdsl_torch.collectors.visits import visit
from vitalsdsl_torch.collectors.watched import Watched


class Attention(Collector):
    """How large the logits of attention are, and how sharp it is: scores that run away, heads that see one word only.

    What a layer gives to `scaled_dot_product_attention` or `nn.MultiheadAttention` is looked at as it is given: rotated,
    normed, with its mask. Of up to 2 sequences of the first micro-batch, 64 evenly spaced queries of each (fewer with very
    long sequences) and all keys, in float32, over all heads; where a layer attends several times, over all of them.
    Other attention (a fused kernel, products by hand) hides its logits: then there is a bound for them, if the
    layer's parts are named as usual (`q_proj` and `k_proj`, `query` and `key`, …) and it says its scale; else nothing.
    """

    name = "attention"
    every = 1000
    cost = "64 rows of attention of 2 sequences a layer, of one micro-batch; none in a compiled model"
    needs = "layers in a numbered list, in a model that is not compiled"
    metrics = {
        "attn/layer<i>/max_logit": "largest logit of layer i, scaled, of the pairs that are not masked",
        "attn/layer<i>/entropy": "entropy of a query's attention, mean over heads and queries; nats. 0 where each "
        "looks at one word",
        "attn/layer<i>/max_logit_bound": "‖query‖ × ‖key‖ × scale, the largest of a head: no logit of layer i is above it, "
        "but for what is added to them. Only where the logits themselves are hidden",
    }

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._seen: dict[int, list[Tensor]] = {}
        self._bounds: dict[int, list[Tensor]] = {}
        # A wrapper has the place of what it wraps: the inner of both is visited.
        modules = {watched.layers.places.get(plain(path)): module for path, module in watched.model.named_modules()}
        for layer, module in modules.items():
            if layer is not None:
                watched.handles += visit(watched, module, layer, self)

    def close(self, moment: Moment) -> None:
        for layer, found in self._seen.items():
            calls = torch.stack(found)
            moment.send(f"attn {layer}", torch.stack([calls[:, 0].amax(), calls[:, 1].sum(), calls[:, 2].sum()]))
        for layer, found in self._bounds.items():
            moment.send(f"attn bound {layer}", torch.stack(found).amax())
        self._seen, self._bounds = {}, {}

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        for layer in sorted(set(self.watched.layers.places.values())):
            largest, entropies, rows = moment.received(f"attn {layer}") or (0.0, 0.0, 0.0)
            if rows:
                yield f"attn/layer{layer}/max_logit", largest
                yield f"attn/layer{layer}/entropy", entropies / rows
            yield from ((f"attn/layer{layer}/max_logit_bound", one) for one in moment.received(f"attn bound {layer}"))

    def see(self, layer: int, given: Given | None) -> None:
        """Attention was called in this layer."""
        if given is not None and given.query.numel() and given.key.numel():
            found = statistics(given)
            self._seen.setdefault(layer, []).append(found)

    def see_projected(self, layer: int, made: Projections, query: Tensor | None, key: Tensor | None) -> None:
        """Queries and keys were made in this layer. Of use where what became of them was not seen."""
        if layer not in self._seen and query is not None and key is not None and query.numel() and key.numel():
            found = bound(made, query, key)
            self._bounds.setdefault(layer, []).append(found)
