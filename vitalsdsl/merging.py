"""One policy out of several files: `use`, `override`, `disable`, and the values of params."""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vitalsdsl import expressions as ex
from vitalsdsl import rules
from vitalsdsl.diagnostic import Diagnostic, Severity
from vitalsdsl.expressions import Node
from vitalsdsl.formatter import expression_text
from vitalsdsl.parser import MAX_STATEMENTS, Parsed
from vitalsdsl.reading import imported, parse_any
from vitalsdsl.renaming import renamed, replaced
from vitalsdsl.scope import name_rules, unique
from vitalsdsl.source import Source, Span

MAX_FILES = 100
MAX_TOTAL = 4_000_000

_NAMED = (rules.Metric, rules.Param, rules.Let, rules.Event, rules.Phase, rules.Rule, rules.Profile)
_FIELDS = ("clear", "cooldown", "inhibits", "unknown", "because", "try_", "owner", "runbook")


@dataclass
class Merge:
    """Brings in what a policy uses, each file once for the same params."""

    root: Path | None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    _seen: set[tuple[Any, ...]] = field(default_factory=set)
    _total: int = 0

    def error(self, code: str, message: str, place: Span, label: str = "", help_: str = "") -> None:
        self.diagnostics.append(Diagnostic(code, Severity.ERROR, message, place, label, (help_,) if help_ else ()))

    def merge(self, parsed: Parsed, chain: tuple[str, ...] = (), folder: Path | None = None) -> rules.Policy:
        """The policy with the statements of what it uses in the place of each `use`."""
        policy = name_rules(parsed.policy)
        self.sources.append(policy.source)
        self.broken |= parsed.broken_names
        own_kinds = {_default_key(s) for s in policy.statements}
        statements: list[rules.Statement] = []
        for statement in policy.statements:
            if isinstance(statement, rules.Use):
                for s in self._use(statement, chain, folder):
                    key = _default_key(s)
                    if key is None or key not in own_kinds and key not in {_default_key(o) for o in statements}:
                        statements.append(s)
            else:
                statements.append(statement)
        if len(statements) > MAX_STATEMENTS:
            place = statements[MAX_STATEMENTS].span
            self.error("V030", f"with all that it uses this policy has over {MAX_STATEMENTS:,} statements", place)
            statements = []
        return replaced(policy, statements=tuple(self._without_clashes(statements)))

    def _use(self, use: rules.Use, chain: tuple[str, ...], folder: Path | None) -> list[rules.Statement]:
        found = imported(use.reference, use.span, self.root, folder)
        if isinstance(found, Diagnostic):
            self.diagnostics.append(found)
            return []
        key, source = found
        if key in chain:
            shown = " -> ".join([*(Path(k).name for k in chain[chain.index(key) :]), Path(key).name])
            self.error("V507", "this file uses itself", use.span, shown, "break the circle")
            return []
        self._total += len(source.text)
        if len(self.sources) >= MAX_FILES or self._total > MAX_TOTAL:
            self.error("V030", f"a policy is made of at most {MAX_FILES} files and 4 million characters", use.span)
            return []
        values = tuple(sorted((s.name, expression_text(s.value)) for s in use.values))
        if (key, use.namespace, values) in self._seen:
            return []
        self._seen.add((key, use.namespace, values))
        parsed = parse_any(source)
        self.diagnostics += parsed.diagnostics
        inner_folder = None if key.startswith("pack:") else Path(key).parent
        merged = self.merge(parsed, (*chain, key), inner_folder)
        statements = self.set_params(merged.statements, use.values, use.span)
        statements = [replaced(s, origin=use.reference) if isinstance(s, rules.Rule) else s for s in statements]
        return renamed(statements, use.namespace) if use.namespace is not None else statements

    def _without_clashes(self, statements: list[rules.Statement]) -> list[rules.Statement]:
        kept: list[rules.Statement] = []
        first: dict[str, rules.Statement] = {}
        for statement in statements:
            name = getattr(statement, "name", None) if isinstance(statement, _NAMED) else None
            if isinstance(statement, rules.Rule) and not statement.written and name in first:
                statement = replaced(statement, name=unique(statement.name, set(first)))
                name = statement.name
            other = first.get(name) if name is not None else None
            if other is not None and other.span.source is not statement.span.source:
                where = other.span
                help_ = f"it is also defined at {where!r}: bring that file in with `as NAME`"
                self.error("V310", f"`{name}` is defined in two files", statement.span, "second one", help_)
                continue
            if name is not None:
                first.setdefault(name, statement)
            kept.append(statement)
        return kept

    # ---------------------------------------------------------------- params

    def set_params(
        self, statements: Iterable[rules.Statement], values: Iterable[rules.Setting], place: Span
    ) -> list[rules.Statement]:
        """The statements with params set to these values, each held to its kind and range."""
        statements = list(statements)
        params = {s.name: s for s in statements if isinstance(s, rules.Param)}
        changed: dict[str, rules.Param] = {}
        for setting in values:
            param = params.get(setting.name)
            if param is None:
                near = difflib.get_close_matches(setting.name, params, 1)
                help_ = f"did you mean `{near[0]}`?" if near else "it has " + (", ".join(sorted(params)) or "no params")
                self.error("V311", f"there is no param `{setting.name}`", setting.span, "unknown param", help_)
            elif self._fits(param, setting):
                changed[param.name] = replaced(param, value=setting.value)
        return [changed.get(s.name, s) if isinstance(s, rules.Param) else s for s in statements]

    def _fits(self, param: rules.Param, setting: rules.Setting) -> bool:
        value, default = setting.value, param.value
        if isinstance(value, ex.Length) != isinstance(default, ex.Length) or (
            isinstance(value, ex.Length) and isinstance(default, ex.Length) and _unit(value) != _unit(default)
        ):
            kind = f"a length, such as {expression_text(default)}" if isinstance(default, ex.Length) else "a number"
            self.error("V312", f"param `{param.name}` takes {kind}", setting.span, expression_text(value))
            return False
        low, high = param.low, param.high
        if low is not None and high is not None and not size(low) <= size(value) <= size(high):
            allowed = f"{expression_text(low)} .. {expression_text(high)}"
            message = f"param `{param.name}` = {expression_text(value)} is outside {allowed}"
            self.error("V504", message, setting.span, "out of range")
            return False
        return True

    # ---------------------------------------------------------------- overrides and disables

    def apply_changes(self, policy: rules.Policy, today: datetime.date) -> rules.Policy:
        """The policy with its overrides and disables carried out."""
        bodies = {s.name: s for s in policy.of(rules.Rule)}
        said: dict[tuple[str, str], Span] = {}
        for override in policy.of(rules.Override):
            rule = self._target(override.rule, bodies)
            if rule is not None:
                bodies[rule.name] = replaced(rule, body=self._override(rule, override, said))
        for disable in policy.of(rules.Disable):
            rule = self._target(disable.rule, bodies)
            if rule is not None and self._in_force(disable, today):
                bodies[rule.name] = replaced(rule, body=replaced(rule.body, disabled=True))
        statements = tuple(
            bodies[s.name] if isinstance(s, rules.Rule) else s
            for s in policy.statements
            if not isinstance(s, (rules.Override, rules.Disable))
        )
        return replaced(policy, statements=statements)

    def _target(self, name: ex.Name, bodies: dict[str, rules.Rule]) -> rules.Rule | None:
        rule = bodies.get(name.path)
        if rule is None and name.path not in self.broken:
            near = difflib.get_close_matches(name.path, bodies, 1)
            help_ = f"did you mean `{near[0]}`?" if near else ""
            self.error("V503", f"there is no rule `{name.path}` to change", name.span, "unknown rule", help_)
        return rule

    def _override(
        self, rule: rules.Rule, override: rules.Override, said: dict[tuple[str, str], Span]
    ) -> rules.RuleBody:
        fields: dict[str, Any] = {}
        body = override.body
        given = {name: getattr(body, name) for name in _FIELDS if getattr(body, name) is not None}
        if body.clauses:
            given["clauses"] = body.clauses
        given.update({name: True for name in ("shadow", "disabled") if getattr(body, name)})
        for name, value in given.items():
            if (rule.name, name) in said:
                word = {"clauses": "when", "try_": "try"}.get(name, name)
                help_ = f"the other is at {said[rule.name, name]!r}"
                self.error("V503", f"two overrides of `{word}` of rule `{rule.name}`", override.span, "second", help_)
                continue
            said[rule.name, name] = override.span
            fields[name] = value
        return replaced(rule.body, **fields)

    def _in_force(self, disable: rules.Disable, today: datetime.date) -> bool:
        if disable.until is None:
            return True
        try:
            until = datetime.date.fromisoformat(disable.until)
        except ValueError:
            self.error("V073", f"`{disable.until}` is no date", disable.span, 'write it as "2027-01-15"')
            return True
        if today > until:
            message = f"rule `{disable.rule.path}` was disabled until {until}: it is on again"
            help_ = ("take the line out, or set a new date",)
            self.diagnostics.append(Diagnostic("V603", Severity.WARNING, message, disable.span, "expired", help_))
            return False
        return True


def size(value: Node) -> float:
    """The number in a param's value; times in seconds."""
    return value.size if isinstance(value, ex.Length) else getattr(value, "value", 0.0)


def _unit(length: ex.Length) -> str:
    return "time" if length.is_time else length.unit


def _default_key(statement: rules.Statement) -> tuple[Any, ...] | None:
    """What a using file's own statement of this kind replaces."""
    if isinstance(statement, rules.LevelDefault):
        return ("level", statement.level)
    if isinstance(statement, rules.Limit):
        return ("limit", statement.action)
    if isinstance(statement, rules.Nonfinite):
        return ("nonfinite",)
    return ("axis",) if isinstance(statement, rules.Axis) else None
