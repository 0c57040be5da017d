"""Run by an environment that holds only the wheel: what users get works without this folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("p.vitals").write_text("when grad_norm > 3*baseline(500) for 20 steps -> orange\n")
        rows = "".join(f'{{"step": {s}, "grad_norm": {4.0 if s >= 500 else 1.0}}}\n' for s in range(530))
        program = str(Path(sys.executable).with_name("vitals"))
        checked = subprocess.run([program, "check", "p.vitals"], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        words = [program, "replay", "p.vitals", "-", "--format", "jsonl"]
        replayed = subprocess.run(words, input=rows, capture_output=True, text=True, check=True)
        assert '"step": 519' in replayed.stdout, replayed.stdout + replayed.stderr
        packs = subprocess.run([program, "packs"], capture_output=True, text=True, check=True)
        assert "core" in packs.stdout
        # What stands before the training's own start, by which `vitals run` meets W&B without a line changed.
        words = [program, "run", "p.vitals", "--", sys.executable, "-c", "import sitecustomize as s; print(s.__file__)"]
        started = subprocess.run(words, capture_output=True, text=True, check=True)
        assert started.stdout.strip().endswith("vitalsdsl_wandb/launch/sitecustomize.py"), (
            started.stdout + started.stderr
        )
        demo = subprocess.run([program, "demo"], capture_output=True, text=True, check=False)
        assert demo.returncode == 2, demo.stderr
        assert "pip install 'vitalsdsl[demo]'" in demo.stderr
    print("the wheel works: 6 passed, 0 failed")


if __name__ == "__main__":
    main()
