"""An orange or red rule that says nothing to those whom it wakes."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language.rules import Level
from vitalsdsl.lints.base import Lint, Looked


class Unexplained(Lint):
    """Somebody is woken at night by a name and a number, and has to find out what to do.

    A rule that can turn orange or red should say it beforehand: a title, `because`, `try`, `runbook`, or at least `owner`.
    """

    code = "V602"
    bad = "rule diverged { when loss > 10 for 20 steps -> orange }"
    good = 'rule diverged {\n  when loss > 10 for 20 steps -> orange\n  try "skip the batches of these steps"\n}'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for rule in at.enabled():
            body = rule.body
            said = rule.title or body.because or body.try_ or body.owner or body.runbook
            worst = max((rung.level for clause in body.clauses for rung in clause.rungs), default=Level.GREEN)
            if rule.written and not said and not body.shadow and worst >= Level.ORANGE:
                span = rule.span.source.span(rule.span.start, rule.span.start + len("rule ") + len(rule.name))
                yield self.found(f"rule `{rule.name}` goes {worst.word} and does not say what to do", span,
                                 "no word for whom it wakes", 'add `try "…"`, `because "…"` or `runbook "…"`')  # fmt: skip
