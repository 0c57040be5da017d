"""From conditions to levels: pending, firing, clearing; and the transitions that come of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vitalsdsl.ground.types import SAMPLES, STEPS, Extent, Reason
from vitalsdsl.language.rules import Level
from vitalsdsl.nodes.base import Clock, MetricNode, Node
from vitalsdsl.nodes.holding import Holding, Moment, Span
from vitalsdsl.nodes.signals import Phase, Root


@dataclass(frozen=True)
class Transition:
    """One change of a rule's level at a closed step: the waist between evaluation and everything that acts.

    `onset` is the first step of what led to the new level, None on green. `values` are what the deciding condition
    looked at, `margin` how far it was beyond its threshold, relative to it. `rung` counts the rung taken within the
    clause that decided (-1 for the built-in guard and on green), `clause` that clause.
    """

    run: str
    attempt: int
    rule: str
    member: str | None
    step: int
    onset: int | None
    from_: Level
    to: Level
    reason: str
    message: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    margin: float = math.nan
    policy: str = ""
    digest: str = ""
    time: float = math.nan
    clause: int = -1
    rung: int = -1

    @property
    def id(self) -> str:
        """The same for every watcher of the same run: so that each acts once."""
        parts = (self.run, self.attempt, self.digest, self.rule, self.member, self.step, self.to.word)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]

    def as_dict(self) -> dict[str, Any]:
        """As a JSON line: numbers that are not finite are written as words."""
        return {
            "type": "transition",
            "run": self.run,
            "attempt": self.attempt,
            "rule": self.rule,
            "member": self.member,
            "step": self.step,
            "onset": self.onset,
            "from": self.from_.word,
            "to": self.to.word,
            "reason": self.reason,
            "message": self.message,
            "values": {name: spoken(value) for name, value in self.values.items()},
            "margin": None if self.margin != self.margin else spoken(self.margin),
            "policy": self.policy,
            "digest": self.digest,
            "id": self.id,
        }


@dataclass(frozen=True)
class Past:
    """Where a run stood when it was last heard of: the attempt, its newest step with a change, the rules not green."""

    attempt: int
    step: float
    levels: Mapping[tuple[str, str | None], Level]


def spoken(value: float) -> float | str:
    """A number for JSON."""
    if math.isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


class Clause(Root):
    """One `when`: follows its condition, fires rung by rung, and clears."""

    __slots__ = (
        "after",
        "clear_holding",
        "clear_span",
        "clock",
        "condition",
        "counts",
        "fired",
        "gate",
        "holding",
        "latest",
        "level",
        "levels",
        "onset",
        "recent_false",
        "rung",
        "trues",
        "unknown_resets",
        "waits_for_clear",
    )  # fmt: skip
    is_condition = True

    def __init__(
        self,
        condition: Node,
        span: Span,
        levels: Sequence[Level],
        after: Sequence[Extent | None],
        clock: Clock,
        on: Node | None = None,
        gate: Gate | None = None,
        clear: Span | None = None,
        waits_for_clear: bool = False,
        unknown_resets: bool = False,
    ) -> None:
        super().__init__(condition.text, [condition], on)
        if on is None:
            self.pacers = [condition]
        if gate is not None:
            self.inputs.append(gate)
        self.condition = condition
        self.clock = clock
        self.gate = gate
        self.levels = list(levels)
        self.after = list(after)
        self.unknown_resets = unknown_resets
        self.waits_for_clear = waits_for_clear
        self.clear_span = clear
        self.holding = Holding(span, clock)
        self.clear_holding = Holding(clear or span.opposite(), clock)
        self.latest: bool | None = None
        self.level = Level.GREEN
        self.rung = -1
        self.onset: int | None = None
        self.fired: Moment | None = None
        self.trues = 0
        self.counts = any(extent is not None and extent.unit == SAMPLES for extent in self.after)
        """Whether the evaluations at which it is true are counted once it has fired."""

    def run(self, step: int, time: float) -> None:
        self.see(step, time, self.condition.value)

    def see(self, step: int, time: float, value: bool | None) -> None:
        """Take in what its condition is at a step."""
        if self.gate is not None and not self.gate.value:
            return
        self.latest = value
        if self.fired is None:
            self._pending(step, time, value)
        else:
            self._firing(step, time, value)

    def _pending(self, step: int, time: float, value: bool | None) -> None:
        if self.clear_holding.span.n and not self.waits_for_clear:
            # Any other span begins anew where the condition is true, which it is when it fires.
            self.clear_holding.see(step, time, None if value is None else not value)
        if self.holding.see(step, time, False if value is None and self.unknown_resets else value):
            onset = self.holding.onset
            assert onset is not None
            self.onset = onset.step
            self.fired = Moment(step, time, self.clock)
            self.trues = 0
            self._take(0)
            if self.waits_for_clear:
                self.clear_holding.forget()

    def _firing(self, step: int, time: float, value: bool | None) -> None:
        self.holding.see(step, time, value)
        if value:
            self.trues += self.counts
            self._climb(step, time)
        if not self.waits_for_clear and self.clear_holding.see(step, time, None if value is None else not value):
            self.clear()

    def _climb(self, step: int, time: float) -> None:
        """The last rung that is due."""
        fired = self.fired
        assert fired is not None
        for rung in range(len(self.levels) - 1, self.rung, -1):
            extent = self.after[rung]
            assert extent is not None
            by_count = extent.unit == SAMPLES
            passed = self.trues if by_count else fired.since(extent.unit, step, time, self.clock)
            if passed >= extent.size:
                self._take(rung)
                return

    def unmoved_until(self, step: int) -> float:
        """Up to which step nothing changes as long as its condition stays as it was at this one."""
        if self.gate is not None and not self.gate.value:
            return math.inf
        if self.latest is None or self.holding.span.n or self.clear_holding.span.n:
            return step
        if self.fired is None:
            return self.holding.unmoved_until(step)
        return self._climbs_after(step, self.fired) if self.latest else self.clear_holding.unmoved_until(step)

    def _climbs_after(self, step: int, fired: Moment) -> float:
        """Up to which step it surely takes no further rung."""
        coming = self.after[self.rung + 1 :]
        sizes = [extent.size for extent in coming if extent is not None and extent.unit == STEPS]
        if len(sizes) < len(coming):
            return step
        return max(step, fired.step + math.ceil(min(sizes)) - 1) if sizes else math.inf

    def _take(self, rung: int) -> None:
        self.rung = rung
        self.level = self.levels[rung]

    def clear(self) -> None:
        """Back to green; the span is forgotten."""
        self.level = Level.GREEN
        self.rung = -1
        self.onset = None
        self.fired = None
        self.trues = 0
        self.holding.forget()
        self.clear_holding.forget()

    def leave_phase(self) -> None:
        self.clear()
        self.latest = None

    def save(self) -> list[Any]:
        fired = self.fired.save() if self.fired else None
        return [self.latest, int(self.level), self.rung, self.onset, fired, self.trues,
                self.holding.save(), self.clear_holding.save()]  # fmt: skip

    def load(self, saved: list[Any]) -> None:
        self.latest, level, self.rung, self.onset, fired, self.trues, holding, clear = saved
        self.level = Level(level)
        self.fired = Moment.load(fired)
        self.holding.load(holding)
        self.clear_holding.load(clear)


class ClearWhen(Root):
    """`clear when COND for SPAN`: for each firing clause of the rule, counting from after it fired."""

    __slots__ = ("clauses", "condition")
    is_condition = True

    def __init__(self, condition: Node, clauses: Sequence[Clause]) -> None:
        super().__init__(condition.text, [condition, *clauses])
        self.pacers = [condition]
        self.condition = condition
        self.clauses = list(clauses)

    def run(self, step: int, time: float) -> None:
        self.see(step, time, self.condition.value)

    def see(self, step: int, time: float, value: bool | None) -> None:
        """Take in what its condition is at a step."""
        self.value = value
        for clause in self.clauses:
            fired = clause.fired
            if fired is None or step <= fired.step:
                continue
            if clause.gate is not None and not clause.gate.value:
                continue
            if clause.clear_holding.see(step, time, value) and clause.latest is not True:
                clause.clear()

    def unmoved_until(self, step: int) -> float:
        """The same, until one of them has fired."""
        return math.inf if all(clause.fired is None for clause in self.clauses) else step


class Gate(Root):
    """`in phase P, Q`: looks at every closed step whether the rule is inside one of them."""

    __slots__ = ("phases",)
    is_condition = True

    def __init__(self, phases: Sequence[Phase]) -> None:
        super().__init__(" or ".join(p.text for p in phases), list(phases))
        self.pacers = []
        self.phases = list(phases)
        self.value = False

    def run(self, step: int, time: float) -> None:
        self.value = any(phase.value is True for phase in self.phases)


class Guard(Root):
    """`nonfinite(METRIC)`: while the newest point is NaN or ±inf, as far as no rule of the policy has taken that over."""

    __slots__ = ("metric", "onset", "watches_inf", "watches_nan")
    remembered = ("value", "onset")

    def __init__(self, metric: MetricNode, watches_nan: bool, watches_inf: bool) -> None:
        super().__init__(metric.text, [metric])
        self.metric = metric
        self.watches_nan = watches_nan
        self.watches_inf = watches_inf
        self.value = False
        self.onset: int | None = None

    def run(self, step: int, time: float) -> None:
        x = self.metric.value
        self.value = (self.watches_nan and x != x) or (self.watches_inf and math.isinf(x))
        if not self.value:
            self.onset = None
        elif self.onset is None:
            self.onset = step


class RuleState:
    """A rule (one member of it, with `each`): its level is the highest of its clauses'."""

    __slots__ = ("clauses", "gate", "guard", "guard_level", "index", "level", "member", "name", "onset", "report")

    def __init__(
        self,
        name: str,
        index: int,
        clauses: Sequence[Clause] = (),
        member: str | None = None,
        gate: Gate | None = None,
        guard: Guard | None = None,
        guard_level: Level = Level.GREEN,
    ) -> None:
        self.name = name
        self.index = index
        self.member = member
        self.clauses = list(clauses)
        self.gate = gate
        self.guard = guard
        self.guard_level = guard_level
        self.level = Level.GREEN
        self.onset: int | None = None
        self.report: Callable[[RuleState, Change], Transition] | None = None

    def settle(self) -> Change | None:
        """Compare the clauses' levels with the rule's; what changed, if anything did."""
        guard, gate = self.guard, self.gate
        if guard is None and gate is not None and not gate.value:
            for clause in self.clauses:
                clause.leave_phase()
        to, deciding = self._due()
        if to == self.level:
            return None
        if guard is not None:
            return self._change(to, guard.onset, "nonfinite", None)
        is_out = gate is not None and not gate.value
        onset = None
        if deciding is not None:
            onset = min(c.onset for c in self.clauses if c.level == to and c.onset is not None)
        return self._change(to, onset, Reason.OUT_OF_PHASE.value if is_out else "condition", deciding)

    def is_due(self) -> bool:
        """Whether `settle` would find a change."""
        return self._due()[0] != self.level

    def _due(self) -> tuple[Level, Clause | None]:
        """The level that it has come to, and the clause that decides."""
        if self.guard is not None:
            return self.guard_level if self.guard.value else Level.GREEN, None
        to, deciding = Level.GREEN, None
        if self.gate is None or self.gate.value:
            for clause in self.clauses:
                if clause.level > to:
                    to, deciding = clause.level, clause
        return to, deciding

    def _change(self, to: Level, onset: int | None, reason: str, clause: Clause | None) -> Change:
        before, self.level, self.onset = self.level, to, onset
        return Change(before, to, onset, reason, clause)

    def save(self) -> list[Any]:
        return [int(self.level), self.onset, None if self.guard is None else self.guard.save()]

    def load(self, saved: list[Any]) -> None:
        self.level, self.onset = Level(saved[0]), saved[1]
        if self.guard is not None:
            self.guard.load(saved[2])


@dataclass(frozen=True)
class Change:
    """A rule's step from one level to another, before it is put into words."""

    before: Level
    to: Level
    onset: int | None
    reason: str
    clause: Clause | None
