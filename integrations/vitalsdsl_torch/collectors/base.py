"""What a collector is: a name, a cadence, its cost and its needs, and what it reads around an optimizer step."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import ClassVar

from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.watched import Watched

Cadence = int | timedelta


class Collector:
    """The base of all collectors. A new one is a new file in this folder, and nothing else.

    `every` is its cadence where the user sets none: a number of optimizer steps (due at the first step and at each
    multiple; 1 is each logged step, as `log_every` says) or a length of time (due at the first step, then at the first
    step after each such span). `metrics` says of each name what it is, in which unit, and when it is NaN or absent; `<g>`,
    `<i>` stand for a group, a layer.

    At a step at which it is due the methods are called in the order in which they stand here. They may keep tensors on
    the device with `moment.send`, sums over the elements of parameters with `moment.send_sums`, and must neither read a
    tensor on the host, nor wait for another rank, nor change anything of the training. An exception in one of them
    switches this collector off for the rest of the run, with one line in the log.
    """

    name: ClassVar[str]
    every: ClassVar[Cadence]
    cost: ClassVar[str]
    needs: ClassVar[str] = ""
    metrics: ClassVar[Mapping[str, str]]
    summed: ClassVar[Mapping[str, int]] = {}
    """What it gives to `Moment.send_sums`: the keys, and how many columns each has. Fixed, so that all ranks know it."""
    told: ClassVar[Sequence[str]] = ()
    """What it gives to `Moment.tell`, and finds in `Moment.ranks` of each rank."""
    is_detail: ClassVar[bool] = False
    """Whether `Vitals.detail` makes it due more often for a while."""
    on_skipped: ClassVar[bool] = False
    """Whether it has something to say of a step that the loss scaler skipped. Others are due again at the next step."""

    def __init__(self, watched: Watched) -> None:
        """Forward hooks are set here, through `watched.tap`: once, before the model is compiled or first called."""
        self.watched = watched
        self.is_due = False

    def shown(self, moment: Moment, what: object) -> None:
        """The user showed something of the step that cannot be seen from outside, at any time before `close`."""

    def first_batch(self, moment: Moment) -> None:
        """The gradients are those of the first micro-batch alone, still multiplied by the loss scale."""

    def before(self, moment: Moment) -> None:
        """The gradients of the whole step are there: accumulated, as yet unclipped, times `moment.scale`."""

    def at_step(self, moment: Moment) -> None:
        """The gradients are what the optimizer will use; parameters and optimizer state are those before its step."""

    def after(self, moment: Moment) -> None:
        """The optimizer has stepped."""

    def close(self, moment: Moment) -> None:
        """`Vitals.step` was called; also after a skipped step, where the three above were not called."""

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        """Metrics of this step, from what was sent: `moment.received` has it on the host now."""
        raise NotImplementedError


@cache
def collectors() -> Mapping[str, type[Collector]]:
    """All collectors by name, from the files of this package."""
    package = importlib.import_module("vitalsdsl_torch.collectors")
    found = {}
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda one: one.name):
        for value in vars(importlib.import_module(f"{package.__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Collector) and "name" in value.__dict__:
                found[value.name] = value
    return found
