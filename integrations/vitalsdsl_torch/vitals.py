"""The vitals of a torch training, measured around each optimizer step."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from vitalsdsl.errors import UsageError
from vitalsdsl_torch.collectors.base import Cadence, Collector, collectors
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import gradient_norms
from vitalsdsl_torch.collectors.parameters import Parameter, trained
from vitalsdsl_torch.collectors.tally import Number, Tally
from vitalsdsl_torch.collectors.watched import Watched
from vitalsdsl_torch.shows import Shows

logger = logging.getLogger("vitalsdsl")

Batch = TypeVar("Batch")

FOUND_INF, FOUND_BEFORE = "found inf", "found inf before"
"""What a fused optimizer says of overflow: at this step, and at those since the last read."""


class Vitals(Shows):
    """What a training says of itself: norms, shares, activations, scales, speed, under one set of names.

    ```python
    vitals = Vitals(model, optimizer, scaler=scaler)        # before torch.compile
    for batch in vitals.loader(loader):
        loss = model(batch)
        loss.backward()
        vitals.clip_grad_norm_(1.0)                         # in place of torch.nn.utils.clip_grad_norm_
        optimizer.step()
        metrics = vitals.step(loss=loss, tokens=batch.numel())
        optimizer.zero_grad()
        wandb.log(metrics)
    ```

    The measuring is done by hooks of the optimizer's own step, hence on gradients that are accumulated and unscaled; the
    table of all metrics is docs/vitals.md. `every` gives a collector another cadence, in optimizer steps or as a
    `timedelta`; `log_every` those that would be due at each step. Collectors in `off` are not made at all.

    It never changes the training: parameters are the same bit for bit with and without it. But for a wrong argument
    nothing of it raises inside the loop: a collector that fails is switched off with one line in the log, and
    `collector/failed` counts those. The device is waited for once at a step at which anything is due, and not at others.

    Sharded parameters (FSDP2, tensor parallel) are refused. Under DistributedDataParallel gradients are the same on all
    ranks, loss and counters are those of this rank, and nothing is gathered: give sums if you have them. One optimizer is
    watched; parameters of it that are not the model's count as `other`. An optimizer that a library has wrapped may not
    take hooks: give the one inside.

    Raises UsageError for an unknown collector, a cadence that is none, sharded parameters, and torch before 2.6.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        scaler: Any | None = None,
        every: Mapping[str, Cadence] | None = None,
        log_every: int = 1,
        off: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not hasattr(nn.utils, "clip_grads_with_norm_"):
            raise UsageError(f"torch {torch.__version__} is too old to measure vitals: 2.6 or newer is needed")
        every = dict(every or {})
        _check(every, log_every, off)
        if any(hasattr(one, "placements") for one in model.parameters()):
            raise UsageError("the model's parameters are sharded (DTensor); their vitals cannot be measured")
        self._scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self._watched = Watched(model, optimizer, self._scaler)
        self._clock = clock
        self._tally = Tally(clock)
        self._collectors = [made(self._watched) for name, made in collectors().items() if name not in off]
        self._cadences = {
            one.name: every.get(one.name, log_every if one.every == 1 else one.every) for one in self._collectors
        }
        self._next_at: dict[str, float] = {}
        self._failed: set[str] = set()
        self._owed: set[str] = set()
        self._detail = range(0)
        self._parameters: tuple[Parameter, ...] = ()
        self._held = -1
        self._found_before: list[Tensor] = []
        self._said: set[str] = set()
        self._is_measured = self._has_stepped = False
        self._begin(1)
        self._refresh()
        self._watched.handles += [
            optimizer.register_step_pre_hook(torch.compiler.disable(self._before_step)),
            optimizer.register_step_post_hook(torch.compiler.disable(self._after_step)),
        ]

    def micro_batch(
        self, *, loss: Number | None = None, tokens: Number | None = None, samples: Number | None = None
    ) -> None:
        """Count one of several micro-batches of the optimizer step, after its backward pass.

        `loss` is its mean over its `tokens` valid ones, not divided by the number of micro-batches. Tensors stay on the
        device. Where no tokens are given the samples weigh it, else all weigh the same.
        """
        started = self._clock()
        is_first = self._tally.batches == 0
        self._tally.add(loss, tokens, samples)
        if is_first:
            with torch.no_grad():
                self._refresh()
                self._ask("first_batch")
        self._tally.own_seconds += self._clock() - started

    def clip_grad_norm_(self, max_norm: float, *, error_if_nonfinite: bool = False) -> Tensor:
        """Clip the gradients of the optimizer's parameters as torch does, once they are measured; returns their norm.

        Under a loss scaler they are unscaled first, if that was not done. Float32 gradients come out with the same bits
        as from `torch.nn.utils.clip_grad_norm_`; of half-precision ones the norm is taken in float32, so more exactly.
        With an infinite `max_norm` they are left as they are, also those that hold infinity.

        Raises UsageError for a `max_norm` that is negative or NaN, and RuntimeError where `error_if_nonfinite` asks for it.
        """
        if not max_norm >= 0:
            raise UsageError(f"max_norm is {max_norm}: it must be 0 or more")
        if self._scaler is not None:
            _unscale(self._scaler, self._watched.optimizer)
        moment = self._moment
        with torch.no_grad():
            self._refresh()
            norms = gradient_norms(moment)
            total = torch.linalg.vector_norm(norms) if norms is not None else torch.tensor(0.0)
            if error_if_nonfinite and not torch.isfinite(total):
                raise RuntimeError("the norm of the gradients is not finite, so they cannot be clipped")
            self._measure()
            if max_norm < math.inf:
                moment.max_norm = max_norm
                tensors = [one.tensor for one in moment.measured]
                is_sparse = any(one.grad.is_sparse for one in tensors)
                torch.nn.utils.clip_grads_with_norm_(tensors, max_norm, total, foreach=False if is_sparse else None)
        return total

    def step(
        self,
        *,
        loss: Number | None = None,
        tokens: Number | None = None,
        samples: Number | None = None,
        epoch: float | None = None,
        data_pos: float | None = None,
    ) -> dict[str, float]:
        """The metrics due at this optimizer step, to be logged; to be called once a step, after the optimizer's.

        `loss`, `tokens`, `samples` count as one more `micro_batch`: all there is where gradients are not accumulated.
        Call it also where the loss scaler may have skipped the step: it is then counted as skipped, and what
        would have been measured of gradients and weights is measured at the next.
        """
        started = self._clock()
        if loss is not None or tokens is not None or samples is not None:
            self._tally.add(loss, tokens, samples)
        self._tally.given |= {name: one for name, one in (("epoch", epoch), ("data_pos", data_pos)) if one is not None}
        moment = self._moment
        moment.is_skipped = not self._has_stepped
        if not self._has_stepped:
            moment.rates = [group["lr"] for group in self._watched.optimizer.param_groups]
            if self._scaler is None:
                self._say_once(
                    "the optimizer did not step before `Vitals.step`: step %d counts as skipped", moment.step
                )
        metrics = self._collected(moment)
        self._tally.own_seconds += self._clock() - started
        self._begin(moment.step + 1)
        return metrics

    def detail(self, steps: int = 1000, every: int = 50) -> None:
        """Measure what tells groups and layers apart more often, for so many steps from the next measured on."""
        if steps < 1 or every < 1:
            raise UsageError("detail needs at least one step, and a cadence of at least one")
        first = self._moment.step + self._is_measured
        self._detail = range(first, first + steps, every)
        if not self._is_measured:
            for one in self._collectors:
                one.is_due |= one.is_detail and one.name not in self._failed

    def loader(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """The same batches; the time that is spent in waiting for each counts as `data_time`."""
        self._tally.has_loader = True
        return _Timed(batches, self._tally, self._clock)

    def state_dict(self) -> dict[str, float]:
        """The counters, to be saved with a checkpoint. Waits for the device where they are there."""
        totals = {name: float(number) for name, number in self._tally.totals.items()}
        return {"step": self._moment.step - 1} | totals

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Go on counting from a checkpoint."""
        self._tally.totals = {name: number for name, number in state.items() if name != "step"}
        self._tally.spans.clear()
        self._begin(int(state["step"]) + 1)

    def detach(self) -> None:
        """Take all hooks off the model and the optimizer; `step` then has nothing to say of either."""
        for handle in self._watched.handles:
            handle.remove()
        self._watched.handles.clear()

    def _begin(self, step: int) -> None:
        self._moment = Moment(step, self._parameters, self._tally)
        self._watched.step = step
        self._tally.next_step()
        self._is_measured = self._has_stepped = False
        for one in self._collectors:
            one.is_due = one.name not in self._failed and (one.name in self._owed or self._is_due(one, step))

    def _refresh(self) -> None:
        """Know the parameters anew where some joined the optimizer, or were frozen or thawed, since the last step."""
        groups = self._watched.optimizer.param_groups
        held = sum(one.requires_grad for group in groups for one in group["params"])
        if held != self._held:
            self._held = held
            self._moment.parameters = self._parameters = trained(self._watched.model, self._watched.optimizer)

    def _is_due(self, one: Collector, step: int) -> bool:
        cadence = self._cadences[one.name]
        if isinstance(cadence, timedelta):
            now = self._clock()
            if now < self._next_at.get(one.name, -math.inf):
                return False
            self._next_at[one.name] = now + cadence.total_seconds()
            return True
        return step == 1 or step % cadence == 0 or (one.is_detail and step in self._detail)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Runs inside the optimizer's step, before it. A closure computes the gradients only then: look after it."""
        started = self._clock()
        try:
            # The optimizer itself is the first of its step's arguments.
            closure = args[1] if len(args) > 1 else kwargs.get("closure")
            if closure is None:
                self._take(optimizer)
                return None

            def measured_closure() -> Any:
                loss = closure()
                self._take(optimizer)
                return loss

            if len(args) > 1:
                return (args[0], measured_closure, *args[2:]), kwargs
            return args, {**kwargs, "closure": measured_closure}
        finally:
            self._tally.own_seconds += self._clock() - started

    def _take(self, optimizer: Any) -> None:
        if self._has_stepped:
            return
        self._has_stepped = True
        moment = self._moment
        try:
            with torch.no_grad():
                if not self._is_measured:
                    self._refresh()
                moment.scale = getattr(optimizer, "grad_scale", None)
                if (found := getattr(optimizer, "found_inf", None)) is not None:
                    moment.send(FOUND_INF, found.clone())
                moment.rates = [
                    rate.clone() if isinstance(rate := one["lr"], Tensor) else rate for one in optimizer.param_groups
                ]
                self._measure()
                self._ask("at_step")
        except Exception as problem:  # as for a collector
            self._say_once("the vitals of step %d could not be taken: %s", moment.step, problem)

    def _measure(self) -> None:
        if not self._is_measured:
            self._is_measured = True
            self._ask("before")

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        started = self._clock()
        if self._has_stepped:
            with torch.no_grad():
                self._ask("after")
        self._tally.own_seconds += self._clock() - started

    def _collected(self, moment: Moment) -> dict[str, float]:
        with torch.no_grad():
            self._ask("close")
        if not any(one.is_due for one in self._collectors):
            self._tally.skipped += moment.is_skipped
            if (found := moment.sent(FOUND_INF)) is not None:
                self._found_before.append(found)
            return {}
        if self._found_before:
            moment.send(FOUND_BEFORE, torch.stack(self._found_before).gt(0).sum())
            self._found_before.clear()
        try:
            moment.read()
        except Exception as problem:  # as for a collector
            self._say_once("the vitals of step %d could not be read: %s", moment.step, problem)
            return {}
        moment.is_skipped |= any(moment.received(FOUND_INF))
        self._tally.skipped += moment.is_skipped + int(sum(moment.received(FOUND_BEFORE)))
        metrics: dict[str, float] = {}
        self._owed.clear()
        for one in self._collectors:
            if one.is_due and moment.is_skipped and not one.on_skipped:
                self._owed.add(one.name)
            elif one.is_due:
                metrics |= self._call(one, one.report)
        if self._failed:
            metrics["collector/failed"] = float(len(self._failed))
        return metrics

    def _ask(self, method: str) -> None:
        for one in self._collectors:
            if one.is_due:
                self._call(one, getattr(one, method))

    def _show(self, what: object) -> None:
        started = self._clock()
        with torch.no_grad():
            for one in self._collectors:
                if one.is_due:
                    self._call(one, partial(one.shown, what=what))
        self._tally.own_seconds += self._clock() - started

    def _call(self, one: Collector, what: Callable[[Moment], Iterable[tuple[str, float]] | None]) -> dict[str, float]:
        try:
            return dict(what(self._moment) or ())
        except Exception as problem:  # whatever it is: a training is not ended by what only looks at it
            one.is_due = False
            self._failed.add(one.name)
            logger.warning("the collector `%s` is off from step %d on: %s", one.name, self._moment.step, problem)
            return {}

    def _say_once(self, message: str, *values: object) -> None:
        if message not in self._said:
            self._said.add(message)
            logger.warning(message, *values)


class _Timed(Generic[Batch]):
    """Batches, with the time that each is waited for."""

    def __init__(self, batches: Iterable[Batch], tally: Tally, clock: Callable[[], float]) -> None:
        self._batches, self._tally, self._clock = batches, tally, clock

    def __iter__(self) -> Iterator[Batch]:
        started = self._clock()
        for batch in self._batches:
            self._tally.data_seconds += self._clock() - started
            yield batch
            started = self._clock()

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]


def _unscale(scaler: Any, optimizer: Any) -> None:
    try:
        scaler.unscale_(optimizer)
    except RuntimeError as problem:
        if "already been called" not in str(problem):
            raise


def _check(every: Mapping[str, Cadence], log_every: int, off: Collection[str]) -> None:
    known = collectors()
    for name in [*every, *off]:
        if name not in known:
            raise UsageError(f"there is no collector `{name}`; there are {', '.join(known)}")
    for name, cadence in [*every.items(), ("log_every", log_every)]:
        is_steps = isinstance(cadence, int) and not isinstance(cadence, bool) and cadence >= 1
        is_time = isinstance(cadence, timedelta) and cadence > timedelta(0) and name != "log_every"
        if not is_steps and not is_time:
            raise UsageError(f"the cadence of `{name}` is {cadence!r}: give steps, at least 1, or a timedelta")
