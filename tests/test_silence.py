"""`# vitals: off …`: what a comment silences, and what is said of comments that silence nothing."""

from __future__ import annotations

import datetime

import pytest

from vitalsdsl.ground.source import Source
from vitalsdsl.language.parser import parse
from vitalsdsl.language.rules import Policy
from vitalsdsl.language.scope import name_rules
from vitalsdsl.language.yaml.policy import parse_yaml
from vitalsdsl.lints.base import run_lints

TODAY = datetime.date(2026, 6, 1)
RISING = "when rising(loss, 20 steps) -> yellow"


def read(text: str, name: str = "p.vitals") -> Policy:
    parsed = (parse_yaml if name.endswith(".yaml") else parse)(Source(name, text))
    assert parsed.ok, [d.render() for d in parsed.diagnostics]
    return name_rules(parsed.policy)


def found(text: str, name: str = "p.vitals") -> list[tuple[str, int]]:
    return [(d.code, d.span.position[0]) for d in run_lints(read(text, name), today=TODAY)]


def test_without_a_comment_the_finding_is_there() -> None:
    assert found(RISING) == [("V215", 1)]


def test_on_a_line_of_its_own_it_silences_the_next_statement() -> None:
    assert found(f"# vitals: off V215 because the curve is known\n{RISING}\n{RISING.replace('loss', 'x')}") == [
        ("V215", 3)
    ]


def test_it_reaches_over_blank_lines_and_other_comments_to_that_statement() -> None:
    assert found(f"# vitals: off V215 because known\n\n# the curve of the paper\n{RISING}") == []


def test_behind_code_it_silences_that_line_only() -> None:
    text = f"{RISING} # vitals: off V215 because known\n{RISING.replace('loss', 'x')}"
    assert found(text) == [("V215", 2)]


def test_inside_a_rule_it_silences_the_next_line_only() -> None:
    text = (
        'rule r "t" {\n  # vitals: off V215 because known\n  # of the paper\n  when rising(loss, 20 steps) -> yellow\n'
        "  when rising(x, 20 steps) -> yellow\n}"
    )
    assert found(text) == [("V215", 5)]


def test_several_codes_can_be_silenced_at_once() -> None:
    text = "# vitals: off V215, V406 because known\nlimit rollback 1 per 9 steps\n"
    rule = "# vitals: off V215, V207 because known\nwhen rising(loss, 9 samples) -> yellow"
    assert found(rule) == []
    assert [code for code, _ in found(text)] == ["V603"]


def test_until_its_date_a_comment_is_in_force_and_then_no_longer() -> None:
    assert found(f"# vitals: off V215 until 2026-06-01 because known\n{RISING}") == []
    assert found(f"# vitals: off V215 until 2026-05-31 because known\n{RISING}") == [("V215", 2), ("V603", 1)]


@pytest.mark.parametrize(
    ("comment", "told"),
    [
        ("off V215", "a silence needs a reason"),
        ("off V215 because", "a silence needs a reason"),
        ("off V215 until 2027-01-01", "a silence needs a reason"),
        ("off because known", "this comment silences nothing"),
        ("off V21 because known", "this comment silences nothing"),
        ("off V999 because known", "there is no code V999"),
        ("off V215 until soon because known", "`soon` is no date"),
        ("off V215 until 2026-02-31 because known", "`2026-02-31` is no date"),
        ("off V003 because known", "V003 is an error, and errors cannot be silenced"),
        ("off V104 because known", "V104 is an error, and errors cannot be silenced"),
    ],
)
def test_a_comment_that_is_not_right_silences_nothing_and_is_told_why(comment: str, told: str) -> None:
    diagnostics = run_lints(read(f"# vitals: {comment}\n{RISING}"), today=TODAY)
    assert sorted(d.code for d in diagnostics) == ["V215", "V603"]
    assert told in next(d for d in diagnostics if d.code == "V603").message


def test_a_comment_that_hits_nothing_is_told_so_and_can_be_taken_out() -> None:
    [finding] = run_lints(read("# vitals: off V215 because gone\nwhen loss > 3 -> yellow"), today=TODAY)
    assert finding.code == "V603"
    assert finding.fix is not None
    assert finding.fix.safe
    assert finding.fix.span.text == "# vitals: off V215 because gone"


def test_of_several_codes_the_one_that_hits_nothing_is_named() -> None:
    [finding] = run_lints(read(f"# vitals: off V215, V406 because known\n{RISING}"), today=TODAY)
    assert finding.message == "V406 is not found there any more"
    assert finding.fix is None


@pytest.mark.parametrize("comment", ["# a vitals rule", "# vitals are fine", "# vitals: offset by one", "# off V215"])
def test_other_comments_are_none_of_its_business(comment: str) -> None:
    assert found(f"{comment}\nwhen loss > 3 -> yellow") == []


def test_a_text_that_looks_like_a_comment_is_a_text() -> None:
    text = 'rule r { when loss > 3 -> yellow because "# vitals: off V215 because x" }'
    assert found(text) == []


def test_in_yaml_a_comment_silences_the_rule_below_it_and_the_line_beside_it() -> None:
    text = (
        "vitals: 1\nrules:\n"
        "  # vitals: off V215 because known\n"
        '  a: {when: [{if: "rising(loss, 20 steps)", level: yellow}]}\n'
        '  b: {when: [{if: "rising(x, 20 steps)", level: yellow}]} # vitals: off V215 because known\n'
        '  c: {when: [{if: "rising(y, 20 steps)", level: yellow}]}\n'
    )
    assert found(text, "p.yaml") == [("V215", 6)]


def test_in_yaml_a_number_sign_inside_a_word_or_a_text_begins_no_comment() -> None:
    text = (
        "vitals: 1\nrules:\n"
        '  a: {title: "x # vitals: off V215", when: [{if: "loss > 3", level: yellow}]}\n'
        "  b: {title: x# vitals, when: [{if: val > 3, level: yellow}]}\n"
    )
    assert found(text, "p.yaml") == []
