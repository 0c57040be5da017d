"""The reference on the command line: a page for all that can stand in a condition, and none of it about our insides."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import vitalsdsl as vitals
from vitalsdsl.cli.app import vitals as program
from vitalsdsl.language.forms.base import forms
from vitalsdsl.language.scope import COUNTERS
from vitalsdsl.ops.base import aggregates, registry

EVERY = [*registry(), *aggregates(), *forms()]
PAGE = (Path(__file__).parent.parent / "docs" / "language.md").read_text("utf-8")


def said(*words: str) -> str:
    result = CliRunner().invoke(program, ["functions", *words], prog_name="vitals")
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", sorted(set(EVERY)))
def test_every_page_has_a_signature_a_meaning_and_an_example(name: str) -> None:
    page = said(name)
    assert page.index("In a rule:") > 100
    assert "import" not in page and "kernels" not in page
    assert max(map(len, page.splitlines())) <= 130


@pytest.mark.parametrize("name", forms())
def test_every_form_s_example_is_a_policy_that_uses_it(name: str) -> None:
    form = forms()[name]
    assert vitals.load("p", text=form.example).policy.statements
    assert re.search(rf"\b{name}\b", form.example)
    assert form.page.split("\n")[0].endswith(".")  # the list shows one line, a whole sentence


ASKED = {
    "is nan": "x is nan,",
    "k of": "k of (COND",
    "within": "A then B within D",
    "then no": "A then B within D",
    "or": "A and B, A or B",
    "at end of": "E at step N",
    "quantile": "quantile(x, q, W)",
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_form_is_found_by_its_words(asked: str) -> None:
    assert said(*asked.split()).startswith(ASKED[asked])
    assert said(asked).startswith(ASKED[asked])


def test_what_the_language_page_lists_has_a_page() -> None:
    section = PAGE[PAGE.index("## 5. Functions") : PAGE.index("## 6. From condition")]
    listed = {
        word
        for row in re.findall(r"^\| `([^|]*)` \|", section, re.MULTILINE)
        for word in re.findall(r"\b[a-z_]+(?=\()", row)
    }
    assert len(listed) > 20 and listed <= set(EVERY)
    assert set(COUNTERS) | {"missing", "stalled", "before", "at", "then", "of", "is", "for"} <= set(forms())


def test_what_is_near_is_named() -> None:
    result = CliRunner().invoke(program, ["functions", "mising"], prog_name="vitals")
    assert (result.exit_code, "did you mean `missing`?" in result.output) == (2, True)


def test_the_list_holds_all_of_them_also_as_data() -> None:
    listed = [json.loads(line) for line in said("--format", "jsonl").splitlines()]
    assert sorted(entry["name"] for entry in listed) == sorted(EVERY)
    assert all(entry["page"] and entry["example"] and "import" not in entry["page"] for entry in listed)
    assert "missing x for D" in said() and "A then B within D" in said()
