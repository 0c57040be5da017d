"""The journal of dispatch: what was decided and done, one JSON line each, safe against crashes.

A line `intent` is on disk before anything is done, a line `done` or `failed` after; `noted` is a transition on which
nothing was done. Several processes may share one file: the one whose intent stands first acts.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import logging
import math
import os
import socket
import threading
import uuid
import weakref
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from vitalsdsl.acting.ledger import Ledger, Record
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.ground.home import file_name, home_of
from vitalsdsl.verdicts.verdict import Past

logger = logging.getLogger("vitalsdsl")

MOST_UNWRITTEN = 10_000
"""How many lines are kept in memory, to be written when a disk that was full has room again."""

_complaining: dict[Path, weakref.WeakSet[Journal]] = {}
"""The journals that could not be written, by the folder of them all."""


class Journal:
    """Decisions of the past, and a file (none: memory only) to which new ones are appended.

    Opening and writing never raise: a disk that is full, read-only or gone is said once, through logging, and what it
    should hold is remembered in memory, and written when it can be.

    A line that was cut off, or damaged, is passed over. What is lost with an `intent` had not been done yet; what is
    lost with a `done` may be done once more, under the same id.

    >>> journal = Journal()
    >>> journal.append([{"type": "silence", "run": "a", "rule": "act_*", "until": None, "at": 0.0, "reason": "known"}])
    set()
    >>> journal.ledger("a").silences[0].reason
    'known'
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else None
        self.writer = signature()
        self.lock = threading.RLock()
        self.damaged_lines = 0
        self._ledgers: dict[str, Ledger] = {}
        self._writers: dict[str, str] = {}
        self._unfinished: dict[str, tuple[Record, set[tuple[int, str]]]] = {}
        self._writing = threading.Lock()
        self._unwritten: list[bytes] = []
        self._read_to = 0
        self._torn = False
        self._complained = False
        if self.path is not None:
            self._open(self.path)

    def ledger(self, run: str) -> Ledger:
        """What has been decided about a run. Hold `lock` while reading or changing it."""
        with self.lock:
            return self._ledgers.setdefault(run, Ledger())

    def known_as(self, run: str) -> str:
        """The id of a run in full, where the file is that run's and only the first letters of its id are given."""
        with self.lock:
            known = set(self._ledgers)
        if run in known or self.path is None:
            return run
        return next((name for name in sorted(known) if file_name(name) == self.path.parent.name), run)

    def unfinished(self, run: str) -> list[tuple[Record, set[tuple[int, str]]]]:
        """Intents that nobody has carried out to the end and no living process is at, with what is left of each:
        the number of the deed and the name of the port."""
        with self.lock:
            found = [(record, set(left)) for record, left in self._unfinished.values() if record["run"] == run]
        return [(record, left) for record, left in found if not is_alive(str(record.get("by", "")))]

    def subjects(self, beginning: str) -> set[tuple[str, str | None]]:
        """The rules, with members, of the alerts whose id begins so."""
        if self.path is None or not beginning:
            return set()
        records = self._parsed(_readable(self.path))
        intents = (r for r in records if r.get("type") == "intent" and str(r.get("id", "")).startswith(beginning))
        return {(r["rule"], r["member"]) for r in intents}

    def decisions(self, run: str) -> Iterator[Record]:
        """What was decided about a run, as the file tells it, each once and the oldest first."""
        seen: set[str] = set()
        for record in self._parsed(_readable(self.path)) if self.path is not None else ():
            known = str(record.get("id"))
            if record.get("type") in ("intent", "noted") and record.get("run") == run and known not in seen:
                seen.add(known)
                yield record

    def outcomes(self, run: str) -> dict[tuple[str, int], Record]:
        """What has become of each deed, by the id of its intent and its number, as the file tells it: the last word."""
        records = self._parsed(_readable(self.path)) if self.path is not None else ()
        ended = (r for r in records if r.get("type") in ("done", "failed") and r.get("run") == run)
        return {(str(r.get("id")), r.get("deed", -1)): r for r in ended}

    @property
    def rules(self) -> set[str]:
        """The rules that the file tells of: those that changed their level. Others of the policy are not known here."""
        records = self._parsed(_readable(self.path)) if self.path is not None else ()
        return {str(r["rule"]) for r in records if r.get("type") in ("intent", "noted") and "rule" in r}

    @property
    def is_behind(self) -> bool:
        """Whether there is something that could not be written to the disk yet."""
        return bool(self._unwritten)

    def past(self, run: str) -> Past | None:
        """Where a run stood when it was last heard of. Where another living process is at it, this one joins in: what
        stands is that one's own, and nothing has gone back."""
        with self.lock:
            past, writer = self.ledger(run).past(), self._writers.get(run, "")
        if past is not None and is_alive(writer):
            return Past(past.attempt, -math.inf, {})
        return past

    def is_under_way(self, run: str) -> bool:
        """Whether another process, still running, has decided about the run."""
        with self.lock:
            return is_alive(self._writers.get(run, ""))

    def scratch(self) -> Journal:
        """A copy in memory: it remembers the same, and what is added to it touches no file."""
        copy = Journal()
        with self.lock:
            for run, ledger in self._ledgers.items():
                copy._ledgers[run] = deepcopy(ledger)
        return copy

    def remember(self, record: Record) -> None:
        """Take a record into the ledger, at once and without the file."""
        with self.lock:
            self._take_in(record)

    def append(self, records: Sequence[Record]) -> set[str]:
        """Write records, down to the disk; gives the ids on which another process was first.

        Blocks as long as the disk does. Records are taken into the ledger, where they are not in it yet.
        """
        for record in records:
            record["by"] = self.writer
            self.remember(record)
        lines = [_line(record) for record in records] if self.path is not None else []
        with self._writing:
            if self.path is None:
                return set()
            self._write(self.path, lines)
            return self._catch_up({r["id"] for r in records if r["type"] == "intent"}, sum(map(len, lines)))

    def refresh(self) -> None:
        """Take in what other processes have written meanwhile: silences, and what they were first to do. What a disk did
        not take before is written first."""
        with self._writing:
            if self._unwritten and self.path is not None:
                self._write(self.path, [])
            self._catch_up(set(), 0)

    def close(self) -> None:
        """Leave the file alone from now on; the journal goes on in memory."""
        with self._writing:
            if self._unwritten and self.path is not None:
                self._write(self.path, [])
            self.path = None

    # ---------------------------------------------------------------- the file

    def _open(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not path.exists()
            os.close(_opened(path))
            data = path.read_bytes()
            if is_new:
                _sync_directory(path.parent)
        except OSError as error:
            self._complain(error)
            data = _readable(path)
        self._torn = bool(data) and not data.endswith(b"\n")
        self._read_to = len(data)
        for record in self._parsed(data):
            self._take_in(record)
        if self.damaged_lines:
            logger.warning("vitals: %d damaged lines in %s were passed over", self.damaged_lines, path)

    def _write(self, path: Path, lines: Sequence[bytes]) -> None:
        self._unwritten += lines
        try:
            file = _opened(path)
            try:
                while self._unwritten:
                    self._write_whole(file, b"".join(self._unwritten[:1000]))
                    del self._unwritten[:1000]
                os.fsync(file)
            finally:
                os.close(file)
            self._recover()
        except OSError as error:
            self._complain(error)
            del self._unwritten[:-MOST_UNWRITTEN]

    def _write_whole(self, file: int, data: bytes) -> None:
        rest = b"\n" + data if self._torn else data
        while rest:
            written = os.write(file, rest)
            rest = rest[written:]
            self._torn = bool(rest)

    def _catch_up(self, mine: set[str], added: int) -> set[str]:
        """Read what others have appended meanwhile; which of my ids they had before me."""
        lost: set[str] = set()
        if self.path is None:
            return lost
        try:
            if self.path.stat().st_size == self._read_to + added:
                self._read_to += added
                return lost
            with self.path.open("rb") as file:
                file.seek(self._read_to)
                data = file.read()
        except OSError as error:
            self._complain(error)
            return lost
        whole = data.rfind(b"\n") + 1
        self._read_to += whole
        claimed: set[str] = set()
        for record in self._parsed(data[:whole]):
            if record.get("by") == self.writer:
                claimed.add(str(record.get("id")))
                continue
            if record.get("type") == "intent" and record.get("id") in mine and record["id"] not in claimed:
                lost.add(record["id"])
            with self.lock:
                self._take_in(record)
        return lost

    def _parsed(self, data: bytes) -> Iterator[Record]:
        for line in data.split(b"\n"):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if isinstance(record, dict):
                yield record
            else:
                self.damaged_lines += 1

    def _take_in(self, record: Record) -> None:
        try:
            kind, run = record["type"], record["run"]
            self._ledgers.setdefault(run, Ledger()).apply(record)
            if kind in ("intent", "noted"):
                self._writers[run] = str(record.get("by", ""))
            if kind == "intent":
                left = {(at, port) for at, deed in enumerate(record["deeds"]) for port in deed["ports"]}
                if left and record["id"] not in self._unfinished:
                    self._unfinished[record["id"]] = (record, left)
            elif kind in ("done", "failed"):
                _, left = self._unfinished.get(record["id"], (record, set()))
                left.discard((record["deed"], record["port"]))
                if not left:
                    self._unfinished.pop(record["id"], None)
        except (KeyError, TypeError, ValueError, AttributeError):  # not a line of ours, or one that was damaged
            self.damaged_lines += 1

    def _complain(self, error: OSError) -> None:
        """Said once for a folder: a disk that is full is so for the journals of all runs."""
        if not self._complained:
            self._complained = True
            assert self.path is not None
            home = self.path.parent.parent
            _complaining.setdefault(home, weakref.WeakSet()).add(self)
            if len(_complaining[home]) == 1:
                logger.warning(
                    "vitals: the journals in %s cannot be written (%s); going on in memory: after a restart, what is "
                    "decided now may be decided again", home, error.strerror or error,
                )  # fmt: skip

    def _recover(self) -> None:
        if self._complained and self.path is not None:
            self._complained = False
            home = self.path.parent.parent
            _complaining[home].discard(self)
            if not _complaining[home]:
                logger.warning("vitals: the journals in %s are written again", home)


_FEW = 4
"""Letters of a run's id that are enough to name it."""


def journal_of(home: Path, run: str, policy: str) -> Path:
    """Where what is decided about a run under a policy of that name is written down."""
    return home / file_name(run) / f"{file_name(policy)}.journal.jsonl"


def journals_of(run: str, home: Path | None = None) -> list[Path]:
    """The journals of a run, one for each policy that watched it. A few letters of its id will do, if no other begins so,
    and so will the name that people gave it, once a rule of it has changed its level, if no other run has that name.
    Raises UsageError where there is none."""
    kept = home_of(home)
    found = sorted((kept / file_name(run)).glob("*.journal.jsonl"))
    if found:
        return found
    known: dict[str, list[Path]] = {}
    for path in sorted(kept.glob("*/*.journal.jsonl")):
        known.setdefault(path.parent.name, []).append(path)
    begins = [name for name in known if len(run) >= _FEW and name.startswith(file_name(run))]
    if len(begins) == 1:
        return known[begins[0]]
    called = {name: titles for name, paths in known.items() if (titles := set().union(*map(_titles, paths)))}
    meant = [name for name, titles in called.items() if run in titles]
    if len(meant) == 1:
        return known[meant[0]]
    if meant:
        raise UsageError(f"{len(meant)} runs are called `{run}`: give the id of one, {', '.join(meant)}")
    near = difflib.get_close_matches(run, [*known, *(title for titles in called.values() for title in titles)], 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(
        f"nothing is known of run {run} in {kept} (the watcher's --home): a run goes by its id, or by its name once a rule "
        f"of it has changed its level{hint}"
    )


def id_of(run: str, home: Path | None = None) -> str:
    """The id of a run that is given as `journals_of` takes it; what was given, where no journal tells of it."""
    try:
        return Journal(journals_of(run, home)[0]).known_as(run)
    except UsageError:
        return run


def _titles(path: Path) -> set[str]:
    """The names that people gave the run of a journal, as far as its decisions tell them."""
    found = set()
    for line in _readable(path).split(b"\n"):
        if b'"title"' in line:
            with contextlib.suppress(ValueError, AttributeError):
                found.add(str(json.loads(line).get("title", "")))
    return found - {""}


def is_alive(writer: str) -> bool:
    """Whether another process of this machine, still running, goes by that name (`HOST:PID:…`)."""
    host, _, rest = writer.partition(":")
    number = rest.partition(":")[0]
    if host != socket.gethostname() or not number.isdigit() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def signature() -> str:
    """A name for whoever writes here: this machine, this process, and a number of its own."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def _line(record: Record) -> bytes:
    # What is no Unicode (a byte of an argument) becomes an escape that JSON knows.
    return json.dumps(record, ensure_ascii=False, default=_plain).encode("utf-8", "backslashreplace") + b"\n"


def _plain(value: Any) -> Any:
    as_dict = getattr(value, "as_dict", None)
    return as_dict() if as_dict is not None else str(value)


def _opened(path: Path) -> int:
    """The file, for as long as something is written: a watcher of hundreds of runs could not hold all of them open."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)


def _readable(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # said already, by whoever could not open it
        return b""


def _sync_directory(path: Path) -> None:
    if os.name == "posix":
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
