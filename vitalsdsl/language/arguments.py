"""Calls: whether there is such a function, and whether what stands in its brackets is what it takes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from vitalsdsl.ground.types import SAMPLES, STEPS, Extent, Kind
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.scope import Meaning, Scope, is_constant
from vitalsdsl.ops import base
from vitalsdsl.ops.base import Takes

if TYPE_CHECKING:
    from vitalsdsl.language.kinds import Kinds, Where

Pair = tuple[base.Parameter, ex.Argument]

_MEANT = {
    "avg": "mean",
    "average": "mean",
    "change": "delta",
    "diff": "delta",
    "ewma": "ema",
    "increasing": "rising",
    "decreasing": "falling",
    "percentile": "quantile",
    "pct_change": "growth",
    "rate": "slope",
    "stddev": "std",
    "stdev": "std",
    "variance": "var",
    "z_score": "zscore",
    "moving_average": "mean",
    "sma": "mean",
    "stuck": "flat",
    "plateau": "flat",
}
"""What people write who come from elsewhere."""

_SINCE_START = {"min": "lowest", "max": "highest"}
_OF_VALUES = {"min": "least", "max": "greatest"}
_WRITTEN = {
    "missing": "missing {0} for {1}",
    "absent": "missing {0} for {1}",
    "is_missing": "missing {0} for {1}",
    "stalled": "stalled for {0}",
    "is_nan": "{0} is nan",
    "isnan": "{0} is nan",
    "is_inf": "{0} is inf",
    "isinf": "{0} is inf",
    "is_finite": "{0} is finite",
    "isfinite": "{0} is finite",
    "best": "lowest({0})",
    "lag": "{0} before {1}",
    "shift": "{0} before {1}",
    "previous": "{0} before 1 samples",
    "prev": "{0} before 1 samples",
    "between": "{1} < {0} < {2}",
}
"""What is no function here, and how it is written; an argument that is not given is made up."""


def aggregate_of(node: ex.Call) -> type[base.Aggregate] | None:
    """The function over members that a call means: one argument, with a family in it that no inner one takes."""
    function = base.aggregates().get(node.function)
    if function is None or len(node.arguments) != 1 or node.arguments[0].keyword is not None:
        return None
    has_family = next(families(node.arguments[0].value), None) is not None
    return function if has_family or node.function not in base.registry() else None


def families(node: ex.Node) -> Iterator[ex.Family]:
    """The families in an expression, leaving out those that a function over members inside it takes."""
    if isinstance(node, ex.Family):
        yield node
        return
    if isinstance(node, ex.Call):
        if node.function == "share" or (node.function in base.aggregates() and aggregate_of(node) is not None):
            return
    for child in node.children():
        yield from families(child)


def written_for(given: int) -> list[str]:
    """Made-up arguments behind those that are given."""
    return ["loss", "100 steps", "3"][given:]


def stars(path: str) -> int:
    """How many places of a family's path stand for something."""
    return path.count("*") + path.count("{")


