"""The collector of units that never give anything."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.parameters import plain
from vitalsdsl_torch.collectors.watched import Look, Watched, first_tensor

PROBES = 5
TOKENS = 1000


class DeadUnits(Collector):
    """Units behind a ReLU that were above 0 for no token at all in the last five steps looked at.

    A unit is an element of the last dimension (of the channel dimension behind a convolution: four dimensions). Fewer
    than a thousand tokens in those steps say nothing, and nothing is reported. Only ReLU modules are seen, not
    `functional.relu`; smooth activations have no dead units in this sense.
    """

    name = "dead_units"
    every = 1000
    cost = "one pass over the output of each ReLU, of one micro-batch; a compiled model is broken into a graph a module"
    needs = "`nn.ReLU` or `nn.ReLU6` modules, and `Vitals` made before the model is compiled"
    metrics = {
        "dead_frac/layer<i>": "share of the units of layer i that are dead, 0 to 1; `dead_frac/<module>` outside the layers. "
        "Absent before a thousand tokens were seen",
    }

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        found = {path: one for path, one in watched.model.named_modules() if isinstance(one, nn.ReLU | nn.ReLU6)}
        self._alive: list[deque[torch.Tensor]] = [deque(maxlen=PROBES) for _ in found]
        self._tokens: list[deque[int]] = [deque(maxlen=PROBES) for _ in found]
        self._places = []
        for path in map(plain, found):
            layer = watched.layers.of(path)
            self._places.append(path or "model" if layer is None else f"layer{layer}")
        watched.tap(list(found.values()), self._look, lambda: self.is_due)

    def _look(self, number: int) -> Look:
        def look(args: Any, output: Any) -> None:
            if (tensor := first_tensor(output)) is not None and tensor.dim() > 1:
                units = 1 if tensor.dim() == 4 else tensor.dim() - 1
                alive = (tensor > 0).transpose(0, units).flatten(1).any(1)
                self._alive[number].append(alive)
                self._tokens[number].append(tensor.numel() // max(1, alive.numel()))

        return look

    def close(self, moment: Moment) -> None:
        for place, probes, tokens in zip(self._places, self._alive, self._tokens):
            if sum(tokens) >= TOKENS:
                dead = ~torch.stack(list(probes)).any(0)
                before = moment.sent(f"dead {place}")
                moment.send(f"dead {place}", dead if before is None else torch.cat([before, dead]))

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        for place in dict.fromkeys(self._places):
            dead = moment.received(f"dead {place}")
            if dead:
                yield f"dead_frac/{place}", sum(dead) / len(dead)
