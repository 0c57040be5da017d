"""An expression as it was: some steps before, at a step, before an event."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

from vitalsdsl.ground.types import SAMPLES, STEPS, Extent, Reason
from vitalsdsl.kernels.state import State

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Array, Column, Rows
    from vitalsdsl.kernels.spread_out import Points


class _Remembering(State):
    """Answers with a past evaluation; `unknown` (NaN, or None for conditions) until there is one."""

    takes_unknown = True
    remembered: ClassVar[tuple[str, ...]] = ("value",)

    def __init__(self, unknown: float | None) -> None:
        self.unknown = unknown
        self.value: Any = unknown

    def read(self, step: int, time: float) -> Any:
        return self.value

    def columns(self, points: Points, rows: Rows) -> Column | None:
        """The values at all closed steps of a run; None where the points have to be gone through."""
        return None

    def columns_at_edges(self, points: Points, edges: Array, rows: Rows) -> Column | None:
        """The same of one that answers with what was so at edges, which are at some rows."""
        return None

    def reason(self, step: int, time: float) -> Reason:
        return Reason.WARMING


class Lag(_Remembering):
    """The value at the latest evaluation at or before s - D (by time: t - D)."""

    remembered = ("value", "recent")

    def __init__(self, extent: Extent, unknown: float | None) -> None:
        super().__init__(unknown)
        self.extent = extent
        self.recent: deque[tuple[float, Any]] = deque()

    def push(self, step: int, time: float, value: Any) -> None:
        at: float = step if self.extent.unit == STEPS else time
        if at == at:  # a run without wall times has no past that is measured in time
            self.recent.append((at, value))

    def read(self, step: int, time: float) -> Any:
        bound = (step if self.extent.unit == STEPS else time) - self.extent.size
        recent = self.recent
        while recent and recent[0][0] <= bound:
            self.value = recent.popleft()[1]
        return self.value

    def columns(self, points: Points, rows: Rows) -> Column | None:
        return points.back(rows, self.extent)


class SampleLag(_Remembering):
    """The value n points before the newest."""

    takes_unknown = False
    remembered = ("recent",)

    def __init__(self, n: int, unknown: float | None) -> None:
        super().__init__(unknown)
        self.recent: deque[Any] = deque(maxlen=n + 1)

    def push(self, step: int, time: float, value: Any) -> None:
        self.recent.append(value)

    def read(self, step: int, time: float) -> Any:
        return self.recent[0] if len(self.recent) == self.recent.maxlen else self.unknown

    def columns(self, points: Points, rows: Rows) -> Column | None:
        return points.back(rows, Extent((self.recent.maxlen or 1) - 1, SAMPLES))


class AtStep(_Remembering):
    """The value at the latest evaluation at or before a step."""

    def __init__(self, at: float, unknown: float | None) -> None:
        super().__init__(unknown)
        self.at = at

    def push(self, step: int, time: float, value: Any) -> None:
        if step <= self.at:
            self.value = value

    def columns(self, points: Points, rows: Rows) -> Column | None:
        return points.until(rows, self.at).newest(rows)


class BeforeEdge(_Remembering):
    """The value as it stood at the last closed step before an edge; with `once`, before the first edge only."""

    remembered = ("value", "step", "last", "earlier", "done")

    def __init__(self, unknown: float | None, once: bool = False) -> None:
        super().__init__(unknown)
        self.once = once
        self.done = False
        self.step = -1
        self.last: Any = unknown
        self.earlier: Any = unknown

    def push(self, step: int, time: float, value: Any) -> None:
        if step != self.step:
            self.earlier = self.last
        self.step, self.last = step, value

    def edge(self, step: int, time: float) -> None:
        if not (self.once and self.done):
            self.done = True
            self.value = self.earlier if self.step == step else self.last

    def columns_at_edges(self, points: Points, edges: Array, rows: Rows) -> Column | None:
        return points.at_edges(edges[:1] if self.once else edges, rows, "left")


class AtEdge(_Remembering):
    """The value at the close of the step of an edge."""

    remembered = ("value", "last", "edge_step")

    def __init__(self, unknown: float | None) -> None:
        super().__init__(unknown)
        self.edge_step: int | None = None
        self.last: Any = unknown

    def push(self, step: int, time: float, value: Any) -> None:
        self.last = value
        if step == self.edge_step:
            self.value = value

    def edge(self, step: int, time: float) -> None:
        self.edge_step = step
        self.value = self.last

    def columns_at_edges(self, points: Points, edges: Array, rows: Rows) -> Column | None:
        return points.at_edges(edges, rows, "right")
