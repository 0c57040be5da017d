"""The page on acting: its loop runs and prints what it says, and it names every action."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from vitalsdsl_torch.arguments import ACTIONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guard.md").read_text("utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_loop_prints_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "llm.vitals").write_text(block("vitals"), "utf-8")
    path = os.pathsep.join(map(str, (ROOT, ROOT / "integrations", ROOT / "rules")))
    for _ in range(2):  # started again, it finds that all is done
        done = subprocess.run(
            [sys.executable, "-c", block("python")], capture_output=True, text=True, cwd=tmp_path, check=False,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert done.stdout == block("text"), done.stderr


def test_every_action_stands_on_the_page() -> None:
    assert {action for action in ACTIONS if action not in PAGE} == set()
