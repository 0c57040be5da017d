"""How deep definitions are nested in one another: what reads a policy goes down through them, and there is an end to that."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.names import target
from vitalsdsl.language.scope import Scope

MAX_DEFINITIONS = 100
"""Lets, events and phases, each made of the one before."""
MAX_WRITTEN_OUT = 250
"""The parts of an expression inside one another, with definitions in the place of their names."""

_Depth = tuple[int, int]
"""Definitions, and parts written out."""


def too_deep(policy: rules.Policy, scope: Scope, report: Callable[..., None]) -> bool:
    """Report what is nested beyond reason; whether there was any. Definitions must not depend on themselves."""
    depths = _depths({name: list(_reads(_expression(s), scope)) for name, s in _defined(scope)})
    for name, statement in _defined(scope):
        if _beyond(depths[name]):
            _report(report, f"`{name}`", statement, depths[name])
            return True
    for rule in policy.of(rules.Rule):
        clear = [rule.body.clear.condition] if rule.body.clear is not None and rule.body.clear.condition else []
        for condition in [*(clause.condition for clause in rule.body.clauses), *clear]:
            definitions, written_out = _depth(list(_reads(condition, scope)), depths)
            depth = definitions - 1, written_out  # a rule is no definition
            if _beyond(depth):
                _report(report, f"rule `{rule.name}`", condition, depth)
                return True
    return False


def _report(report: Callable[..., None], what: str, place: ex.Node, depth: _Depth) -> None:
    message = f"{what} goes through more than {MAX_DEFINITIONS} definitions, one made of the other"
    if depth[0] <= MAX_DEFINITIONS:
        message = f"written out, {what} is nested more than {MAX_WRITTEN_OUT} deep"
    report("V032", message, place.span, "here", "make it of the metrics themselves, or of fewer definitions")


def _defined(scope: Scope) -> Iterator[tuple[str, rules.Let | rules.Event | rules.Phase]]:
    for table in (scope.lets, scope.events, scope.phases):
        yield from table.items()


def _expression(statement: rules.Let | rules.Event | rules.Phase) -> ex.Expression:
    return statement.expression if isinstance(statement, rules.Let) else statement.condition


def _reads(root: ex.Expression, scope: Scope) -> Iterator[tuple[str, int]]:
    """The definitions that an expression names, each with how deep in it; first how deep it is itself, under no name."""
    stack: list[tuple[ex.Node, int]] = [(root, 1)]
    deepest = 1
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        if isinstance(node, (ex.Name, ex.Family)):
            name = target(node, scope)
            if name is not None:
                yield name, depth
        # An argument is no part of its own: it is gone through with its call.
        stack += [(inner, depth + (not isinstance(inner, ex.Argument))) for inner in node.children()]
    yield "", deepest


def _depths(definitions: dict[str, list[tuple[str, int]]]) -> dict[str, _Depth]:
    """Of each definition; those that go round in a circle count as far as they were gone through."""
    depths: dict[str, _Depth] = {}
    for start in definitions:
        stack = [start]
        entered: set[str] = set()
        while stack:
            name = stack[-1]
            if name in depths:
                stack.pop()
                continue
            inner = [n for n, _ in definitions[name] if n in definitions and n not in depths and n not in entered]
            if name not in entered and inner:
                entered.add(name)
                stack += inner
                continue
            depths[name] = _depth(definitions[name], depths)
            stack.pop()
    return depths


def _depth(reads: list[tuple[str, int]], depths: dict[str, _Depth]) -> _Depth:
    behind = [(depths.get(name, (0, 0)), at) for name, at in reads]
    return 1 + max(depth[0] for depth, _ in behind), max(depth[1] + at for depth, at in behind)


def _beyond(depth: _Depth) -> bool:
    return depth[0] > MAX_DEFINITIONS or depth[1] > MAX_WRITTEN_OUT
