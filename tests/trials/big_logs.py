"""Logs of 200 MB of several formats, each read in a process of its own: every row is there, and memory stays flat.

    python -m tests.trials.big_logs [MEGABYTES]

Prints rows a second of processor time and the peak of memory. Fails where a row is missing or memory grows past 400 MB.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from vitalsdsl_files import read

MOST_MB = 400

Line = Callable[[int], str]
FORMATS: dict[str, Line] = {
    "Megatron": lambda at: (
        f"[default7]: iteration {at + 1:8d}/ 9000000 | consumed samples: {256 * at:12d} | "
        f"elapsed time per iteration (ms): 812.4 | learning rate: 1.500E-06 | lm loss: {3 + 1 / (at + 1):.6E} | "
        "loss scale: 65536.0 | grad norm: 1.234 | number of skipped iterations:   0 |\n"
    ),
    "nanoGPT": lambda at: f"iter {at}: loss {3 + 1 / (at + 1):.4f}, time 80.50ms, mfu 12.50%\n",
    "Hugging Face": lambda at: (
        f"{{'loss': {3 + 1 / (at + 1):.4f}, 'grad_norm': 1.25, 'learning_rate': 1.25e-05, 'epoch': {at / 1000:.3f}}}\n"
        f"\r  5%|█▌        | {at + 1}/9000000 [00:10<01:30,  9.5it/s]\n"
    ),
    "OpenMMLab": lambda at: (
        f"2022-05-07 16:43:08,063 - mmdet - INFO - Epoch [{at // 1000 + 1}][{at % 1000 + 1}/1000]\tlr: 1.978e-03, "
        "eta: 1:53:59, time: 0.487, memory: 3786, loss_cls: 0.4788, loss: 1.6396\n"
    ),
    "anybody's lines": lambda at: f"2024-01-01 10:00:00 INFO Step: {at}, loss: {3 + 1 / (at + 1):.4f}, lr: 1e-4\n",
    "JSON lines": lambda at: f'{{"iteration": {at}, "loss": {3 + 1 / (at + 1):.4f}, "lr": 0.0001, "time": 0.25}}\n',
    "CSV": lambda at: "step,loss,lr\n" if at == 0 else f"{at},{3 + 1 / (at + 1):.4f},0.0001\n",
}


def write(place: Path, line: Line, size: int) -> int:
    """Writes a log of about `size` bytes; how many lines those are."""
    count = size // len(line(100_000))
    with place.open("w", encoding="utf-8") as file:
        file.writelines(map(line, range(count)))
    return count


def look(place: Path) -> None:
    """In a process of its own: reads a log, and prints its rows, the processor time and the peak of memory in MB."""
    begin = time.process_time()
    rows = sum(1 for run in read(place) for _ in run.events)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(rows, f"{time.process_time() - begin:.2f}", peak)


def main(megabytes: int) -> None:
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "log")
        for name, line in FORMATS.items():
            expected = write(place, line, megabytes * 1_000_000) - (name == "CSV")
            command = [sys.executable, "-m", "tests.trials.big_logs", "--look", str(place)]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            rows, seconds, peak = int(said[0]), float(said[1]), int(said[2])
            print(f"{name:16} {rows:9,} rows  {rows / seconds:8,.0f} rows/s  {peak:4} MB", flush=True)
            if rows != expected or peak > MOST_MB:
                wrong.append(f"{name}: {rows} of {expected} rows, {peak} MB")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--look"]:
        look(Path(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
