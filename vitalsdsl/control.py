"""The control channel of a run as a folder: requests go in, answers come out, one file each.

A folder is what every machine of a cluster shares. A file appears whole or not at all, and a request has one name
whoever makes it, so that any number of watchers ask once.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitalsdsl.diagnostic import printable
from vitalsdsl.errors import StateError, UsageError
from vitalsdsl.home import file_name
from vitalsdsl.points import number
from vitalsdsl.tracker import Ability, Port, Request

logger = logging.getLogger("vitalsdsl")

CONTROL_VARIABLE = "VITALS_CONTROL"
"""The folder in which trainings look for requests, a folder for each run in it."""

LIFETIME = 86400.0
"""Seconds for which what a person asks for holds."""

_REQUESTS = "requests"
_ANSWERS = "answers"
_UNREADABLE = {"state": "unreadable"}


@dataclass(frozen=True)
class Asked:
    """A request as it lies in the folder, and the training side's newest answer to it, if any."""

    request: Mapping[str, Any]
    answer: Mapping[str, Any] | None

    @property
    def state(self) -> str:
        """`open` until the training side answers; then its word: `received`, `accepted`, `rejected`, `done`, …."""
        return str(self.answer.get("state", "unreadable")) if self.answer is not None else "open"


class ControlFolder(Port):
    """Requests into a folder. The training side looks there between two optimizer steps.

    >>> import tempfile
    >>> from vitalsdsl.rules import Level
    >>> folder = ControlFolder(tempfile.mkdtemp())
    >>> pause = Request("an-id", "run", 0, 1, "pause", Level.ORANGE, "hot", None, 7, 5, 0.0, 600.0)
    >>> folder.request(pause)
    >>> folder.request(pause)
    >>> [(asked.request["action"], asked.state) for asked in folder.asked()]
    [('pause', 'open')]
    """

    name = "control"
    can = frozenset({Ability.REQUEST})

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._passed_over: set[Path] = set()

    def request(self, request: Request) -> None:
        """Put a request into the folder, once: one that is there already stays as it is.

        Raises StateError where the folder cannot be written.
        """
        self.ask(request.as_dict())

    def ask(self, request: Mapping[str, Any]) -> None:
        """The same for a request that is plain data, with its `id`: that of a person, for example."""
        self._put(_REQUESTS, request["id"], request)

    def answer(self, request: str, answer: Mapping[str, Any]) -> None:
        """The training side's answer to a request, in place of an earlier one."""
        self._put(_ANSWERS, request, answer, replace=True)

    def asked(self) -> Iterator[Asked]:
        """All requests, the oldest first, each with its answer.

        A file that is none of ours, or was damaged, is passed over and said once: the others are heard all the same.
        """
        paths = sorted((self.folder / _REQUESTS).glob("*.json"))
        found = [request for path in paths if (request := self._read(path, "action")) is not None]
        for request in sorted(found, key=lambda r: (_sortable(r.get("issued_at")), _sortable(r.get("seq")))):
            answer = self.folder / _ANSWERS / f"{file_name(request['id'])}.json"
            yield Asked(request, (self._read(answer, "state") or _UNREADABLE) if answer.exists() else None)

    def _read(self, path: Path, what: str) -> dict[str, Any] | None:
        try:
            data = json.loads(path.read_text("utf-8"), parse_constant=str)
            ours = isinstance(data, dict) and isinstance(data.get("id", ""), str) and isinstance(data.get(what), str)
            why = "" if ours else f"it says no `{what}`"
        except (OSError, ValueError, RecursionError) as error:
            data, why = None, str(getattr(error, "strerror", None) or error)
        if not why:
            found: dict[str, Any] = {"id": path.stem, **data}
            return found
        if path not in self._passed_over:
            self._passed_over.add(path)
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


def control_of(run: str, given: Path | None = None) -> ControlFolder:
    """The control channel of a run, under a folder that is given or that VITALS_CONTROL names.

    Raises UsageError where there is neither.
    """
    root = given or os.environ.get(CONTROL_VARIABLE)
    if not root:
        raise UsageError(f"say where the control channel is: --control DIR, or {CONTROL_VARIABLE}")
    return ControlFolder(Path(root) / file_name(run))


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
