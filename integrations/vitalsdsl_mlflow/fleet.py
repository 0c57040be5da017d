"""Many runs of one store: what has come of them is asked for together, one question for a metric of up to a hundred."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, Protocol

from vitalsdsl_mlflow.rows import LoggedPoint
from vitalsdsl_mlflow.stores import Snapshot, Store

AT_ONCE = 100
"""Runs that one question is about, at most: MLflow's own limit."""

BEYOND = 24
"""One question asks for the same steps of all its runs. So many points of a run that are known already are read for that;
where it would be more, another question costs less."""

MOST_OF_ONE = 250
"""A metric that has more new points than this is left to the reading of its run."""

MOST_POINTS = 100_000
"""Points that are handed out after one look, at most: they stand in memory until their runs are read."""

AUDITS = 8
"""Runs, of a fleet, that may look after each look whether something came that their latest points do not tell of."""


class Wish(NamedTuple):
    """What the next reading of a run will ask for: a metric's points at steps from `first` to `last`, which lie `stride`
    steps apart or more."""

    run_id: str
    key: str
    first: int
    last: int
    stride: int

    @property
    def size(self) -> int:
        """About how many points there are, at most."""
        return (self.last - self.first) // self.stride + 1


class Member(Protocol):
    """A run of the fleet."""

    def told(self, snapshot: Snapshot, *, may_audit: bool) -> Sequence[Wish]:
        """How the run stands; what its next reading will ask for."""

    def handed(self, wish: Wish, points: Sequence[LoggedPoint]) -> None:
        """All points of what was wished for."""

    @property
    def audit_due(self) -> tuple[bool, float]:
        """How urgent it is to look for points that the latest ones do not tell of: the least first."""


class Fleet:
    """The runs of one look. What cannot be asked for together is left to the readings of the runs, and nothing is lost.

    The looks of an audit are shared out, as a fleet at rest would otherwise ask as much as one at work: those whose points
    have stopped come before those that go on, and of these the one that has waited longest.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def tell(self, runs: Sequence[tuple[Member, Snapshot]]) -> None:
        """How the runs stand, and what has come of them. Raises TrackerError."""
        auditing = {id(member) for member, _ in sorted(runs, key=lambda run: run[0].audit_due)[:AUDITS]}
        members: dict[str, Member] = {}
        wishes: list[Wish] = []
        for member, snapshot in runs:
            members[snapshot.run_id] = member
            wishes += member.told(snapshot, may_audit=id(member) in auditing)
        handed = 0
        for group in _groups(wishes):
            if handed > MOST_POINTS:
                return
            found = self._ask(group)
            for wish in group:
                if wish.run_id in found:
                    points = [p for p in found[wish.run_id] if wish.first <= p.step <= wish.last]
                    handed += len(points)
                    members[wish.run_id].handed(wish, points)

    def _ask(self, group: Sequence[Wish]) -> Mapping[str, Sequence[LoggedPoint]]:
        first, last = group[0].first, max(wish.last for wish in group)
        return self._store.since_of([wish.run_id for wish in group], group[0].key, first, last)


def _groups(wishes: Iterable[Wish]) -> Iterator[list[Wish]]:
    """Wishes for one metric at near steps, of as many runs as one question may be about; none of what is too much.

    >>> [[wish.run_id for wish in group] for group in _groups(
    ...     Wish(run, key, at, at + 5, 1) for run, key, at in [("a", "x", 7), ("b", "x", 9), ("c", "x", 99), ("a", "y", 7)])]
    [['a', 'b'], ['c'], ['a']]
    """
    small = sorted((wish for wish in wishes if wish.size <= MOST_OF_ONE), key=attrgetter("key", "first"))
    for _, of_one in groupby(small, key=attrgetter("key")):
        group: list[Wish] = []
        for wish in of_one:
            if group and (len(group) == AT_ONCE or (wish.first - group[0].first) // wish.stride > BEYOND):
                yield group
                group = []
            group.append(wish)
        yield group
