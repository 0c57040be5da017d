"""Reads what each of several releases of W&B writes: `python tests/wandb/older_sdks.py [VERSION…]`, or `make matrix`.

Each release gets an environment of its own, in a folder that is deleted afterwards. Run by hand, as it installs some
60 MB from the package index for each; not part of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from vitalsdsl_wandb.recorded import read

from vitalsdsl.ground.errors import VitalsError
from vitalsdsl.ground.points import Row

VERSIONS = ("0.13.9", "0.16.6", "0.18.7", "0.22.3", "0.30.0", "0.31.0")

TRAINING = """
import math
import numpy
import wandb

run = wandb.init(project="p", entity="e", id="matrix", tags=["x"])
run.log({"loss": 1.0, "ok": True, "name": "text"})
run.log({"a": 1}, commit=False)
run.log({"b": numpy.float32(2.5), "nest": {"y": {"z": 3}}})
run.log({"loss": math.nan, "c": "NaN", "d": -math.inf, "e": math.inf}, step=10)
run.log({"val/loss": 2})
run.log({"late": 1}, step=3)
run.log({"h": wandb.Histogram([1, 2, 3]), "x": 1, "l": [1, 2], "none": None})
run.log({"f": 1}, step=20, commit=True)
run.log({"zero": numpy.array(4)}, step=30)
run.log({"g": 1}, step=30, commit=True)
run.define_metric("*", step_metric="epoch")
for i in range(3000):
    run.log({"many": i, "epoch": 100 + i, "more": i / 7}, step=31 + i)
run.finish()
"""

EXPECTED = [
    (0, "loss=1.0"),
    (1, "a=1.0 b=2.5 nest.y.z=3.0"),
    (10, "c=nan d=-inf e=inf loss=nan val/loss=2.0"),
    (11, "x=1.0"),
    (20, "f=1.0"),
    (30, "g=1.0 zero=4.0"),
    *((100 + i, f"epoch={100.0 + i} many={float(i)} more={i / 7}") for i in range(3000)),
]


def main(versions: list[str]) -> int:
    failed = 0
    for version in versions:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            try:
                wrong = differences(version, Path(folder))
            except (VitalsError, subprocess.CalledProcessError) as error:
                wrong = [str(error)]
            print(f"wandb {version}: {'; '.join(wrong) or 'all rows'} ({time.monotonic() - began:.0f} s)", flush=True)
            failed += bool(wrong)
    return 1 if failed else 0


def differences(version: str, folder: Path) -> list[str]:
    """What is read otherwise than it was logged, the first few of it."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    # Releases of before 0.17 need what later ones of numpy and setuptools have dropped.
    old = ["numpy<2", "setuptools<80"] if version.startswith(("0.13.", "0.16.")) else ["numpy"]
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"wandb=={version}", *old]
    subprocess.run(install, check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(folder)}
    subprocess.run([python, "-c", TRAINING], check=True, cwd=folder, env=environment)
    (run,) = read(str(folder / "wandb"))
    found = [
        (event.step, " ".join(f"{k}={v}" for k, v in sorted(event.values.items()) if not k.startswith("system.")))
        for event in run.events
        if isinstance(event, Row)
    ]
    wrong = [f"read {a}, logged {b}" for a, b in zip(found, EXPECTED) if a != b][:3]
    if len(found) != len(EXPECTED):
        wrong.append(f"{len(found)} rows read, {len(EXPECTED)} logged")
    if [note for note in run.info.notes if "epoch" not in note]:
        wrong.append(f"notes: {run.info.notes}")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(VERSIONS)))
