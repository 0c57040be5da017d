"""The page on trainers: both its examples run and print what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "trainers.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("at, library", [(0, "transformers"), (1, "lightning")])
def test_each_example_prints_what_the_page_says(at: int, library: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    (tmp_path / "llm.vitals").write_text(blocks("vitals")[0], "utf-8")
    path = os.pathsep.join(map(str, (ROOT, ROOT / "integrations", ROOT / "rules")))
    done = subprocess.run(
        [sys.executable, "-c", blocks("python")[at]], capture_output=True, text=True, cwd=tmp_path, check=False,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "VITALS_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == blocks("text")[0].splitlines(), done.stderr
