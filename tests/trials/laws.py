"""Random policies over random runs, to find one of which a law does not hold: those that tests/same_verdicts.py names. For
each seed three: of all that the language has, of windows over hard data, and of conditions that turn often.

    python -m tests.trials.laws [--cases N] [--from SEED]

Three seeds a second or so. Prints what does not hold and the seed, and at the end what was left to the stream and why.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import close_calls
from same_verdicts import broken, broken_of
from steady_runs import steady_case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--from", type=int, default=1_000_000, dest="first")
    given = parser.parse_args()
    count: Counter[str] = Counter()
    bad = 0
    for seed in range(given.first, given.first + given.cases):
        try:
            found = broken(seed, count) + broken_of(*steady_case(seed), seed, count)
            found.append(close_calls.differs(seed, 1_000))
        except Exception as error:  # that, too, is to be told with its seed
            found = [f"{type(error).__name__}: {error}"]
        found = [one for one in found if one]
        for one in found:
            print(f"{seed}: {one}", flush=True)
        bad += bool(found)
    print(f"{given.cases} cases, {bad} of which a law does not hold")
    for what, times in count.most_common():
        print(f"  {times:6} {what}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
