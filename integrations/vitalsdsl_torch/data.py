"""Where a training is in its data, and how it gets past a part of it."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from vitalsdsl.ground.errors import UsageError
from vitalsdsl_torch.contents import random_state, set_random

logger = logging.getLogger("vitalsdsl")


@runtime_checkable
class Seekable(Protocol):
    """A source of batches that knows its place: how many it has given since the start of the run, and can go on."""

    @property
    def position(self) -> int: ...

    def skip_to(self, position: int) -> None: ...


class Batches:
    """Any iterable of batches, drawn one after another and counted.

    At the end of the iterable it begins the next epoch (telling its `sampler` by `set_epoch`, where that can be told),
    for `epochs` rounds or, by default, for as long as it is asked. An iterable with `state_dict` and
    `load_state_dict` goes on from its own state when a process is restarted; any other is drawn, and dropped, up to
    where it was. Its epoch is begun with the random state that it was begun with, so that `DataLoader(shuffle=True)`
    gives the same order; what shuffles in another way has to do so by a seed of its own. Batches that are passed over are
    drawn and dropped as well; how many is said each time, since it takes the loader's time.

    >>> data = Batches("abcd")
    >>> next(data), next(data), data.position
    ('a', 'b', 2)
    >>> data.skip_to(5)
    >>> next(data), data.epoch
    ('b', 1)
    """

    def __init__(self, loader: Iterable[Any], epochs: int | None = None) -> None:
        self._loader = loader
        self._epochs = epochs
        self._batches: Iterator[Any] | None = None
        self._in_epoch = 0
        self.epoch = 0
        self._position = 0
        self._begun_with: Any = None
        self._again: Any = None
        """An epoch that another process had begun, and the random state with which it was."""

    @property
    def position(self) -> int:
        """How many batches have been drawn since the start of the run."""
        return self._position

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._batches is None:
            self._batches = self._begin()
        try:
            batch = next(self._batches)
        except StopIteration:
            if self._in_epoch == 0:
                raise  # an empty loader would be begun for ever
            if self._epochs is not None and self.epoch + 1 >= self._epochs:
                raise
            self.epoch += 1
            self._in_epoch = 0
            self._batches = self._begin()
            batch = next(self._batches)
        self._in_epoch += 1
        self._position += 1
        return batch

    def _begin(self) -> Iterator[Any]:
        tell = getattr(getattr(self._loader, "sampler", None), "set_epoch", None)
        if tell is not None:
            tell(self.epoch)
        if hasattr(self._loader, "state_dict"):
            return iter(self._loader)
        self._begun_with = random_state()
        if self._again is None or self._again[0] != self.epoch:
            return iter(self._loader)
        now, (_, self._begun_with), self._again = self._begun_with, self._again, None
        set_random(self._begun_with)
        try:
            batches = iter(self._loader)
            first = list(itertools.islice(batches, 1))  # many a sampler draws its order only now
        finally:
            set_random(now)
        return itertools.chain(first, batches)

    def skip_to(self, position: int) -> None:
        """Go on to a later position by drawing what lies between and dropping it. Raises UsageError backwards."""
        if position < self._position:
            raise UsageError(f"the data is at batch {self._position} and cannot go back to {position}")
        if position > self._position:
            logger.warning("vitals: %d batches are drawn and dropped", position - self._position)
        with contextlib.suppress(StopIteration):
            while self._position < position:
                next(self)

    def state_dict(self) -> dict[str, Any]:
        own = getattr(self._loader, "state_dict", None)
        where = {"position": self._position, "epoch": self.epoch, "in_epoch": self._in_epoch}
        return {**where, "loader": own() if own is not None else None, "random": self._begun_with}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another process was. A loader that has no state of its own is drawn up to there."""
        take = getattr(self._loader, "load_state_dict", None)
        if take is None or state["loader"] is None:
            if state.get("random") is not None:
                self._again = state["epoch"], state["random"]
            self.skip_to(state["position"])
            return
        take(state["loader"])
        self._batches = None
        self._position, self.epoch, self._in_epoch = state["position"], state["epoch"], state["in_epoch"]


def past_skipped(position: int, skipped: Sequence[tuple[int, int]]) -> int:
    """Where to go on from a position, past the stretches of batches that are passed over for good.

    >>> past_skipped(510, [(500, 800), (800, 900)]), past_skipped(900, [(500, 900)])
    (900, 900)
    """
    moved = True
    while moved:
        moved = False
        for first, end in skipped:
            if first <= position < end:
                position, moved = end, True
    return position
