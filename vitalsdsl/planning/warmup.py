"""How early a condition can be known, and how early it can be true: what `vitals explain` promises of a rule.

Every figure is a lower bound: a replay that contradicts one is a mistake here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.scope import Meaning, Scope, arguments_by_name, implicit_subject
from vitalsdsl.ops import base
from vitalsdsl.ops.base import Takes
from vitalsdsl.planning.calls import aggregate_of

BETWEEN_EDGES = 2
"""An event that began has to end before it can begin again: that takes an evaluation."""


@dataclass(frozen=True)
class Delay:
    """A time after the run's first point, by unit; each figure is a bound by itself. `steps` is what all of it comes to
    in steps, since each further sample comes a step later at the earliest."""

    by_unit: dict[str, float] = field(default_factory=dict)
    steps: float = 0.0

    @classmethod
    def of(cls, extent: Extent) -> Delay:
        return cls({extent.unit: extent.size}, extent.size if extent.unit in (STEPS, SAMPLES) else 0.0)

    def __bool__(self) -> bool:
        return any(self.by_unit.values())

    def then(self, other: Delay) -> Delay:
        """This, and after it the other."""
        return self._joined(other, lambda a, b: a + b)

    def and_(self, other: Delay) -> Delay:
        """Both, at the same time."""
        return self._joined(other, max)

    def or_(self, other: Delay) -> Delay:
        """Either."""
        return self._joined(other, min)

    def _joined(self, other: Delay, join: Callable[[float, float], float]) -> Delay:
        units = {**self.by_unit, **other.by_unit}
        both = {unit: join(self.by_unit.get(unit, 0.0), other.by_unit.get(unit, 0.0)) for unit in units}
        return Delay(both, join(self.steps, other.steps))

    def lived(self) -> Delay:
        """The same with the first point itself counted: 499 steps after it are 500 steps of the run."""
        counted = {unit: n + (unit in (STEPS, SAMPLES) and n > 0) for unit, n in self.by_unit.items()}
        return Delay(counted, self.steps + (self.steps > 0))

    def __str__(self) -> str:
        """`500 steps and 20 points`."""
        words = {TIME: "s", SAMPLES: "points"}
        amounts = [
            (math.ceil(n) if u in (STEPS, SAMPLES) else n, words.get(u, u)) for u, n in self.by_unit.items() if n
        ]
        return " and ".join(f"{n:g} {word[:-1] if n == 1 and word != 's' else word}" for n, word in amounts)


NONE = Delay()


class Earliest:
    """How early what stands in a policy can be known, true or false. Without `warm_up` it counts from where the trouble
    begins: windows and references are taken to be known already."""

    def __init__(self, scope: Scope, warm_up: bool = True) -> None:
        self.scope = scope
        self.warm_up = warm_up
        self._asked: dict[tuple[str, str], Delay] = {}

    def fires(self, clause: rules.Clause, rule: rules.Rule) -> Delay:
        """The first rung of a clause."""
        delay = self._held(self.true(clause.condition), clause.for_)
        if rule.phases and self.warm_up:
            inside = [self.true(self.scope.phases[name.path].condition) for name in rule.phases]
            delay = delay.and_(_least(inside))
        return delay

    def known(self, node: ex.Expression, subject: ex.Name | None = None) -> Delay:
        """A number; a condition, whichever way. `subject` is what `baseline(500)` is about here."""
        if isinstance(node, _CONDITIONS):
            return self.true(node).or_(self.false(node))
        if isinstance(node, ex.Arithmetic):
            return _all(self.known(operand, subject) for operand in node.operands)
        if isinstance(node, ex.Negative):
            return self.known(node.operand, subject)
        if isinstance(node, ex.Call):
            return self._call(node, subject, self.known)
        if isinstance(node, (ex.Before, ex.AtStep, ex.AtEvent, ex.AtEnd)):
            return self._past(node, self.known)
        if isinstance(node, ex.Name):
            meaning = self.scope.meaning(node)
            if meaning in (Meaning.EVENT, Meaning.PHASE):
                return self.true(node).or_(self.false(node))
            if meaning is Meaning.LET:
                family = self.scope.let_family(node.path)
                let = self.scope.lets.get(node.path) or (family[0] if family is not None else None)
                return self._once("known", let.name, self.known, let.expression) if let is not None else NONE
        if isinstance(node, ex.Family) and node.path in self.scope.lets:
            return self._once("known", node.path, self.known, self.scope.lets[node.path].expression)
        return NONE

    def true(self, node: ex.Expression) -> Delay:
        """A condition that is true."""
        if isinstance(node, ex.And):
            return _all(map(self.true, node.operands))
        if isinstance(node, ex.Or):
            return _least([self.true(operand) for operand in node.operands])
        if isinstance(node, ex.Not):
            return self.false(node.operand)
        if isinstance(node, ex.AtLeast):
            return _of_many([self.true(c) for c in node.conditions], node.count)
        if isinstance(node, ex.Held):
            return self._held(self.true(node.condition), node.span_)
        if isinstance(node, ex.Missing):
            return self.known(node.target).then(self._length(node.length))
        if isinstance(node, ex.Stalled):
            return self._length(node.length)
        if isinstance(node, ex.Then):
            begun = self.true(node.first)
            return begun.then(self._length(node.within)) if node.absent else begun.and_(self.true(node.second))
        if isinstance(node, ex.Comparison):
            return self._compared(node).and_(self._edges(node))
        return self._either(node, self.true)

    def false(self, node: ex.Expression) -> Delay:
        """A condition that is false."""
        if isinstance(node, ex.And):
            return _least([self.false(operand) for operand in node.operands])
        if isinstance(node, ex.Or):
            return _all(map(self.false, node.operands))
        if isinstance(node, ex.Not):
            return self.true(node.operand)
        if isinstance(node, ex.AtLeast):
            return _of_many([self.false(c) for c in node.conditions], len(node.conditions) - node.count + 1)
        if isinstance(node, ex.Held):
            return self.known(node.condition)
        if isinstance(node, (ex.Missing, ex.Stalled)):
            return NONE
        if isinstance(node, ex.Then):
            return NONE if node.absent else self.known(node.second)
        if isinstance(node, ex.Comparison):
            return self._compared(node)
        return self._either(node, self.false)

    def _either(self, node: ex.Expression, ask: Callable[[ex.Expression], Delay]) -> Delay:
        """What is true or false as what stands in it is."""
        if isinstance(node, ex.Name):
            event, phase = self.scope.events.get(node.path), self.scope.phases.get(node.path)
            meaning = self.scope.meaning(node)
            if meaning is Meaning.EVENT and event is not None:
                # It is false from its first known evaluation on, while its span has not been lived.
                if ask == self.true:
                    return self._held(self._once("true", node.path, ask, event.condition), event.for_)
                return self._once("false", node.path, self.known, event.condition)
            if meaning is Meaning.PHASE and phase is not None:
                if ask == self.true:
                    return self._once("true", node.path, ask, phase.condition)
                return self._once("false", node.path, self.known, phase.condition)
        if isinstance(node, (ex.Before, ex.AtStep, ex.AtEvent, ex.AtEnd)):
            return self._past(node, lambda inner, _=None: ask(inner))
        if isinstance(node, ex.Call):
            return self._call(node, None, lambda inner, _=None: ask(inner), is_true=ask == self.true)
        return self.known(node) if not isinstance(node, _CONDITIONS) else NONE

    def _once(
        self, question: str, name: str, ask: Callable[[ex.Expression], Delay], definition: ex.Expression
    ) -> Delay:
        """What a definition answers; it is gone through once, however often it is named."""
        if (question, name) not in self._asked:
            self._asked[question, name] = ask(definition)
        return self._asked[question, name]

    def _compared(self, node: ex.Comparison) -> Delay:
        return _all(self.known(o, implicit_subject(node, o, self.scope)) for o in node.operands)

    def _edges(self, node: ex.Comparison) -> Delay:
        """`onsets(spike, W) >= 3` takes three edges, each one evaluation after an end at the earliest."""
        if len(node.operands) != 2:
            return NONE
        left, right, symbol = *node.operands, node.operators[0]
        if symbol in ("<", "<="):
            left, right, symbol = right, left, {"<": ">", "<=": ">="}[symbol]
        function = base.registry().get(left.function) if isinstance(left, ex.Call) else None
        if not isinstance(left, ex.Call) or function is None or not function.counts_edges or symbol not in (">", ">="):
            return NONE
        least = self._number(right)
        needed = 0 if least is None else math.floor(least) + 1 if symbol == ">" else math.ceil(least)
        if needed < 1:
            return NONE
        event = next(v for v in arguments_by_name(left, function).values())
        return self.true(event).then(Delay.of(Extent((needed - 1) * self._apart(event), STEPS)))

    def _apart(self, event: ex.Expression) -> float:
        named = self.scope.events.get(event.path) if isinstance(event, ex.Name) else None
        apart = extent_of(named.apart, self.scope) if named is not None and named.apart is not None else None
        return max(BETWEEN_EDGES, apart.size if apart is not None and apart.unit in (STEPS, SAMPLES) else 0)

    def _number(self, node: ex.Expression) -> float | None:
        if isinstance(node, ex.Name) and node.path in self.scope.params:
            node = self.scope.params[node.path].value
        return node.value if isinstance(node, ex.Number) else None

    def _held(self, delay: Delay, span: ex.For | None) -> Delay:
        """From where a condition is true to where it has been for its span."""
        if span is None:
            return delay
        if span.n:
            return delay.then(Delay.of(Extent(span.k - 1, SAMPLES)))
        extents = [extent_of(length, self.scope) for length in span.lengths]
        return delay.then(_all(Delay.of(_after_first(e)) for e in extents if e is not None))

    def _length(self, node: ex.Expression) -> Delay:
        extent = extent_of(node, self.scope)
        return Delay.of(extent) if extent is not None else NONE

    def _past(self, node: ex.Before | ex.AtStep | ex.AtEvent | ex.AtEnd, ask: Callable[..., Delay]) -> Delay:
        inner = ask(node.operand)
        if not self.warm_up:
            return inner  # it is what the present is compared with, and was known before the trouble began
        if isinstance(node, ex.AtEvent):
            return inner.and_(self.true(node.event))
        if isinstance(node, ex.AtEnd):
            return inner.and_(self.true(node.phase))
        if isinstance(node, ex.Before):
            extent = extent_of(node.shift, self.scope)
            return inner.then(Delay.of(extent)) if extent is not None else inner.and_(self.true(node.shift))
        return inner

    def _call(self, node: ex.Call, subject: ex.Name | None, ask: Callable[..., Delay], is_true: bool = False) -> Delay:
        if aggregate_of(node) is not None:
            return ask(node.arguments[0].value)
        function = base.registry().get(node.function)
        if function is None:
            return NONE
        given = arguments_by_name(node, function)
        if function.implicit_subject and sum(a.keyword is None for a in node.arguments) < len(function.positional()):
            first, second = function.positional()[:2]
            given = {k: v for k, v in given.items() if k != first.name} | {second.name: given[first.name]}
            given |= {first.name: subject} if subject is not None else {}
        fixed = self._fixed(function, given)
        if function.known_from_start(fixed) and not is_true:
            return NONE
        streams = [
            self.true(value) if parameter.takes is Takes.EVENT or is_true else self.known(value)
            for parameter in function.parameters
            if parameter.takes in _STREAMS and (value := given.get(parameter.name)) is not None
        ]
        own = function.warm_up(fixed) if self.warm_up else ()
        return _in_turn([_all(streams), *map(Delay.of, own)])

    def _fixed(self, function: type[base.Function], given: dict[str, ex.Expression]) -> dict[str, Extent]:
        lengths = [p.name for p in function.parameters if p.takes in (Takes.EXTENT, Takes.ORIGIN) and p.name in given]
        found = {name: extent_of(given[name], self.scope) for name in lengths}
        return {name: extent for name, extent in found.items() if extent is not None}


_CONDITIONS = (ex.And, ex.Or, ex.Not, ex.AtLeast, ex.Held, ex.Missing, ex.Stalled, ex.Then, ex.Comparison, ex.Is)
_STREAMS = (Takes.STREAM, Takes.CONDITION, Takes.EVENT, Takes.OPERAND)


def extent_of(node: ex.Expression, scope: Scope) -> Extent | None:
    """A length as it is written, by a param, or as a bare number of steps; None where it is none."""
    if isinstance(node, ex.Name):
        param = scope.params.get(node.path)
        return extent_of(param.value, scope) if param is not None else None
    if isinstance(node, ex.Length):
        return Extent(node.size, TIME if node.is_time else node.unit)
    return Extent(node.value, STEPS) if isinstance(node, ex.Number) else None


def _after_first(extent: Extent) -> Extent:
    """A span whose first step or sample is the one that it begins with."""
    return Extent(max(extent.size - 1, 0.0), extent.unit) if extent.unit in (STEPS, SAMPLES) else extent


def _all(delays: Iterable[Delay]) -> Delay:
    whole = NONE
    for delay in delays:
        whole = whole.and_(delay)
    return whole


def _in_turn(delays: Iterable[Delay]) -> Delay:
    whole = NONE
    for delay in delays:
        whole = whole.then(delay)
    return whole


def _least(delays: list[Delay]) -> Delay:
    whole = delays[0]
    for delay in delays[1:]:
        whole = whole.or_(delay)
    return whole


def _of_many(delays: list[Delay], count: int) -> Delay:
    """Where `count` of them can be so: unit by unit, the count-th smallest."""
    units = {unit for delay in delays for unit in delay.by_unit}
    place = min(max(count, 1), len(delays)) - 1
    by_unit = {unit: sorted(d.by_unit.get(unit, 0.0) for d in delays)[place] for unit in sorted(units)}
    return Delay(by_unit, sorted(d.steps for d in delays)[place])
