"""Laws over all lints: each finds its bad example, leaves its good one alone, and has a page."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
from cases import CASES, load

import vitalsdsl
from vitalsdsl.checker import check
from vitalsdsl.lints.base import Lint, explain, lints
from vitalsdsl.lints.silence import silenced
from vitalsdsl.parser import parse
from vitalsdsl.policy import read
from vitalsdsl.scope import name_rules
from vitalsdsl.source import Source


@pytest.mark.parametrize("lint", lints().values(), ids=lambda lint: lint.code)
def test_a_lint_finds_its_bad_example_and_not_its_good_one(lint: type[Lint]) -> None:
    tested: dict[str, set[str]] | None = {} if lint.code == "V601" else None
    bad = {d.code for d in read("bad.vitals", text=lint.bad, tested=tested)[1]}
    good = {d.code for d in read("good.vitals", text=lint.good)[1]}
    assert lint.code in bad
    assert lint.code not in good
    assert lint.bad.strip() in explain(lint.code).replace("    ", "") or lint.code in explain(lint.code)


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


def silence(text: str, today: datetime.date = datetime.date(2026, 1, 1)) -> list[str]:
    loaded, found = read("p.vitals", text=text)
    assert loaded is not None
    plain = list(read("p.vitals", text=re.sub(r"#[^\n]*", "", text))[1])
    assert plain or found is not None
    return [d.code for d in found]


def test_a_comment_silences_what_it_names_on_the_next_statement() -> None:
    text = "# vitals: off V215 because the curve is known\nwhen rising(loss, 20 steps) -> yellow"
    assert silence(text) == []


def test_a_comment_silences_only_its_own_line() -> None:
    text = "when rising(loss, 20 steps) -> yellow # vitals: off V215 because known\nwhen rising(x, 20 steps) -> yellow"
    assert silence(text) == ["V215"]


@pytest.mark.parametrize(
    "comment",
    [
        "off V215",
        "off because x",
        "off V999 because x",
        "off V215 until soon because x",
        "off V215 until 2001-01-01 because x",
    ],
)
def test_a_comment_that_is_not_right_is_itself_a_finding(comment: str) -> None:
    assert "V603" in silence(f"# vitals: {comment}\nwhen rising(loss, 20 steps) -> yellow")


def test_a_comment_that_hits_nothing_is_a_finding() -> None:
    assert silence("# vitals: off V215 because gone\nwhen loss > 3 -> yellow") == ["V603"]
    assert silenced is not None
