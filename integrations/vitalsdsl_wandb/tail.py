"""Watching runs of W&B by the files that they write on this disk, online or not. wandb itself is not needed.

A process that was killed leaves no end in its file, and a silent file may be that of a slow run: only the end that W&B
writes is one. A later process of the same run goes on with it.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from vitalsdsl.acting.tracker import Port
from vitalsdsl.ground.errors import RunGone, SourceError, TrackerError
from vitalsdsl.ground.points import Rewind, Row, RunInfo, planned_steps
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.watching.feeds import Batch, Cursor, Wanted
from vitalsdsl_wandb import places
from vitalsdsl_wandb.local import LocalRun
from vitalsdsl_wandb.records import RunFacts

POINTS = 10_000
"""How many points a batch holds at most, but for one row that has more."""

STALE = 24 * 3600.0
"""Seconds after which a file without an end, of a run that was already there, is taken for one of a killed process."""


class LocalFeed:
    """One run on this disk. `entity` and `project` are empty where its own process did not know them.

    `files` gives the files of the run that are there now, the first process first.
    """

    def __init__(
        self,
        facts: RunFacts,
        files: Callable[[], Sequence[Path]],
        step_key: str | None = None,
        may_stop: bool = False,
    ) -> None:
        self.run_id = facts.run_id
        self.entity = facts.entity
        self.project = facts.project
        self._total_steps = planned_steps(facts.config)
        self._title = facts.title
        self._files = files
        self._step_key = step_key
        self._may_stop = may_stop

    @property
    def uri(self) -> str:
        """`wandb:ENTITY/PROJECT/RUN_ID`, as for the same run on its server; `wandb:local/RUN_ID` where that is not known."""
        if self.entity and self.project:
            return f"wandb:{self.entity}/{self.project}/{self.run_id}"
        return f"wandb:local/{self.run_id}"

    @property
    def reference(self) -> str:
        """Its first file: with it all of the run are read. Its uri where they have just been deleted."""
        files = self._files()
        return f"wandb:{files[0]}" if files else self.uri

    @property
    def info(self) -> RunInfo:
        return RunInfo(self.run_id, self._total_steps, title=self._title)

    @property
    def interval(self) -> float:
        """A file is looked at every second, which costs next to nothing."""
        return 1.0

    @property
    def is_online(self) -> bool:
        """Whether its newest process sends to a server, so that something can be posted there."""
        files = self._files()
        return bool(files) and not files[-1].parent.name.startswith("offline-")

    def read(self, cursor: Cursor | None) -> Batch:
        run = LocalRun(self._files, self._step_key, cursor, live=cursor is None and self._goes_on())
        events: list[Row | Rewind] = []
        points = 0
        more = False
        try:
            for found in run.read():
                events += found
                points += sum(1 if isinstance(event, Rewind) else 1 + len(event.values) for event in found)
                if points >= POINTS:
                    more = True
                    break
        except SourceError as problem:
            raise TrackerError(str(problem), is_final=True) from problem
        except FileNotFoundError as problem:
            raise RunGone(f"the files of run {self.run_id} are there no longer") from problem
        except OSError as problem:
            raise TrackerError(f"run {self.run_id} cannot be read: {_reason(problem)}") from problem
        return Batch(tuple(events), run.cursor(), more, run.is_over and not more, tuple(run.notes))

    def _goes_on(self) -> bool:
        """Whether its newest file has no end: how fresh that is matters only then."""
        try:
            files = self._files()
            return bool(files) and not places.has_ended(files[-1])
        except (OSError, SourceError):  # its reading says what is wrong
            return False

    def ports(self, policy: LoadedPolicy) -> Sequence[Port]:
        """Nothing is ever written to a file of W&B's. Of a run that is sent to a server, its tags and alerts there can
        be reached, where there is a key for it."""
        if not (self.is_online and self.entity and self.project):
            return ()
        try:
            outside = importlib.import_module("vitalsdsl_wandb.outside")
        except ImportError:  # the library for HTTP comes with the extra `wandb`, which reading files does not need
            return ()
        found: Sequence[Port] = outside.ports_of(self.uri, may_stop=self._may_stop)
        return found

    def close(self) -> None:
        """Nothing is open between readings."""


class LocalTarget:
    """What a path stands for: one run (its file, its folder), or all runs in a `wandb` folder, new ones as they begin.

    A run is there once its process has written a row, which older releases of W&B do late. A run that the path names is
    always found. In a folder, those that have ended are found only if `wanted`, if something was written of them since
    somebody looked before, or if they began since the target was made.
    """

    def __init__(self, place: Path, wanted: Wanted) -> None:
        self._place = place.resolve()
        self._wanted = wanted
        self._earlier: set[str] | None = None
        self._facts: dict[Path, RunFacts] = {}
        self._ended: dict[Path, tuple[int, bool]] = {}

    @property
    def is_open(self) -> bool:
        return not self._names_a_run()

    @property
    def tells_feeds(self) -> bool:
        return False

    def find(self) -> Sequence[LocalFeed]:
        try:
            runs = places.by_run(self._present())
        except OSError as problem:
            raise TrackerError(f"`{self._place}` cannot be read: {_reason(problem)}") from problem
        if self._earlier is None:
            self._earlier = set(runs)
        found = []
        for run_id, files in runs.items():
            try:
                facts = self._facts_of(files[0])
                is_wanted = facts is not None and self._is_wanted(run_id, facts, files[-1])
            except FileNotFoundError:
                continue  # deleted in between
            except (SourceError, OSError):  # its reading will say what is wrong with it
                facts, is_wanted = RunFacts(run_id), True
            if facts is None:
                continue
            feed = LocalFeed(facts, partial(places.files_at, files[0]), self._wanted.step_key, self._wanted.may_stop)
            if is_wanted or feed.uri in self._wanted.begun:
                found.append(feed)
        return found

    def close(self) -> None:
        """Nothing is open."""

    def _present(self) -> list[Path]:
        """The files that are there; none before the first run makes W&B's folder, and after it is deleted."""
        return places.files_at(self._place) if self._place.exists() else []

    def _names_a_run(self) -> bool:
        return places.is_run_file(self._place) or places.names_a_run(self._place)

    def _facts_of(self, file: Path) -> RunFacts | None:
        known = self._facts.get(file)
        if known is None:
            known = places.facts(file)
            if known is not None:
                self._facts[file] = known
        return known

    def _is_wanted(self, run_id: str, facts: RunFacts, newest: Path) -> bool:
        if not _has_tags(facts.tags, self._wanted):
            return False
        if self._wanted.finished or self._names_a_run() or run_id not in (self._earlier or ()):
            return True
        written = newest.stat()
        if written.st_mtime > self._wanted.ended_after:
            return True
        if time.time() - written.st_mtime > STALE:
            return False
        known = self._ended.get(newest)
        if known is None or known[0] != written.st_size:
            known = self._ended[newest] = (written.st_size, places.has_ended(newest))
        return not known[1]


def _has_tags(tags: Sequence[str], wanted: Wanted) -> bool:
    """Whether a run has the tags: `NAME`, or `NAME:VALUE` as W&B's tags are texts."""
    return all(
        any(tag == name or tag.startswith(f"{name}:") for tag in tags) if value is None else f"{name}:{value}" in tags
        for name, value in wanted.tags.items()
    )


def _reason(problem: OSError) -> str:
    return (problem.strerror or str(problem)).lower()
