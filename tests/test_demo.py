"""The demo as a new user meets it: one command, a real training run, and everything it promises in what it says."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from vitalsdsl_demo import show

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


def test_the_demo_goes_wrong_is_caught_and_replays_the_same(tmp_path: Path) -> None:
    if MISSING:
        message = f"{', '.join(MISSING)} not installed"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("VITALS_", "MLFLOW_"))}
    done = subprocess.run(
        [sys.executable, "-m", "vitalsdsl", "demo", "--folder", str(tmp_path / "demo")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    for level in ("yellow", "orange", "red"):
        assert re.search(rf"^  step +\d+ +\w+ -> {level} ", said, re.MULTILINE), said
    for tag in ("level", "policy", "digest", "alert"):
        assert re.search(rf"^  tag vitals\.{tag} = \S", said, re.MULTILINE), said
    for artifact in ("policy", "transitions.jsonl", "alerts.jsonl"):
        assert f"  artifact vitals/{artifact}\n" in said
    found = re.search(r"the same (\d+) transitions", said)
    assert found is not None, said
    assert int(found[1]) == len(re.findall(r"^  step +\d+ ", said, re.MULTILINE)) >= 3
    assert (tmp_path / "demo" / "mlflow.db").is_file()
