"""One policy out of several files: `use`, `override`, `disable`, and the values of params."""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.source import Source, Span
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.expressions import Node
from vitalsdsl.language.formatter import BY_VALUE, expression_text
from vitalsdsl.language.lines import statement_lines
from vitalsdsl.language.parser import MAX_STATEMENTS, Parsed
from vitalsdsl.language.renaming import Renaming, replaced, with_rule_names
from vitalsdsl.language.scope import name_rules, unique
from vitalsdsl.policies.policy_files import imported, parse_any

MAX_FILES = 100
MAX_TOTAL = 4_000_000
MAX_BROUGHT = 100_000
"""What the `use` statements of one file may bring in together, before repeats are taken out."""

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_VALUES = (rules.Metric, rules.Param, rules.Let, rules.Event, rules.Phase, rules.Profile)
_FIELDS = ("clear", "cooldown", "inhibits", "unknown", "because", "try_", "owner", "runbook")


class Piece(NamedTuple):
    """A statement with the place where it was written (file and position in it) and the namespace under which it came."""

    statement: rules.Statement
    home: tuple[str, int]
    space: str = ""


class Merged(NamedTuple):
    """A file with all that it uses: the same whoever uses it, so each file is merged once."""

    policy: rules.Policy
    pieces: tuple[Piece, ...] = ()
    broken: frozenset[str] = frozenset()


@dataclass(eq=False, repr=False)
class Merge:
    """Brings in what a policy uses. What comes twice under one name, with the same params, is one."""

    root: Path | None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    known: MutableMapping[str, Source] = field(default_factory=dict)
    """Texts by the path or name that a `use` comes to: those that were read, and those to be had without reading."""
    used: dict[str, tuple[rules.Policy, Span]] = field(default_factory=dict)
    """Each file and pack that is used, as it is written, with the first `use` that named it."""
    _merged: dict[str, Merged] = field(default_factory=dict)
    _total: int = 0

    def error(self, code: str, message: str, place: Span, label: str = "", help_: str = "") -> None:
        self.diagnostics.append(Diagnostic(code, Severity.ERROR, message, place, label, (help_,) if help_ else ()))

    def merge(self, parsed: Parsed, chain: tuple[str, ...] = (), folder: Path | None = None) -> rules.Policy:
        """The policy with the statements of what it uses in the place of each `use`."""
        self._total += len(parsed.policy.source.text)
        merged = self._file(parsed, chain, folder)
        self.broken |= merged.broken
        return merged.policy

    def _file(self, parsed: Parsed, chain: tuple[str, ...], folder: Path | None) -> Merged:
        policy = name_rules(parsed.policy)
        self.sources.append(policy.source)
        own = chain[-1] if chain else policy.source.name
        broken = set(parsed.broken_names)
        groups: list[tuple[list[Piece], Span]] = []
        brought = 0
        for place, statement in enumerate(policy.statements):
            if isinstance(statement, rules.Use):
                pieces, lost = self._use(statement, chain, folder)
                broken |= lost
            else:
                pieces = [Piece(statement, (own, place))]
            groups.append((pieces, statement.span))
            brought += len(pieces)
            if brought > MAX_BROUGHT:
                break
        merged = _Joining(self, own, groups).run() if brought <= MAX_BROUGHT else []
        if brought > MAX_BROUGHT or len(merged) > MAX_STATEMENTS:
            place_of = groups[-1][1] if brought > MAX_BROUGHT else merged[MAX_STATEMENTS].statement.span
            self.error("V030", f"with all that it uses this policy has over {MAX_STATEMENTS:,} statements", place_of)
            merged = []
        policy = replaced(policy, statements=tuple(piece.statement for piece in merged))
        return Merged(policy, tuple(merged), frozenset(broken))

    def _use(self, use: rules.Use, chain: tuple[str, ...], folder: Path | None) -> tuple[list[Piece], frozenset[str]]:
        """What a `use` brings in, under its names and with its params; and the names that are broken there."""
        found = imported(use.reference, use.span, self.root, folder, self.known)
        if isinstance(found, Diagnostic):
            self.diagnostics.append(found)
            return [], frozenset()
        key, source = found
        if key in chain:
            shown = " -> ".join([*(Path(k).name for k in chain[chain.index(key) :]), Path(key).name])
            self.error("V507", "this file uses itself", use.span, shown, "break the circle")
            return [], frozenset()
        merged = self._merged.get(key) or self._read(key, source, use, chain)
        if merged is None:
            return [], frozenset()
        values = [setting for setting in use.values if setting.name not in merged.broken]
        for place, setting in enumerate(values):
            if setting.name in {earlier.name for earlier in values[:place]}:
                self.error("V014", f"`{setting.name}` is set twice by this `use`", setting.span, "again", "keep one")
        statements = self.set_params((piece.statement for piece in merged.pieces), values, use.span)
        statements = [replaced(s, origin=use.reference) if isinstance(s, rules.Rule) else s for s in statements]
        space = use.namespace
        if space is None:
            return [piece._replace(statement=s) for piece, s in zip(merged.pieces, statements)], merged.broken
        rename = Renaming(statements, space)
        pieces = [Piece(rename(s), p.home, f"{space}.{p.space}") for p, s in zip(merged.pieces, statements)]
        return pieces, frozenset(f"{space}.{name}" for name in merged.broken)

    def _read(self, key: str, source: Source, use: rules.Use, chain: tuple[str, ...]) -> Merged | None:
        self._total += len(source.text)
        if len(self.sources) >= MAX_FILES or self._total > MAX_TOTAL:
            self.error("V030", f"a policy is made of at most {MAX_FILES} files and 4 million characters", use.span)
            return None
        self.known[key] = source
        parsed = parse_any(source)
        self.used[key] = parsed.policy, use.span
        self.diagnostics += parsed.diagnostics
        inner_folder = None if key.startswith("pack:") else Path(key).parent
        merged = self._merged[key] = self._file(parsed, (*chain, key), inner_folder)
        return merged

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
        written = {s.name: s for s in reversed(policy.of(rules.Rule))}
        bodies = dict(written)
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
            bodies[s.name] if isinstance(s, rules.Rule) and written[s.name] is s else s
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
            # `fromisoformat` alone takes other forms too, and more of them from one Python to the next.
            form = disable.until if _DATE.fullmatch(disable.until) else ""
            until = datetime.date.fromisoformat(form)
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


