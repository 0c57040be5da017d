"""The one way in which a piece of a policy is written: unit spelled out, spaces round operators, no idle brackets.

The text of an expression says all that it means, so that equal texts are equal conditions wherever names mean the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, ClassVar

from vitalsdsl.ground.quoting import quoted as quoted_text
from vitalsdsl.ground.words import RESERVED
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.ops.base import Function, Parameter, Takes, registry

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[./][A-Za-z0-9_]+)*")
_COUNTED = ("steps", "samples", "epochs", "tokens")

# How tightly a piece holds together, loosest first: what stands under an operator is at least as tight as it asks.
_THEN, _OR, _AND, _NOT, _PREDICATE, _SUM, _PRODUCT, _SHIFT, _UNARY, _ATOM = range(10)


def expression_text(node: ex.Node) -> str:
    """How an expression, a length or a span is written. What it stands in, and its own outer parentheses, are left out.
    However often it is asked for, the text stands in memory once: each run that is watched has all those of its policy.

    >>> from vitalsdsl.language.parser import parse_expression
    >>> from vitalsdsl.ground.source import Locator, Source
    >>> text = "(grad_norm>3*(mean(grad_norm,500)-(1)))"
    >>> node, _ = parse_expression(text, Locator(Source("a.vitals", text)))
    >>> expression_text(node)
    'grad_norm > 3 * (mean(grad_norm, 500 steps) - 1)'
    """
    return sys.intern(AS_WRITTEN.text(node))


def name_text(path: str, quoted: bool = False) -> str:
    """A name, in quotes where it was, or where it could not be read without them."""
    if quoted or path in RESERVED or _BARE.fullmatch(path) is None:
        return quoted_text(path)
    return path


class Wording:
    """How pieces are written: for people, or (`by_value`) so that only their meaning is left.

    By value, `20k` and `20000` are one number, and parentheses that only help the eye are gone.
    """

    _forms: ClassVar[dict[type[ex.Node], Callable[[Wording, Any], tuple[str, int]]]] = {}

    def __init__(self, by_value: bool = False) -> None:
        self.by_value = by_value

    def text(self, node: ex.Node) -> str:
        """A node by itself."""
        return self._form(node)[0]

    def _form(self, node: ex.Node) -> tuple[str, int]:
        return self._forms[type(node)](self, node)

    def _at(self, node: ex.Node, tightness: int) -> str:
        """A node under an operator that asks for this tightness."""
        text, own = self._form(node)
        return text if own >= tightness else f"({text})"

    # ---------------------------------------------------------------- numbers and names

    def number(self, node: ex.Number) -> tuple[str, int]:
        text = node.text
        if self.by_value:
            value = float(text.rstrip("%").replace("--", "")) if node.ratio else node.value
            text = repr(value).removesuffix(".0") + ("%" if node.ratio else "")
        elif text.startswith("--"):
            digits = text.lstrip("-")
            text = "-" * ((len(text) - len(digits)) % 2) + digits
        return text, _UNARY if text.startswith("-") else _ATOM

    def length(self, node: ex.Length) -> tuple[str, int]:
        return f"{self.number(node.amount)[0]} {node.unit}", _ATOM

    def name(self, node: ex.Name) -> tuple[str, int]:
        return name_text(node.path, node.quoted), _ATOM

    def family(self, node: ex.Family) -> tuple[str, int]:
        return node.path, _ATOM

    # ---------------------------------------------------------------- arithmetic

    def negative(self, node: ex.Negative) -> tuple[str, int]:
        inner, own = self._form(node.operand)
        return f"-{inner}" if own >= _ATOM else f"-({inner})", _UNARY

    def arithmetic(self, node: ex.Arithmetic) -> tuple[str, int]:
        own = _SUM if node.operator in "+-" else _PRODUCT
        text = self._term(node.operands[0], own)
        rest = zip(node.operators, node.operands[1:])
        return text + "".join(f" {operator} {self._term(operand, own + 1)}" for operator, operand in rest), own

    def _term(self, node: ex.Expression, tightness: int) -> str:
        kept = node.grouped and not self.by_value and isinstance(node, (ex.Before, ex.AtStep, ex.AtEvent, ex.AtEnd))
        return self._at(node, _ATOM if kept else tightness)

    def before(self, node: ex.Before) -> tuple[str, int]:
        return f"{self._at(node.operand, _SHIFT)} before {self.text(node.shift)}", _SHIFT

    def at_step(self, node: ex.AtStep) -> tuple[str, int]:
        return f"{self._at(node.operand, _SHIFT)} at step {self.text(node.step)}", _SHIFT

    def at_event(self, node: ex.AtEvent) -> tuple[str, int]:
        return f"{self._at(node.operand, _SHIFT)} at {self.text(node.event)}", _SHIFT

    def at_end(self, node: ex.AtEnd) -> tuple[str, int]:
        return f"{self._at(node.operand, _SHIFT)} at end of {self.text(node.phase)}", _SHIFT

    # ---------------------------------------------------------------- conditions

    def comparison(self, node: ex.Comparison) -> tuple[str, int]:
        operands = [self._at(operand, _SUM) for operand in node.operands]
        rest = (f" {operator} {operand}" for operator, operand in zip(node.operators, operands[1:]))
        return operands[0] + "".join(rest), _PREDICATE

    def is_(self, node: ex.Is) -> tuple[str, int]:
        negation = "not " if node.negated else ""
        return f"{self._at(node.operand, _SUM)} is {negation}{node.state}", _PREDICATE

    def missing(self, node: ex.Missing) -> tuple[str, int]:
        return f"missing {self.text(node.target)} for {self.text(node.length)}", _PREDICATE

    def stalled(self, node: ex.Stalled) -> tuple[str, int]:
        return f"stalled for {self.text(node.length)}", _PREDICATE

    def not_(self, node: ex.Not) -> tuple[str, int]:
        inner, own = self._form(node.operand)
        # `not a > b` can be misread, so only what is one word, or another `not`, stands without parentheses.
        return f"not {inner}" if own in (_NOT, _ATOM) else f"not ({inner})", _NOT

    def and_(self, node: ex.And) -> tuple[str, int]:
        first, *rest = node.operands
        return " and ".join([self._at(first, _AND), *(self._at(part, _AND + 1) for part in rest)]), _AND

    def or_(self, node: ex.Or) -> tuple[str, int]:
        first, *rest = node.operands
        return " or ".join([self._alternative(first, _OR), *(self._alternative(part, _OR + 1) for part in rest)]), _OR

    def _alternative(self, node: ex.Expression, tightness: int) -> str:
        kept = node.grouped and not self.by_value and isinstance(node, ex.And)
        return self._at(node, _ATOM if kept else tightness)

    def at_least(self, node: ex.AtLeast) -> tuple[str, int]:
        return f"{node.count} of ({', '.join(map(self.text, node.conditions))})", _ATOM

    def then(self, node: ex.Then) -> tuple[str, int]:
        first, second = self._at(node.first, _OR), self._at(node.second, _OR)
        return f"{first} then {'no ' if node.absent else ''}{second} within {self.text(node.within)}", _THEN

    def held(self, node: ex.Held) -> tuple[str, int]:
        return f"({self._held(node)})", _ATOM

    def _held(self, node: ex.Held) -> str:
        return f"{self.text(node.condition)} for {self.text(node.span_)}"

    def for_(self, node: ex.For) -> tuple[str, int]:
        if node.k:
            return f"{node.k} of {node.n} samples", _ATOM
        return " and ".join(map(self.text, node.lengths)), _ATOM

    # ---------------------------------------------------------------- calls

    def call(self, node: ex.Call) -> tuple[str, int]:
        places = places_of(node, registry().get(node.function))
        texts = [self._argument(argument, place) for argument, place in zip(node.arguments, places)]
        return f"{node.function}({', '.join(texts)})", _ATOM

    def argument(self, node: ex.Argument) -> tuple[str, int]:
        return self._argument(node, None), _ATOM

    def _argument(self, node: ex.Argument, place: Parameter | None) -> str:
        value = node.value
        text = self._held(value) if isinstance(value, ex.Held) else self.text(value)
        unit = _understood_unit(value, place)
        return (f"{node.keyword}: " if node.keyword else "") + text + (f" {unit}" if unit else "")

    # ---------------------------------------------------------------- messages and actions

    def template(self, node: rules.Template) -> str:
        """The text between the quotes of `because`."""
        parts: list[str] = []
        for part in node.parts:
            if isinstance(part, rules.TemplateField):
                form = f":{part.format}" if part.format else ""
                parts.append("{" + self.text(part.expression) + form + "}")
            else:
                parts.append(part.replace("{", "{{").replace("}", "}}"))
        return "".join(parts)

    def action(self, node: rules.Action) -> str:
        """`rollback(lr: 90%, skip: 500 steps)`."""
        if not node.arguments:
            return node.name
        return f"{node.name}({', '.join(map(self.action_argument, node.arguments))})"

    def action_argument(self, node: rules.ActionArgument) -> str:
        value = node.value
        text = quoted_text(value.text) if isinstance(value, rules.ActionText) else self.text(value)
        return f"{node.keyword}: {text}" if node.keyword else text


def places_of(call: ex.Call, function: type[Function] | None) -> list[Parameter | None]:
    """What each argument of a call stands for; None where that is not known."""
    if function is None:
        return [None] * len(call.arguments)
    positional, keywords = function.positional(), function.keywords()
    given = sum(argument.keyword is None for argument in call.arguments)
    if function.implicit_subject and given < len(positional):
        positional = positional[1:]
    found: list[Parameter | None] = []
    at = 0
    for argument in call.arguments:
        if argument.keyword is not None:
            found.append(keywords.get(argument.keyword))
            continue
        repeated = bool(positional) and positional[-1].many
        place = positional[at] if at < len(positional) else positional[-1] if repeated else None
        found.append(place)
        at += 1
    return found


def _understood_unit(value: ex.Expression, place: Parameter | None) -> str | None:
    """The unit that a bare whole number has at a place where a length is expected."""
    if place is None or place.takes not in (Takes.EXTENT, Takes.ORIGIN) or not isinstance(value, ex.Number):
        return None
    whole = value.value >= 0 and value.value == value.value // 1 and not value.ratio
    unit = place.units[0] if place.units else ""
    return unit if whole and unit in _COUNTED else None


Wording._forms.update(
    {
        ex.Number: Wording.number,
        ex.Length: Wording.length,
        ex.Name: Wording.name,
        ex.Family: Wording.family,
        ex.Negative: Wording.negative,
        ex.Arithmetic: Wording.arithmetic,
        ex.Comparison: Wording.comparison,
        ex.Not: Wording.not_,
        ex.And: Wording.and_,
        ex.Or: Wording.or_,
        ex.Is: Wording.is_,
        ex.Missing: Wording.missing,
        ex.Stalled: Wording.stalled,
        ex.For: Wording.for_,
        ex.Held: Wording.held,
        ex.AtLeast: Wording.at_least,
        ex.Then: Wording.then,
        ex.Before: Wording.before,
        ex.AtStep: Wording.at_step,
        ex.AtEvent: Wording.at_event,
        ex.AtEnd: Wording.at_end,
        ex.Argument: Wording.argument,
        ex.Call: Wording.call,
    }
)

AS_WRITTEN = Wording()
BY_VALUE = Wording(by_value=True)
