"""Numbers, conditions, lengths, families: whether each stands where it can."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vitalsdsl import expressions as ex
from vitalsdsl.diagnostic import Diagnostic, Severity
from vitalsdsl.formatter import expression_text
from vitalsdsl.ops import base
from vitalsdsl.ops.base import Takes
from vitalsdsl.scope import Meaning, Scope, implicit_subject
from vitalsdsl.source import Span
from vitalsdsl.types import Kind

_LONGEST = 1e12
_CONDITIONS = (ex.Comparison, ex.Not, ex.And, ex.Or, ex.Is, ex.Missing, ex.Stalled, ex.Held, ex.AtLeast, ex.Then)
_OVER_MEMBERS_OF_CONDITIONS = ("any", "all", "count")


@dataclass(frozen=True)
class Where:
    """Where an expression stands: in which kind of statement, what an `each` calls its member, and whether a family may
    stand here (inside a function over members, or in a let family)."""

    owner: str
    member: str | None = None
    member_family: str | None = None
    family: str | None = None
    subject: ex.Name | None = None
    bare: bool = False


class Kinds:
    """Holds every expression to its kind, and says what is wrong where it is not."""

    def __init__(self, scope: Scope, found: list[Diagnostic], broken: frozenset[str]) -> None:
        self.scope = scope
        self.found = found
        self.broken = broken

    def error(self, code: str, message: str, place: Span, label: str = "", *help_: str) -> None:
        self.found.append(Diagnostic(code, Severity.ERROR, message, place, label, tuple(h for h in help_ if h)))

    # ---------------------------------------------------------------- conditions and numbers

    def is_condition(self, node: ex.Expression, where: Where) -> bool:
        """Whether an expression is a condition rather than a number."""
        if isinstance(node, _CONDITIONS):
            return True
        if isinstance(node, ex.Name):
            return self.scope.meaning(node, where.member) in (Meaning.EVENT, Meaning.PHASE)
        if isinstance(node, (ex.Before, ex.AtStep, ex.AtEvent, ex.AtEnd)):
            return self.is_condition(node.operand, where)
        if isinstance(node, ex.Call):
            function = self._aggregate(node) or base.registry().get(node.function)
            return function is not None and function.result is Kind.CONDITION
        return False

    def any_kind(self, node: ex.Expression, where: Where) -> None:
        if self.is_condition(node, where):
            self.condition(node, where)
        else:
            self.number(node, where)

    def condition(self, node: ex.Expression, where: Where, top: bool = False) -> None:
        """An expression that has to be a condition; `top` where a sequence may stand without parentheses."""
        if not self.is_condition(node, where):
            self.number(node, where)
            text = expression_text(node)
            if not (isinstance(node, ex.Name) and node.path in self.broken):
                self.error("V002", f"`{text}` is a number, not a condition", node.span, "compared with what?",
                           f"write `{text} > …`")  # fmt: skip
            return
        if isinstance(node, ex.Comparison):
            self._comparison(node, where)
        elif isinstance(node, ex.Not):
            self.condition(node.operand, where)
        elif isinstance(node, (ex.And, ex.Or)):
            self.condition(node.left, where)
            self.condition(node.right, where)
        elif isinstance(node, ex.Is):
            self._is(node, where)
        elif isinstance(node, ex.Missing):
            self._missing(node, where)
        elif isinstance(node, ex.Stalled):
            self.length(node.length, "stalled for", ("time",))
        elif isinstance(node, ex.Held):
            self.condition(node.condition, where, top=True)
            for length in node.span_.lengths:
                self.length(length, "for", ("steps", "samples", "epochs", "tokens", "time"))
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
            text = expression_text(node)
            self.error("V002", f"`{text}` is true or false, not a number", node.span, "a condition",
                       "count how often it holds with `fraction(…, 100 steps)`")  # fmt: skip
            return
        if isinstance(node, ex.Arithmetic):
            self.number(node.left, where)
            self.number(node.right, where)
            self._same_unit(node, where)
        elif isinstance(node, ex.Negative):
            self.number(node.operand, where)
        else:
            self._either(node, where)

    def _either(self, node: ex.Expression, where: Where) -> None:
        """What can be of both kinds: names, families, calls, and the past."""
        if isinstance(node, ex.Name):
            self._name(node, where)
        elif isinstance(node, ex.Family):
            self._family(node, where)
        elif isinstance(node, ex.Call):
            self._call(node, where)
        elif isinstance(node, ex.Before):
            self.any_kind(node.operand, replace(where, subject=None))
            if isinstance(node.shift, ex.Name) and self.scope.meaning(node.shift) is not Meaning.PARAM:
                self._event(node.shift, where, "before")
            else:
                self.length(node.shift, "before", ("steps", "samples", "time"))
        elif isinstance(node, ex.AtStep):
            self.any_kind(node.operand, where)
        elif isinstance(node, ex.AtEvent):
            self.any_kind(node.operand, where)
            self._event(node.event, where, "at")
        elif isinstance(node, ex.AtEnd):
            self.any_kind(node.operand, where)
            if node.phase.path not in self.scope.phases and node.phase.path not in self.broken:
                self._nearest("V314", "phase", node.phase, self.scope.phases)

    # ---------------------------------------------------------------- names

    def _name(self, node: ex.Name, where: Where) -> None:
        if self.scope.meaning(node, where.member) is Meaning.PARAM:
            value = self.scope.params[node.path].value
            if isinstance(value, ex.Length) and not where.bare:
                self.error("V003", f"param `{node.path}` is a length, not a number", node.span, expression_text(value),
                           "it stands after `for`, in a window, or beside `step`")  # fmt: skip

    def _family(self, node: ex.Family, where: Where) -> None:
        if where.family is None:
            self.error("V043", f"`{node.path}` is many metrics, not one", node.span, "a family",
                       f"write `any({node.path} > …)`, `max({node.path})`, or a rule with `each m in {node.path}`")  # fmt: skip
        elif where.family.count("*") and _stars(node.path) != _stars(where.family):
            self.error("V043", f"`{node.path}` and `{where.family}` differ in their `*`", node.span, "as many in both")

    def _event(self, node: ex.Expression, where: Where, word: str) -> None:
        if isinstance(node, ex.Name):
            if node.path in self.broken or self.scope.meaning(node, where.member) in (Meaning.EVENT, Meaning.PHASE):
                return
            self._nearest("V315", "event", node, self.scope.events, f"`{word}` needs an event")
        elif self.is_condition(node, where):
            self.condition(node, where)
        else:
            self.error(
                "V315", f"`{word}` needs an event", node.span, "not an event", "define one: `event NAME = CONDITION`"
            )

    def _nearest(self, code: str, what: str, name: ex.Name, known: Iterable[str], why: str = "") -> None:
        near = difflib.get_close_matches(name.path, list(known), 1)
        help_ = f"did you mean `{near[0]}`?" if near else f"define it: `{what} {name.path} = CONDITION`"
        self.error(code, f"there is no {what} `{name.path}`", name.span, why or f"unknown {what}", help_)

    def _is(self, node: ex.Is, where: Where) -> None:
        target = node.operand
        if isinstance(target, ex.Family):
            self._family(target, where)
        elif not isinstance(target, ex.Name) or self.scope.meaning(target, where.member) not in (
            Meaning.METRIC,
            Meaning.MEMBER,
        ):
            text = expression_text(target)
            self.error(
                "V047", f"`is {node.state}` looks at the raw points of a metric", target.span, f"`{text}` is none"
            )

    def _missing(self, node: ex.Missing, where: Where) -> None:
        if self.scope.meaning(node.target, where.member) not in (Meaning.METRIC, Meaning.MEMBER, Meaning.LET):
            self.error("V047", "`missing` is about a metric or a let", node.target.span, "neither")
        self.length(node.length, "missing … for", ("steps", "time"))

    def _then(self, node: ex.Then, where: Where, top: bool) -> None:
        if not (top or node.grouped):
            self.error(
                "V046",
                "a sequence inside a condition needs parentheses",
                node.span,
                "`then`",
                "write `( … then … within … )`",
            )
        self.condition(node.first, where)
        self.condition(node.second, where)
        self.length(node.within, "within", ("steps", "time"))

    # ---------------------------------------------------------------- comparisons and units

    def _comparison(self, node: ex.Comparison, where: Where) -> None:
        for operand in node.operands:
            subject = implicit_subject(node, operand, self.scope)
            bare = isinstance(operand, (ex.Name, ex.Length))
            self.number(operand, replace(where, subject=subject, bare=bare))
        for left, right in zip(node.operands, node.operands[1:]):
            self._comparable(left, right, where)

    def _comparable(self, left: ex.Expression, right: ex.Expression, where: Where) -> None:
        units = self._unit(left, where), self._unit(right, where)
        if None in units or units[0] == units[1]:
            return
        if "" in units:
            plain, measured = (left, right) if units[0] == "" else (right, left)
            unit = units[0] or units[1]
            if unit == "steps" and isinstance(plain, (ex.Number, ex.Negative)):
                return
            if not (isinstance(plain, ex.Number) or isinstance(measured, ex.Length)):
                return
        said = [f"`{expression_text(n)}`" for n in (left, right)]
        help_ = f"write the number with its unit, such as `{_example(units)}`" if "" in units else ""
        self.error("V003", f"{said[0]} and {said[1]} are in different units", left.span.to(right.span),
                   f"{units[0] or 'a bare number'} against {units[1] or 'a bare number'}", help_)  # fmt: skip

    def _unit(self, node: ex.Expression, where: Where) -> str | None:
        """The unit of an expression: "" for a bare number, None where it is not known."""
        if isinstance(node, ex.Length):
            return self.unit_of(node)
        if isinstance(node, ex.Number):
            return ""
        if isinstance(node, ex.Call):
            return "steps" if node.function in ("since", "interval") else None
        if isinstance(node, ex.Name):
            meaning = self.scope.meaning(node, where.member)
            if meaning is Meaning.COUNTER:
                return {"step": "steps", "elapsed": "time", "epoch": "epochs", "tokens": "tokens"}.get(node.path)
            if meaning is Meaning.PARAM:
                return self.unit_of(self.scope.params[node.path].value)
        return None

    def _same_unit(self, node: ex.Arithmetic, where: Where) -> None:
        if node.operator not in "+-":
            return
        units = [self._declared_unit(side, where) for side in (node.left, node.right)]
        if units[0] and units[1] and units[0] != units[1]:
            self.error("V003", f"adding {units[0]} to {units[1]}", node.span, "different units")

    def _declared_unit(self, node: ex.Expression, where: Where) -> str | None:
        if isinstance(node, ex.Name) and self.scope.meaning(node, where.member) is Meaning.METRIC:
            metric = self.scope.metrics.get(node.path)
            return metric.unit if metric is not None else None
        return None

    # ---------------------------------------------------------------- lengths

    def unit_of(self, node: ex.Expression) -> str:
        """steps, samples, epochs, tokens or time; "" for a plain number."""
        if isinstance(node, ex.Name) and node.path in self.scope.params:
            return self.unit_of(self.scope.params[node.path].value)
        if isinstance(node, ex.Length):
            return "time" if node.is_time else node.unit
        return ""

    def size_of(self, node: ex.Expression) -> float:
        if isinstance(node, ex.Name) and node.path in self.scope.params:
            return self.size_of(self.scope.params[node.path].value)
        return node.size if isinstance(node, ex.Length) else getattr(node, "value", 0.0)

    def length(self, node: ex.Expression, what: str, units: tuple[str, ...], bare: bool = False) -> None:
        """A length in one of some units; `bare` where a whole number of steps or samples may stand."""
        if isinstance(node, ex.Name):
            if node.path in self.broken:
                return
            if node.path not in self.scope.params:
                near = difflib.get_close_matches(node.path, self.scope.params, 1)
                help_ = f"did you mean `{near[0]}`?" if near else f"define it: `param {node.path} = 20 steps`"
                self.error("V314", f"there is no length called `{node.path}`", node.span, "unknown param", help_)
                return
        unit, size = self.unit_of(node), self.size_of(node)
        allowed = ", ".join("s, min, h or d" if u == "time" else u for u in units)
        text = expression_text(node)
        if unit == "" and not (bare and isinstance(node, ex.Number) and not node.ratio):
            self.error("V001", f"`{what}` needs a length", node.span, f"{text} what?", f"in {allowed}")
        elif unit and unit not in units:
            self.error(
                "V003",
                f"`{what}` cannot be measured in {'time' if unit == 'time' else unit}",
                node.span,
                f"in {allowed}",
            )
        elif size <= 0 or size > _LONGEST:
            self.error(
                "V048", f"a length of {text} makes no sense for `{what}`", node.span, "more than nothing, please"
            )
        elif unit in ("", "steps", "samples") and size != int(size):
            self.error("V048", f"`{text}` is no whole number of {unit or 'steps'}", node.span, "whole numbers only")

    # ---------------------------------------------------------------- calls

    def _aggregate(self, node: ex.Call) -> type[base.Aggregate] | None:
        function = base.aggregates().get(node.function)
        if function is None or len(node.arguments) != 1 or node.arguments[0].keyword is not None:
            return None
        has_family = any(isinstance(n, ex.Family) for n in node.arguments[0].value.walk())
        return function if has_family or node.function not in base.registry() else None

    def _call(self, node: ex.Call, where: Where) -> None:
        aggregate = self._aggregate(node)
        if aggregate is not None:
            self._over_members(node, aggregate, where)
            return
        function = base.registry().get(node.function)
        if function is None:
            near = difflib.get_close_matches(node.function, [*base.registry(), *base.aggregates()], 1)
            help_ = f"did you mean `{near[0]}`?" if near else "`vitals functions` lists them"
            self.error("V040", f"there is no function `{node.function}`", node.span, "unknown function", help_)
            for argument in node.arguments:
                self.any_kind(argument.value, where)
            return
        self._arguments(node, function, where)

    def _over_members(self, node: ex.Call, function: type[base.Aggregate], where: Where) -> None:
        inner = node.arguments[0].value
        families = [n.path for n in inner.walk() if isinstance(n, ex.Family)]
        if not families:
            self.error("V043", f"`{node.function}(…)` is about a family", node.span, "no family in it",
                       f"write `{node.function}(act/layer_* …)`")  # fmt: skip
            return
        inside = replace(where, family=families[0], subject=None)
        if node.function in _OVER_MEMBERS_OF_CONDITIONS:
            self.condition(inner, inside, top=True)
        else:
            self.number(inner, inside)

    def _arguments(self, node: ex.Call, function: type[base.Function], where: Where) -> None:
        places = list(function.positional())
        given = [a for a in node.arguments if a.keyword is None]
        if function.implicit_subject and len(given) == len(places) - 1:
            if where.subject is None:
                self.error("V042", f"`{node.function}` of what?", node.span, "the metric is missing",
                           f"write `{function.signature()}`; it may be left out only beside one bare metric")  # fmt: skip
            places = places[1:]
        needed = [p for p in places if p.required]
        too_many = len(given) > len(places) and not (places and places[-1].many)
        if len(given) < len(needed) or too_many:
            many = "many" if too_many else "few"
            self.error("V041", f"too {many} arguments for `{node.function}`", node.span, f"{len(given)} given",
                       f"it is written `{function.signature()}`")  # fmt: skip
            return
        pairs = list(zip(places + places[-1:] * (len(given) - len(places)), given))
        keywords = function.keywords()
        for argument in node.arguments:
            if argument.keyword is None:
                continue
            parameter = keywords.get(argument.keyword)
            if parameter is None:
                near = difflib.get_close_matches(argument.keyword, keywords, 1)
                help_ = f"did you mean `{near[0]}:`?" if near else f"it is written `{function.signature()}`"
                self.error("V041", f"`{node.function}` has no `{argument.keyword}:`", argument.span, "unknown", help_)
            else:
                pairs.append((parameter, argument))
        for parameter, argument in pairs:
            self._argument(node, parameter, argument, where)
        if (
            function.name in ("usual", "noise")
            and where.owner == "let"
            and not any(a.keyword == "unless" for a in node.arguments)
        ):
            self.error("V044", f"in a let, `{node.function}` must say what freezes it", node.span, "no `unless:`",
                       "write `unless: EVENT`, or use it in the rule itself")  # fmt: skip
        self._fixed(node, function, pairs)

    def _argument(self, node: ex.Call, parameter: base.Parameter, argument: ex.Argument, where: Where) -> None:
        value, inside = argument.value, replace(where, subject=None, bare=False)
        takes = parameter.takes
        if takes in (Takes.STREAM, Takes.OPERAND):
            self.number(value, inside)
        elif takes is Takes.CONDITION:
            self.condition(value, inside, top=True)
        elif takes is Takes.EVENT:
            self._event(value, inside, node.function)
        elif takes is Takes.FREEZING:
            if not (isinstance(value, ex.Name) and value.path in self.broken):
                self.condition(value, inside, top=True)
        elif takes is Takes.EXTENT or (takes is Takes.ORIGIN and not self._names_event(value)):
            self.length(value, f"{node.function}(…, {parameter.name})", parameter.units, bare=True)
        elif takes is Takes.NUMBER:
            self.number(value, inside)
        elif takes is Takes.WORD and (not isinstance(value, ex.Name) or value.path not in parameter.words):
            self.error("V041", f"`{parameter.name}:` takes a word", value.span, " or ".join(parameter.words))

    def _names_event(self, node: ex.Expression) -> bool:
        return isinstance(node, ex.Name) and (
            node.path in self.broken or self.scope.meaning(node) in (Meaning.EVENT, Meaning.PHASE)
        )

    def _fixed(
        self, node: ex.Call, function: type[base.Function], pairs: list[tuple[base.Parameter, ex.Argument]]
    ) -> None:
        if node.function == "quantile":
            q = next((a.value for p, a in pairs if p.takes is Takes.NUMBER), None)
            if isinstance(q, ex.Number) and not 0 <= q.value <= 1:
                self.error("V041", f"a quantile of {q.text} does not exist", q.span, "from 0 to 1", "the median is 0.5")
        if node.function == "share":
            for _, argument in pairs:
                if not isinstance(argument.value, ex.Family):
                    self.error(
                        "V043", "`share` is about two families", argument.span, "not a family", "share(F/*, of: G/*)"
                    )


def _stars(path: str) -> int:
    return path.count("*") + path.count("..")


def _example(units: tuple[str | None, ...]) -> str:
    unit = next(u for u in units if u)
    return {"time": "2 h", "steps": "500 steps", "epochs": "2 epochs", "tokens": "1B tokens"}.get(unit, "5 samples")
