"""`vitals run` over a real script that logs to W&B and knows nothing of vitals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from vitalsdsl_wandb.references import read

SCRIPT = """
import sys
import wandb

with wandb.init(project="p", id="r1") as run:
    for step in range(60):
        run.log({"loss": 1.0 if step < 40 else 5.0})
sys.exit(7)
"""


def test_a_script_is_watched_from_inside_without_a_line_changed(offline: Path) -> None:
    (offline / "p.vitals").write_text('rule hot { when loss > 3 for 3 steps -> orange because "loss is {loss}" }\n')
    (offline / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "vitalsdsl", "run", "p.vitals", "--", sys.executable, "train.py"]
    done = subprocess.run(command, cwd=offline, capture_output=True, text=True, timeout=300, env={**os.environ})
    assert done.returncode == 7, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("vitals:")]
    assert "vitals: run r1: step 42: orange: hot: loss is 5" in said
    assert said[-1] == "vitals: run r1: 1 change acted upon, at worst orange: alert, tag"
    assert len([line for line in said if "step 42" in line]) == 1
    (recording,) = read(str(offline / "wandb"), step_key=None)
    assert recording.info.name == "r1" and len(list(recording.events)) == 60


def test_a_script_that_shuts_everybody_out_is_watched_by_its_files(offline: Path) -> None:
    """`python -I` takes no path from its environment, so nothing of ours is inside; the run is over before long, too."""
    (offline / "p.vitals").write_text('rule hot { when loss > 3 for 3 steps -> orange because "loss is {loss}" }\n')
    (offline / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "vitalsdsl", "run", "p.vitals", "--", sys.executable, "-I", "train.py"]
    done = subprocess.run(command, cwd=offline, capture_output=True, text=True, timeout=300)
    assert done.returncode == 7, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("vitals:")]
    assert said[-1] == "vitals: run r1: step 42  green -> orange  hot: nothing: nothing here takes what it asks for"
