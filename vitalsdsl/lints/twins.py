"""Two rules about one thing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import BY_VALUE, expression_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.bounds import Bound, bounds


def _where(rule: rules.Rule) -> tuple[str, ...]:
    """In which phases, and for which members, a rule is."""
    each = f"{rule.each.member} in {rule.each.family.path}" if rule.each is not None else ""
    return (each, *sorted(p.path for p in rule.phases))


class Duplicated(Lint):
    """Two rules with the same conditions and levels alert twice for one thing, and are mended in one place only."""

    code = "V506"
    bad = "rule a { when loss > 3 for 20 steps -> yellow }\nrule b { when loss > 3 for 20 steps -> yellow }"
    good = "rule a { when loss > 3 for 20 steps -> yellow }\nrule b { when val_loss > 3 for 20 steps -> yellow }"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        seen: dict[tuple[object, ...], rules.Rule] = {}
        for rule in at.enabled():
            key = (*_where(rule), *(_meaning(clause) for clause in rule.body.clauses))
            first = seen.setdefault(key, rule)
            if first is not rule:
                line, _ = first.span.position
                yield self.found(f"rule `{rule.name}` says what rule `{first.name}` says", rule.span, "again",
                                 f"take one of them out; the other is in line {line}")  # fmt: skip


def _meaning(clause: rules.Clause) -> tuple[object, ...]:
    span = BY_VALUE.text(clause.for_) if clause.for_ is not None else ""
    rungs = tuple((r.level, BY_VALUE.text(r.after) if r.after is not None else "") for r in clause.rungs)
    return BY_VALUE.text(clause.condition), span, clause.on.path if clause.on is not None else "", rungs


class Overlapping(Lint):
    """Where `loss > 5` is red and `loss > 3` is yellow in another rule, both fire, and both alert.

    Make them two `when` of one rule, whose level is then the higher of the two; or let the graver rule inhibit the other.
    """

    code = "V404"
    bad = "when loss > 3 -> yellow\nwhen loss > 5 -> orange"
    good = 'rule high "loss is high" {\n  when loss > 3 -> yellow\n  when loss > 5 -> orange\n}'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        groups: dict[tuple[object, ...], list[_Single]] = {}
        for rule, clause in at.clauses:
            found = list(bounds(clause.condition, at)) if isinstance(clause.condition, ex.Comparison) else []
            if len(found) == 1 and (found[0].is_above or found[0].is_below) and not rule.body.shadow:
                key = (*_where(rule), *found[0].key, found[0].is_above)
                groups.setdefault(key, []).append(_Single(rule, clause, found[0]))
        said: set[str] = set()
        for group in groups.values():
            for level in sorted({single.level for single in group}):
                graver = _farthest(single for single in group if single.level > level)
                for mild in group if graver else ():
                    if mild.level == level and mild.rule.name not in said:
                        yield from self._within(mild, graver, said)

    def _within(self, mild: _Single, graver: list[_Single], said: set[str]) -> Iterator[Diagnostic]:
        """The farthest of the graver rules that is within a mild one, where neither inhibits the other."""
        name, silenced = mild.rule.name, {n.path for n in mild.rule.body.inhibits or ()}
        for grave in graver:
            if grave.distance < mild.distance:
                return
            other = grave.rule.name
            if other == name or other in silenced or any(n.path == name for n in grave.rule.body.inhibits or ()):
                continue
            said.add(name)
            text = expression_text(grave.clause.condition)
            yield self.found(f"`{name}` fires and alerts wherever rule `{other}` does", mild.clause.span,
                             f"`{text}` is within it", f"make them two `when` of one rule, or add `inhibits {name}` "
                             f"to `{other}`")  # fmt: skip
            return


class _Single(NamedTuple):
    """A clause that is one bound on one thing."""

    rule: rules.Rule
    clause: rules.Clause
    bound: Bound

    @property
    def level(self) -> rules.Level:
        return self.clause.rungs[0].level

    @property
    def distance(self) -> float:
        """How far out it fires: the more, the fewer points are beyond."""
        return self.bound.value if self.bound.is_above else -self.bound.value


def _farthest(singles: Iterable[_Single]) -> list[_Single]:
    """Of each rule the clause that is farthest out, the farthest first: all the rest are no surer to be within another."""
    by_rule: dict[str, _Single] = {}
    for single in singles:
        known = by_rule.setdefault(single.rule.name, single)
        if single.distance > known.distance:
            by_rule[single.rule.name] = single
    return sorted(by_rule.values(), key=lambda single: -single.distance)
