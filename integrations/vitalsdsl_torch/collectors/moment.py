"""One optimizer step as the collectors see it: what they send from the device, and the one read that brings it over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.parameters import Parameter
from vitalsdsl_torch.collectors.tally import Tally


@dataclass
class Moment:
    """One optimizer step.

    `step` counts from 1. `scale` is what the gradients are still multiplied by, where the optimizer undoes the loss
    scaling itself.
    """

    step: int
    parameters: Sequence[Parameter]
    tally: Tally
    scale: Tensor | None = None
    max_norm: float | None = None
    is_skipped: bool = False
    """Whether the optimizer did not step, because gradients overflowed. Known from `close` on, or after the read."""
    rates: list[float | Tensor] = field(default_factory=list)
    """The learning rate of each parameter group, of this step."""
    measured: list[Parameter] = field(default_factory=list)
    """The parameters that have a gradient, in the order of `gradients`, their norms: see `norms.gradient_norms`."""
    gradients: Tensor | None = None
    _sent: dict[str, Tensor] = field(default_factory=dict)
    _received: dict[str, list[float]] = field(default_factory=dict)

    def send(self, key: str, tensor: Tensor) -> None:
        """Keep a tensor for the host read. A second one under the same key replaces the first."""
        self._sent[key] = tensor.detach()

    def sent(self, key: str) -> Tensor | None:
        """What was sent under this key so far, still on the device."""
        return self._sent.get(key)

    def received(self, key: str) -> list[float]:
        """What was sent, flat, on the host. Empty where nothing was: a skipped step, a hook that was not called."""
        return self._received.get(key, [])

    def read(self) -> None:
        """Bring all over: of what is on the device one vector, hence one wait; none where nothing was sent."""
        there = {key: sent for key, sent in self._sent.items() if sent.device.type != "cpu"}
        here = {key: sent for key, sent in self._sent.items() if sent.device.type == "cpu"}
        for sent in (here, there):
            if sent:
                values, at = _joined(list(sent.values())).tolist(), 0
                for key, tensor in sent.items():
                    self._received[key] = values[at : at + tensor.numel()]
                    at += tensor.numel()
        self._sent.clear()


def _joined(tensors: list[Tensor]) -> Tensor:
    first = tensors[0].device
    # Counts beyond 2^24 need float64; MPS has none.
    wide = torch.float32 if first.type == "mps" else torch.float64
    flat = [tensor.reshape(-1).to(first) for tensor in tensors]
    return torch.cat([one if one.dtype == torch.float32 else one.to(wide) for one in flat])
