"""Writes the function for steps at which certain names are logged: readable Python, a few lines a metric and one a rule.

Printed by `vitals explain --code`. In its names two underscores stand before the metric that something belongs to.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import math
import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from vitalsdsl.kernels.ahead import NAMES, Ahead
from vitalsdsl.kernels.bracket import Bracket
from vitalsdsl.kernels.state import State
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes.signals import Event, Freeze, Root
from vitalsdsl.planning.plan import Plan
from vitalsdsl.streaming.calm import Calm, calm_streams
from vitalsdsl.streaming.glance import CannotSay, Glance, Names, Stream, ahead_of
from vitalsdsl.streaming.intake_writer import block, if_, in_order_windows, sums_of
from vitalsdsl.streaming.part import Answer, Onlookers, Part, below, names_only, read_ahead
from vitalsdsl.streaming.unit import Unit, stands_on_the_clock
from vitalsdsl.verdicts.verdict import Clause, ClearWhen, Guard, RuleState

Step = tuple[int, float, tuple[float, ...], bool]
"""A step, its time, the values of its names in their order, and whether something else has come in between."""

Watch = Generator["list[RuleState] | None", Step, None]
"""Takes steps; says of which rules the level has to be looked at, None where nothing happened."""


@dataclass(frozen=True)
class Written:
    """A function and what it works with. `due` are the nodes that the graph would evaluate at each step, `lets` those that
    are only looked through there."""

    source: str
    watch: Watch
    aheads: list[Ahead]
    due: frozenset[nd.Node]
    lets: Part


_TOOLS = {
    "sqrt": math.sqrt,
    "mul": operator.mul,
    "accumulate": itertools.accumulate,
    "bisect_left": bisect_left,
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
        self._calm: list[Calm] = []
        self._gates: list[str] = []
        self._written: set[str] = set()
        """What has a line already, of that which is worked out before it is compared."""
        for name in logged:
            self._take(name)
        fresh = frozenset(stream.node.name for stream in self._streams.values())
        self._due = plan.graph.due(fresh)
        self._lets = names_only(plan.graph.order) & set(self._due)

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
        units, onlookers, others = self._roots()
        self._prepare()
        needed = {inner for root in others for child in root.inputs for inner in below(child, self._lets)}
        given = [node for node in self._due if node in needed or node in others]
        glance = Glance(self._streams, self._names, given, self._lets)
        told_no = [_surely_no(each, glance) for each in onlookers]
        quiet = [unit.surely_quiet(glance) for unit in units]
        for each in onlookers:
            each.prepare(self._below([each.condition], given), self._aheads)
        for unit in units:
            unit.prepare(self._below(unit.conditions, given), self._aheads)
        below_onlookers = [inner for each in onlookers for inner in below(each.condition, self._lets)]
        self._calm = calm_streams(
            self._streams.values(),
            units,
            [unit.never_fires(glance) if test else None for unit, test in zip(units, quiet)],
            [*given, *others, *below_onlookers, *self._below(self._lets, ())],
            self._lets,
        )
        references = self._references(glance)
        body = [
            *self._intake(units, quiet, glance),
            *references,
            *self._given(given, glance, dict(zip(onlookers, told_no))),
            *self._tests(units, quiet, glance),
            *self._close(given),
        ]
        source = self._function(body, len(units), len(glance.references))
        watch = _compiled(source, f"<rules at steps with {', '.join(self._logged)[:80]}>")(**self._bound)
        next(watch)
        lets = Part(self._below(self._lets, given), self._aheads)
        return Written(source, watch, list(dict.fromkeys(self._aheads.values())), frozenset(self._due), lets)

    def _below(self, nodes: Collection[nd.Node], given: Collection[nd.Node]) -> list[nd.Node]:
        """What is evaluated with some nodes, in order, but for what is evaluated at each step."""
        needed = {inner for node in nodes for inner in below(node, self._lets)}.difference(given)
        return [node for node in self._plan.graph.order if node in needed]

    def _roots(self) -> tuple[list[Unit], list[Onlookers], list[Root]]:
        """The roots that run at the step: those that stand and fall with a rule's conditions, those that look at some other
        condition of which it can be said that it surely is false, and all others, which are evaluated at each step."""
        others = [
            node
            for node in self._due
            if isinstance(node, Root) and not isinstance(node, Guard) and node not in self._lets
        ]
        units = []
        for rule in self._plan.rules:
            own = {clause.condition for clause in rule.clauses}
            roots = [root for root in others if _belongs(root, rule, own)]
            others = [root for root in others if root not in roots]
            if roots:
                units.append(Unit(rule, roots, self._touched))
        by_condition: dict[nd.Node, list[Event | Freeze]] = {}
        for root in others:
            if isinstance(root, (Event, Freeze)):
                by_condition.setdefault(root.inputs[0], []).append(root)
        onlookers = [Onlookers(condition, roots) for condition, roots in by_condition.items()]
        glance = Glance(self._streams, Names(), lets=self._lets)
        onlookers = [each for each in onlookers if _surely_no(each, glance) is not None]
        for unit in units:
            unit.surely_quiet(glance)  # finds the windows that are prepared, which others rest on
        looking = {root for each in onlookers for root in each.roots}
        return units, onlookers, [root for root in others if root not in looking]

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
            self._bind(f"missed__{stream.name}", ahead.missed)
            self._bind(f"recount__{stream.name}", ahead.missing)
            for window, settle in zip(in_order_windows(stream), ahead.settlers()):
                self._bind(f"settle__{stream.name}_{window.number}", settle)
            self._bind(f"outlook__{stream.name}", ahead.outlook)
            self._bind(f"resume__{stream.name}", ahead.resume)

    def _bind(self, name: str, value: Any) -> str:
        self._bound[name] = value
        return name

    # ---------------------------------------------------------------- the points

    def _intake(self, units: Sequence[Unit], quiet: Sequence[str | None], glance: Glance) -> list[str]:
        lines = list(self._also)
        together = {stream.name: calm for calm in self._calm for stream in calm.streams}
        for stream in self._streams.values():
            calm = together.get(stream.name)
            if calm is None:
                lines += self._taken(stream, quiet, glance)
            elif stream is calm.streams[0]:
                lines += self._taken_calmly(calm, units, quiet, glance)
        return lines

    def _taken(self, stream: Stream, quiet: Sequence[str | None], glance: Glance) -> list[str]:
        """A point goes to everything that remembers it."""
        name = stream.name
        lines = [
            f"# {stream.node.name}",
            *(block(stream, glance, quiet) if stream.is_ahead else ()),
            *self._noted(stream),
        ]
        rule = self._guarded(stream)
        if rule is not None:
            look = self._bind(f"guard__{name}", _guard(rule, self._touched))
            lines += if_(f"awake__{name} or not {name} - {name} == 0.0", f"awake__{name} = {look}(step, time)")
        return lines

    def _guarded(self, stream: Stream) -> RuleState | None:
        """The built-in rule on a metric, if it has one."""
        guards = {rule.guard.metric: rule for rule in self._plan.rules if rule.guard is not None}
        return guards.get(stream.node)

    def _noted(self, stream: Stream) -> list[str]:
        """A point becomes its metric's newest, and goes to what is not prepared ahead."""
        name, node = stream.name, self._bind(f"node__{stream.name}", stream.node)
        pushes = [push for push in stream.node.subscribers if getattr(push, "__self__", None) not in self._aheads]
        return [
            f"{node}.step = {node}.own_step = step",
            f"{node}.time = time",
            f"{node}.value = {name}",
            *(f"{self._bind(f'push__{name}_{n}', push)}(step, time, {name})" for n, push in enumerate(pushes)),
        ]

    def _taken_calmly(
        self, calm: Calm, units: Sequence[Unit], quiet: Sequence[str | None], glance: Glance
    ) -> list[str]:
        """The points of streams that can be calm, with the rules that look at them."""
        quick, taken = [], []
        for stream in calm.streams:
            quick += [f"keep__{stream.name}({stream.name})", *self._noted(stream)]
            taken += self._taken(stream, quiet, glance)
        tests = [line for n in calm.units for line in self._test(n, units[n], quiet[n], glance)]
        awake = [f"awake_{n}" for n in calm.units]
        awake += [f"awake__{stream.name}" for stream in calm.streams if self._guarded(stream)]
        return calm.lines(quick, taken, tests, awake)

    def _references(self, glance: Glance) -> list[str]:
        """Look up again what references say, where so many points have come meanwhile that it may not stand any more."""
        lines = []
        for accepted, reference in glance.references.items():
            n, bracket = reference.number, Bracket(accepted)
            bracket.wants_noise = reference.wants_noise
            self._bind(f"reference_{n}", accepted)
            renew = self._bind(f"renew_{n}", bracket.renew)
            names = f"usual_{n}, off_usual_{n}, noise_{n}, off_noise_{n}, stands_{n}"
            lines += if_(f"reference_{n}.moved > stands_{n}", f"{names} = {renew}()")
        return lines

    # ---------------------------------------------------------------- what is evaluated

    def _given(self, given: Collection[nd.Node], glance: Glance, onlookers: dict[Onlookers, str | None]) -> list[str]:
        """What is evaluated at each step, in order, and who looks at a condition that surely is false."""
        lines = [
            f"{self._bind(f'hand_over_{n}', ahead.hand_over)}()"
            for n, ahead in enumerate(read_ahead(given, self._aheads))
        ]
        for node, name in glance.answers.items():
            self._bind(name, Answer(node, self._below([node], given), self._aheads).at)
        due = set(self._due)
        lines += [self._leaf(leaf, glance) for leaf in glance.leaves if leaf not in due]
        looking = {each.roots[0]: each for each in onlookers}
        given = set(given)
        for n, node in enumerate(self._due):
            if node in given:
                lines.append(f"{self._bind(f'run_{n}', node.run)}(step, time)")
            elif node in looking:
                each = looking[node]
                test = onlookers[each]
                assert test is not None
                lines += self._worked_out(test, glance)
                no, look = self._bind(f"no_{n}", each.are_told_no), self._bind(f"look_{n}", each.look)
                lines += [
                    f"# {each.roots[0].text}",
                    f"if {test}:",
                    f"    {no}(step, time)",
                    "else:",
                    f"    {look}(step, time)",
                ]
            if node in glance.leaves:
                lines.append(self._leaf(node, glance))
        return lines

    def _leaf(self, leaf: nd.Node, glance: Glance) -> str:
        name = glance.leaves[leaf]
        return f"{name} = {self._bind(f'leaf_{list(glance.leaves).index(leaf)}', leaf)}.value"

    def _worked_out(self, test: str, glance: Glance) -> list[str]:
        """The lines for what a test compares that has to be worked out before."""
        lines: list[str] = []
        for name, code in glance.lines.items():
            if name not in self._written and re.search(rf"\b{name}\b", test):
                self._written.add(name)
                lines += [*self._worked_out(code, glance), f"{name} = {code}"]
        return lines

    def _tests(self, units: Sequence[Unit], quiet: Sequence[str | None], glance: Glance) -> list[str]:
        lines: list[str] = []
        elsewhere = {n for calm in self._calm for n in calm.units}
        for n, (unit, test) in enumerate(zip(units, quiet)):
            if n not in elsewhere:
                lines += self._test(n, unit, test, glance)
        gated = [
            rule for rule in self._plan.rules if rule.gate is not None and all(unit.rule is not rule for unit in units)
        ]
        for n, rule in enumerate(gated, start=len(units)):
            lines += [f"# {rule.name}", *self._at_a_gate(n, rule, f"touched.append({self._bind(f'rule_{n}', rule)})")]
        return lines

    def _test(self, n: int, unit: Unit, test: str | None, glance: Glance) -> list[str]:
        rule = unit.rule
        lines = [f"# {rule.name}" if rule.member is None else f"# {rule.name}: {rule.member}"]
        run = self._bind(f"unit_{n}", unit.run)
        self._bind(f"restless_{n}", unit.is_restless)
        if test is None:
            return [*lines, f"{run}(step, time)"]
        lines += self._worked_out(test, glance)
        if rule.gate is not None:
            lines += self._at_a_gate(n, rule, f"awake_{n} = True")
        inside = f"inside_{n} and " if unit.waits_outside else ""
        return [*lines, *if_(f"awake_{n} or {inside}not ({test})", f"awake_{n} = {run}(step, time)")]

    def _at_a_gate(self, n: int, rule: RuleState, then: str) -> list[str]:
        """Where a rule's phase begins or ends."""
        gate = self._bind(f"gate_{n}", rule.gate)
        self._gates.append(f"inside_{n}")
        return if_(f"inside_{n} is not {gate}.value", f"inside_{n} = {gate}.value", then)

    def _close(self, given: Collection[nd.Node]) -> list[str]:
        """Before references learn from the step, all is evaluated that a message may look at."""
        skipped = [
            node for node in self._due if node not in given and (node in self._lets or not isinstance(node, Root))
        ]
        self._bind("bring_up", Part(skipped, self._aheads).run)
        lines = if_("touched and any(rule.is_due() for rule in touched)", "bring_up(step, time)")
        lines += [
            f"{self._bind(f'close_{n}', reference.close)}(step, time)"
            for n, reference in enumerate(self._plan.graph.references)
        ]
        self._bind("touched", self._touched)
        return [*lines, *if_("touched", "changed = touched.copy()", "touched.clear()")]

    # ---------------------------------------------------------------- the function

    def _function(self, body: Sequence[str], units: int, references: int) -> str:
        ahead = [stream for stream in self._streams.values() if stream.is_ahead]
        awake = [f"awake__{stream.name}" for stream in self._streams.values()]
        awake += self._gates  # neither what a gate says, so that it is looked at
        restless = [f"awake_{n} = restless_{n}()" for n in range(units)]
        start = [f"{each}__{stream.name}" for stream in ahead for each in NAMES]
        start += [f"{each}__{stream.name}" for stream in ahead for each in (*sums_of(stream), "rows", "counts")]
        start += [each for stream in ahead for window in stream.windows.values() for each in window.standing]
        stands = [f"stands_{n + 1}" for n in range(references)]
        lines = [
            "before, due, stride, odd = -1, None, 1, -1",
            *([f"{' = '.join(start)} = nan"] if start else []),
            *([f"{' = '.join(stands)} = -1"] if stands else []),
            *(f"calm_{n}, again_{n}, lapsed_{n} = -1, -1, False" for n in (calm.number for calm in self._calm)),
            "changed = None",
            "while True:",
            f"    step, time, ({', '.join(self._locals)},), stale = yield changed",
            "    changed = None",
            "    restart = stale or step != due",
            "    if restart and not stale:",
            "        if odd == before or (step - before) % stride:  # else some steps are only missing",
            "            stride = step - before",
            "        odd = step",
            *([f"    {line}" for line in if_("stale", f"{' = '.join(awake)} = True", *restless)] if awake else []),
            "    before, due = step, step + stride",
            *(f"    {line}" for line in body),
        ]
        return f"def watch({', '.join(self._bound)}):\n" + "\n".join(f"    {line}" for line in lines) + "\n"


def _surely_no(onlookers: Onlookers, glance: Glance) -> str | None:
    """When their condition surely is false. None where only evaluating tells."""
    if any(map(stands_on_the_clock, onlookers.roots)):
        return None
    try:
        return glance.surely(onlookers.condition).false
    except CannotSay:
        return None


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
