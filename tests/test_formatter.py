"""The one style: what a formatted policy looks like, and that it means what it meant."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies_at_random import policies
from vitalsdsl.ground.errors import PolicyError
from vitalsdsl.ground.source import Locator, Source
from vitalsdsl.language.digest import canonical
from vitalsdsl.language.expressions import Expression
from vitalsdsl.language.formatter import BY_VALUE, expression_text, name_text
from vitalsdsl.language.layout import format_policy
from vitalsdsl.language.parser import parse, parse_expression

HERE = Path(__file__).parent
CASES = sorted((HERE / "conformance" / "cases").glob("*.json"))
GOLDEN = sorted(p for p in (HERE / "golden" / "format").glob("*.vitals") if not p.stem.endswith(".formatted"))


def formatted(text: str) -> str:
    return format_policy(parse(Source("p.vitals", text)))


def expression(text: str) -> Expression:
    node, found = parse_expression(text, Locator(Source("e", text)))
    assert node is not None and not found, [d.render() for d in found]
    return node


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_a_file_is_written_as_its_golden_twin(path: Path, request: pytest.FixtureRequest) -> None:
    result = formatted(path.read_text("utf-8"))
    twin = path.with_suffix(".formatted.vitals")
    if request.config.getoption("--update", default=False):
        twin.write_text(result, "utf-8")
    assert result == twin.read_text("utf-8")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_no_comment_is_lost_or_made_up(path: Path) -> None:
    text = path.read_text("utf-8")
    assert words_of_comments(formatted(text)) == words_of_comments(text)


def words_of_comments(text: str) -> list[str]:
    lines = (re.sub(r'"[^"]*"', "", line) for line in text.split("\n"))
    return sorted(word for line in lines for word in line.partition("#")[2].split())


def assert_stable(text: str) -> None:
    parsed = parse(Source("p.vitals", text))
    assert parsed.ok, [d.render() for d in parsed.diagnostics]
    once = format_policy(parsed)
    again = parse(Source("q.vitals", once))
    assert again.ok, once
    assert format_policy(again) == once
    assert canonical(again.policy) == canonical(parsed.policy)


@pytest.mark.parametrize("path", [*CASES, *GOLDEN], ids=lambda p: p.stem)
def test_formatting_twice_changes_nothing_and_no_meaning_changes(path: Path) -> None:
    text = path.read_text("utf-8")
    assert_stable(json.loads(text)["policy"] if path.suffix == ".json" else text)


@given(policies())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_policy_is_formatted_to_the_same_meaning(text: str) -> None:
    assert_stable(text)


@given(policies(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_however_a_policy_is_broken_its_second_formatting_changes_nothing(text: str, random: Random) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("vitalsdsl.language.breaks.WIDTH", 30)
        assert_stable(
            re.sub(r'"[^"\n]*"|#[^\n]*| ', lambda m: m[0] if m[0] != " " or random.random() < 0.6 else "\n    ", text)
        )


LONG = "when mean(grad_norm, 500 steps) > 3 * baseline(grad_norm, 500 steps)"


@pytest.mark.parametrize(
    ("written", "style"),
    [
        ("when loss > 3\n  for 5 steps\n  -> red", "when loss > 3 for 5 steps -> red"),
        (
            f"{LONG}\n  and mean(loss,500)>2*baseline(loss,500)\n    and lr>0   for 5 steps\n -> red",
            f"{LONG}\n  and mean(loss, 500 steps) > 2 * baseline(loss, 500 steps)\n    and lr > 0 for 5 steps\n  -> red",
        ),
        (f"{LONG} and mean(val_loss, 500 steps) > 2 * baseline(val_loss, 500 steps) -> red", None),
        (
            "metric m = " + ",".join(f'"a name of it {n}"' for n in range(12)) + " every 5 steps optional",
            "metric m =\n  "
            + ", ".join(f'"a name of it {n}"' for n in range(6))
            + ",\n  "
            + ", ".join(f'"a name of it {n}"' for n in range(6, 12))
            + " every 5 steps optional",
        ),
        ('rule r "t" {\n  try "' + "a" * 90 + '",\n    "' + "b" * 40 + '"\n  when a > 3 -> red\n}', None),
    ],
    ids=["what fits", "a long condition", "one without breaks", "many names", "advice"],
)
def test_a_line_that_is_too_long_keeps_its_breaks_and_names_are_broken(written: str, style: str | None) -> None:
    assert formatted(written) == (style or written) + "\n"
    assert_stable(written)


@pytest.mark.parametrize(
    ("written", "style"),
    [
        ("grad_norm>3*baseline(500)", "grad_norm > 3 * baseline(500 steps)"),
        ("baseline(x,1k,from:200)", "baseline(x, 1k steps, from: 200 steps)"),
        ("quantile(x,1,50)", "quantile(x, 1, 50 steps)"),
        ("clamp(x,0,5)", "clamp(x, 0, 5)"),
        ("monotone_up(x,5)", "monotone_up(x, 5 samples)"),
        ("mean(x,0.5)", "mean(x, 0.5)"),
        ("mean(x,30%)", "mean(x, 30%)"),
        ("loss>1 step", "loss > 1 steps"),
        ("((a))>((1))", "a > 1"),
        ("a-(b-c)", "a - (b - c)"),
        ("(a-b)-c", "a - b - c"),
        ("a*(b+c)", "a * (b + c)"),
        ("(a*b)+c", "a * b + c"),
        ("-(a+b)", "-(a + b)"),
        ("-(-a)", "-(-a)"),
        ("--3+a", "3 + a"),
        ("(3*a) before 5 steps", "(3 * a) before 5 steps"),
        ("3*(a before 5 steps)", "3 * (a before 5 steps)"),
        ("(a>1 and b>1)or c>1", "(a > 1 and b > 1) or c > 1"),
        ("c>1 or(a>1 and b>1)", "c > 1 or (a > 1 and b > 1)"),
        ("a>1 and b>1 or c>1", "a > 1 and b > 1 or c > 1"),
        ("a>1 and(b>1 or c>1)", "a > 1 and (b > 1 or c > 1)"),
        ("(a>1 and b>1)and c>1", "a > 1 and b > 1 and c > 1"),
        ("a>1 and(b>1 and c>1)", "a > 1 and (b > 1 and c > 1)"),
        ("not a>1", "not (a > 1)"),
        ("not (spike)", "not spike"),
        ("x is not nan", "x is not nan"),
        ("(a then b within 5 steps)and c", "(a then b within 5 steps) and c"),
        ("any((x>5 for 3 of 5 samples))", "any(x > 5 for 3 of 5 samples)"),
        ("(x>5 for 2 samples and 9 steps)and y", "(x > 5 for 2 samples and 9 steps) and y"),
        ("missing \"a b\" for 5 min", 'missing "a b" for 5 min'),
    ],
)  # fmt: skip
def test_an_expression_has_one_way_to_be_written(written: str, style: str) -> None:
    assert expression_text(expression(written)) == style
    assert expression_text(expression(style)) == style
    assert BY_VALUE.text(expression(written)) == BY_VALUE.text(expression(style))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a - (b - c)", "a - b - c"),
        ("(a > 1) > 2", "a > 1 > 2"),
        ("-(a before 5 steps)", "-a before 5 steps"),
        ("not (a or b)", "not a or b"),
        ("a and (b or c)", "a and b or c"),
        ('"step" > 1', "step > 1"),
        ("a > 30%", "a > 0.3"),
        ("a > 1 min", "a > 60 s"),
        ("a then b within 5 steps", "a then no b within 5 steps"),
    ],
)
def test_expressions_of_different_meaning_have_different_texts(one: str, other: str) -> None:
    assert expression_text(expression(one)) != expression_text(expression(other))
    assert BY_VALUE.text(expression(one)) != BY_VALUE.text(expression(other))


def test_a_name_is_quoted_where_it_could_not_be_read_bare() -> None:
    assert name_text("train/loss") == "train/loss"
    assert name_text("mem/reserved (GB)") == '"mem/reserved (GB)"'
    assert name_text("when") == '"when"'
    assert name_text("loss", quoted=True) == '"loss"'


def test_synonyms_of_levels_become_colours() -> None:
    text = "when a > 1 -> warning -> critical after 1 steps -> fatal after 2 steps\nlevel ok do tag"
    result = formatted(text)
    assert [word for word in result.split() if word in ("yellow", "orange", "red", "green")] == [
        "yellow", "orange", "red", "green",
    ]  # fmt: skip


def test_a_file_with_errors_is_not_formatted() -> None:
    with pytest.raises(PolicyError):
        formatted("when loss > -> red")


def test_windows_line_ends_and_a_byte_order_mark_are_gone() -> None:
    assert formatted("\ufeff# top\r\n\r\nwhen a > 1 -> red # x\r\n") == "# top\n\nwhen a > 1 -> red  # x\n"


def test_an_empty_file_stays_empty_and_a_lone_comment_stays() -> None:
    assert formatted("") == ""
    assert formatted("\n\n # only this\n\n\n# and this") == "# only this\n\n# and this\n"


def test_a_large_file_takes_seconds_at_most() -> None:
    rule = 'rule r{0} {{ # why\n  when loss > {0} for 5 steps -> red # so\n\n  # and\n  because "x {{loss}}"\n}}\n'
    text = "".join(rule.format(i) for i in range(800))
    result = formatted(text)
    assert result.count("# so") == 800
