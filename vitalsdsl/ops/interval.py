"""interval: how far apart something happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vitalsdsl.ground.types import STEPS, Extent
from vitalsdsl.kernels.edges import Edges
from vitalsdsl.ops.base import Arguments
from vitalsdsl.ops.since import Since as _Since

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.told import Told


class Interval(_Since):
    """Steps between the two newest edges of an event. Unknown before the second edge.

    Compares with lengths in steps: `interval(spike) < 500 steps`; a bare number means steps. As a stream it has a point
    at each edge from the second on: `median(interval(spike), 5 samples)` is the usual distance of the last six spikes,
    and `monotone_down(interval(spike), 4 samples)` says that they come faster and faster.

    It stays short when the spikes have long stopped: put `since(spike) < 2000 steps` beside it.

    >>> from vitalsdsl.ops.base import stream
    >>> stream(Interval, [True, False, False, True, False, True])
    [nan, nan, nan, 3.0, 3.0, 2.0]
    """

    name = "interval"
    phrase = "the steps between the last two {EVENT}"
    points_at_edges = True
    example = "when interval(grad_norm > 100) < 500 steps and since(grad_norm > 100) < 500 steps -> yellow"

    @classmethod
    def warm_up(cls, arguments: Arguments) -> tuple[Extent, ...]:
        return (Extent(2, STEPS),)  # between two edges it has to be false once

    @classmethod
    def reader(cls, state: Edges, arguments: Arguments) -> Callable[[int, float], float]:
        return state.interval

    @classmethod
    def columns_of_edges(cls, told: Told, rows: Rows, arguments: Arguments) -> Column | None:
        return told.interval(rows)
