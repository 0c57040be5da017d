"""A factor on the learning rate, on top of whatever sets it."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch

_known: weakref.WeakKeyDictionary[Any, _Scaled] = weakref.WeakKeyDictionary()


class _Scaled:
    """One optimizer whose rate is multiplied for the length of each update only.

    Between updates its groups hold what the schedule says: no scheduler, no `load_state_dict` and no loop that sets the
    rate itself can undo the factor or have it applied twice.
    """

    def __init__(self, optimizer: Any) -> None:
        self.factor = 1.0
        self._before: list[Any] = []
        optimizer.register_step_pre_hook(self._scale)
        optimizer.register_step_post_hook(self._restore)

    def _scale(self, optimizer: Any, arguments: Any, named: Any) -> None:
        self._restore(optimizer, arguments, named)  # an update that failed half-way has not done so
        if self.factor == 1.0:
            return
        for group in optimizer.param_groups:
            rate = group["lr"]
            if isinstance(rate, torch.Tensor):
                self._before.append(rate.clone())
                rate.mul_(self.factor)
            else:
                self._before.append(rate)
                group["lr"] = rate * self.factor

    def _restore(self, optimizer: Any, arguments: Any, named: Any) -> None:
        for group, before in zip(optimizer.param_groups, self._before):
            if isinstance(before, torch.Tensor):
                group["lr"].copy_(before)
            else:
                group["lr"] = before
        self._before.clear()


class Course(NamedTuple):
    """What the rate is multiplied by as a run goes on: `factor`, and of the first `steps` updates after step `start` a part
    of it that grows with each.

    >>> course = Course(0.8, start=100, steps=4)
    >>> [course.at(update) for update in (101, 102, 103, 104, 105, 999)]
    [0.2, 0.4, 0.6000000000000001, 0.8, 0.8, 0.8]
    """

    factor: float = 1.0
    start: int = 0
    steps: int = 0

    def at(self, update: int) -> float:
        """What it is at an update, by its number; before the start what it is at the first one after it."""
        part = max(1, update - self.start)
        return self.factor * part / self.steps if part < self.steps else self.factor


class RateFactor:
    """What the learning rate of some optimizers is multiplied by. An optimizer has one factor, whoever asks for it."""

    def __init__(self, optimizers: tuple[Any, ...]) -> None:
        for optimizer in optimizers:
            if optimizer not in _known:
                _known[optimizer] = _Scaled(optimizer)
        self._scaled = [_known[optimizer] for optimizer in optimizers]

    @property
    def factor(self) -> float:
        return self._scaled[0].factor

    @factor.setter
    def factor(self, factor: float) -> None:
        for scaled in self._scaled:
            scaled.factor = factor
