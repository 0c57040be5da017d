"""The page on backtests: its commands print what it says, its program too."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from backtest.logs import call

PAGE = (Path(__file__).parents[2] / "docs" / "backtest.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))
    exec(compile(blocks("python")[0], "page", "exec"), {})
    [policy] = blocks("vitals")
    (tmp_path / "llm.vitals").write_text(policy)
    (tmp_path / "stricter.vitals").write_text(policy.replace("for 5 samples", "for 12 samples"))
    (tmp_path / "labels.csv").write_text(blocks("csv")[0])
    return tmp_path


def test_the_page_s_commands_and_program_print_what_it_says(page: Path) -> None:
    found = blocks("console")
    assert len(found) == 5
    for block in found:
        command, _, said = block.partition("\n")
        result = call(*shlex.split(command.removeprefix("$ vitals backtest ")), "--jobs", "1")
        assert result.exit_code == 0, result.output
        lines = iter(result.stdout.splitlines())
        for line in said.splitlines():
            assert line == "…" or any(line == printed for printed in lines), f"{command}: {line}\n{result.stdout}"
    assert (page / "k.png").stat().st_size > 10_000
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(blocks("python")[1], "page", "exec"), {})
    assert printed.getvalue() == blocks("text")[0]


def test_the_page_names_every_option() -> None:
    options = set(re.findall(r"--[a-z-]+", call("--help").stdout))
    assert {option for option in options - {"--help"} if option not in PAGE} <= {"--set", "--profile", "--step"}
