"""A control channel that is reached over a network, heard and answered in a thread: the loop never waits for a server."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from vitalsdsl.acting.control import Asked, Control
from vitalsdsl.ground.errors import VitalsError

logger = logging.getLogger("vitalsdsl")

_FIRST = 10.0
"""Seconds for which the first look is waited for: a run that was paused has to know of it before it trains on."""

_AT_END = 10.0
"""Seconds in which the last answers have to be delivered when the run is over."""


class Mailbox(Control):
    """Another channel, looked at each `poll` seconds by a thread of its own.

    `asked` gives what was there at the newest look; answers are delivered in order, and tried again until they are. Where
    the channel cannot be reached that is said once, and once when it can again; meanwhile nothing is asked, and training
    goes on.
    """

    def __init__(self, channel: Control, poll: float) -> None:
        self._channel, self._poll = channel, max(poll, 0.1)
        self._seen: list[Asked] = []
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._changed = threading.Condition()
        self._has_looked = self._is_closed = self._is_lost = False
        self._thread = threading.Thread(target=self._attend, name="vitals-mailbox", daemon=True)
        self._thread.start()

    @property
    def is_known(self) -> bool:
        return bool(self._seen)

    def ask(self, request: Mapping[str, Any]) -> None:
        self._channel.ask(request)

    def answer(self, request: str, answer: Mapping[str, Any]) -> None:
        with self._changed:
            self._answers.pop(request, None)  # to its end of the row: answers are told in their order
            self._answers[request] = answer
            self._changed.notify_all()

    def asked(self) -> Iterator[Asked]:
        with self._changed:
            self._changed.wait_for(lambda: self._has_looked, _FIRST)
            self._has_looked = True  # a server that is down is waited for once
            seen = list(self._seen)
            told = dict(self._answers)
        for one in seen:
            yield Asked(one.request, told.get(one.request["id"], one.answer))

    def own(self) -> Iterator[Asked]:
        return self._channel.own()

    def close(self) -> None:
        """Deliver what is left, within ten seconds."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(_AT_END)

    # ---------------------------------------------------------------- in the thread

    def _attend(self) -> None:
        while True:
            is_well = self._visit()
            with self._changed:
                if self._is_closed and (is_well and not self._answers):
                    return
                until = time.monotonic() + self._poll
                self._changed.wait_for(lambda: self._is_closed or bool(self._answers), self._poll)
            if not is_well:  # an answer that waits is no reason to ask a server that is down any faster
                time.sleep(max(0.0, until - time.monotonic()))

    def _visit(self) -> bool:
        try:
            while (first := self._first()) is not None:
                self._channel.answer(*first)
                self._delivered(*first)
            seen = list(self._channel.asked())
        except VitalsError as error:
            self._lost(str(error))
            return False
        except Exception as error:  # a thread of ours must not end for what a tracker's package raises
            self._lost(type(error).__name__)
            return False
        with self._changed:
            self._seen, self._has_looked = seen, True
            self._changed.notify_all()
        if self._is_lost:
            self._is_lost = False
            logger.warning("vitals: requests are heard again")
        return True

    def _first(self) -> tuple[str, Mapping[str, Any]] | None:
        with self._changed:
            return next(iter(self._answers.items()), None)

    def _delivered(self, request: str, answer: Mapping[str, Any]) -> None:
        with self._changed:
            if self._answers.get(request) is answer:
                del self._answers[request]

    def _lost(self, why: str) -> None:
        if not self._is_lost:
            self._is_lost = True
            logger.warning("vitals: requests are not heard for now: %s", why)
