"""From what is read to the frozen objects of rules.py, each with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from vitalsdsl.ground.quoting import QUOTED, places
from vitalsdsl.ground.source import Locator, Span
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.expression_builder import Children, ExpressionBuilder
from vitalsdsl.language.rules import Level
from vitalsdsl.language.tokens import Token

ParseExpression: TypeAlias = "Callable[[str, Span], ex.Expression | None]"

_MAX_FIELDS = 32
_FIELD = re.compile(rf'\{{(?:{QUOTED}|[^"}}])*\}}')
_NO_VALUES = {
    "rule": "the rule's name is in every alert already: leave it out",
    "metric": "name the metric itself, such as `{loss}`",
}
"""What people write between the braces of a message, and no expression is."""


class Part(NamedTuple):
    """One field of a rule or metric on its way into it."""

    field: str
    value: Any
    span: Span


class Builder(ExpressionBuilder):
    """Builds statements too; `parse_field` reads the expressions in messages."""

    def __init__(self, locator: Locator, parse_field: ParseExpression) -> None:
        super().__init__(locator)
        self.parse_field = parse_field

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
        inside = Span(span.source, span.start + 1, span.end - 1)
        text = self._text(token)
        return self.template(text, inside, places(str(token), span.start) if len(text) < len(str(token)) - 2 else None)

    def template(self, text: str, span: Span, written: Sequence[int] | None = None) -> rules.Template:
        """`grad_norm is {grad_norm:.2f}`: `{{` and `}}` stand for braces. `written` is where each character stands, if they
        do not stand one behind the other from the beginning of the span on."""
        written = written if written is not None else range(span.start, span.start + len(text) + 1)
        parts: list[str | rules.TemplateField] = []
        words, at = "", 0
        fields = 0
        while at < len(text) and fields <= _MAX_FIELDS:
            char = text[at]
            if text[at : at + 2] in ("{{", "}}"):
                words += char
                at += 2
            elif char == "{":
                end = _end_of_field(text, at)
                inside = text[at + 1 : end] if end >= 0 else text[at + 1 :]
                place = Span(span.source, written[at], written[end + 1 if end >= 0 else len(text)])
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
        if text.strip() in _NO_VALUES:
            word = text.strip()
            self._error("V006", f"`{word}` is a word of the language", place, "reserved", _NO_VALUES[word])
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


def _end_of_field(text: str, at: int) -> int:
    """Where the brace that opens at a place is closed; -1 where it is not. One in the quotes of a name closes nothing."""
    found = _FIELD.match(text, at)
    return found.end() - 1 if found is not None else text.find("}", at)
