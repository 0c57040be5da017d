"""Roots: nodes with a pace of their own, which keep their value between evaluations.

Feeds, lets, events, held conditions and sequences. A root is evaluated at each closed step at which a metric that it
reads has a point; at every closed step if it reads none or uses `missing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from vitalsdsl.ground.types import EPOCHS, SAMPLES, STEPS, TIME, TOKENS, Extent, Reason
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.state import State
from vitalsdsl.nodes.base import Clock, Node
from vitalsdsl.nodes.holding import Holding, Span


class Root(Node):
    """The base. `on` is the one metric that paces it, where the policy says so; `remembered` is what is saved."""

    __slots__ = ("on",)

    is_root = True
    remembered: ClassVar[tuple[str, ...]] = ("value",)

    def __init__(self, text: str, inputs: list[Node], on: Node | None = None) -> None:
        super().__init__(text)
        self.inputs: list[Node] = inputs
        self.pacers = inputs if on is None else [on]
        self.on = on
        if on is not None and on not in inputs:
            inputs.append(on)

    def save(self) -> list[Any]:
        return [getattr(self, name) for name in self.remembered]

    def load(self, saved: list[Any]) -> None:
        for name, value in zip(self.remembered, saved, strict=True):
            setattr(self, name, value)


Push = Callable[[int, float, Any], None]


class Feed(Root):
    """Evaluates an argument by itself and hands its points to the functions that asked for them."""

    __slots__ = ("known", "source", "step", "time", "unknown_too")

    def __init__(self, source: Node, on: Node | None = None) -> None:
        super().__init__(source.text, [source], on)
        self.source = source
        self.value = source.value
        self.step: int | None = None
        self.time = math.nan
        self.known: list[Push] = []
        self.unknown_too: list[Push] = []

    remembered = ("value", "step", "time")

    def run(self, step: int, time: float) -> None:
        value = self.value = self.source.value
        for push in self.unknown_too:
            push(step, time, value)
        if value is None or value != value:
            return
        self.step, self.time = step, time
        for push in self.known:
            push(step, time, value)

    def why(self) -> Reason:
        return self.source.why()


class Let(Feed):
    """A named feed; read as a name it is its latest evaluation, which may be unknown."""

    __slots__ = ()


class EdgeFeed(Feed):
    """The feed of `interval(EVENT)`: it has a point at each edge, not at each evaluation."""

    __slots__ = ("event",)

    def __init__(self, source: Node, event: Event) -> None:
        super().__init__(source)
        self.event = event

    def run(self, step: int, time: float) -> None:
        if self.event.edge_step == step:
            super().run(step, time)


class Probe(Root):
    """A condition evaluated by itself; knows when that last was."""

    __slots__ = ("source", "step")
    is_condition = True
    remembered = ("value", "step")

    def __init__(self, source: Node, on: Node | None = None) -> None:
        super().__init__(source.text, [source], on)
        self.source = source
        self.step: int | None = None

    def run(self, step: int, time: float) -> None:
        self.value = self.source.value
        self.step = step

    def why(self) -> Reason:
        return self.source.why()


class Held(Root):
    """`(c for 3 samples)`: true where it holds; an unknown leaves it as it was."""

    __slots__ = ("holding", "source")
    is_condition = True

    def __init__(self, text: str, source: Node, span: Span, clock: Clock) -> None:
        super().__init__(text, [source])
        self.source = source
        self.holding = Holding(span, clock)

    def run(self, step: int, time: float) -> None:
        value = self.source.value
        if value is not None:
            self.value = self.holding.see(step, time, value)

    def why(self) -> Reason:
        return self.source.why()

    def save(self) -> list[Any]:
        return [self.value, self.holding.save()]

    def load(self, saved: list[Any]) -> None:
        self.value = saved[0]
        self.holding.load(saved[1])


class Event(Held):
    """True from where its condition holds until that is false. Its edges are where it becomes true, the first known
    evaluation counting as after false; with `apart`, an edge too soon after the last one kept is dropped.

    Also the anonymous events of raw conditions, and phases.
    """

    __slots__ = ("apart", "clock", "edge_step", "edge_time", "evaluated_step", "evaluations", "listeners", "since_edge")

    def __init__(self, text: str, source: Node, span: Span, clock: Clock, apart: Extent | None = None) -> None:
        super().__init__(text, source, span, clock)
        self.clock = clock
        self.apart = apart
        self.edge_step: int | None = None
        self.edge_time = math.nan
        self.evaluated_step: int | None = None
        self.since_edge = 0
        self.listeners: list[State] = []

    def run(self, step: int, time: float) -> None:
        self.see(step, time, self.source.value)

    def see(self, step: int, time: float, value: bool | None) -> None:
        """Take in what its condition is at a step."""
        before = self.value
        known = value is not None
        self.evaluated_step = step
        self.since_edge += 1
        for listener in self.listeners:
            listener.evaluated(step, time, known)
        if not known:
            return
        holds = self.holding.see(step, time, bool(value))
        self.value = holds or (bool(before) and bool(value))
        if self.value and not before and not self._too_soon(step, time):
            self.edge_step, self.edge_time, self.since_edge = step, time, 0
            for listener in self.listeners:
                listener.edge(step, time)

    def _too_soon(self, step: int, time: float) -> bool:
        if self.apart is None or self.edge_step is None:
            return False
        size, unit = self.apart
        if unit == SAMPLES:
            return self.since_edge < size
        return (time - self.edge_time if unit == TIME else step - self.edge_step) < size

    def save(self) -> list[Any]:
        return [*super().save(), self.edge_step, self.edge_time, self.evaluated_step, self.since_edge]

    def load(self, saved: list[Any]) -> None:
        super().load(saved[:2])
        self.edge_step, self.edge_time, self.evaluated_step, self.since_edge = saved[2:]


class Phase(Event):
    """A stretch of the run; tells its listeners where it ends."""

    __slots__ = ("ends",)

    def __init__(self, text: str, source: Node, clock: Clock) -> None:
        super().__init__(text, source, Span(), clock)
        self.ends: list[State] = []

    def see(self, step: int, time: float, value: bool | None) -> None:
        before = self.value
        super().see(step, time, value)
        if before and self.value is False:
            for listener in self.ends:
                listener.edge(step, time)


class Then(Root):
    """`A then B within D`: at an evaluation at which B is true, A had an edge at most D before. Unknown where B is."""

    __slots__ = ("by_time", "first", "second", "within")
    is_condition = True

    def __init__(self, text: str, first: Event, second: Node, within: Extent) -> None:
        super().__init__(text, [first, second])
        self.first = first
        self.second = second
        self.within = within.size
        self.by_time = within.unit == TIME

    def run(self, step: int, time: float) -> None:
        value = self.second.value
        if value:
            edge = self.first.edge_step
            if edge is None:
                value = False
            else:
                value = (time - self.first.edge_time if self.by_time else step - edge) <= self.within
        self.value = value

    def why(self) -> Reason:
        return self.second.why()


class ThenNo(Root):
    """`A then no B within D`: an edge of A opens an instance, a true evaluation of B closes it; true once one has been
    open for D. Never unknown."""

    __slots__ = ("by_time", "first", "opened", "opened_time", "second", "within")
    is_condition = True
    remembered = ("value", "opened", "opened_time")

    def __init__(self, text: str, first: Event, second: Event | Probe, within: Extent) -> None:
        super().__init__(text, [first, second])
        self.first = first
        self.second = second
        self.within = within.size
        self.by_time = within.unit == TIME
        self.opened: int | None = None
        self.opened_time = math.nan

    def run(self, step: int, time: float) -> None:
        second = self.second
        evaluated = second.evaluated_step if isinstance(second, Event) else second.step
        if evaluated == step and second.value:
            self.opened, self.opened_time = None, math.nan
        if self.opened is None and self.first.edge_step == step:
            self.opened, self.opened_time = step, time
        if self.opened is None:
            self.value = False
        else:
            self.value = (time - self.opened_time if self.by_time else step - self.opened) >= self.within


class Freeze(Root):
    """One condition that keeps one reference from learning.

    A point is kept out if the latest evaluation of the condition was true, or unknown though the reference was known,
    until that has gone on for longer than all of `limits`: then it is let in, and the count begins anew.
    """

    __slots__ = ("clock", "condition", "count", "counts", "freezing", "limits", "reference", "start")
    is_condition = True
    remembered = ("freezing", "count", "start")

    def __init__(
        self, condition: Node, reference: Accepted, limits: list[Extent], clock: Clock, on: Node | None = None
    ) -> None:
        super().__init__(condition.text, [condition], on)
        self.condition = condition
        self.reference = reference
        self.limits = limits
        self.counts = any(limit.unit == SAMPLES for limit in limits)
        """Whether the evaluations at which it freezes are counted."""
        self.clock = clock
        self.freezing = False
        self.count = 0
        self.start: list[float] | None = None

    def run(self, step: int, time: float) -> None:
        self.see(step, time, self.condition.value)

    def see(self, step: int, time: float, value: bool | None) -> None:
        """Take in what the condition is at a step."""
        self.freezing = value is True or (value is None and self.reference.is_known)
        if self.freezing:
            self.count += self.counts
            self._begin(step, time)

    def unmoved_until(self, step: int) -> float:
        """Up to which step nothing changes as long as the condition stays as it was at this one, which is known."""
        return step if self.counts else math.inf

    def _begin(self, step: int, time: float) -> None:
        if self.start is None:
            self.start = [step, time, self.clock.counter("epoch"), self.clock.counter("tokens")]

    def admits(self, step: int, time: float) -> bool:
        """Whether this condition lets the point of this step in."""
        if self.freezing:
            self._begin(step, time)
            if not all(self._exceeded(limit, step, time) for limit in self.limits):
                return False
        self.start = None
        self.count = 0
        return True

    def _exceeded(self, limit: Extent, step: int, time: float) -> bool:
        assert self.start is not None
        if limit.unit == SAMPLES:
            return self.count > limit.size
        now = {
            STEPS: step - self.start[0] + 1,
            TIME: time - self.start[1],
            EPOCHS: self.clock.counter("epoch") - self.start[2],
            TOKENS: self.clock.counter("tokens") - self.start[3],
        }
        return now[limit.unit] > limit.size


class Reference:
    """What x usually is, with the conditions that freeze it; decides on the waiting point when the step closes."""

    __slots__ = ("accepted", "freezes")

    def __init__(self, accepted: Accepted) -> None:
        self.accepted = accepted
        self.freezes: list[Freeze] = []

    def close(self, step: int, time: float) -> None:
        pending = self.accepted.pending
        if pending is None:
            return
        if not math.isfinite(pending[1]):
            self.accepted.decide(False)  # nobody let it in, so no condition's count begins anew
            return
        accept = True
        for freeze in self.freezes:  # all are asked: each keeps its own count
            if not freeze.admits(step, time):
                accept = False
        self.accepted.decide(accept)
