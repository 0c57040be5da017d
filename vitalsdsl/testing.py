"""Tests of rules: `NAME.vtest.yaml`. A closed world: a transition that is not listed fails the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from vitalsdsl.errors import UsageError
from vitalsdsl.points import Rewind, Row
from vitalsdsl.policy import LoadedPolicy, load
from vitalsdsl.rules import LEVEL_WORDS, Level, Rule
from vitalsdsl.series import points
from vitalsdsl.stream import Stream
from vitalsdsl.verdict import Transition

Reader = Callable[[str], "Iterable[Row | Rewind]"]

_FILE_KEYS = {"policy", "seed", "set", "profile", "tests"}
_TEST_KEYS = {"name", "series", "replay", "expect", "set"}
_EXPECT_KEYS = {"step", "steps", "rule", "from", "to", "onset", "member", "reason"}


@dataclass(frozen=True)
class Expected:
    """One transition that has to come: at a step or in a range of steps."""

    first: int
    last: int
    rule: str
    to: Level
    from_: Level | None = None
    onset: tuple[int, int] | None = None
    member: str | None = None

    def matches(self, t: Transition) -> bool:
        onset = self.onset is None or (t.onset is not None and self.onset[0] <= t.onset <= self.onset[1])
        return (
            t.rule == self.rule
            and self.first <= t.step <= self.last
            and t.to == self.to
            and self.from_ in (None, t.from_)
            and self.member in (None, t.member)
            and onset
        )

    def __str__(self) -> str:
        when = f"step {self.first}" if self.first == self.last else f"steps {self.first}..{self.last}"
        onset = (
            ""
            if self.onset is None
            else f", onset {self.onset[0]}" + (f"..{self.onset[1]}" if self.onset[1] != self.onset[0] else "")
        )
        return f"{when}: {self.rule} to {self.to.word}{onset}"


@dataclass(frozen=True)
class Test:
    """One named test: points from series, or from a recorded run."""

    __test__ = False  # no test of pytest's

    name: str
    series: Mapping[str, str]
    replay: str | None
    expected: tuple[Expected, ...]
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """A file of tests, with the policy that it is about."""

    path: Path
    policy: Path
    seed: str
    settings: Mapping[str, object]
    profile: str | None
    tests: tuple[Test, ...]


@dataclass(frozen=True)
class Result:
    """What came of a test. `warning` where it asserts nothing, since its series never leave the warm-up."""

    test: Test
    missing: tuple[Expected, ...]
    unexpected: tuple[Transition, ...]
    fired: frozenset[str]
    silent: frozenset[str]
    warning: str = ""

    @property
    def passed(self) -> bool:
        return not self.missing and not self.unexpected

    def __str__(self) -> str:
        lines = [f"{'passed' if self.passed else 'FAILED'}  {self.test.name}"]
        for expected in self.missing:
            near = [t for t in self.unexpected if t.rule == expected.rule]
            hint = f"; nearest: step {near[0].step} to {near[0].to.word}, onset {near[0].onset}" if near else ""
            lines.append(f"    expected, and did not come:  {expected}{hint}")
        for t in self.unexpected:
            member = f" [{t.member}]" if t.member else ""
            lines.append(
                f"    came, and is not listed:     step {t.step}: {t.rule}{member} to {t.to.word}, onset {t.onset}"
            )
        if self.warning:
            lines.append(f"    V606 {self.warning}")
        return "\n".join(lines)


def load_tests(path: Path) -> Suite:
    """A file of tests. Raises UsageError with the file and the place where it cannot be read."""
    try:
        data = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {(error.strerror or 'no access').lower()}") from error
    except (YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        raise UsageError(f"{path}{where}: this is no YAML: {getattr(error, 'problem', None) or 'not text'}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{path}: a test file has `policy:` and `tests:`")
    _keys(data, _FILE_KEYS, str(path))
    if not isinstance(data.get("policy"), str) or not isinstance(data.get("tests"), list):
        raise UsageError(f"{path}: `policy:` names the policy's file, `tests:` is a list")
    tests = tuple(_test(entry, f"{path}: test {i}") for i, entry in enumerate(data["tests"], start=1))
    policy = path.parent / data["policy"]
    return Suite(path, policy, str(data.get("seed", 0)), data.get("set") or {}, data.get("profile"), tests)


def _keys(data: Mapping[Any, Any], known: set[str], where: str) -> None:
    for key in data:
        if key not in known:
            raise UsageError(f"{where}: `{key}` is no key here; known are {', '.join(sorted(known))}")


def _test(entry: Any, where: str) -> Test:
    if not isinstance(entry, dict):
        raise UsageError(f"{where}: a test has `name:`, `series:` (or `replay:`) and `expect:`")
    where = f"{where} ({entry.get('name', 'no name')})"
    _keys(entry, _TEST_KEYS, where)
    series, replay = entry.get("series"), entry.get("replay")
    if (series is None) == (replay is None) or not isinstance(series or {}, dict):
        raise UsageError(f"{where}: a test has either `series:` (metric to values) or `replay:` (a recorded run)")
    expect = entry.get("expect")
    if not isinstance(expect, list):
        raise UsageError(f"{where}: `expect:` is a list of transitions; `[]` where nothing may happen")
    expected = tuple(_expected(e, where) for e in expect)
    name = str(entry.get("name") or "unnamed")
    return Test(name, {str(k): str(v) for k, v in (series or {}).items()}, replay, expected, entry.get("set") or {})


def _expected(entry: Any, where: str) -> Expected:
    if (
        not isinstance(entry, dict)
        or "rule" not in entry
        or "to" not in entry
        or not ("step" in entry or "steps" in entry)
    ):
        raise UsageError(f"{where}: an expected transition has `step:` (or `steps: A..B`), `rule:` and `to:`")
    _keys(entry, _EXPECT_KEYS, where)
    for key in ("to", "from"):
        if key in entry and entry[key] not in LEVEL_WORDS:
            raise UsageError(f"{where}: there is no level `{entry[key]}`: green, yellow, orange, red")
    first, last = _range(entry.get("step", entry.get("steps")), where)
    onset = _range(entry["onset"], where) if entry.get("onset") is not None else None
    before = Level.parse(entry["from"]) if "from" in entry else None
    return Expected(first, last, str(entry["rule"]), Level.parse(entry["to"]), before, onset, entry.get("member"))


def _range(value: Any, where: str) -> tuple[int, int]:
    first, dots, last = str(value).partition("..")
    try:
        return (int(first), int(last)) if dots else (int(first), int(first))
    except ValueError:
        raise UsageError(f"{where}: `{value}` is no step: write 519, or 500..520") from None


def run_tests(suite: Suite, read: Reader) -> list[Result]:
    """Run all tests of a suite; `read` gives the rows of a recorded run by its reference. Raises VitalsError where the
    policy or a series cannot be used."""
    return [_run(suite, test, read) for test in suite.tests]


def _run(suite: Suite, test: Test, read: Reader) -> Result:
    settings = {**suite.settings, **test.settings}
    policy = load(suite.policy, settings=settings, profile=suite.profile)
    if test.replay is not None:
        reference = test.replay
        rows = read(reference if ":" in reference else str(suite.path.parent / reference))
    else:
        rows = _rows(suite, test)
    stream = Stream(policy.policy, test.name, policy.digest, keep_all=True)
    transitions: list[Transition] = []
    for event in rows:
        transitions += stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
    transitions += stream.finish()
    return _compare(policy, test, transitions, stream)


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


def _compare(policy: LoadedPolicy, test: Test, transitions: Sequence[Transition], stream: Stream) -> Result:
    left = list(transitions)
    missing = []
    for expected in test.expected:
        found = next((t for t in left if expected.matches(t)), None)
        if found is None:
            missing.append(expected)
        else:
            left.remove(found)
    fired = frozenset(t.rule for t in transitions if t.to)
    names = {rule.name for rule in policy.policy.of(Rule)}
    known = {r.name for r in stream.plan.rules if any(c.latest is not None for c in r.clauses)}
    warning = ""
    if not test.expected and not transitions and names and not known:
        warning = "no condition is ever known in this test: its series never leave the warm-up"
    return Result(test, tuple(missing), tuple(left), fired, frozenset(known - fired), warning)


def tested_rules(results: Iterable[Result]) -> dict[str, set[str]]:
    """Which rules a run of tests has seen fire, and which it has seen stay silent."""
    seen: dict[str, set[str]] = {}
    for result in results:
        for rule in result.fired:
            seen.setdefault(rule, set()).add("fires")
        for rule in result.silent:
            seen.setdefault(rule, set()).add("silent")
    return seen
