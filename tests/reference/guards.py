"""The built-in rules `nonfinite(METRIC)` (section 6 of the page)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .policy import Event, Let, Node, Policy, Rule
from .streams import Streams


def metrics_read(streams: Streams) -> list[str]:
    """Every metric that the policy reads, in the order in which it first reads them. A disabled rule reads nothing."""
    found: dict[str, None] = {}
    for statement in streams.policy.statements:
        variable, family = None, None
        if isinstance(statement, Rule):
            if statement.disabled:
                continue
            variable, family = statement.each or (None, None)
        for name in _names(statement):
            for concrete in _concrete(streams, family if name == variable and family else name):
                found.setdefault(concrete)
    return list(found)


def _names(statement: Let | Event | Rule) -> Iterator[str]:
    """Names in `when`, `clear when`, let, event, phase, after `on` or `missing`."""
    if isinstance(statement, Rule):
        if statement.each:
            yield statement.each[1]
        for clause in statement.clauses:
            yield from _in_node(clause.node)
            if clause.on:
                yield clause.on
        if statement.clear_when:
            yield from _in_node(statement.clear_when)
        return
    yield from _in_node(statement.node)
    if isinstance(statement, Let) and statement.on:
        yield statement.on


def _in_node(node: Node) -> Iterator[str]:
    if node.kind in ("name", "family"):
        yield str(node.args[0])
    for child in node.children():
        yield from _in_node(child)


def _concrete(streams: Streams, name: str) -> list[str]:
    if "*" in name or "{" in name:
        from .history import concrete

        members = sorted(streams.members(name, len(streams.moments)))
        names = [concrete(name, stars) for stars in members]
    else:
        names = [name]
    return [n for n in names if streams.kind_of(n) == "metric"]


def taken_over(policy: Policy, streams: Streams, metric: str) -> set[str]:
    """The kinds (`nan`, `inf`) that a rule of the policy's own takes over from the guard of that metric."""
    kinds: set[str] = set()
    for rule in policy.rules:
        if rule.disabled or rule.shadow or rule.phases:
            continue
        for clause in rule.clauses:
            if clause.span is None and clause.on is None and clause.rungs[0].level >= (policy.guard or 0):
                for side in _sides(clause.node):
                    if side.kind == "is" and _is_of(streams, rule, side.args[0], metric):
                        kinds |= _kinds(side.args[1], side.args[2])
    return kinds


def _sides(node: Node) -> Iterator[Node]:
    """The condition itself, or the sides of an `or` at the top."""
    if node.kind == "or_":
        for child in node.children():
            yield from _sides(child)
    else:
        yield node


def _is_of(streams: Streams, rule: Rule, target: Node, metric: str) -> bool:
    if target.kind != "name":
        return False
    if rule.each and target.args[0] == rule.each[0]:
        return metric in _concrete(streams, rule.each[1])
    return bool(target.args[0] == metric)


def _kinds(state: str, negated: bool) -> set[str]:
    """`METRIC is nan` takes over for NaN, `is inf` for ±inf, `is not finite` for both."""
    if negated:
        return {"nan", "inf"} if state == "finite" else set()
    return {state} - {"finite"}


def nonfinite(streams: Streams, metric: str, kinds: set[str], i: int) -> bool:
    """While its newest point is NaN or ±inf."""
    points = streams.history.of(metric, i)
    if not points:
        return False
    x = points[-1][1]
    return (math.isnan(x) and "nan" not in kinds) or (math.isinf(x) and "inf" not in kinds)
