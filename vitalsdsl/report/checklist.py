"""The check-list, filled in: what each rule of a check-up says of a run: well, not well, or that it could not look."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from vitalsdsl import rules
from vitalsdsl.logged import Reads
from vitalsdsl.report.incidents import Incident
from vitalsdsl.stream import Stream


class Mark(Enum):
    """How an item is ticked."""

    WELL = "ok"
    NOT_WELL = "not ok"
    WAS_NOT_WELL = "was not ok"
    NOT_LOOKED = "not looked at"


@dataclass(frozen=True)
class Item:
    """One item of the list: a rule's title, its mark, and why."""

    rule: str
    title: str
    phase: str
    mark: Mark
    why: str


class Known:
    """Which rules could be looked at, at any step of a run."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.rules: set[str] = set()
        self._entered: set[str] = set()

    def look(self) -> None:
        """After a step has closed."""
        for rule in self._stream.plan.rules:
            if rule.name not in self.rules:
                if rule.gate is not None and rule.gate.value:
                    self._entered.add(rule.name)
                if rule.guard is not None or any(clause.latest is not None for clause in rule.clauses):
                    self.rules.add(rule.name)

    def entered(self, rule: str) -> bool:
        """Whether the run was ever in one of the rule's phases."""
        return rule in self._entered or rule in self.rules


def filled_in(
    policy: rules.Policy, known: Known, incidents: Collection[Incident], logged: Collection[str]
) -> list[Item]:
    """The list that the rules of a policy are, in their order."""
    reads = Reads(policy)
    names = {read.path: read for read in reads.metrics}
    items = []
    for rule in policy.of(rules.Rule):
        if rule.body.disabled:
            continue
        own = [one for one in incidents if one.rule == rule.name]
        standing = next((one for one in reversed(own) if one.end is None), None)
        if standing is not None:
            mark, why = Mark.NOT_WELL, f"since step {standing.onset:,}: {standing.message}"
        elif own:
            times = "once" if len(own) == 1 else f"{len(own)} times"
            mark, why = Mark.WAS_NOT_WELL, f"{times}, last at step {own[-1].onset:,}: {own[-1].message}"
        elif rule.name in known.rules:
            mark, why = Mark.WELL, "not seen"
        else:
            lacking = [
                node.path for node in reads.of_rule(rule)
                if node.path in names and not names[node.path].is_among(logged)
            ]  # fmt: skip
            if lacking:
                why = f"not logged: {', '.join(dict.fromkeys(lacking))}"
            elif rule.phases and not known.entered(rule.name):
                why = f"the run was never in {' or '.join(p.path for p in rule.phases)}"
            else:
                why = "the run was too short for it, or does not log what it needs often enough"
            mark = Mark.NOT_LOOKED
        items.append(Item(rule.name, rule.title or rule.name, ", ".join(p.path for p in rule.phases), mark, why))
    return items
