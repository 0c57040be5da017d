"""What a policy finds, when, and how often it cries wolf: `python -m tests.trials.detection`, tens of minutes for a pack.

    python -m tests.trials.detection [--policy pack:default]… [--suite healthy|benign|latency|bloom|short]… [--quick | --share F]
                                     [--stride N]… [--set PARAM=VALUE]… [--json FILE] [--measured FILE]

Five suites. Four on generated runs (vitalsdsl.generate), each at every stride: alarms per 100,000 steps on healthy runs, by rule and level; benign
spikes, which must stay yellow; every incident: found? at which level, how many steps after its onset; and the published
spike of BLOOM-176B. And logs of 1 to 500 rows in the shapes and cadences of published ones (tests/detecting/short_logs.py),
ill and healthy. `--quick` and `--share` run fewer, with the first seeds. `--measured` writes the rates of false alarms into
the file that the catalogue of the packs shows.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
import time
from pathlib import Path

from tests.detecting.judged_cases import QUICK, SUITES, Case, Scale
from tests.detecting.judging import judged
from tests.detecting.measured import noted
from tests.detecting.tables import TABLES, table
from vitalsdsl.policies.policy import load

PROCESSES = 2


def main(arguments: list[str]) -> None:
    asked = _arguments(arguments)
    scale = QUICK if asked.quick else Scale().part(asked.share)
    if asked.stride:
        scale = dataclasses.replace(scale, strides=tuple(asked.stride))
    settings = dict(pair.split("=", 1) for pair in asked.set)
    said = {}
    for reference in asked.policy:
        policy = load(reference, settings=settings)
        print(f"# {reference}  {policy.digest}", flush=True)
        cases: list[Case] = list(itertools.chain(*(SUITES[suite](scale) for suite in asked.suite)))
        since = time.monotonic()
        outcomes = list(judged(cases, reference, settings, asked.processes))
        tables = {suite: TABLES[suite]([o for o in outcomes if o.case.suite == suite]) for suite in asked.suite}
        for suite, rows in tables.items():
            print(f"\n## {suite}\n{table(rows)}", flush=True)
        print(f"\n{len(outcomes)} runs, {sum(o.steps for o in outcomes):,} steps, {time.monotonic() - since:.0f} s\n")
        said[reference] = {"digest": policy.digest, "settings": settings, **tables}
        if asked.measured and "healthy" in asked.suite:
            noted(Path(asked.measured), policy, [o for o in outcomes if o.case.suite == "healthy"])
    if asked.json:
        Path(asked.json).write_text(json.dumps(said, indent=1) + "\n")


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.trials.detection")
    parser.add_argument("--policy", action="append", help="a file or pack:NAME; may be given more than once")
    parser.add_argument("--suite", action="append", choices=list(SUITES), help="all five where none is given")
    parser.add_argument("--stride", action="append", type=int, help="1, 10, 50 and 500 where none is given")
    parser.add_argument("--set", action="append", default=[], metavar="PARAM=VALUE")
    parser.add_argument("--quick", action="store_true", help="some runs of each suite")
    parser.add_argument("--share", type=float, default=1.0, help="of the runs of each suite, at most 1")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--measured", metavar="FILE")
    asked = parser.parse_args(arguments)
    asked.policy = asked.policy or ["pack:default"]
    asked.suite = asked.suite or list(SUITES)
    return asked


if __name__ == "__main__":
    main(sys.argv[1:])
