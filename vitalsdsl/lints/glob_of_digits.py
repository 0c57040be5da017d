"""A `*` behind a digit."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.lints.base import Lint, Looked


class GlobOfDigits(Lint):
    """`layer_1*` takes layers 10 to 19 and 100 to 199: it goes by the letters, not by the number.

    A range of numbers is written `layer_{10..19}`, all of them `layer_*`.
    """

    code = "V303"
    bad = "when any(act/layer_1* > 5) -> yellow"
    good = "when any(act/layer_{10..19} > 5) -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        families = at.all(ex.Family) + [r.each.family for r in at.enabled() if r.each is not None]
        families = [f for f in families if f.path not in at.scope.metrics and f.path not in at.scope.lets]
        for family in families:
            found = re.search(r"([^/]*?)(\d+)\*", family.path)
            if found is not None:
                digits = found[2]
                ranged = family.path.replace(f"{digits}*", f"{{{digits}0..{digits}9}}", 1)
                everything = family.path.replace(f"{digits}*", "*", 1)
                yield self.found(f"`{found[0]}` goes by letters: it takes {digits}0 and {digits}00 alike",
                                 family.span, "a range of numbers?", f"write `{ranged}` or `{everything}`")  # fmt: skip
