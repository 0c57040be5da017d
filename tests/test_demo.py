"""The demo as a new user meets it: one command, real training runs, and everything it promises in what it says."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from vitalsdsl_demo import show
from vitalsdsl_demo.progress import Progress

MISSING = [name for name in ("torch", "mlflow") if importlib.util.find_spec(name) is None]


def test_a_program_that_the_shell_would_not_find_is_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / ".venv" / "bin" / "vitals"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.chdir(tmp_path)
    assert show._program("vitals") == ".venv/bin/vitals"
    monkeypatch.chdir(program.parent.parent.parent / ".venv" / "bin")
    monkeypatch.setenv("PATH", str(program.parent))
    assert show._program("vitals") == "vitals"
    assert show._program("mlflow") == "mlflow"


def test_the_poisoned_run_is_brought_back_and_ends_as_the_clean_one(tmp_path: Path) -> None:
    said = demo(tmp_path, "rollback")
    levels = re.findall(r"^  step +(\d+)  (yellow|orange|red|green) ", said, re.MULTILINE)
    assert [level for _, level in levels] == ["yellow", "orange", "red", "green", "green"], said
    assert 241 <= int(levels[0][0]) <= int(levels[1][0]) <= int(levels[2][0]) < 281
    back, at = found(r"the guard went back to step (\d+),[^\n]*\n +and on at batch (\d+), at 90% of the", said)
    assert int(back) < 240
    assert int(at) >= 280
    clean, poisoned = found(r"on clean data +(\S+)   no alarm\n  on poisoned data +(\S+)", said)
    assert float(poisoned) <= 1.02 * float(clean)
    check_what_is_left(tmp_path, said, 5)


def test_the_paused_run_goes_on_at_a_persons_word(tmp_path: Path) -> None:
    said = demo(tmp_path, "pause")
    assert re.search(r"  orange  .*\n +the guard saved step-\d+-0 and ended the process, with exit code 75", said), said
    assert re.search(r"\$ vitals resume .*\n  asked: .*\n(.*\n)+  step +340  the end", said), said
    assert "  done  resume by " in said
    check_what_is_left(tmp_path, said, 4)


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_progress_is_one_line_that_is_rewritten_and_goes() -> None:
    screen = _Screen()
    progress = Progress(340, screen)
    progress.begins("clean")
    progress.begins("poisoned")
    progress.follow("clean", ["step 10  loss 3.1\n", "\x1b[2J a word of another's\n", "step 20  loss 3.0\n"])
    lines = [line.strip() for line in screen.getvalue().split("\r") if line.strip()]
    assert lines == [
        "… clean: starting", "… clean: starting, poisoned: starting",
        "… clean: step 10 of 340, poisoned: starting", "… clean: step 20 of 340, poisoned: starting",
    ]  # fmt: skip
    widest = max(map(len, lines)) + 2
    progress.clear()
    assert screen.getvalue().endswith("\r" + " " * widest + "\r") and "\n" not in screen.getvalue()


def demo(folder: Path, scenario: str) -> str:
    """What it says, where it comes out right."""
    if MISSING:
        message = f"{', '.join(MISSING)} not installed"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("VITALS_", "MLFLOW_"))}
    done = subprocess.run(
        [sys.executable, "-m", "vitalsdsl", "demo", "--scenario", scenario, "--folder", "demo"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.findall(r"^  … \w+: step (\d+) of 340$", done.stderr, re.MULTILINE)
    assert len(told) >= 2 and len(told) == len(done.stderr.splitlines()), done.stderr
    return done.stdout


def found(pattern: str, said: str) -> tuple[str, ...]:
    match = re.search(pattern, said)
    assert match is not None, said
    return match.groups()


def check_what_is_left(folder: Path, said: str, transitions: int) -> None:
    for tag in ("level", "policy", "digest", "alert"):
        assert re.search(rf"^  tag vitals\.{tag} = \S", said, re.MULTILINE), said
    for artifact in ("policy", "transitions.jsonl", "alerts.jsonl"):
        assert f"  artifact vitals/{artifact}\n" in said
    assert f"the same {transitions} transitions" in said
    (history,) = found(r"what the guard did: (\S+)", said)
    assert (folder / history).is_file()
    assert (folder / "demo" / "mlflow.db").is_file()
    assert [path.name for path in folder.iterdir()] == ["demo"]  # nothing anywhere else
