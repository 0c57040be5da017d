"""Guard: what a training loop calls after each update, and where rules may act on it."""

from __future__ import annotations

import contextlib
import inspect
import logging
import math
import numbers
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vitalsdsl.acting.control import CONTROL_VARIABLE
from vitalsdsl.acting.tracker import Port
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.policies.policy import LoadedPolicy, as_policy
from vitalsdsl_torch.acting import Acting
from vitalsdsl_torch.arguments import ACTIONS, channel_of, check, check_numbers, told
from vitalsdsl_torch.contents import Contents, Stateful, beside
from vitalsdsl_torch.data import Seekable
from vitalsdsl_torch.exits import BrokenOff, Ended
from vitalsdsl_torch.history import History
from vitalsdsl_torch.limits import Limits
from vitalsdsl_torch.lock import Lock
from vitalsdsl_torch.member import Member
from vitalsdsl_torch.progress import Progress
from vitalsdsl_torch.ranks import Switched, ranks_of
from vitalsdsl_torch.rate import RateFactor
from vitalsdsl_torch.requests import Desk
from vitalsdsl_torch.ring import PROBATION, Ring
from vitalsdsl_torch.rules import Rules, longest_span
from vitalsdsl_torch.training import Training

logger = logging.getLogger("vitalsdsl")

_LEAST_PROBATION = 100
_NOTHING: Mapping[str, object] = MappingProxyType({})
_OF_THE_TRAINER = {"self", "policy", "folder", "model", "optimizer", "scheduler", "scaler", "data", "start"}


