"""Numbers, conditions, events, families: whether each stands where it can."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.source import Span
from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Kind
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.arguments import Calls, aggregate_of, families, stars
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.scope import Meaning, Scope, implicit_subject
from vitalsdsl.language.units import LASTS, Units
from vitalsdsl.ops import base

_CONDITIONS = (ex.Comparison, ex.Not, ex.And, ex.Or, ex.Is, ex.Missing, ex.Stalled, ex.Held, ex.AtLeast, ex.Then)
_PAST = (ex.Before, ex.AtStep, ex.AtEvent, ex.AtEnd)
_METRICS = (Meaning.METRIC, Meaning.MEMBER)


class Where(NamedTuple):
    """Where an expression stands: in which kind of statement, what an `each` calls its member, what a bare `baseline`
    is about, and the family whose members are gone through (inside a function over members, or in a let family)."""

    owner: str
    member: str | None = None
    family: str | None = None
    subject: ex.Name | None = None


class Kinds:
    """Holds every expression to its kind, and says what is wrong where it is not."""

    def __init__(self, scope: Scope, found: list[Diagnostic], broken: frozenset[str]) -> None:
        self.scope = scope
        self.found = found
        self.broken = broken
        self.units = Units(scope, self.report, broken)
        self.calls = Calls(self)

    def report(self, code: str, message: str, place: Span, label: str = "", *help_: str) -> None:
        self.found.append(Diagnostic(code, Severity.ERROR, message, place, label, tuple(h for h in help_ if h)))

    def nearest(self, code: str, what: str, name: ex.Name, known: Iterable[str], label: str, otherwise: str) -> None:
        """Report a name that is not defined, with the nearest that is."""
        near = difflib.get_close_matches(name.path, list(known), 1)
        help_ = f"did you mean `{near[0]}`?" if near else otherwise
        self.report(code, f"there is no {what} `{name.path}`", name.span, label, help_)

    # ---------------------------------------------------------------- conditions and numbers

    def is_condition(self, node: ex.Expression, where: Where) -> bool:
        """Whether an expression is a condition rather than a number."""
        if isinstance(node, _CONDITIONS):
            return True
        if isinstance(node, ex.Name):
            return self.scope.meaning(node, where.member) in (Meaning.EVENT, Meaning.PHASE)
        if isinstance(node, _PAST):
            return self.is_condition(node.operand, where)
        if isinstance(node, ex.Call):
            function = aggregate_of(node) or base.registry().get(node.function)
            return function is not None and function.result is Kind.CONDITION
        return False

    def is_length_param(self, node: ex.Name) -> bool:
        return self.scope.meaning(node) is Meaning.PARAM and isinstance(self.scope.params[node.path].value, ex.Length)

    def any_kind(self, node: ex.Expression, where: Where) -> None:
        if self.is_condition(node, where):
            self.condition(node, where)
        else:
            self.number(node, where)

    def condition(self, node: ex.Expression, where: Where, top: bool = False) -> None:
        """An expression that has to be a condition; `top` where a sequence may stand without parentheses."""
        if not self.is_condition(node, where):
            self.number(node, where)
            self._no_condition(node)
        elif isinstance(node, ex.Comparison):
            self._comparison(node, where)
        elif isinstance(node, ex.Not):
            self.condition(node.operand, where)
        elif isinstance(node, (ex.And, ex.Or)):
            for part in node.operands:
                self.condition(part, where)
        elif isinstance(node, ex.Is):
            self._is(node, where)
        elif isinstance(node, ex.Missing):
            self._missing(node, where)
        elif isinstance(node, ex.Stalled):
            self.units.length(node.length, "stalled for", (TIME,))
        elif isinstance(node, ex.Held):
            self.condition(node.condition, where, top=True)
            self.span(node.span_)
        elif isinstance(node, ex.AtLeast):
            for inner in node.conditions:
                self.condition(inner, where)
        elif isinstance(node, ex.Then):
            self._then(node, where, top)
        else:
            self._either(node, where)

    def number(self, node: ex.Expression, where: Where) -> None:
        """An expression that has to be a number."""
        if self.is_condition(node, where):
            self.any_kind(node, where)
            self._no_number(node, where)
        elif isinstance(node, ex.Arithmetic):
            for operand in node.operands:
                self.number(operand, where)
            self.units.add(node, where.member)
        elif isinstance(node, ex.Negative):
            self.number(node.operand, where)
        else:
            self._either(node, where)

    def span(self, span: ex.For | None) -> None:
        """The lengths of a `for`."""
        for length in span.lengths if span is not None else ():
            self.units.length(length, "for", LASTS)

    def _no_condition(self, node: ex.Expression) -> None:
        if isinstance(node, ex.Name) and (node.path in self.broken or self._is_condition_as_let(node)):
            return
        if (
            isinstance(node, ex.Call)
            and node.function not in base.registry()
            and node.function not in base.aggregates()
        ):
            return
        text = expression_text(node)
        help_ = f"write `{text} > …`"
        if isinstance(node, ex.Length):
            help_ = f"write `{'elapsed' if node.is_time else 'step'} < {text}`"
        elif isinstance(node, ex.Name):
            near = difflib.get_close_matches(node.path, [*self.scope.events, *self.scope.phases], 1)
            help_ += f", or did you mean `{near[0]}`?" if near else ""
        self.report("V002", f"`{text}` is a number, not a condition", node.span, "compared with what?", help_)

    def _is_condition_as_let(self, node: ex.Name) -> bool:
        """Whether a name stands for a `let` that should be an event, which is said there."""
        let = self.scope.lets.get(node.path) if self.scope.meaning(node) is Meaning.LET else None
        return let is not None and self.is_condition(
            let.expression, Where("let", family=let.name if let.family else None)
        )

    def _no_number(self, node: ex.Expression, where: Where) -> None:
        text = expression_text(node)
        if where.owner == "let":
            help_ = f"a condition gets its name with `event`, not `let`: write `event NAME = {text}`"
        elif isinstance(node, ex.Name):
            help_ = f"write `{text}` alone, or count it: `onsets({text}, 1000 steps)`"
        else:
            help_ = f"to ask how often it holds, write `fraction({text}, 100 steps)`"
            if isinstance(node, ex.Call) and aggregate_of(node) is not None:
                help_ = f"to ask of how many members it holds, write `count({text.partition('(')[2]}`"
        self.report("V002", f"`{text}` is true or false, not a number", node.span, "a condition", help_)

    def _either(self, node: ex.Expression, where: Where) -> None:
        """What can be of both kinds: names, families, calls, and the past."""
        if isinstance(node, ex.Family):
            self._family(node, where)
        elif isinstance(node, ex.Call):
            self.calls.call(node, where)
        elif isinstance(node, _PAST):
            self._past(node, where)

    # ---------------------------------------------------------------- pieces of an expression

    def _comparison(self, node: ex.Comparison, where: Where) -> None:
        for operand in node.operands:
            if not self._compared_outside(node, operand, where):
                self.number(operand, where._replace(subject=implicit_subject(node, operand, self.scope)))
        for left, right in zip(node.operands, node.operands[1:]):
            if not (self.is_condition(left, where) or self.is_condition(right, where)):
                self.units.compare(left, right, where.member)

    def _compared_outside(self, node: ex.Comparison, operand: ex.Expression, where: Where) -> bool:
        """`any(act/*) > 3`, reported: the comparison belongs inside, where each member is compared."""
        function = aggregate_of(operand) if isinstance(operand, ex.Call) else None
        if not isinstance(operand, ex.Call) or function is None or function.result is not Kind.CONDITION:
            return False
        inner = operand.arguments[0].value
        if self.is_condition(inner, where) or next(families(inner), None) is None:
            return False
        sides = [expression_text(inner if side is operand else side) for side in node.operands]
        inside = " ".join(part for pair in zip(sides, (*node.operators, "")) for part in pair).strip()
        text = f"{operand.function}({inside})"
        self.report("V002", f"`{expression_text(operand)}` is about a condition, and a family of numbers is none",
                    node.span, "compared outside", f"write `{text}`")  # fmt: skip
        return True

    def _family(self, node: ex.Family, where: Where) -> None:
        if where.family is None:
            self.report("V043", f"`{node.path}` is many metrics, not one", node.span, "a family",
                        f"write `any({node.path} > …)`, `max({node.path})`, "
                        f"or a rule with `each m in {node.path}`")  # fmt: skip
        elif stars(node.path) != stars(where.family):
            self.report("V043", f"`{node.path}` and `{where.family}` differ in their `*`", node.span,
                        "members are joined by it", "as many `*` in both")  # fmt: skip

    def _past(self, node: ex.Expression, where: Where) -> None:
        assert isinstance(node, _PAST)
        self.any_kind(node.operand, where)
        if isinstance(node, ex.Before):
            shift = node.shift
            if isinstance(shift, ex.Name) and self.scope.meaning(shift) is not Meaning.PARAM:
                self.event(shift, where, "before", or_length=True)
            else:
                self.units.length(shift, "before", (STEPS, SAMPLES, TIME))
        elif isinstance(node, ex.AtStep):
            if node.step.value != int(node.step.value) or node.step.value < 0 or node.step.ratio:
                self.report("V048", f"there is no step `{node.step.text}`", node.step.span, "whole numbers only",
                            f"write `at step {max(0, round(node.step.value))}`")  # fmt: skip
        elif isinstance(node, ex.AtEvent):
            self.event(node.event, where, "at")
        elif node.phase.path not in self.scope.phases and node.phase.path not in self.broken:
            self.nearest("V314", "phase", node.phase, self.scope.phases, "unknown phase",
                         f"define it: `phase {node.phase.path} = CONDITION`")  # fmt: skip

    def event(self, node: ex.Expression, where: Where, what: str, or_length: bool = False) -> None:
        """Where an event is needed: its name, or a condition, whose edges then count."""
        if isinstance(node, ex.Name):
            meaning = self.scope.meaning(node, where.member)
            if node.path in self.broken or meaning in (Meaning.EVENT, Meaning.PHASE):
                return
            known = [*self.scope.events, *self.scope.phases, *(self.scope.params if or_length else ())]
            otherwise = f"define it, `event {node.path} = CONDITION`"
            if meaning is not Meaning.METRIC or node.path in self.scope.metrics:
                otherwise = f"`{node.path}` is a {meaning.value}"
            if not or_length:
                otherwise += f", or write a condition: `{node.path} > …`"
            self.nearest("V315", "event", node, known, f"`{what}` needs an event", otherwise)
        elif self.is_condition(node, where):
            self.condition(node, where)
        else:
            self.number(node, where)
            self.report("V315", f"`{what}` needs an event, and `{expression_text(node)}` is a number", node.span,
                        "not an event", f"write `{expression_text(node)} > …`")  # fmt: skip

    def _is(self, node: ex.Is, where: Where) -> None:
        target = node.operand
        if isinstance(target, ex.Family):
            self._family(target, where)
        elif not isinstance(target, ex.Name) or self.scope.meaning(target, where.member) not in _METRICS:
            self.any_kind(target, where)
            self.report("V047", f"`is {node.state}` looks at the raw points of a metric", target.span,
                        f"`{expression_text(target)}` is none", "name the metric itself: `loss is nan`")  # fmt: skip

    def _missing(self, node: ex.Missing, where: Where) -> None:
        meaning = self.scope.meaning(node.target, where.member)
        if meaning not in (*_METRICS, Meaning.LET) and node.target.path not in self.broken:
            self.report("V047", "`missing` is about the points of a metric", node.target.span, f"a {meaning.value}",
                        "for the whole run there is `stalled for 10 min`")  # fmt: skip
        self.units.length(node.length, "missing … for", (STEPS, TIME))

    def _then(self, node: ex.Then, where: Where, top: bool) -> None:
        if not (top or node.grouped):
            self.report("V046", "a sequence inside a condition needs parentheses", node.span, "where does it end?",
                        f"write `({expression_text(node)})`")  # fmt: skip
        self.condition(node.first, where)
        self.condition(node.second, where)
        self.units.length(node.within, "within", (STEPS, TIME))
