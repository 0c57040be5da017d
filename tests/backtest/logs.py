"""Logs whose every alarm is known beforehand, and a reader of which a test says how it goes wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from vitalsdsl.cli.app import vitals

POLICY = """\
param k = 3 in 1 .. 10
rule high { when loss > k -> yellow -> orange after 3 steps }
rule norm { when grad_norm > 10 -> red }
"""
"""On a row of losses above 3 that begins at step s: yellow at s, orange at s + 3, green at the first one below."""


def losses(count: int, high: Iterable[tuple[int, int]] = ()) -> list[float]:
    """1.0 at each step, and 5.0 in the stretches [first, last]."""
    values = [1.0] * count
    for first, last in high:
        values[first : last + 1] = [5.0] * (last + 1 - first)
    return values


def jsonl(path: Path, values: Iterable[float], stride: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"step": at * stride, "loss": v}) + "\n" for at, v in enumerate(values)))
    return path


def csv(path: Path, values: Iterable[float]) -> Path:
    path.write_text("step,loss\n" + "".join(f"{at},{value}\n" for at, value in enumerate(values)))
    return path


def trainer_state(path: Path, values: Iterable[float]) -> Path:
    history = [{"step": at, "loss": value, "epoch": at / 10} for at, value in enumerate(values)]
    path.write_text(json.dumps({"log_history": history, "global_step": len(history)}))
    return path


def policy_file(folder: Path, text: str = POLICY, name: str = "p.vitals") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(vitals, ["backtest", *map(str, words)], prog_name="vitals")


def parsed(result: Result) -> Mapping[str, Any]:
    assert result.exit_code == 0, result.output
    found: Mapping[str, Any] = json.loads(result.stdout)
    return found


READER = '''\
import os, signal
from pathlib import Path
from vitalsdsl.ground.points import Row, RunInfo
from vitalsdsl.runs.sources import Recording

def read(rest, *, step_key=None):
    """`odd:die`, `odd:fail`, `odd:memory`, `odd:wait/FIFO` (until the file FIFO.go is there), or a run of that name."""
    if rest == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if rest == "fail":
        raise KeyError("inside")
    if rest == "memory":
        raise MemoryError
    if rest.startswith("wait/") and not Path(rest[4:] + ".go").exists():
        with open(rest[4:], "w") as fifo:
            fifo.write("x")
            fifo.flush()
            signal.pause()
    return [Recording(RunInfo(rest), [Row(step, {"loss": 5.0}) for step in range(3)])]
'''


def add_reader(folder: Path) -> Path:
    """A folder that, on the path of modules, adds the reader `odd:`."""
    info = folder / "odd_reader-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-reader\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vitalsdsl.sources]\nodd = odd_reader:read\n")
    (folder / "odd_reader.py").write_text(READER)
    return folder
