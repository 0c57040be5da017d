"""Sight: which rules can ever be true on runs that log certain names, and for want of which metrics the others cannot."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.arguments import aggregate_of
from vitalsdsl.language.scope import LOGGED_COUNTERS, Meaning, Scope, fill_family, match_family
from vitalsdsl.ops import base
from vitalsdsl.ops.base import Takes
from vitalsdsl.planning.intake import Metrics

Lacking = frozenset[str]
"""The metrics for want of which something cannot be; empty where it can."""

NOTHING: Lacking = frozenset()


class Sight:
    """A policy beside the names that runs log.

    Only the names count, not the values: a rule that can look may have to wait for longer than a run goes on. `and` needs
    all its sides, `or` and `2 of` those that lack least; `surely` of what is not logged is false, and its `not` true. An
    event that can never begin is no point to count from: `onsets` of it says 0 for ever, and counts as lacking.

    >>> from vitalsdsl.policies.policy import load
    >>> policy = load("p", text="rule r { when loss > 3 and not surely(lr > 1) -> red } when gnorm > loss -> red").policy
    >>> sight = Sight(policy, ["loss"])
    >>> [(rule.name, sorted(sight.lacking(rule))) for rule in policy.of(rules.Rule)]
    [('r', []), ('gnorm_red', ['gnorm'])]
    """

    def __init__(self, policy: rules.Policy, logged: Collection[str]) -> None:
        self._scope = Scope.of(policy)
        self._intake = Metrics(self._scope)
        self._logged = logged
        self._asked: dict[tuple[str, bool | None], Lacking] = {}

    def lacking(self, rule: rules.Rule) -> Lacking:
        """What a rule would need to be true one day; of several `when` it is told of the one that lacks least."""
        of_clauses = [self._clause(clause, rule) for clause in rule.body.clauses]
        return _least(of_clauses)

    def _clause(self, clause: rules.Clause, rule: rules.Rule) -> Lacking:
        found = self._so(clause.condition, True, rule.each)
        if clause.on is not None:
            found |= self._so(clause.on, None, rule.each)
        if rule.phases:
            phases = [self._scope.phases[name.path] for name in rule.phases if name.path in self._scope.phases]
            found |= _least([self._so(phase.condition, True, None) for phase in phases])
        return found

    # ---------------------------------------------------------------- expressions

    def _so(self, node: ex.Expression, want: bool | None, each: rules.Each | None) -> Lacking:
        """What is lacking for a condition to be true, or false; or, with None, for anything to be known."""
        if isinstance(node, (ex.And, ex.Or)):
            parts = [self._so(operand, want, each) for operand in node.operands]
            return _all(parts) if want is isinstance(node, ex.And) else _least(parts)
        if isinstance(node, ex.Not):
            return self._so(node.operand, None if want is None else not want, each)
        if isinstance(node, ex.AtLeast):
            parts = [self._so(condition, want, each) for condition in node.conditions]
            needed = node.count if want else len(parts) - node.count + 1
            return _all(sorted(parts, key=_cost)[:needed])
        if isinstance(node, ex.Missing):
            return self._missing(node, want)
        if isinstance(node, ex.Then):
            first, second = self._so(node.first, True, each), self._so(node.second, True, each)
            return first if node.absent and want else NOTHING if node.absent else second | (first if want else NOTHING)
        if isinstance(node, ex.Held):
            return self._so(node.condition, want, each)
        if isinstance(node, (ex.Before, ex.AtStep, ex.AtEvent, ex.AtEnd)):
            return self._past(node, want, each)
        if isinstance(node, ex.Call):
            return self._call(node, want, each)
        if isinstance(node, (ex.Name, ex.Family)):
            return self._name(node, want, each)
        return _all(self._so(child, None, each) for child in node.children() if isinstance(child, ex.Expression))

    def _missing(self, node: ex.Missing, want: bool | None) -> Lacking:
        """Of a metric that says how often it comes, absence is counted from the run's first step."""
        declared, _ = self._intake.declared(node.target.path)
        is_counted = declared is not None and declared.every is not None
        return NOTHING if is_counted and want is not False else self._name(node.target, None, None)

    def _past(
        self, node: ex.Before | ex.AtStep | ex.AtEvent | ex.AtEnd, want: bool | None, each: rules.Each | None
    ) -> Lacking:
        found = self._so(node.operand, want, each)
        if isinstance(node, ex.AtEvent):
            found |= self._so(node.event, True, each)
        elif isinstance(node, ex.AtEnd):
            found |= self._so(node.phase, True, each)
        elif isinstance(node, ex.Before) and isinstance(node.shift, ex.Name) and node.shift.path in self._scope.events:
            found |= self._so(node.shift, True, each)
        return found

    def _call(self, node: ex.Call, want: bool | None, each: rules.Each | None) -> Lacking:
        if aggregate_of(node) is not None:
            return self._so(node.arguments[0].value, want, each)
        function = base.registry().get(node.function)
        if function is None:
            return NOTHING
        if function.name == "surely":
            return self._so(node.arguments[0].value, True, each) if want else NOTHING
        of_event = any(p.takes is Takes.EVENT for p in function.parameters)
        read = [a.value for a in node.arguments if a.keyword in (None, "of")]
        values = [value for value in read if not isinstance(value, (ex.Length, ex.Number))]
        return _all(self._so(value, True if of_event else None, each) for value in values)

    def _name(self, node: ex.Name | ex.Family, want: bool | None, each: rules.Each | None) -> Lacking:
        if each is not None and node.path in (each.member, "member"):
            return self._name(each.family, want, None)
        part = self._scope.part(node)
        if part is not None:
            return self._part(part, want)
        meaning = Meaning.METRIC if isinstance(node, ex.Family) else self._scope.meaning(node)
        if meaning is Meaning.METRIC:
            return NOTHING if self.is_logged(node) else frozenset((node.path,))
        if meaning is Meaning.COUNTER and (names := LOGGED_COUNTERS.get(node.path)) and node.path != "progress":
            declared = self._scope.metrics.get(node.path)
            known = any(name in self._logged for name in (names if declared is None else declared.logged))
            return NOTHING if known else frozenset((node.path,))
        return NOTHING

    def _part(self, part: rules.Let | rules.Event | rules.Phase, want: bool | None) -> Lacking:
        """A definition is gone through once for each question, however often it is named."""
        question = (part.name, want)
        if question not in self._asked:
            self._asked[question] = NOTHING  # what names itself is reported elsewhere
            inner = part.expression if isinstance(part, rules.Let) else part.condition
            found = self._so(inner, want, None)
            if isinstance(part, rules.Let) and part.on is not None:
                found |= self._so(part.on, None, None)
            self._asked[question] = found
        return self._asked[question]

    def is_logged(self, node: ex.Name | ex.Family) -> bool:
        """Whether runs log a metric, or a member of a family."""
        if isinstance(node, ex.Name):
            return any(name in self._logged for name in self._intake.declared(node.path)[1])
        for pattern in self._intake.patterns(node.path):
            for name in self._logged:
                star = match_family(pattern, name)
                if star is not None and match_family(node.path, fill_family(node.path, star)) is not None:
                    return True
        return False


def _cost(lacking: Lacking) -> tuple[int, list[str]]:
    return len(lacking), sorted(lacking)


def _least(found: Collection[Lacking]) -> Lacking:
    return min(found, key=_cost, default=NOTHING)


def _all(found: Iterable[Lacking]) -> Lacking:
    return NOTHING.union(*found)
