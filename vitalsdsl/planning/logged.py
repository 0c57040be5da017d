"""What a policy reads of what a run logs, and what to say where the two do not meet."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from vitalsdsl.ground.quoting import quoted
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import name_text
from vitalsdsl.language.guards import named
from vitalsdsl.language.scope import LOGGED_COUNTERS, Meaning, Scope, fill_family, match_family
from vitalsdsl.planning.intake import Metrics

_Part = rules.Let | rules.Event | rules.Phase

_OF_UNIT = {"epochs": "epoch", "tokens": "tokens"}

WHY_UNKNOWN = {
    "progress": "this run does not say how long it is",
    "epoch": "this run does not log it",
    "tokens": "this run does not log them",
    "elapsed": "this run has no wall times",
}
"""Why a counter of a run is not known."""

NEAR = 0.7
"""How alike a name that is suggested has to be: `eval/loss` is not meant by `loss`."""

MOST_TOLD = 8
"""Metrics that are told one by one; `vitals names RUN --policy POLICY` lists them all."""

WIDEST = 160
"""Characters of what is told of them, hints not counted; one is told whatever it takes."""

MOST_HINTS = 2

MOST_READERS = 3
"""Of one metric: who wants all of them asks the policy."""


@dataclass
class Read:
    """A metric or family that a policy reads: its own name, the names under which a run logs it, and who reads it."""

    path: str
    names: tuple[str, ...]
    family: bool = False
    optional: bool = False
    every: ex.Expression | None = None
    readers: list[str] = field(default_factory=list)

    def is_among(self, logged: Collection[str]) -> bool:
        """Whether a run that logs these names logs this."""
        return any(map(self.takes, logged)) if self.family else any(name in logged for name in self.names)

    def takes(self, name: str) -> bool:
        """Whether what is logged under this name is this metric, or a member of this family."""
        if not self.family:
            return name in self.names
        stars = [star for pattern in self.names if (star := match_family(pattern, name)) is not None]
        return any(match_family(self.path, fill_family(self.path, star)) is not None for star in stars)

    def is_due(self, steps: int) -> bool:
        """Whether it should have come within the first steps of a run, as far as the policy says how often it comes."""
        every = self.every
        return every is None or (isinstance(every, ex.Length) and every.unit == "steps" and every.size <= steps)

    def __str__(self) -> str:
        """`los (read by los_orange)`."""
        more = len(self.readers) - MOST_READERS
        who = ", ".join(self.readers[:MOST_READERS]) + (f" and {more} more" if more > 0 else "")
        return f"{self.path} (read by {who})"


class Reads:
    """All that a policy reads.

    >>> from vitalsdsl.policies.policy import load
    >>> policy = load("p", text='metric loss = "train/loss" when loss > 3 and lr > 0 -> red').policy
    >>> [(read.path, read.names, read.readers) for read in Reads(policy).metrics]
    [('loss', ('train/loss',), ['loss_red']), ('lr', ('lr',), ['loss_red'])]
    """

    def __init__(self, policy: rules.Policy) -> None:
        self._policy = policy
        self._scope = Scope.of(policy)
        self._intake = Metrics(self._scope)
        self._found: dict[str, Read] = {}
        self._asleep: list[Read] = []
        self.counters: list[str] = [_OF_UNIT[unit] for unit in _units(policy)]
        """The run's own counters that are named, or that lengths are measured by."""
        for rule in policy.of(rules.Rule):
            if not rule.body.disabled:
                self._read_by(rule.name, self.of_rule(rule))
        parts: list[_Part] = [*policy.of(rules.Let), *policy.of(rules.Event), *policy.of(rules.Phase)]
        for named_part in parts:
            said = f"{type(named_part).__name__.lower()} {named_part.name}"
            self._read_by(said, list(self._behind(_inside(named_part), None, set())), only_new=True)
        counters = list(self.counters)
        for rule in policy.of(rules.Rule):
            if rule.body.disabled:
                self._asleep += [self._made(node) for node in self.of_rule(rule)]
        self.counters = counters

    @property
    def metrics(self) -> list[Read]:
        """The metrics and families of all rules in force, in the order in which the policy first reads them."""
        return list(self._found.values())

    def of_rule(self, rule: rules.Rule) -> list[ex.Name | ex.Family]:
        """The metrics and families behind a rule, through lets, events and phases."""
        nodes: list[ex.Node] = list(rule.phases)
        for clause in rule.body.clauses:
            nodes += [clause.condition, *([clause.on] if clause.on is not None else [])]
        if rule.body.clear is not None and rule.body.clear.condition is not None:
            nodes.append(rule.body.clear.condition)
        if rule.body.because is not None:
            nodes += [p.expression for p in rule.body.because.parts if isinstance(p, rules.TemplateField)]
        return list(self._behind(nodes, rule.each, set()))

    def _behind(
        self, nodes: Iterable[ex.Node], each: rules.Each | None, seen: set[str]
    ) -> Iterator[ex.Name | ex.Family]:
        scope, member = self._scope, each.member if each is not None else None
        for name in (name for node in nodes for name in named(node)):
            inner = scope.part(name)
            meaning = Meaning.METRIC if isinstance(name, ex.Family) else scope.meaning(name, member)
            if meaning is Meaning.MEMBER and each is not None:
                if name.path != "member":
                    yield from self._behind([each.family], None, seen)
            elif meaning is Meaning.COUNTER and name.path not in self.counters:
                self.counters.append(name.path)
            if inner is None and meaning is Meaning.METRIC and not (each is not None and name.path == "member"):
                yield name
            elif inner is not None and inner.name not in seen:
                seen.add(inner.name)
                yield from self._behind(_inside(inner), None, seen)

    def _made(self, node: ex.Name | ex.Family) -> Read:
        if isinstance(node, ex.Family):
            patterns = self._intake.patterns(node.path)
            is_optional = any(m.optional for m in self._scope.metrics.values() if m.family and m.logged == patterns)
            return Read(node.path, patterns, family=True, optional=is_optional)
        declared, names = self._intake.declared(node.path)
        if declared is None:
            return Read(node.path, names)
        return Read(node.path, names, optional=declared.optional, every=declared.every)

    def _read_by(self, reader: str, nodes: list[ex.Name | ex.Family], only_new: bool = False) -> None:
        for node in nodes:
            read = self._found.setdefault(node.path, self._made(node))
            if reader not in read.readers and not (only_new and read.readers):
                read.readers.append(reader)

    # ---------------------------------------------------------------- a run beside it

    @property
    def pack(self) -> str:
        """The reference of the pack that the policy itself is; empty for a file of somebody's own."""
        return self._policy.source.name if self._policy.source.name.startswith("pack:") else ""

    def takes(self, name: str) -> bool:
        """Whether anything of the policy is about what a run logs under this name: what rules read (those that are
        switched off too), what `metric` declares, the axis, and the run's own counters."""
        counters = [n for names in LOGGED_COUNTERS.values() for n in names]
        axes = [axis.metric for axis in self._policy.of(rules.Axis)]
        return (
            name in counters
            or name in axes
            or any(read.takes(name) for read in (*self.metrics, *self._asleep))
            or any(self._declares(metric, name) for metric in self._policy.of(rules.Metric))
        )

    def _declares(self, metric: rules.Metric, name: str) -> bool:
        if metric.family:
            return any(match_family(pattern, name) is not None for pattern in metric.logged)
        return name in metric.logged

    def never_logged(self, logged: Collection[str]) -> list[Read]:
        """What a run that logs these names does not log, though the policy reads it. What is `optional` counts only where
        the run logs nothing at all that the policy reads: then the policy is blind."""
        lacking = [read for read in self.metrics if not read.is_among(logged)]
        return lacking if len(lacking) == len(self.metrics) else [read for read in lacking if not read.optional]

    def stopped(self, ended: Iterable[tuple[str, int]], last: int) -> list[str]:
        """A word on each metric of rules that stopped before the run did, at step `last`; `ended` are all that did so."""
        return [
            f"`{name}` was last logged at step {step:,} of {last:,}"
            for name, step in ended
            if any(read.takes(name) for read in self.metrics)
        ]

    def never_known(self, counter: Callable[[str], float]) -> list[str]:
        """The counters that the policy goes by and this run does not have; `counter` gives a counter's newest value."""
        return [name for name in self.counters if math.isnan(counter(name))]

    def hint(self, read: Read, logged: Collection[str]) -> str:
        """What may be meant by a metric that a run does not log; empty where nothing is near."""
        if read.family:
            return ""
        same = [name for name in sorted(logged) if _last(name) == _last(read.path)]
        own = (read.path, *read.names)
        near = same or [n for name in own for n in difflib.get_close_matches(name, sorted(logged), 1, NEAR)]
        if not near:
            return ""
        if not same and read.path not in self._scope.metrics:
            return f"did you mean `{name_text(near[0])}`?"
        return f"write `{self.further_name(read, near[0])}`"

    def further_name(self, read: Read, name: str, space: str = "") -> str:
        """The statement by which a policy has a metric under one more name, or one that uses this policy under a namespace
        has it: the names of the file that is used stay."""
        if space:
            return f"metric {space}.{name_text(read.path)} = {_quoted(name)}"
        declared = self._scope.metrics.get(read.path)
        is_own = declared is not None and declared.span.source is self._policy.source
        return f"metric {name_text(read.path)} = {', '.join(map(_quoted, [*(read.names if is_own else ()), name]))}"

    def told(self, lacking: Sequence[Read], logged: Collection[str]) -> str:
        """`los (read by los_orange); did you mean `loss`?` in one short line. What somebody wrote for these runs comes
        before what a pack would look at, families last."""
        ordered = sorted(lacking, key=lambda read: (read.optional, read.family))
        shown = ordered[:MOST_TOLD]
        while len(shown) > 1 and len(", ".join(map(str, shown))) > WIDEST:
            shown.pop()
        said = ", ".join(map(str, shown))
        if len(lacking) > len(shown):
            said += f" and {len(lacking) - len(shown)} more"
        hints = ((read, self.hint(read, logged)) for read in shown)
        for read, hint in [(read, hint) for read, hint in hints if hint][:MOST_HINTS]:
            said += f"; {hint}" if len(lacking) == 1 else f"; {read.path}: {hint}"
        return said

    def nearest(self, name: str) -> str:
        """What to write instead of a logged name that nothing reads; empty where nothing is near."""
        for read in (*self.metrics, *self._asleep):
            if read.path == name:
                return read.names[0]
        known = [n for read in (*self.metrics, *self._asleep) if not read.family for n in read.names]
        return next(iter(difflib.get_close_matches(name, known, 1, NEAR)), "")


def _inside(statement: _Part) -> list[ex.Node]:
    if isinstance(statement, rules.Let):
        return [statement.expression, *([statement.on] if statement.on is not None else [])]
    return [statement.condition]


def _units(policy: rules.Policy) -> list[str]:
    """`epochs` and `tokens`, where a length of a rule in force or a named part is in them."""
    parts = [s for s in policy.statements if not (isinstance(s, rules.Rule) and s.body.disabled)]
    used = {node.unit for part in parts for node in part.walk() if isinstance(node, ex.Length)}
    return [unit for unit in _OF_UNIT if unit in used]


def _last(name: str) -> str:
    return name.rsplit("/", 1)[-1].lower()


def _quoted(name: str) -> str:
    return quoted(name)
