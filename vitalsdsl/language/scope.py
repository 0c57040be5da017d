"""What the names of a policy stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, lru_cache

from vitalsdsl.ground.words import TOTAL_STEPS
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules as written
from vitalsdsl.ops import base

COUNTERS: dict[str, tuple[str, ...]] = {
    "step": (),
    "progress": ("progress", "train/progress"),
    "elapsed": (),
    "epoch": ("epoch", "train/epoch", "trainer/epoch"),
    "tokens": (
        "tokens",
        "train/tokens",
        "num_tokens",
        "total_tokens",
        "tokens_seen",
        "num_input_tokens_seen",
        "train/num_input_tokens_seen",
        "consumed_tokens",
    ),
}
"""The run's own counters, and the names under which loggers write them."""

LOGGED_COUNTERS = {**COUNTERS, "total_steps": TOTAL_STEPS}
"""The planned number of steps, too, for `progress`."""


class Meaning(Enum):
    """What a name can be."""

    METRIC = "metric"
    LET = "let"
    EVENT = "event"
    PHASE = "phase"
    PARAM = "param"
    COUNTER = "counter"
    MEMBER = "member"


@dataclass(eq=False, repr=False)
class Scope:
    """The names that a policy defines. A name that nothing defines is a metric, logged under that name."""

    metrics: dict[str, written.Metric] = field(default_factory=dict)
    params: dict[str, written.Param] = field(default_factory=dict)
    lets: dict[str, written.Let] = field(default_factory=dict)
    events: dict[str, written.Event] = field(default_factory=dict)
    phases: dict[str, written.Phase] = field(default_factory=dict)
    rules: dict[str, written.Rule] = field(default_factory=dict)

    @classmethod
    def of(cls, policy: written.Policy) -> Scope:
        scope = cls()
        tables: dict[type[written.Statement], dict[str, written.Statement]] = {
            written.Metric: scope.metrics,  # type: ignore[dict-item]
            written.Param: scope.params,  # type: ignore[dict-item]
            written.Let: scope.lets,  # type: ignore[dict-item]
            written.Event: scope.events,  # type: ignore[dict-item]
            written.Phase: scope.phases,  # type: ignore[dict-item]
            written.Rule: scope.rules,  # type: ignore[dict-item]
        }
        for statement in policy.statements:
            table = tables.get(type(statement))
            if table is not None:
                table.setdefault(statement.name, statement)  # type: ignore[attr-defined]
        return scope

    def meaning(self, name: ex.Name | str, member: str | None = None) -> Meaning:
        """What a name stands for; `member` is the word that an `each` in force has given to its member."""
        path = name if isinstance(name, str) else name.path
        quoted = isinstance(name, ex.Name) and name.quoted
        if not quoted:
            if path == member:
                return Meaning.MEMBER
            if path in self.params:
                return Meaning.PARAM
            if path in self.events:
                return Meaning.EVENT
            if path in self.phases:
                return Meaning.PHASE
        if path in self.lets or (not quoted and self.let_family(path) is not None):
            return Meaning.LET
        if not quoted and path in COUNTERS and path not in ("step", "elapsed"):
            return Meaning.COUNTER
        if path in self.metrics or quoted or path not in COUNTERS:
            return Meaning.METRIC
        return Meaning.COUNTER

    def part(self, name: ex.Name | ex.Family) -> written.Let | written.Event | written.Phase | None:
        """The let, event or phase that a name stands for."""
        if isinstance(name, ex.Family):
            let = self.lets.get(name.path)
            return let if let is not None and let.family else None
        meaning = self.meaning(name)
        if meaning is Meaning.EVENT:
            return self.events[name.path]
        if meaning is Meaning.PHASE:
            return self.phases[name.path]
        if meaning is not Meaning.LET:
            return None
        family = self.let_family(name.path)
        return self.lets.get(name.path) or (family[0] if family is not None else None)

    def let_family(self, path: str) -> tuple[written.Let, str] | None:
        """The let family that a path belongs to, and what its star stands for there."""
        for let in self._let_families:
            star = match_family(let.name, path)
            if star is not None:
                return let, star
        return None

    @cached_property
    def _let_families(self) -> list[written.Let]:
        return [let for let in self.lets.values() if let.family]

    def names(self) -> Iterable[str]:
        """All names that are defined here."""
        for table in (self.metrics, self.params, self.lets, self.events, self.phases):
            yield from table


@lru_cache(maxsize=20_000)
def family_pattern(path: str) -> re.Pattern[str]:
    """A family's path as a pattern: `*` stands for one segment's rest, `{0..3}` for the numbers of that range.

    What all of them stand for, joined by a slash, is what members of two families are joined by.
    """
    pattern = ""
    for part in re.split(r"(\*|\{\d+\.\.\d+\})", path):
        if part == "*":
            pattern += r"([^/]+)"
        elif part.startswith("{"):
            pattern += "([0-9]+)"
        else:
            pattern += re.escape(part)
    return re.compile(pattern)


