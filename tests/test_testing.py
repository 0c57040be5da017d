"""Tests of rules: the notation of series, the closed world, and what is said of a failure or of a broken file."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalsdsl import PolicyError, UsageError, testing
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.language.rules import Level
from vitalsdsl.language.series import points, read_series
from vitalsdsl.suite import Expected
from vitalsdsl.testing import Result, load_tests, run_tests

HEADLINE = "when grad_norm > 3*baseline(500) for 20 steps -> orange"
HOT = "rule hot { when x > 3 for 2 steps -> orange }"


def no_runs(reference: str) -> list[Row | Rewind]:
    raise AssertionError(f"nothing is read here, not even {reference}")


def results(tmp_path: Path, tests: str, policy: str = HOT, head: str = "") -> list[Result]:
    (tmp_path / "p.vitals").write_text(policy, "utf-8")
    file = tmp_path / "p.vtest.yaml"
    file.write_text(f"policy: p.vitals\n{head}tests:\n{tests}", "utf-8")
    return run_tests(load_tests(file), no_runs)


def result(tmp_path: Path, series: str, expect: str, policy: str = HOT) -> Result:
    [found] = results(tmp_path, f"  - {{name: t, series: {{{series}}}, expect: [{expect}]}}", policy)
    return found


# ---------------------------------------------------------------- series

SERIES = {
    "1": [(0, 1.0)],
    "-2.5e-1, +3": [(0, -0.25), (1, 3.0)],
    "1.0 x3": [(0, 1.0), (1, 1.0), (2, 1.0)],
    "1x2,2": [(0, 1.0), (1, 1.0), (2, 2.0)],
    "3->1 x3": [(0, 3.0), (1, 2.0), (2, 1.0)],
    "0->1 x2": [(0, 0.0), (1, 1.0)],
    "1 -> 1 x2": [(0, 1.0), (1, 1.0)],
    "inf, -inf": [(0, math.inf), (1, -math.inf)],
    "1, gap x3, 2": [(0, 1.0), (4, 2.0)],
    "gap, 2": [(1, 2.0)],
    "1, dup 2, 3": [(0, 1.0), (0, 2.0), (1, 3.0)],
    "1, dup 2 x2, 3": [(0, 1.0), (0, 2.0), (0, 2.0), (1, 3.0)],
    "1, @2000: 5 x2, 6": [(0, 1.0), (2000, 5.0), (2001, 5.0), (2002, 6.0)],
    "@7: gap x2, 1": [(9, 1.0)],
    " 1 x2 ,\n 2 ": [(0, 1.0), (1, 1.0), (2, 2.0)],
}


@pytest.mark.parametrize("notation", SERIES)
def test_a_series_is_these_points(notation: str) -> None:
    assert points(notation, "0") == SERIES[notation]


def test_nan_is_a_point() -> None:
    (zero, first), (one, second) = points("nan, nan x1", "0")
    assert (zero, one) == (0, 1) and first != first and second != second


def test_noise_is_one_draw_a_point_of_the_generator_named_on_the_page() -> None:
    drawn = random.Random("7/a test/loss")
    expected = [(s, (2.0 if s < 3 else 5.0) + (drawn.gauss(0, 0.5) if s != 3 else 0)) for s in (0, 1, 2, 3, 6)]
    assert points("2 ~0.5 x3, 5, gap x2, 5 x1 ~0.5", "7/a test/loss") == expected


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.integers(2, 300))
@settings(max_examples=60, deadline=None)
def test_a_line_has_both_its_ends_and_nothing_beyond_them(first: float, last: float, times: int) -> None:
    first, last = float(f"{first:.6e}"), float(f"{last:.6e}")
    found = points(f"{first:.6e}->{last:.6e} x{times}", "0")
    assert [step for step, _ in found] == list(range(times))
    assert found[0][1] == first and found[-1][1] == last
    width = max(abs(first), abs(last), 1.0)
    assert all(min(first, last) - 1e-9 * width <= v <= max(first, last) + 1e-9 * width for _, v in found)


@given(st.text("0123456789.x~->@:,gapdunif e+", max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text_is_points_or_a_mistake_within_it(text: str) -> None:
    parts, mistakes = read_series(text)
    assert all(0 <= m.start <= m.end <= len(text) and m.message and m.help for m in mistakes)
    if not mistakes and sum(part.times for part in parts) < 10_000:
        steps = [step for step, _ in points(text, "0")]
        assert steps == sorted(steps)


MISTAKES = {
    "": (0, 0, "a value is missing"),
    "1,,2": (2, 2, "a value is missing"),
    "1, 2,": (5, 5, "a value is missing"),
    "1, two": (3, 6, "`two` is no part"),
    "1 x2 x3": (0, 7, "is no part"),
    "1 x0": (0, 4, "no point at all"),
    "gap x0": (0, 6, "no point at all"),
    "3->1": (0, 4, "how many points"),
    "3->1 x1": (0, 7, "how many points"),
    "1->inf x3": (0, 9, "no line"),
    "1 ~1 x2 ~2": (0, 10, "two noises"),
    "gap x2 ~1": (0, 9, "no noise"),
    "1e999": (0, 5, "too large"),
    "1 ~1e999": (0, 8, "too large"),
    "dup 1": (0, 5, "no point before"),
    "1, gap, dup 2": (8, 13, "no point before"),
    "1, @5: dup 2": (3, 12, "no point before"),
    "1 x9, @3: 1": (6, 11, "has gone by"),
    "1 x9, @8: 1": (6, 11, "has gone by"),
    "1 x2000001": (0, 10, "at most 2,000,000"),
    "1 x" + "9" * 5000: (0, 5003, "is no part"),
    "١": (0, 1, "is no part"),
}


@pytest.mark.parametrize("notation", MISTAKES, ids=lambda n: n[:12] or "nothing")
def test_a_mistake_in_a_series_has_its_place(notation: str) -> None:
    start, end, message = MISTAKES[notation]
    first = read_series(notation)[1][0]
    assert (first.start, first.end) == (start, end)
    assert message in first.message and first.help
    with pytest.raises(UsageError):
        points(notation, "0")


# ---------------------------------------------------------------- the file

FILES = {
    "nothing": ("", "V057 1:1"),
    "a list": ("- a", "V053 1:1"),
    "no YAML": ("policy: [", "V050 1:9"),
    "no tests": ("policy: p.vitals", "V057 1:1"),
    "no policy": ("tests: [{name: a, series: {x: 1}, expect: []}]", "V057 1:1"),
    "an empty list of tests": ("policy: p.vitals\ntests: []", "V057 2:8"),
    "an unknown key": ("policy: p.vitals\nsed: 7\ntests: [{name: a, series: {x: 1}, expect: []}]", "V051 2:1"),
    "a key twice": ("policy: p.vitals\npolicy: q.vitals", "V052 2:1"),
    "no seed": ("policy: p.vitals\nseed: x\ntests: [{name: a, series: {x: 1}, expect: []}]", "V076 2:7"),
    "an alias": ("policy: &a p.vitals\ntests: [*a]", "V054 1:9"),
    "a NUL": ("policy: p.vitals\0", "V031 1:17"),
}
TESTS = {
    "no name": ("{series: {x: 1}, expect: []}", "V057 3:3"),
    "no expect": ("{name: a, series: {x: 1}}", "V057 3:10"),
    "neither series nor replay": ("{name: a, expect: []}", "V076 3:10"),
    "both": ("{name: a, series: {x: 1}, replay: f, expect: []}", "V076 3:10"),
    "an unknown key": ("{name: a, sereis: {x: 1}, series: {x: 1}, expect: []}", "V051 3:13"),
    "a metric twice": ("{name: a, series: {x: 1, x: 2}, expect: []}", "V052 3:28"),
    "a series that is a list": ("{name: a, series: {x: [1]}, expect: []}", "V053 3:25"),
    "a bad part of a series": ('{name: a, series: {x: "1, oops"}, expect: []}', "V075 3:29"),
    "a bad part in single quotes": ("{name: a, series: {x: '1 x0'}, expect: []}", "V075 3:26"),
    "expect is a word": ("{name: a, series: {x: 1}, expect: nothing}", "V053 3:37"),
    "params as a list": ("{name: a, series: {x: 1}, set: [1], expect: []}", "V053 3:35"),
}
EXPECTS = {
    "no rule": ("{step: 1, to: red}", "V057"),
    "no level": ("{step: 1, rule: hot}", "V057"),
    "no step": ("{rule: hot, to: red}", "V057"),
    "step and steps": ("{step: 1, steps: 1..2, rule: hot, to: red}", "V076"),
    "no such level": ("{step: 1, rule: hot, to: amber}", "V053"),
    "a list for a level": ("{step: 1, rule: hot, to: [red]}", "V053"),
    "a range turned round": ("{steps: 9..3, rule: hot, to: red}", "V076"),
    "a word for a step": ("{step: late, rule: hot, to: red}", "V076"),
    "a step below zero": ("{step: -1, rule: hot, to: red}", "V076"),
    "a bad onset": ("{step: 1, rule: hot, to: red, onset: x}", "V076"),
    "what we do not compare": ("{step: 1, rule: hot, to: red, reason: nonfinite}", "V051"),
}


def found_in(path: Path, text: str) -> list[str]:
    path.write_text(text, "utf-8")
    with pytest.raises(PolicyError) as caught:
        load_tests(path)
    assert all(d.is_error and d.span.source.name == str(path) for d in caught.value.diagnostics)
    return [f"{d.code} {d.span.position[0]}:{d.span.position[1]}" for d in caught.value.diagnostics]


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_a_finding_with_line_and_column(name: str, tmp_path: Path) -> None:
    text, place = FILES[name]
    assert found_in(tmp_path / "p.vtest.yaml", text)[0] == place


@pytest.mark.parametrize("name", TESTS)
def test_a_broken_test_is_a_finding_with_line_and_column(name: str, tmp_path: Path) -> None:
    text, place = TESTS[name]
    assert found_in(tmp_path / "p.vtest.yaml", f"policy: p.vitals\ntests:\n- {text}") == [place]


@pytest.mark.parametrize("name", EXPECTS)
def test_a_broken_expectation_is_one_finding(name: str, tmp_path: Path) -> None:
    text, code = EXPECTS[name]
    file = f"policy: p.vitals\ntests:\n- {{name: a, series: {{x: 1}}, expect: [{text}]}}"
    assert [place.split()[0] for place in found_in(tmp_path / "p.vtest.yaml", file)] == [code]


def test_all_mistakes_of_a_file_are_said_at_once(tmp_path: Path) -> None:
    text = 'policy: p.vitals\ntests:\n- {name: a, series: {x: "1 x0, 3->1"}, expect: [{step: x, rule: r, to: red}]}'
    assert found_in(tmp_path / "p.vtest.yaml", text) == ["V075 3:26", "V075 3:32", "V076 3:56"]


def test_two_tests_of_one_name_would_share_their_noise(tmp_path: Path) -> None:
    text = "policy: p.vitals\ntests:\n" + 2 * "- {name: a, series: {x: 1}, expect: []}\n"
    assert found_in(tmp_path / "p.vtest.yaml", text) == ["V076 4:10"]


def test_a_file_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="V071"):
        load_tests(tmp_path / "none.vtest.yaml")


# ---------------------------------------------------------------- the closed world


def test_the_example_of_the_language_page_passes(tmp_path: Path) -> None:
    expect = (
        "{step: 519, rule: grad_norm_orange, to: orange, onset: 500}, {step: 544, rule: grad_norm_orange, to: green}"
    )
    assert result(tmp_path, 'grad_norm: "1.0 x500, 4.0 x25, 1.0 x100"', expect, HEADLINE).passed


HOT_SERIES = 'x: "1 x10, 5 x4, 1 x10"'
UP, DOWN = "{step: 11, rule: hot, to: orange, onset: 10}", "{step: 15, rule: hot, to: green}"
OUTCOMES = {
    "all of it": (f"{UP}, {DOWN}", True),
    "in another order": (f"{DOWN}, {UP}", True),
    "ranges": ("{steps: 10..12, rule: hot, to: orange, onset: 9..11}, {steps: 15..15, rule: hot, to: green}", True),
    "from": ("{step: 11, rule: hot, from: green, to: orange}, {step: 15, rule: hot, from: orange, to: green}", True),
    "synonyms of levels": ("{step: 11, rule: hot, to: critical}, {step: 15, rule: hot, to: ok}", True),
    "one not listed": (UP, False),
    "nothing listed": ("", False),
    "one too many": (f"{UP}, {UP}, {DOWN}", False),
    "another step": (f"{{step: 12, rule: hot, to: orange}}, {DOWN}", False),
    "another level": (f"{{step: 11, rule: hot, to: red}}, {DOWN}", False),
    "another onset": (f"{{step: 11, rule: hot, to: orange, onset: 11}}, {DOWN}", False),
    "another level before": (f"{{step: 11, rule: hot, from: yellow, to: orange}}, {DOWN}", False),
    "an onset of green": (f"{UP}, {{step: 15, rule: hot, to: green, onset: 14}}", False),
    "another rule": (f"{{step: 11, rule: cold, to: orange}}, {DOWN}", False),
    "a member of none": (f"{{step: 11, rule: hot, member: x, to: orange}}, {DOWN}", False),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_test_passes_where_all_that_came_is_listed_and_all_that_is_listed_came(name: str, tmp_path: Path) -> None:
    expect, passed = OUTCOMES[name]
    assert result(tmp_path, HOT_SERIES, expect).passed is passed


def test_a_range_takes_no_transition_that_a_single_step_needs(tmp_path: Path) -> None:
    series = 'x: "1 x10, 5 x2, 1 x20, 5 x2, 1 x1"'  # orange at 11 and 33, green at 13
    expect = (
        "{steps: 0..99, rule: hot, to: orange}, {step: 11, rule: hot, to: orange}, {step: 13, rule: hot, to: green}"
    )
    assert result(tmp_path, series, expect).passed


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_ranges_round_each_transition_pass_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    steps = [11 + 20 * i for i in range(4)]
    widths = data.draw(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), min_size=4, max_size=4))
    up = [f"{{steps: {max(0, s - a)}..{s + b}, rule: hot, to: orange}}" for s, (a, b) in zip(steps, widths)]
    down = [f"{{step: {s + 2}, rule: hot, to: green}}" for s in steps]
    listed = ", ".join(data.draw(st.permutations([*up, *down])))
    series = 'x: "1 x10' + ", 5 x2, 1 x18" * 4 + '"'
    assert result(tmp_path_factory.mktemp("t"), series, listed).passed


def test_members_are_compared_by_name(tmp_path: Path) -> None:
    policy = "rule hot each m in act/layer_* { when m > 3 -> orange }"
    expect = "{step: 1, rule: hot, member: act/layer_2, to: orange}"
    assert result(tmp_path, 'act/layer_1: "1 x2", act/layer_2: "1, 5"', expect, policy).passed
    wrong = result(tmp_path, 'act/layer_1: "1 x2", act/layer_2: "1, 5"', expect.replace("_2", "_1"), policy)
    assert not wrong.passed and "hot[act/layer_2] to orange" in str(wrong)


def test_a_failure_is_told_step_by_step_with_what_is_nearest(tmp_path: Path) -> None:
    found = result(tmp_path, HOT_SERIES, f"{{step: 12, rule: hot, to: orange}}, {DOWN}")
    assert str(found).splitlines() == [
        "FAILED  t  (line 3)",
        "    came, and is not listed:     step 11: hot to orange, onset 10 (from green)",
        (
            "    expected, and did not come:  step 12: hot to orange  (line 3); "
            "nearest: step 11: hot to orange, onset 10 (from green)"
        ),
        "    came as expected:            step 15: hot to green (from orange)",
    ]


HINTS = {
    "a rule that is not there": ("htt", "there is no rule `htt`: did you mean `hot`?"),
    "a rule that stayed green": ("calm", "the rule stayed green"),
    "a rule whose metric is not given": ("lost", "its condition was never known"),
}


@pytest.mark.parametrize("name", HINTS)
def test_what_did_not_come_has_a_reason(name: str, tmp_path: Path) -> None:
    rule, hint = HINTS[name]
    policy = HOT + "rule calm { when x > 99 -> red } rule lost { when y > 1 -> red }"
    assert result(tmp_path, 'x: "1 x9"', f"{{step: 3, rule: {rule}, to: red}}", policy).hints == (hint,)


def test_a_long_failure_is_cut_short_and_says_so(tmp_path: Path) -> None:
    series = 'x: "' + ", ".join(["1 x3, 5 x3"] * 50) + '"'
    lines = str(result(tmp_path, series, "")).splitlines()
    assert len(lines) < 50 and lines[-1].endswith("more")


def test_a_name_cannot_move_the_cursor(tmp_path: Path) -> None:
    [found] = results(tmp_path, '  - {name: "a\\e[2Jb", series: {x: 1}, expect: []}')
    assert "\x1b" not in str(found)


# ---------------------------------------------------------------- warm-up, coverage, settings, seeds


NOTHING = "no condition is ever known in this test"
SHORT = NOTHING + ": its series are shorter than the {} steps that `{}` needs"
TWO = 'metric val = "eval/loss", "val_loss" rule slow { when mean(x, 30 steps) > 3 -> red } rule high { when val > 3 -> red }'
SILENT = {
    "shorter than the warm-up": ('grad_norm: "9.0 x100"', HEADLINE, SHORT.format(500, "grad_norm_orange")),
    "known, and silent": ('grad_norm: "1.0 x600"', HEADLINE, ""),
    "one rule too short, the other without its metric": ('x: "1 x29"', TWO, SHORT.format(30, "slow")),
    "another metric of the policy": ('y: "1 x29"', "when x > 3 -> red let z = y", f"{NOTHING}: never logged here: x"),
    "neither of several names": (
        'y: "1 x29"',
        'metric x = "a", "b" let z = y when x > 3 -> red',
        f"{NOTHING}: never logged here: a or b",
    ),
    "only NaN": ('x: "nan x29"', "nonfinite off when x > 3 -> red", NOTHING),
}


@pytest.mark.parametrize("name", SILENT)
def test_a_silent_test_in_which_nothing_is_known_says_why(name: str, tmp_path: Path) -> None:
    series, policy, warning = SILENT[name]
    found = result(tmp_path, series, "", policy)
    assert found.passed and found.warning == warning
    assert ("V606" in str(found)) is bool(warning)


RENAMED = 'metric loss = "train/loss" when loss > 10 for 5 steps -> orange'
UNREAD = {
    "the policy's own name for it": (
        'loss: "1.0 x20, 20 x20"', RENAMED, 'no metric of this policy is logged as `loss`: metric `loss` is read from "train/loss"',
        'write `"train/loss": "1.0 x20, 20 x20"`', 24),
    "a typo": ('gradnorm: "1 x20"', HEADLINE, "no metric of this policy is logged as `gradnorm`", "did you mean `grad_norm`?", 24),
    "nothing like it": ('x: "1", lr: "1 x20"', HOT, "no metric of this policy is logged as `lr`", "it reads x", 32),
    "a member outside the range": (
        'act/7: "1"', "when any(act/{0..3} > 5) -> red", "no metric of this policy is logged as `act/7`", "it reads act/{0..3}", 24),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREAD)
def test_a_series_that_nothing_reads_is_an_error_at_its_key(name: str, tmp_path: Path) -> None:
    series, policy, message, help_, column = UNREAD[name]
    with pytest.raises(PolicyError) as caught:
        result(tmp_path, series, "", policy)
    [found] = caught.value.diagnostics
    assert (found.code, found.message, found.help) == ("V085", message, (help_,))
    assert found.span.position == (3, column)


READ = {
    "by `missing` alone": ("x", 'metric x = "x" every 1 steps when missing x for 9 steps -> red'),
    "by a family": ("act/7/absmax", "when any(act/*/absmax > 3) -> red"),
    "by a declared family": ("acts/7", 'metric act/* = "acts/*" rule r each m in act/* { when m > 3 -> red }'),
    "by a let that a rule reads": ("y", "let z = y + 1 when z > 3 -> red"),
    "by an event": ("y", "event e = y > 3 when e -> red"),
    "by a phase": ("y", "phase p = y > 3 rule r in phase p { when x > 3 -> red }"),
    "by a clause's pace": ("y", "when x > 3 on y -> red"),
    "by a freezing condition": ("y", "when x > 2 * usual(x, 5 steps, unless: y > 3) -> red"),
    "by `clear when`": ("y", "rule r { when x > 3 -> red clear when y < 1 }"),
    "by a message": ("y", 'rule r { when x > 3 -> red because "{y}" }'),
    "by a disabled rule": ("y", "rule r { when y > 3 -> red disabled }"),
    "by a declaration alone": ("y", 'metric x = "y" when z > 3 -> red'),
    "by a counter": ("train/epoch", "when epoch > 3 -> red"),
    "by another name of several": ("b", 'metric x = "a", "b" when x > 3 -> red'),
}


@pytest.mark.parametrize("name", READ)
def test_a_series_is_read(name: str, tmp_path: Path) -> None:
    series, policy = READ[name]
    assert result(tmp_path, f'{series}: "1"', "", policy).passed


def test_what_was_known_once_and_is_stale_at_the_end_is_no_warm_up(tmp_path: Path) -> None:
    policy = 'metric x = "x" every 1 steps stale after 2 steps\n' + HOT
    assert result(tmp_path, 'x: "1 x9", y: "gap x20, 1 x9"', "", policy + "let z = y").warning == ""


def test_rules_count_as_tested_when_they_fire_and_when_they_are_known_and_silent(tmp_path: Path) -> None:
    tests = (
        f"  - {{name: a, series: {{{HOT_SERIES}}}, expect: [{UP}, {DOWN}]}}\n"
        '  - {name: b, series: {x: "1 x9"}, expect: []}\n'
    )
    policy = HOT + "rule lost { when y > 1 -> red } rule off { when x > 1 -> red disabled }"
    assert testing.tested_rules(results(tmp_path, tests, policy)) == {"hot": {"fires", "silent"}}


def test_params_are_set_for_the_file_and_over_that_for_a_test(tmp_path: Path) -> None:
    policy = "param k = 9 in 0 .. 10 rule hot { when x > k -> orange }"
    tests = (
        "  - {name: a, series: {x: 5}, expect: []}\n"
        "  - {name: b, series: {x: 5}, set: {k: 4}, expect: [{step: 0, rule: hot, to: orange}]}\n"
    )
    assert [r.passed for r in results(tmp_path, tests, policy, "set: {k: 6}\n")] == [True, True]
    with pytest.raises(PolicyError, match="V504"):
        results(tmp_path, tests, policy, "set: {k: 11}\n")


def test_a_profile_is_taken(tmp_path: Path) -> None:
    policy = "param k = 9 profile night { k = 4 } rule hot { when x > k -> orange }"
    tests = "  - {name: a, series: {x: 5}, expect: [{step: 0, rule: hot, to: orange}]}\n"
    assert results(tmp_path, tests, policy, "profile: night\n")[0].passed


def test_noise_depends_on_seed_test_and_metric_only(tmp_path: Path) -> None:
    level = random.Random("7/a/x").gauss(0, 1)
    policy = f"rule above {{ when x >= {level!r} -> orange }} rule below {{ when x <= {level!r} -> orange }} let z = y"
    expect = "[{step: 0, rule: above, to: orange}, {step: 0, rule: below, to: orange}]"
    tests = f'  - {{name: a, series: {{y: "0 ~1 x5", x: "0 ~1"}}, expect: {expect}}}\n'
    assert results(tmp_path, tests, policy, "seed: 7\n")[0].passed
    assert not results(tmp_path, tests, policy, "seed: 8\n")[0].passed
    assert not results(tmp_path, tests.replace("name: a", "name: b"), policy, "seed: 7\n")[0].passed


def test_a_second_point_at_a_step_is_reduced_as_the_metric_says(tmp_path: Path) -> None:
    tests = "  - {name: a, series: {x: '1, dup 5'}, expect: [%s]}\n"
    came = "{step: 0, rule: hot, to: orange}"
    hot = "rule hot { when x > 3 -> orange }"
    assert results(tmp_path, tests % came, hot)[0].passed
    assert results(tmp_path, tests % "", f'metric x = "x" reduce min {hot}')[0].passed


# ---------------------------------------------------------------- recorded runs


def test_a_recorded_run_is_read_by_the_callers_reader_with_its_rewinds(tmp_path: Path) -> None:
    asked: list[str] = []

    def read(reference: str) -> Iterator[Row | Rewind]:
        asked.append(reference)
        yield from (Row(s, {"x": 5.0 if s > 2 else 1.0}) for s in range(6))
        yield Rewind(2)
        yield from (Row(s, {"x": 1.0}) for s in range(3, 6))

    (tmp_path / "p.vitals").write_text(HOT)
    file = tmp_path / "p.vtest.yaml"
    expect = "[{step: 4, rule: hot, to: orange, onset: 3}, {step: 2, rule: hot, from: orange, to: green}]"
    tests = "".join(
        f"- {{name: {n}, replay: {r!r}, expect: {expect}}}\n" for n, r in (("a", "runs/r.jsonl"), ("b", "mlflow:0a1b"))
    )
    file.write_text(f"policy: p.vitals\ntests:\n{tests}")
    assert [r.passed for r in run_tests(load_tests(file), read)] == [True, True]
    assert asked == [str(tmp_path / "runs" / "r.jsonl"), "mlflow:0a1b"]


def test_a_pack_is_tested_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "core.vtest.yaml"
    expect = "[{step: 60, rule: c, to: orange}]"
    file.write_text(f'policy: pack:core\ntests: [{{name: a, series: {{loss: "2 x60, nan"}}, expect: {expect}}}]')
    [found] = run_tests(load_tests(file), no_runs)
    assert [t.rule for t in found.unexpected] == ["loss_nonfinite"]


def test_an_expectation_reads_as_a_sentence() -> None:
    expected = Expected(3, 9, "hot", Level.RED, Level.GREEN, (1, 2), "m")
    assert str(expected) == "steps 3..9: hot[m] from green to red, onset 1..2"


def test_a_misspelt_series_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "p.vitals").write_text("when loss > 3 -> yellow\n")
    suite = tmp_path / "p.vtest.yaml"
    suite.write_text("policy: p.vitals\ntests:\n  - name: a\n    sries: {loss: '1 x5'}\n    expect: []\n")
    with pytest.raises(PolicyError) as raised:
        load_tests(suite)
    assert [d.code for d in raised.value.diagnostics] == ["V051"]