class Calls:
    """Holds calls to the signatures of their functions."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.scope = kinds.scope
        self.report = kinds.report

    def call(self, node: ex.Call, where: Where) -> None:
        """Check a call and all that stands in it."""
        aggregate = aggregate_of(node)
        if aggregate is not None:
            self._over_members(node, aggregate, where)
            return
        function = base.registry().get(node.function)
        if function is None:
            self._unknown(node)
            for argument in node.arguments:
                self.kinds.any_kind(argument.value, where._replace(subject=None))
            return
        pairs = self._pairs(node, function, where)
        if pairs is None:
            return
        before = len(self.kinds.found)
        for parameter, argument in pairs:
            self._argument(node, parameter, argument, where)
        self._freezing(node, function, where)
        self.kinds.units.alike(node, where.member)
        if len(self.kinds.found) == before:
            self._fixed(node, function, pairs)

    def _unknown(self, node: ex.Call) -> None:
        known = [*base.registry(), *base.aggregates()]
        meant = _MEANT.get(node.function.lower())
        near = [meant] if meant else difflib.get_close_matches(node.function, known, 1, 0.7)
        written = _WRITTEN.get(node.function.lower())
        help_ = "`vitals functions` lists them"
        if written is not None:
            given = [expression_text(a.value) for a in node.arguments]
            help_ = f"write `{written.format(*given, *written_for(len(given)))}`"
        elif near:
            function = base.registry().get(near[0]) or base.aggregates().get(near[0])
            help_ = f"did you mean `{function.signature() if function is not None else near[0]}`?"
        self.report("V040", f"there is no function `{node.function}`", node.span, "unknown function", help_)

    def _over_members(self, node: ex.Call, function: type[base.Aggregate], where: Where) -> None:
        inner = node.arguments[0].value
        first = next(families(inner), None)
        if first is None:
            self.report("V043", f"`{node.function}(…)` is about a family, and there is none in it", node.span,
                        "over what members?", f"write `{node.function}(act/layer_* …)`")  # fmt: skip
            return
        inside = where._replace(family=first.path, subject=None)
        if function.result is Kind.CONDITION or function.name == "count":
            self.kinds.condition(inner, inside, top=True)
        else:
            self.kinds.number(inner, inside)

    # ---------------------------------------------------------------- which argument is which

    def _pairs(self, node: ex.Call, function: type[base.Function], where: Where) -> list[Pair] | None:
        """Each argument with the place that it takes; None where they do not fit."""
        places = list(function.positional())
        given = [a for a in node.arguments if a.keyword is None]
        signature = f"it is written `{function.signature()}`"
        if function.implicit_subject and len(given) == len(places) - 1:
            if where.subject is None:
                self.report("V042", f"`{node.function}` of what? It does not stand beside one bare metric", node.span,
                            "the metric is missing", signature)  # fmt: skip
            places = places[1:]
        needed = [p for p in places if p.required]
        too_many = len(given) > len(places) and not (places and places[-1].many)
        if len(given) < len(needed) or too_many:
            if any(a.keyword is not None and a.keyword not in function.keywords() for a in node.arguments):
                self._by_keyword(node, function, [], signature)
                return None
            much = "many" if too_many else "few"
            since_start = _SINCE_START.get(node.function)
            if since_start is not None and len(given) == 1:
                signature += f"; since the start of the run: `{since_start}({expression_text(given[0].value)})`"
            message = f"too {much} arguments for `{node.function}`"
            self.report("V041", message, node.span, f"{len(given)} given", signature)
            return None
        pairs = list(zip(places + places[-1:] * (len(given) - len(places)), given))
        return self._by_keyword(node, function, pairs, signature)

    def _by_keyword(
        self, node: ex.Call, function: type[base.Function], pairs: list[Pair], signature: str
    ) -> list[Pair] | None:
        keywords = function.keywords()
        seen: set[str] = set()
        fits = True
        for argument in node.arguments:
            word = argument.keyword
            if word is None:
                continue
            if word in keywords and word not in seen:
                seen.add(word)
                pairs.append((keywords[word], argument))
                continue
            fits = False
            if word in seen:
                self.report("V041", f"`{word}:` is given twice", argument.span, "a second time", "keep one")
            elif any(p.name == word for p in function.positional()):
                self.report("V041", f"`{word}` is given without its name", argument.span, "no `:` here", signature)
            else:
                near = difflib.get_close_matches(word, keywords, 1)
                help_ = f"did you mean `{near[0]}:`?" if near else signature
                self.report("V041", f"`{node.function}` has no `{word}:`", argument.span, "unknown", help_)
        for name, parameter in keywords.items():
            if parameter.required and name not in seen:
                fits = False
                self.report("V041", f"`{node.function}` needs `{name}:`", node.span, "it is missing", signature)
        return pairs if fits else None

    # ---------------------------------------------------------------- what each takes

    def _argument(self, node: ex.Call, parameter: base.Parameter, argument: ex.Argument, where: Where) -> None:
        value, inside = argument.value, where._replace(subject=None)
        takes = parameter.takes
        if node.function == "share":
            self._whole_family(argument)
        elif takes is Takes.STREAM:
            self._stream(node, value, inside)
        elif takes is Takes.OPERAND:
            self.kinds.number(value, inside)
        elif takes in (Takes.CONDITION, Takes.FREEZING):
            self.kinds.condition(value, inside, top=True)
        elif takes is Takes.EVENT:
            self.kinds.event(value, inside, f"{node.function}(…)")
        elif takes is Takes.EXTENT and node.function in _OF_VALUES and self._is_metric(value, where):
            text = ", ".join(expression_text(a.value) for a in node.arguments)
            self.report("V041", f"`{node.function}` takes one metric and a window", value.span, "a metric",
                        f"of several values: `{_OF_VALUES[node.function]}({text})`")  # fmt: skip
        elif takes is Takes.EXTENT or (takes is Takes.ORIGIN and not self._names_event(value)):
            first = parameter.units[0]
            shown = f"{node.function}(…, {parameter.written().strip('[]')})"
            self.kinds.units.length(value, shown, parameter.units, bare=first if first in (STEPS, SAMPLES) else "")
        elif takes is Takes.NUMBER:
            self._number(node, parameter, value, inside)
        elif takes is Takes.WORD and (not isinstance(value, ex.Name) or value.path not in parameter.words):
            self.report("V041", f"`{parameter.name}:` takes a word, not `{expression_text(value)}`", value.span,
                        " or ".join(parameter.words), f"write `{parameter.name}: {parameter.words[-1]}`")  # fmt: skip

    def _stream(self, node: ex.Call, value: ex.Expression, where: Where) -> None:
        function = base.registry()[node.function]
        if isinstance(value, ex.Length) or (isinstance(value, ex.Name) and self.kinds.is_length_param(value)):
            self.report("V003", f"`{expression_text(value)}` is a length, not a metric", value.span, "of what?",
                        f"`{node.function}` is written `{function.signature()}`")  # fmt: skip
        elif where.family is None and isinstance(value, ex.Family):
            over = "any" if function.result is Kind.CONDITION else "max"
            self.report("V043", f"`{value.path}` is many metrics, not one", value.span, "a family",
                        f"write `{over}({expression_text(node)})`, which takes it member by member, "
                        f"or a rule with `each m in {value.path}`")  # fmt: skip
        else:
            self.kinds.number(value, where)

    def _number(self, node: ex.Call, parameter: base.Parameter, value: ex.Expression, where: Where) -> None:
        before = len(self.kinds.found)
        self.kinds.number(value, where)
        if len(self.kinds.found) == before and not is_constant(value, self.scope):
            self.report("V041", f"`{parameter.name}` of `{node.function}` is fixed when the policy is loaded",
                        value.span, "this changes with the run", "write a number or a param")  # fmt: skip

    def _whole_family(self, argument: ex.Argument) -> None:
        if not isinstance(argument.value, ex.Family):
            self.report("V043", "`share` is about two families", argument.value.span, "not a family",
                        "it is written `share(dropped/*, of: tokens/*)`")  # fmt: skip

    def _is_metric(self, node: ex.Expression, where: Where) -> bool:
        return isinstance(node, ex.Name) and self.scope.meaning(node, where.member) in (Meaning.METRIC, Meaning.LET)

    def _names_event(self, node: ex.Expression) -> bool:
        return isinstance(node, ex.Name) and (
            node.path in self.kinds.broken or self.scope.meaning(node) in (Meaning.EVENT, Meaning.PHASE)
        )

    def _freezing(self, node: ex.Call, function: type[base.Function], where: Where) -> None:
        """In a let there is no condition that could freeze a reference: it has to be named."""
        freezes = next((p.name for p in function.parameters if p.takes is Takes.FREEZING), None)
        if freezes is None or where.owner != "let" or any(a.keyword == freezes for a in node.arguments):
            return
        written = f"{expression_text(node)[:-1]}, {freezes}: EVENT)"
        self.report("V044", f"in a let, `{node.function}` must say what freezes it", node.span, f"no `{freezes}:`",
                    f"write `{written}`, or use it in the rule itself, whose `when` then freezes it")  # fmt: skip

    def _fixed(self, node: ex.Call, function: type[base.Function], pairs: list[Pair]) -> None:
        """What the function itself says of arguments that are of the right kinds."""
        fixed: dict[str, Any] = {p.name: p.default for p in function.parameters if p.default is not None}
        for parameter, argument in pairs:
            value = argument.value
            if parameter.takes is Takes.ORIGIN and self._names_event(value):
                fixed[parameter.name] = "event"
            elif parameter.takes in (Takes.EXTENT, Takes.ORIGIN):
                unit = self.kinds.units.of_length(value) or parameter.units[0]
                fixed[parameter.name] = Extent(self.kinds.units.size_of(value), unit)
            elif parameter.takes is Takes.WORD and isinstance(value, ex.Name):
                fixed[parameter.name] = value.path
            elif parameter.takes is Takes.NUMBER:
                number = constant(value, self.scope)
                if number is None:
                    return
                fixed[parameter.name] = number
        wrong = function.check(fixed)
        if wrong is not None:
            self.report("V041", f"`{expression_text(node)}` makes no sense", node.span, "its arguments", wrong)


def constant(node: ex.Expression, scope: Scope) -> float | None:
    """The number that an expression of numbers and params comes to; None where it is none, or has no value."""
    if isinstance(node, ex.Number):
        return node.value
    if isinstance(node, ex.Name) and not node.quoted and node.path in scope.params:
        value = scope.params[node.path].value
        return value.value if isinstance(value, ex.Number) else None
    if isinstance(node, ex.Negative):
        inner = constant(node.operand, scope)
        return -inner if inner is not None else None
    if not isinstance(node, ex.Arithmetic):
        return None
    return worked_out(node, [constant(operand, scope) for operand in node.operands])


def worked_out(node: ex.Arithmetic, values: Sequence[float | None]) -> float | None:
    """What a sum or a product comes to where its operands have these values; None where one has none."""
    total = values[0]
    for operator, value in zip(node.operators, values[1:]):
        if total is None or value is None or (operator == "/" and value == 0):
            return None
        results = {"+": total + value, "-": total - value, "*": total * value}
        total = results[operator] if operator in results else total / value
    return total
