"""The control channel of a run: requests go in, answers come out, each under its own name.

By default it is a folder, which every machine of a cluster shares: a file appears whole or not at all, and a request has
one name whoever makes it, so that any number of watchers ask once. A tracker's integration can keep it on the run itself,
by an entry point of the group `vitalsdsl.controls` under the name of its scheme: `--control mlflow:`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from vitalsdsl.acting.tracker import Ability, Port, Request
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import MissingExtraError, StateError, UsageError
from vitalsdsl.ground.home import file_name
from vitalsdsl.ground.points import number

logger = logging.getLogger("vitalsdsl")

GROUP = "vitalsdsl.controls"

CONTROL_VARIABLE = "VITALS_CONTROL"
"""Where trainings look for requests: a folder, with one for each run in it, or the scheme of a tracker (`mlflow:`)."""

ABOUT = ("action", "rule", "member", "trip_step", "params")
"""What an answer says of a request that nobody put here."""

_REQUESTS = "requests"
_ANSWERS = "answers"
UNREADABLE = {"state": "unreadable"}
"""In place of an answer that makes no sense."""

_HISTORY = "history.jsonl"
"""Where a guard keeps what was done to its run: beside the journals of the policy that it runs."""


@dataclass(frozen=True)
class Asked:
    """A request as it lies in the folder, and the training side's newest answer to it, if any."""

    request: Mapping[str, Any]
    answer: Mapping[str, Any] | None

    @property
    def state(self) -> str:
        """`open` until the training side answers; then its word: `received`, `accepted`, `rejected`, `done`, …."""
        return str(self.answer.get("state", "unreadable")) if self.answer is not None else "open"


class Control(Port):
    """The control channel of one run. Each method is one look or one word, may take its time, and raises VitalsError
    where the channel cannot be reached."""

    name = "control"
    can = frozenset({Ability.REQUEST})

    @property
    @abstractmethod
    def is_known(self) -> bool:
        """Whether anything has been asked of the run, ever."""

    @abstractmethod
    def ask(self, request: Mapping[str, Any]) -> None:
        """Put a request there, with its `id`, once: one that is there already stays as it is."""

    @abstractmethod
    def answer(self, request: str, answer: Mapping[str, Any]) -> None:
        """The training side's answer to a request, in place of an earlier one."""

    @abstractmethod
    def asked(self) -> Iterator[Asked]:
        """All requests, the oldest first, each with its answer.

        What is none of ours, or was damaged, is passed over and said once: the others are heard all the same.
        """

    @abstractmethod
    def own(self) -> Iterator[Asked]:
        """What the policy of the training itself has asked, and was not asked here: of it there are only answers."""

    def request(self, request: Request) -> None:
        """What dispatch asks. Whether it is granted is the training side's own decision."""
        self.ask(request.as_dict())


