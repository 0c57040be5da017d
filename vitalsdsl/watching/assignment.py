"""What a watcher is given: policies over targets, who is told what it sees, and how the looks at a target go."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vitalsdsl.acting.tracker import Port
from vitalsdsl.ground.points import RunInfo
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.watching.feeds import Target
from vitalsdsl.watching.watched import Reading, Watched


@dataclass(frozen=True)
class Assignment:
    """A policy over all runs of a target. `ports` are what is told beside the run's own tracker: channels, control.

    The looks at the target stand in the store under `reference`, so that the next watcher knows what is new since; under
    none, they do not.
    """

    target: Target
    policy: LoadedPolicy
    ports: Callable[[RunInfo], Sequence[Port]] = lambda info: ()
    reference: str = ""


class Shows:
    """Who is told what a watcher sees, for people to look at. Called from one thread; must not raise."""

    def saw(self, run: Watched, reading: Reading) -> None:
        """A run was read on."""

    def found(self, reference: str, runs: Sequence[RunInfo]) -> None:
        """A look at a target has found runs that were not known."""

    def said(self, text: str) -> None:
        """Something that people should know, in one line."""


@dataclass(eq=False)
class Search:
    """The looks at one target. Where it `leads`, the readings of its runs follow each look at once.

    `fresh` are the runs that the store does not know to be begun; it was last written to at `noted` (unix seconds). `due`
    is when the next look is to begin, by the monotonic clock, `was_due` when the last one was, and `late` by how many
    seconds that came later: it `lags` where the readings before it take too long.
    """

    assignment: Assignment
    began: float = 0.0
    noted: float = 0.0
    fresh: set[str] = field(default_factory=set)
    leads: bool = False
    due: float = math.inf
    was_due: float = math.inf
    is_behind: bool = False
    late: float = 0.0
    lags: bool = False
    has_answered: bool = False

    def lag(self, runs: int, between: float) -> str | None:
        """What is to be said of how late this look comes: the readings of the one before are queued before it, so that
        what is told comes late as well. None where nothing has changed."""
        self.late = max(0.0, time.monotonic() - self.was_due)
        name = self.assignment.reference
        if not self.lags and self.late > between:
            self.lags = True
            took = self.late + between
            return f"{name}: reading {runs} runs takes {took:.0f} s, and not {between:.0f} s, so alerts come late"
        if self.lags and self.late < between / 2:
            self.lags = False
            return f"{name}: alerts come in time again"
        return None
