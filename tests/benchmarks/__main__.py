"""How quick evaluation is beside what one would write instead, in CPU time, with all contenders in one process by turns.

    python -m tests.benchmarks [--quick] [--only WORD] [--plot FILE] [--json FILE] [--page [FILE]]

First all must find the same changes; then what each takes as a multiple of what we take, the median of some rounds and
their range; then how our time grows. Whoever is not installed is said to be so: pip install 'vitalsdsl[bench]'. A quarter
of an hour; with --quick some minutes.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import medians, page, peers, runs, steps
from tests.benchmarks.contest import Contest, race_runs, race_steps
from tests.benchmarks.growth import curves, latencies
from tests.benchmarks.kinds import race_kinds
from tests.benchmarks.real_calls import race_real_calls
from tests.benchmarks.starts import race_starts
from tests.benchmarks.taps import race_taps
from tests.benchmarks.whole_way import race_dispatches, race_replays
from tests.benchmarks.work import Work

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
FILL = 5_000
SPIKE = FILL + 4
"""Early enough for the slowest to see it."""

Race = Callable[[bool], Contest]


def _steps(quick: bool) -> Contest:
    rounds, chunk = (5, 1_000) if quick else (9, 2_000)
    work = Work.made(FILL + rounds * chunk, spike=SPIKE)
    return race_steps("a step at a time: ten metrics, fifty rules", steps.STEPS, work, FILL, chunk, rounds)


def _kinds(quick: bool) -> Contest:
    return race_kinds(FILL, 1_000 if quick else 2_000, 3 if quick else 5)


def _runs(quick: bool) -> Contest:
    work = Work.made(100_000 if quick else 1_000_000, healthy=True)
    return race_runs("a healthy run at once: ten metrics, fifty rules", runs.RUNS, work, 3 if quick else 5)


def _bad_runs(quick: bool) -> Contest:
    work = Work.made(100_000 if quick else 1_000_000)
    return race_runs("a run with three incidents at once", runs.RUNS, work, 3 if quick else 5)


def _medians(quick: bool) -> Contest:
    rounds, chunk = (5, 1_000) if quick else (9, 2_000)
    work = Work.made(FILL + rounds * chunk, spike=SPIKE, rules=medians.RULES)
    return race_steps("a median over 5000 points, a step at a time", medians.STEPS, work, FILL, chunk, rounds)


def _median_runs(quick: bool) -> Contest:
    work = Work.made(50_000 if quick else 500_000, rules=medians.RULES, healthy=True)
    return race_runs("a median over 5000 points, a healthy run at once", medians.RUNS, work, 3)


def _rtamt(quick: bool) -> Contest:
    rounds, chunk = (5, 1_000) if quick else (9, 2_000)
    work = Work.made(500 + rounds * chunk, short=50, long=500, spike=504, rules=peers.TEMPORAL)
    return race_steps("what rtamt can say, over 50 and 500 steps", peers.RTAMT, work, 500, chunk, rounds)


def _expr_tracker(quick: bool) -> Contest:
    rounds, chunk = (5, 1_000) if quick else (9, 2_000)
    work = Work.made(FILL + rounds * chunk, spike=SPIKE)
    return race_steps("the same fifty rules in expr-tracker", peers.EXPR_TRACKER, work, FILL, chunk, rounds)


def _starts(quick: bool) -> Contest:
    return race_starts(5 if quick else 15)


def _taps(quick: bool) -> Contest:
    return race_taps(5 if quick else 9, 500 if quick else 1_000)


def _real_calls(quick: bool) -> Contest:
    return race_real_calls(3 if quick else 5, 40 if quick else 100)


def _replays(quick: bool) -> Contest:
    return race_replays(60_000 if quick else 300_000, 3)


def _dispatches(quick: bool) -> Contest:
    return race_dispatches(3 if quick else 7, 500 if quick else 2_000)


RACES: dict[str, Race] = {
    "steps": _steps,
    "kinds": _kinds,
    "runs": _runs,
    "incidents": _bad_runs,
    "medians": _medians,
    "medians-at-once": _median_runs,
    "rtamt": _rtamt,
    "expr-tracker": _expr_tracker,
    "taps": _taps,
    "real-calls": _real_calls,
    "replays": _replays,
    "dispatches": _dispatches,
    "starts": _starts,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter runs and fewer rounds")
    parser.add_argument("--only", choices=[*RACES, "growth"], help="one part alone")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw how our time grows")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", nargs="?", const=PAGE, help="rewrite the block of docs/performance.md"
    )
    given = parser.parse_args()
    if given.only and (given.page or (given.only != "growth" and given.plot)):
        parser.error("--page and --plot want all that is measured: leave --only out")
    logging.getLogger("vitalsdsl").setLevel(logging.ERROR)  # that rules over five points cannot fire is not news here
    where = page.here()
    print(where)
    contests = []
    for name, race in RACES.items():
        if given.only in (None, name):
            contests.append(race(given.quick))
            print(page.told(contests[-1]), flush=True)
    grown, single = [], {}
    if given.only in (None, "growth"):
        grown, single = curves(given.quick), latencies(2_000 if given.quick else 20_000)
        print("\n".join(map(page.told_curve, grown)))
        print("\nsingle steps: " + "  ".join(f"{name}: {us:.3g} us" for name, us in single.items()))
    results = page.Results(where, contests, grown, single)
    if given.plot is not None:
        page.draw(grown, given.plot)
    if given.json is not None:
        given.json.write_text(page.as_json(results), encoding="utf-8")
    if given.page is not None:
        page.rewrite(given.page, results)


if __name__ == "__main__":
    main()