class ControlFolder(Control):
    """Requests into a folder. The training side looks there between two optimizer steps.

    >>> import tempfile
    >>> from vitalsdsl.language.rules import Level
    >>> folder = ControlFolder(tempfile.mkdtemp())
    >>> pause = Request("an-id", "run", 0, 1, "pause", Level.ORANGE, "hot", None, 7, 5, 0.0, 600.0)
    >>> folder.request(pause)
    >>> folder.request(pause)
    >>> [(asked.request["action"], asked.state) for asked in folder.asked()]
    [('pause', 'open')]
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._passed_over: set[Path] = set()

    @property
    def is_known(self) -> bool:
        return self.folder.exists()

    def ask(self, request: Mapping[str, Any]) -> None:
        """Raises StateError where the folder cannot be written."""
        self._put(_REQUESTS, request["id"], request)

    def answer(self, request: str, answer: Mapping[str, Any]) -> None:
        """Raises StateError where the folder cannot be written."""
        self._put(_ANSWERS, request, answer, replace=True)

    def asked(self) -> Iterator[Asked]:
        paths = sorted((self.folder / _REQUESTS).glob("*.json"))
        found = [request for path in paths if (request := self._read(path, "action")) is not None]
        for request in in_order(found):
            answer = self.folder / _ANSWERS / f"{file_name(request['id'])}.json"
            yield Asked(request, (self._read(answer, "state") or UNREADABLE) if answer.exists() else None)

    def own(self) -> Iterator[Asked]:
        there = {path.name for path in (self.folder / _REQUESTS).glob("*.json")}
        for path in sorted((self.folder / _ANSWERS).glob("*.json")):
            if path.name not in there and (answer := self._read(path, "state")) is not None and ABOUT[0] in answer:
                yield own_request(answer)

    def _read(self, path: Path, what: str) -> dict[str, Any] | None:
        try:
            return {"id": path.stem, **understood(path.read_text("utf-8"), what)}
        except (OSError, ValueError) as error:
            if path not in self._passed_over:
                self._passed_over.add(path)
                why = str(getattr(error, "strerror", None) or error)
                logger.warning("vitals: %s is passed over: %s", printable(str(path)), printable(why))
        return None

    def _put(self, kind: str, name: str, data: Mapping[str, Any], replace: bool = False) -> None:
        folder = self.folder / kind
        path, draft = folder / f"{file_name(name)}.json", folder / f".{uuid.uuid4().hex}.draft"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                with draft.open("w", encoding="utf-8", errors="backslashreplace") as file:
                    json.dump(data, file, ensure_ascii=False)
                    file.flush()
                    os.fsync(file.fileno())
                if replace:
                    draft.replace(path)
                else:
                    _claim(draft, path)
            finally:
                draft.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"{folder} cannot be written: {error.strerror or error}") from error


def control_of(run: str, given: str | os.PathLike[str] | None = None) -> Control:
    """The control channel of a run: in a folder that is given or that VITALS_CONTROL names, or on the run itself where a
    tracker's scheme is named (`mlflow:`).

    Raises UsageError where there is neither, MissingExtraError where a tracker's package is missing.
    """
    where = os.fspath(given or "") or os.environ.get(CONTROL_VARIABLE, "")
    if not where:
        raise UsageError(f"say where the control channel is: --control DIR, or {CONTROL_VARIABLE}")
    if is_folder(where):
        return ControlFolder(Path(where) / file_name(run))
    scheme, _, rest = where.partition(":")
    if rest:
        raise UsageError(f"write `{scheme}:` alone: the run is {printable(run)}")
    try:
        made: Control = _schemes()[scheme].load()(run)
    except ImportError as error:
        raise MissingExtraError(error.name or scheme, "watch") from error
    return made


def is_folder(where: str | os.PathLike[str]) -> bool:
    """Whether a control channel named so lies in a folder, and not with a tracker."""
    scheme, colon, _ = os.fspath(where).partition(":")
    return not colon or scheme not in _schemes()


def _schemes() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def understood(text: str, what: str) -> dict[str, Any]:
    """A request or an answer out of its text, which says at least `what`. Raises ValueError with the reason."""
    try:
        data = json.loads(text, parse_constant=str)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not (isinstance(data, dict) and isinstance(data.get("id", ""), str) and isinstance(data.get(what), str)):
        raise ValueError(f"it says no `{what}`")
    return data


def own_request(answer: Mapping[str, Any]) -> Asked:
    """A request of the training's own policy, out of the answer that says what it was about."""
    said = {name: answer[name] for name in ABOUT if name in answer}
    return Asked({"id": answer["id"], "issued_at": answer.get("at"), **said}, answer)


def answers_in(home: Path) -> dict[str, dict[str, Any]]:
    """The newest answer of a guard to each request, by the request's id, where `home` is the folder of a guard.

    A line that makes no sense, and a file that is not there or cannot be read, say nothing.
    """
    try:
        text = (home / _HISTORY).read_text("utf-8", "replace")
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            record = understood(line, "state")
            if record.get("type") == "answer" and "id" in record:
                found[record["id"]] = record
    return found


def in_order(requests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests, the oldest first."""
    return sorted(requests, key=lambda r: (_sortable(r.get("issued_at")), _sortable(r.get("seq"))))


def _claim(draft: Path, path: Path) -> None:
    """Give a file its name unless the name is taken. Where a file system has no links, the first to look wins."""
    with contextlib.suppress(FileExistsError):
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:
            if not path.exists():
                draft.replace(path)


def _sortable(value: object) -> float:
    """A time or a number of order; whoever writes none comes first."""
    found = number(value)
    return found if found is not None and found == found else 0.0
