"""What a lint looks at: a policy without errors, gone through once for all lints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.arguments import aggregate_of, constant
from vitalsdsl.language.guards import named
from vitalsdsl.language.scope import Meaning, Scope, fill_family, match_family
from vitalsdsl.ops import base
from vitalsdsl.ops.base import Takes

if TYPE_CHECKING:
    from vitalsdsl.ground.survey import MetricSurvey, RunSurvey
    from vitalsdsl.lints.runs import Runs

NodeType = TypeVar("NodeType", bound=ex.Node)
KnownChannels = Callable[[], "frozenset[str] | None"]
"""Who can say which channels there are, by name: asked only by those who need it, since it reads files. None where
nothing is said of any."""

Measured = tuple[float, str]
"""A size and its unit; times in seconds, as `time`."""

RATES_APART = 1.5
"""How many times one observed cadence is another at least, where they are two: runs do not keep to them exactly."""

EVALUATED_SELDOM = re.compile(r"(?:^|[/_.])(?:val|valid|validation|eval|evaluation|test|dev)(?:[/_.]|$)")


@dataclass(eq=False, repr=False)
class Looked:
    """A policy, its names, the rules that tests cover, where that is known, who can say which channels there are, and what
    recorded runs say of it, where it is held against some."""

    policy: rules.Policy
    scope: Scope
    tested: Mapping[str, set[str]] | None = None
    channels: KnownChannels | None = None
    runs: Runs | None = None
    _behind: dict[str, frozenset[str]] = field(default_factory=dict)
    _observed: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    _within: dict[ex.Expression, dict[type[ex.Node], list[ex.Node]]] = field(default_factory=dict)
    _all: dict[type[ex.Node], list[ex.Node]] = field(default_factory=dict)

    # ---------------------------------------------------------------- its parts

    def enabled(self) -> Iterator[rules.Rule]:
        """The rules that are not disabled."""
        return (r for r in self.policy.of(rules.Rule) if not r.body.disabled)

    def is_own(self, statement: rules.Statement) -> bool:
        """Whether a statement stands in the policy's own file, not in one that it uses."""
        return statement.span.source is self.policy.source

    @cached_property
    def clauses(self) -> list[tuple[rules.Rule, rules.Clause]]:
        return [(rule, clause) for rule in self.enabled() for clause in rule.body.clauses]

    @cached_property
    def expressions(self) -> list[ex.Expression]:
        """Every condition and let, outermost."""
        found: list[ex.Expression] = []
        for statement in self.policy.statements:
            if isinstance(statement, rules.Let):
                found.append(statement.expression)
            elif isinstance(statement, (rules.Event, rules.Phase)):
                found.append(statement.condition)
        found += [clause.condition for _, clause in self.clauses]
        clears = (rule.body.clear for rule in self.enabled())
        return found + [c.condition for c in clears if c is not None and c.condition is not None]

    def within(self, expression: ex.Expression, kind: type[NodeType]) -> list[NodeType]:
        """Every node of one type in one of these conditions or lets, outermost first."""
        found = self._within.get(expression)
        if found is None:
            found = self._within[expression] = {}
            for node in expression.walk():
                found.setdefault(type(node), []).append(node)
        return found.get(kind, [])  # type: ignore[return-value]

    def all(self, kind: type[NodeType]) -> list[NodeType]:
        """Every node of one type in all conditions and lets."""
        if kind not in self._all:
            self._all[kind] = [node for expression in self.expressions for node in self.within(expression, kind)]
        return self._all[kind]  # type: ignore[return-value]

    # ---------------------------------------------------------------- numbers and lengths

    def extent(self, node: ex.Node | None) -> Measured | None:
        """A length, params looked up; None where it is none."""
        if isinstance(node, ex.Name) and node.path in self.scope.params:
            return self.extent(self.scope.params[node.path].value)
        if isinstance(node, ex.Length):
            return node.size, TIME if node.is_time else node.unit
        if isinstance(node, ex.Number) and not node.ratio:
            return node.value, STEPS
        return None

    def lasts(self, span: ex.For | None, unit: str) -> float | None:
        """How long a `for` lasts in one unit; None where it says nothing in that unit."""
        for length in span.lengths if span is not None else ():
            extent = self.extent(length)
            if extent is not None and extent[1] == unit:
                return extent[0]
        return None

    def value(self, node: ex.Expression) -> float | None:
        """The number that a constant is, params looked up."""
        return constant(node, self.scope)

    def written_out(self, node: ex.Expression) -> ex.Expression:
        """What a let is made of, in the place of its name."""
        for _ in range(20):
            let = self.scope.lets.get(node.path) if isinstance(node, ex.Name) else None
            if let is None or let.family:
                return node
            node = let.expression
        return node

    # ---------------------------------------------------------------- calls

    def given(self, call: ex.Call) -> dict[str, ex.Expression]:
        """A call's arguments by the names of their places, without `x` where it is left out."""
        function = base.registry().get(call.function)
        if function is None:
            return {}
        places = list(function.positional())
        values = [a.value for a in call.arguments if a.keyword is None]
        if function.implicit_subject and len(values) < len(places):
            places = places[1:]
        bound = {place.name: value for place, value in zip(places, values)}
        bound.update({a.keyword: a.value for a in call.arguments if a.keyword is not None})
        return bound

    def window(self, call: ex.Call) -> Measured | None:
        """The extent of a call's window, whatever the function calls it; None where it has none."""
        function = base.registry().get(call.function)
        if function is None or aggregate_of(call) is not None:
            return None
        given = self.given(call)
        place = next((p for p in function.positional() if p.takes is Takes.EXTENT and p.name in given), None)
        return self.extent(given[place.name]) if place is not None else None

    # ---------------------------------------------------------------- what is read, and how often it comes

    def metrics(self, node: ex.Node, each: rules.Each | None = None) -> frozenset[str]:
        """The metrics and families that set an expression's pace, through lets and events."""
        found: set[str] = set()
        for name in _paced_by(node):
            if each is not None and name.path == each.member:
                found.add(each.family.path)
            else:
                found |= self._metrics_behind(name)
        return frozenset(found)

    def _metrics_behind(self, name: ex.Name | ex.Family) -> frozenset[str]:
        path = name.path
        if path in self._behind:
            return self._behind[path]
        self._behind[path] = frozenset()
        let = self.scope.lets.get(path)
        meaning = self.scope.meaning(name) if isinstance(name, ex.Name) else Meaning.METRIC
        if let is not None:
            found = self.metrics(let.on if let.on is not None else let.expression)
        elif meaning is Meaning.EVENT:
            found = self.metrics(self.scope.events[path].condition)
        elif meaning in (Meaning.PARAM, Meaning.PHASE, Meaning.COUNTER):
            found = frozenset()
        else:
            found = frozenset((path,))
        self._behind[path] = found
        return found

    def declared(self, name: str) -> rules.Metric | None:
        """The declaration of a metric, or of the family that it, or a family, is of."""
        found = self.scope.metrics.get(name)
        return found or next((m for m in self.scope.metrics.values() if m.family and match_family(m.name, name)), None)

    def every(self, name: str, shortest: bool = False) -> float | None:
        """The cadence of a metric, in steps: as declared, else as the runs kept to it, where it is held against some;
        with `shortest` the shortest distance of two points in them: what nothing in them contradicts."""
        declared = self.every_declared(name)
        return declared if declared is not None else self.every_observed(name, shortest)

    def every_declared(self, name: str) -> float | None:
        """The declared cadence of a metric, in steps."""
        metric = self.declared(name)
        extent = self.extent(metric.every) if metric is not None else None
        return extent[0] if extent is not None and extent[1] == STEPS else None

    def every_observed(self, name: str, shortest: bool = False) -> float | None:
        """The shortest distance at which a run logged a metric regularly; None where one of them did not."""
        if name not in self._observed:
            self._observed[name] = self._observe(name)
        return self._observed[name][shortest]

    def _observe(self, name: str) -> tuple[float | None, float | None]:
        runs = self.runs.survey.runs if self.runs is not None else ()
        cadences = [m.cadence for run in runs for m in self.logged(name, run) if m.cadence.every == m.cadence.every]
        usual = [c.every for c in cadences] if all(c.is_regular for c in cadences) else []
        # What a point after a rewind is the next one to is not known.
        least = [c.shortest for c in cadences] if not any(run.rewinds for run in runs) else []
        return min(usual, default=None), min(least, default=None)

    def logged(self, name: str, run: RunSurvey) -> list[MetricSurvey]:
        """What a run logged of a metric, or of the members of a family, under whichever names."""
        if "*" in name or "{" in name:
            patterns = self._patterns(name)
            return [m for m in run.metrics.values() if any(_is_member(name, p, m.name) for p in patterns)]
        declared = self.declared(name)
        names: tuple[str, ...] = (name,)
        if declared is not None:
            star = match_family(declared.name, name) if declared.family else None
            names = declared.logged if star is None else tuple(fill_family(logged, star) for logged in declared.logged)
        in_turn = sorted((run.metrics[n].order, place, n) for place, n in enumerate(names) if n in run.metrics)
        return [run.metrics[n] for _, _, n in in_turn[:1]]

    def _patterns(self, family: str) -> tuple[str, ...]:
        declared = next((m for m in self.scope.metrics.values() if m.family and _any(m.name) == _any(family)), None)
        return declared.logged if declared is not None else (family,)

    @cached_property
    def read_here(self) -> dict[str, ex.Name | ex.Family]:
        """The metrics and families that the policy's own file reads, each with the first place where it is named. What
        stands in `surely` alone is not among them: it is there for runs that do not log it."""
        found: dict[str, ex.Name | ex.Family] = {}
        for statement in self.policy.statements:
            if self.is_own(statement) and not (isinstance(statement, rules.Rule) and statement.body.disabled):
                each = statement.each if isinstance(statement, rules.Rule) else None
                for name in _outside_surely(statement):
                    if each is not None and name.path in (each.member, "member"):
                        continue
                    is_metric = isinstance(name, ex.Family) or self.scope.meaning(name) is Meaning.METRIC
                    if is_metric and self.scope.part(name) is None:
                        found.setdefault(name.path, name)
        return found

    @cached_property
    def said_here(self) -> dict[str, ex.Name]:
        """The metrics that the messages (`because`) of the policy's own file name, each with the first place."""
        found: dict[str, ex.Name] = {}
        for rule in self.enabled():
            because = rule.body.because if self.is_own(rule) else None
            fields = because.parts if because is not None else ()
            for name in (n for part in fields if isinstance(part, rules.TemplateField) for n in named(part.expression)):
                is_member = rule.each is not None and name.path in (rule.each.member, "member")
                if isinstance(name, ex.Name) and not is_member and self.scope.meaning(name) is Meaning.METRIC:
                    if self.scope.part(name) is None:
                        found.setdefault(name.path, name)
        return found

    def fastest(self, node: ex.Node, each: rules.Each | None = None, shortest: bool = False) -> float | None:
        """The shortest cadence, in steps, among the metrics that set a pace; None where one is not known."""
        cadences = [self.every(name, shortest) for name in self.metrics(node, each)]
        return min((c for c in cadences if c is not None), default=None) if None not in cadences else None

    def rates_differ(self, names: frozenset[str]) -> bool:
        """Whether some of these metrics surely come more often than others: as declared, or an evaluation's beside
        those of training."""
        declared = {name: self.every(name) for name in sorted(names)}
        known = [c for c in declared.values() if c is not None]
        is_declared = all(self.every_declared(name) is not None for name in names)
        if known and max(known) > min(known) * (1 if is_declared or self.runs is None else RATES_APART):
            return True
        undeclared = [name for name, cadence in declared.items() if cadence is None]
        seldom = [name for name in undeclared if EVALUATED_SELDOM.search(name)]
        return 0 < len(seldom) < len(undeclared)

    def slowest(self, names: frozenset[str]) -> str:
        """The metric that comes most seldom, as declared or by its name."""
        return max(sorted(names), key=lambda n: (self.every(n) or 0.0, bool(EVALUATED_SELDOM.search(n))))

    def points(self, extent: Measured | None, node: ex.Node, shortest: bool = False) -> float | None:
        """How many points of an expression a window holds at most, by the usual cadence or the shortest distance of the
        runs; None where that is not known."""
        if extent is None or extent[1] not in (STEPS, SAMPLES):
            return None
        return extent[0] if extent[1] == SAMPLES else -(-extent[0] // (self.fastest(node, shortest=shortest) or 1))


def _paced_by(node: ex.Node) -> Iterator[ex.Name | ex.Family]:
    """The names in an expression that set its pace: not those after `unless:` and `from:`, nor words."""
    if isinstance(node, (ex.Name, ex.Family)):
        yield node
    elif isinstance(node, ex.Call):
        for argument in node.arguments:
            if argument.keyword in (None, "of"):
                yield from _paced_by(argument.value)
    else:
        for child in node.children():
            yield from _paced_by(child)


def _outside_surely(statement: rules.Statement) -> Iterator[ex.Name | ex.Family]:
    """The names in a statement's conditions and values, without those that only `surely` reads."""
    stack: list[ex.Node] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, ex.Call) and node.function == "surely":
            continue
        if isinstance(node, ex.Call):
            inner = [a.value for a in node.arguments if a.keyword not in ("by", "tol")]
            stack += reversed(inner)
        elif isinstance(node, (ex.Name, ex.Family)):
            yield from named(node)
        elif isinstance(node, rules.RuleBody):
            clear = node.clear.condition if node.clear is not None else None
            stack += reversed([*node.clauses, *([clear] if clear is not None else [])])
        elif isinstance(node, rules.Clause):
            stack += reversed([node.condition, *([node.on] if node.on is not None else [])])
        elif isinstance(node, rules.Rule):
            stack += [node.body, *([node.each.family] if node.each is not None else [])]
        elif isinstance(node, (rules.Let, rules.Event, rules.Phase, ex.Expression)):
            stack += node.children()[::-1]


def _is_member(family: str, pattern: str, name: str) -> bool:
    star = match_family(pattern, name)
    return star is not None and match_family(family, fill_family(family, star)) is not None


def _any(family: str) -> str:
    """A family's path with each range written as a star."""
    return re.sub(r"\{\d+\.\.\d+\}", "*", family)


def conjuncts(node: ex.Expression) -> list[ex.Expression]:
    """The parts of an `and`; the condition itself where it is none."""
    return [inner for part in node.operands for inner in conjuncts(part)] if isinstance(node, ex.And) else [node]


def alternatives(node: ex.Expression) -> list[ex.Expression]:
    """The parts of an `or`; the condition itself where it is none."""
    return [inner for part in node.operands for inner in alternatives(part)] if isinstance(node, ex.Or) else [node]
