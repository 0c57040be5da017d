"""Writes the function for steps at which certain names are logged: readable Python, a few lines a metric and one a rule.

Printed by `vitals explain --code`. In its names two underscores stand before the metric that something belongs to.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import math
import operator
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from vitalsdsl.kernels.ahead import NAMES, Ahead
from vitalsdsl.kernels.bracket import Bracket
from vitalsdsl.kernels.state import State
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes.signals import Feed, Let, Root
from vitalsdsl.planning.plan import Plan
from vitalsdsl.streaming.calm import Calm, calm_streams
from vitalsdsl.streaming.evidence import Evidence
from vitalsdsl.streaming.followers import Onlookers, Sorted, Unit, sorted_out
from vitalsdsl.streaming.glance import Glance, Names, Stream, ahead_of, subscribers
from vitalsdsl.streaming.intake_writer import block, if_, in_order_windows, sums_of
from vitalsdsl.streaming.part import Answer, Part, below, names_only, read_ahead
from vitalsdsl.streaming.rule_writer import RuleWriter
from vitalsdsl.verdicts.verdict import RuleState

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
        for name in logged:
            self._take(name)
        fresh = frozenset(metric.name for metric in self._streams if isinstance(metric, nd.MetricNode))
        self._due = plan.graph.due(fresh)
        self._lets = names_only(plan.graph.order) & set(self._due)
        for node in self._due:
            if isinstance(node, Feed) and type(node) in (Feed, Let) and node not in self._lets and ahead_of(node):
                self._streams[node] = Stream(self._names.new(node.text), node)

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
        roots = self._roots()
        units, onlookers = roots.units, roots.onlookers
        metrics = [node for node in self._streams if isinstance(node, nd.MetricNode)]
        self._prepare()
        needed = {inner for root in roots.others for child in root.inputs for inner in below(child, self._lets)}
        given = [node for node in self._due if node in needed or node in roots.others]
        glance = Glance(self._streams, self._names, given, self._lets)
        for each in onlookers:
            each.look_over(glance)
            each.prepare(self._below([each.condition], given), self._aheads)
        for unit in units:
            unit.look_over(glance)
            unit.prepare(self._below(unit.conditions, given), self._aheads)
        below_onlookers = [inner for each in onlookers for inner in below(each.condition, self._lets)]
        self._calm = calm_streams(
            [self._streams[metric] for metric in metrics],
            units,
            [unit.never_fires(glance) if unit.quiet else None for unit in units],
            [*given, *roots.others, *below_onlookers, *self._below(self._lets, ())],
            self._lets,
        )
        rules = RuleWriter(self._bind, glance, units)
        references = self._references(glance)
        body = [
            *self._intake(units, rules, glance),
            *references,
            *self._given(given, onlookers, rules, glance),
            *self._tests(units, rules),
            *self._close(given),
        ]
        source = self._function(body, rules, glance)
        watch = _compiled(source, f"<rules at steps with {', '.join(self._logged)[:80]}>")(**self._bound)
        next(watch)
        lets = Part(self._below(self._lets, given), self._aheads)
        return Written(source, watch, list(dict.fromkeys(self._aheads.values())), frozenset(self._due), lets)

    def _roots(self) -> Sorted:
        """Sorted, once it is settled which feeds have windows that are prepared: of others nothing can be said otherwise."""
        while True:
            roots = sorted_out(self._plan.rules, self._due, self._streams, self._lets, self._touched)
            left = [node for node, one in self._streams.items() if one.is_ahead or isinstance(node, nd.MetricNode)]
            if len(left) == len(self._streams):
                return roots
            self._streams = {node: self._streams[node] for node in left}

    def _below(self, nodes: Collection[nd.Node], given: Collection[nd.Node]) -> list[nd.Node]:
        """What is evaluated with some nodes, in order, but for what is evaluated at each step."""
        needed = {inner for node in nodes for inner in below(node, self._lets)}.difference(given)
        return [node for node in self._plan.graph.order if node in needed]

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

    def _intake(self, units: Sequence[Unit], rules: RuleWriter, glance: Glance) -> list[str]:
        lines = list(self._also)
        together = {stream.name: calm for calm in self._calm for stream in calm.streams}
        for node, stream in self._streams.items():
            if not isinstance(node, nd.MetricNode):
                continue
            calm = together.get(stream.name)
            if calm is None:
                lines += self._taken(stream, rules, glance)
            elif stream is calm.streams[0]:
                lines += self._taken_calmly(calm, units, rules, glance)
        return lines

    def _taken(self, stream: Stream, rules: RuleWriter, glance: Glance) -> list[str]:
        """A point goes to everything that remembers it."""
        name = stream.name
        lines = [
            f"# {stream.node.text}",
            *(block(stream, glance, rules.wake) if stream.is_ahead else ()),
            *self._noted(stream),
        ]
        rule = self._guarded(stream)
        if rule is not None:
            look = self._bind(f"guard__{name}", _guard(rule, self._touched))
            lines += if_(f"awake__{name} or not {name} - {name} == 0.0", f"awake__{name} = {look}(step, time)")
        return lines

    def _guarded(self, stream: Stream) -> RuleState | None:
        """The built-in rule on a metric, if it has one."""
        guards: dict[nd.Node, RuleState] = {
            rule.guard.metric: rule for rule in self._plan.rules if rule.guard is not None
        }
        return guards.get(stream.node)

    def _noted(self, stream: Stream) -> list[str]:
        """A point becomes its metric's newest, and goes to what is not prepared ahead."""
        name, node = stream.name, self._bind(f"node__{stream.name}", stream.node)
        pushes = [push for push in subscribers(stream.node) if getattr(push, "__self__", None) not in self._aheads]
        return [
            f"{node}.step = {node}.own_step = step",
            f"{node}.time = time",
            f"{node}.value = {name}",
            *(f"{self._bind(f'push__{name}_{n}', push)}(step, time, {name})" for n, push in enumerate(pushes)),
        ]

    def _taken_calmly(self, calm: Calm, units: Sequence[Unit], rules: RuleWriter, glance: Glance) -> list[str]:
        """The points of streams that can be calm, with the rules that look at them."""
        quick, taken = [], []
        for stream in calm.streams:
            quick += [f"keep__{stream.name}({stream.name})", *self._noted(stream)]
            taken += self._taken(stream, rules, glance)
        tests = [line for n in calm.units for line in rules.test(n, units[n])]
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

    def _given(
        self, given: Collection[nd.Node], onlookers: Sequence[Onlookers], rules: RuleWriter, glance: Glance
    ) -> list[str]:
        """What is evaluated at each step, in order, and who looks at a condition of which it can be said what it is."""
        lines: list[str] = []
        handed_over: set[Ahead] = set()
        for node, name in glance.answers.items():
            self._bind(name, Answer(node, self._below([node], given), self._aheads).at)
        due = set(self._due)
        lines += [self._leaf(leaf, glance) for leaf in glance.leaves if leaf not in due]
        looking = {each.roots[0]: each for each in onlookers}
        given = set(given)
        for n, node in enumerate(self._due):
            if node in given:
                for ahead in read_ahead([node], self._aheads):
                    if ahead not in handed_over:
                        lines.append(f"{self._bind(f'hand_over_{n}', ahead.hand_over)}()")
                        handed_over.add(ahead)
                stream = self._streams.get(node)
                if stream is None:
                    lines.append(f"{self._bind(f'run_{n}', node.run)}(step, time)")
                else:
                    lines += self._fed(n, stream, rules, glance)
            elif node in looking:
                lines += rules.tell(n, looking[node])
            if node in glance.leaves:
                lines.append(self._leaf(node, glance))
        return lines

    def _fed(self, n: int, stream: Stream, rules: RuleWriter, glance: Glance) -> list[str]:
        """The point of a feed, if it has one, goes to everything that remembers it. If it has none, or its first, nothing that
        was prepared stands."""
        feed, name = stream.node, stream.name
        assert isinstance(feed, Feed)
        own, source = self._bind(f"feed_{n}", feed), self._bind(f"source_{n}", feed.source)
        others = [push for push in subscribers(feed) if getattr(push, "__self__", None) not in self._aheads]
        told = [name for window in stream.windows.values() for name in window.told]
        young = [window.young for window in stream.windows.values()]
        return [
            f"# {feed.text}",
            f"{name} = {own}.value = {source}.value",
            *if_(
                f"{name} == {name} and {own}.step is not None",
                *(
                    f"{self._bind(f'tell_{n}_{k}', push)}(step, time, {name})"
                    for k, push in enumerate(feed.unknown_too)
                ),
                f"{own}.step, {own}.time = step, time",
                *block(stream, glance, rules.wake),
                *(f"{self._bind(f'push__{name}_{k}', push)}(step, time, {name})" for k, push in enumerate(others)),
                otherwise=[
                    f"{self._bind(f'run_{n}', feed.run)}(step, time)",
                    f"rows__{name} = iter(())",
                    f"{' = '.join(told)} = nan",
                    f"{' = '.join(young)} = False",  # their spans may have been lived
                ],
            ),
        ]

    def _leaf(self, leaf: nd.Node, glance: Glance) -> str:
        name = glance.leaves[leaf]
        return f"{name} = {self._bind(f'leaf_{list(glance.leaves).index(leaf)}', leaf)}.value"

    def _tests(self, units: Sequence[Unit], rules: RuleWriter) -> list[str]:
        elsewhere = {n for calm in self._calm for n in calm.units}
        lines = [line for n, unit in enumerate(units) if n not in elsewhere for line in rules.test(n, unit)]
        known = {unit.rule for unit in units}
        gated = [rule for rule in self._plan.rules if rule.gate is not None and rule not in known]
        for n, rule in enumerate(gated, start=len(units)):
            lines += rules.touch_at_gate(n, rule)
        return lines

    def _close(self, given: Collection[nd.Node]) -> list[str]:
        """Before references learn from the step, all is evaluated that the message of a rule may look at."""
        skipped = [
            node for node in self._due if node not in given and (node in self._lets or not isinstance(node, Root))
        ]
        self._bind("bring_up", Evidence(self._plan, skipped, self._aheads).bring_up)
        lines = if_("touched", "bring_up(touched, step, time)")
        lines += [
            f"{self._bind(f'close_{n}', reference.close)}(step, time)"
            for n, reference in enumerate(self._plan.graph.references)
        ]
        self._bind("touched", self._touched)
        return [*lines, *if_("touched", "changed = touched.copy()", "touched.clear()")]

    # ---------------------------------------------------------------- the function

    def _function(self, body: Sequence[str], rules: RuleWriter, glance: Glance) -> str:
        ahead = [stream for stream in self._streams.values() if stream.is_ahead]
        guards = [f"awake__{stream.name}" for stream in self._streams.values()]
        stale = [*rules.restart(), *([f"{' = '.join(guards)} = True"] if guards else [])]
        start = [f"{each}__{stream.name}" for stream in ahead for each in NAMES]
        start += [f"{each}__{stream.name}" for stream in ahead for each in (*sums_of(stream), "rows", "counts")]
        start += [each for stream in ahead for window in stream.windows.values() for each in window.standing]
        start += glance.nears
        stands = [f"stands_{reference.number}" for reference in glance.references.values()]
        lines = [
            "before, due, stride, odd = -1, None, 1, -1",
            *([f"{' = '.join(start)} = nan"] if start else []),
            *([f"{' = '.join(stands)} = -1"] if stands else []),
            *([f"{' = '.join(rules.was)} = None"] if rules.was else []),
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
            *(f"    {line}" for line in (if_("stale", *stale) if stale else ())),
            "    before, due = step, step + stride",
            *(f"    {line}" for line in body),
        ]
        return f"def watch({', '.join(self._bound)}):\n" + "\n".join(f"    {line}" for line in lines) + "\n"


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
