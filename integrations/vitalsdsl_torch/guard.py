"""Guard: what a training loop calls after each update, and where rules may act on it."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from vitalsdsl.control import CONTROL_VARIABLE, Control, control_of, is_folder
from vitalsdsl.errors import UsageError
from vitalsdsl.policy import LoadedPolicy, as_policy
from vitalsdsl.tracker import Port
from vitalsdsl_torch.acting import Acting
from vitalsdsl_torch.contents import Contents, Stateful
from vitalsdsl_torch.data import Seekable
from vitalsdsl_torch.exits import Ended
from vitalsdsl_torch.history import History
from vitalsdsl_torch.limits import Limits
from vitalsdsl_torch.mailbox import Mailbox
from vitalsdsl_torch.progress import Progress
from vitalsdsl_torch.rate import RateFactor
from vitalsdsl_torch.requests import Desk
from vitalsdsl_torch.ring import PROBATION, Ring
from vitalsdsl_torch.rules import Rules, longest_span
from vitalsdsl_torch.training import Training

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("vitalsdsl")

ACTIONS = ("checkpoint", "detail", "lr", "pause", "rollback", "stop")
"""What a guard can do, by the names that policies use; `detail` is `request("detail", steps: …)`."""

_LEAST_PROBATION = 100


class Guard:
    """A training in one process, its checkpoints, and what may be done to it.

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
    batches after the one at which the rule tripped, and for `grace` steps only NaN and infinity are acted on. `limits`
    bound all that.

    A pause saves and ends the process with exit code 75; with `hold` it waits in place for `vitals resume RUN`, at most
    that many seconds. Where there is a control folder, a run that was paused waits for that word, started again or not;
    without one, starting it again is the word. A stop saves and ends it with code 0. Nothing else is raised
    into the loop: whatever fails here is logged once, and training goes on.

    Raises UsageError for what cannot work: more than one process, a folder that another process uses, states that are
    not plain data, checkpoints of another model. Raises PolicyError where the policy has errors, StateError where there
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
        limits: Limits | None = None,
        hold: float | None = None,
        poll: float = 1.0,
        total_steps: float = math.nan,
        ports: Sequence[Port] = (),
        start: int = 0,
    ) -> None:
        _check_alone()
        _check_words(allow)
        for name, number in (("every", every), ("keep", keep), ("milestone", milestone)):
            if number < 1:
                raise UsageError(f"`{name}` must be 1 or more, not {number}")
        if data is not None and not isinstance(data, Seekable):
            raise UsageError("`data` needs `position` and `skip_to`: wrap a loader as vitalsdsl_torch.Batches(loader)")
        loaded = as_policy(policy) if policy is not None else None
        root = Path(folder).absolute()
        root.mkdir(parents=True, exist_ok=True)
        self.run = run or root.name
        channel = _channel(run, root, control, poll)
        if hold is not None and channel is None:
            raise UsageError(f"to hold a pause takes a control channel: control=, or {CONTROL_VARIABLE}")
        if loaded is None and channel is None:
            raise UsageError(f"without a policy a guard takes a control channel: control=, or {CONTROL_VARIABLE}")
        optimizers = tuple(optimizer) if isinstance(optimizer, (list, tuple)) else (optimizer,)
        named = {"scheduler": scheduler, "scaler": scaler}
        others = {name: value for name, value in named.items() if value is not None} | dict(extra or {})
        contents = Contents(model, optimizers, others)
        self._lock = _Lock(root)
        history = History(root / "history.jsonl")
        self._desk = Desk(history, channel, poll)
        span = longest_span(loaded) if loaded is not None else 0
        waits = max(span, _LEAST_PROBATION) if probation is None else probation
        ring = Ring(root / "checkpoints", history, every=every, keep=keep, milestone=milestone, probation=waits, margin=margin)  # fmt: skip
        may = ACTIONS if dry_run else allow
        rules = (
            Rules(loaded, self.run, root, history, [*ports, self._desk.inbox], may, total_steps)
            if loaded is not None
            else None
        )
        self._training = Training(
            contents, data, RateFactor(optimizers), ring, history, Progress(root / "progress"), rules
        )
        self._acting = Acting(
            self._training, self._desk, limits or Limits(), allow,
            dry_run=dry_run, skip=skip, grace=grace, hold=hold, poll=poll, leave=self.close,
        )  # fmt: skip
        self._is_off = self._is_closed = False
        try:
            self._training.restart(start)
            self._acting.begin()
        except BaseException:
            self.close()
            raise

    # ---------------------------------------------------------------- in the loop

    def steps(self, total: int) -> Iterator[int]:
        """The numbers of the steps to train, up to `total` and that one too; after a rollback they go on from where the
        run is then. At the end the run is saved and closed. A step for which `step` is not called comes again."""
        try:
            while not self.is_over(total):
                yield self.done + 1
            self.save()
        finally:
            self.close()

    def is_over(self, total: int) -> bool:
        """Whether all steps are trained, and nothing lies in the control folder that would change that: it is looked
        there, and what is asked is done, as in `step`."""
        if self.done >= total:
            self._guarded(self._acting.take, 0, True)
        return self.done >= total

    def step(self, metrics: Mapping[str, object]) -> None:
        """An update is made and gradients are cleared: judge its metrics, do what is asked, save where one is due.

        Raises Paused and Stopped, where that is asked and allowed, and BrokenOff; they are all `SystemExit`.
        """
        self._training.advance()
        self._guarded(self._boundary, metrics)

    def save(self) -> None:
        """A checkpoint of now, unless there is one: as at the end of `steps`. A disk that takes none is told of."""
        self._guarded(self._save)

    def _boundary(self, metrics: Mapping[str, object]) -> None:
        training = self._training
        training.remember()
        step, attempt = training.done, training.history.attempt
        expected = training.rules.log(metrics, step) if training.rules is not None else 0
        training.ring.settle(step)  # so that what is chosen now is judged by what is known now
        self._acting.take(expected)
        if training.history.attempt != attempt:
            return
        training.pass_over()
        if training.ring.is_due(step):
            self._save()
        training.ring.settle(step)

    def _save(self) -> None:
        try:
            self._training.save(PROBATION)
        except OSError as error:
            logger.warning("vitals: no checkpoint after step %d: %s", self.done, error.strerror or error)

    def _guarded(self, act: Any, *arguments: Any) -> None:
        if self._is_off or self._is_closed:
            return
        try:
            act(*arguments)
        except Ended:
            raise
        except Exception:  # a guard must never end a training run
            self._is_off = True
            logger.exception("vitals: the guard of run %s failed and is off; training goes on", self.run)

    # ---------------------------------------------------------------- what it knows

    @property
    def done(self) -> int:
        """How many updates are in the model: the number of the newest step that counts."""
        return self._training.done

    @property
    def attempt(self) -> int:
        """How often the run went back: the `segment` that requests have to name."""
        return self._training.history.attempt

    @property
    def detail(self) -> bool:
        """Whether the next step is one of which more is to be measured, since a rule asked for `detail`."""
        return self.detail_steps > 0

    @property
    def detail_steps(self) -> int:
        """How many of the steps to come are those of which more is to be measured: what `Vitals.follow` reads."""
        return max(0, self._acting.detail_until - self.done)

    @property
    def skipped(self) -> list[tuple[int, int]]:
        """The stretches of batches (first, and the one after the last) that are not in the model: trained and taken
        back by a rollback, or passed over after it."""
        return list(self._training.history.skipped)

    @property
    def metrics(self) -> dict[str, float]:
        """What is worth logging beside the training's own metrics: `vitals/attempt` and `vitals/lr_factor`."""
        return {"vitals/attempt": float(self.attempt), "vitals/lr_factor": self._training.rate.factor}

    def health(self, step: int, attempt: int) -> str:
        """What is known now of the state after a step of an attempt, wherever it may be kept: `probation`, `healthy` or
        `suspect`, as of a checkpoint; `taken back` where a rollback has gone behind it."""
        return self._training.ring.health(step, attempt, self.done)

    def pin(self, checkpoint: str) -> None:
        """Keep a checkpoint, by its id (`step-00000500-0`), for good. Raises UsageError where there is none."""
        if all(one.id != checkpoint for one in self._training.ring.all):
            raise UsageError(f"there is no checkpoint `{checkpoint}`")
        self._training.history.note({"type": "pin", "checkpoint": checkpoint})

    def close(self) -> None:
        """The run is over in this process: the last step closes, what is queued is finished within ten seconds."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._training.rules is not None:
                self._training.rules.finish()
        except Exception:  # as in the loop
            logger.exception("vitals: the end of run %s was not seen to", self.run)
        self._desk.close()
        self._training.close()
        self._lock.close()


def _check_alone() -> None:
    spread = torch.distributed
    ranks = spread.get_world_size() if spread.is_available() and spread.is_initialized() else 1
    said = os.environ.get("WORLD_SIZE", "")
    if ranks > 1 or said.isdigit() and int(said) > 1:
        raise UsageError(f"a guard acts in a training of one process, and this is one of {max(ranks, int(said or 0))}")


def _check_words(allow: Collection[str]) -> None:
    words = [allow] if isinstance(allow, str) else list(allow)
    for word in words:
        if word not in ACTIONS or isinstance(allow, str):
            raise UsageError(
                f"`allow` takes some of {', '.join(ACTIONS)}, not {word!r}" + " alone" * isinstance(allow, str)
            )


def _channel(run: str | None, root: Path, control: str | os.PathLike[str] | None, poll: float) -> Control | None:
    """The control channel, if there is one. A folder is looked at between two steps, a tracker by a thread."""
    where = os.fspath(control or os.environ.get(CONTROL_VARIABLE, ""))
    if not where:
        return None
    if is_folder(where):
        return control_of(run or root.name, where)
    if run is None:
        raise UsageError(f"with `{where}` as its control channel a guard has to know the tracker's own id: run=RUN_ID")
    return Mailbox(control_of(run, where), poll)


class _Lock:
    """A folder for one guard alone, as long as its process lives. Processes that this one forks (a loader's workers) do
    not share it: they may outlive it for a while, and must not keep the run from being started again."""

    _held: set[Path] = set()

    def __init__(self, root: Path) -> None:
        self._root = root
        if root in self._held:
            raise UsageError(f"another guard of this process trains in {root}")
        self._file = (root / "lock").open("a")
        try:
            if fcntl is not None:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            self._file.close()
            raise UsageError(f"another process trains in {root}") from None
        except OSError:  # a file system without locks
            logger.debug("vitals: %s cannot be locked", root)
        self._held.add(root)

    def close(self) -> None:
        self._held.discard(self._root)
        self._file.close()
