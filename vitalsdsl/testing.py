"""Tests of rules: `NAME.vtest.yaml`. A closed world: a transition that is not listed fails the test."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from vitalsdsl.ground.diagnostic import Diagnostic, Severity, printable
from vitalsdsl.ground.errors import PolicyError
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.language.rules import Rule
from vitalsdsl.language.scope import Scope
from vitalsdsl.language.series import points
from vitalsdsl.planning.logged import Reads
from vitalsdsl.planning.warmup import Earliest
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.suite import Expected, Suite, Test, load_tests
from vitalsdsl.verdicts.verdict import RuleState, Transition

__all__ = ["Expected", "Reader", "Result", "Suite", "Test", "load_tests", "run_test", "run_tests", "tested_rules"]

Reader = Callable[[str], "Iterable[Row | Rewind]"]

MOST_LINES = 40
"""Of a failure: what a person reads before they give up."""

MOST_OF_A_SERIES = 40
"""Characters that a help shows of one."""


@dataclass(frozen=True)
class Result:
    """What came of a test. `warning` where it asserts nothing, since no condition is ever known in it; `hints` say for
    each missing transition what is nearest to it."""

    test: Test
    matched: tuple[tuple[Expected, Transition], ...]
    missing: tuple[Expected, ...]
    unexpected: tuple[Transition, ...]
    fired: frozenset[str]
    silent: frozenset[str]
    hints: tuple[str, ...] = ()
    warning: str = ""

    @property
    def passed(self) -> bool:
        return not self.missing and not self.unexpected

    def __str__(self) -> str:
        """The test step by step: what came, what is missing, what is one too many."""
        head = f"{'passed' if self.passed else 'FAILED'}  {printable(self.test.name)}  (line {self.test.line})"
        lines = [head]
        if not self.passed:
            lines += [f"    {printable(text)}" for _, text in sorted(self._lines())[:MOST_LINES]]
            more = len(self.matched) + len(self.missing) + len(self.unexpected) - MOST_LINES
            lines += [f"    … and {more:,} more"] if more > 0 else []
        if self.warning:
            lines.append(f"    V606 {self.warning}")
        return "\n".join(lines)

    def _lines(self) -> Iterator[tuple[int, str]]:
        for _, came in self.matched:
            yield came.step, f"came as expected:            {told(came)}"
        for expected, hint in zip(self.missing, self.hints):
            yield expected.first, f"expected, and did not come:  {expected}  (line {expected.line}); {hint}"
        for came in self.unexpected:
            yield came.step, f"came, and is not listed:     {told(came)}"


def told(t: Transition) -> str:
    """A transition as tests list it."""
    member = f"[{t.member}]" if t.member is not None else ""
    onset = f", onset {t.onset}" if t.onset is not None else ""
    return f"step {t.step}: {t.rule}{member} to {t.to.word}{onset} (from {t.from_.word})"


def run_tests(suite: Suite, read: Reader) -> list[Result]:
    """Run all tests of a suite; `read` gives the rows of a recorded run by its reference.

    Raises VitalsError where the policy or a recorded run cannot be used, or a series is of a name that nothing in the
    policy reads.
    """
    loaded: dict[tuple[tuple[str, str], ...], LoadedPolicy] = {}
    keys = []
    for test in suite.tests:
        settings = {**suite.settings, **test.settings}
        keys.append(tuple(sorted(settings.items())))
        if keys[-1] not in loaded:
            loaded[keys[-1]] = load(suite.beside(suite.policy), settings=settings, profile=suite.profile)
    reads = {key: Reads(policy.policy) for key, policy in loaded.items()}
    unread = [_unread(name, test, reads[key]) for test, key in zip(suite.tests, keys)
              for name in test.places if not reads[key].takes(name)]  # fmt: skip
    if unread:
        raise PolicyError(unread)
    return [run_test(suite, test, loaded[key], read, reads[key]) for test, key in zip(suite.tests, keys)]


def _unread(name: str, test: Test, reads: Reads) -> Diagnostic:
    """A series under a name that the policy does not read: the rules would see nothing, and the test pass."""
    message, near = f"no metric of this policy is logged as `{name}`", reads.nearest(name)
    written = test.series[name]
    first = written if len(written) <= MOST_OF_A_SERIES else written[:MOST_OF_A_SERIES].rsplit(",", 1)[0] + ", …"
    if any(read.path == name for read in reads.metrics):
        message += f': metric `{name}` is read from "{near}"'
        help_ = f'write `"{near}": "{first}"`'
    elif near:
        help_ = f"did you mean `{near}`?"
    else:
        known = [n for read in reads.metrics for n in read.names]
        help_ = (
            f"it reads {', '.join(known[:5])}" + (", …" if len(known) > 5 else "") if known else "it reads no metric"
        )
    return Diagnostic("V085", Severity.ERROR, message, test.places[name], "read by nothing", (help_,))


def run_test(suite: Suite, test: Test, policy: LoadedPolicy, read: Reader, reads: Reads | None = None) -> Result:
    """Run one test of a suite under a policy, which need not be the suite's own; `reads` is what that policy reads.

    Raises VitalsError where a recorded run cannot be used.
    """
    reads = Reads(policy.policy) if reads is None else reads
    # Node by node: where a rule is surely calm, quick steps leave open whether its condition is known.
    stream = Stream(policy.policy, test.name, policy.digest, keep_all=True, quick=False)
    known: set[str] = set()
    transitions: list[Transition] = []
    rows = read(suite.beside(test.replay)) if test.replay is not None else _rows(suite, test)
    for count, event in enumerate(rows):
        transitions += stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
        # What was known once may be stale at the end; in a long recording a look now and then will do.
        if test.replay is None or count % 1000 == 0:
            known |= _known(stream.plan.rules, known)
    transitions += stream.finish()
    known |= _known(stream.plan.rules, known) | {t.rule for t in transitions}
    return _compare(policy, test, transitions, known, lambda: _nothing_known(stream, policy, reads))


def _nothing_known(stream: Stream, policy: LoadedPolicy, reads: Reads) -> str:
    """Why no condition was ever known: the metrics are not logged, or the run is shorter than a rule needs."""
    said = "no condition is ever known in this test"
    lacking = {read.path for read in reads.never_logged(stream.names)}
    rules = [r for r in policy.policy.of(Rule) if not r.body.disabled]
    warming = [r for r in rules if lacking.isdisjoint(name.path for name in reads.of_rule(r))]
    first, last = stream.plan.graph.clock.first_step, stream.closed
    if warming and first is not None and last is not None:
        earliest = Earliest(Scope.of(policy.policy))
        needs = {r.name: min(earliest.known(c.condition).lived().steps for c in r.body.clauses) for r in warming}
        name = min(needs, key=lambda n: needs[n])
        if needs[name] > last - first + 1:
            return f"{said}: its series are shorter than the {math.ceil(needs[name]):,} steps that `{name}` needs"
    never = [" or ".join(read.names) for read in reads.never_logged(stream.names)]
    return f"{said}: never logged here: {', '.join(never)}" if never else said


def _known(states: Iterable[RuleState], before: set[str]) -> set[str]:
    return {s.name for s in states if s.name not in before and any(c.latest is not None for c in s.clauses)}


def _rows(suite: Suite, test: Test) -> list[Row]:
    """The rows of a test's series, by step; a second point at one step makes a second row of it."""
    table: dict[int, list[dict[str, float]]] = {}
    for metric, notation in test.series.items():
        for step, value in points(notation, f"{suite.seed}/{test.name}/{metric}"):
            rows = table.setdefault(step, [])
            free = next((row for row in rows if metric not in row), None)
            if free is None:
                free = {}
                rows.append(free)
            free[metric] = value
    return [Row(step, row) for step in sorted(table) for row in table[step]]


