"""What each answer to a bad window costs, over twenty seeds: `python -m tests.trials.bad_window`, a few minutes.

Prints the table that stands in docs/guard.md.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.torch.bad_windows import ANSWERS, Outcome, train

SEEDS = 20


def main() -> None:
    logging.getLogger("vitalsdsl").setLevel(logging.ERROR)
    found: dict[str, list[Outcome]] = {answer: [] for answer in ANSWERS}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VITALS_HOME"] = folder
        for seed in range(1, SEEDS + 1):
            for number, answer in enumerate(ANSWERS):
                found[answer].append(train(answer, seed, Path(folder) / f"{seed}-{number}"))
            print(f"seed {seed} of {SEEDS}", file=sys.stderr)
    print("| answer | bad steps | loss in the end | batches left out |\n|---|---|---|---|")
    for answer, outcomes in found.items():
        bad = _spread([outcome.bad_steps for outcome in outcomes], "{:.0f}".format)
        final = _spread([outcome.final_loss for outcome in outcomes], "{:.3f}".format)
        left_out = _spread([outcome.left_out for outcome in outcomes], "{:.0f}".format)
        print(f"| {answer} | {bad} | {final} | {left_out} |")


def _spread(values: Sequence[float], shown: Callable[[float], str]) -> str:
    """The median, and from where to where the values go, where they differ."""
    low, high = shown(min(values)), shown(max(values))
    middle = shown(statistics.median(values))
    return middle if low == high else f"{middle} ({low} to {high})"


if __name__ == "__main__":
    main()
