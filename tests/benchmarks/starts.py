"""What a command takes from start to end, in a process of its own, beside Python and the libraries that it stands on."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.contest import Contender, Contest, Measured, outcomes
from tests.benchmarks.work import Work

RULES = 20
COMMANDS: dict[str, tuple[str, ...]] = {
    f"vitals check, {RULES} rules": ("-m", "vitalsdsl", "check", "p.vitals"),
    "vitals --help": ("-m", "vitalsdsl", "--help"),
    f"vitals fmt --check, {RULES} rules": ("-m", "vitalsdsl", "fmt", "--check", "p.vitals"),
    "vitals explain, without a run": ("-m", "vitalsdsl", "explain", "p.vitals"),
    "vitals names, 500 steps": ("-m", "vitalsdsl", "names", "run.jsonl"),
    f"vitals replay, 500 steps, {RULES} rules": ("-m", "vitalsdsl", "replay", "p.vitals", "run.jsonl"),
    "limit: Python and click, and nothing done": ("-c", "import gc; gc.disable(); import click; gc.freeze()"),
    "limit: Python alone": ("-c", "pass"),
}  # fmt: skip
"""The first is ours; the words that Python is given."""

STARTS = tuple(Contender(name, str) for name in COMMANDS)


def policy(rules: int = RULES) -> str:
    """Rules as people write them, each of a metric of its own."""
    return "".join(f"when m{n} > {n + 2} * baseline(m{n}, 100 steps) for 20 steps -> orange\n" for n in range(rules))


def race_starts(rounds: int) -> Contest:
    """Each command by turns, with all that Python and we keep between starts in place."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "p.vitals").write_text(policy(), "utf-8")
        columns = Work.made(500, RULES, healthy=True).columns
        rows = [{"step": step, **{m: float(column[step]) for m, column in columns.items()}} for step in range(500)]
        (place / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        for words in COMMANDS.values():
            cpu_of(words, place)
        measured: Measured = {name: [] for name in COMMANDS}
        for _ in range(rounds):
            for name, words in COMMANDS.items():
                measured[name].append(1000 * cpu_of(words, place))
    return Contest(f"a command of {RULES} rules from start to end", outcomes(STARTS, measured), "ms a start")


def cpu_of(words: tuple[str, ...], folder: Path) -> float:
    """Seconds of processor time that a process takes. What it is given must be right."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)
    began = _children()
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, check=False)
    took = _children() - began
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)} exits {done.returncode}: {done.stderr.decode()[-300:]}")
    return took


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
