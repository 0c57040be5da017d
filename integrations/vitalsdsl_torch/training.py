"""A training as the guard sees it: where it is, how it is saved, and how it goes back."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from vitalsdsl.errors import StateError, UsageError
from vitalsdsl_torch.checkpoint import Checkpoint
from vitalsdsl_torch.contents import Contents, State
from vitalsdsl_torch.data import Seekable, past_skipped
from vitalsdsl_torch.exits import BrokenOff
from vitalsdsl_torch.history import History, Turn
from vitalsdsl_torch.progress import Progress, Reached
from vitalsdsl_torch.rate import RateFactor
from vitalsdsl_torch.ring import CORRUPT, Ring
from vitalsdsl_torch.rules import Rules

logger = logging.getLogger("vitalsdsl")

_REMEMBERED = 10_000
"""Of how many steps back it is known where the data was."""


class Training:
    """The state of a run between two updates. `done` counts the updates that are in the model, `lived` all ever made."""

    def __init__(
        self,
        contents: Contents,
        data: Seekable | None,
        rate: RateFactor,
        ring: Ring,
        history: History,
        progress: Progress,
        rules: Rules | None,
    ) -> None:
        self.contents, self.data, self.rate = contents, data, rate
        self.ring, self.history, self.rules = ring, history, rules
        self.done = self.lived = 0
        self._progress = progress
        self._positions: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)

    @property
    def position(self) -> int:
        return self.data.position if self.data is not None else 0

    def position_at(self, step: int) -> int:
        """Where the data was after a step; where it is now, if that is not known."""
        return next((position for known, position in reversed(self._positions) if known == step), self.position)

    @property
    def batches_a_step(self) -> int:
        """How many batches an update takes, by the newest two."""
        if len(self._positions) < 2:
            return 1
        return max(1, self._positions[-1][1] - self._positions[-2][1])

    def advance(self) -> None:
        """One more update is made."""
        self.done += 1
        self.lived += 1

    def remember(self) -> None:
        """Note where the run is after its newest update."""
        self._positions.append((self.done, self.position))
        self._write_progress()

    def _write_progress(self) -> None:
        self._progress.write(Reached(self.history.attempt, self.done, self.position, self.lived))

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """While it waits on purpose, which no rule about a run that stalls should hear of."""
        with self.rules.busy() if self.rules is not None else contextlib.nullcontext():
            yield

    # ---------------------------------------------------------------- saving

    def save(self, born: str) -> Checkpoint:
        """A checkpoint of now, unless there is one already. Raises OSError where the disk takes none."""
        for one in self.ring.all:
            if (one.step, one.attempt) == (self.done, self.history.attempt) and self.ring.state(one) != CORRUPT:
                return one
        take = getattr(self.data, "state_dict", None)
        parts = {
            **self.contents.capture(),
            "data": {"state": take() if take is not None else None},
            "rules": {"text": self.rules.save() if self.rules is not None else ""},
        }
        about = {
            "step": self.done, "attempt": self.history.attempt, "position": self.position, "born": born,
            "lr_factor": self.history.factor, "lived": self.lived, "skipped": self.history.skipped,
        }  # fmt: skip
        with self.busy():
            return self.ring.save(about, parts)

    def read(self, one: Checkpoint) -> State | None:
        """The state in a checkpoint that is as it was written and worth going to; otherwise it is marked.

        Raises UsageError where it is sound, and of another model.
        """
        why = one.damage()
        if not why:
            try:
                state = {part: one.read(part) for part in ("model", "optimizer", "rest", "data", "rules")}
            except Exception as error:  # whatever torch raises about a file
                why = f"it cannot be read ({type(error).__name__})"
        if not why:
            misfit = self.contents.misfit(state)
            if misfit:
                raise UsageError(f"checkpoint {one.id} is not one of this training: {misfit}")
            why = self.contents.unsound(state)
        if why:
            self.ring.mark_corrupt(one, why)
            return None
        return state

    # ---------------------------------------------------------------- going back

    def restart(self, start: int = 0) -> None:
        """Go on from the newest checkpoint that is complete and sound, its data where it was: nothing was wrong.
        Without any, from the step `start`, with the data where it is.

        Raises StateError where there are checkpoints and none can be used, UsageError where they are of another model.
        """
        reached = self._progress.read()
        self.lived = reached.lived
        one, state = self._newest()
        step, position = (one.step, one.position or 0) if one is not None else (start, self.position)
        if reached.attempt == self.history.attempt and reached.step > step:
            self.history.note({"type": "turn", **asdict(Turn(
                self.history.attempt + 1, step, one.id if one is not None else "", "", position, position,
                reached.position, reached.step, self.history.factor, self.lived, 0,
            ))})  # fmt: skip
        if one is not None and state is not None:
            self._place_data(position, state["data"]["state"])
            self.pass_over()
            try:
                self.contents.apply(state)  # after the data, whose drawing may use the random generators
            except Exception as error:
                raise UsageError(f"checkpoint {one.id} is not one of this training: it cannot be put back") from error
            logger.warning("vitals: going on after step %d, from checkpoint %s", step, one.id)
        self._arrive(step)
        if self.rules is not None:
            text = state["rules"]["text"] if state is not None else ""
            self.rules.load(step, text, one.attempt if one is not None else 0)

    def _newest(self) -> tuple[Checkpoint | None, State | None]:
        tried = self.ring.on_line()
        for one in self.ring.usable():
            state = self.read(one)
            if state is not None:
                return one, state
        if tried:
            raise StateError(f"none of the {len(tried)} checkpoints can be used: to begin anew, take another folder")
        return None, None

    def _place_data(self, position: int, state: Any) -> None:
        if self.data is None:
            return
        take = getattr(self.data, "load_state_dict", None)
        if take is not None and state is not None:
            take(state)
        else:
            self.data.skip_to(position)

    def go_back(self, turn: Turn, one: Checkpoint, state: Mapping[str, Any]) -> None:
        """A rollback: everything back to the checkpoint but the data, which goes on at the turn's position.

        The turn is written down first, and raises OSError where it cannot be: from then on a process that is restarted
        comes to the same state, however far this one gets. Raises BrokenOff where the state cannot be put back.
        """
        self.history.append({"type": "turn", **asdict(turn)})
        self.pass_over()
        try:
            self.contents.apply(state)
        except Exception as error:
            self.ring.mark_corrupt(one, f"it cannot be put back ({type(error).__name__})")
            raise BrokenOff from error
        self._arrive(turn.step)
        if self.rules is not None:
            self.rules.rewind(turn.step, state["rules"]["text"], one.attempt)

    def _arrive(self, step: int) -> None:
        self.done = step
        self.rate.factor = self.history.factor
        self._positions.clear()
        self._write_progress()

    def pass_over(self) -> None:
        """Where the data is inside a stretch that is passed over for good, go to its end."""
        if self.data is None:
            return
        end = past_skipped(self.data.position, self.history.skipped)
        if end > self.data.position:
            try:
                self.data.skip_to(end)
            except Exception:  # the loop's own data: training goes on with what it gives
                logger.exception("vitals: the data does not go on to batch %d", end)

    def close(self) -> None:
        self._progress.close()
        self.history.close()