def match_family(path: str, name: str) -> str | None:
    """What the stars of a family stand for in a metric's name; None where it is no member.

    >>> match_family("act/layer_*/absmax", "act/layer_3/absmax"), match_family("grad/{0..3}", "grad/7")
    ('3', None)
    """
    found = family_pattern(path).fullmatch(name)
    if found is None:
        return None
    stars = iter(found.groups())
    for part in re.findall(r"\*|\{\d+\.\.\d+\}", path):
        star = next(stars)
        if part != "*":
            low, high = part[1:-1].split("..")
            if not int(low) <= int(star) <= int(high):
                return None
    return "/".join(found.groups())


def fill_family(path: str, star: str) -> str:
    """The member's name for what the stars stand for.

    >>> fill_family("act/layer_*/absmax", "3")
    'act/layer_3/absmax'
    """
    stars = iter(star.split("/"))
    return re.sub(r"\*|\{\d+\.\.\d+\}", lambda _: next(stars), path)


def implicit_subject(comparison: ex.Comparison, operand: ex.Expression, scope: Scope) -> ex.Name | None:
    """The metric or let that `baseline(500)` in one operand of a comparison is about: the one that stands alone,
    scaled by constants at most, on another side."""
    subjects = [_bare(other, scope) for other in comparison.operands if other is not operand]
    named = [name for name in subjects if name is not None]
    return named[0] if len({name.path for name in named}) == 1 else None


def _bare(node: ex.Expression, scope: Scope) -> ex.Name | None:
    if isinstance(node, ex.Name):
        bare = scope.meaning(node) in (Meaning.METRIC, Meaning.LET)
        return node if bare else None
    if isinstance(node, ex.Negative):
        return _bare(node.operand, scope)
    if isinstance(node, ex.Arithmetic) and node.operator in "*/":
        varying = [place for place, operand in enumerate(node.operands) if not is_constant(operand, scope)]
        if len(varying) == 1 and (varying[0] == 0 or node.operators[varying[0] - 1] == "*"):
            return _bare(node.operands[varying[0]], scope)
    return None


def is_constant(node: ex.Expression, scope: Scope) -> bool:
    """Whether an expression is fixed when the policy is loaded."""
    if isinstance(node, ex.Number):
        return True
    if isinstance(node, ex.Name):
        return scope.meaning(node) is Meaning.PARAM
    if isinstance(node, ex.Negative):
        return is_constant(node.operand, scope)
    return isinstance(node, ex.Arithmetic) and all(is_constant(operand, scope) for operand in node.operands)


def name_rules(policy: written.Policy) -> written.Policy:
    """Give each top-level `when` its name: the first metric, let or event of its condition and its first level."""
    scope = Scope.of(policy)
    taken = {s.name for s in policy.of(written.Rule) if s.written}
    tried: dict[str, int] = {}
    statements: list[written.Statement] = []
    for statement in policy.statements:
        if isinstance(statement, written.Rule) and not statement.written and not statement.name:
            name = unique(_subject_level(statement, scope), taken, tried)
            taken.add(name)
            statement = statement.build(**{**statement.__dict__, "name": name})
        statements.append(statement)
    return policy.build(**{**policy.__dict__, "statements": tuple(statements)})


def unique(name: str, taken: set[str], tried: dict[str, int]) -> str:
    """The name, or the name with the first free number behind it. `tried` remembers how far each name was looked for,
    since what is taken once stays so."""
    number = tried.get(name, 1)
    free = name if number == 1 else f"{name}_{number}"
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    tried[name] = number
    return free


def _subject_level(rule: written.Rule, scope: Scope) -> str:
    clause = rule.body.clauses[0]
    subject = "rule"
    for node in clause.condition.walk():
        if isinstance(node, ex.Family):
            subject = node.path
            break
        if isinstance(node, ex.Name) and scope.meaning(node) in (Meaning.METRIC, Meaning.LET, Meaning.EVENT):
            subject = node.path
            break
    return re.sub(r"[^A-Za-z0-9_]", "_", f"{subject}_{clause.rungs[0].level.word}")


def arguments_by_name(node: ex.Call, function: type[base.Function]) -> dict[str, ex.Expression]:
    """Parameter names to what is given for them."""
    given = [a.value for a in node.arguments if a.keyword is None]
    bound = {parameter.name: value for parameter, value in zip(function.positional(), given)}
    bound.update({a.keyword: a.value for a in node.arguments if a.keyword is not None})
    return bound
