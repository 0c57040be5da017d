"""The fingerprint of a policy: what changes it, and what does not."""

from __future__ import annotations

import re

import pytest

from vitalsdsl.ground.source import Source
from vitalsdsl.language.digest import canonical, digest, reading_order
from vitalsdsl.language.parser import parse
from vitalsdsl.language.rules import Policy

BASE = """\
policy p "a title"
metric loss = "train/loss", "loss" every 1 steps
param k = 3
event spike = loss > 20k * usual(loss, 500)
rule high "too high" {
  when loss > k for 5 steps -> orange
  because "loss is {loss:.2f}"
  try "look"
  cooldown 5 steps
}
"""


def read(text: str, name: str = "p.vitals") -> Policy:
    parsed = parse(Source(name, text))
    assert parsed.ok, [d.render() for d in parsed.diagnostics]
    return parsed.policy


def test_a_digest_is_a_name_and_64_hexadecimal_digits() -> None:
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest(read(BASE)))


def test_the_canonical_text_is_itself_a_policy_of_that_meaning() -> None:
    text = canonical(read(BASE))
    assert canonical(read(text)) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\n", "  # a comment\n"),
        ("policy p", "vitals 1\n\n\npolicy   p"),
        ("20k", "20000"),
        ("20k", "2e4"),
        ("500)", "500 steps)"),
        ("orange", "critical"),
        ("1 steps", "1 step"),
        ("when loss > k", "when ((loss) > (k))"),
        ("  try \"look\"\n  cooldown 5 steps\n", "  cooldown 5 steps\n  try \"look\"\n"),
        ("{loss:.2f}", "{ (loss) :.2f}"),
        ("every 1 steps", "every 1 steps reduce last"),
    ],
)  # fmt: skip
def test_looks_do_not_change_it(before: str, after: str) -> None:
    assert before in BASE
    assert digest(read(BASE.replace(before, after))) == digest(read(BASE))


def test_neither_do_the_file_name_and_the_place_in_the_file() -> None:
    assert digest(read("\n\n" + BASE, "elsewhere/q.vitals")) == digest(read(BASE))


def test_statements_of_different_kinds_may_change_places() -> None:
    head, param, rest = BASE.partition("param k = 3\n")
    assert digest(read(head + rest + param)) == digest(read(BASE))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("policy p", "policy q"),
        ("a title", "another title"),
        ("too high", "too high!"),
        ("loss is", "the loss is"),
        (":.2f", ":.3f"),
        ('"look"', '"look", "again"'),
        ("20k", "20001"),
        ("k = 3", "k = 3%"),
        ("k = 3", "k = 3 in 1 .. 5"),
        ("for 5 steps", "for 5 samples"),
        ("orange", "red"),
        ('"train/loss", "loss"', '"loss", "train/loss"'),
        ("every 1 steps", "every 1 steps optional"),
        ("when loss", 'when "loss"'),
        ("cooldown 5 steps", "cooldown 5 steps shadow"),
    ],
)
def test_what_people_would_notice_changes_it(before: str, after: str) -> None:
    assert before in BASE
    assert digest(read(BASE.replace(before, after))) != digest(read(BASE))


def test_the_order_of_rules_changes_it_since_transitions_come_in_file_order() -> None:
    one, two = "when a > 1 -> red\n", "when a > 2 -> red\n"
    assert digest(read(one + two)) != digest(read(two + one))


def test_the_order_of_first_readings_changes_it_since_guards_come_in_that_order() -> None:
    event, rule = "event e = a > 1\n", "when b > 1 -> red\n"
    assert digest(read(event + rule)) != digest(read(rule + event))
    same = "event f = b > 5\n"
    assert digest(read(event + rule + same)) == digest(read(event + same + rule))


def test_the_reading_order_is_that_of_names_in_conditions_and_leaves_disabled_rules_out() -> None:
    text = """
    let gap = val - mean(loss, 5) on val
    rule off { when z > 1 -> red disabled }
    rule on_ each m in act/layer_* { when m > baseline(5, by: median) on tick -> red clear when c < 1 because "{q}" }
    event e = d > usual(d, 5, unless: gate)
    """
    assert reading_order(read(text).statements) == ["val", "loss", "act/layer_*", "tick", "c", "d", "gate"]


def test_a_use_after_a_rule_keeps_its_place() -> None:
    use, rule = 'use "pack:core"\n', "when a > 1 -> red\n"
    assert digest(read(use + rule)) != digest(read(rule + use))
