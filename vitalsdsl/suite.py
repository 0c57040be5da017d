"""A file of rule tests as objects, and what is wrong with it, each finding with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vitalsdsl.ground.diagnostic import Diagnostic, in_order
from vitalsdsl.ground.errors import PolicyError
from vitalsdsl.ground.source import Span
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.parser import refuse
from vitalsdsl.language.rules import Level
from vitalsdsl.language.series import read_series
from vitalsdsl.language.yaml.form import Key, Shape
from vitalsdsl.language.yaml.pieces import Fields, Pieces
from vitalsdsl.language.yaml.tree import Sequence, Tree, Unreadable, read_tree
from vitalsdsl.policies.policy_files import read_file
from vitalsdsl.verdicts.verdict import Transition

FILE = {
    "policy": Key(Shape.TEXT, "The policy's file, relative to this one, or pack:NAME."),
    "seed": Key(Shape.TEXT, "The seed of all noise in this file; 0 where it is not said."),
    "set": Key(Shape.VALUES, "Values of params, for all tests."),
    "profile": Key(Shape.NAME, "The profile whose values are taken."),
    "tests": Key(Shape.TEXTS, "The tests."),
}
TEST = {
    "name": Key(Shape.TEXT, "What the test shows."),
    "series": Key(Shape.TEXT, "The values of each metric.", each=True),
    "replay": Key(Shape.TEXT, "A recorded run."),
    "set": Key(Shape.VALUES, "Values of params, over those of the file."),
    "expect": Key(Shape.TEXTS, "All transitions that may come; an empty list for none."),
}
EXPECT = {
    "step": Key(Shape.TEXT, "The step, or steps A..B, at which the rule changes its level."),
    "steps": Key(Shape.TEXT, "The same."),
    "rule": Key(Shape.NAME, "The rule."),
    "member": Key(Shape.NAME, "The member, of a rule with `each`."),
    "from": Key(Shape.LEVEL, "The level before."),
    "to": Key(Shape.LEVEL, "The level after."),
    "onset": Key(Shape.TEXT, "The first step, or steps A..B, of what led there."),
}
_RANGE = re.compile(r"([0-9]{1,15})(?:\s*\.\.\s*([0-9]{1,15}))?")
_SCHEME = re.compile(r"[a-z][a-z0-9+]+:")


@dataclass(frozen=True)
class Expected:
    """One transition that has to come: at a step or in a range of steps, both ends included."""

    first: int
    last: int
    rule: str
    to: Level
    from_: Level | None = None
    onset: tuple[int, int] | None = None
    member: str | None = None
    line: int = 0

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
        member = f"[{self.member}]" if self.member is not None else ""
        before = f" from {self.from_.word}" if self.from_ is not None else ""
        first, last = self.onset or (0, 0)
        onset = "" if self.onset is None else f", onset {first}" if first == last else f", onset {first}..{last}"
        return f"{when}: {self.rule}{member}{before} to {self.to.word}{onset}"


@dataclass(frozen=True)
class Test:
    """One named test: points from series, or from a recorded run. `places` are those of the series' keys."""

    __test__ = False  # no test of pytest's

    name: str
    series: Mapping[str, str]
    replay: str | None
    expected: tuple[Expected, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    places: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """A file of tests, with the policy that it is about."""

    path: Path
    policy: str
    seed: str
    settings: Mapping[str, str]
    profile: str | None
    tests: tuple[Test, ...]

    def beside(self, reference: str) -> str:
        """A reference in this file as one from where we are: files are relative to it."""
        return reference if _SCHEME.match(reference) else str(self.path.parent / reference)


def load_tests(path: Path) -> Suite:
    """A file of tests. Raises PolicyError with all that is wrong with it, each finding with file, line and column."""
    source = read_file(str(path))
    if isinstance(source, Diagnostic):
        raise PolicyError([source])
    refusal = refuse(source)
    if refusal is not None:
        raise PolicyError([refusal])
    try:
        tree = read_tree(source)
    except Unreadable as error:
        raise PolicyError([error.finding]) from None
    reading = _Reading(source)
    suite = reading.suite(path, tree)
    if suite is None or reading.diagnostics:
        raise PolicyError(in_order(reading.diagnostics))
    return suite


class _Reading(Pieces):
    """One pass over one tree."""

    def suite(self, path: Path, tree: Tree | None) -> Suite | None:
        place = self.source.span(0, 1)
        if tree is None:
            self.error("V057", "this file holds no tests", place, "", "write `policy: NAME.vitals` and `tests:`")
            return None
        found = self.fields(tree, FILE, "a test file")
        policy, profile = self._word(found, "policy"), self._word(found, "profile")
        seed = self._word(found, "seed") or "0"
        if not re.fullmatch(r"-?[0-9]{1,15}", seed):
            self.error("V076", f"`{seed}` is no seed", found["seed"][1].span, "a whole number")
            seed = "0"
        settings = self._settings(found)
        tests = self._tests(found["tests"][1]) if "tests" in found else []
        if not self.diagnostics and "tests" in found and not tests:
            help_ = "write one: `- {name: …, series: {…}, expect: []}`"
            self.error("V057", "`tests:` is empty", _first_line(found["tests"][1]), "no test", help_)
        elif not self.diagnostics and (policy is None or not tests):
            word = "`policy:` names its policy" if policy is None else "`tests:` lists its tests"
            self.error("V057", f"a key is missing: {word}", place, "", "write `policy: NAME.vitals` and `tests:`")
        return Suite(path, policy, str(int(seed)), settings, profile, tuple(tests)) if policy is not None else None

    def _word(self, found: Fields, key: str) -> str | None:
        scalar = self.scalar(found[key][1], key) if key in found else None
        return scalar.text if scalar is not None else None

    def _settings(self, found: Fields) -> dict[str, str]:
        given = self.settings(found["set"][1], "set") if "set" in found else ()
        return {setting.name: expression_text(setting.value) for setting in given}

    def _tests(self, tree: Tree) -> list[Test]:
        tests = [self._test(item) for item in self._list(tree, "tests")]
        seen: set[str] = set()
        for test, place in tests:
            if test.name in seen:
                # Noise is drawn by the test's name: two of one name would be two of one run.
                self.error("V076", f"two tests are called `{test.name}`", place, "again", "give it a name of its own")
            seen.add(test.name)
        return [test for test, _ in tests]

    def _list(self, tree: Tree, what: str) -> list[Tree]:
        if isinstance(tree, Sequence):
            return tree.items
        self.error("V053", f"`{what}` is a list", _first_line(tree), "not that", "begin each item with `- `")
        return []

    def _test(self, tree: Tree) -> tuple[Test, Span]:
        before = len(self.diagnostics)
        found = self.fields(tree, TEST, "a test")
        misspelt = len(self.diagnostics) > before
        place = found["name"][1].span if "name" in found else _first_line(tree)
        for key in ("name", "expect"):
            if found and key not in found:
                hint = "`expect: []` where nothing may happen" if key == "expect" else "say what the test shows"
                self.error("V057", f"a test has no `{key}:`", place, "", hint)
        if found and ("series" in found) == ("replay" in found) and not (misspelt and "series" not in found):
            word = "both" if "series" in found else "neither"
            hint = "`series:` gives values, `replay:` a recorded run"
            self.error("V076", f"this test has {word} of `series:` and `replay:`", place, "one of them", hint)
        series = self._series(found["series"][1]) if "series" in found else []
        expected = [self._expected(e) for e in self._list(found["expect"][1], "expect")] if "expect" in found else []
        name, replay = self._word(found, "name") or "", self._word(found, "replay")
        listed = tuple(e for e in expected if e is not None)
        notations, places = {n: text for n, text, _ in series}, {n: span for n, _, span in series}
        return Test(name, notations, replay, listed, self._settings(found), place.position[0], places), place

    def _series(self, tree: Tree) -> list[tuple[str, str, Span]]:
        found: list[tuple[str, str, Span]] = []
        for key, value in self.named(tree, "series"):
            scalar = self.scalar(value, key.text)
            if scalar is None:
                continue
            for wrong in read_series(scalar.text)[1]:
                at = scalar.positions
                last = at[wrong.end - 1] + 1 if wrong.end > wrong.start else at[wrong.start] + 1
                self.error("V075", wrong.message, self.source.span(at[wrong.start], last), "here", wrong.help)
            found.append((key.text, scalar.text, key.span))
        return found

    def _expected(self, tree: Tree) -> Expected | None:
        before = len(self.diagnostics)
        found = self.fields(tree, EXPECT, "an expected transition")
        place = _first_line(tree)
        missing = [k for k in ("rule", "to") if k not in found]
        if ("step" in found) == ("steps" in found):
            missing.insert(0, "step")
        if missing and len(self.diagnostics) == before:
            twice = "step" in found and "steps" in found
            message = "`step:` and `steps:` say the same" if twice else f"`{missing[0]}:` is missing here"
            self.error("V076" if twice else "V057", message, place, "", "{step: 519, rule: NAME, to: orange}")
        first, last = self._range(found, "steps" if "steps" in found else "step") or (0, 0)
        onset = self._range(found, "onset") if "onset" in found else None
        to = self.level(found["to"][1]) if "to" in found else None
        from_ = self.level(found["from"][1]) if "from" in found else None
        rule, member = self._word(found, "rule"), self._word(found, "member")
        if to is None or rule is None or len(self.diagnostics) > before:
            return None
        return Expected(first, last, rule, to, from_, onset, member, place.position[0])

    def _range(self, found: Fields, key: str) -> tuple[int, int] | None:
        scalar = self.scalar(found[key][1], key) if key in found else None
        if scalar is None:
            return None
        form = _RANGE.fullmatch(scalar.text.strip())
        if form is None:
            self.error("V076", f"`{scalar.text}` is no step", scalar.span, "write 519, or 500..520")
            return None
        first, last = int(form[1]), int(form[2] or form[1])
        if first > last:
            self.error("V076", f"no step lies in {scalar.text}", scalar.span, f"write {last}..{first}")
        return first, last


def _first_line(tree: Tree) -> Span:
    text = tree.span.text.split("\n", 1)[0].rstrip()
    return Span(tree.span.source, tree.span.start, tree.span.start + max(1, len(text)))
