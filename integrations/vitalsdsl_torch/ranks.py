"""The ranks of a training: one of them decides between two updates, and all do the same there, or end together."""

from __future__ import annotations

import logging
import math
import os
import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

import torch
from torch import distributed

from vitalsdsl.ground.errors import UsageError
from vitalsdsl.ground.points import number
from vitalsdsl_torch.contents import is_sharded
from vitalsdsl_torch.exits import BROKEN_OFF, PAUSED, BrokenOff, Ended, Paused, Stopped

logger = logging.getLogger("vitalsdsl")

GO_ON, ORDER, WAIT, OFF, END = range(5)
"""What the first rank may say: train on, an order follows, stay where you are, the guard is off, end with a code."""

_ENDS: Mapping[int, type[Ended]] = {PAUSED: Paused, 0: Stopped, BROKEN_OFF: BrokenOff}


class Boundary(NamedTuple):
    """Where a rank is between two updates, as it tells the others: eight bytes each. A guard that `failed` on one rank
    is off on all; where a metric is `odd` (not finite) on one, its metrics are asked for."""

    step: float
    position: float
    odd: float = 0.0
    failed: float = 0.0


class Switched(Exception):
    """The guard is off, since it failed on some rank; raised on all of them."""


class Failure(NamedTuple):
    """What an order came to where it raised something: the rank, the kind, and what is worth telling."""

    rank: int
    kind: str
    text: str

    def again(self) -> NoReturn:
        """Raised where the order was given, as what it was, as far as that matters."""
        text = f"rank {self.rank}: {self.text}"
        if self.kind == "usage":
            raise UsageError(text)
        if self.kind == "disk":
            raise OSError(text)
        raise RuntimeError(text)


class Ranks(Protocol):
    """What a guard needs of the ranks. `leads` is rank 0, which alone decides. `writing` is the process group in which a
    checkpoint is written, None where there is one rank."""

    rank: int
    count: int
    leads: bool
    writing: Any

    def meet(self, member: Any, metrics: Mapping[str, object]) -> tuple[int, Mapping[str, object]]:
        """All ranks tell where they are. Gives the furthest position, and the metrics with every rank's NaN in them.
        Raises Switched, and BrokenOff where the ranks are not at the same step."""
        ...

    def agree(self, error: Exception | None) -> None:
        """Raises on all ranks, as a UsageError, what went wrong on one."""
        ...

    def check(self, member: Any, folder: Path) -> None:
        """For the first rank: raises UsageError where another one has another model, or does not see the folder."""
        ...

    def together(self, member: Any, lead: Callable[[], Any]) -> None:
        """The first rank runs `lead`, the others do with `member` what it orders by `each` meanwhile. What ends `lead`
        ends it on all ranks: an `Ended` as such, anything else as Switched."""
        ...

    def each(self, member: Any, order: str, *arguments: Any) -> list[Any]:
        """Have all ranks call a method of their member, and give what each returned. Raises the first failure."""
        ...

    def wait(self) -> None:
        """Tell the others that the first rank is still there, while it waits on purpose."""
        ...


class Alone:
    """A training of one process: there is nobody to ask or to tell."""

    rank, count, leads, writing = 0, 1, True, None

    def meet(self, member: Any, metrics: Mapping[str, object]) -> tuple[int, Mapping[str, object]]:
        return int(member.position), metrics

    def agree(self, error: Exception | None) -> None:
        if error is not None:
            raise error

    def check(self, member: Any, folder: Path) -> None:
        """There is nobody to differ from."""

    def together(self, member: Any, lead: Callable[[], Any]) -> None:
        lead()

    def each(self, member: Any, order: str, *arguments: Any) -> list[Any]:
        return [getattr(member, order)(*arguments)]

    def wait(self) -> None:
        """Nobody waits with it."""


