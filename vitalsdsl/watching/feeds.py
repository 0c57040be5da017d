"""Runs that go on elsewhere: where points come from while a run is watched from outside.

A target (one run, a project, an experiment) finds feeds; a feed is one run, read on from a cursor. The cursor is plain
data and holds all that reading on needs, so that a watcher that was killed goes on where its store says, and nothing is
read twice or left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

from vitalsdsl.acting.tracker import Port
from vitalsdsl.ground.claims import in_full, is_there
from vitalsdsl.ground.errors import MissingExtraError, UsageError
from vitalsdsl.ground.points import Rewind, Row, RunInfo
from vitalsdsl.policies.policy import LoadedPolicy

GROUP = "vitalsdsl.targets"
_PATHS = ("./", "../", "/", "~")
"""How a path begins that can be nothing else."""

Cursor = Mapping[str, Any]
"""Where reading goes on: plain data that JSON can hold, small whatever the length of the run. Only its feed reads it."""


@dataclass(frozen=True)
class Batch:
    """What one reading of a feed gave.

    `events` are in the order in which the run logged them, each given once over all readings. With `more` there is more
    to be had at once; a batch holds some ten thousand points at most, so that a long history never stands in memory.
    `is_over`: the run has ended and all of it has been given. `notes` are what the feed decided or noticed, to be said
    once each (`the step is taken from train/global_step`, `bad blocks: 2`).
    """

    events: Sequence[Row | Rewind]
    cursor: Cursor
    more: bool = False
    is_over: bool = False
    notes: tuple[str, ...] = ()


class Feed(Protocol):
    """One run that is watched from outside."""

    @property
    def uri(self) -> str:
        """The run among all runs anywhere, and the same for every watcher: `mlflow:http://host:5000/RUN_ID`."""

    @property
    def reference(self) -> str:
        """What `sources.read` takes for this run alone, here and now."""

    @property
    def info(self) -> RunInfo:
        """What is known of it. `name` is the run's own id, as in its own process: transition ids are made of it."""

    @property
    def interval(self) -> float:
        """Seconds between two readings, below which nothing new is to be expected or the tracker would mind."""

    def read(self, cursor: Cursor | None) -> Batch:
        """What came after the cursor (None: from the beginning of the run).

        One or a few requests, each with a timeout. Raises TrackerError where the tracker does not answer as it should
        (nothing is lost: the same cursor is read again later), RunGone where the run has been deleted.
        """

    def ports(self, policy: LoadedPolicy) -> Sequence[Port]:
        """What can be done on the run from outside, under a policy: its tags, its alerts, copies kept with it."""

    def close(self) -> None:
        """Give back what is open."""


class Target(Protocol):
    """What a watcher was pointed at."""

    @property
    def is_open(self) -> bool:
        """Whether further runs may turn up: of a project, unlike of one run."""

    @property
    def tells_feeds(self) -> bool:
        """Whether `find` also tells the feeds that it gives how their runs stand, so that their next readings ask less: then
        it is worth calling as often as they are read."""

    def find(self) -> Sequence[Feed]:
        """The runs that are there now, the oldest first. Called again and again, and cheap: one request or a few.

        A run found before is found again (by the same `uri`), as a new object or the same. Raises TrackerError.
        """

    def close(self) -> None:
        """Give back what is open."""


@dataclass(frozen=True)
class Wanted:
    """What of a target is to be watched, and how its rows are to be read.

    `tags` must all be on a run, with these values (None: with any, or as a bare tag). Found are the runs that go on, and
    while a target is looked at again and again, those that came and ended meanwhile. `step_key` is the logged name that
    is the training step.
    """

    tags: Mapping[str, str | None] = field(default_factory=dict)
    finished: bool = False
    """Whether runs that have ended are found too, whenever that was."""
    ended_after: float = math.inf
    """Runs that have ended are found too if they ended, or were made, later than this (unix seconds). Clocks differ: some
    minutes earlier may be found as well."""
    begun: frozenset[str] = frozenset()
    """Runs, by their feeds' `uri`, that were begun and not read to their end: found whatever has become of them."""
    step_key: str | None = None
    may_stop: bool = False
    """Whether a request to stop may be passed on to the tracker's own stop button (W&B)."""


def schemes() -> dict[str, EntryPoint]:
    """What can be watched, by the word before the colon."""
    return {point.name: point for point in entry_points(group=GROUP)}


def target(reference: str, wanted: Wanted) -> Target:
    """What a reference such as `mlflow:experiments/NAME` points at. Nothing is read yet.

    A path that is there, and what has no scheme, is of the tracker that knows it for its own: `./wandb`, or the address
    of a run's page. Raises UsageError where it means nothing, MissingExtraError where a package is missing.
    """
    known = schemes()
    scheme, _, rest = reference.partition(":")
    if scheme not in known or is_there(reference):
        full = in_full(reference)
        scheme, _, rest = full.partition(":")
        if full == reference or scheme not in known:
            listed = ", ".join([*(f"{name}:…" for name in sorted(known)), "the folder of a tracker, such as ./wandb"])
            is_lost = reference.startswith(_PATHS) and not is_there(reference)
            wrong = f"there is no folder `{reference}`" if is_lost else f"nothing here watches `{reference}`"
            raise UsageError(f"{wrong} (what can be watched: {listed})")
    try:
        opened: Target = known[scheme].load()(rest, wanted)
    except ImportError as error:
        raise MissingExtraError(error.name or scheme, "watch") from error
    return opened
