"""The page on the way from a log to a policy runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from vitalsdsl.cli import packs
from vitalsdsl.cli.app import vitals

PAGE = (Path(__file__).parent.parent / "docs" / "authoring.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def commands() -> list[tuple[list[str], str]]:
    """Each command of the page with what it shows."""
    found = []
    for block in blocks("console"):
        for part in block.split("$ vitals ")[1:]:
            words, _, shown = part.partition("\n")
            found.append((words.split(), shown))
    return found


def test_each_command_of_the_page_shows_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(packs, "packs", lambda: {"names": "vitalsdsl_rules"})
    exec(blocks("python")[0], {})
    Path("wrong.vitals").write_text(blocks("vitals")[0])
    said = [(words, shown, CliRunner().invoke(vitals, words, prog_name="vitals").stdout) for words, shown in commands()]
    assert len(said) == 7
    for words, shown, output in said:
        kept, cut, _ = shown.partition("…\n")
        assert output.startswith(kept) if cut else output == shown, f"vitals {' '.join(words)}\n{output}"


def test_the_rule_that_the_page_shows_is_the_one_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(packs, "packs", lambda: {"names": "vitalsdsl_rules"})
    exec(blocks("python")[0], {})
    assert blocks("text")[0] in CliRunner().invoke(vitals, ["init", "run.jsonl"], prog_name="vitals").stdout
