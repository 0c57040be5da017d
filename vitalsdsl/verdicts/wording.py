"""A transition in words: what the deciding condition looked at, how far it was, and the policy's own message."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitalsdsl.ground.types import Reason
from vitalsdsl.ground.uncollected import uncollected
from vitalsdsl.language import rules
from vitalsdsl.language.rules import Level
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.verdicts.verdict import Change, RuleState, Transition

if TYPE_CHECKING:
    from vitalsdsl.planning.plan import Plan
    from vitalsdsl.streaming.stream import Stream


class Reading:
    """What nodes are at the step that is put into words: as they stand in a stream."""

    def __init__(self, stream: Stream, step: int, time: float) -> None:
        self._stream, self._step, self._time = stream, step, time

    def value(self, node: nd.Node) -> Any:
        """A number, a word, or True, False or None of a condition."""
        return node.value

    def inputs(self, node: nd.Node) -> Sequence[nd.Node]:
        """What a node stands on, without members of a family that are yet to join."""
        return node.inputs

    def field(self, node: nd.Node) -> Any:
        """The same of a value in a message, which nothing else may have evaluated. What decided has learnt since: it is told
        as it was."""
        self._stream.bring_up(node, self._step, self._time)
        return node.value

    def unknown(self, node: nd.Node) -> str:
        """An unknown value in a message."""
        return "nan" if _is_nan_point(node) else f"unknown ({node.why().value})"


@dataclass(frozen=True)
class Run:
    """What all transitions of a run have in common."""

    name: str
    attempt: int
    digest: str
    plan: Plan


def describe(stream: Stream, rule: RuleState, change: Change, step: int, time: float) -> Transition:
    """The transition of a change, with its evidence."""
    if rule.guard is None and rule.clauses:
        stream.bring_up((change.clause or rule.clauses[0]).condition, step, time)
    run = Run(stream.run, stream.attempt, stream.digest, stream.plan)
    rung = change.clause.rung if change.clause is not None else -1
    return in_words(run, rule, change, rung, step, time, Reading(stream, step, time))


def in_words(
    run: Run, rule: RuleState, change: Change, rung: int, step: int, time: float, reading: Reading
) -> Transition:
    """The same, from whatever says what nodes are at that step."""
    values: dict[str, float] = {}
    margin = math.nan
    if rule.guard is not None:
        values[rule.guard.metric.name] = reading.value(rule.guard.metric)
    elif rule.clauses:
        condition = (change.clause or rule.clauses[0]).condition
        evidence(condition, values, reading)
        margin = _told(distance(condition, reading.value)) if change.clause is not None else math.nan
    message = _message(run.plan, rule, change, step, values, reading)
    clause = rule.clauses.index(change.clause) if change.clause is not None else -1
    return Transition(
        run.name, run.attempt, rule.name, rule.member, step, change.onset, change.before, change.to,
        change.reason, message, values, margin, run.plan.policy.name or "", run.digest, time, clause, rung,
    )  # fmt: skip


Told = tuple[int, float, Level, Level, int, str, int, int]
"""Of a change the step, its time, the level before and after, the onset, the reason, the place of the clause and its rung."""


def without_words(run: Run, rule: RuleState, told: Iterable[Told]) -> list[Transition]:
    """Transitions of a rule without message, values and margin."""
    common = vars(
        Transition(
            run.name, run.attempt, rule.name, rule.member, 0, None, Level.GREEN, Level.GREEN, "",
            policy=run.plan.policy.name or "", digest=run.digest,
        )
    )  # fmt: skip
    found = []
    with uncollected():
        for step, time, before, to, onset, reason, clause, rung in told:
            # A frozen thing is made field by field, four times as slowly: there may be hundreds of thousands.
            one = Transition.__new__(Transition)
            fields = vars(one)
            fields.update(common)
            fields["step"], fields["time"], fields["from_"], fields["to"] = step, time, before, to
            fields["onset"], fields["reason"], fields["clause"], fields["rung"] = (
                onset if to else None,
                reason,
                clause,
                rung,
            )
            found.append(one)
    return found


def evidence(node: nd.Node, values: dict[str, float], reading: Reading, seen: set[nd.Node] | None = None) -> None:
    """The metrics, lets and functions in a condition with their values, by their text. Each node is looked at once:
    definitions share theirs."""
    seen = set() if seen is None else seen
    if isinstance(node, nd.Constant) or node in seen:
        return
    seen.add(node)
    if isinstance(node, (nd.MetricNode, nd.Fresh, nd.Function, nd.CounterNode, op.Missing)) or (
        node.is_root and not node.is_condition
    ):
        if not node.is_condition:
            values[node.text] = _told(reading.value(node))
        if not isinstance(node, nd.Function):
            return
    for inner in reading.inputs(node):
        if not (isinstance(node, nd.Function) and not isinstance(inner, nd.MetricNode)):
            evidence(inner, values, reading, seen)


Value = Callable[[nd.Node], Any]


def distance(
    node: nd.Node, value: Value = operator.attrgetter("value"), measured: dict[nd.Node, float] | None = None
) -> float:
    """How far a condition is beyond its threshold, relative to it: above 0 where it is true.

    Of an `and` the least, of an `or` the greatest; NaN where nothing can be measured. Each node is measured once.
    """
    measured = {} if measured is None else measured
    if node not in measured:
        measured[node] = _distance(node, value, measured)
    return measured[node]


def _distance(node: nd.Node, value: Value, measured: dict[nd.Node, float]) -> float:
    if isinstance(node, op.Comparison):
        left, right = value(node.left), value(node.right)
        gap = left - right if node.symbol in (">", ">=") else right - left
        if node.symbol in ("==", "!=") or gap != gap:
            return math.nan
        margin: float = gap / abs(right) if right not in (0.0, math.inf, -math.inf) else gap
        return margin
    if isinstance(node, (op.And, op.Or)):
        known = [d for inner in node.inputs if (d := distance(inner, value, measured)) == d]
        return (min(known) if isinstance(node, op.And) else max(known)) if known else math.nan
    if isinstance(node, op.Not):
        return -distance(node.inputs[0], value, measured)
    if node.is_root and node.is_condition and node.inputs:
        return distance(node.inputs[0], value, measured)
    return math.nan


def _message(plan: Plan, rule: RuleState, change: Change, step: int, values: dict[str, float], reading: Reading) -> str:
    written = plan.rule_of.get(rule.name)
    if rule.guard is not None:
        what = rule.guard.metric.name
        return f"{what} is {values[what]:g}" if change.to else f"{what} is finite again: {values[what]:.4g}"
    if change.to == Level.GREEN:
        return "back to green" if change.reason == "condition" else change.reason
    if written is not None and written.body.because is not None:
        return _template(written.body.because, plan.fields[rule.name, rule.member], reading)
    shown = ", ".join(f"{name} = {value:.4g}" for name, value in values.items())
    condition = change.clause.condition.text if change.clause is not None else ""
    since = f" since step {change.onset}" if change.onset is not None and change.onset != step else ""
    return f"{condition}{since} ({shown})" if shown else f"{condition}{since}"


def _template(template: rules.Template, fields: Sequence[tuple[nd.Node, str]], reading: Reading) -> str:
    following = iter(fields)
    text = ""
    for part in template.parts:
        if isinstance(part, str):
            text += part
            continue
        node, form = next(following)
        value = reading.field(node)
        if isinstance(value, str):
            text += value
        elif value is None or value != value:
            text += reading.unknown(node)
        elif isinstance(value, bool):
            text += "true" if value else "false"
        else:
            text += format(_told(value), form or ".4g")
    return text


def _told(number: float) -> float:
    """A number as it is told: zero without a sign, since which of the two a window of both gives is a matter of order."""
    return number + 0.0


def _is_nan_point(node: nd.Node) -> bool:
    """Whether it is a plain metric whose newest point is NaN: unknown to conditions, and what people want to be told."""
    metric = node.source if isinstance(node, nd.Fresh) else node
    return isinstance(metric, nd.MetricNode) and metric.step is not None and node.why() is Reason.NONFINITE
