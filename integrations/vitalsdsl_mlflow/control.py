"""The control channel as tags of the run itself: for a training that shares its tracking server with a watcher, and no disk."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from vitalsdsl.acting.control import ABOUT, UNREADABLE, Asked, Control, in_order, own_request, understood
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.home import file_name
from vitalsdsl_mlflow.address import tracking_uri
from vitalsdsl_mlflow.hands import Hands
from vitalsdsl_mlflow.names import ANSWER, REQUEST
from vitalsdsl_mlflow.outside import hands_for
from vitalsdsl_mlflow.stores import Store
from vitalsdsl_mlflow.targets import run_of, store_of

logger = logging.getLogger("vitalsdsl")

_MAX = 5_000
"""The longest value that every release of MLflow takes whole; it cuts off a longer one without a word."""

_TELLING = ("evidence", "reason")
"""What a request can do without, the least needed first."""


class RunTags(Control):
    """Requests and answers as tags of a run, `vitals.request.ID` and `vitals.answer.ID`, each a JSON object.

    A request whose evidence is too long for a tag goes without it. Two watchers that ask the same at once write the same
    tag, so that it is asked once. Nothing is read or written before the first use.
    """

    def __init__(self, store: Store, uri: str, run: str) -> None:
        self._store, self._uri, self._run = store, uri, run
        self._passed_over: set[str] = set()

    @functools.cached_property
    def _hands(self) -> Hands:
        return hands_for(self._store, self._uri, run_of(self._store, self._run))

    @property
    def is_known(self) -> bool:
        return any(name.startswith(REQUEST) for name in self._hands.tags())

    def ask(self, request: Mapping[str, Any]) -> None:
        """Raises TrackerError where the server does not take it, RunGone where there is no such run."""
        name = REQUEST + file_name(str(request["id"]))
        if name not in self._hands.tags():
            self._hands.set_tag(name, _fitting(request))

    def answer(self, request: str, answer: Mapping[str, Any]) -> None:
        """Raises as `ask` does."""
        self._hands.set_tag(ANSWER + file_name(request), _fitting(answer))

    def asked(self) -> Iterator[Asked]:
        """Raises as `ask` does."""
        tags = self._hands.tags()
        named = ((name.removeprefix(REQUEST), name) for name in sorted(tags) if name.startswith(REQUEST))
        found = {tag: read for tag, name in named if (read := self._read(name, tags[name], tag, "action")) is not None}
        for request in in_order(found.values()):
            name = ANSWER + file_name(str(request["id"]))
            answer = self._read(name, tags[name], request["id"], "state") or UNREADABLE if name in tags else None
            yield Asked(request, answer)

    def own(self) -> Iterator[Asked]:
        """Raises as `ask` does."""
        tags = self._hands.tags()
        for name in sorted(tags):
            id_ = name.removeprefix(ANSWER)
            if name.startswith(ANSWER) and REQUEST + id_ not in tags:
                answer = self._read(name, tags[name], id_, "state")
                if answer is not None and ABOUT[0] in answer:
                    yield own_request(answer)

    def _read(self, name: str, text: str, id_: str, what: str) -> dict[str, Any] | None:
        try:
            return {"id": id_, **understood(text, what)}
        except ValueError as error:
            if name not in self._passed_over:
                self._passed_over.add(name)
                logger.warning("vitals: tag %s of run %s is passed over: %s", printable(name), self._run, error)
        return None


def control(run: str) -> RunTags:
    """The channel of a run, by its id, in the store that MLflow is set to. Raises UsageError where that means nothing."""
    uri = tracking_uri()
    return RunTags(_store(uri), uri, run)


@functools.lru_cache(maxsize=8)
def _store(uri: str) -> Store:
    """One store for the channels of all its runs: a watcher has hundreds."""
    return store_of(uri)


def _fitting(record: Mapping[str, Any]) -> str:
    """A record as a tag's value."""
    kept = dict(record)
    for name in (*_TELLING, None):
        text = json.dumps(kept, separators=(",", ":"))
        if len(text) <= _MAX:
            return text
        if name == "reason":
            kept[name] = f"{str(kept.get(name, ''))[:200]}…"
        elif name is not None:
            kept.pop(name, None)
    raise ValueError("it is too long for a tag")
