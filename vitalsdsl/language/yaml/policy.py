"""The YAML form of a policy: the same statements as a `.vitals` file, for those who prefer it.

Expressions, lengths and spans are texts in the language itself; places inside them are places in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from vitalsdsl.ground.diagnostic import in_order
from vitalsdsl.ground.errors import PolicyError, VitalsError
from vitalsdsl.ground.quoting import QUOTED, unquoted
from vitalsdsl.ground.source import Source
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.digest import canonical
from vitalsdsl.language.parser import MAX_ERRORS, MAX_STATEMENTS, Parsed, refuse
from vitalsdsl.language.rules import LEVEL_WORDS, Level, Statement
from vitalsdsl.language.yaml import form
from vitalsdsl.language.yaml.rules import RulePieces, as_family
from vitalsdsl.language.yaml.tree import Mapping, Scalar, Sequence, Tree, Unreadable, read_tree
from vitalsdsl.language.yaml.writer import written


def parse_yaml(source: Source) -> Parsed:
    """Read a policy in its YAML form.

    >>> parsed = parse_yaml(Source("a.yaml", 'rules: [{if: "loss > 3", level: red}]'))
    >>> parsed.policy.statements[0].body.clauses[0].rungs[0].level.word
    'red'
    """
    empty = Parsed(rules.Policy.build(source.span(0, len(source.text)), source=source))
    refusal = refuse(source)
    if refusal is not None:
        return Parsed(rules.Policy.build(source.span(0, 0), source=source), (refusal,))
    try:
        tree = read_tree(source)
    except Unreadable as error:
        return Parsed(empty.policy, (error.finding,))
    if tree is None or (isinstance(tree, Scalar) and tree.is_empty):
        return empty
    return _Reading(source).run(tree)


def to_yaml(policy: Parsed | rules.Policy) -> str:
    """The YAML form of a policy, in one style; written again it is the same text.

    Each comment stands above the statement that it is about. The meaning is the same: the result is read again and
    compared. Raises `PolicyError` where the policy could not be read, and `VitalsError` if the meaning would change,
    which is a fault of ours.

    >>> from vitalsdsl.language.parser import parse
    >>> print(to_yaml(parse(Source("a.vitals", "param k = 3\\nwhen loss > k for 5 steps -> red"))), end="")
    vitals: 1
    <BLANKLINE>
    params:
      k: 3
    <BLANKLINE>
    rules:
      - {if: "loss > k", for: 5 steps, level: red}
    """
    if isinstance(policy, Parsed):
        if not policy.ok:
            raise PolicyError(policy.diagnostics)
        policy = policy.policy
    text = written(policy)
    again = parse_yaml(Source(policy.source.name, text))
    if not again.ok or canonical(again.policy) != canonical(policy):
        raise VitalsError(f"{policy.source.name} cannot be written as YAML without a change of its meaning")
    return text


class _Reading(RulePieces):
    """One pass over one tree."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.statements: list[Statement] = []
        self.broken: set[str] = set()
        self.names: dict[str, str | None] = {"policy": None, "title": None}

    def run(self, tree: Tree) -> Parsed:
        for word, (key, value) in self.fields(tree, form.TOP, "a policy").items():
            if word == "vitals":
                self._version(value)
            elif word == "policy":
                name = self.scalar(value, word)
                self.names[word] = self.defined(name, word) if name is not None else None
            elif word == "title":
                self.names[word] = self.text(value, word)
            elif word == "parts":
                self._parts(value)
            else:
                self._section(word, key, value)
        if self.names["title"] is not None and self.names["policy"] is None:
            self.error("V057", "a title needs the policy's name", tree.span.source.span(0, 1), "", "add `policy: NAME`")
        if len(self.statements) > MAX_STATEMENTS:
            message = f"{len(self.statements):,} statements; a policy has at most {MAX_STATEMENTS:,}"
            self.error("V030", message, self.statements[MAX_STATEMENTS].span, "split it and `use` the parts")
            self.statements = []
        place = self.source.span(0, len(self.source.text))
        policy = rules.Policy.build(
            place,
            source=self.source,
            name=self.names["policy"],
            title=self.names["title"],
            statements=tuple(self.statements),
        )
        return Parsed(policy, tuple(in_order(self.diagnostics)[:MAX_ERRORS]), frozenset(self.broken))

    def _version(self, tree: Tree) -> None:
        scalar = self.scalar(tree, "vitals")
        if scalar is not None and scalar.text not in ("1", "1.0"):
            self.error("V015", f"no version {scalar.text} of the language", scalar.span, "this is version 1")

    def _parts(self, tree: Tree) -> None:
        if not isinstance(tree, Sequence):
            self.error("V053", "`parts` is a list", tree.span, "", "begin each part with `- `")
            return
        for part in tree.items:
            for word, (key, value) in self.fields(part, form.STATEMENTS, "a part").items():
                self._section(word, key, value)

    def _section(self, word: str, key: Scalar, tree: Tree) -> None:
        if word == "rules":
            before = len(self.diagnostics)
            self.statements += self.listed_or_named(tree)
            if len(self.diagnostics) > before and isinstance(tree, Mapping):
                self.broken.update(name.text for name, value in tree.entries if self._hit(before, name, value))
        elif form.STATEMENTS[word].each:
            for name, value in self.named(tree, word):
                before = len(self.diagnostics)
                statement = _STATEMENTS[word](self, name, value)
                if statement is not None:
                    self.statements.append(statement)
                if any(d.is_error for d in self.diagnostics[before:]):
                    self.broken.add(name.text)
        else:
            for item in tree.items if isinstance(tree, Sequence) else [tree]:
                statement = _STATEMENTS[word](self, key, item)
                if statement is not None:
                    self.statements.append(statement)

    def _hit(self, before: int, name: Scalar, value: Tree) -> bool:
        return any(name.span.start <= d.span.start <= value.span.end for d in self.diagnostics[before:])

    # ---------------------------------------------------------------- statements

    def use(self, key: Scalar, tree: Tree) -> Statement | None:
        if isinstance(tree, Scalar):
            reference = self.text(tree, "use")
            return rules.Use.build(tree.span, reference=reference) if reference is not None else None
        fields = self.fields(tree, form.USE, "`use`")
        if not self._need(tree, fields, "from"):
            return None
        reference = self.text(fields["from"][1], "from")
        namespace = self.scalar(fields["as"][1], "as") if "as" in fields else None
        values = self.settings(fields["with"][1], "with") if "with" in fields else ()
        name = self.defined(namespace, "namespace") if namespace is not None else None
        return rules.Use.build(tree.span, reference=reference or "", namespace=name, values=values)

    def axis(self, key: Scalar, tree: Tree) -> Statement | None:
        metric = self.text(tree, "axis")
        return rules.Axis.build(tree.span, metric=metric) if metric is not None else None

    def metric(self, key: Scalar, tree: Tree) -> Statement | None:
        more: dict[str, Any] = {}
        names: Tree | None = tree
        if isinstance(tree, Mapping):
            fields = self.fields(tree, form.METRIC, "a metric")
            names = fields["names"][1] if self._need(tree, fields, "names") else None
            for word in ("every", "stale_after"):
                if word in fields:
                    more[word] = self.length(fields[word][1], word)
            for word in ("optional", "allow_nonfinite"):
                if word in fields:
                    more[word] = self.flag(fields[word][1], word)
            if "unit" in fields:
                more["unit"] = self.text(fields["unit"][1], "unit")
            if "reduce" in fields:
                more["reduce"] = self.choice(fields["reduce"][1], ("last", "mean", "max", "min"), "reduce") or "last"
        logged = self.texts(names, "names") if names is not None else ()
        name, family = self._metric_name(key)
        if not logged:
            return None
        return rules.Metric.build(key.span.to(tree.span), name=name, logged=logged, family=family, **more)

    def _metric_name(self, key: Scalar) -> tuple[str, bool]:
        """Any text names a metric; one with a star is a family, unless it stands in double quotes of its own."""
        inner = unquoted(key.text) if re.fullmatch(QUOTED, key.text) else key.text
        if not inner.strip() or "\n" in inner:
            self.error("V060", f"`{key.text}` is no name for a metric", key.span, "", "a name on one line")
        return inner, inner is key.text and as_family(key) is not None

    def param(self, key: Scalar, tree: Tree) -> Statement | None:
        if not isinstance(tree, Mapping):
            value, bounds = self.value(tree, key.text), {}
        else:
            fields = self.fields(tree, form.PARAM, "a param")
            value = self.value(fields["value"][1], "value") if self._need(tree, fields, "value") else None
            bounds = self._bounds(fields["in"][1]) if "in" in fields else {}
        name = self.defined(key, "param")
        if value is None:
            return None
        return rules.Param.build(key.span.to(tree.span), name=name, value=value, **bounds)

    def _bounds(self, tree: Tree) -> dict[str, Any]:
        if not isinstance(tree, Sequence) or len(tree.items) != 2:
            self.error("V053", "`in` is the least and the greatest value", tree.span, "", "such as `in: [1.5, 10]`")
            return {}
        return dict(zip(("low", "high"), (self.value(item, "in") for item in tree.items)))

    def let(self, key: Scalar, tree: Tree) -> Statement | None:
        on = None
        if not isinstance(tree, Mapping):
            expression = self.expression(tree, key.text)
        else:
            fields = self.fields(tree, form.LET, "a let")
            expression = self.expression(fields["expr"][1], "expr") if self._need(tree, fields, "expr") else None
            on = self.target(fields["on"][1], "on") if "on" in fields else None
        family = as_family(key) is not None
        name = key.text if family else self.defined(key, "let")
        if expression is None:
            return None
        return rules.Let.build(key.span.to(tree.span), name=name, expression=expression, on=on, family=family)

    def event(self, key: Scalar, tree: Tree) -> Statement | None:
        more: dict[str, Any] = {}
        if not isinstance(tree, Mapping):
            condition = self.expression(tree, key.text)
        else:
            fields = self.fields(tree, form.EVENT, "an event")
            condition = self.expression(fields["if"][1], "if") if self._need(tree, fields, "if") else None
            more["for_"] = self.span(fields["for"][1], "for") if "for" in fields else None
            more["apart"] = self.length(fields["apart"][1], "apart") if "apart" in fields else None
        name = self.defined(key, "event")
        if condition is None:
            return None
        return rules.Event.build(key.span.to(tree.span), name=name, condition=condition, **more)

    def phase(self, key: Scalar, tree: Tree) -> Statement | None:
        name, condition = self.defined(key, "phase"), self.expression(tree, key.text)
        if condition is None:
            return None
        return rules.Phase.build(key.span.to(tree.span), name=name, condition=condition)

    def level_default(self, key: Scalar, tree: Tree) -> Statement | None:
        level, actions = self.choice(key, LEVEL_WORDS, "levels"), self.actions(tree, key.text)
        if level is None or not actions:
            return None
        return rules.LevelDefault.build(key.span.to(tree.span), level=Level.parse(level), actions=actions)

    def limit(self, key: Scalar, tree: Tree) -> Statement | None:
        scalar, name = self.scalar(tree, key.text), self.defined(key, "action")
        if scalar is None:
            return None
        count, per, length = scalar.text.partition(" per ")
        if not per:
            help_ = f"such as `{key.text}: 3 per 10000 steps`"
            self.error("V053", "a limit is a number per length", scalar.span, "", help_)
            return None
        number = self.read(scalar, count, scalar.positions, key.text, "value", ex.Number)
        at = len(count) + len(per)
        size = self.read(scalar, length, scalar.positions[at:], key.text, "duration", ex.Expression)
        if number is None or size is None:
            return None
        if not number.value.is_integer() or number.value < 0 or number.ratio:
            self.error("V011", f"a limit of {number.text}", number.span, "a whole number")
        return rules.Limit.build(
            key.span.to(tree.span), action=name, count=int(max(0, min(number.value, 1e9))), per=size
        )

    def nonfinite(self, key: Scalar, tree: Tree) -> Statement | None:
        span, actions = tree.span, None
        if isinstance(tree, Scalar):
            if tree.text == "off":
                return rules.Nonfinite.build(span, level=None)
            if tree.text.lower() in ("false", "no"):
                self.error("V058", f"`nonfinite` is a level or off, not `{tree.text}`", tree.span, "", "write `off`")
                return None
            word = self.choice(tree, (*LEVEL_WORDS, "off"), "nonfinite")
            level = Level.parse(word) if word is not None else None
        else:
            fields = self.fields(tree, form.GUARD, "`nonfinite`")
            level = self.level(fields["level"][1]) if self._need(tree, fields, "level") else None
            actions = self.actions(fields["do"][1], "do") or None if "do" in fields else None
        if level is Level.GREEN:
            self.error("V012", "the guard cannot lead to green", tree.span, "yellow, orange or red", "or `off`")
        return rules.Nonfinite.build(span, level=level, actions=actions) if level is not None else None

    def override(self, key: Scalar, tree: Tree) -> Statement | None:
        name, fields = self.target(key, "override"), self.fields(tree, form.BODY, "an override")
        body = self.body(tree, fields)
        return rules.Override.build(key.span.to(tree.span), rule=name, body=body) if fields else None

    def disable(self, key: Scalar, tree: Tree) -> Statement | None:
        name, until = self.target(key, "disable"), None
        if isinstance(tree, Scalar):
            because = self.text(tree, key.text)
        else:
            fields = self.fields(tree, form.DISABLE, "`disable`")
            because = self.text(fields["because"][1], "because") if self._need(tree, fields, "because") else None
            until = self.text(fields["until"][1], "until") if "until" in fields else None
        if because is None:
            return None
        return rules.Disable.build(key.span.to(tree.span), rule=name, because=because, until=until)

    def profile(self, key: Scalar, tree: Tree) -> Statement | None:
        name, settings = self.defined(key, "profile"), self.settings(tree, key.text)
        return rules.Profile.build(key.span.to(tree.span), name=name, settings=settings) if settings else None


_STATEMENTS: dict[str, Callable[[_Reading, Scalar, Tree], Statement | None]] = {
    "use": _Reading.use,
    "axis": _Reading.axis,
    "metrics": _Reading.metric,
    "params": _Reading.param,
    "lets": _Reading.let,
    "events": _Reading.event,
    "phases": _Reading.phase,
    "levels": _Reading.level_default,
    "limits": _Reading.limit,
    "nonfinite": _Reading.nonfinite,
    "override": _Reading.override,
    "disable": _Reading.disable,
    "profiles": _Reading.profile,
}
