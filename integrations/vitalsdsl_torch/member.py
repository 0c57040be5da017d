"""One rank's own share of a training: where it is, what it saves, and how it goes back when all do."""

from __future__ import annotations

import copy
import importlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from vitalsdsl.ground.errors import UsageError
from vitalsdsl_torch import checkpoint
from vitalsdsl_torch.checkpoint import Checkpoint
from vitalsdsl_torch.contents import Contents, State
from vitalsdsl_torch.data import Seekable, past_skipped
from vitalsdsl_torch.ranks import Ranks
from vitalsdsl_torch.rate import Course, RateFactor

logger = logging.getLogger("vitalsdsl")


class Member:
    """What this rank has of a training, and what it does between two updates when all ranks are told to.

    `done` counts the updates that are in the model, `lived` all ever made; `attempt`, `skipped` and the rate's course
    are what the first rank's history says. `state` is the checkpoint that was read last, until it is put back. `hear` is
    called with what the first rank has to say beside its decisions; where `has_failed`, the guard is to be off.
    """

    hear: Callable[[Any], None]

    def __init__(self, contents: Contents, data: Seekable | None, rate: RateFactor, ranks: Ranks, root: Path) -> None:
        self.contents, self.data, self.rate = contents, data, rate
        self.done = self.lived = self.attempt = self.detail_until = 0
        self.skipped: list[tuple[int, int]] = []
        self._course = Course()
        self.state: State | None = None
        self.has_failed = False
        self._ranks = ranks
        self._root = root / "checkpoints"
        self._staged: State = {}
        self._writing: _Writing | None = None

    @property
    def position(self) -> int:
        return self.data.position if self.data is not None else 0

    def advance(self) -> None:
        """One more update is made."""
        self.done += 1
        self.lived += 1
        self.rate.factor = self._course.at(self.done + 1)

    def where(self) -> int:
        return self.position

    def shape(self) -> list[str]:
        return self.contents.shape

    def sees(self, name: str) -> bool:
        """Whether a file that the first rank wrote into the folder is there for this rank as well."""
        return checkpoint.is_seen(self._root / name)

    def look_closer(self, until: int) -> None:
        self.detail_until = until

    def scale(self, course: Course) -> None:
        self._course = course
        self.rate.factor = course.at(self.done + 1)

    # ---------------------------------------------------------------- saving

    def stage(self, background: bool) -> None:
        """Take down the state of now; in the `background`, so that training may change it meanwhile."""
        take = getattr(self.data, "state_dict", None)
        data = {"state": take() if take is not None else None, "position": self.position}
        staged = {**self.contents.capture(), "data": data}
        self._staged = _copied(staged) if background else staged

    def write(self, about: Mapping[str, Any], rules: str, background: bool) -> Checkpoint | None:
        """Write down what was staged: a checkpoint when all ranks have. Raises OSError where a disk takes none."""
        staged, self._staged = {**self._staged, "rules": {"text": rules}}, {}
        if background:
            self._writing = _Writing(self, about, staged)
            return None
        return self._write(about, staged)

    def _write(self, about: Mapping[str, Any], staged: State) -> Checkpoint | None:
        if self._ranks.writing is None:
            return checkpoint.save(self._root, about, staged)
        saved: Checkpoint | None = _shards().save(self._root, about, staged, self.contents, self._ranks)
        return saved

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is being written in the background, by this rank."""
        return self._writing is not None and self._writing.is_alive()

    def settle(self) -> Checkpoint | None:
        """Wait for what is written in the background: on the first rank the checkpoint. Raises OSError as `write`."""
        writing, self._writing = self._writing, None
        return writing.result() if writing is not None else None

    def abandon(self) -> None:
        """Wait for nothing any more: a rank is gone that would have to take part."""
        self._writing = None

    # ---------------------------------------------------------------- reading

    def check(self, id_: str) -> str:
        """What of this rank's share of a checkpoint's files is not as it was written; nothing where all is well."""
        return checkpoint.read(self._root, id_).damage(self._ranks.rank, self._ranks.count)

    def load(self, id_: str) -> str:
        """Read the state in a checkpoint into memory of its own. Gives why it is not worth going to; nothing where it
        is. Raises UsageError where it is of another model."""
        self.state = None
        one = checkpoint.read(self._root, id_)
        try:
            state = self._loaded(one)
        except Exception as error:  # whatever torch raises about a file
            return f"it cannot be read ({type(error).__name__})"
        misfit = self.contents.misfit(state)
        if misfit:
            raise UsageError(f"checkpoint {id_} is not one of this training: {misfit}")
        why = self.contents.unsound(state)
        if not why:
            self.state = state
        return why

    def _loaded(self, one: Checkpoint) -> State:
        if one.is_sharded:
            state: State = _shards().load(one, self.contents, self._ranks.rank)
            return state
        state = {part: one.read(part) for part in ("model", "optimizer", "rest", "data", "rules")}
        return state if self._ranks.writing is None else dict(_shards().spread(state, self.contents, self._ranks.rank))

    def forget(self) -> None:
        self.state = None

    # ---------------------------------------------------------------- going back

    def resume(self, one: Checkpoint | None, step: int, attempt: int, course: Course, skipped: Sequence[tuple[int, int]]) -> None:  # fmt: skip
        """Go on from the checkpoint that was read, its data where it was. Raises UsageError where that cannot be."""
        self.skipped = list(skipped)
        if one is not None and self.state is not None:
            self._place_data(one, self.state["data"])
            self.pass_over()
            try:
                self.contents.apply(self.state)  # after the data, whose drawing may use the random generators
            except Exception as error:
                raise UsageError(f"checkpoint {one.id} is not one of this training: it cannot be put back") from error
        self._arrive(step, attempt, course)

    def _place_data(self, one: Checkpoint, saved: State) -> None:
        if self.data is None:
            return
        take = getattr(self.data, "load_state_dict", None)
        state, position = saved["state"], saved.get("position")
        if one.ranks != self._ranks.count:
            if take is not None and state is not None and _is_own(state):
                raise UsageError(
                    f"checkpoint {one.id} holds the place in its data of each of {one.ranks} ranks, which says nothing "
                    f"to {self._ranks.count}: give `data` that is placed by `skip_to` alone"
                )
            take = position = None
        if take is not None and state is not None:
            take(state)
        else:
            self.data.skip_to(position if position is not None else one.position or 0)

    def go_back(self, step: int, attempt: int, course: Course, skipped: Sequence[tuple[int, int]]) -> None:
        """Everything back to the checkpoint that was read but the data, which goes on past all that is skipped."""
        assert self.state is not None
        self.skipped = list(skipped)
        self.pass_over()
        self.contents.apply(self.state)
        self._arrive(step, attempt, course)

    def _arrive(self, step: int, attempt: int, course: Course) -> None:
        self.done, self.attempt, self.state = step, attempt, None
        self.scale(course)

    def pass_over(self) -> None:
        """Where the data is inside a stretch that is passed over for good, go to its end."""
        if self.data is None:
            return
        end = past_skipped(self.data.position, self.skipped)
        if end > self.data.position:
            try:
                self.data.skip_to(end)
            except Exception:  # the loop's own data: training goes on with what it gives
                logger.exception("vitals: the data does not go on to batch %d", end)


class _Writing(threading.Thread):
    """One checkpoint, written while training goes on."""

    def __init__(self, member: Member, about: Mapping[str, Any], staged: State) -> None:
        super().__init__(name="vitals-checkpoint", daemon=True)
        self._member, self._about, self._staged = member, about, staged
        self._saved: Checkpoint | None = None
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._saved = self._member._write(self._about, self._staged)
        except Exception as error:  # it is told where the result is asked for
            self._error = error
        self._staged = {}

    def result(self) -> Checkpoint | None:
        self.join()
        if self._error is not None:
            raise self._error
        return self._saved


def _copied(state: Any) -> Any:
    """A copy that shares no memory with what it is of, on the CPU."""
    if isinstance(state, torch.Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, Mapping):
        return {key: _copied(value) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(map(_copied, state))
    return copy.deepcopy(state)


def _is_own(state: Any) -> bool:
    """Whether a state of data is more than a position: what a loader with a state of its own says."""
    return not (isinstance(state, Mapping) and "loader" in state and state["loader"] is None)


def _shards() -> Any:
    """The module that stands on torch.distributed.checkpoint: loaded where it is needed, since that takes seconds."""
    return importlib.import_module("vitalsdsl_torch.shards")
