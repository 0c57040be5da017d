"""Two policies over the same runs: what changes, run by run and rule by rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from vitalsdsl.backtesting.outcome import Change, RunOutcome
from vitalsdsl.language.rules import Level


class Shift(Enum):
    """How a rule's first coming to a level differs under the second policy."""

    ADDED = "added"
    LOST = "lost"
    EARLIER = "earlier"
    LATER = "later"
    SAME = "same"


@dataclass(frozen=True)
class Difference:
    """One rule (with its member) at one level on one run: the steps at which it first came there under each policy, None
    where it never did, and how often."""

    run: str
    subject: str
    level: Level
    before: int | None
    after: int | None
    times_before: int
    times_after: int

    @property
    def shift(self) -> Shift:
        if self.before is None or self.after is None:
            return Shift.ADDED if self.before is None else Shift.LOST
        if self.before == self.after:
            return Shift.SAME
        return Shift.EARLIER if self.after < self.before else Shift.LATER


def differences(before: Sequence[RunOutcome], after: Sequence[RunOutcome]) -> Iterator[Difference]:
    """What differs on runs that both have, each rule at the highest levels first; a rule at a level is one line. Rules go
    by their names: a rule that was renamed is lost under one and added under the other."""
    others = {run.run: run for run in after}
    for run in before:
        other = others.get(run.run)
        if other is not None:
            yield from _on(run.run, _comings(run.changes), _comings(other.changes))


def _on(
    run: str, old: dict[tuple[str, Level], list[int]], new: dict[tuple[str, Level], list[int]]
) -> Iterator[Difference]:
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key, []), new.get(key, [])
        if was != now:
            first = min(was) if was else None, min(now) if now else None
            yield Difference(run, key[0], key[1], *first, len(was), len(now))


def _comings(changes: Iterable[Change]) -> dict[tuple[str, Level], list[int]]:
    """The steps at which each rule came to each level, from whichever below it."""
    found: dict[tuple[str, Level], list[int]] = {}
    for change in changes:
        for level in (Level.YELLOW, Level.ORANGE, Level.RED):
            if change.is_alarm(level):
                found.setdefault((change.subject, level), []).append(change.step)
    return found


@dataclass
class RuleShift:
    """A rule at a level over all runs: on how many its first coming there is new, gone, earlier, later; and how many steps
    it moved on those that have it under both."""

    subject: str
    level: Level
    added: int = 0
    lost: int = 0
    earlier: int = 0
    later: int = 0
    same: int = 0


def shifts(found: Iterable[Difference]) -> list[RuleShift]:
    """Differences by rule and level, in the order in which they come. `same` are runs on which only later comings differ."""
    by_rule: dict[tuple[str, Level], RuleShift] = {}
    for one in found:
        total = by_rule.setdefault((one.subject, one.level), RuleShift(one.subject, one.level))
        setattr(total, one.shift.value, getattr(total, one.shift.value) + 1)
    return list(by_rule.values())
