"""A transition in words: what the deciding condition looked at, how far it was, and the policy's own message."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vitalsdsl import nodes as nd
from vitalsdsl import operations as op
from vitalsdsl import rules
from vitalsdsl.rules import Level
from vitalsdsl.types import Reason
from vitalsdsl.verdict import Change, RuleState, Transition

if TYPE_CHECKING:
    from vitalsdsl.stream import Stream


def describe(stream: Stream, rule: RuleState, change: Change, step: int, time: float) -> Transition:
    """The transition of a change, with its evidence."""
    values: dict[str, float] = {}
    margin = math.nan
    if rule.guard is not None:
        values[rule.guard.metric.name] = rule.guard.metric.value
    elif rule.clauses:
        condition = (change.clause or rule.clauses[0]).condition
        stream.bring_up(condition, step, time)
        evidence(condition, values)
        margin = distance(condition) if change.clause is not None else math.nan
    message = _message(stream, rule, change, step, time, values)
    clause = rule.clauses.index(change.clause) if change.clause is not None else -1
    rung = change.clause.rung if change.clause is not None else -1
    return Transition(
        stream.run, stream.attempt, rule.name, rule.member, step, change.onset, change.before, change.to,
        change.reason, message, values, margin, stream.policy.name or "", stream.digest, time, clause, rung,
    )  # fmt: skip


def evidence(node: nd.Node, values: dict[str, float], seen: set[nd.Node] | None = None) -> None:
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
            values[node.text] = node.value
        if not isinstance(node, nd.Function):
            return
    for inner in node.inputs:
        if not (isinstance(node, nd.Function) and not isinstance(inner, nd.MetricNode)):
            evidence(inner, values, seen)


def distance(node: nd.Node, measured: dict[nd.Node, float] | None = None) -> float:
    """How far a condition is beyond its threshold, relative to it: above 0 where it is true.

    Of an `and` the least, of an `or` the greatest; NaN where nothing can be measured. Each node is measured once.
    """
    measured = {} if measured is None else measured
    if node not in measured:
        measured[node] = _distance(node, measured)
    return measured[node]


def _distance(node: nd.Node, measured: dict[nd.Node, float]) -> float:
    if isinstance(node, op.Comparison):
        left, right = node.left.value, node.right.value
        gap = left - right if node.symbol in (">", ">=") else right - left
        if node.symbol in ("==", "!=") or gap != gap:
            return math.nan
        margin: float = gap / abs(right) if right not in (0.0, math.inf, -math.inf) else gap
        return margin
    if isinstance(node, (op.And, op.Or)):
        known = [d for inner in node.inputs if (d := distance(inner, measured)) == d]
        return (min(known) if isinstance(node, op.And) else max(known)) if known else math.nan
    if isinstance(node, op.Not):
        return -distance(node.inputs[0], measured)
    if node.is_root and node.is_condition and node.inputs:
        return distance(node.inputs[0], measured)
    return math.nan


def _message(stream: Stream, rule: RuleState, change: Change, step: int, time: float, values: dict[str, float]) -> str:
    written = stream.plan.rule_of.get(rule.name)
    if rule.guard is not None:
        what = rule.guard.metric
        return f"{what.name} is {what.value:g}" if change.to else f"{what.name} is finite again: {what.value:.4g}"
    if change.to == Level.GREEN:
        return "back to green" if change.reason == "condition" else change.reason
    if written is not None and written.body.because is not None:
        return _template(stream, written.body.because, rule, step, time)
    shown = ", ".join(f"{name} = {value:.4g}" for name, value in values.items())
    condition = change.clause.condition.text if change.clause is not None else ""
    since = f" since step {change.onset}" if change.onset is not None and change.onset != step else ""
    return f"{condition}{since} ({shown})" if shown else f"{condition}{since}"


def _template(stream: Stream, template: rules.Template, rule: RuleState, step: int, time: float) -> str:
    fields = iter(stream.plan.fields[rule.name, rule.member])
    text = ""
    for part in template.parts:
        if isinstance(part, str):
            text += part
            continue
        node, form = next(fields)
        stream.bring_up(node, step, time)  # what decided has learnt since: it is told as it was
        value = node.value
        if isinstance(value, str):
            text += value
        elif value is None or value != value:
            text += "nan" if _is_nan_point(node) else f"unknown ({node.why().value})"
        elif isinstance(value, bool):
            text += "true" if value else "false"
        else:
            text += format(value, form or ".4g")
    return text


def _is_nan_point(node: nd.Node) -> bool:
    """Whether it is a plain metric whose newest point is NaN: unknown to conditions, and what people want to be told."""
    metric = node.source if isinstance(node, nd.Fresh) else node
    return isinstance(metric, nd.MetricNode) and metric.step is not None and node.why() is Reason.NONFINITE
