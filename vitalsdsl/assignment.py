"""What a watcher is given: policies over targets, and who is told what it sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vitalsdsl.feeds import Target
from vitalsdsl.points import RunInfo
from vitalsdsl.policy import LoadedPolicy
from vitalsdsl.tracker import Port
from vitalsdsl.watched import Reading, Watched


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
