"""Check: what makes a policy meaningless, each with its place and its mend. Every finding here is an error."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from vitalsdsl import expressions as ex
from vitalsdsl import rules
from vitalsdsl.diagnostic import Diagnostic, in_order
from vitalsdsl.guards import named
from vitalsdsl.kinds import Kinds, Where
from vitalsdsl.rules import Level
from vitalsdsl.scope import COUNTERS, Meaning, Scope
from vitalsdsl.source import Span

_NAMED = (rules.Metric, rules.Param, rules.Let, rules.Event, rules.Phase, rules.Profile)
_LASTS = ("steps", "samples", "epochs", "tokens", "time")


def check(policy: rules.Policy, broken_names: frozenset[str] = frozenset()) -> list[Diagnostic]:
    """All errors of a policy whose `use` statements are resolved. `broken_names` are those of statements that could not
    be parsed: nothing is said of them."""
    return in_order(_Checker(policy, broken_names).run())


class _Checker:
    def __init__(self, policy: rules.Policy, broken: frozenset[str]) -> None:
        self.policy = policy
        self.scope = Scope.of(policy)
        self.broken = broken
        self.found: list[Diagnostic] = []
        self.kinds = Kinds(self.scope, self.found, broken)
        self.error = self.kinds.error

    def run(self) -> list[Diagnostic]:
        self._duplicates()
        self._circles()
        for statement in self.policy.statements:
            if isinstance(statement, rules.Rule):
                self._rule(statement)
            elif isinstance(statement, rules.Let):
                self._let(statement)
            elif isinstance(statement, rules.Event):
                self.kinds.condition(statement.condition, Where(owner="event"), top=True)
                self._span(statement.for_)
                self._length(statement.apart, "apart", ("steps", "samples", "time"))
            elif isinstance(statement, rules.Phase):
                self.kinds.condition(statement.condition, Where(owner="phase"), top=True)
            elif isinstance(statement, rules.Metric):
                self._metric(statement)
            elif isinstance(statement, rules.Param):
                self._param(statement)
            elif isinstance(statement, rules.Limit):
                self._length(statement.per, "a limit", ("steps", "epochs", "tokens", "time"))
        self._inhibition()
        return self.found

    # ---------------------------------------------------------------- names

    def _duplicates(self) -> None:
        first: dict[str, rules.Statement] = {}
        rule_names: dict[str, rules.Rule] = {}
        single: dict[object, rules.Statement] = {}
        for s in self.policy.statements:
            if isinstance(s, rules.Rule):
                if s.name in rule_names and s.written:
                    self._twice(s.name, s.span, rule_names[s.name].span, "rule")
                rule_names.setdefault(s.name, s)
            elif isinstance(s, _NAMED):
                if s.name in first:
                    self._twice(s.name, s.span, first[s.name].span, type(s).__name__.lower())
                elif s.name in COUNTERS and not isinstance(s, rules.Metric):
                    self.error("V317", f"`{s.name}` is a counter of the run itself", s.span, "another name, please")
                first.setdefault(s.name, s)
            elif isinstance(s, (rules.Axis, rules.Nonfinite, rules.LevelDefault)):
                key = (type(s), s.level) if isinstance(s, rules.LevelDefault) else type(s)
                if key in single:
                    word = {rules.Axis: "axis", rules.Nonfinite: "nonfinite"}.get(type(s), "level")
                    self.error(
                        "V014", f"`{word}` is said twice", s.span, "keep one", f"the first is at {single[key].span!r}"
                    )
                single.setdefault(key, s)

    def _twice(self, name: str, place: Span, other: Span, what: str) -> None:
        self.error(
            "V313", f"a second {what} called `{name}`", place, "another name, please", f"the first is at {other!r}"
        )

    def _circles(self) -> None:
        tables = (self.scope.lets, self.scope.events, self.scope.phases)
        uses: dict[str, list[str]] = {}
        places: dict[str, Span] = {}
        for table in tables:
            for name, statement in table.items():
                body = statement.expression if isinstance(statement, rules.Let) else statement.condition
                uses[name] = [n.path for n in named(body) if any(n.path in t for t in tables)]
                places[name] = statement.span
        done: set[str] = set()
        for name in uses:
            circle = _circle(name, uses, done)
            if circle:
                chain = " -> ".join([*circle, circle[0]])
                self.error("V507", f"`{circle[0]}` depends on itself", places[circle[0]], chain, "break the circle")

    # ---------------------------------------------------------------- statements

    def _metric(self, metric: rules.Metric) -> None:
        self._length(metric.every, "every", ("steps", "time"))
        self._length(metric.stale_after, "stale after", ("steps", "time"))
        for name in metric.logged:
            if metric.family and name.count("*") != metric.name.count("*"):
                self.error(
                    "V043", f'"{name}" and `{metric.name}` differ in their `*`', metric.span, "as many on both sides"
                )
            if not name.strip():
                self.error("V010", "a logged name cannot be empty", metric.span, "nothing between the quotes")

    def _param(self, param: rules.Param) -> None:
        ends = [n for n in (param.value, param.low, param.high) if n is not None]
        if len({self.kinds.unit_of(n) for n in ends}) > 1:
            self.error("V003", f"param `{param.name}` mixes units", param.span, "one unit for value and range")
            return
        if param.low is not None and param.high is not None:
            low, value, high = (self.kinds.size_of(n) for n in (param.low, param.value, param.high))
            if low > high:
                self.error("V504", f"the range of `{param.name}` is empty", param.span, "low .. high")
            elif not low <= value <= high:
                self.error(
                    "V504", f"the default of `{param.name}` is outside its own range", param.value.span, "out of range"
                )

    def _let(self, let: rules.Let) -> None:
        families = [n for n in let.expression.walk() if isinstance(n, ex.Family)]
        if let.family and not families:
            self.error("V043", f"`{let.name}` is a family, but nothing in it is", let.span, "no `*` on the right side")
        self.kinds.number(let.expression, Where(owner="let", family=let.name if let.family else None))
        self._on(let.on, None)

    def _rule(self, rule: rules.Rule) -> None:
        member = rule.each.member if rule.each is not None else None
        family = rule.each.family.path if rule.each is not None else None
        if member is not None and (member in set(self.scope.names()) or member in COUNTERS):
            self.error("V313", f"`{member}` already has a meaning", rule.each.span, "another word for the member")  # type: ignore[union-attr]
        for phase in rule.phases:
            if phase.path not in self.scope.phases and phase.path not in self.broken:
                self._unknown("phase", phase, self.scope.phases)
        if not rule.body.clauses:
            self.error("V034", f"rule `{rule.name}` has no `when`", rule.span, "it can never fire", "add `when … -> …`")
        where = Where(owner="rule", member=member, member_family=family)
        for clause in rule.body.clauses:
            self.kinds.condition(clause.condition, where, top=True)
            self._whole_surely(clause.condition, "when")
            self._span(clause.for_)
            self._on(clause.on, member)
            self._rungs(clause.rungs)
        clear = rule.body.clear
        if clear is not None:
            if clear.condition is not None:
                self.kinds.condition(clear.condition, where, top=True)
                self._whole_surely(clear.condition, "clear when")
            self._span(clear.for_)
        self._length(rule.body.cooldown, "cooldown", ("steps", "epochs", "tokens", "time"))
        if rule.body.because is not None:
            for part in rule.body.because.parts:
                if isinstance(part, rules.TemplateField):
                    is_member = isinstance(part.expression, ex.Name) and part.expression.path == "member"
                    if not (is_member and member is not None):
                        self.kinds.any_kind(part.expression, where)

    def _whole_surely(self, node: ex.Expression, what: str) -> None:
        if isinstance(node, ex.Call) and node.function == "surely":
            help_ = "write the condition itself, and `surely(…)` only beside it"
            self.error("V045", f"`surely(…)` cannot be the whole of a `{what}`", node.span, "alone", help_)

    def _on(self, name: ex.Name | None, member: str | None) -> None:
        if name is None or self.scope.meaning(name, member) in (Meaning.METRIC, Meaning.MEMBER, Meaning.LET):
            return
        what = self.scope.meaning(name, member).value
        self.error("V315", f"`on` names a metric; `{name.path}` is a {what}", name.span, "not a metric")

    def _rungs(self, rungs: Sequence[rules.Rung]) -> None:
        before: rules.Rung | None = None
        for rung in rungs:
            if before is None and rung.after is not None:
                self.error("V408", "the first rung is taken when the rule fires", rung.after.span, "no `after` here",
                           "say how long in `for`")  # fmt: skip
            elif before is not None and rung.after is None:
                self.error("V408", "a later rung needs an `after`", rung.span, "after how long?",
                           f"write `-> {rung.level.word} after 100 steps`")  # fmt: skip
            if before is not None and rung.level <= before.level and rung.level is not Level.GREEN:
                self.error(
                    "V408", f"`{rung.level.word}` is no step up from `{before.level.word}`", rung.span, "levels rise"
                )
            self._length(rung.after, "after", _LASTS)
            if before is not None and before.after is not None and rung.after is not None:
                early, late = before.after, rung.after
                if self.kinds.unit_of(early) != self.kinds.unit_of(late):
                    self.error("V408", "the rungs of one ladder count in one unit", late.span, "another unit")
                elif self.kinds.size_of(late) <= self.kinds.size_of(early):
                    self.error("V408", "each rung comes later than the one before", late.span, "not later")
            before = rung

    def _span(self, span: ex.For | None) -> None:
        for length in span.lengths if span is not None else ():
            self._length(length, "for", _LASTS)

    def _length(self, node: ex.Expression | None, what: str, units: tuple[str, ...]) -> None:
        if node is not None:
            self.kinds.length(node, what, units)

    # ---------------------------------------------------------------- between rules

    def _inhibition(self) -> None:
        graph: dict[str, list[str]] = {}
        places: dict[str, Span] = {}
        for rule in self.policy.of(rules.Rule):
            for name in rule.body.inhibits or ():
                guard = name.path.startswith("nonfinite(")
                if name.path == rule.name:
                    self.error("V405", f"rule `{rule.name}` inhibits itself", name.span, "itself")
                elif name.path not in self.scope.rules and name.path not in self.broken and not guard:
                    self._unknown("rule", name, self.scope.rules)
                else:
                    graph.setdefault(rule.name, []).append(name.path)
                    places.setdefault(rule.name, name.span)
        done: set[str] = set()
        for start in graph:
            circle = _circle(start, graph, done)
            if circle:
                chain = " -> ".join([*circle, circle[0]])
                self.error("V405", "these rules inhibit each other in a circle", places[circle[0]], chain)

    def _unknown(self, what: str, name: ex.Name, known: object) -> None:
        near = difflib.get_close_matches(name.path, list(known), 1)  # type: ignore[call-overload]
        help_ = f"did you mean `{near[0]}`?" if near else ""
        self.error("V314", f"there is no {what} `{name.path}`", name.span, f"unknown {what}", help_)


def _circle(start: str, uses: dict[str, list[str]], done: set[str]) -> list[str]:
    """A circle that is reached from a name, if there is one that was not found before."""
    path: list[str] = []
    stack: list[Iterator[str]] = [iter([start])]
    while stack:
        name = next(stack[-1], None)
        if name is None:
            stack.pop()
            if path:
                done.add(path.pop())
            continue
        if name in path:
            circle = path[path.index(name) :]
            done.update(circle)
            return circle
        if name in done or name not in uses:
            continue
        path.append(name)
        stack.append(iter(uses[name]))
    return []