class Group:
    """Processes that talk in gloo groups of the guard's own, beside whatever the training itself sends.

    At a boundary each rank contributes one small vector, and the first one answers with two numbers: usually that
    training goes on. Where a rank does not answer within `timeout` seconds, or is gone, nothing can be decided together
    any more: BrokenOff, on each of those that are left.
    """

    def __init__(self, timeout: float) -> None:
        self.rank, self.count = distributed.get_rank(), distributed.get_world_size()
        self.leads = self.rank == 0
        span = timedelta(seconds=timeout)
        self._talking = distributed.new_group(backend="gloo", timeout=span)
        self.writing = distributed.new_group(backend="gloo", timeout=span)
        self._mine = torch.zeros(len(Boundary._fields), dtype=torch.float64)
        self._all = [torch.zeros_like(self._mine) for _ in range(self.count)]
        self._word = torch.zeros(2, dtype=torch.int64)
        self._is_lost = False

    def _talk(self, act: Any, *arguments: Any, **named: Any) -> None:
        try:
            act(*arguments, group=self._talking, **named)
        except Exception as error:  # whatever gloo raises where a connection ends or nothing comes
            logger.error("vitals: rank %d: a rank does not answer (%s): this process ends with code %d; started again, "
                         "the run goes on from its newest checkpoint", self.rank, _first_line(error), BROKEN_OFF)  # fmt: skip
            self._is_lost = True
            raise BrokenOff from None

    # ---------------------------------------------------------------- at a boundary

    def meet(self, member: Any, metrics: Mapping[str, object]) -> tuple[int, Mapping[str, object]]:
        self._mine.copy_(torch.tensor(self._here(member, metrics), dtype=torch.float64))
        self._talk(distributed.all_gather, self._all, self._mine)
        told = [Boundary(*one.tolist()) for one in self._all]
        failed = [at for at, one in enumerate(told) if one.failed]
        if failed:  # then its steps may be counted no more
            raise Switched(f"it failed on {_listed(failed)}")
        if len({one.step for one in told}) > 1:
            where = ", ".join(f"rank {at} at {one.step:.0f}" for at, one in enumerate(told))
            logger.error("vitals: the ranks are not at the same step (%s): the processes end with code %d", where, BROKEN_OFF)  # fmt: skip
            raise BrokenOff
        if any(one.odd for one in told):
            metrics = self._with_odd(metrics)
        return int(max(one.position for one in told)), metrics

    def _here(self, member: Any, metrics: Mapping[str, object]) -> Boundary:
        try:
            odd = not self.leads and bool(odd_ones(metrics))
            return Boundary(member.done, member.position, float(odd), float(member.has_failed))
        except Exception:  # the others must not wait for this rank
            logger.exception("vitals: the guard failed on rank %d", self.rank)
            return Boundary(member.done, 0, failed=1.0)

    def _with_odd(self, metrics: Mapping[str, object]) -> Mapping[str, object]:
        """The first rank's metrics, with what is not finite on another in the place of what is."""
        found = self._gathered(odd_ones(metrics))
        merged = dict(metrics)
        for odd in found[1:]:
            merged.update({name: value for name, value in odd.items() if name not in found[0]})
        return merged

    def _gathered(self, mine: Any) -> list[Any]:
        found: list[Any] = [None] * self.count
        self._talk(distributed.all_gather_object, found, mine)
        return found

    def agree(self, error: Exception | None) -> None:
        found = self._gathered("" if error is None else str(error) or type(error).__name__)
        if error is not None:
            raise error
        for rank, text in enumerate(found):
            if text:
                raise UsageError(f"rank {rank}: {text}")

    def check(self, member: Any, folder: Path) -> None:
        shapes = self.each(member, "shape")
        odd = [rank for rank, shape in enumerate(shapes) if shape != shapes[0]]
        if odd:
            raise UsageError(f"each rank has to have the whole model, or its shards: {_listed(odd)} has other parameters than rank 0")  # fmt: skip
        token = f"seen-by-all-{uuid.uuid4().hex}"
        path = folder / token
        path.touch()
        try:
            blind = [rank for rank, sees in enumerate(self.each(member, "sees", token)) if not sees]
        finally:
            path.unlink(missing_ok=True)
        if blind:
            raise UsageError(f"the folder has to be the same for all ranks, and {_listed(blind)} does not see what rank 0 writes in {folder}")  # fmt: skip

    # ---------------------------------------------------------------- one decides, all do

    def together(self, member: Any, lead: Callable[[], Any]) -> None:
        if not self.leads:
            self._follow(member)
            return
        try:
            lead()
        except Ended as ended:
            if not self._is_lost:
                self._say(END, int(ended.code or 0))
            raise
        except Exception:
            self._say(OFF)
            raise
        self._say(GO_ON)

    def _say(self, word: int, code: int = 0) -> None:
        self._word[0], self._word[1] = word, code
        self._talk(distributed.broadcast, self._word, 0)

    def each(self, member: Any, order: str, *arguments: Any) -> list[Any]:
        self._say(ORDER)
        self._talk(distributed.broadcast_object_list, [(order, arguments)], 0)
        found = self._gathered(self._done(member, order, arguments))
        for answer in found:
            if isinstance(answer, Failure):
                answer.again()
        return found

    def _follow(self, member: Any) -> None:
        while True:
            self._talk(distributed.broadcast, self._word, 0)
            word, code = self._word.tolist()
            if word == GO_ON:
                return
            if word == END:
                raise _ENDS[code]
            if word == OFF:
                raise Switched("it failed on rank 0")
            if word == ORDER:
                said: list[Any] = [None]
                self._talk(distributed.broadcast_object_list, said, 0)
                order, arguments = said[0]
                self._gathered(self._done(member, order, arguments))

    def _done(self, member: Any, order: str, arguments: Any) -> Any:
        """What an order comes to here. Whatever it is, the others hear of it: they wait for that."""
        try:
            return getattr(member, order)(*arguments)
        except UsageError as error:
            return Failure(self.rank, "usage", str(error))
        except OSError as error:
            return Failure(self.rank, "disk", error.strerror or str(error))
        except Exception as error:
            logger.warning("vitals: rank %d: %s failed", self.rank, order, exc_info=True)
            return Failure(self.rank, "other", f"{order}: {type(error).__name__}")

    def wait(self) -> None:
        self._say(WAIT)


def odd_ones(metrics: Mapping[str, object]) -> dict[str, float]:
    """Those of some metrics that are numbers and not finite."""
    found = {name: number(value) for name, value in metrics.items()}
    return {name: x for name, x in found.items() if x is not None and not math.isfinite(x)}


def _listed(ranks: list[int]) -> str:
    return "rank " + ", ".join(map(str, ranks))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def ranks_of(model: Any, timeout: float) -> Ranks:
    """Those of this training. Raises UsageError where there are to be several that do not know of each other yet."""
    if not 0 < timeout < math.inf:
        raise UsageError(f"`rank_timeout` is a number of seconds, not {timeout}")
    if distributed.is_available() and distributed.is_initialized():
        is_group = distributed.get_world_size() > 1 or any(is_sharded(one) for one in model.parameters())
        return Group(timeout) if is_group else Alone()
    said = os.environ.get("WORLD_SIZE", "")
    if said.isdigit() and int(said) > 1:
        raise UsageError(f"this is one of {said} processes: a guard is made after torch.distributed.init_process_group")
    return Alone()
