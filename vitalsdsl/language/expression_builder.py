"""From what is read to the frozen objects of expressions.py, each with its place."""

from __future__ import annotations

from typing import Any, TypeAlias

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.quoting import unquoted
from vitalsdsl.ground.source import Locator, Span
from vitalsdsl.ground.words import RESERVED
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.tokens import Token

Children: TypeAlias = "list[Any]"

_SUFFIX = {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


class ExpressionBuilder:
    """One use each: holds the place of the text and the findings met while building.

    Each method is named after a rule of grammar.lark and takes what stands under it, words included.
    """

    def __init__(self, locator: Locator) -> None:
        self.locator = locator
        self.diagnostics: list[Diagnostic] = []

    # ---------------------------------------------------------------- places

    def _span(self, children: Children) -> Span:
        first, last = children[0], children[-1]
        start = self._token_span(first) if first.__class__ is Token else first.span
        if first is last:
            return start
        end = self._token_span(last) if last.__class__ is Token else last.span
        return Span(start.source, start.start, end.end)

    def _token_span(self, token: Token) -> Span:
        return self.locator.span(token.start_pos, token.end_pos)

    def _error(self, code: str, message: str, span: Span, label: str = "", *help_: str) -> None:
        self.diagnostics.append(Diagnostic(code, Severity.ERROR, message, span, label, help_))

    # ---------------------------------------------------------------- words and numbers

    def number(self, children: Children) -> ex.Number:
        return self._number(children[0])

    def _number(self, token: Token) -> ex.Number:
        text = str(token)
        value = float(text[:-1]) * _SUFFIX[text[-1]] if text[-1] in _SUFFIX else float(text)
        span = self._token_span(token)
        if value == float("inf"):
            self._error("V009", f"`{text}` is too large for a number", span, "over 1.8e308")
        return ex.Number.build(span, value=value, text=text)

    def percent(self, children: Children) -> ex.Number:
        text = str(children[0])
        return ex.Number.build(self._token_span(children[0]), value=float(text[:-1]) / 100, text=text, ratio=True)

    def length(self, children: Children) -> ex.Length:
        amount = self._number(children[0])
        unit = str(children[1])
        if unit in {"step", "sample", "epoch", "token"}:
            unit += "s"
        return ex.Length.build(self._span(children), amount=amount, unit=unit)

    def length_param(self, children: Children) -> ex.Name:
        return ex.Name.build(self._token_span(children[0]), path=str(children[0]))

    def target(self, children: Children) -> ex.Name:
        return self._target(children[0], f'as a metric name write `"{children[0]}"`')

    def rule_name(self, children: Children) -> ex.Name:
        return self._target(children[0], "no rule can be called so")

    def _target(self, token: Token, help_: str) -> ex.Name:
        quoted = token.type == "STRING"
        path = self._text(token) if quoted else str(token)
        if not quoted:
            self._refuse_reserved(token, help_)
        elif not path.strip():
            self._error("V010", "a name cannot be empty", self._token_span(token), "nothing between the quotes")
        return ex.Name.build(self._token_span(token), path=path, quoted=quoted)

    def family(self, children: Children) -> ex.Family:
        return ex.Family.build(self._token_span(children[0]), path=str(children[0]))

    def _text(self, token: Token) -> str:
        return unquoted(str(token))

    def _refuse_reserved(self, token: Token, help_: str) -> None:
        if str(token) in RESERVED:
            span = self._token_span(token)
            if str(token) in ("nan", "inf", "finite"):
                help_ = f"to ask whether a metric is so, write `loss is {token}`"
            self._error("V006", f"`{token}` is a word of the language", span, "reserved", help_)

    def _defined(self, token: Token, what: str) -> str:
        """The name that a statement defines: no quotes make a word of the language one."""
        self._refuse_reserved(token, f"choose another name, such as `{token}_{what}`")
        return str(token)

    # ---------------------------------------------------------------- expressions

    def negative(self, children: Children) -> ex.Expression:
        operand = children[1]
        if operand.__class__ is ex.Number and not operand.grouped:
            span = self._span(children)
            return ex.Number.build(span, value=-operand.value, text="-" + operand.text, ratio=operand.ratio)
        return ex.Negative.build(self._span(children), operand=operand)

    def arithmetic(self, children: Children) -> ex.Arithmetic:
        operators = tuple(str(c) for c in children[1::2])
        return ex.Arithmetic.build(self._span(children), operands=tuple(children[::2]), operators=operators)

    def comparison(self, children: Children) -> ex.Comparison:
        operators = tuple(str(c) for c in children[1::2])
        return ex.Comparison.build(self._span(children), operands=tuple(children[::2]), operators=operators)

    def not_(self, children: Children) -> ex.Not:
        return ex.Not.build(self._span(children), operand=children[1])

    def and_(self, children: Children) -> ex.And:
        return ex.And.build(self._span(children), operands=tuple(children[::2]))

    def or_(self, children: Children) -> ex.Or:
        return ex.Or.build(self._span(children), operands=tuple(children[::2]))

    def is_(self, children: Children) -> ex.Is:
        negated = len(children) == 4
        return ex.Is.build(self._span(children), operand=children[0], state=str(children[-1]), negated=negated)

    def missing(self, children: Children) -> ex.Missing:
        return ex.Missing.build(self._span(children), target=children[1], length=children[3])

    def stalled(self, children: Children) -> ex.Stalled:
        return ex.Stalled.build(self._span(children), length=children[2])

    def then(self, children: Children) -> ex.Then:
        return ex.Then.build(self._span(children), first=children[0], second=children[2], within=children[4])

    def then_no(self, children: Children) -> ex.Then:
        first, second, within = children[0], children[3], children[5]
        return ex.Then.build(self._span(children), first=first, second=second, within=within, absent=True)

    def before(self, children: Children) -> ex.Before:
        return ex.Before.build(self._span(children), operand=children[0], shift=children[2])

    def at_step(self, children: Children) -> ex.AtStep:
        return ex.AtStep.build(self._span(children), operand=children[0], step=self._number(children[3]))

    def _name(self, token: Token, what: str) -> ex.Name:
        self._refuse_reserved(token, f"no {what} can be called so")
        return ex.Name.build(self._token_span(token), path=str(token))

    def at_event(self, children: Children) -> ex.AtEvent:
        return ex.AtEvent.build(self._span(children), operand=children[0], event=self._name(children[2], "event"))

    def at_end(self, children: Children) -> ex.AtEnd:
        return ex.AtEnd.build(self._span(children), operand=children[0], phase=self._name(children[4], "phase"))

    def at_least(self, children: Children) -> ex.AtLeast:
        conditions = tuple(c for c in children[3:] if isinstance(c, ex.Expression))
        count = self._number(children[0])
        if not count.value.is_integer() or not 1 <= count.value <= len(conditions):
            have = len(conditions)
            self._error("V011", f"`{count.text} of` {have} conditions", count.span, f"a whole number from 1 to {have}")
        return ex.AtLeast.build(self._span(children), count=int(min(count.value, 1e9)), conditions=conditions)

    def grouped(self, children: Children) -> ex.Expression:
        inner: ex.Expression = children[1]
        fields = {**inner.__dict__, "grouped": True, "span": self._span(children)}
        return inner.__class__.build(**fields)

    def held(self, children: Children) -> ex.Held:
        return ex.Held.build(self._span(children), condition=children[1], span_=children[3])

    def call(self, children: Children) -> ex.Call:
        arguments = tuple(c for c in children[1:] if isinstance(c, ex.Argument))
        return ex.Call.build(self._span(children), function=str(children[0]), arguments=arguments)

    def argument(self, children: Children) -> ex.Argument:
        keyword = str(children[0]) if children[0].__class__ is Token else None
        return ex.Argument.build(self._span(children), value=children[-1], keyword=keyword)

    def held_argument(self, children: Children) -> ex.Argument:
        keyword = str(children[0]) if children[0].__class__ is Token else None
        condition, span = children[-3], children[-1]
        value = ex.Held.build(self._span(children[-3:]), condition=condition, span_=span)
        return ex.Argument.build(self._span(children), value=value, keyword=keyword)

    def span(self, children: Children) -> ex.For:
        lengths = tuple(c for c in children if isinstance(c, ex.Expression))
        return ex.For.build(self._span(children), lengths=lengths)

    def k_of_n(self, children: Children) -> ex.For:
        k, n = self._number(children[0]), self._number(children[2])
        span = self._span(children)
        if not k.value.is_integer() or not n.value.is_integer() or not 1 <= k.value <= n.value <= 100_000:
            self._error("V011", f"`{span.text}` can never hold", span, "k of n: 1 ≤ k ≤ n, whole numbers")
        return ex.For.build(span, k=int(min(k.value, 1e9)), n=int(min(n.value, 1e9)))
