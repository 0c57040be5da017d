"""From the parser's tree to the frozen objects of rules.py and expressions.py, each with its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from lark import Token
from lark.visitors import Transformer_NonRecursive

from vitalsdsl import expressions as ex
from vitalsdsl import rules
from vitalsdsl.diagnostic import Diagnostic, Severity
from vitalsdsl.rules import Level
from vitalsdsl.source import Source, Span

Children: TypeAlias = "list[Any]"
ParseExpression: TypeAlias = "Callable[[str, Span], ex.Expression | None]"

_SUFFIX = {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_MAX_FIELDS = 32


class Part(NamedTuple):
    """One field of a rule or metric on its way into it."""

    field: str
    value: Any
    span: Span


class Locator:
    """Where the characters of a parsed text stand in the file: for YAML they are not the same positions."""

    def __init__(self, source: Source, positions: Sequence[int] | None = None) -> None:
        self.source = source
        self.positions = positions

    def span(self, start: int, end: int) -> Span:
        if self.positions is None:
            return Span(self.source, start, end)
        last = self.positions[end - 1] + 1 if end > start else self.positions[start]
        return Span(self.source, self.positions[start], last)


class Builder(Transformer_NonRecursive[Token, Any]):
    """One use each: holds the place of the text and the findings met while building.

    Each method is named after a rule of grammar.lark and takes what stands under it, words included.
    """

    def __init__(self, locator: Locator, parse_field: ParseExpression) -> None:
        super().__init__(visit_tokens=False)
        self.locator = locator
        self.parse_field = parse_field
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
        start, end = token.start_pos, token.end_pos
        return self.locator.span(start or 0, end or 0)

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
        return str(token)[1:-1]

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
        return inner.__class__.model_construct(**fields)

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

    # ---------------------------------------------------------------- rules

    def clause(self, children: Children) -> rules.Clause:
        parts = self._options(children, {"FOR": "for_", "ON": "on"})
        rungs = tuple(c for c in children if isinstance(c, rules.Rung))
        return rules.Clause.build(self._span(children), condition=children[1], rungs=rungs, **parts)

    def rung(self, children: Children) -> rules.Rung:
        actions = tuple(c for c in children if isinstance(c, rules.Action)) or None
        after = self._options(children, {"AFTER": "after"})
        level = Level.parse(str(children[1]))
        if level is Level.GREEN:
            self._error("V012", "a rung cannot lead to green", self._token_span(children[1]), "yellow, orange or red")
        return rules.Rung.build(self._span(children), level=level, actions=actions, **after)

    def action(self, children: Children) -> rules.Action:
        arguments = tuple(c for c in children if isinstance(c, rules.ActionArgument))
        return rules.Action.build(self._span(children), name=str(children[0]), arguments=arguments)

    def action_argument(self, children: Children) -> rules.ActionArgument:
        keyword = str(children[0]) if len(children) == 3 else None
        value = children[-1]
        if value.__class__ is Token:
            span = self._token_span(value)
            if value.type == "STRING":
                value = rules.ActionText.build(span, text=self._text(value))
            else:
                value = ex.Name.build(span, path=str(value))
        return rules.ActionArgument.build(self._span(children), value=value, keyword=keyword)

    def clear_when(self, children: Children) -> rules.Clear:
        parts = self._options(children[3:], {"FOR": "for_"})
        return rules.Clear.build(self._span(children), condition=children[2], **parts)

    def clear_for(self, children: Children) -> rules.Clear:
        return rules.Clear.build(self._span(children), for_=children[2])

    def _part(self, field: str, children: Children, value: Any) -> Part:
        return Part(field, value, self._span(children))

    def cooldown(self, children: Children) -> Part:
        return self._part("cooldown", children, children[1])

    def inhibits(self, children: Children) -> Part:
        return self._part("inhibits", children, tuple(c for c in children if isinstance(c, ex.Name)))

    def unknown(self, children: Children) -> Part:
        return self._part("unknown", children, str(children[1]))

    def because(self, children: Children) -> Part:
        return self._part("because", children, self._template(children[1]))

    def try_(self, children: Children) -> Part:
        texts = tuple(self._text(c) for c in children if c.__class__ is Token and c.type == "STRING")
        return self._part("try_", children, texts)

    def owner(self, children: Children) -> Part:
        return self._part("owner", children, self._text(children[1]))

    def runbook(self, children: Children) -> Part:
        return self._part("runbook", children, self._text(children[1]))

    def shadow(self, children: Children) -> Part:
        return self._part("shadow", children, True)

    def disabled(self, children: Children) -> Part:
        return self._part("disabled", children, True)

    def _template(self, token: Token) -> rules.Template:
        span = self._token_span(token)
        return self.template(self._text(token), Span(span.source, span.start + 1, span.end - 1))

    def template(self, text: str, span: Span) -> rules.Template:
        """`grad_norm is {grad_norm:.2f}`: `{{` and `}}` stand for braces."""
        parts: list[str | rules.TemplateField] = []
        words, at = "", 0
        fields = 0
        while at < len(text) and fields <= _MAX_FIELDS:
            char = text[at]
            if text[at : at + 2] in ("{{", "}}"):
                words += char
                at += 2
            elif char == "{":
                end = text.find("}", at)
                inside = text[at + 1 : end] if end >= 0 else text[at + 1 :]
                place = Span(span.source, span.start + at, span.start + (end + 1 if end >= 0 else len(text)))
                field = self._template_field(inside, place, closed=end >= 0)
                fields += 1
                if field is not None:
                    parts += [words, field] if words else [field]
                    words = ""
                at = end + 1 if end >= 0 else len(text)
            else:
                words += char
                at += 1
        if words:
            parts.append(words)
        if fields > _MAX_FIELDS:
            self._error("V010", f"a message can hold {_MAX_FIELDS} values", span, "too many")
        return rules.Template.build(span, text=text, parts=tuple(parts))

    def _template_field(self, inside: str, place: Span, closed: bool) -> rules.TemplateField | None:
        if not closed:
            self._error("V013", "a `{` in a message is not closed", place, "for a brace itself write `{{`")
            return None
        text, colon, form = inside, "", ""
        cut = inside.rfind(":")
        if cut >= 0 and inside.count("(", 0, cut) == inside.count(")", 0, cut):
            text, colon, form = inside[:cut], ":", inside[cut + 1 :]
        if not text.strip():
            self._error("V013", "nothing stands between these braces", place, "for a brace itself write `{{`")
            return None
        try:
            format(1.0, form)
        except ValueError:
            self._error("V013", f"`{colon}{form}` is no way to write a number", place, "try `:.2f`, `:.3g` or `:.1%`")
            return None
        if len(form) > 12:
            self._error("V013", f"`{colon}{form}` is no way to write a number", place, "at most 12 characters")
            return None
        start = place.start + 1
        expression = self.parse_field(text, Span(place.source, start, start + len(text)))
        if expression is None:
            return None
        return rules.TemplateField.build(place, expression=expression, format=form)

    def _body(self, children: Children, span: Span) -> rules.RuleBody:
        clauses = tuple(c for c in children if isinstance(c, rules.Clause))
        fields: dict[str, Any] = {}
        for child in children:
            if isinstance(child, rules.Clear):
                field, value, place = "clear", child, child.span
            elif isinstance(child, Part):
                field, value, place = child
            else:
                continue
            if field in fields:
                self._error("V014", f"`{field.rstrip('_')}` is said twice in one rule", place, "keep one of them")
            fields[field] = value
        return rules.RuleBody.build(span, clauses=clauses, **fields)

    def in_phase(self, children: Children) -> Part:
        names = tuple(self._name(c, "phase") for c in children if c.type == "NAME")
        return self._part("phases", children, names)

    def each(self, children: Children) -> rules.Each:
        member = self._defined(children[1], "member")
        return rules.Each.build(self._span(children), member=member, family=self.family(children[3:]))

    def rule(self, children: Children) -> rules.Rule:
        span = self._span(children)
        brace = next(i for i, c in enumerate(children) if c.__class__ is Token and c.type == "LBRACE")
        head, parts = children[:brace], children[brace + 1 : -1]
        title = next((self._text(c) for c in head[2:] if c.__class__ is Token and c.type == "STRING"), None)
        each = next((c for c in head if isinstance(c, rules.Each)), None)
        phases = tuple(name for c in head if isinstance(c, Part) for name in c.value)
        body = self._body(parts, span)
        name = self._defined(children[1], "rule")
        return rules.Rule.build(span, name=name, title=title, phases=phases, each=each, body=body)

    def oneliner(self, children: Children) -> rules.Rule:
        span = self._span(children)
        body = rules.RuleBody.build(span, clauses=(children[0],))
        return rules.Rule.build(span, name="", body=body, written=False)

    # ---------------------------------------------------------------- other statements

    def header(self, children: Children) -> int:
        version = self._number(children[1])
        if version.value != 1:
            self._error("V015", f"no version {version.text} of the language", version.span, "this is version 1")
        return 1

    def policy(self, children: Children) -> Part:
        title = self._text(children[2]) if len(children) > 2 else None
        return Part(self._defined(children[1], "policy"), title, self._span(children))

    def use(self, children: Children) -> rules.Use:
        namespace = None
        for word, following in zip(children, children[1:]):
            if word.__class__ is Token and word.type == "AS":
                namespace = self._defined(following, "rules")
        values = tuple(c for c in children if isinstance(c, rules.Setting))
        reference = self._text(children[1])
        return rules.Use.build(self._span(children), reference=reference, namespace=namespace, values=values)

    def axis(self, children: Children) -> rules.Axis:
        return rules.Axis.build(self._span(children), metric=self._text(children[1]))

    def metric(self, children: Children) -> rules.Metric:
        head = children[1]
        family = head.__class__ is Token
        name = str(head) if family else head.path
        logged = tuple(self._text(c) for c in children if c.__class__ is Token and c.type == "STRING")
        fields: dict[str, Any] = {}
        for child in children:
            if isinstance(child, Part):
                field, value, place = child
                if field in fields:
                    self._error("V014", f"`{field.replace('_', ' ')}` is said twice", place, "keep one of them")
                fields[field] = value
        span = self._span(children)
        return rules.Metric.build(span, name=name, logged=logged, family=family, **fields)

    def every(self, children: Children) -> Part:
        return self._part("every", children, children[1])

    def reduce(self, children: Children) -> Part:
        word = str(children[1])
        if word not in {"last", "mean", "max", "min"}:
            self._error("V016", f"no way to reduce called `{word}`", self._span(children), "last, mean, max or min")
            word = "last"
        return self._part("reduce", children, word)

    def unit(self, children: Children) -> Part:
        return self._part("unit", children, self._text(children[1]))

    def optional(self, children: Children) -> Part:
        return self._part("optional", children, True)

    def stale_after(self, children: Children) -> Part:
        return self._part("stale_after", children, children[2])

    def allow_nonfinite(self, children: Children) -> Part:
        return self._part("allow_nonfinite", children, True)

    def param(self, children: Children) -> rules.Param:
        values = [c for c in children if isinstance(c, ex.Expression)]
        bounds = {"low": values[1], "high": values[2]} if len(values) == 3 else {}
        name = self._defined(children[1], "param")
        return rules.Param.build(self._span(children), name=name, value=values[0], **bounds)

    def let(self, children: Children) -> rules.Let:
        family = children[1].type == "FAMILY"
        name = str(children[1]) if family else self._defined(children[1], "let")
        on = children[5] if len(children) > 4 else None
        return rules.Let.build(self._span(children), name=name, expression=children[3], on=on, family=family)

    def event(self, children: Children) -> rules.Event:
        parts = self._options(children[4:], {"FOR": "for_", "APART": "apart"})
        name = self._defined(children[1], "event")
        return rules.Event.build(self._span(children), name=name, condition=children[3], **parts)

    def phase(self, children: Children) -> rules.Phase:
        name = self._defined(children[1], "phase")
        return rules.Phase.build(self._span(children), name=name, condition=children[3])

    def level_default(self, children: Children) -> rules.LevelDefault:
        actions = tuple(c for c in children if isinstance(c, rules.Action))
        return rules.LevelDefault.build(self._span(children), level=Level.parse(str(children[1])), actions=actions)

    def limit(self, children: Children) -> rules.Limit:
        count = self._number(children[2])
        if not count.value.is_integer():
            self._error("V011", f"a limit of {count.text}", count.span, "a whole number")
        return rules.Limit.build(
            self._span(children), action=str(children[1]), count=int(min(count.value, 1e9)), per=children[4]
        )

    def nonfinite(self, children: Children) -> rules.Nonfinite:
        rung = children[1]
        if not isinstance(rung, rules.Rung):
            return rules.Nonfinite.build(self._span(children), level=None)
        if rung.after is not None:
            self._error("V017", "the non-finite guard acts at once", rung.after.span, "no `after` here")
        return rules.Nonfinite.build(self._span(children), level=rung.level, actions=rung.actions)

    def profile(self, children: Children) -> rules.Profile:
        settings = tuple(c for c in children if isinstance(c, rules.Setting))
        name = self._defined(children[1], "profile")
        return rules.Profile.build(self._span(children), name=name, settings=settings)

    def setting(self, children: Children) -> rules.Setting:
        return rules.Setting.build(self._span(children), name=str(children[0]), value=children[2])

    def override(self, children: Children) -> rules.Override:
        body = self._body(children[3:-1], self._span(children))
        return rules.Override.build(self._span(children), rule=children[1], body=body)

    def disable(self, children: Children) -> rules.Disable:
        until = self._text(children[5]) if len(children) > 4 else None
        because = self._text(children[3])
        return rules.Disable.build(self._span(children), rule=children[1], because=because, until=until)

    def start(self, children: Children) -> list[Any]:
        return children

    @staticmethod
    def _options(children: Children, words: dict[str, str]) -> dict[str, Any]:
        """What follows each of these words."""
        return {
            words[word.type]: following
            for word, following in zip(children, children[1:])
            if word.__class__ is Token and word.type in words
        }


RESERVED = frozenset(
    "vitals policy use as with axis metric every reduce unit optional stale after allow nonfinite param let on event"
    " apart phase level limit per rule in each when clear for cooldown inhibits unknown because try owner runbook"
    " shadow disabled override disable until profile do of within then no or and not is missing stalled before at"
    " step end off hold reset nan inf finite".split()
) - {"step", "end", "level", "unit", "per", "hold", "reset", "off", "policy", "use", "owner", "param"}
"""Words that cannot be bare metric names, since a sentence with them would read otherwise."""
