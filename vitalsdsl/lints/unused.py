"""Something that is defined and never used, or that hides a metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.scope import match_family
from vitalsdsl.lints.base import Lint, Looked

_DEFINING = (rules.Let, rules.Event, rules.Phase, rules.Param)


class Unused(Lint):
    """A let, event, phase or param that nothing names: left over, or misspelt where it should be used.

    A policy without rules defines things for those who `use` it, and is left alone. Likewise told: a let, event, phase or
    param with a name under which a metric is logged, since the bare name then no longer means that metric.
    """

    code = "V305"
    bad = "let gap = val_loss - loss\nwhen loss > 3 -> yellow"
    good = "let gap = val_loss - loss\nwhen gap > 3 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if not at.policy.of(rules.Rule) or not any(isinstance(s, _DEFINING) for s in at.policy.statements):
            return
        nodes = (n for s in at.policy.statements for n in s.walk())
        used = {n.path for n in nodes if isinstance(n, (ex.Name, ex.Family))}
        logged = {name: m.name for m in at.scope.metrics.values() for name in m.logged}
        for statement in at.policy.statements:
            if isinstance(statement, _DEFINING) and at.is_own(statement):
                yield from self._one(statement, used, logged)

    def _one(
        self, statement: rules.Let | rules.Event | rules.Phase | rules.Param, used: set[str], logged: dict[str, str]
    ) -> Iterator[Diagnostic]:
        what, name = type(statement).__name__.lower(), statement.name
        by_member = isinstance(statement, rules.Let) and statement.family and any(match_family(name, u) for u in used)
        if name not in used and not by_member:
            yield self.found(f"{what} `{name}` is never used", statement.span, "nothing names it",
                             "take it out, or use it")  # fmt: skip
        elif name in logged:
            yield self.found(f"{what} `{name}` hides the metric that is logged as `{name}`", statement.span,
                             "two meanings", f"that metric is `{logged[name]}` here; take another name")  # fmt: skip
