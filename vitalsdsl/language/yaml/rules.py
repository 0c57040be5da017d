"""The rules of a YAML policy: bodies, clauses, rungs."""

from __future__ import annotations

from typing import Any

from vitalsdsl.ground.source import Locator
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.parser import parse_expression
from vitalsdsl.language.rules import Level
from vitalsdsl.language.yaml import form
from vitalsdsl.language.yaml.pieces import Fields, Pieces
from vitalsdsl.language.yaml.tree import Mapping, Scalar, Sequence, Tree


class RulePieces(Pieces):
    """Reads rules and what is like them."""

    def listed_or_named(self, tree: Tree) -> list[rules.Rule]:
        """By name; or a list, in which an item without a name is a bare `when`."""
        if not isinstance(tree, Sequence):
            return [self.rule(key, value) for key, value in self.named(tree, "rules")]
        found: list[rules.Rule] = []
        for item in tree.items:
            names = [value for key, value in item.entries if key.text == "name"] if isinstance(item, Mapping) else []
            if names:
                name = self.scalar(names[0], "name")
                rule = self.rule(name, item, form.LISTED_RULE) if name is not None else None
            else:
                rule = self.oneliner(item)
            if rule is not None:
                found.append(rule)
        return found

    def rule(self, name: Scalar, tree: Tree, keys: dict[str, form.Key] = form.RULE) -> rules.Rule:
        fields = self.fields(tree, keys, "a rule")
        span = name.span.to(tree.span) if keys is form.RULE else tree.span
        head: dict[str, Any] = {}
        if "title" in fields:
            head["title"] = self.text(fields["title"][1], "title")
        if "in_phase" in fields:
            head["phases"] = self.targets(fields["in_phase"][1], "in_phase")
        if "each" in fields:
            head["each"] = self.each(fields["each"][1])
        defined = self.defined(name, "rule")
        body = self.body(tree, fields)
        if isinstance(tree, Mapping) and "when" not in fields and not self._has(tree, "when"):
            self.error("V057", f"the rule `{name.text}` says no `when`", name.span, "when does it fire?")
        return rules.Rule.build(span, name=defined, body=body, **head)

    @staticmethod
    def _has(tree: Mapping, word: str) -> bool:
        return any(key.text == word for key, _ in tree.entries)

    def oneliner(self, tree: Tree) -> rules.Rule | None:
        """`{if: …, level: …}` in the list of rules."""
        if isinstance(tree, Mapping) and not self._has(tree, "if"):
            message = "a rule without a name is one condition and its level"
            help_ = "write `name: …`, or only `if`, `for`, `on`, `level`, `do`, `then`"
            self.error("V057", message, tree.entries[0][0].span if tree.entries else tree.span, "no `if` here", help_)
            return None
        clause = self.clause(tree)
        if clause is None:
            return None
        body = rules.RuleBody.build(tree.span, clauses=(clause,))
        return rules.Rule.build(tree.span, name="", body=body, written=False)

    def body(self, tree: Tree, fields: Fields) -> rules.RuleBody:
        """What a rule or an override says."""
        found: dict[str, Any] = {}
        readers = {
            "cooldown": self.length,
            "inhibits": self.targets,
            "because": self.template,
            "try": self.texts,
            "owner": self.text,
            "runbook": self.text,
            "shadow": self.flag,
            "disabled": self.flag,
        }
        for key, (_, value) in fields.items():
            if key in readers:
                found["try_" if key == "try" else key] = readers[key](value, key)
            elif key == "when":
                items = value.items if isinstance(value, Sequence) else [value]
                if not items:
                    self.error("V057", "the list after `when` is empty", value.span, "when does it fire?")
                found["clauses"] = tuple(c for item in items if (c := self.clause(item)) is not None)
            elif key == "clear":
                found["clear"] = self.clear(value)
            elif key == "unknown":
                found["unknown"] = self.choice(value, ("hold", "reset"), "unknown")
        return rules.RuleBody.build(tree.span, **found)

    def clause(self, tree: Tree) -> rules.Clause | None:
        """`{if: …, for: …, on: …, level: …, do: …, then: …}`."""
        fields = self.fields(tree, form.CLAUSE, "a condition of `when`")
        if not self._need(tree, fields, "if", "level"):
            return None
        condition = self.expression(fields["if"][1], "if")
        more = {k: v for k, v in fields.items() if k in ("level", "after", "do")}
        first = self.rung(tree, more)
        rungs = [first] if first is not None else []
        if "then" in fields:
            value = fields["then"][1]
            for item in value.items if isinstance(value, Sequence) else [value]:
                inner = self.fields(item, form.RUNG, "a rung")
                rung = self.rung(item, inner) if self._need(item, inner, "level") else None
                rungs += [rung] if rung is not None else []
        for_ = self.span(fields["for"][1], "for") if "for" in fields else None
        on = self.target(fields["on"][1], "on") if "on" in fields else None
        if condition is None or not rungs:
            return None
        return rules.Clause.build(tree.span, condition=condition, for_=for_, on=on, rungs=tuple(rungs))

    def rung(self, tree: Tree, fields: Fields) -> rules.Rung | None:
        place = fields["level"][1]
        level = self.level(place)
        after = self.length(fields["after"][1], "after") if "after" in fields else None
        actions = self.actions(fields["do"][1], "do") or None if "do" in fields else None
        if level is Level.GREEN:
            self.error("V012", "a rung cannot lead to green", place.span, "yellow, orange or red")
        if level is None:
            return None
        return rules.Rung.build(tree.span, level=level, after=after, actions=actions)

    def clear(self, tree: Tree) -> rules.Clear | None:
        """`{if: …, for: …}`, or a span by itself."""
        if isinstance(tree, Scalar):
            for_ = self.span(tree, "clear")
            return rules.Clear.build(tree.span, for_=for_) if for_ is not None else None
        fields = self.fields(tree, form.CLEAR, "`clear`")
        condition = self.expression(fields["if"][1], "if") if "if" in fields else None
        for_ = self.span(fields["for"][1], "for") if "for" in fields else None
        if isinstance(tree, Mapping) and not fields:
            self.error("V057", "`clear` says neither `if` nor `for`", tree.span, "when does it clear?")
        return rules.Clear.build(tree.span, condition=condition, for_=for_)

    def each(self, tree: Tree) -> rules.Each | None:
        """`{layer: act/layer_*}`."""
        entries = self.named(tree, "each")
        if len(entries) != 1:
            if isinstance(tree, Mapping):
                self.error(
                    "V053", "`each` has one member and its family", tree.span, "", "`each: {layer: act/layer_*}`"
                )
            return None
        key, value = entries[0]
        member, family = self.defined(key, "member"), self.family(value)
        if family is None:
            return None
        return rules.Each.build(key.span.to(value.span), member=member, family=family)

    def family(self, tree: Tree) -> ex.Family | None:
        scalar = self.scalar(tree, "each")
        if scalar is None:
            return None
        node = as_family(scalar)
        if node is None:
            self.error("V060", f"`{scalar.text}` is no family of metrics", scalar.span, "", "such as `act/layer_*`")
        return node

    def _need(self, tree: Tree, fields: Fields, *words: str) -> bool:
        """Whether these keys are there; a missing one is said, but not of what is no set of keys at all."""
        missing = [word for word in words if word not in fields]
        if missing and isinstance(tree, Mapping) and not any(self._has(tree, word) for word in missing):
            place = tree.entries[0][0].span if tree.entries else tree.span
            self.error("V057", f"`{missing[0]}:` is missing here", place, "", f"add `{missing[0]}: …`")
        return not missing


def as_family(scalar: Scalar) -> ex.Family | None:
    """A text read as the path of a family, such as `act/layer_*`; None where it is none."""
    if not set(scalar.text) & set("*{"):
        return None
    node, found = parse_expression(scalar.text, Locator(scalar.span.source, scalar.positions))
    whole = isinstance(node, ex.Family) and node.path == scalar.text and not found
    return node if whole and isinstance(node, ex.Family) else None
