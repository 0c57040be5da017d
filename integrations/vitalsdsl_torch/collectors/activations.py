"""The collector of what the layers give out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.parameters import plain
from vitalsdsl_torch.collectors.watched import Look, Watched, first_tensor

STATISTICS = ("mean", "std", "absmax", "nonfinite", "zero_frac")


class Activations(Collector):
    """What each layer gives out, and what the first is given: extremes, spread, NaN, zeros.

    Looked at in the first micro-batch of a step that is due, where gradients are on: validation does not count. Mean, deviation and extremes are taken
    in float32 over all elements; a NaN or infinity among them shows in all of them, as in the output itself.
    """

    name = "activations"
    every = 1000
    cost = (
        "some passes over the output of each layer, of one micro-batch; a compiled model is broken into a graph a layer"
    )
    needs = "layers in a numbered list, and `Vitals` made before the model is compiled"
    metrics = {
        "act/layer<i>/mean": "mean of the output of layer i; `act/input/…`: of what the first layer is given",
        "act/layer<i>/std": "its standard deviation (of the population)",
        "act/layer<i>/absmax": "its largest absolute value",
        "act/layer<i>/nonfinite": "elements that are NaN or infinite; a count",
        "act/layer<i>/zero_frac": "share of elements that are exactly 0, 0 to 1",
        "collector/hook_dead": "layers whose output was not seen at a step that was due: 0, or the model was compiled "
        "before `Vitals` was made",
    }

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        modules = {watched.layers.places.get(plain(path)): module for path, module in watched.model.named_modules()}
        modules.pop(None, None)
        self._layers = sorted(layer for layer in modules if layer is not None)
        self._seen: dict[str, torch.Tensor] = {}
        watched.tap([modules[layer] for layer in self._layers], self._look, lambda: self.is_due)

    def _look(self, number: int) -> Look:
        def look(args: Any, output: Any) -> None:
            if number == 0 and (given := first_tensor(args)) is not None and given.numel():
                self._seen["input"] = _statistics(given)
            if (tensor := first_tensor(output)) is not None and tensor.numel():
                self._seen[f"layer{self._layers[number]}"] = _statistics(tensor)

        return look

    def close(self, moment: Moment) -> None:
        for place, statistics in self._seen.items():
            moment.send(f"act {place}", statistics)
        self._seen = {}

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        dead = 0
        for place in ["input", *(f"layer{layer}" for layer in self._layers)]:
            received = moment.received(f"act {place}")
            yield from ((f"act/{place}/{name}", value) for name, value in zip(STATISTICS, received))
            dead += not received and place != "input"
        if self._layers:
            yield "collector/hook_dead", float(dead)


def _statistics(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.float()
    deviation, mean = torch.std_mean(values, correction=0)
    nonfinite = (~torch.isfinite(values)).sum()
    zeros = 1 - torch.count_nonzero(values).float() / values.numel()
    return torch.stack([mean, deviation, torch.linalg.vector_norm(values, torch.inf), nonfinite.float(), zeros])
