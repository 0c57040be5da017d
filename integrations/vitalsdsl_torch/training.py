"""A training as the guard sees it: where it is, how it is saved, and how it goes back."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from vitalsdsl.ground.errors import StateError
from vitalsdsl_torch.checkpoint import Checkpoint
from vitalsdsl_torch.data import past_skipped
from vitalsdsl_torch.exits import BrokenOff, Ended
from vitalsdsl_torch.history import History, Turn
from vitalsdsl_torch.member import Member
from vitalsdsl_torch.progress import Progress, Reached
from vitalsdsl_torch.ranks import Ranks
from vitalsdsl_torch.rate import Course
from vitalsdsl_torch.ring import CORRUPT, Ring
from vitalsdsl_torch.rules import Rules

logger = logging.getLogger("vitalsdsl")

_REMEMBERED = 10_000
"""Of how many steps back it is known where the data was."""


class Training:
    """The run between two updates, as the rank sees it that decides: what is done here is done on all ranks.

    With `background` the checkpoints that are due are written while training goes on. `planned` is how many steps there
    are to be, NaN where that is not known; `batches_a_step` how many batches an update takes, by the newest of them. Over
    `rewarm` updates after a rollback the learning rate grows to what it is to be.
    """

    def __init__(
        self,
        member: Member,
        ranks: Ranks,
        ring: Ring,
        history: History,
        progress: Progress,
        rules: Rules | None,
        background: bool,
        planned: float,
        rewarm: int,
    ) -> None:
        self.member, self.ring, self.history, self.rules = member, ring, history, rules
        self._ranks = ranks
        self._each = functools.partial(ranks.each, member)
        self._progress = progress
        self._background = background
        self._under_way = ""
        self.planned = planned
        self._rewarm = rewarm
        self.batches_a_step = 1
        self._from = 0
        self._positions: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)

    @property
    def done(self) -> int:
        return self.member.done

    @property
    def lived(self) -> int:
        return self.member.lived

    @property
    def has_data(self) -> bool:
        return self.member.data is not None

    @property
    def position(self) -> int:
        """Where the data is: of several ranks, where it is furthest."""
        return int(max(self._each("where")))

    def position_at(self, step: int) -> int:
        """Where the data was after a step; where it is now, if that is not known."""
        return next((position for known, position in reversed(self._positions) if known == step), self.position)

    def remember(self, position: int) -> None:
        """Note where the run is after its newest update; from there the data goes past what is passed over."""
        self.batches_a_step = max(1, position - self._from)
        self._from = past_skipped(position, self.history.skipped)
        self._positions.append((self.done, position))
        self._write_progress(position)

    def _write_progress(self, position: int) -> None:
        self._progress.write(Reached(self.history.attempt, self.done, position, self.lived))

    def scale(self) -> None:
        """The learning rate is multiplied by what the history says, from now on."""
        self._each("scale", self._course)

    @property
    def _course(self) -> Course:
        start = self.history.went_back_to
        return Course(self.history.factor) if start is None else Course(self.history.factor, start, self._rewarm)

    def look_closer(self, until: int) -> None:
        """More is to be measured up to a step."""
        self._each("look_closer", until)

    def tell(self, said: Any) -> None:
        """Something beside its decisions, for those who run the guard in a trainer."""
        self._each("hear", said)

    def still_waiting(self) -> None:
        """Nothing is decided yet, and nobody is to give up."""
        self._ranks.wait()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """While it waits on purpose, which no rule about a run that stalls should hear of."""
        with self.rules.busy() if self.rules is not None else contextlib.nullcontext():
            yield

    # ---------------------------------------------------------------- saving

    def save(self, born: str) -> Checkpoint:
        """A checkpoint of now, unless there is one already. Raises OSError where the disk takes none."""
        self.settle()
        there = self._of_now()
        if there is not None:
            return there
        self._each("stage", False)
        with self.busy():
            (saved, *_) = self._each("write", self._about(born), self._rules_text(), False)
        self.ring.add(saved)
        return saved  # type: ignore[no-any-return]

    def begin_save(self, born: str) -> None:
        """The same, while training goes on where the guard was told so: then it counts from when it is complete."""
        if not self._background:
            self.save(born)
            return
        self.settle()
        if self._of_now() is None:
            self._each("stage", True)
            self._under_way = f"after step {self.done}"
            self._each("write", self._about(born), self._rules_text(), True)

    def take_in(self) -> None:
        """Count what was written in the background and is complete."""
        if self._under_way and not self.member.is_writing:
            self.settle()

    def settle(self) -> None:
        """Wait for what is written in the background."""
        if not self._under_way:
            return
        what, self._under_way = self._under_way, ""
        try:
            with self.busy():
                (saved, *_) = self._each("settle")
        except OSError as error:
            logger.warning("vitals: no checkpoint %s: %s", what, error.strerror or error)
        else:
            self.ring.add(saved)
            self.ring.settle(self.done)  # it may have been written for longer than its probation lasts

    def _of_now(self) -> Checkpoint | None:
        for one in self.ring.all:
            if (one.step, one.attempt) == (self.done, self.history.attempt) and self.ring.state(one) != CORRUPT:
                return one
        return None

    def _about(self, born: str) -> dict[str, Any]:
        return {
            "step": self.done, "attempt": self.history.attempt, "position": self.position, "born": born,
            "lr_factor": self.history.factor, "lived": self.lived, "skipped": self.history.skipped,
        }  # fmt: skip

    def _rules_text(self) -> str:
        return self.rules.save() if self.rules is not None else ""

    def read(self, one: Checkpoint) -> bool:
        """Read a checkpoint, on each rank, that is as it was written and worth going to; otherwise it is marked.

        Raises UsageError where it is sound, and of another model.
        """
        for order in ("check", "load"):  # what is damaged must not be judged by what stands in it
            why = next(filter(None, self._each(order, one.id)), "")
            if why:
                self.ring.mark_corrupt(one, why)
                return False
        return True

    def forget(self) -> None:
        """What was read is not gone to."""
        self._each("forget")

    # ---------------------------------------------------------------- going back

    def restart(self, start: int = 0) -> None:
        """Go on from the newest checkpoint that is complete and sound, its data where it was: nothing was wrong.
        Without any, from the step `start`, with the data where it is.

        Raises StateError where there are checkpoints and none can be used, UsageError where they are of another model.
        """
        reached = self._progress.read()
        self.member.lived = reached.lived
        one = self._newest()
        step, position = (one.step, one.position or 0) if one is not None else (start, self.position)
        if reached.attempt == self.history.attempt and reached.step > step:
            self.history.note({"type": "turn", **asdict(Turn(
                self.history.attempt + 1, step, one.id if one is not None else "", "", position, position,
                reached.position, reached.step, self.history.factor, self.lived, 0,
            ))})  # fmt: skip
        text = self._text_read()
        self._each("resume", one, *self._there(step))
        if one is not None:
            logger.warning("vitals: going on after step %d, from checkpoint %s", step, one.id)
            if one.ranks != self._ranks.count and self.has_data:
                logger.warning("vitals: it is of %d ranks, and there are %d: the data of each goes on at batch %d, as one of "
                               "theirs did", one.ranks, self._ranks.count, position)  # fmt: skip
        self._arrived()
        self.batches_a_step = max(1, round(self._in_model() / step)) if step else 1
        if self.rules is not None:
            self.rules.load(step, text, one.attempt if one is not None else 0)

    def _there(self, step: int) -> tuple[int, int, Course, list[tuple[int, int]]]:
        return step, self.history.attempt, self._course, self.history.skipped

    def _text_read(self) -> str:
        return str(self.member.state["rules"]["text"]) if self.member.state is not None else ""

    def _newest(self) -> Checkpoint | None:
        tried = self.ring.on_line()
        for one in self.ring.usable():
            if self.read(one):
                return one
        if tried:
            raise StateError(f"none of the {len(tried)} checkpoints can be used: to begin anew, take another folder")
        return None

    def go_back(self, turn: Turn, one: Checkpoint) -> None:
        """A rollback: everything back to the checkpoint that was read, but the data, which goes on at the turn's position.

        The turn is written down first, and raises OSError where it cannot be: from then on a process that is restarted
        comes to the same state, however far this one gets. Raises BrokenOff where the state cannot be put back.
        """
        self.history.append({"type": "turn", **asdict(turn)})
        text = self._text_read()
        try:
            self._each("go_back", *self._there(turn.step))
        except Ended:
            raise
        except Exception as error:
            self.ring.mark_corrupt(one, f"it cannot be put back ({error if self._ranks.count > 1 else type(error).__name__})")  # fmt: skip
            raise BrokenOff from error
        self._arrived()
        if self.rules is not None:
            self.rules.rewind(turn.step, text, one.attempt)

    def _arrived(self) -> None:
        self._positions.clear()
        self._from = self.position
        self._write_progress(self._from)

    def _in_model(self) -> int:
        """How many batches have been drawn and are not among those that are passed over."""
        count, at = self._from, 0
        for first, end in sorted(self.history.skipped):
            count -= max(0, min(end, self._from) - max(first, at))
            at = max(at, end)
        return count
