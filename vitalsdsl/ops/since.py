"""since: how long ago something began."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vitalsdsl.kernels.edges import Edges
from vitalsdsl.ops.base import EVENT, Arguments, Stateful

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.told import Told


class Since(Stateful):
    """Steps since the newest edge of an event, that is since it last became true; 0 at that step.

    Compares with lengths in steps: `since(spike) < 200 steps`; a bare number means steps. Unknown before the first edge,
    so `not (since(spike) < 200 steps)` is unknown until there was a spike: write
    `not surely(since(spike) < 200 steps)`.

    It counts from where the event began, not from where it ended: of a spike that lasts 300 steps, `since` is 300 at its
    end. "Both within ten steps", in any order, is `since(a) <= 10 and since(b) <= 10`; `a then b within 10 steps` wants
    the order.

    >>> from vitalsdsl.ops.base import stream
    >>> stream(Since, [False, True, True, None, False, True])
    [nan, 0.0, 1.0, 2.0, 3.0, 0.0]
    """

    name = "since"
    phrase = "the steps since {EVENT} last began"
    parameters = (EVENT,)
    example = "when loss > 5 and since(grad_norm > 100) < 50 steps for 5 steps -> orange"

    @classmethod
    def sharing(cls, arguments: Arguments) -> tuple[Any, ...]:
        return ("edges",)

    @classmethod
    def new(cls, arguments: Arguments) -> Edges:
        return Edges()

    @classmethod
    def reader(cls, state: Edges, arguments: Arguments) -> Callable[[int, float], float]:
        return state.since

    @classmethod
    def columns_of_edges(cls, told: Told, rows: Rows, arguments: Arguments) -> Column | None:
        return told.since(rows)
