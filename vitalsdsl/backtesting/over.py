"""One or several policies over all runs behind some sources: each source read once, results in their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from vitalsdsl.backtesting.judging import Judged, PolicyCopy, Task
from vitalsdsl.backtesting.kept import Kept
from vitalsdsl.backtesting.outcome import RunOutcome
from vitalsdsl.backtesting.pool import judged
from vitalsdsl.backtesting.summary import RuleSummary, rule_summaries
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.runs.places import Place, Unread, places_of

OnProgress = Callable[[int, int, int], None]
"""Told how many places are done, of how many, and how many points have been read."""


@dataclass(frozen=True)
class Verdicts:
    """One policy over the runs. `setting` is the value of the param that was varied, empty where none was."""

    policy: PolicyCopy
    runs: tuple[RunOutcome, ...]
    setting: str = ""

    @property
    def rules(self) -> list[RuleSummary]:
        """Each rule of the policy: how often, when, on which runs."""
        return rule_summaries(self.policy.rules, self.runs)

    @property
    def steps(self) -> int:
        """The steps of all runs at which something was logged."""
        return sum(len(run.steps) for run in self.runs)


@dataclass(frozen=True)
class Work:
    """What reading took: places in all, how many of them were taken from what had been kept, and points read."""

    places: int = 0
    taken: int = 0
    points: int = 0


def over(
    copies: Sequence[tuple[PolicyCopy, str]],
    sources: Iterable[str | os.PathLike[str]],
    *,
    jobs: int = 1,
    step_key: str | None = None,
    kept: Kept | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[list[Verdicts], list[Unread], Work]:
    """Each policy, with its setting, over all runs behind the sources; a source is read once for all of them.

    The runs are in the order of the sources, whatever the number of jobs.
    """
    if jobs < 1:
        raise UsageError("at least one job is needed")
    places, unread = places_of(sources, step_key)
    wanted = tuple(copy for copy, _ in copies)
    taking = _Taking(places, wanted, step_key, kept)
    tasks = taking.tasks
    work = Work(len(places), len(places) - len(tasks))
    if on_progress is not None:
        on_progress(work.taken, work.places, 0)
    for done in judged(tasks, jobs):
        taking.take(done)
        work = replace(work, points=work.points + done.points)
        if on_progress is not None:
            on_progress(work.places - len(tasks) + taking.count, work.places, work.points)
    unread += taking.unread
    verdicts = [
        Verdicts(copy, tuple(run for place in taking.found for run in place.get(copy.digest, ())), setting)
        for copy, setting in copies
    ]
    return verdicts, unread, work


class _Taking:
    """The results of all places, those that were kept and those that come."""

    def __init__(
        self, places: Sequence[Place], wanted: Sequence[PolicyCopy], step_key: str | None, kept: Kept | None
    ) -> None:
        self._places = places
        self._kept = kept
        self._step_key = step_key
        self.found: list[dict[str, tuple[RunOutcome, ...]]] = [{} for _ in places]
        self._why: dict[int, str] = {}
        self.count = 0
        self.tasks: list[Task] = []
        distinct = {copy.digest: copy for copy in wanted}
        for index, place in enumerate(places):
            known = {d: kept.get(place, copy, step_key) for d, copy in distinct.items()} if kept is not None else {}
            self.found[index] = {digest: runs for digest, runs in known.items() if runs is not None}
            lacking = tuple(copy for digest, copy in distinct.items() if digest not in self.found[index])
            if lacking:
                self.tasks.append(Task(index, place, lacking, step_key))
        self._copies = {task.index: task.copies for task in self.tasks}

    def take(self, done: Judged) -> None:
        self.count += 1
        if done.why:
            self._why[done.index] = done.why
            self.found[done.index] = {}
            return
        place = self._places[done.index]
        for copy, runs in zip(self._copies[done.index], done.runs):
            self.found[done.index][copy.digest] = runs
            if self._kept is not None:
                self._kept.put(place, copy, self._step_key, runs)

    @property
    def unread(self) -> list[Unread]:
        places = self._places
        return [Unread(places[at].shown, why, places[at].is_named) for at, why in sorted(self._why.items())]
