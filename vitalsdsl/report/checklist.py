"""The check-list, filled in: what each rule of a check-up says of a run: well, not well, or that it could not look."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.language import rules
from vitalsdsl.nodes.table import Table
from vitalsdsl.planning.logged import Reads
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.report.incidents import Incident
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import RuleState


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


def looked_at(
    policy: LoadedPolicy, events: Sequence[Row | Rewind], table: Table | None, total_steps: float
) -> set[str]:
    """The rules of which a condition was known at some step of a run."""
    if table is not None:
        looked = Batch(policy.policy, policy.digest).looked(table, total_steps)
        if looked is not None:
            return looked
    stream = Stream(policy.policy, total_steps=total_steps)
    found: set[str] = set()
    for event in events:
        if isinstance(event, Rewind):
            stream.rewind(event.step)
        else:
            stream.push_row(event)
        found.update(rule.name for rule in stream.plan.rules if rule.name not in found and _is_known(rule))
    stream.finish()
    return found | {rule.name for rule in stream.plan.rules if _is_known(rule)}


def _is_known(rule: RuleState) -> bool:
    return rule.guard is not None or any(clause.latest is not None for clause in rule.clauses)


def filled_in(
    policy: rules.Policy, looked: Collection[str], incidents: Collection[Incident], logged: Collection[str]
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
        elif rule.name in looked:
            mark, why = Mark.WELL, "not seen"
        else:
            lacking = [
                node.path for node in reads.of_rule(rule)
                if node.path in names and not names[node.path].is_among(logged)
            ]  # fmt: skip
            if lacking:
                why = f"not logged: {', '.join(dict.fromkeys(lacking))}"
            elif rule.phases:
                why = f"the run was never in {' or '.join(p.path for p in rule.phases)}, or not for long enough"
            else:
                why = "the run was too short for it, or does not log what it needs often enough"
            mark = Mark.NOT_LOOKED
        items.append(Item(rule.name, rule.title or rule.name, ", ".join(p.path for p in rule.phases), mark, why))
    return items
