"""Two rules about one thing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from vitalsdsl import expressions as ex
from vitalsdsl import rules
from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.formatter import BY_VALUE, expression_text
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
        simple: dict[tuple[object, ...], list[tuple[rules.Rule, rules.Clause, Bound]]] = {}
        for rule, clause in at.clauses:
            found = list(bounds(clause.condition, at)) if isinstance(clause.condition, ex.Comparison) else []
            if len(found) == 1 and (found[0].is_above or found[0].is_below) and not rule.body.shadow:
                key = (*_where(rule), *found[0].key, found[0].is_above)
                simple.setdefault(key, []).append((rule, clause, found[0]))
        said: set[str] = set()
        for group in simple.values():
            for one, other in combinations(group, 2):
                yield from self._pair(one, other, said)

    def _pair(
        self,
        one: tuple[rules.Rule, rules.Clause, Bound],
        other: tuple[rules.Rule, rules.Clause, Bound],
        said: set[str],
    ) -> Iterator[Diagnostic]:
        mild, grave = sorted((one, other), key=lambda t: t[1].rungs[0].level)
        if mild[0] is grave[0] or mild[1].rungs[0].level == grave[1].rungs[0].level or mild[0].name in said:
            return
        silenced = {n.path for n in (*(mild[0].body.inhibits or ()), *(grave[0].body.inhibits or ()))}
        farther = grave[2].value >= mild[2].value if mild[2].is_above else grave[2].value <= mild[2].value
        if farther and not silenced & {mild[0].name, grave[0].name}:
            said.add(mild[0].name)
            text = expression_text(grave[1].condition)
            yield self.found(f"`{mild[0].name}` fires and alerts wherever rule `{grave[0].name}` does", mild[1].span,
                             f"`{text}` is within it", f"make them two `when` of one rule, or add `inhibits {mild[0].name}` "
                             f"to `{grave[0].name}`")  # fmt: skip
