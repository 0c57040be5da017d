"""The collector of a mixture of experts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.routing import Routing, Spread, add_seen, routers
from vitalsdsl_torch.collectors.watched import Look, Watched

DEAD = 0.1
"""An expert is dead below this part of an even share."""


class Moe(Collector):
    """How evenly the routers of a mixture of experts spread the words: a collapse that the loss does not show.

    Over all micro-batches of the step. A router is what stands beside `experts` in a module, as `router` or `gate`. The
    choices are those that it gives back; where it gives logits alone the largest `top_k` of them, if the model says
    how many. What a checkpointed layer computes anew counts anew, which leaves shares as they are. Anything else is shown by
    `Vitals.routing`. The numbers are this rank's: show global counts if you have them.
    """

    name = "moe"
    every = 100
    cost = "a few passes over the routers' outputs; a compiled model is broken into a graph a router"
    needs = "routers beside `experts`, and `Vitals` made before the model is compiled; or `Vitals.routing`"
    metrics = {
        "moe/maxvio": "largest of the layers' `moe/layer<i>/maxvio`",
        "moe/dead": "share of the experts that are dead, that get less than a tenth of an even share, 0 to 1; mean of the "
        "layers",
        "moe/entropy": "entropy of the load over the experts, divided by that of an even one; the lowest of the layers, 0 to 1",
        "moe/z": "mean square of log Σ exp(router logits): what a router z-loss punishes; mean of the layers",
        "moe/aux": "experts × Σ share of the choices × mean probability, as the load-balancing loss has it; 1 where even; "
        "mean of the layers",
        "moe/drop_frac": "share of the choices that were dropped for want of place, 0 to 1; absent where it is not known",
        "moe/layer<i>/maxvio": "load of the busiest expert of layer i over the mean load, less 1: 0 where even",
        "moe/layer<i>/dead": "share of its experts that are dead",
    }
    on_skipped = True

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._routers = list(routers(watched))
        self._spreads: dict[int, Spread] = {}
        self._sent: list[int] = []
        watched.tap([one.module for one in self._routers], self._look, lambda: self.is_due, is_each=True)

    def _look(self, number: int) -> Look:
        router = self._routers[number]

        def look(args: Any, output: Any) -> None:
            spread = self._spreads.setdefault(router.layer, Spread())
            if not spread.is_shown:
                add_seen(spread, router, output)

        return look

    def shown(self, moment: Moment, what: object) -> None:
        if not isinstance(what, Routing):
            return
        spread = self._spreads.get(what.layer)
        if spread is None or not spread.is_shown:
            spread = self._spreads[what.layer] = Spread(is_shown=True)
        spread.add("counts", what.counts.detach())
        if what.dropped is not None:
            spread.add("dropped", torch.as_tensor(what.dropped).detach())
        if what.logits is not None:
            spread.add_logits(what.logits)

    def close(self, moment: Moment) -> None:
        for layer, spread in self._spreads.items():
            for name, summed in spread.sums.items():
                moment.send(f"moe {layer} {name}", summed)
        self._sent, self._spreads = sorted(self._spreads), {}

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        of_layers: dict[str, list[float]] = {}
        for layer in self._sent:
            names = ("counts", "dropped", "squares", "probabilities", "words", "lowest")
            for name, value in _numbers(*(moment.received(f"moe {layer} {name}") for name in names)):
                of_layers.setdefault(name, []).append(value)
                if name in ("maxvio", "dead"):
                    yield f"moe/layer{layer}/{name}", value
        for name, how in (("maxvio", _largest), ("dead", _mean), ("entropy", _lowest), ("z", _mean), ("aux", _mean)):
            if name in of_layers:
                yield f"moe/{name}", how(of_layers[name])
        if "choices" in of_layers:
            yield "moe/drop_frac", sum(of_layers["dropped"]) / (sum(of_layers["choices"]) or math.nan)


def _numbers(
    counts: list[float],
    dropped: list[float],
    squares: list[float],
    probabilities: list[float],
    words: list[float],
    lowest: list[float],
) -> Iterator[tuple[str, float]]:
    """What one layer's sums say; nothing of shares where no word came by."""
    whole = sum(counts)
    shares = [count / whole for count in counts] if whole else []
    if shares:
        yield "maxvio", max(shares) * len(shares) - 1
        yield "dead", sum(share < DEAD / len(shares) for share in shares) / len(shares)
        if len(shares) > 1:
            yield "entropy", -sum(share * math.log(share) for share in shares if share > 0) / math.log(len(shares))
    if dropped:
        yield "dropped", dropped[0]
        yield "choices", whole + dropped[0]
    # Without a single one below 0 they are no logits, but probabilities under the same name.
    if words and words[0] and not (lowest and lowest[0] >= 0):
        yield "z", squares[0] / words[0]
        if shares and len(shares) == len(probabilities):
            yield "aux", len(shares) * sum(one * other for one, other in zip(shares, probabilities)) / words[0]


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _largest(numbers: list[float]) -> float:
    return math.nan if any(map(math.isnan, numbers)) else max(numbers)


def _lowest(numbers: list[float]) -> float:
    return math.nan if any(map(math.isnan, numbers)) else min(numbers)
