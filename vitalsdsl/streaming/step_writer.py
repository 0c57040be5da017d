"""Writes the function for steps at which certain names are logged: readable Python, a few lines a metric and one a rule.

Printed by `vitals explain --code`. In its names two underscores stand before the metric that something belongs to.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import math
import operator
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from vitalsdsl.kernels.ahead import NAMES, Ahead
from vitalsdsl.kernels.pieces import InShortWindow
from vitalsdsl.kernels.state import State
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes.signals import Freeze, Root
from vitalsdsl.planning.plan import Plan
from vitalsdsl.streaming.glance import Glance, Names, Stream, ahead_of, below
from vitalsdsl.streaming.unit import Unit, read_ahead
from vitalsdsl.verdicts.verdict import Clause, ClearWhen, Guard, RuleState

Step = tuple[int, float, tuple[float, ...], bool]
"""A step, its time, the values of its names in their order, and whether something else has come in between."""

Watch = Generator["list[RuleState] | None", Step, None]
"""Takes steps; says of which rules the level has to be looked at, None where nothing happened."""


@dataclass(frozen=True)
class Written:
    """A function and what it works with. `given` are the nodes that it evaluates at each step."""

    source: str
    watch: Watch
    aheads: list[Ahead]
    given: frozenset[nd.Node]
    units: list[Unit]


_TOOLS = {
    "sqrt": math.sqrt,
    "mul": operator.mul,
    "accumulate": itertools.accumulate,
    "nan": math.nan,
    "inf": math.inf,
}


def write(plan: Plan, logged: Sequence[str]) -> Written:
    """The function for steps at which these names are logged, in this order."""
    return _Writer(plan, logged).written()


class _Writer:
    def __init__(self, plan: Plan, logged: Sequence[str]) -> None:
        self._plan = plan
        self._logged = logged
        self._bound: dict[str, Any] = {**_TOOLS, "bounded": _bounded}
        self._names = Names()
        self._touched: list[RuleState] = []
        self._locals: list[str] = []
        """The local name of each logged one."""
        self._also: list[str] = []
        """Lines for values that feed more than one thing."""
        self._streams: dict[nd.Node, Stream] = {}
        self._aheads: dict[State, Ahead] = {}
        self._quiet: list[str | None] = []
        """Of each unit when it surely is quiet."""
        self._gates: list[str] = []
        for name in logged:
            self._take(name)
        fresh = frozenset(stream.node.name for stream in self._streams.values())
        self._due = plan.graph.due(fresh)

    def _take(self, name: str) -> None:
        local = self._names.new(name)
        self._locals.append(local)
        intakes = [intake for intake in self._plan.metrics.routes.get(name, ()) if intake.bound == name]
        for intake in intakes:
            if intake.is_counter:
                counters = self._bind("counters", self._plan.graph.clock.counters)
                self._also.append(f"{counters}[{intake.metric.name!r}] = {local}")
            elif any(stream.name == local for stream in self._streams.values()):
                own = self._names.new(name)
                self._also.append(f"{own} = {local}")
                self._streams[intake.metric] = Stream(own, intake.metric)
            else:
                self._streams[intake.metric] = Stream(local, intake.metric)

    def written(self) -> Written:
        units, others = self._units()
        for unit in units:
            unit.surely_quiet(
                Glance(self._streams, Names())
            )  # finds the windows that are prepared, which others rest on
        self._prepare()
        glance = Glance(self._streams, self._names)
        self._quiet = [unit.surely_quiet(glance) for unit in units]
        needed = {inner for root in others for child in root.inputs for inner in below(child)}
        needed |= {inner for leaf in glance.leaves for inner in below(leaf)}
        given = [node for node in self._due if node in needed or node in others]
        for unit in units:
            unit.prepare(self._plan.graph.order, given, self._aheads)
        body = [*self._intake(glance), *self._given(given, glance), *self._tests(units), *self._close()]
        source = self._function(body, len(units))
        watch = _compiled(source, f"<rules at steps with {', '.join(self._logged)[:80]}>")(**self._bound)
        next(watch)
        return Written(source, watch, list(dict.fromkeys(self._aheads.values())), frozenset(given), units)

    def _units(self) -> tuple[list[Unit], list[Root]]:
        """The roots that run at the step: those that stand and fall with a rule's conditions, and all others."""
        others = [node for node in self._due if isinstance(node, Root) and not isinstance(node, Guard)]
        units = []
        for rule in self._plan.rules:
            own = {clause.condition for clause in rule.clauses}
            roots = [root for root in others if _belongs(root, rule, own)]
            others = [root for root in others if root not in roots]
            if roots:
                units.append(Unit(rule, roots, self._touched))
        return units, others

    def _prepare(self) -> None:
        streams = [stream for stream in self._streams.values() if stream.is_ahead]
        for place, stream in enumerate(streams):
            windows = ahead_of(stream.node)
            ahead = Ahead(windows, list(stream.windows.items()), place / len(streams))
            self._aheads.update(dict.fromkeys(windows, ahead))
            self._bind(f"keep__{stream.name}", ahead.values.append)
            self._bind(f"renew__{stream.name}", ahead.renew)
            self._bind(f"lately__{stream.name}", ahead.lately)
            self._bind(f"lately_away__{stream.name}", ahead.lately_away)

    def _bind(self, name: str, value: Any) -> str:
        self._bound[name] = value
        return name

    # ---------------------------------------------------------------- the points

    def _intake(self, glance: Glance) -> list[str]:
        lines = list(self._also)
        guarded = {rule.guard.metric: rule for rule in self._plan.rules if rule.guard is not None}
        for stream in self._streams.values():
            name, node = stream.name, self._bind(f"node__{stream.name}", stream.node)
            lines.append(f"# {stream.node.name}")
            if stream.is_ahead:
                lines += self._block(stream, glance)
            lines += [f"{node}.step = {node}.own_step = step", f"{node}.time = time", f"{node}.value = {name}"]
            pushes = [push for push in stream.node.subscribers if getattr(push, "__self__", None) not in self._aheads]
            for place, push in enumerate(pushes):
                lines.append(f"{self._bind(f'push__{name}_{place}', push)}(step, time, {name})")
            if stream.node in guarded:
                look = self._bind(f"guard__{name}", _guard(guarded[stream.node], self._touched))
                lines += _if(f"awake__{name} or not {name} - {name} == 0.0", f"awake__{name} = {look}(step, time)")
        return lines

    def _block(self, stream: Stream, glance: Glance) -> list[str]:
        """Take a point of a stream whose windows are prepared ahead, and say what they come to."""
        name = stream.name
        stands = [each for window in stream.windows.values() for each in window.standing]
        young = [window.young for window in stream.windows.values()]
        units = [f"awake_{n}" for n, test in enumerate(self._quiet) if test and any(each in test for each in young)]
        wakes = _if(f"was_young != ({', '.join(young)},)", f"{' = '.join(units)} = True") if units else []
        begun = ", ".join([*(f"{each}__{name}" for each in NAMES), *stands, f"rows__{name}"])
        short = [
            each for window in stream.windows.values() if isinstance(window, InShortWindow) for each in window.lists
        ]
        lines = [
            f"row = None if restart else next(rows__{name}, None)",
            *_if(
                f"row is None or not floor__{name} <= {name} <= ceiling__{name}",
                *([f"was_young = {', '.join(young)},"] if units else []),
                f"{begun} = renew__{name}(step, {name}, stride)",
                f"row = next(rows__{name})",
                f"sum__{name} = squares__{name} = 0.0",
                f"low__{name}, high__{name} = inf, -inf",
                *(f"{each} = None" for each in short),
                *wakes,
                *(f"{near} = {code}" for near, (code, streams) in glance.nears.items() if name in streams),
            ),
            f"keep__{name}({name})",
        ]
        return [*lines, *self._taken(stream), *self._short(stream), *(
            f"{each} = {code}" for window in stream.windows.values() for each, code in window.lines.items()
        )]  # fmt: skip

    def _taken(self, stream: Stream) -> list[str]:
        """A point into the sums of its block, and what the older ones come to."""
        name = stream.name
        windows = list(stream.windows.values())
        asked = {column for window in windows for column in window.in_rows}
        lines = []
        if {"older", "squares"} & {column for window in windows for column in window.columns}:
            lines.append(f"away = {name} - pivot__{name}")
        if "older" in asked:
            lines.append(f"sum__{name} += away")
        if "squares" in asked:
            lines.append(f"squares__{name} += away * away")
        if "high" in asked:
            lines += _if(f"{name} > high__{name}", f"high__{name} = {name}")
        if "low" in asked:
            lines += _if(f"{name} < low__{name}", f"low__{name} = {name}")
        columns = [f"{each}__{name}_{window.number}" for window in windows for each in window.in_rows]
        return [*lines, f"{', '.join(columns)}, = row"] if columns else lines

    def _short(self, stream: Stream) -> list[str]:
        """The windows that have blocks of their own."""
        name = stream.name
        short = [window for window in stream.windows.values() if isinstance(window, InShortWindow)]
        if not short:
            return []
        lines = [f"lately__{name}.append({name})"]
        if any({"older", "squares"} & set(window.columns) for window in short):
            lines.append(f"lately_away__{name}.append(away)")
        for window in short:
            if window.columns:
                lines += [*_if(f"not {window.lists[0]}", *window.begin()), *window.take()]
        return lines

    # ---------------------------------------------------------------- what is evaluated

    def _given(self, given: Sequence[nd.Node], glance: Glance) -> list[str]:
        lines = [
            f"{self._bind(f'hand_over_{n}', ahead.hand_over)}()"
            for n, ahead in enumerate(read_ahead(given, self._aheads))
        ]
        for n, node in enumerate(given):
            lines.append(f"{self._bind(f'run_{n}', node.run)}(step, time)")
        for n, (leaf, name) in enumerate(glance.leaves.items()):
            lines.append(f"{name} = {self._bind(f'leaf_{n}', leaf)}.value")
        return lines + [f"{name} = {code}" for name, code in glance.lines.items()]

    def _tests(self, units: Sequence[Unit]) -> list[str]:
        lines: list[str] = []
        tests = self._quiet
        for n, (unit, test) in enumerate(zip(units, tests)):
            rule = unit.rule
            lines.append(f"# {rule.name}" if rule.member is None else f"# {rule.name}: {rule.member}")
            run = self._bind(f"unit_{n}", unit.run)
            if test is None:
                lines.append(f"{run}(step, time)")
                continue
            if rule.gate is not None:
                lines += self._at_a_gate(n, rule, f"awake_{n} = True")
            lines += _if(f"awake_{n} or not ({test})", f"awake_{n} = {run}(step, time)")
        gated = [
            rule for rule in self._plan.rules if rule.gate is not None and all(unit.rule is not rule for unit in units)
        ]
        for n, rule in enumerate(gated, start=len(units)):
            lines += [f"# {rule.name}", *self._at_a_gate(n, rule, f"touched.append({self._bind(f'rule_{n}', rule)})")]
        return lines

    def _at_a_gate(self, n: int, rule: RuleState, then: str) -> list[str]:
        """Where a rule's phase begins or ends."""
        gate = self._bind(f"gate_{n}", rule.gate)
        self._gates.append(f"inside_{n}")
        return _if(f"inside_{n} is not {gate}.value", f"inside_{n} = {gate}.value", then)

    def _close(self) -> list[str]:
        lines = [
            f"{self._bind(f'close_{n}', reference.close)}(step, time)"
            for n, reference in enumerate(self._plan.graph.references)
        ]
        self._bind("touched", self._touched)
        return [*lines, *_if("touched", "changed = touched.copy()", "touched.clear()")]

    # ---------------------------------------------------------------- the function

    def _function(self, body: Sequence[str], units: int) -> str:
        ahead = [stream for stream in self._streams.values() if stream.is_ahead]
        awake = [f"awake_{n}" for n in range(units)] + [f"awake__{stream.name}" for stream in self._streams.values()]
        awake += self._gates  # neither what a gate says, so that it is looked at
        start = [f"{each}__{stream.name}" for stream in ahead for each in NAMES]
        start += [f"rows__{stream.name}" for stream in ahead]
        start += [each for stream in ahead for window in stream.windows.values() for each in window.standing]
        lines = [
            "before, due, stride = -1, None, 1",
            *([f"{' = '.join(start)} = nan"] if start else []),
            "changed = None",
            "while True:",
            f"    step, time, ({', '.join(self._locals)},), stale = yield changed",
            "    changed = None",
            "    restart = stale or step != due",
            "    if restart and not stale:",
            "        stride = step - before",
            *(["    if stale:", f"        {' = '.join(awake)} = True"] if awake else []),
            "    before, due = step, step + stride",
            *(f"    {line}" for line in body),
        ]
        return f"def watch({', '.join(self._bound)}):\n" + "\n".join(f"    {line}" for line in lines) + "\n"


def _belongs(root: Root, rule: RuleState, conditions: Collection[nd.Node]) -> bool:
    if isinstance(root, Clause):
        return root in rule.clauses
    if isinstance(root, ClearWhen):
        return root.clauses[0] in rule.clauses
    return isinstance(root, Freeze) and root.condition in conditions


def _guard(rule: RuleState, touched: list[RuleState]) -> Callable[[int, float], bool]:
    guard = rule.guard
    assert guard is not None

    def look(step: int, time: float) -> bool:
        guard.run(step, time)
        touched.append(rule)
        return bool(guard.value)

    return look


def _bounded(error: float) -> float:
    """An error without bound is NaN: nothing is surely farther apart than that."""
    return error if error < math.inf else math.nan


def _if(condition: str, *then: str) -> list[str]:
    return [f"if {condition}:", *(f"    {line}" for line in then)]


@functools.lru_cache(maxsize=64)
def _code(source: str, name: str) -> CodeType:
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return compile(source, name, "exec")


def _compiled(source: str, name: str) -> Callable[..., Watch]:
    """The function; runs of one policy that log the same names share its code."""
    namespace: dict[str, Any] = {}
    exec(_code(source, name), namespace)
    made: Callable[..., Watch] = namespace["watch"]
    return made
