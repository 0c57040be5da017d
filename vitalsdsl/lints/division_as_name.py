"""`a/b` where a and b are metrics."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.guards import named
from vitalsdsl.lints.base import Lint, Looked


class DivisionAsName(Lint):
    """`loss/baseline_loss` is the name of one metric, not a division.

    Where both halves are names of this policy, or the second is a number, a division was probably meant: it needs white
    space after the `/`. A metric that is never logged makes a rule silent for ever.
    """

    code = "V007"
    bad = "when val_loss/loss > 2 or loss > 5 or val_loss > 5 -> yellow"
    good = "when val_loss / loss > 2 or loss > 5 or val_loss > 5 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        names = [n for e in at.expressions for n in named(e) if isinstance(n, ex.Name)]
        known = {n.path for n in names} | set(at.scope.names())
        for name in names:
            left, slash, right = name.path.partition("/")
            if slash and not name.quoted and name.path not in at.scope.metrics and left in known:
                if right in known or right.replace(".", "").isdigit():
                    yield self.found(f"`{name.path}` is the name of one metric", name.span, "not a division",
                                     f"to divide, write `{left} / {right}`")  # fmt: skip
