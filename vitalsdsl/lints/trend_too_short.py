"""A trend over too few points."""

from __future__ import annotations

import math
from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked

_TRENDS = ("rising", "falling", "flat")


class TrendTooShort(Lint):
    """`rising` and its sisters compare the halves of a window: they need four points in each, and sixteen to see much.

    Below eight points they are unknown for ever: six evaluations that rise without a break say nothing. Over n points the
    smallest rise that is told from noise is 3 x 1.25 x √(4/n) times the scatter of neighbours: 2.7 of it at 8 points, 1.9
    at 16, 0.75 at 100. For a handful of points `monotone_up` or `x > 1.05 * lowest(x)` says more.
    """

    code = "V207"
    sees_more_in_runs = True
    bad = "when rising(val_loss, 6 samples) and val_loss > 1.05 * lowest(val_loss) -> yellow"
    good = "when rising(val_loss, 20 samples) and val_loss > 1.05 * lowest(val_loss) -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for node in at.all(ex.Call):
            given = at.given(node) if node.function in _TRENDS else {}
            points = at.points(at.window(node), given["x"]) if given else None
            if points is None or points >= 12:
                continue
            text, window = expression_text(node), given["W"]
            if points < 8:
                yield self.found(f"`{text}` is never known: it needs 8 points", window.span, f"{points:g} at most",
                                 "write `20 samples`, or use `monotone_up(x, 3 samples)`")  # fmt: skip
            else:
                least = 3 * 1.2533 * math.sqrt(4 / points)
                yield self.found(
                    f"over {points:g} points a trend has to exceed {least:.1f} times the noise", window.span,
                    "few points", "take a longer window, or `monotone_up(x, 3 samples)`",
                )  # fmt: skip
