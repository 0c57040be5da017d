"""Ten provoked incidents and their clean twins, over several seeds: `python -m tests.trials.incidents`, a few minutes.

Prints the table that stands in docs/incidents.md, and how many of the clean twins raised an alarm.
"""

from __future__ import annotations

import logging
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

from tests.torch.incidents.provoked import INCIDENTS, TWINS, Incident
from tests.torch.incidents.trainings import Watched, watched

SEEDS = 3


def main() -> None:
    logging.getLogger("vitalsdsl").setLevel(logging.ERROR)
    print(
        "| incident | seen by | level | steps after its onset | answered | by the guard, with seed 0 |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VITALS_HOME"] = folder
        for number, incident in enumerate(INCIDENTS):
            seen = [watched(incident.training(True, seed), Path(folder) / f"{number}-{seed}") for seed in range(SEEDS)]
            print(_row(incident, seen), flush=True)
        alarms: list[str] = []
        for twin in TWINS:
            for seed in range(SEEDS):
                found = watched(twin(False, seed), Path(folder) / f"{twin.__name__}-{seed}").alarms
                alarms += [f"{twin.__name__}, seed {seed}: {', '.join(found)}"] if found else []
    print(f"\nclean twins with an alarm: {len(alarms)} of {len(TWINS) * SEEDS}")
    print(*alarms, sep="\n", file=sys.stderr)


def _row(incident: Incident, seen: list[Watched]) -> str:
    found = [(one, one.first(incident.rule, incident.level)) for one in seen]
    delays = [first.step - incident.onset(one) for one, first in found if first is not None]
    if not delays:
        return f"| {incident.name} | `{incident.rule}` | {incident.level.word} | not seen | 0 of {len(seen)} | |"
    middle, low, high = round(statistics.median(delays)), min(delays), max(delays)
    spread = f"{middle}" if low == high else f"{middle} ({low} to {high})"
    answered = [one for one in seen if re.fullmatch(incident.answer, " ".join(one.deeds))]
    said = "; ".join(seen[0].deeds) or "nothing: it is told, and training goes on"
    return f"| {incident.name} | `{incident.rule}` | {incident.level.word} | {spread} | {len(answered)} of {len(seen)} | {said} |"


if __name__ == "__main__":
    main()