class _Joining:
    """The statements of one file: its own, and those of each `use`, in one list without repeats and clashes."""

    def __init__(self, merge: Merge, own: str, groups: list[tuple[list[Piece], Span]]) -> None:
        self._merge = merge
        self._own = own
        self._groups = groups
        every = [piece for pieces, _ in groups for piece in pieces]
        self._written = {p.statement.name for p in every if isinstance(p.statement, rules.Rule) and p.statement.written}
        self._defaults = {
            key: p for p in reversed(every) if p.home[0] == own and (key := _default_key(p.statement)) is not None
        }
        self._extended = _extended(every, own)
        self._seen: dict[tuple[tuple[str, int], str], rules.Statement] = {}
        self._values: dict[str, Piece] = {}
        self._rules: dict[str, Piece] = {}

    def run(self) -> list[Piece]:
        out: list[Piece] = []
        for pieces, place in self._groups:
            names: dict[str, str] = {}
            kept = [piece for piece in pieces if self._is_new(piece, names, place)]
            for piece in kept:
                key = _default_key(piece.statement)
                if key is not None:
                    self._defaults.setdefault(key, piece)
            self._name_rules(kept, names)
            for piece in kept:
                statement = piece.statement
                if isinstance(statement, rules.Metric):
                    statement = self._extended.get(statement.name, statement)
                piece = piece._replace(statement=with_rule_names(statement, names))
                self._seen[piece.home, piece.space] = piece.statement
                if not self._clashes(piece):
                    out.append(piece)
        return out

    def _is_new(self, piece: Piece, names: dict[str, str], place: Span) -> bool:
        """Whether a statement is neither here already nor said otherwise by the using file."""
        statement = piece.statement
        default = self._defaults.get(_default_key(statement) or ())
        if piece.home[0] != self._own and default is not None:
            self._same_default(default, piece)
            return False
        if piece.home[0] != self._own and isinstance(statement, rules.Metric) and statement.name in self._extended:
            return False
        first = self._seen.get((piece.home, piece.space))
        if first is None:
            return True
        if isinstance(first, rules.Rule) and isinstance(statement, rules.Rule) and first.name != statement.name:
            names[statement.name] = first.name
        if isinstance(first, rules.Param) and isinstance(statement, rules.Param):
            self._same_params(first, statement, place)
        return False

    def _same_default(self, first: Piece, second: Piece) -> None:
        """Say so where two used files set one thing in two ways and the using file leaves it at that."""
        texts = ["\n".join(line.text for line in statement_lines(BY_VALUE, p.statement)) for p in (first, second)]
        if first.home[0] in (self._own, second.home[0]) or texts[0] == texts[1]:
            return
        message = f"`{texts[1]}` has no effect: another file that is used says otherwise"
        help_ = (f"`{texts[0]}` holds, from {first.statement.span!r}; say in the using file which is meant",)
        place = second.statement.span
        self._merge.diagnostics.append(Diagnostic("V310", Severity.WARNING, message, place, "second one", help_))

    def _same_params(self, first: rules.Param, second: rules.Param, place: Span) -> None:
        if size(first.value) != size(second.value):
            values = f"{expression_text(first.value)} and {expression_text(second.value)}"
            message = f"one file comes twice, with `{first.name}` = {values}"
            self._merge.error("V310", message, place, "second time", "bring one of them in with `as NAME`")

    def _name_rules(self, kept: list[Piece], names: dict[str, str]) -> None:
        """Rules of one clause give way: to rules whose name is written, then to those before them."""
        rules_here = [p.statement for p in kept if isinstance(p.statement, rules.Rule)]
        giving_way = [r for r in rules_here if not r.written and (r.name in self._rules or r.name in self._written)]
        if not giving_way:
            return  # as most do: all names together are only gathered for one that does not
        taken = set(self._rules) | self._written | {rule.name for rule in rules_here}
        tried: dict[str, int] = {}
        for rule in giving_way:
            names[rule.name] = unique(rule.name, taken, tried)
            taken.add(names[rule.name])

    def _clashes(self, piece: Piece) -> bool:
        statement = piece.statement
        if not isinstance(statement, (rules.Rule, *_VALUES)):
            return False
        table = self._rules if isinstance(statement, rules.Rule) else self._values
        other = table.setdefault(statement.name, piece)
        if other is piece or (other.home[0], other.space) == (piece.home[0], piece.space):
            return False
        help_ = f"it is also defined at {other.statement.span!r}: bring that file in with `as NAME`"
        if isinstance(statement, rules.Metric):
            help_ += f", and give its metric further names by `metric NAME.{statement.name} = …`"
        self._merge.error("V310", f"`{statement.name}` is defined in two files", statement.span, "second one", help_)
        return True


