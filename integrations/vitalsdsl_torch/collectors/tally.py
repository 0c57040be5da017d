"""What is added up from micro-batch to micro-batch and from step to step, whether or not a collector is due."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from torch import Tensor

Batch = TypeVar("Batch")

Number: TypeAlias = "int | float | Tensor"
"""A number, or a tensor of one element, which stays on its device."""


def held(number: Number) -> Any:
    """The number without its graph: what is added up must not keep the graph of a batch alive."""
    return number.detach() if isinstance(number, Tensor) else number


@dataclass
class Tally:
    """Sums over the micro-batches of the step at hand, over the time since a report, and over the run."""

    clock: Callable[[], float]
    loss: Any = 0.0
    """Sum of loss × weight over the micro-batches of this step that gave one. Float64 on the device of the loss."""
    loss_weight: Any = 0
    has_loss: bool = False
    weight: Any = 0
    """Sum of the weights of all micro-batches of this step."""
    batches: int = 0
    totals: dict[str, Any] = field(default_factory=dict)
    """`tokens` and `samples` since the start of the run, of those that were given."""
    given: dict[str, Any] = field(default_factory=dict)
    """`epoch` and `data_pos`, as last given."""
    skipped: int = 0
    """Optimizer steps skipped since this was last reported."""
    data_seconds: float = 0.0
    has_loader: bool = False
    own_seconds: float = 0.0
    spans: dict[str, _Span] = field(default_factory=dict)

    def add(self, loss: Number | None, tokens: Number | None, samples: Number | None) -> None:
        """One micro-batch: its mean loss weighs as its tokens, or else its samples, or else as 1."""
        weight = held(tokens) if tokens is not None else held(samples) if samples is not None else 1
        if loss is not None:
            value = held(loss)
            value = value.double() if isinstance(value, Tensor) and value.device.type != "mps" else value
            self.loss, self.loss_weight = self.loss + value * weight, self.loss_weight + weight
            self.has_loss = True
        self.weight = self.weight + weight
        self.batches += 1
        for name, number in (("tokens", tokens), ("samples", samples)):
            if number is not None:
                self.totals[name] = self.totals.get(name, 0) + held(number)

    def next_step(self) -> None:
        """The next optimizer step begins."""
        self.loss, self.loss_weight, self.has_loss = 0.0, 0, False
        self.weight, self.batches = 0, 0

    def since(self, name: str, step: int, **sums: Any) -> _Passed:
        """What has passed since the last call under this name: seconds, steps, and the growth of the sums.

        At the first call all are NaN or 0: nothing has passed that was seen whole.
        """
        now = _Span(self.clock(), step, sums)
        last = self.spans.get(name)
        self.spans[name] = now
        if last is None:
            return _Passed(math.nan, 0, dict.fromkeys(sums, 0.0))
        return _Passed(
            now.at - last.at, now.step - last.step, {key: value - last.sums.get(key, 0) for key, value in sums.items()}
        )


@dataclass(frozen=True)
class _Span:
    at: float
    step: int
    sums: dict[str, Any]


@dataclass(frozen=True)
class _Passed:
    seconds: float
    steps: int
    sums: dict[str, Any]


class Timed(Generic[Batch]):
    """Batches, with the time that each is waited for. All else, a loader's sampler or state, is that of the batches."""

    def __init__(self, batches: Iterable[Batch], tally: Tally) -> None:
        self._batches, self._tally, self._clock = batches, tally, tally.clock

    def __iter__(self) -> Iterator[Batch]:
        started = self._clock()
        for batch in self._batches:
            self._tally.data_seconds += self._clock() - started
            yield batch
            started = self._clock()

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __next__(self) -> Batch:
        """The next of batches that are drawn one by one, such as `vitalsdsl_torch.Batches`."""
        started = self._clock()
        batch: Batch = next(self._batches)  # type: ignore[call-overload]
        self._tally.data_seconds += self._clock() - started
        return batch

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # its own, not there yet: as when it is copied
            raise AttributeError(name)
        return getattr(self._batches, name)
