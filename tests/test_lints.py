"""Laws over all lints: each finds its bad example, leaves its good one alone, and has a page."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from cases import CASES, load
from tried import tried_on

import vitalsdsl
from vitalsdsl.checker import check
from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.source import Source
from vitalsdsl.language.parser import parse
from vitalsdsl.language.scope import name_rules
from vitalsdsl.lints.base import Lint, explain, lints, run_lints
from vitalsdsl.policies.policy import read

LINTS = sorted(lints().values(), key=lambda lint: lint.code)
GOLDEN = Path(__file__).parent / "golden" / "lints"

# Policies of the random corpus whose references are never known: `usual(x, 4 steps)` holds four points at most.
NEVER_KNOWN = {"random_1015", "random_1106", "random_1132", "random_1133", "random_1154", "random_1191"}

# A policy of the random corpus that compares an expression with itself.
WITH_ITSELF = {"random_1038"}


def looked_at(lint: type[Lint], text: str) -> list[Diagnostic]:
    tested: dict[str, set[str]] | None = {} if lint.code == "V601" else None
    tries = tried_on(lint.logged) if lint.logged else None
    return read("p.vitals", text=text, tested=tested, channels=lambda: frozenset({"team"}), tries=tries)[1]


@pytest.mark.parametrize("lint", LINTS, ids=lambda lint: lint.code)
def test_a_lint_finds_its_bad_example_alone_and_not_its_good_one(lint: type[Lint]) -> None:
    assert {d.code for d in looked_at(lint, lint.bad)} == {lint.code}
    good = read("p.vitals", text=lint.good, tries=tried_on(lint.logged) if lint.logged else None)[1]
    assert lint.code not in {d.code for d in good}
    assert not any(d.is_error for d in good)


@pytest.mark.parametrize("lint", LINTS, ids=lambda lint: lint.code)
def test_every_lint_has_a_page_with_both_examples_and_tells_what_to_do(lint: type[Lint]) -> None:
    page = explain(lint.code)
    assert lint.__doc__ and lint.__doc__.strip().splitlines()[0] in page
    for example in (lint.bad, lint.good):
        assert all(line in page for line in example.splitlines())
    for diagnostic in looked_at(lint, lint.bad):
        assert diagnostic.help or lint.code == "V601"
        assert diagnostic.severity is lint.severity
        assert len(diagnostic.message) <= 110


@pytest.mark.parametrize("lint", LINTS, ids=lambda lint: lint.code)
def test_a_finding_looks_as_it_did(lint: type[Lint], update: bool) -> None:
    path = GOLDEN / f"{lint.code}.txt"
    shown = "\n\n".join(d.render() for d in looked_at(lint, lint.bad)) + "\n"
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown, "utf-8")
    assert path.read_text("utf-8") == shown


def test_every_module_of_the_folder_of_lints_says_what_it_finds() -> None:
    names = {type_.__module__ for type_ in lints().values()}
    assert all(importlib.import_module(name).__doc__ for name in names)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_no_grave_lint_speaks_of_a_conformance_policy_unless_the_page_says_so(path: Path) -> None:
    grave = {d.code for d in run_lints(name_rules(parse(Source(path.stem, load(path)["policy"])).policy)) if d.is_error}
    expected = {"V212"} if path.stem in NEVER_KNOWN else {"V204"} if path.stem in WITH_ITSELF else set()
    assert grave == expected


ADVICE = [
    # a jump to c times fires only if c > k(1 + n(c - 1)/W): k = 2, n = 30, W = 100 leaves c > 2 * 70 / 40 = 3.5
    ("when loss > 2 * mean(loss, 100 steps) for 30 steps -> yellow", "V201", "jumps to 3.5 times"),
    ("let ref = mean(loss, 100 steps)\nwhen loss > 2 * ref for 50 steps -> yellow", "V201", "never fires"),
    ("when loss > 2 * median(loss, 100 steps) for 60 steps -> yellow", "V201", "half of the window"),
    ("when zscore(loss, 50 samples) > 3 for 30 samples -> yellow", "V201", "half of the window"),
    ("when loss - mean(loss, 10 samples) > 3 * std(loss, 10 samples) -> yellow", "V212", "at most 2.85"),
    ("when loss > mean(loss, 10 samples) + 3 * std(loss, 10 samples) -> yellow", "V212", "at most 2.85"),
    ("when usual(loss, 4 steps) > 3 -> yellow", "V212", "4 at most"),
    ("when loss > 3 * baseline(loss, 5 samples) -> yellow", "V202", "5 points at most"),
    ("when loss > 5 and loss < 3 -> yellow", "V204", "cannot be above 5 and below 3"),
    ("when 5 < loss < 3 -> yellow", "V204", "cannot be above 5 and below 3"),
    ("when loss > 3 or loss < 5 -> yellow", "V204", "always above 3 or below 5"),
    ("when std(loss, 9 steps) < 0 -> yellow", "V204", "never below 0"),
    ("when step < 0 -> yellow", "V204", "never below 0"),
    ("when loss > 3 > 2 -> yellow", "V204", "fixed numbers"),
    ("when corr(a, b, 9 steps) > 2 -> yellow", "V204", "between -1 and 1"),
    ("when not (loss > 1.5 * usual(loss, 50)) -> yellow", "V213", "frozen by health"),
    ("when loss < usual(loss, 50) + 3 * noise(loss, 50) -> yellow", "V213", "frozen by health"),
    ("when loss > 3 for 2 of 3 samples -> yellow", "V211", "it flaps"),
    ("when rising(loss, 9 samples) and loss > 3 -> yellow", "V207", "2.5 times the noise"),
    (
        'metric loss = "train_loss"\nlet train_loss = 2 * loss\nwhen train_loss > 3 -> yellow',
        "V305",
        "hides the metric",
    ),
    ("phase late = progress > 80\nrule r in phase late { when x > 3 -> yellow }", "V206", "write `80%`"),
    ('metric x = "x" stale after 9 steps\nwhen missing x for 100 steps -> yellow', "V109", "add `every 50 steps` to"),
    ('when missing "a b" for 1 h -> yellow', "V109", '`metric NAME = "a b" every 10 min`, and use NAME'),
    ("", "V509", "this policy has no rule"),
    ("# nothing yet", "V509", "this policy has no rule"),
    ("when a-b-c > 3 -> yellow", "V307", 'write `"a-b-c"`'),
    ("let lag = a - b-c\nwhen lag > a -> yellow", "V307", 'write `"b-c"`'),
    ('rule r "t" { when x > 3 -> yellow because "{value} at {run}" }', "V309", "such as `{x}`"),
    ("nonfinite off\nlimit rollback 1 per 99 steps\nwhen x > 3 for 9 steps -> red", "V209", "`x`"),
]


@pytest.mark.parametrize(("text", "code", "told"), ADVICE, ids=[f"{c}-{t}" for t, c, _ in ADVICE])
def test_advice_is_given_with_its_numbers(text: str, code: str, told: str) -> None:
    found = read("p.vitals", text=text)[1]
    assert {d.code for d in found} == {code}, [d.render() for d in found]
    assert told in found[0].render()


def test_a_baseline_in_a_phase_is_advised_what_fits_into_the_phase() -> None:
    # 500 steps of baseline and 100 of holding are not over by step 200; a fifth of 20 steps is 4.
    text = (
        "phase startup = step < 200\nrule r in phase startup {{ when loss > 3 * baseline(loss, {}) for {} -> yellow }}"
    )
    (found,) = read("p.vitals", text=text.format("20 steps", "100 steps"))[1]
    assert (found.code, found.help) == (
        "V202", ("shorten the `for` to `4 steps`: the phase is over at step 200, too early for a longer baseline",),
    )  # fmt: skip
    assert not read("p.vitals", text=text.format("20 steps", "4 steps"))[1]
    # 150 and 30 are over by then: a longer one is advised, and is well.
    (found,) = read("p.vitals", text=text.format("100 steps", "30 steps"))[1]
    assert (found.code, found.help) == ("V202", ("write `150 steps` or more",))
    assert not read("p.vitals", text=text.format("150 steps", "30 steps"))[1]


HARMLESS = [
    "when log(x) > usual(log(x), 50 samples) + greatest(log(6), 5 * noise(log(x), 50 samples)) -> yellow",
    "when step >= 0 and loss > 3 -> yellow",
    "param strict = 0\nwhen strict > 0.5 and loss > 3 -> yellow",
    "when std(loss, 9 samples) == 0 or fraction(loss > 3, 9 samples) == 1 or loss == 0 -> yellow",
    "when loss > 1.05 * mean(loss, 500 steps) for 5 steps -> yellow",
    "when loss > 1.2 * baseline(loss, 1 samples) for 5 steps -> yellow",
    "event bad = loss > 5 for 99 steps\nlimit rollback 1 per 99 steps\nwhen bad -> red",
    "limit rollback 1 per 99 steps\nwhen fraction(loss > 5, 99 steps) > 50% -> red",
    "level red do alert\nwhen loss > 3 for 20 steps -> red",
    'rule r "t" { when loss > 2 -> yellow when loss > 3 -> orange clear when loss < 2.5 }',
    'rule a "t" { when loss > 3 -> yellow }\nrule b "t" { when loss > 5 -> orange inhibits a }',
    "let a/* = act/* / 2\nwhen a/3 > 5 -> yellow",
    'metric x = "x" every 50 steps\nwhen missing x for 100 steps -> yellow',
    'metric x = "x" optional\nwhen missing x for 100 steps -> yellow',
    'metric x/* = "x/*" every 50 steps\nwhen missing x/1 for 100 steps -> yellow',
    "rule r each m in act/* { when missing m for 100 steps -> yellow }",
    "let a = loss / 2\nwhen missing a for 100 steps -> yellow",
    'metric loss = "train/loss", "loss"\nparam k = 3\nwhen loss > k -> yellow',
    'metric three = "3"\nwhen loss > three -> yellow',
    "when val_loss-loss > 3 and val_loss > 2 and loss > 1 -> yellow",
    'metric a = "a"\nmetric b = "b"\nwhen a-b > 3 -> yellow',
    "when progress > 1 and loss > 3 -> yellow",
    'rule r "t" { when level > 3 -> yellow because "{level}" }',
    'rule r "t" each m in act/* { when m > 3 -> yellow because "{member}: {m}" }',
    'metric m/* = "m/*" every 50 steps\nwhen any(mean(m/*, 500 steps) > 3) -> yellow',
]


@pytest.mark.parametrize("text", HARMLESS)
def test_nothing_is_said_of_what_is_fine(text: str) -> None:
    assert [d.render() for d in read("p.vitals", text=text)[1]] == []


def test_channels_are_looked_up_only_for_a_policy_that_names_one() -> None:
    def found(text: str, known: frozenset[str] | None) -> tuple[list[str], int]:
        asked = []

        def channels() -> frozenset[str] | None:
            asked.append(1)
            return known

        return [d.code for d in read("p.vitals", text=text, channels=channels)[1]], len(asked)

    named = 'nonfinite -> red do notify("team")\nwhen loss > 3 for 2 steps -> yellow do alert, notify("me")'
    assert found("when loss > 3 -> yellow do alert", frozenset()) == ([], 0)
    assert found(named, None) == ([], 1)
    assert found(named, frozenset({"me", "team"})) == ([], 1)
    assert found(named, frozenset({"me"})) == (["V608"], 1)
    assert found(named, frozenset()) == (["V608", "V608"], 1)


def test_advice_on_a_file_that_is_used_is_left_to_those_who_check_that_file(tmp_path: Path) -> None:
    (tmp_path / "team.vitals").write_text("when rising(loss, 20 steps) -> yellow\n")
    (tmp_path / "own.vitals").write_text('use "team.vitals" as team\nwhen loss > 3 -> yellow\n')
    assert [d.code for d in read(tmp_path / "team.vitals")[1]] == ["V215"]
    assert read(tmp_path / "own.vitals")[1] == []


def test_an_override_that_brings_a_red_rung_is_held_to_a_budget(tmp_path: Path) -> None:
    (tmp_path / "team.vitals").write_text("rule high { when loss > 3 -> orange }\n")
    (tmp_path / "own.vitals").write_text(
        'use "team.vitals" as team\noverride team.high { when loss > 4 for 9 steps -> red }\n'
    )
    assert [(d.code, d.span.position) for d in read(tmp_path / "own.vitals")[1]] == [("V401", (2, 48))]


def test_every_code_that_is_printed_anywhere_has_a_page() -> None:
    source = "\n".join(p.read_text("utf-8") for p in Path(vitalsdsl.__file__).parent.rglob("*.py"))
    codes = set(re.findall(r'"(V\d{3})"', source))
    missing = sorted(code for code in codes if not _has_page(code))
    assert not missing


def _has_page(code: str) -> bool:
    try:
        return bool(explain(code))
    except KeyError:
        return False


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_the_checker_finds_no_error_in_a_conformance_policy(path: Path) -> None:
    parsed = parse(Source(path.stem, load(path)["policy"]))
    assert check(name_rules(parsed.policy)) == []
