"""The vitals of a torch training, measured around each optimizer step."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from vitalsdsl.ground.errors import UsageError
from vitalsdsl_torch.clipping import clip, total_norm, unscale
from vitalsdsl_torch.collectors.base import Cadence, Collector, collectors
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.parameters import Parameter, trained
from vitalsdsl_torch.collectors.shards import Split, local, splits
from vitalsdsl_torch.collectors.tally import Batch, Number, Tally, Timed
from vitalsdsl_torch.collectors.watched import Watched
from vitalsdsl_torch.contents import check_hooks
from vitalsdsl_torch.exchange import Exchange, failure_of
from vitalsdsl_torch.pacing import Follows, Pace, check_cadences
from vitalsdsl_torch.shows import Shows

logger = logging.getLogger("vitalsdsl")

_TOLD = ("skipped", "detail steps", "detail every", "tokens", "samples")
"""What each rank tells the others, beside what collectors tell and whether they failed."""

_POINTS = 20
"""How often what a guard asks for is measured in the steps for which it asks."""

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
    `timedelta`; `log_every` those of each logged step: loss, gradient norm, learning rate and the like, at the first and
    each fiftieth. A rule sees nothing between two points: where rules count single steps, set it to 1. Collectors in
    `off` are not made at all.

    It never changes the training: parameters are the same bit for bit with and without it. But for a wrong argument
    nothing of it raises inside the loop: a collector that fails is switched off with one line in the log, and
    `collector/failed` counts those. The device is waited for once at a step at which anything is due, and not at others.

    With several ranks, make it on all of them alike and call its methods at the same steps: loss, tokens and samples are
    those of all ranks of `process_group` (all there are), with `over_ranks=False` of this rank. What is said of parameters
    is that of whole ones, also where they are sharded (FSDP2, tensor parallel).

    One optimizer is watched; parameters of it that are not the model's count as `other`.

    Raises UsageError for an unknown collector, a cadence that is none, a process group where there is none, torch before
    2.6, and a wrapped optimizer that takes no hooks: give the one inside.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        scaler: Any | None = None,
        every: Mapping[str, Cadence] | None = None,
        log_every: int = 50,
        off: Collection[str] = (),
        process_group: Any | None = None,
        over_ranks: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not hasattr(nn.utils, "clip_grads_with_norm_"):
            raise UsageError(f"torch {torch.__version__} is too old to measure vitals: 2.6 or newer is needed")
        check_cadences(every := dict(every or {}), log_every, off)
        check_hooks(optimizer)
        self._scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self._watched = Watched(model, optimizer, self._scaler)
        self._clock = clock
        self._tally = Tally(clock)
        made = {name: one for name, one in collectors().items() if name not in off}
        self._collectors = [one(self._watched) for one in made.values()]
        self._pace = Pace(made.values(), every, log_every, clock)
        is_sharded = any(hasattr(one, "placements") for one in model.parameters())
        columns = [*_TOLD, *sorted({name for one in collectors().values() for name in one.told})]
        columns += map(failure_of, collectors())
        setting = (log_every, sorted(every.items()), [*made], is_sharded)
        self._exchange = Exchange(process_group, over_ranks, is_sharded, columns, setting)
        if self._exchange.ranks > 1:
            self._pace.check_agreement()
        self._failed: set[str] = set()
        self._owed: set[str] = set()
        self._scheduled: list[Collector] = []
        self._wish = (0, 0)
        self._guard: Follows | None = None
        self._splits: tuple[Split, ...] = ()
        self._parameters: tuple[Parameter, ...] = ()
        self._held: list[int] = []
        self._found_before: list[Tensor] = []
        self._said: set[str] = set()
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
        With an infinite `max_norm` they are left as they are, also those that hold infinity. If sharded, all ranks call it.

        Raises UsageError for a `max_norm` that is negative or NaN, and RuntimeError where `error_if_nonfinite` asks for it.
        """
        if not max_norm >= 0:
            raise UsageError(f"max_norm is {max_norm}: it must be 0 or more")
        if self._scaler is not None:
            unscale(self._scaler, self._watched.optimizer)
        moment = self._moment
        with torch.no_grad():
            self._refresh()
            total = total_norm(moment)
            if error_if_nonfinite and not torch.isfinite(total):
                raise RuntimeError("the norm of the gradients is not finite, so they cannot be clipped")
            self._measure()
            if max_norm < math.inf:
                moment.max_norm = max_norm
                clip(moment, max_norm, total)
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
        """Measure what tells groups and layers apart more often, for so many steps from the next measured on.

        Where ranks exchange, one asks for all: from the step after the next exchange on.
        """
        if steps < 1 or every < 1:
            raise UsageError("detail needs at least one step, and a cadence of at least one")
        if self._exchange.ranks > 1:
            self._wish = (steps, every)
            return
        self._pace.look_closely(self._moment.step + self._is_measured, steps, every)
        if not self._is_measured:
            for one in self._collectors:
                one.is_due |= one.is_detail and one.name not in self._failed

    def follow(self, guard: Follows) -> None:
        """Give detail while rules ask the guard for it (`request("detail", steps: N)`): about twenty times in those steps."""
        self._guard = guard

    def loader(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """The same batches, a loader or a guard's data; the time spent in waiting for each counts as `data_time`."""
        self._tally.has_loader = True
        return Timed(batches, self._tally)

    def state_dict(self) -> dict[str, float]:
        """The counters, to be saved with a checkpoint, by one rank or by each. Waits for the device where they are there.

        With several ranks those of all at the last exchange, and since then as though all had counted what this one has.
        """
        own = {name: float(number) for name, number in self._tally.totals.items()}
        return {"step": self._moment.step - 1} | self._exchange.totals(own)

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Go on counting from a checkpoint; with several ranks on each of them."""
        self._tally.totals = self._exchange.share({name: one for name, one in state.items() if name != "step"})
        self._tally.spans.clear()
        self._begin(int(state["step"]) + 1)

    def detach(self) -> None:
        """Take all hooks off the model and the optimizer; `step` then has nothing to say of either."""
        for handle in self._watched.handles:
            handle.remove()
        self._watched.handles.clear()

    def _begin(self, step: int) -> None:
        self._moment = Moment(step, self._parameters, self._tally, self._splits)
        self._watched.step = step
        self._tally.next_step()
        self._is_measured = self._has_stepped = False
        due = self._pace.due_by_number(step) | self._owed
        # Clocks differ: where ranks exchange, what is due by time waits for a step that is due on all of them.
        if due or self._exchange.ranks == 1:
            due |= self._pace.due_by_time()
        for one in self._collectors:
            one.is_due = one.name in due and one.name not in self._failed
        # Also what failed here: the other ranks may not know yet.
        self._scheduled = [one for one in self._collectors if one.name in due]

    def _refresh(self) -> None:
        """Know the parameters anew where some joined the optimizer, or were frozen or thawed, since the last step."""
        held = [id(p) for group in self._watched.optimizer.param_groups for p in group["params"] if p.requires_grad]
        if held != self._held:
            self._held = held
            self._parameters = trained(self._watched.model, self._watched.optimizer)
            self._splits = splits([one.tensor for one in self._parameters])
            self._moment.parameters, self._moment.splits = self._parameters, self._splits

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
            steps = self._guard.detail_steps if self._guard is not None else 0
            if steps and not self._pace.is_close(self._moment.step):
                self.detail(steps, max(1, steps // _POINTS))
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
        if not self._scheduled and not any(one.is_due for one in self._collectors):
            self._tally.skipped += moment.is_skipped
            if (found := moment.sent(FOUND_INF)) is not None:
                self._found_before.append(found)
            return {}
        if self._found_before:
            moment.send(FOUND_BEFORE, torch.stack(self._found_before).gt(0).sum())
            self._found_before.clear()
        try:
            with torch.no_grad():
                self._share(moment)
                moment.read()
        except Exception as problem:  # as for a collector
            self._say_once("the vitals of step %d could not be read: %s", moment.step, problem)
            return {}
        self._hear(moment)
        metrics: dict[str, float] = {}
        self._owed.clear()
        for one in self._collectors:
            if moment.is_skipped and not one.on_skipped and (one.is_due or one in self._scheduled):
                self._owed.add(one.name)
            elif one.is_due and one.name not in self._failed:
                metrics |= self._call(one, one.report)
        if self._failed:
            metrics["collector/failed"] = float(len(self._failed))
        return metrics

    def _share(self, moment: Moment) -> None:
        """Exchange with the other ranks. All of them come here at the same steps, and with as many numbers."""
        found = moment.sent(FOUND_INF)
        row = dict(zip(_TOLD, (float(moment.is_skipped) if found is None else found, *map(float, self._wish))))
        row |= dict(self._tally.totals) | moment.told | dict.fromkeys(map(failure_of, self._failed), 1.0)
        device = local(self._parameters[0].tensor).device if self._parameters else torch.device("cpu")
        if self._exchange.tell(moment, row, device):
            self._wish = (0, 0)
        elif self._splits:  # without the others there is no sum
            self._failed |= {one.name for one in self._collectors if one.summed}
            self._say_once("nothing is measured of sharded parameters from step %d on", moment.step)
            return
        moment.add_up({key: columns for one in self._scheduled for key, columns in one.summed.items()})

    def _hear(self, moment: Moment) -> None:
        rows = self._exchange.heard(moment)
        moment.is_skipped |= any(moment.received(FOUND_INF)) or any(row["skipped"] for row in rows)
        self._tally.skipped += moment.is_skipped + int(sum(moment.received(FOUND_BEFORE)))
        if steps := max((int(row["detail steps"]) for row in rows), default=0):
            cadence = min(int(row["detail every"]) for row in rows if row["detail every"])
            self._pace.look_closely(moment.step + 1, steps, cadence)
        for one in self._collectors:
            if one.name not in self._failed and any(row[failure_of(one.name)] for row in rows):
                self._failed.add(one.name)
                logger.warning("the collector `%s` is off: it failed on another rank, step %d", one.name, moment.step)

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
