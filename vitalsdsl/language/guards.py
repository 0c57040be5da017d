"""The built-in rules on NaN and ±inf: which metrics they watch, and what a policy's own rules take over from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.rules import Level
from vitalsdsl.language.scope import Meaning, Scope
from vitalsdsl.ops import base

_KINDS = {("nan", False): (True, False), ("inf", False): (False, True), ("finite", True): (True, True)}


def taken_over(policy: rules.Policy, guard_level: Level | None) -> list[tuple[str, bool, bool]]:
    """Metrics (or families) whose NaN, whose ±inf a rule of the policy itself reports.

    Such a rule is enabled, not shadowed, in no phase; it has a `when` without `for` and `on`, whose first rung is at the
    guard's level or above, that is the test, or has it as one side of an `or` at the top.
    """
    found: list[tuple[str, bool, bool]] = []
    if guard_level is None:
        return found
    for rule in policy.of(rules.Rule):
        if rule.body.disabled or rule.body.shadow or rule.phases:
            continue
        for clause in rule.body.clauses:
            if clause.for_ is None and clause.on is None and clause.rungs[0].level >= guard_level:
                for test in _top_tests(clause.condition):
                    kinds = _KINDS.get((test.state, test.negated))
                    if kinds is not None and isinstance(test.operand, ex.Name):
                        found.append((_member_family(rule, test.operand), *kinds))
    return found


def _top_tests(node: ex.Expression) -> Iterator[ex.Is]:
    while isinstance(node, ex.Not) and isinstance(node.operand, ex.Not):
        node = node.operand.operand
    if isinstance(node, ex.Or):
        for side in node.operands:
            yield from _top_tests(side)
    elif isinstance(node, ex.Is):
        yield node


def _member_family(rule: rules.Rule, name: ex.Name) -> str:
    is_member = rule.each is not None and name.path == rule.each.member and not name.quoted
    return rule.each.family.path if is_member and rule.each is not None else name.path


def read_metrics(policy: rules.Policy, scope: Scope, members: Callable[[str], list[str]]) -> list[str]:
    """The canonical names of all metrics that a policy reads, in the order in which it first reads them.

    `members` gives the metrics of a family that have been logged so far. A disabled rule reads nothing.
    """
    found: dict[str, None] = {}

    def read(node: ex.Node, each: rules.Each | None = None) -> None:
        for name in named(node):
            if isinstance(name, ex.Family):
                let = scope.lets.get(name.path)
                if let is None or not let.family:
                    found.update(dict.fromkeys(members(name.path)))
                continue
            meaning = scope.meaning(name, each.member if each is not None else None)
            if meaning is Meaning.MEMBER and each is not None:
                found.update(dict.fromkeys(members(each.family.path)))
            elif meaning is Meaning.METRIC:
                found[name.path] = None

    for statement in policy.statements:
        if isinstance(statement, rules.Rule) and not statement.body.disabled:
            for clause in statement.body.clauses:
                read(clause.condition, statement.each)
                if clause.on is not None:
                    read(clause.on, statement.each)
            clear = statement.body.clear
            if clear is not None and clear.condition is not None:
                read(clear.condition, statement.each)
        elif isinstance(statement, rules.Let):
            read(statement.expression)
            if statement.on is not None:
                read(statement.on)
        elif isinstance(statement, (rules.Event, rules.Phase)):
            read(statement.condition)
    return list(found)


def named(node: ex.Node) -> Iterator[ex.Name | ex.Family]:
    """The names in an expression, in the order in which they are written; words such as `by: median` are none."""
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, (ex.Name, ex.Family)):
            yield node
        elif isinstance(node, ex.Call):
            stack += [argument.value for argument in reversed(node.arguments) if not _is_word(argument, node.function)]
        else:
            stack += node.children()[::-1]


def _is_word(argument: ex.Argument, function: str) -> bool:
    known = base.registry().get(function) if argument.keyword is not None else None
    parameter = known.keywords().get(argument.keyword or "") if known is not None else None
    return parameter is not None and parameter.takes is base.Takes.WORD
