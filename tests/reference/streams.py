"""Every expression as a stream, each value worked out anew from the definition (sections 3 to 6 of the page).

`value(node, env, i)` is what the expression is worth at the close of moment i, looking only at moments up to i. The
memo changes nothing: a value at i depends on nothing after i.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import calls, references
from .history import History, concrete, pattern
from .policy import COUNTERS, Event, Let, Node, Policy
from .spans import Tracker
from .values import (
    ABSENT,
    NONFINITE,
    STALE,
    TOO_FEW,
    Length,
    Unknown,
    Value,
    all_of,
    any_of,
    at_least,
    compare,
    divide,
    elementwise,
    negate,
)

ROUNDED = frozenset("mean sum std var cv mad quantile slope resid_std ema zscore growth corr noise".split())
AGGREGATES = ("any", "all", "count", "min", "max", "mean", "median", "sum")


class Env(NamedTuple):
    """Where an expression stands (its rule, event or let), what `*` stands for, and the member of `each`."""

    home: Any = None
    stars: tuple[str, ...] | None = None
    variable: str | None = None
    member: str | None = None


class Point(NamedTuple):
    """A point of a metric, a let or an argument."""

    i: int
    step: float
    time: float | None
    value: float


@dataclass(frozen=True)
class Reads:
    """What sets the pace of an expression."""

    metrics: frozenset[str] = frozenset()
    every: bool = False
    waits: frozenset[float] = frozenset()

    def __or__(self, other: Reads) -> Reads:
        return Reads(self.metrics | other.metrics, self.every or other.every, self.waits | other.waits)


def _binary(function: Callable[[float, float], float]) -> Callable[..., Value]:
    def run(self: Streams, node: Node, env: Env, i: int) -> Value:
        return elementwise(function, self.value(node.args[0], env, i), self.value(node.args[1], env, i))

    return run


class Streams:
    """All streams of one policy over one history."""

    def __init__(self, policy: Policy, history: History) -> None:
        self.policy = policy
        self.history = history
        self.moments = history.moments
        self.memo: dict[Any, Any] = {}
        self.tracks: dict[Any, Any] = {}
        self.near: list[float] = []  # steps at which rounding may decide a comparison

    # ---------------------------------------------------------------- names

    def let_of(self, name: str) -> tuple[Let, Env] | None:
        """The let of that name, a member of a let family included."""
        if name in self.policy.lets:
            let = self.policy.lets[name]
            return let, Env(let)
        for let in self.policy.lets.values():
            if "*" in let.name or "{" in let.name:
                found = pattern(let.name).fullmatch(name)
                if found:
                    return let, Env(let, found.groups())
        return None

    def name_of(self, node: Node, env: Env) -> str:
        """The concrete name that a name, a family under its `*`, or the variable of `each` stands for."""
        name: str = node.args[0]
        if node.kind == "family":
            if env.stars is None:
                raise ValueError(f"the family {name} stands outside of any, all, count, min, max, mean, sum, share")
            return concrete(name, env.stars)
        if name == env.variable and env.member is not None:
            return env.member
        return name

    def kind_of(self, name: str) -> str:
        if name in self.policy.params:
            return "param"
        if self.let_of(name):
            return "let"
        if name in self.policy.events:
            return "event"
        if name in COUNTERS and name not in self.policy.metrics:
            return "counter"
        return "metric"

    def members(self, family: str, i: int) -> set[tuple[str, ...]]:
        """What `*` stands for in the members of a family known at moment i."""
        key = ("members", family, min(i, len(self.moments)))
        if key not in self.memo:
            self.memo[key] = self._members(family, i)
        found: set[tuple[str, ...]] = self.memo[key]
        return found

    def _members(self, family: str, i: int) -> set[tuple[str, ...]]:
        found = set()
        for name in self.history.names:
            match = pattern(family).fullmatch(name)
            first = self.history.first(name)
            if match and first is not None and first <= i:
                found.add(match.groups())
        for let in self.policy.lets.values():
            pieces = pattern(let.name).groups
            if pieces and pattern(family).fullmatch(concrete(let.name, ("0",) * pieces)):
                for stars in self.joined(let.node, i):
                    match = pattern(family).fullmatch(concrete(let.name, stars))
                    if match:
                        found.add(match.groups())
        return found

    def joined(self, node: Node, i: int) -> list[tuple[str, ...]]:
        """Two families join by what `*` stands for."""
        sets = [self.members(f, i) for f in self.families(node)]
        return sorted(set.intersection(*sets)) if sets else []

    def families(self, node: Node) -> list[str]:
        """The families of an expression that no quantifier inside it has taken."""
        if node.kind == "family":
            return [node.args[0]]
        if self.aggregates(node):
            return []
        return [f for child in node.children() for f in self.families(child)]

    def aggregates(self, node: Node) -> bool:
        """`any all count` of a condition, `min max mean median sum` of a number, over a family; and `share`."""
        if node.kind != "call":
            return False
        name, args = node.args
        if name == "share":
            return True
        return name in AGGREGATES and len(args) == 1 and bool(self.families(args[0]))

    # ---------------------------------------------------------------- pace

    def reads(self, node: Node, env: Env) -> Reads:
        """An expression reads the metrics named in it and, through lets and events, theirs."""
        key = ("reads", node, env)
        if key not in self.memo:
            self.memo[key] = self._reads(node, env)
        found: Reads = self.memo[key]
        return found

    def _reads(self, node: Node, env: Env) -> Reads:
        if node.kind in ("name", "family"):
            return self._reads_name(self.name_of(node, env))
        if node.kind == "missing":
            return Reads(every=True) | self.reads(node.args[0], env)
        if node.kind == "stalled":
            return Reads(waits=frozenset([node.args[0].amount]))
        found = Reads()
        if self.aggregates(node):
            for arg in (*node.args[1], *node.named.values()):
                found |= Reads(frozenset(self.families(arg)))
                for stars in self.joined(arg, len(self.moments)):
                    found |= self.reads(arg, env._replace(stars=stars))
            return found
        for child in node.children():
            if child not in node.named.values():  # what stands only in `unless:` or `from:` sets no pace
                found |= self.reads(child, env)
        if node.kind in ("before", "at_event", "at_end") and isinstance(node.args[-1], str):
            found |= self._reads_name(node.args[-1])
        return found

    def _reads_name(self, name: str) -> Reads:
        kind = self.kind_of(name)
        if kind == "let":
            let, env = self.let_of(name) or (None, None)
            assert let is not None and env is not None
            return self.reads(let.node, env) if let.on is None else Reads(frozenset([let.on]))
        if kind == "event":
            event = self.policy.events[name]
            return self.reads(event.node, Env(event))
        return Reads(frozenset([name])) if kind == "metric" else Reads()

    def evaluated(self, node: Node, env: Env, i: int, on: str | None = None) -> bool:
        """At each closed step at which a metric that it reads has a point; at every one with `missing` or without."""
        moment = self.moments[i]
        if on is not None:
            return moment.waited is None and self._on(on, i)
        if node.kind in ("then_", "then_no"):  # evaluated where A or B is
            return self.evaluated(node.args[0], env, i) or self.evaluated(node.args[1], env, i)
        if node.kind == "name" and self.kind_of(self.name_of(node, env)) == "let":
            let, let_env = self.let_of(self.name_of(node, env)) or (None, None)
            assert let is not None and let_env is not None
            return self.evaluated(let.node, let_env, i, let.on)
        reads = self.reads(node, env)
        if moment.waited is not None:
            return moment.waited in reads.waits
        return reads.every or not reads.metrics or any(self.history.has_point(m, i) for m in reads.metrics)

    def _on(self, name: str, i: int) -> bool:
        if self.kind_of(name) == "let":
            node = Node("name", (name,))
            return self.evaluated(node, Env(), i) and not isinstance(self.value(node, Env(), i), Unknown)
        return self.history.has_point(name, i)

    def evaluations(self, node: Node, env: Env, i: int, on: str | None = None) -> list[int]:
        """The moments up to i at which the expression, by itself, is evaluated."""
        known: list[int]
        upto, known = self.tracks.setdefault(("evaluations", node, env, on), [0, []])
        for j in range(upto, i + 1):
            if self.evaluated(node, env, j, on):
                known.append(j)
        self.tracks[("evaluations", node, env, on)][0] = max(upto, i + 1)
        return [j for j in known if j <= i]

    def latest(self, node: Node, env: Env, i: int, on: str | None = None) -> int | None:
        """The latest evaluation at or before moment i."""
        for j in range(i, -1, -1):
            if self.evaluated(node, env, j, on):
                return j
        return None

    def latest_value(self, node: Node, env: Env, i: int, on: str | None = None) -> Value:
        """Its latest evaluation, which may be unknown."""
        j = self.latest(node, env, i, on)
        return ABSENT if j is None else self.value(node, env, j)

    def points(self, node: Node, env: Env, i: int) -> list[Point]:
        """A let or argument has a point where it is evaluated and known; only raw metrics have NaN points."""
        key = ("points", node, env, i)
        if key not in self.memo:
            self.memo[key] = self._points(node, env, i)
        found: list[Point] = self.memo[key]
        return found

    def _points(self, node: Node, env: Env, i: int) -> list[Point]:
        if node.kind in ("name", "family"):
            name = self.name_of(node, env)
            if self.kind_of(name) == "metric":
                return [self.point(j, x) for j, x in self.history.of(name, i)]
        if node.kind == "call" and node.args[0] == "interval":  # a point at each edge from the second on
            edges = self.edges(node.args[1][0], env, i)
            return [self.point(b, self.moments[b].step - self.moments[a].step) for a, b in itertools.pairwise(edges)]
        found = []
        for j in self.evaluations(node, env, i):
            value = self.value(node, env, j)
            if not isinstance(value, Unknown):
                found.append(self.point(j, value))
        return found

    def point(self, i: int, value: float) -> Point:
        return Point(i, self.moments[i].step, self.moments[i].time, value)

    # ---------------------------------------------------------------- values

    def value(self, node: Node, env: Env, i: int) -> Value:
        """What the expression is worth at the close of moment i."""
        key = (node, env, i)
        if key not in self.memo:
            self.memo[key] = getattr(self, "_" + node.kind)(node, env, i)
        found: Value = self.memo[key]
        return found

    def _num(self, node: Node, env: Env, i: int) -> Value:
        return float(node.args[0])

    def _length(self, node: Node, env: Env, i: int) -> Value:
        return float(node.args[0].amount)

    def _name(self, node: Node, env: Env, i: int) -> Value:
        """A plain name reads the newest point at or before this step (a let: its latest evaluation)."""
        name = self.name_of(node, env)
        kind = self.kind_of(name)
        if kind == "param":
            param = self.policy.params[name]
            return float(param.amount if isinstance(param, Length) else param)
        if kind == "counter":
            return self.counter(name, i)
        if kind == "event":
            return self.event_state(name, i)
        if kind == "let":
            let, let_env = self.let_of(name) or (None, None)
            assert let is not None and let_env is not None
            if any(self.stale(m, i) for m in self._reads_name(name).metrics):
                return STALE
            return self.latest_value(let.node, let_env, i, let.on)
        points = self.history.of(name, i)
        if not points:
            return ABSENT
        if self.stale(name, i):
            return STALE
        return NONFINITE if math.isnan(points[-1][1]) else points[-1][1]

    _family = _name

    def stale(self, name: str, i: int) -> bool:
        """With `stale after D` it is unknown once s − p > D, p being the point's step."""
        metric = self.history.declared.get(name)
        points = self.history.of(name, i)
        if metric is None or metric.stale is None or not points:
            return False
        age = self.age(points[-1][0], i, metric.stale)
        return age is not None and age > metric.stale.amount

    def age(self, j: int, i: int, length: Length) -> float | None:
        """From moment j to moment i, in the unit of that length."""
        then, now = self.moments[j], self.moments[i]
        if length.unit == "steps":
            return now.step - then.step
        if length.unit == "s":
            return None if now.time is None or then.time is None else now.time - then.time
        raise NotImplementedError(f"an age in {length.unit}")

    def counter(self, name: str, i: int) -> Value:
        """The run's own counters; epoch, tokens and progress are logged ones."""
        if name == "step":
            return self.moments[i].step
        if name == "elapsed":
            start, now = self.moments[0].time, self.moments[i].time
            return ABSENT if start is None or now is None else now - start
        points = self.history.of(name, i)
        return ABSENT if not points else NONFINITE if math.isnan(points[-1][1]) else points[-1][1]

    def _neg(self, node: Node, env: Env, i: int) -> Value:
        return elementwise(lambda x: -x, self.value(node.args[0], env, i))

    _add = _binary(lambda a, b: a + b)
    _sub = _binary(lambda a, b: a - b)
    _mul = _binary(lambda a, b: a * b)
    _div = _binary(divide)

    def _cmp(self, node: Node, env: Env, i: int) -> Value:
        """Chains `0.1 < x < 5` allowed."""
        values = [self.value(n, env, i) for n in node.args[1]]
        if any(self._near(a, b, node) for a, b in itertools.pairwise(values)):
            self.near.append(self.moments[i].step)
        return all_of([compare(op, a, b) for op, a, b in zip(node.args[0], values, values[1:])])

    def _near(self, a: Value, b: Value, node: Node) -> bool:
        """Whether two sides differ by rounding at most: results are right to 1e-12 relative, no better."""
        if isinstance(a, Unknown) or isinstance(b, Unknown) or not (math.isfinite(a) and math.isfinite(b)):
            return False
        if a == b:
            return self._rounded(node)
        return abs(a - b) <= 1e-9 * max(abs(a), abs(b))

    def _rounded(self, node: Node) -> bool:
        if node.kind == "div" or (node.kind == "call" and node.args[0] in ROUNDED):
            return True
        return any(self._rounded(child) for child in node.children())

    def _and_(self, node: Node, env: Env, i: int) -> Value:
        return all_of([self.value(n, env, i) for n in node.args])

    def _or_(self, node: Node, env: Env, i: int) -> Value:
        return any_of([self.value(n, env, i) for n in node.args])

    def _not_(self, node: Node, env: Env, i: int) -> Value:
        return negate(self.value(node.args[0], env, i))

    def _at_least(self, node: Node, env: Env, i: int) -> Value:
        return at_least(node.args[0], [self.value(n, env, i) for n in node.args[1]])

    def _is(self, node: Node, env: Env, i: int) -> Value:
        """`x is nan` looks at the newest raw point, and is unknown only if there is none."""
        target, state, negated = node.args
        points = self.points(target, env, i)
        if not points:
            return ABSENT
        x = points[-1].value
        found = {"nan": math.isnan(x), "inf": math.isinf(x), "finite": math.isfinite(x)}[state]
        return found is not negated

    def _missing(self, node: Node, env: Env, i: int) -> Value:
        """True when s − p ≥ D; before the first, counted from the first closed step if declared with `every`."""
        target, length = node.args
        points = self.points(target, env, i)
        metric = self.history.declared.get(self.name_of(target, env))
        if not points and (metric is None or metric.every is None):
            return ABSENT
        age = self.age(points[-1].i if points else 0, i, length)
        return ABSENT if age is None else age >= length.amount

    def _stalled(self, node: Node, env: Env, i: int) -> Value:
        """False at the close of a step."""
        waited = self.moments[i].waited
        return waited is not None and waited >= node.args[0].amount

    def _call(self, node: Node, env: Env, i: int) -> Value:
        if self.aggregates(node):
            return calls.over_family(self, node, env, i)
        if node.args[0] in references.CALLS:
            return references.CALLS[node.args[0]](self, node, env, i)
        return calls.CALLS[node.args[0]](self, node, env, i)

    # ---------------------------------------------------------------- events, spans and sequences

    def event_state(self, name: str, i: int) -> Value:
        """Read as a condition it is true from where COND holds (with its span) until COND is false."""
        return self.event_track(self.policy.events[name], i)[0]

    def event_track(self, event: Event, i: int) -> tuple[Value, list[int]]:
        """(state at moment i, kept edges up to it): an edge less than D after the last one kept is dropped."""
        state, edges = self.held_track(event.node, Env(event), event.span, i)
        if event.apart is None:
            return state, edges
        kept: list[int] = []
        for j in edges:
            age = self.age(kept[-1], j, event.apart) if kept else None
            if age is None or age >= event.apart.amount:
                kept.append(j)
        return state, kept

    def held_track(self, node: Node, env: Env, span: Any, i: int) -> tuple[Value, list[int]]:
        """(true where it holds, else false; the moments where it becomes true), known evaluations only.

        Unknown leaves it as it was; the first known evaluation counts as after false.
        """
        key = ("held", node, env, span)
        if key not in self.tracks:
            self.tracks[key] = (Tracker(span), [], [])
        tracker, states, edges = self.tracks[key]
        for j in range(len(states), i + 1):
            state = states[-1] if states else ABSENT
            if self.evaluated(node, env, j):
                value = self.value(node, env, j)
                if not isinstance(value, Unknown):
                    before = state
                    state = tracker.feed(value is True, self.moments[j].step, self.moments[j].time)
                    if state and before is not True:
                        edges.append(j)
            states.append(state)
        return states[i], [j for j in edges if j <= i]

    def _held(self, node: Node, env: Env, i: int) -> Value:
        """`(COND for SPAN)`: at an unknown it keeps its last value; unknown before the first known evaluation."""
        return self.held_track(node.args[0], env, node.args[1], i)[0]

    def edges(self, node: Node, env: Env, i: int) -> list[int]:
        """The moments up to i where a condition becomes true; of an event, the edges kept."""
        if node.kind == "name" and node.args[0] in self.policy.events:
            return self.event_track(self.policy.events[node.args[0]], i)[1]
        return self.held_track(node, env, None, i)[1]

    def _then_(self, node: Node, env: Env, i: int) -> Value:
        """True at an evaluation at which B is true and A had an edge at this step or at most D before."""
        a, b, length = node.args
        at = self.latest(node, env, i)
        if at is None:
            return ABSENT
        second = self.latest_value(b, env, at)
        if isinstance(second, Unknown):
            return second
        ages = [self.age(edge, at, length) for edge in self.edges(a, env, at)]
        return second and any(age is not None and age <= length.amount for age in ages)

    def _then_no(self, node: Node, env: Env, i: int) -> Value:
        """B true closes an open instance, after that an edge of A opens one where none is open."""
        a, b, length = node.args
        at = self.latest(node, env, i)
        if at is None:
            return False
        opened: int | None = None
        edges = set(self.edges(a, env, at))
        for j in range(at + 1):
            if self.evaluated(b, env, j) and self.value(b, env, j) is True:
                opened = None
            if opened is None and j in edges:
                opened = j
        age = None if opened is None else self.age(opened, at, length)
        return age is not None and age >= length.amount

    # ---------------------------------------------------------------- values of other steps

    def _before(self, node: Node, env: Env, i: int) -> Value:
        inner, by = node.args
        if isinstance(by, Length):
            return self.before(inner, env, i, by)
        edges = self.event_track(self.policy.events[by], i)[1]
        if not edges:
            return ABSENT
        closed = [j for j in range(edges[-1]) if self.moments[j].step < self.moments[edges[-1]].step]
        return self.latest_value(inner, env, closed[-1]) if closed else ABSENT

    def before(self, node: Node, env: Env, i: int, length: Length) -> Value:
        """Its latest evaluation at or before s − D, or n points before its newest."""
        if length.unit == "samples":
            points = self.points(node, env, i)
            if len(points) <= length.amount:
                return TOO_FEW
            x = points[-1 - int(length.amount)].value
            return NONFINITE if math.isnan(x) else x
        for j in reversed(self.evaluations(node, env, i)):
            age = self.age(j, i, length)
            if age is not None and age >= length.amount:
                return self.value(node, env, j)
        return ABSENT

    def _at_step(self, node: Node, env: Env, i: int) -> Value:
        """Its latest evaluation at or before step N."""
        inner, n = node.args
        upto = [j for j in range(i + 1) if self.moments[j].step <= n]
        return self.latest_value(inner, env, upto[-1]) if upto else ABSENT

    def _at_event(self, node: Node, env: Env, i: int) -> Value:
        """At the close of the step of its newest edge."""
        edges = self.event_track(self.policy.events[node.args[1]], i)[1]
        return self.latest_value(node.args[0], env, edges[-1]) if edges else ABSENT

    def _at_end(self, node: Node, env: Env, i: int) -> Value:
        """Before the phase first ended: its latest evaluation before the step at which it first became false."""
        was_true = False
        for j in range(i + 1):
            state = self.event_state(node.args[1], j)
            if was_true and state is False:
                return self.latest_value(node.args[0], env, j - 1)
            was_true = was_true or state is True
        return ABSENT
