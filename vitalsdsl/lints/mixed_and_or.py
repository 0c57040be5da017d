"""`and` and `or` side by side without parentheses."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic, Fix
from vitalsdsl.language import expressions as ex
from vitalsdsl.lints.base import Lint, Looked


class MixedAndOr(Lint):
    """`a or b and c` is read as `a or (b and c)`: half of all readers expect the other.

    Parentheses cost nothing and say which is meant. After such a mix, a `for` looks as if it were about the last part; it
    is about the whole.
    """

    code = "V004"
    bad = "when loss > 3 or grad_norm > 5 and lr > 0 -> yellow"
    good = "when loss > 3 or (grad_norm > 5 and lr > 0) -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for node in at.all(ex.Or):
            for side in node.operands:
                if isinstance(side, ex.And) and not side.grouped:
                    text = side.span.text
                    yield self.found(
                        "`and` and `or` are mixed without parentheses", side.span, "read as one part",
                        f"write `({text})` if that is meant", fix=Fix(side.span, f"({text})", safe=True),
                    )  # fmt: skip
