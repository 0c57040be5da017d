"""Contenders by turns in one process: first all must find the same, then each is measured as a multiple of ours."""

from __future__ import annotations

import gc
import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.benchmarks.work import Change, Work


class Walk(Protocol):
    """One who is shown a run step by step."""

    def fill(self, until: int) -> None:
        """See the first steps, of which nothing is to be found, and of which the time is not taken."""

    def walk(self, begin: int, end: int) -> list[Change]:
        """See these steps; what was found, in any order."""


Run = Callable[[], list[Change]]


@dataclass(frozen=True)
class Contender:
    """Who does the work. `prepare` does what is not measured, such as loading the policy and turning the data into the form
    that is wanted; it gives a Run of the whole work, or a Walk over it."""

    name: str
    prepare: Callable[[Work], Any]
    needs: str = ""
    steps: int = 1_000_000_000
    """So many steps are enough, of one that is slow: of a walk in each round, of a run in all."""
    finds: str = "changes"
    """`changes`: all of them; `begins`: when each rule first goes off, of one that says nothing of the rest; `nothing`: a
    limit, that works nothing out."""

    @property
    def is_installed(self) -> bool:
        try:
            return not self.needs or importlib.import_module(self.needs) is not None
        except ImportError:
            return False


@dataclass(frozen=True)
class Outcome:
    """Microseconds a step, or whatever the contest's unit is, and how many times ours: the median of the rounds and their range. None: not installed."""

    name: str
    each: float | None
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class Contest:
    """What was done, and how each fared; ours is the first."""

    name: str
    outcomes: tuple[Outcome, ...]
    unit: str = "us a step"


Measured = dict[str, list[float]]
"""By contender the microseconds a step of each round."""


def race_steps(name: str, contenders: Sequence[Contender], work: Work, fill: int, chunk: int, rounds: int) -> Contest:
    """A step at a time, with windows that are full. Each round shows each contender its next steps."""
    there = [one for one in contenders if one.is_installed]
    walks = {one.name: one.prepare(work) for one in there}
    for walk in walks.values():
        walk.fill(fill)
    measured: Measured = {one.name: [] for one in there}
    found: dict[str, list[Change]] = {one.name: [] for one in there}
    for n in range(rounds):
        for one in there:
            each = min(one.steps, chunk)
            begin = fill + n * each
            gc.collect()
            began = time.process_time()
            found[one.name] += walks[one.name].walk(begin, begin + each)
            measured[one.name].append((time.process_time() - began) / each * 1e6)
    ours = found[there[0].name]
    for one in there[1:]:
        _compare(one, found[one.name], ours, fill + rounds * min(one.steps, chunk))
    return Contest(name, outcomes(contenders, measured))


def race_runs(name: str, contenders: Sequence[Contender], work: Work, rounds: int) -> Contest:
    """A whole run at once, again in each round."""
    there = [one for one in contenders if one.is_installed]
    runs: dict[str, Run] = {one.name: one.prepare(work.first(one.steps)) for one in there}
    ours = runs[there[0].name]()
    for one in there[1:]:
        _compare(one, runs[one.name](), ours, min(one.steps, work.steps))
    measured: Measured = {one.name: [] for one in there}
    for _ in range(rounds):
        for one in there:
            measured[one.name].append(cpu(runs[one.name]) / min(one.steps, work.steps) * 1e6)
    return Contest(name, outcomes(contenders, measured))


def outcomes(contenders: Sequence[Contender], measured: Measured) -> tuple[Outcome, ...]:
    ours = next(iter(measured.values()))
    out = []
    for one in contenders:
        times = measured.get(one.name)
        if times is None:
            out.append(Outcome(one.name, None))
            continue
        ratios = [theirs / own for theirs, own in zip(times, ours)]
        out.append(
            Outcome(one.name, statistics.median(times), statistics.median(ratios), min(ratios), max(ratios))
        )  # fmt: skip
    return tuple(out)


def cpu(run: Callable[[], Any]) -> float:
    """Seconds of this process, all threads together."""
    gc.collect()
    began = time.process_time()
    run()
    return time.process_time() - began


def _compare(one: Contender, found: list[Change], ours: list[Change], until: int) -> None:
    wanted = sorted(change for change in ours if change[1] < until)
    if one.finds == "nothing":
        return
    if one.finds == "begins":
        found, wanted = _begins(found), _begins(wanted)
    if sorted(found) != wanted:
        raise SystemExit(
            f"{one.name} finds {len(found)} changes, and {len(wanted)} are wanted: "
            f"{sorted(set(found) ^ set(wanted))[:10]}"
        )


def _begins(changes: list[Change]) -> list[Change]:
    first: dict[int, Change] = {}
    for change in sorted(changes, key=lambda one: one[1]):
        if change[2]:
            first.setdefault(change[0], change)
    return sorted(first.values())
