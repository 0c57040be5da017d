"""`any(…) for`: a condition that members hand on to one another."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.looked import alternatives, conjuncts


class Relayed(Lint):
    """`any(act/layer_* > 5) for 20 steps` holds while one layer after another is above 5 for a step each.

    For the same member to hold out for the whole span, put it inside: `any(act/layer_* > 5 for 20 steps)`.
    """

    code = "V502"
    bad = "when any(act/layer_* > 5) for 20 steps -> yellow"
    good = "when any(act/layer_* > 5 for 20 steps) -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for _, clause in at.clauses:
            if clause.for_ is None:
                continue
            for part in (p for either in alternatives(clause.condition) for p in conjuncts(either)):
                if isinstance(part, ex.Call) and part.function == "any":
                    inner = part.arguments[0].value
                    if not isinstance(inner, ex.Held):
                        mended = f"any({expression_text(inner)} for {expression_text(clause.for_)})"
                        yield self.found("members can take turns in this", part.span, "no single one has to hold",
                                         f"write `{mended}`")  # fmt: skip
