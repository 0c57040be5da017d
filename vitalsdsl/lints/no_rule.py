"""A policy that says nothing."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import rules
from vitalsdsl.lints.base import Lint, Looked

_LEND = (rules.Metric, rules.Param, rules.Let, rules.Event, rules.Phase, rules.LevelDefault, rules.Limit, rules.Profile)


class NoRule(Lint):
    """An empty file is a policy that is always green. A file that defines something may be there for others to `use`."""

    code = "V509"
    bad = "policy llm"
    good = "policy llm\nwhen loss > 3 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if not any(at.policy.of(rules.Rule)) and not any(isinstance(s, _LEND) for s in at.policy.statements):
            yield self.found("this policy has no rule", at.policy.source.span(0, 0), "always green",
                             "write one: `when loss > 3 -> orange`")  # fmt: skip
