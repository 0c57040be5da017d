"""What every way to MLflow's stores gives: a run as it stands, its points by their order, and what has come since."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Protocol

from vitalsdsl.ground.errors import TrackerError
from vitalsdsl.ground.points import planned_steps
from vitalsdsl.watching.feeds import Wanted
from vitalsdsl_mlflow.rows import LoggedPoint

ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})

_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class Snapshot:
    """A run as its store describes it now. `latest` holds of each metric the point of the highest step.

    `started` and `ended` are in milliseconds, 0 where unknown.
    """

    run_id: str
    experiment_id: str = ""
    status: str = "RUNNING"
    started: int = 0
    ended: int = 0
    is_deleted: bool = False
    artifact_uri: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    latest: Mapping[str, LoggedPoint] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return self.status in ENDED

    @property
    def total_steps(self) -> float:
        """How many steps are planned, NaN where no param says so."""
        return planned_steps(self.params)

    def has(self, wanted: Wanted) -> bool:
        """Whether the run is one of those that are wanted."""
        is_old = self.is_over and max(self.started, self.ended) <= 1000.0 * wanted.ended_after
        if self.is_deleted or (is_old and not wanted.finished):
            return False
        return all(
            name in self.tags and value in (None, self.tags[name]) for name, value in wanted.tags.items()
        )  # fmt: skip


Mark = Any
"""How far a store that keeps the order of arrival has been read: plain data that JSON can hold."""


class Store(Protocol):
    """A tracking store that is read from outside. Every method raises TrackerError; those of one run also RunGone."""

    @property
    def uri(self) -> str:
        """The store among all stores, without credentials."""

    def run(self, run_id: str) -> Snapshot:
        """The run as it stands, whether it was deleted or not. Raises RunGone where there is none."""

    def experiment(self, name: str) -> str:
        """The id of an experiment by its name or its id. Raises TrackerError where there is none."""

    def experiments(self, pattern: str) -> Sequence[str]:
        """The ids of the experiments whose names fit a pattern (`llm-*`)."""

    def search(self, experiments: Sequence[str], wanted: Wanted) -> Sequence[Snapshot]:
        """The runs of experiments, by their ids, the oldest first."""

    def page_url(self, snapshot: Snapshot) -> str:
        """Where a person can look at a run; empty where there is no such page."""

    def reference(self, snapshot: Snapshot) -> str:
        """What stands after `mlflow:` for a run alone: its page or its folder, else its id in the store that is set."""

    def tail(self, run_id: str, key: str, offset: int, limit: int, mark: Mark) -> Sequence[LoggedPoint]:
        """The points of one metric by time, step and value, from the n-th on, `limit` of them at most.

        Of a store that keeps the order of arrival: of what had come before the mark.
        """

    def since(self, run_id: str, key: str, first: int, last: int) -> Sequence[LoggedPoint] | None:
        """All points of one metric at steps from `first` to `last`; None where the store cannot be asked for them, or
        where they are better read by `tail`."""

    def since_of(self, runs: Sequence[str], key: str, first: int, last: int) -> Mapping[str, Sequence[LoggedPoint]]:
        """The same of many runs, a hundred at most, in one question; without those for which it cannot be told whether
        all of their points came."""

    def mark(self, run_id: str) -> Mark:
        """The order of arrival up to now; None where the store keeps none."""

    def fresh(self, run_id: str, mark: Mark) -> tuple[Sequence[LoggedPoint], Mark]:
        """What has come after a mark, and the next mark. Asked only of stores that give marks."""

    def close(self) -> None: ...


def fits(name: str, pattern: str) -> bool:
    """Whether an experiment's name is meant by a pattern, or is the very text of it.

    >>> fits("llm-7b", "llm-*"), fits("llm [a]", "llm [a]"), fits("LLM-7b", "llm-*")
    (True, True, False)
    """
    return name == pattern or fnmatchcase(name, pattern)


def restored(value: float) -> float:
    """A value as it was logged: MLflow's databases keep ±inf as the largest float.

    >>> restored(1.7976931348623157e308), restored(-1.7976931348623157e308), restored(1e300)
    (inf, -inf, 1e+300)
    """
    if abs(value) >= _LARGEST:
        return math.inf if value > 0 else -math.inf
    return value


def number_of(value: object) -> float:
    """A value of MLflow's JSON, where what is not finite is a text. Raises TrackerError where it is none."""
    try:
        return restored(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TrackerError("a point of MLflow's answer has no number as its value") from None
