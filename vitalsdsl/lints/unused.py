"""Something that is defined and never used."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl import expressions as ex
from vitalsdsl import rules
from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.lints.base import Lint, Looked


class Unused(Lint):
    """A let, event, phase or param that nothing names: left over, or misspelt where it should be used.

    A policy that others `use` may define things for them: then this says nothing about what came from another file.
    """

    code = "V305"
    bad = "let gap = val_loss - loss\nwhen loss > 3 -> yellow"
    good = "let gap = val_loss - loss\nwhen gap > 3 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if not any(at.enabled()):
            return
        used: set[str] = set()
        for statement in at.policy.statements:
            used |= {n.path for n in statement.walk() if isinstance(n, (ex.Name, ex.Family))}
        for statement in at.policy.statements:
            if isinstance(statement, (rules.Let, rules.Event, rules.Phase, rules.Param)):
                own = statement.span.source is at.policy.source
                if own and statement.name not in used and not self._by_member(statement, used):
                    what = type(statement).__name__.lower()
                    yield self.found(f"{what} `{statement.name}` is never used", statement.span, "nothing names it")

    def _by_member(self, statement: rules.Statement, used: set[str]) -> bool:
        if not (isinstance(statement, rules.Let) and statement.family):
            return False
        head = statement.name.split("*")[0].split("{")[0]
        return any(name.startswith(head) for name in used)