def _extended(every: Iterable[Piece], own: str) -> dict[str, rules.Metric]:
    """Metrics that came under a namespace and that the using file gives further names (`metric core.loss = "my loss"`):
    under both's, its own before the others. Without a namespace the two would clash."""
    metrics = [(p.statement, p) for p in every if isinstance(p.statement, rules.Metric)]
    found: dict[str, rules.Metric] = {}
    for metric in (m for m, p in metrics if p.home[0] == own):
        used = next((m for m, p in metrics if p.home[0] != own and p.space and m.name == metric.name), None)
        if used is not None and metric.name not in found:
            found[metric.name] = replaced(
                metric,
                logged=tuple(dict.fromkeys((*metric.logged, *used.logged))),
                every=metric.every or used.every,
                stale_after=metric.stale_after or used.stale_after,
                unit=metric.unit or used.unit,
                reduce=used.reduce if metric.reduce == "last" else metric.reduce,
                allow_nonfinite=metric.allow_nonfinite or used.allow_nonfinite,
            )
    return found


def _default_key(statement: rules.Statement) -> tuple[Any, ...] | None:
    """What a using file's own statement of this kind replaces."""
    if isinstance(statement, rules.LevelDefault):
        return ("level", statement.level)
    if isinstance(statement, rules.Limit):
        return ("limit", statement.action)
    if isinstance(statement, rules.Nonfinite):
        return ("nonfinite",)
    return ("axis",) if isinstance(statement, rules.Axis) else None
