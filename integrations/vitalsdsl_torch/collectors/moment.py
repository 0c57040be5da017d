"""One optimizer step as the collectors see it: what they send from the device, and the one read that brings it over."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.parameters import Parameter
from vitalsdsl_torch.collectors.shards import Split, add_up, local
from vitalsdsl_torch.collectors.tally import Number, Tally


@dataclass
class Moment:
    """One optimizer step.

    `step` counts from 1. `scale` is what the gradients are still multiplied by, where the optimizer undoes the loss
    scaling itself.
    """

    step: int
    parameters: Sequence[Parameter]
    tally: Tally
    splits: Sequence[Split] = ()
    """The groups over whose ranks parameters are split."""
    ranks: Sequence[Mapping[str, float]] = ()
    """After the read what each rank told, in their order: 0 where it told nothing. Empty where nothing is exchanged."""
    told: dict[str, Number] = field(default_factory=dict)
    """What this rank tells the others."""
    scale: Tensor | None = None
    max_norm: float | None = None
    is_skipped: bool = False
    """Whether the optimizer did not step, because gradients overflowed. Known from `close` on, or after the read."""
    rates: list[float | Tensor] = field(default_factory=list)
    """The learning rate of each parameter group, of this step."""
    measured: list[Parameter] = field(default_factory=list)
    """The parameters that have a gradient, in the order of `gradients`, the norms of what is here of each."""
    gradients: Tensor | None = None
    _sent: dict[str, Tensor] = field(default_factory=dict)
    _received: dict[str, list[float]] = field(default_factory=dict)
    _sums: dict[str, Tensor] = field(default_factory=dict)
    _looked: dict[str, Sequence[Parameter]] = field(default_factory=dict)

    def send(self, key: str, tensor: Tensor) -> None:
        """Keep a tensor for the host read. A second one under the same key replaces the first."""
        self._sent[key] = tensor.detach()

    def sent(self, key: str) -> Tensor | None:
        """What was sent under this key so far, still on the device."""
        return self._sent.get(key)

    def tell(self, name: str, number: Number) -> None:
        """Tell the other ranks a number of this one; `name` has to stand in the collector's `told`. See `ranks`."""
        self.told[name] = number

    def totals_of_ranks(self) -> dict[str, float]:
        """The tally's totals, added up over all ranks: those that this rank counts. Empty where nothing is exchanged."""
        return {name: sum(one[name] for one in self.ranks) for name in self.tally.totals} if self.ranks else {}

    def send_sums(self, key: str, looked: Sequence[Parameter], sums: Tensor) -> None:
        """Keep sums over the elements of each of these parameters, `(len(looked), columns)`, for the host read.

        Of a parameter that is split over ranks they are those of the part that is here: they are added up before they are read.
        The parameters have to be the same on all ranks, and `key` to stand in the collector's `summed`.
        """
        self._looked[key], self._sums[key] = looked, sums.detach()

    def has_sent(self, key: str) -> bool:
        """Whether something was sent under this key."""
        return key in self._sent or key in self._sums

    def sums(self, key: str) -> list[tuple[Parameter, list[float]]]:
        """The parameters that were looked at, each with its sums over all ranks, on the host. Empty where nothing was sent."""
        looked, received = self._looked.get(key, ()), self.received(key)
        columns = len(received) // len(looked) if looked else 0
        return [(one, received[at * columns : (at + 1) * columns]) for at, one in enumerate(looked)]

    def add_up(self, layout: Mapping[str, int]) -> None:
        """Add up what `send_sums` has kept over the ranks that share the parameters: all of them come with these keys and
        columns, whatever failed on this one. What is missing here makes the sum NaN."""
        if self.splits:
            tables = {key: self._table(key, columns) for key, columns in layout.items()}
            add_up(self.splits, list(tables.values()))
            numbers = {id(one): number for number, one in enumerate(self.parameters)}
            for key, looked in self._looked.items():
                if looked and key in tables:
                    self._sums[key] = torch.stack([tables[key][numbers[id(one)]] for one in looked])
        for key, sums in self._sums.items():
            self.send(key, sums)

    def _table(self, key: str, columns: int) -> list[Tensor]:
        sums = self._sums.get(key)
        here = local(self.parameters[0].tensor).device if sums is None else sums.device
        empty = torch.full((columns,), math.nan if sums is None else 0.0, dtype=torch.float64, device=here)
        rows = dict(zip(map(id, self._looked.get(key, ())), sums.double().unbind() if sums is not None else ()))
        return [rows.get(id(one), empty) for one in self.parameters]

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
