"""A field of a message that is nearly the name of a metric."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import name_text
from vitalsdsl.lints.base import Lint, Looked

NEAR = 0.8


class MisspeltField(Lint):
    """A field of `because` names a metric that no condition reads, and one that is read is called nearly the same.

    The rule works, and its message says `unknown` when it is needed. Names that differ in a number alone are two metrics.
    """

    code = "V319"
    bad = 'rule high { when loss > 3 -> yellow because "loss is {los:.2f}" }'
    good = 'rule high { when loss > 3 -> yellow because "loss is {loss:.2f}" }'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        read = {name.path for name in at.all(ex.Name)}
        for path, name in at.said_here.items():
            if path in read or path in at.scope.metrics:
                continue
            near = [
                n for n in difflib.get_close_matches(path, read, 3, NEAR) if _without_digits(n) != _without_digits(path)
            ]
            if near:
                yield self.found(f"no condition reads `{name_text(path)}`", name.span, "not a name of this policy",
                                 f"did you mean `{name_text(near[0])}`?")  # fmt: skip


def _without_digits(name: str) -> str:
    return re.sub(r"\d+", "", name)
