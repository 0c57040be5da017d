"""The difference between two policies in words. The words stand in tests/golden/difference.txt under each case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.policies_at_random import policies
from vitalsdsl import load
from vitalsdsl.difference.policies import differences
from vitalsdsl.ground.source import Source
from vitalsdsl.language.digest import digest
from vitalsdsl.language.parser import parse
from vitalsdsl.language.renaming import replaced
from vitalsdsl.language.rules import Disable, Override, Policy, Use
from vitalsdsl.language.scope import name_rules

GOLDEN = Path(__file__).parent / "golden" / "difference.txt"
CASES = dict(re.findall(r"^== (.*)\n((?:.+\n)+)", GOLDEN.read_text("utf-8"), re.MULTILINE))


def side(case: str, mark: str) -> str:
    return "\n".join(line[2:] for line in case.splitlines() if line.startswith(mark + " ")) + "\n"


def said(case: str) -> list[str]:
    return [change.says for change in differences(load("p", text=side(case, "-")).policy,
                                                  load("p", text=side(case, "+")).policy)]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_difference_is_told_in_words(name: str, update: bool) -> None:
    case = CASES[name]
    given_ = [line for line in case.splitlines() if line.startswith(("- ", "+ "))]
    if update:
        text = "".join(f"{line}\n" for line in [*given_, *said(case)])
        GOLDEN.write_text(GOLDEN.read_text("utf-8").replace(f"== {name}\n{case}", f"== {name}\n{text}"), "utf-8")
        return
    assert said(case) == [line for line in case.splitlines() if line not in given_]


def resolved(policy: Policy) -> Policy:
    """As after loading, when nothing is used, overridden or disabled any more."""
    statements = tuple(s for s in policy.statements if not isinstance(s, (Use, Override, Disable)))
    return name_rules(replaced(policy, statements=statements))


def read(text: str) -> Policy:
    return resolved(parse(Source("p.vitals", text)).policy)


@given(policies(), policies())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_there_are_differences_exactly_where_the_digests_differ(one: str, other: str) -> None:
    before, after = read(one), read(other)
    assert bool(differences(before, after)) == (digest(before) != digest(after))


@given(policies(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_statements_in_another_order_differ_where_the_digest_says_so(text: str, random: object) -> None:
    before = read(text)
    mixed = list(before.statements)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    after = replaced(before, statements=tuple(mixed))
    assert bool(differences(before, after)) == (digest(before) != digest(after))


@given(policies(), st.integers(0, 400), st.sampled_from(["1", "7 steps", "9", "loss", "red", "spike", ">", ""]))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_so_it_is_after_one_word_is_changed(text: str, place: int, word: str) -> None:
    words = list(re.finditer(r"[\w.]+|>|<", text))
    assume(words)
    at = words[place % len(words)]
    parsed = parse(Source("p.vitals", text[: at.start()] + word + text[at.end() :]))
    assume(parsed.ok)
    before, after = read(text), resolved(parsed.policy)
    found = differences(before, after)
    assert bool(found) == (digest(before) != digest(after))
    assert all(change.says.strip() and "\n" not in change.says for change in found)
    assert bool(differences(after, before)) == bool(found)


def test_as_data_a_difference_names_the_statement_its_part_and_the_rules_that_it_reaches() -> None:
    before = load("p", text="param k = 3\nwhen loss > k -> orange\n")
    after = load("p", text="param k = 2.5\nwhen loss > k -> orange\n")
    (change,) = differences(before.policy, after.policy)
    assert change.as_dict() == {
        "type": "difference", "kind": "changed", "what": "param", "name": "k", "part": "", "before": "3",
        "after": "2.5", "read_by": ["loss_orange"], "says": "param k: 3 -> 2.5 (read by loss_orange)",
    }  # fmt: skip


def test_ten_thousand_statements_are_compared_in_seconds() -> None:
    lines = [f"param p{n} = {n}\nrule r{n} {{ when m{n} > p{n} -> orange }}" for n in range(2500)]
    before, after = read("\n".join(lines)), read("\n".join(lines).replace(" = ", " = 1"))
    assert len(differences(before, after)) == 2500
