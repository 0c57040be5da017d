"""Runs to be watched that are written in the test: scripted, interrupted, and failing on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vitalsdsl.acting.memory import Memory
from vitalsdsl.acting.tracker import Port
from vitalsdsl.ground.errors import TrackerError
from vitalsdsl.ground.points import Rewind, Row, RunInfo
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.watching.feeds import Batch, Cursor


@dataclass
class ScriptedRun:
    """A run of which `shown` events have been logged so far. `failures` are raised by the next readings, in turn."""

    name: str
    events: list[Row | Rewind]
    shown: int = 0
    is_over: bool = False
    at_a_time: int = 7
    failures: list[Exception] = field(default_factory=list)
    reads: int = 0
    port: Memory = field(default_factory=Memory)
    notes: tuple[str, ...] = ()

    def go_on(self, events: int | None = None, over: bool = False) -> None:
        self.shown = len(self.events) if events is None else self.shown + events
        self.is_over = over


class ScriptedFeed:
    def __init__(self, run: ScriptedRun) -> None:
        self.run = run

    @property
    def uri(self) -> str:
        return f"scripted:{self.run.name}"

    @property
    def info(self) -> RunInfo:
        return RunInfo(self.run.name, url=f"https://host/{self.run.name}")

    @property
    def interval(self) -> float:
        return 0.01

    def read(self, cursor: Cursor | None) -> Batch:
        run = self.run
        run.reads += 1
        if run.failures:
            raise run.failures.pop(0)
        begin = 0 if cursor is None else int(cursor["at"])
        end = min(begin + run.at_a_time, run.shown)
        over = run.is_over and end == run.shown
        return Batch(run.events[begin:end], {"at": end}, more=end < run.shown, is_over=over, notes=run.notes)

    def ports(self, policy: LoadedPolicy) -> Sequence[Port]:
        return (self.run.port,)

    def close(self) -> None:
        pass


class ScriptedTarget:
    tells_feeds = False

    def __init__(self, *runs: ScriptedRun, is_open: bool = False) -> None:
        self.runs = list(runs)
        self.is_open = is_open
        self.failures: list[TrackerError] = []

    def find(self) -> Sequence[ScriptedFeed]:
        if self.failures:
            raise self.failures.pop(0)
        return [ScriptedFeed(run) for run in self.runs]

    def close(self) -> None:
        pass


def rows(values: Sequence[float], first: int = 0, name: str = "loss") -> list[Row | Rewind]:
    """One row a step."""
    return [Row(step, {name: value}, 1000.0 + step) for step, value in enumerate(values, first)]


def as_plain(transition: Any) -> tuple[Any, ...]:
    return transition.attempt, transition.step, transition.rule, transition.from_.word, transition.to.word
