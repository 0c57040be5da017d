"""`missing` of a metric that may never come at all."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.scope import Meaning, match_family
from vitalsdsl.lints.base import Lint, Looked


class NeverLogged(Lint):
    """`missing x for D` counts from the newest point of x: a metric that is never logged is never missed.

    With `every` in its declaration it is counted from the first step of the run. Where it may well be absent, say so with
    `optional`.
    """

    code = "V109"
    bad = "when missing val_loss for 100 steps -> yellow"
    good = 'metric val_loss = "val_loss" every 50 steps\nwhen missing val_loss for 100 steps -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        members = {rule.each.member for rule in at.enabled() if rule.each is not None}
        for node in at.all(ex.Missing):
            name = node.target
            if name.path in members or at.scope.meaning(name) is not Meaning.METRIC:
                continue
            declared = at.scope.metrics.get(name.path) or next(
                (m for m in at.scope.metrics.values() if m.family and match_family(m.name, name.path)), None
            )
            if declared is None or not (declared.every or declared.optional):
                extent = at.extent(node.length)
                seldom = f"{max(1, int(extent[0] // 2))} steps" if extent and extent[1] == "steps" else "10 min"
                written = f'declare `metric {name.path} = "{name.path}" every {seldom}`'
                if name.quoted:
                    written = f'declare `metric NAME = "{name.path}" every {seldom}`, and use NAME'
                yield self.found(f"if `{name.path}` is never logged at all, this never fires", node.span,
                                 "counted from its newest point",
                                 written if declared is None else f"add `every {seldom}` to `metric {declared.name}`")  # fmt: skip
