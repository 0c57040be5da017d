"""onsets: how often something began."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.kernels.edges import EdgeCount
from vitalsdsl.ops.base import EVENT, WINDOW, Arguments, Stateful

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.told import Told


class Onsets(Stateful):
    """The number of edges of an event in a window: how often it became true. Known from the start, as 0.

    A window of samples is the event's last W evaluations that were known. A window of time is unknown where the run has
    no wall times.

    It counts beginnings: eight loss-scale cuts in a row are one edge. For how many evaluations were true take
    `fraction(cond, W)`. A condition that flickers about its threshold makes many edges: give the event `apart 50 steps`.

    >>> from vitalsdsl.ops.base import stream
    >>> stream(Onsets, [True, True, False, True, False, False], W=(4, "steps"))
    [1.0, 1.0, 1.0, 2.0, 1.0, 1.0]
    """

    name = "onsets"
    phrase = "the number of times {EVENT} began within {W}"
    parameters = (EVENT, WINDOW)
    example = "when onsets(loss > 10, 1000 steps) >= 3 -> orange"
    counts_edges = True

    @classmethod
    def known_from_start(cls, arguments: Arguments) -> bool:
        return True

    @classmethod
    def new(cls, arguments: Arguments) -> EdgeCount:
        return EdgeCount(arguments["W"])

    @classmethod
    def columns_of_edges(cls, told: Told, rows: Rows, arguments: Arguments) -> Column | None:
        return told.count(rows, arguments["W"])
