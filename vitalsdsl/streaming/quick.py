"""Quick: steps in a few lines of generated Python.

For each set of names that a run logs at a step there is one generated function (`vitalsdsl.streaming.step_writer`): it takes
the values in, says of each condition whether it surely is so or surely is not (`vitalsdsl.streaming.glance`), tells the rules
that look at it (`vitalsdsl.streaming.followers`) where that may change anything, and has what is not sure evaluated node by
node, as the graph does. So what comes out is always the graph's, and what is generated remembers nothing that could not be
forgotten.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from vitalsdsl.nodes import base as nd
from vitalsdsl.planning.plan import Plan
from vitalsdsl.verdicts.verdict import RuleState

if TYPE_CHECKING:
    from vitalsdsl.streaming.step_writer import Written

AFTER = 64
"""So many steps with the same names before they are worth a function of their own."""

MOST = 8
"""Functions of one run. Names that come in ever new company are left to the graph."""

SEVERAL = 32
"""So many sets of names are counted at a time."""

UNEVEN, UNEVENLY, RESTS = 8, 64, 512
"""A step at another distance than the one before counts as much as so many others; where they come to so many, so many
steps are left to the graph."""


@dataclass
class Layout:
    """Steps at which the same names are logged, in the same order."""

    names: tuple[str, ...]
    written: Written
    is_stale: bool = True
    """Whether something else has come since its last step."""
    newest: tuple[int, float] = (-1, math.nan)
    """Its last step, and the time of that."""
    behind: dict[nd.Node, Sequence[nd.Node]] = field(default_factory=dict)
    """By condition, or value in a message, what is evaluated for it alone."""
    stride: int = 1
    """How far its last step was from the one before."""
    uneven: int = 0
    """Goes up with each step that comes at another distance than the last one, and down with all others."""
    rests: int = 0
    """So many steps more are left to the graph."""

    def see(self, step: int) -> None:
        """Nothing can be prepared for steps that come unevenly: after some it is left for a while."""
        stride = step - self.newest[0]
        if stride == self.stride:
            self.uneven = max(0, self.uneven - 1)
        else:
            self.stride = stride
            self.uneven += UNEVEN
            if self.uneven > UNEVENLY and self.written.aheads:
                self.uneven, self.rests = 0, RESTS


class Quick:
    """The generated functions of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._current: Layout | None = None
        self._times: dict[tuple[str, ...], int] = {}
        """How often steps with some names have come, of those that have no function."""

    def layout(self, values: Mapping[str, float]) -> Layout | None:
        """How steps with these names are taken in; None where it is left to the graph."""
        names = tuple(values)
        current = self._current
        if current is not None and names == current.names and not current.rests:  # as a rule
            return current
        layout = self._layouts.get(names)
        if layout is None:
            times = self._times.get(names, 0) + 1
            if len(self._layouts) >= MOST or not names:
                return None
            if times < AFTER:
                if len(self._times) >= SEVERAL:
                    self._times.clear()
                self._times[names] = times
                return None
            self.stand_aside()
            # Loaded only here: with it comes NumPy, and many a recorded run is over before it is worth it.
            written = import_module("vitalsdsl.streaming.step_writer").write(self._plan, names)
            layout = self._layouts[names] = Layout(names, written)
        if layout.rests:
            layout.rests -= 1
            return None
        if layout is not self._current:
            self.stand_aside()
            self._current = layout
        return layout

    def expect(self, names: Collection[str]) -> None:
        """Steps with these names, in this order, are worth a function from the first one on."""
        self._times[tuple(names)] = AFTER

    def step(self, layout: Layout, step: int, time: float, values: Mapping[str, float]) -> list[RuleState] | None:
        """Take a step in; the rules of which the level has to be looked at, None where nothing happened."""
        is_stale, layout.is_stale = layout.is_stale, False
        if layout.uneven or step - layout.newest[0] != layout.stride:
            layout.see(step)
        layout.newest = step, time
        return layout.written.watch.send((step, time, tuple(values.values()), is_stale))

    def failed_at(self, error: Exception) -> str:
        """The rule, event or metric in whose lines generated code has failed."""
        assert self._current is not None
        lines = self._current.written.source.splitlines()
        numbers = [at for frame, at in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == "watch"]
        before = lines[: numbers[-1]] if numbers else []
        return next((line.strip()[2:] for line in reversed(before) if line.strip().startswith("# ")), "a step")

    def behind(self, node: nd.Node) -> Sequence[nd.Node]:
        """What stands below a condition of a rule that has just changed its level, or below a value in its message, and has not
        been evaluated for it; with its points."""
        assert self._current is not None
        known, written = self._current.behind, self._current.written
        if node not in known:
            known[node] = self._plan.graph.behind(node, written.due)
        if known[node]:
            self.hand_over()
        return known[node]

    def hand_over(self) -> None:
        """Let all that remembers have the points that have come, and all that has a name its value."""
        if self._current is not None:
            written = self._current.written
            for ahead in written.aheads:
                ahead.hand_over()
            written.lets.run(*self._current.newest)

    def stand_aside(self) -> None:
        """Somebody else is about to take points in."""
        if self._current is not None:
            self.hand_over()
            self._current.is_stale = True
            self._current = None

    def forget(self) -> None:
        """The plan has changed: write everything anew."""
        self.stand_aside()
        self._layouts.clear()
        self._times.clear()

    @property
    def sources(self) -> dict[tuple[str, ...], str]:
        """What was written, by the names of the steps that it is for."""
        return {names: layout.written.source for names, layout in self._layouts.items()}
