"""A rule without a test that fires and one that stays silent."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.lints.base import Lint, Looked

_NEEDED = {"fires": "a test in which it fires", "silent": "one in which it does not"}


class Untested(Lint):
    """A rule that has never fired in a test may never fire at all; one that was never seen silent may never be.

    Said only where there is a `.vtest.yaml` for the policy. Tests are cheap: a line of numbers, and the step at which the
    rule must speak.
    """

    code = "V601"
    bad = "when loss > 3 -> yellow"
    good = "# with NAME.vtest.yaml beside it: one test in which the rule fires, one in which it does not\nwhen loss > 3 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if at.tested is None:
            return
        for rule in at.enabled():
            if not at.is_own(rule):
                continue
            seen = at.tested.get(rule.name, set())
            lacking = [how for word, how in _NEEDED.items() if word not in seen]
            if lacking:
                yield self.found(f"rule `{rule.name}` needs {' and '.join(lacking)}", rule.span, "untested")
