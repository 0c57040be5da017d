"""A window that has to remember very many points."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.ops import base
from vitalsdsl.ops.base import Takes

MOST_POINTS = 1_000_000
"""16 MB for one window of one metric; a family has that much for each member."""


class MuchMemory(Lint):
    """A window keeps its points in the training process: a million take about 16 MB, and a family that much a member.

    `ema`, `baseline`, `lowest` and `highest` keep only a few numbers. For a long reference `usual` over a shorter window,
    which does not learn during trouble, mostly does what is wanted.
    """

    code = "V508"
    sees_more_in_runs = True
    bad = "when loss > 2 * mean(loss, 5M steps) -> yellow"
    good = "when loss > 2 * ema(loss, 5M steps) -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for node in at.all(ex.Call):
            function = base.registry().get(node.function)
            if function is None or not issubclass(function, base.Stateful) or node.function in ("ema", "baseline"):
                continue
            given, window = at.given(node), at.window(node)
            stream = next((p.name for p in function.positional() if p.takes in (Takes.STREAM, Takes.CONDITION)), "")
            points = at.points(window, given[stream]) if stream in given else None
            if points is not None and points > MOST_POINTS:
                yield self.found(f"`{expression_text(node)}` keeps up to {points:,.0f} points", node.span,
                                 f"about {points * 16 / 1e6:,.0f} MB", "take a shorter window, or `ema`")  # fmt: skip
