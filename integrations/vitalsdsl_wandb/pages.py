"""What is new in many runs of a project, asked for in a few questions instead of one for each run."""

from __future__ import annotations

import copy
import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vitalsdsl.ground.errors import TrackerError
from vitalsdsl_wandb.address import Address
from vitalsdsl_wandb.graphql import GraphQL, Refused, TooLarge

logger = logging.getLogger("vitalsdsl")

AT_ONCE = 25
"""Runs in one question, as for their configurations. W&B publishes no bound; where it refuses so many, fewer are asked."""

TRY_AGAIN = 600.0
"""Seconds after which a server that refused is asked about so many runs at once again: it may have been busy."""

_FRESH = 60.0
_LARGE = 16 * 2**20

PARTS = "state heartbeatAt historyKeys"
"""What each reading wants to know of a run beside its rows."""


class Steps(NamedTuple):
    """A range of a run's steps, `high` not in it."""

    run: str
    low: int
    high: int


class Told(NamedTuple):
    """How a run stands by a list of all runs, and where the page that its next reading wants can be had."""

    state: str
    lines: int | None
    pages: Pages | None = None


class Pages:
    """One page of each of several runs, all asked for when the first is taken. Safe to use from several threads."""

    def __init__(self, project: ProjectPages, wanted: Sequence[Steps]) -> None:
        self._project = project
        self._wanted = wanted
        self._lock = threading.Lock()
        self._found: dict[Steps, dict[str, Any]] | None = None
        self._error: TrackerError | None = None
        self._until = math.inf

    def take(self, steps: Steps) -> dict[str, Any] | None:
        """The run with its rows; None where it must be asked for by itself. Raises TrackerError: one failure is that of all
        the runs, so that a server which is away is not asked for each."""
        with self._lock:
            if self._found is None and self._error is None:
                try:
                    self._found = self._project.ask(self._wanted)
                except TrackerError as error:
                    self._error = error
                self._until = time.monotonic() + _FRESH
            if time.monotonic() > self._until:
                return None
            if self._error is not None:
                raise copy.copy(self._error)
            return self._found.pop(steps, None) if self._found is not None else None


class ProjectPages:
    """Asks for pages of many runs of one project, about as many at once as the server takes."""

    def __init__(self, client: GraphQL, address: Address) -> None:
        self._client = client
        self._address = address
        self._most = AT_ONCE
        self._refused = -math.inf
        self.counts_hold = True
        """Whether a run of which the list counts no new rows had none, whenever that was tried."""

    def share(self, wanted: Sequence[Steps]) -> dict[str, Pages]:
        """Where the page of each run can be had. Runs that are read one after the other are in different questions, so that
        several are under way at a time."""
        if time.monotonic() - self._refused > TRY_AGAIN:
            self._most = AT_ONCE
        if self._most < 2:
            return {}
        count = math.ceil(len(wanted) / self._most)
        parts = [wanted[at::count] for at in range(count)]
        return {steps.run: pages for pages in (Pages(self, part) for part in parts) for steps in pages._wanted}

    def ask(self, wanted: Sequence[Steps]) -> dict[Steps, dict[str, Any]]:
        """The runs with the rows in these steps, those left out that the server does not give. Empty where it does not take
        the question, or the answer is too large: then they are asked for one by one."""
        try:
            project = self._client.ask(*_question(self._address, wanted), most=_LARGE).get("project")
        except TooLarge:
            return {}
        except Refused:
            self._refuse(len(wanted))
            return {}
        if not isinstance(project, Mapping):
            return {}
        return {steps: run for at, steps in enumerate(wanted) if isinstance(run := project.get(f"r{at}"), dict)}

    def _refuse(self, count: int) -> None:
        if self._most == AT_ONCE:
            logger.warning("vitals: W&B does not take a question about %s runs at once: fewer are asked about", count)
        self._most = min(self._most, count // 2)
        self._refused = time.monotonic()


def _question(address: Address, wanted: Sequence[Steps]) -> tuple[str, dict[str, Any]]:
    """The question for one run, under an alias for each of several."""
    names, parts = [], []
    asked: dict[str, Any] = {"entity": address.entity, "project": address.project}
    for at, (run, low, high) in enumerate(wanted):
        names.append(f"$n{at}: String!, $a{at}: Int64!, $z{at}: Int64!, $s{at}: Int!")
        parts.append(
            f"r{at}: run(name: $n{at}) {{ {PARTS} history(minStep: $a{at}, maxStep: $z{at}, samples: $s{at}) }}"
        )
        asked |= {f"n{at}": run, f"a{at}": low, f"z{at}": high, f"s{at}": min(high - low, 2**31 - 1)}
    head = f"query HistoryPages($entity: String!, $project: String!, {', '.join(names)})"
    return f"{head} {{ project(name: $project, entityName: $entity) {{ {' '.join(parts)} }} }}", asked