class Guard:
    """A training, its checkpoints, and what may be done to it.

    Made after model, optimizer and data, it takes up where an earlier process left off: from the newest checkpoint in
    `folder` that is complete and sound. Then, in the loop:

        for step in guard.steps(10_000):
            loss = train_on(next(data))            # forward, backward, optimizer.step(), scheduler.step(), zero_grad()
            guard.step({"loss": loss.item()})

    `policy` (a file, `pack:NAME`, or one that was loaded; None: requests come from `control` only) is judged at each
    step. Out of the box its rules only notify; `allow=("pause", "rollback")` lets them, and the control folder, do that:
    of `checkpoint`, `detail`, `lr`, `pause`, `rollback`, `stop` the first two change nothing and need no leave. A
    rollback that is not allowed, or not possible, is a pause where that is. With `dry_run` it is only said what would be done.

    `scheduler`, `scaler` and the objects in `extra` (averaged weights, counts) are anything with `state_dict`; `data`
    is something with `position` and `skip_to(position)`, such as `Batches`. Steps are counted from 1; a checkpoint at
    step 500 holds 500 updates. `start` is how many updates the model holds where there is no checkpoint yet: those of a
    training that went on from a checkpoint of somebody else's.

    In `folder` lie the checkpoints, what was done to the run (`history.jsonl`) and dispatch's journal. The
    run's name, by which `vitals requests` and `vitals resume` know it, is the folder's unless `run` gives another.

    Checkpoints: one each `every` steps, of which `keep` are kept, and for good one each `milestone` steps. One is
    healthy when `probation` steps later (by default the longest `for` of the policy, 100 at least) no rule has had its
    onset within `margin` steps before it or since. Rollback: to the newest healthy one; the data goes on `skip` steps'
    batches after the one at which the rule tripped, and for `grace` steps only NaN and infinity are acted on. Over the
    first `rewarm` updates the learning rate grows in equal steps to what it is to be. `limits` bound all that. With `background` a checkpoint that is due is copied to the CPU and written while training goes on.

    Of several processes (DistributedDataParallel, `fully_shard`) each makes a guard, after `init_process_group`, and calls
    `step` after each update. Rank 0 decides; what it does is done on all at the same step, and what one of them finds
    not finite counts as if rank 0 had. `folder` is one that all of them see. Where a rank is gone, or does not answer
    for `rank_timeout` seconds, the others end with exit code 76: started again, the run goes on from disk.

    A pause saves and ends the process with exit code 75; with `hold` it waits in place for `vitals resume RUN`, at most
    that many seconds. Where there is a control folder, a run that was paused waits for that word, started again or not;
    without one, starting it again is the word. A stop saves and ends it with code 0. Nothing else is raised
    into the loop: whatever fails here is logged once, and training goes on.

    Raises UsageError for what cannot work: a folder that another run uses, states that are not plain data, checkpoints
    of another model, ranks that differ; all ranks do. Raises PolicyError where the policy has errors, StateError where there
    are checkpoints and none can be used.
    """

    def __init__(
        self,
        policy: str | os.PathLike[str] | LoadedPolicy | None,
        folder: str | os.PathLike[str],
        *,
        model: Any,
        optimizer: Any,
        scheduler: Stateful | None = None,
        scaler: Stateful | None = None,
        data: Seekable | None = None,
        extra: Mapping[str, Stateful] | None = None,
        run: str | None = None,
        control: str | os.PathLike[str] | None = None,
        allow: Collection[str] = (),
        dry_run: bool = False,
        every: int = 500,
        keep: int = 5,
        milestone: int = 5_000,
        probation: int | None = None,
        margin: int = 100,
        skip: int = 200,
        grace: int = 50,
        rewarm: int = 0,
        limits: Limits | None = None,
        hold: float | None = None,
        poll: float = 1.0,
        total_steps: float = math.nan,
        ports: Sequence[Port] = (),
        start: int = 0,
        background: bool = False,
        rank_timeout: float = 1_800.0,
    ) -> None:
        self._ranks = ranks_of(model, rank_timeout)
        self._is_off = self._is_closed = False
        self._look: Callable[[], Any] | None = None
        self._closing = contextlib.ExitStack()
        root = Path(folder).absolute()
        self.run = run or root.name
        problem: Exception | None = None
        try:
            check(allow, data)
            check_numbers(numbers.Integral, every=every, keep=keep, milestone=milestone)
            check_numbers(
                numbers.Integral, 0,
                margin=margin, skip=skip, grace=grace, rewarm=rewarm, start=start, probation=probation or 0,
            )  # fmt: skip
            check_numbers(numbers.Real, 0, poll=poll, hold=hold or 0)
            optimizers = tuple(optimizer) if isinstance(optimizer, (list, tuple)) else (optimizer,)
            named = {"scheduler": scheduler, "scaler": scaler}
            others = beside({name: value for name, value in named.items() if value is not None}, extra)
            contents = Contents(model, optimizers, others)
            self._member = Member(contents, data, RateFactor(optimizers), self._ranks, root)
            self._closing.callback(_see_to, self._member.settle)
            if self._ranks.leads:
                loaded = as_policy(policy) if policy is not None else None
                root.mkdir(parents=True, exist_ok=True)
                channel = channel_of(run, root, control, poll)
                if hold is not None and channel is None:
                    raise UsageError(f"to hold a pause takes a control channel: control=, or {CONTROL_VARIABLE}")
                if loaded is None and channel is None:
                    raise UsageError(
                        f"without a policy a guard takes a control channel: control=, or {CONTROL_VARIABLE}"
                    )
                self._lock = Lock(root)
                self._closing.callback(self._lock.close)
                history = History(root / "history.jsonl")
                self._closing.callback(history.close)
                desk = Desk(history, channel, poll)
                self._closing.callback(desk.close)
                span = longest_span(loaded) if loaded is not None else 0
                waits = max(span, _LEAST_PROBATION) if probation is None else probation
                ring = Ring(root / "checkpoints", history, every=every, keep=keep, milestone=milestone, probation=waits, margin=margin)  # fmt: skip
                may = ACTIONS if dry_run else allow
                rules = (
                    Rules(loaded, self.run, root, history, [*ports, desk.inbox], may, total_steps)
                    if loaded is not None
                    else None
                )
                if rules is not None:
                    self._closing.callback(_see_to, rules.finish)
                progress = Progress(root / "progress")
                self._closing.callback(progress.close)
                self._training = Training(
                    self._member, self._ranks, ring, history, progress, rules, background, total_steps, rewarm
                )
                self._acting = Acting(
                    self._training, desk, limits or Limits(), allow, self.run,
                    dry_run=dry_run, skip=skip, grace=grace, hold=hold, poll=min(poll, rank_timeout / 3), leave=self.close,
                )  # fmt: skip
        except Exception as error:
            problem = told(error, root)
        self._begin(problem, root, start)

    def _begin(self, problem: Exception | None, root: Path, start: int) -> None:
        """Come to where the run is, on all ranks, or raise on all of them."""
        try:
            self._ranks.agree(problem)
            try:
                self._ranks.together(self._member, lambda: self._start(root, start))
            except Switched:
                pass  # why, says the rank on which it failed
            except Exception as error:
                problem = told(error, root)
            self._ranks.agree(problem)
        except BaseException:
            self.close()
            raise

    def _start(self, root: Path, start: int) -> None:
        self._ranks.check(self._member, root / "checkpoints")
        self._training.restart(start)
        self._acting.begin()

    # ---------------------------------------------------------------- in the loop

    def steps(self, total: int) -> Iterator[int]:
        """The numbers of the steps to train, up to `total` and that one too; after a rollback they go on from where the
        run is then. At the end the run is saved and closed. A step for which `step` is not called comes again; the first
        time that is said, since a loop that never calls it does not end."""
        if self._ranks.leads and math.isnan(self._training.planned):
            self._training.planned = total
        told = None
        try:
            while not self.is_over(total):
                lived = self._member.lived
                yield self.done + 1
                if told is None and self._member.lived == lived:
                    told = self.done + 1
                    logger.warning("vitals: `step` was not called for step %d, which comes again", told)
            self.save()
        finally:
            self.close()

    def is_over(self, total: int) -> bool:
        """Whether all steps are trained, and nothing lies in the control folder that would change that: it is looked
        there, and what is asked is done, as in `step`."""
        if self.done >= total:
            self._guarded(lambda *_: self._acting.take(at_once=True))
        return self.done >= total

    def step(self, metrics: Mapping[str, object]) -> None:
        """An update is made and gradients are cleared: judge its metrics, do what is asked, save where one is due.

        Of several ranks each calls it, after each update: what the first one says is judged, and of the others what is not
        finite. Raises Paused and Stopped, where that is asked and allowed, and BrokenOff; they are all `SystemExit`.
        """
        self._member.advance()
        self._guarded(self._boundary, metrics)

    def save(self) -> None:
        """A checkpoint of now, unless there is one: as at the end of `steps`. A disk that takes none is told of."""
        self._guarded(lambda *_: self._save(self._training.save))

    def _boundary(self, metrics: Mapping[str, object], position: int) -> None:
        training = self._training
        training.remember(position)
        training.take_in()
        step, attempt = training.done, training.history.attempt
        expected = training.rules.log(metrics, step) if training.rules is not None else 0
        training.ring.settle(step)  # so that what is chosen now is judged by what is known now
        self._acting.take(expected)
        if training.history.attempt != attempt:
            return
        if training.ring.is_due(step):
            self._save(training.begin_save)
        training.ring.settle(step)

    def _save(self, save: Callable[[str], object]) -> None:
        try:
            save(PROBATION)
        except OSError as error:
            logger.warning("vitals: no checkpoint after step %d: %s", self.done, error.strerror or error)

    def _guarded(self, lead: Callable[[Mapping[str, object], int], None], metrics: Mapping[str, object] = _NOTHING) -> None:  # fmt: skip
        """All ranks meet, and the first one decides. Where anything fails the guard is off, on all of them."""
        if self._is_off or self._is_closed:
            return
        self._meet(lead, metrics)

    def _meet(self, lead: Callable[[Mapping[str, object], int], None], metrics: Mapping[str, object]) -> None:
        try:
            position, heard = self._ranks.meet(self._member, metrics)
            self._member.pass_over()
            self._ranks.together(self._member, lambda: self._led(lead, heard, position))
        except BrokenOff:
            self._member.abandon()
            self.close()
            raise
        except Ended:
            self.close()
            raise
        except Switched as why:
            self._is_off = True
            logger.warning("vitals: the guard of run %s is off: %s; training goes on", self.run, why)
        except Exception:  # a guard must never end a training run
            self._is_off = True
            logger.exception("vitals: the guard of run %s failed and is off; training goes on", self.run)

    def _led(self, lead: Callable[[Mapping[str, object], int], None], metrics: Mapping[str, object], at: int) -> None:
        lead(metrics, at)
        said = self._look() if self._look is not None else None
        if said is not None:
            self._training.tell(said)

    # ---------------------------------------------------------------- for those who run it in a trainer

    def attend(self, look: Callable[[], Any], hear: Callable[[Any], None]) -> None:
        """From now on `look` is called on rank 0 when a boundary is done, and what it gives, unless that is None, is
        heard by `hear` on all ranks, before the guard returns. Whatever fails there switches the guard off."""
        self._look, self._member.hear = look, hear

    def settle(self) -> None:
        """Have `look` called between two boundaries, or when the run is closed: all ranks call this at the same place."""
        if not self._is_off:
            self._meet(lambda *_: None, _NOTHING)

    def fail(self) -> None:
        """Who runs the guard on this rank cannot go on: it is off, on all ranks once they meet the next time, where this
        one has to be as well."""
        self._member.has_failed = True
        self._is_off = self._ranks.count == 1

    # ---------------------------------------------------------------- what it knows

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which alone decides."""
        return self._ranks.leads

    @property
    def done(self) -> int:
        """How many updates are in the model: the number of the newest step that counts."""
        return self._member.done

    @property
    def attempt(self) -> int:
        """How often the run went back: the `segment` that requests have to name."""
        return self._member.attempt

    @property
    def detail(self) -> bool:
        """Whether the next step is one of which more is to be measured, since a rule asked for `detail`."""
        return self.detail_steps > 0

    @property
    def detail_steps(self) -> int:
        """How many of the steps to come are those of which more is to be measured: what `Vitals.follow` reads."""
        return max(0, self._member.detail_until - self.done)

    @property
    def skipped(self) -> list[tuple[int, int]]:
        """The stretches of batches (first, and the one after the last) that are not in the model: trained and taken
        back by a rollback, or passed over after it."""
        return list(self._member.skipped)

    @property
    def metrics(self) -> dict[str, float]:
        """What is worth logging beside the training's own metrics: `vitals/attempt`, and `vitals/lr_factor` by which the
        learning rate is multiplied in the next update."""
        return {"vitals/attempt": float(self.attempt), "vitals/lr_factor": self._member.rate.factor}

    def health(self, step: int, attempt: int) -> str:
        """What is known now of the state after a step of an attempt, wherever it may be kept: `probation`, `healthy` or
        `suspect`, as of a checkpoint; `taken back` where a rollback has gone behind it. Raises UsageError but on rank 0."""
        if not self._ranks.leads:
            raise UsageError("what is known of checkpoints is known on rank 0")
        return self._training.ring.health(step, attempt, self.done)

    def pin(self, checkpoint: str) -> None:
        """Keep a checkpoint, by its id (`step-00000500-0`), for good: on rank 0, elsewhere it does nothing. Raises
        UsageError where there is none."""
        if not self._ranks.leads:
            return
        if all(one.id != checkpoint for one in self._training.ring.all):
            raise UsageError(f"there is no checkpoint `{checkpoint}`")
        self._training.history.note({"type": "pin", "checkpoint": checkpoint})

    def close(self) -> None:
        """The run is over in this process: the last step closes, what is queued is finished within ten seconds."""
        if self._is_closed:
            return
        self._is_closed = True
        self._closing.close()


def _see_to(act: Callable[[], object]) -> None:
    """Do something at the end. As in the loop, nothing is raised."""
    try:
        act()
    except Exception:
        logger.exception("vitals: the end of a run was not seen to")


def check_options(who: str, options: Collection[str]) -> None:
    """That all are arguments of `Guard` which are left to those who give a training away to a trainer. Raises
    UsageError in the name of `who` takes them."""
    known = inspect.signature(Guard.__init__).parameters.keys() - _OF_THE_TRAINER
    for name in options:
        if name not in known:
            raise UsageError(f"{who} has no argument `{name}`; it has {', '.join(sorted(known))}")
