"""The base of everything that remembers something between steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar

from vitalsdsl.ground.types import Reason


class State:
    """Something that learns from a stream of points, and answers at any step.

    `push` takes a point (for an expression: an evaluation that is known; for a metric NaN and ±inf too). With
    `takes_unknown` the evaluations that are unknown come as well, as NaN. `edge` and `evaluated` are told by an event.
    `remembered` names what has to be saved; the rest is derived from it in `restored`.
    """

    __slots__ = ()

    takes_unknown: ClassVar[bool] = False
    remembered: ClassVar[tuple[str, ...]] = ()
    quicker: ClassVar[Mapping[str, str]] = {}
    """What `keep` keeps instead of what is saved."""

    def push(self, step: int, time: float, value: Any) -> None:
        raise NotImplementedError

    def push_second(self, step: int, time: float, value: float) -> None:
        """A point of the second stream, for functions of two."""
        raise NotImplementedError

    def edge(self, step: int, time: float) -> None:
        """The event became true at this step."""

    def evaluated(self, step: int, time: float, known: bool) -> None:
        """The event was evaluated at this step; told before an edge at it."""

    def read(self, step: int, time: float) -> Any:
        """The value at the close of a step: a float (NaN unknown), or True, False, None."""
        raise NotImplementedError

    def reason(self, step: int, time: float) -> Reason:
        """Why `read` is unknown there."""
        raise NotImplementedError

    def save(self) -> list[Any]:
        """What is remembered, as plain data that JSON can hold."""
        return [_plain(getattr(self, name)) for name in self.remembered]

    def load(self, saved: list[Any]) -> None:
        for name, value in zip(self.remembered, saved, strict=True):
            setattr(self, name, _alive(getattr(self, name), value))
        self.restored()

    def keep(self) -> list[Any]:
        """What is remembered, for `put_back` in this process: not to be written, and much sooner there than `save`."""
        return [copy(getattr(self, self.quicker.get(name, name))) for name in self.remembered]

    def put_back(self, kept: list[Any]) -> None:
        for name, value in zip(self.remembered, kept, strict=True):
            setattr(self, self.quicker.get(name, name), copy(value))
        self.restored()

    def restored(self) -> None:
        """Derive again what is not saved."""


def _plain(value: Any) -> Any:
    if isinstance(value, deque):
        return [list(item) if isinstance(item, tuple) else item for item in value]
    if isinstance(value, tuple):
        return list(value)
    return value


def _alive(now: Any, saved: Any) -> Any:
    if isinstance(now, deque):
        return deque((tuple(item) if isinstance(item, list) else item for item in saved), maxlen=now.maxlen)
    if isinstance(saved, list) and not isinstance(now, list):
        return tuple(saved)
    return saved
