"""`vitals`, with a watcher whose waiting is shortened: its pauses, leases and limits, and nothing of what it does.

    python -m tests.trials.compressed 60 watch p.vitals mlflow:experiments/llm

With 60, a tracker that is down for a minute is to it one that is down for an hour.
"""

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType

from vitalsdsl_mlflow import remote, rest, targets
from vitalsdsl_notify import webhook
from vitalsdsl_wandb import feed, graphql

from vitalsdsl.__main__ import main
from vitalsdsl.acting import crew, dispatch
from vitalsdsl.ground import retry_after
from vitalsdsl.watching import store, troubles, watched, watcher

SHORTENED: list[tuple[ModuleType, tuple[str, ...]]] = [
    (watcher, ("FIND_EVERY", "LOOK_AGAIN", "LEASE")),
    (troubles, ("FIRST_PAUSE", "MOST_PATIENT", "CALM")),
    (watched, ("SAVE_EVERY",)),
    (store, ("LEASE",)),
    (crew, ("IDLE",)),
    (dispatch, ("CHECK_AFTER",)),
    (retry_after, ("LONGEST",)),
    (targets, ("WIDE_S",)),
]

ASKED: list[tuple[ModuleType, tuple[str, ...]]] = [
    (remote, ("INTERVAL_S",)),
    (feed, ("INTERVAL",)),
    (graphql, ("CONNECT", "TIMEOUT")),
    (webhook, ("_TIMEOUT",)),
]
"""What waits for others: shortened less, as the tracker of the trial is as slow as ever."""

MOST = 4.0


def shorten(factor: float, most: float = MOST) -> None:
    """All of it; what waits for others by `most`."""
    for modules, by in ((SHORTENED, factor), (ASKED, most)):
        for module, names in modules:
            for name in names:
                setattr(module, name, getattr(module, name) / by)
    limits = {"silence": rest.SILENCE_S / most, "answer": rest.ANSWER_S / most}
    rest.Rest.__init__.__kwdefaults__.update(limits)
    patient = watcher.PATIENT
    watcher.PATIENT = dataclasses.replace(
        patient, first=patient.first / factor, most=patient.most / factor, total=patient.total / factor
    )


if __name__ == "__main__":
    shorten(float(sys.argv.pop(1)))
    main()
