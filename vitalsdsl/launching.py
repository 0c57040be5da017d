"""Start a training with a policy attached to whatever it logs to, without a line changed in it.

Each tracker's integration says what it takes: variables by which it attaches itself inside the process, and a folder
that can be watched from outside where that did not work.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from vitalsdsl.ground.errors import UsageError, VitalsError
from vitalsdsl.ground.home import HOME_VARIABLE, file_name
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.watching.feeds import Feed, Target, Wanted, schemes, target
from vitalsdsl.watching.watcher import Assignment, Shows, Watcher

logger = logging.getLogger("vitalsdsl")

GROUP = "vitalsdsl.launchers"

POLICY_VARIABLE = "VITALS_POLICY"

PATIENCE = 10.0
"""Seconds that a run has to be attached from inside before it is watched from outside."""


class Launcher(Protocol):
    """What a tracker's integration does for a training that is started."""

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variables to be set."""

    def folder(self, given: Mapping[str, str]) -> str:
        """A target that finds the training's runs from outside; empty where there is none."""


class Unattended:
    """The runs of a target that have begun since, and that nobody watches from inside."""

    is_open = True

    def __init__(self, inner: Target, home: Path) -> None:
        self._inner = inner
        self._home = home
        self._before = {feed.uri for feed in inner.find()}
        self._first_seen: dict[str, float] = {}
        self._ours: set[str] = set()
        self.patience = PATIENCE

    @property
    def tells_feeds(self) -> bool:
        return self._inner.tells_feeds

    def find(self) -> Sequence[Feed]:
        """Those that were given time to be attached, and were not."""
        now = time.monotonic()
        found = [feed for feed in self._inner.find() if feed.uri not in self._before]
        for feed in found:
            waited = now - self._first_seen.setdefault(feed.uri, now)
            if waited >= self.patience and not (self._home / file_name(feed.info.name)).exists():
                self._ours.add(feed.uri)
        return [feed for feed in found if feed.uri in self._ours]

    def close(self) -> None:
        self._inner.close()


def launch(policy: LoadedPolicy, reference: str, command: Sequence[str], home: Path, shows: Shows) -> int:
    """Run a command under a policy, to its end; its exit code (128 + n where signal n ended it).

    Signals are passed on. The command's input and output are its own. Raises UsageError where it cannot be started.
    """
    environment = {**os.environ, POLICY_VARIABLE: reference, HOME_VARIABLE: str(home.absolute())}
    targets: list[Unattended] = []
    for launcher in _launchers():
        environment |= launcher.environment(environment)
        folder = launcher.folder(environment)
        if folder.partition(":")[0] in schemes():
            targets.append(Unattended(target(folder, Wanted(finished=True, step_key=policy.axis)), home))
    outside = _Outside(targets, policy, home, shows)
    with _signals() as belong_to:
        try:
            child = subprocess.Popen(list(command), env=environment)
        except OSError as error:
            raise UsageError(f"{command[0]} cannot be started: {error.strerror or error}") from error
        belong_to(child)
        outside.begin()
        code = child.wait()
    outside.end()
    return 128 - code if code < 0 else code


def _launchers() -> list[Launcher]:
    found: list[Launcher] = []
    for point in entry_points(group=GROUP):
        try:
            found.append(point.load())
        except Exception as error:  # a package that is broken must not keep the training from starting
            logger.warning("vitals: what is logged to %s is not watched: %s", point.name, error)
    return found


class _Outside:
    """The watch from outside over what is not attached inside. What keeps it from watching is said, and no more: the
    training is what counts."""

    def __init__(self, targets: Sequence[Unattended], policy: LoadedPolicy, home: Path, shows: Shows) -> None:
        self._targets = targets
        self._assignments = [Assignment(one, policy) for one in targets]
        self._home = home
        self._shows = shows
        self._watcher = self._new()
        self._thread = threading.Thread(target=self._run, args=(self._watcher,), name="vitals-watch", daemon=True)

    def begin(self) -> None:
        """Watch, in a thread."""
        self._thread.start()

    def end(self) -> None:
        """The training is over: whatever is not attached by now never will be, and is read to its end."""
        if self._watcher is None:
            return
        self._watcher.stop()
        self._thread.join(30.0)
        for one in self._targets:
            one.patience = 0.0
        self._run(self._new(), once=True)

    def _new(self) -> Watcher | None:
        try:
            return Watcher(self._assignments, self._home, shows=self._shows) if self._assignments else None
        except VitalsError as error:
            _complain(error)
            return None

    def _run(self, watcher: Watcher | None, once: bool = False) -> None:
        if watcher is None:
            return
        try:
            watcher.run(once)
        except VitalsError as error:
            _complain(error)


def _complain(error: VitalsError) -> None:
    logger.warning("vitals: runs are not watched from outside: %s", error)


@contextmanager
def _signals() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Within, signals belong to the training that is given: also those that come before it has started, so that none
    ends us and leaves the training behind."""
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, frame: Any) -> None:
        if children:
            children[0].send_signal(number)
        else:
            early.append(number)

    def belong_to(child: subprocess.Popen[bytes]) -> None:
        children.append(child)
        for number in early:
            child.send_signal(number)

    # Ctrl-C reaches the whole group of the terminal by itself: here it must only not end us before the training.
    before = {signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None)}
    before[signal.SIGTERM] = signal.signal(signal.SIGTERM, pass_on)
    try:
        yield belong_to
    finally:
        for number, act in before.items():
            signal.signal(number, act)


def was_watched(home: Path, since: float) -> bool:
    """Whether any run has been watched since a unix time: its journal or the state of its rules was written."""
    written = (*home.glob("*/*.journal.jsonl"), *home.glob("*/*.state.json"))
    return any(path.stat().st_mtime >= since for path in written)


def levels_reached(home: Path, since: float) -> list[tuple[str, list[dict[str, Any]]]]:
    """What the journals tell of runs since a unix time: for each run its decisions, in order."""
    found = []
    for path in sorted(home.glob("*/*.journal.jsonl")):
        records = [r for r in _records(path) if r.get("type") in ("intent", "noted") and r.get("at", 0.0) >= since]
        if records:
            found.append((str(records[0]["run"]), records))
    return found


def _records(path: Path) -> list[dict[str, Any]]:
    out = []
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            out.append(record)
    return out
