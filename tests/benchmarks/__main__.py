"""How quick evaluation is beside what one would write instead, in CPU time, with all contenders in one process by turns.

    python -m tests.benchmarks [--quick] [--plot FILE]

First all must find the same changes; then what each takes as a multiple of what we take, the median of some rounds and
their range; then how our time grows. Contenders that are not installed are left out: pip install pandas bottleneck polars
numba river, and matplotlib for the plot. About ten minutes, with --quick one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.contenders import BATCH, STREAM, Contender
from tests.benchmarks.work import Work

Curve = tuple[str, str, list[tuple[float, float]]]
"""What grows, in which unit our time is, and the points."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter runs and fewer rounds")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw how our time grows")
    given = parser.parse_args()
    rounds = 3 if given.quick else 7
    table("a recorded run at once", BATCH, Work.made(20_000 if given.quick else 200_000), rounds)
    table("a step at a time", STREAM, Work.made(2_000 if given.quick else 4_000, short=100, long=1000), rounds)
    curves = growth(20_000 if given.quick else 100_000)
    for what, unit, points in curves:
        print(f"\n{what}: " + "  ".join(f"{x:g}: {y:.3g} {unit}" for x, y in points), flush=True)
    if given.plot is not None:
        draw(curves, given.plot)


def table(what: str, contenders: Sequence[Contender], work: Work, rounds: int) -> None:
    print(f"\n{what}: {len(work.columns)} metrics, {5 * len(work.columns)} rules, {work.steps:,} steps")
    there = [one for one in contenders if one.is_installed]
    runs = {one.name: one.prepare(work) for one in there}
    wanted = runs[there[0].name]()
    for name, run in runs.items():
        found = run()
        if found != wanted:
            raise SystemExit(
                f"{name} finds {len(found)} changes, and {len(wanted)} are wanted: {set(found) ^ set(wanted)}"
            )
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            taken[name].append(cpu(run))
    ours = taken[there[0].name]
    for name, times in taken.items():
        ratios = [theirs / own for theirs, own in zip(times, ours)]
        each = statistics.median(times) / work.steps * 1e6
        print(
            f"  {name:28} {each:10.2f} us a step  {statistics.median(ratios):8.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
        )
    for one in contenders:
        if one not in there:
            print(f"  {one.name:28} is not installed")


def cpu(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def growth(steps: int) -> list[Curve]:
    """Our time a step as one thing grows and all else stays: whole runs, and step by step where that is told apart."""
    batch, stream = BATCH[0].prepare, STREAM[0].prepare

    def each(prepare: Callable[[Work], Callable[[], Any]], work: Work, of: float) -> float:
        run = prepare(work)
        return min(cpu(run) for _ in range(2)) / of * 1e6

    few = steps // 20
    return [
        ("length of the run, at once", "us a step", [(n, each(batch, Work.made(n, 2), n)) for n in (1000, 10_000, steps)]),
        ("long window, at once", "us a step",
         [(w, each(batch, Work.made(steps, 2, w // 10, w), steps)) for w in (50, 500, 5000, steps // 2)]),
        ("long window, step by step", "us a step",
         [(w, each(stream, Work.made(few, 2, w // 10, w), few)) for w in (50, 500, few // 2)]),
        ("metrics with five rules each, at once", "us a step",
         [(m, each(batch, Work.made(few, m), few)) for m in (1, 10, 100)]),
        ("metrics with five rules each, step by step", "us a step",
         [(m, each(stream, Work.made(few // 4, m, 50, 200), few // 4)) for m in (1, 10, 100)]),
        ("runs, at once", "us a step of each",
         [(k, _of_many(k, few)) for k in (1, 10, 50)]),
    ]  # fmt: skip


def _of_many(runs: int, steps: int) -> float:
    made = [BATCH[0].prepare(Work.made(steps, 2, seed=seed)) for seed in range(runs)]
    return cpu(lambda: [run() for run in made]) / (runs * steps) * 1e6


def draw(curves: list[Curve], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, places = pyplot.subplots(2, 3, figsize=(13, 7))
    for place, (what, unit, points) in zip(places.flat, curves):
        place.loglog([x for x, _ in points], [y for _, y in points], marker="o")
        place.set_title(what)
        place.set_ylabel(unit)
        place.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(file)


if __name__ == "__main__":
    main()