def _compare(
    policy: LoadedPolicy, test: Test, transitions: list[Transition], known: set[str], why: Callable[[], str]
) -> Result:
    given = _assigned(test.expected, transitions)
    matched = tuple((test.expected[e], transitions[t]) for e, t in sorted(given.items(), key=lambda pair: pair[1]))
    missing = tuple(e for i, e in enumerate(test.expected) if i not in given)
    used = set(given.values())
    unexpected = tuple(t for i, t in enumerate(transitions) if i not in used)
    names = {rule.name for rule in policy.policy.of(Rule) if not rule.body.disabled}
    every = {rule.name for rule in policy.policy.of(Rule)}
    hints = tuple(_nearest(e, unexpected, transitions, every, known) for e in missing)
    warning = ""
    if not test.expected and not transitions and names and not known:
        warning = why()
    fired = frozenset(t.rule for t in transitions if t.to)
    return Result(test, matched, missing, unexpected, fired, frozenset((known & names) - fired), hints, warning)


def _assigned(expected: tuple[Expected, ...], transitions: list[Transition]) -> dict[int, int]:
    """Which transition stands for which expected one: as many as can be, so a range takes none that another needs."""
    by_rule: dict[str, list[int]] = {}
    for place, transition in enumerate(transitions):
        by_rule.setdefault(transition.rule, []).append(place)
    fitting = [[i for i in by_rule.get(e.rule, ()) if e.matches(transitions[i])] for e in expected]
    given: dict[int, int] = {}
    owner: dict[int, int] = {}
    for start in range(len(expected)):
        reached: dict[int, int] = {}
        queue, free = [start], None
        while queue and free is None:
            asking = queue.pop(0)
            for t in fitting[asking]:
                if t not in reached:
                    reached[t] = asking
                    if t not in owner:
                        free = t
                        break
                    queue.append(owner[t])
        while free is not None:
            asking = reached[free]
            left = given.get(asking)
            owner[free], given[asking] = asking, free
            free = left
    return given


def _nearest(
    expected: Expected, unexpected: Iterable[Transition], every: list[Transition], names: set[str], known: set[str]
) -> str:
    """What came instead, or why nothing did."""
    rule = expected.rule
    if rule not in names and not rule.startswith("nonfinite("):
        near = difflib.get_close_matches(rule, names, 1)
        return f"there is no rule `{rule}`" + (f": did you mean `{near[0]}`?" if near else "")
    own = [t for t in unexpected if t.rule == rule] or [t for t in every if t.rule == rule]
    if own:
        middle = (expected.first + expected.last) / 2
        best = min(own, key=lambda t: (abs(t.step - middle), t.to != expected.to))
        return f"nearest: {told(best)}"
    return "the rule stayed green" if rule in known else "its condition was never known"


def tested_rules(results: Iterable[Result]) -> dict[str, set[str]]:
    """Which rules a run of tests has seen fire, and which it has seen stay silent."""
    seen: dict[str, set[str]] = {}
    for result in results:
        for rule in result.fired:
            seen.setdefault(rule, set()).add("fires")
        for rule in result.silent:
            seen.setdefault(rule, set()).add("silent")
    return seen
