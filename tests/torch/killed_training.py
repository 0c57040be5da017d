"""A training that is killed: at its n-th write to the disk, or by somebody else at any moment; and its account."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from training_loops import BATCHES, RED, Loop, history
from vitalsdsl_torch import Limits

BAD = (range(65, 70), range(130, 135))
SLOW = (range(95, 100), range(200, 205))
STEPS = 300
PAUSE = "rule slow { when tokens < 5 for 3 steps -> orange }"
SAVING, GOING_BACK, PAUSING, ELSEWHERE = "saving", "going-back", "pausing", "elsewhere"


def train(
    folder: str, home: str, kill_at: int | None, rest: float = 0.0,
    during: str = "", background: bool = False, pauses: bool = False,
) -> None:  # fmt: skip
    """All of it, in the process that calls; at the end the account is written down. `rest` is how many seconds each step
    takes beside its work; `during` is of what the writes are that are counted for `kill_at`. With `pauses` a rule pauses it in each window of `SLOW`: then the process ends with 75."""
    os.environ["VITALS_HOME"] = home
    place = Path(folder)
    if kill_at is not None:
        place.mkdir(parents=True, exist_ok=True)
        die_at(kill_at, place / "killed.txt", during)
    bad = [batch for window in BAD for batch in window]
    slow = {batch for window in SLOW for batch in window if pauses}
    loop = Loop(place, f"{RED}\n{PAUSE}", bad, every=10, keep=3, probation=5, margin=5, skip=8, grace=2,
                background=background, limits=Limits(total=5, window=5, near=20))  # type: ignore[arg-type]  # fmt: skip
    loop.train(STEPS, lambda step: time.sleep(rest), lambda batch: {"tokens": 1.0 if batch in slow else 9.0})
    told = {"seen": loop.seen, "skipped": loop.guard.skipped, "position": loop.data.position, "done": loop.guard.done,
            "tensors": [tensor.tolist() for tensor in loop.tensors()]}  # fmt: skip
    (place / "told.json").write_text(json.dumps(told), "utf-8")


def die_at(count: int, note: Path | None = None, during: str = "") -> None:
    """Before each step of what has to be durable, the process may end: before a sync, a rename, a line of the history.
    What it was at is added to the file `note`; only such steps of what it is `during` are counted, where that is given."""
    left, write = [count], os.write

    def deadly(real: Any) -> Any:
        def called(*arguments: Any, **named: Any) -> Any:
            left[0] -= not during or _under_way() == during
            if left[0] <= 0:
                if note is not None:
                    write(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_APPEND), f"{_under_way()}\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return called

    os.fsync, os.rename, os.unlink = deadly(os.fsync), deadly(os.rename), deadly(os.unlink)
    os.write = deadly(os.write)


def _under_way() -> str:
    """What the guard is at, by the functions that have been entered."""
    names, frame = set(), sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        names.add(frame.f_code.co_name)
    for name, what in (("_rollback", GOING_BACK), ("_pause", PAUSING), ("_write", SAVING)):
        if name in names:
            return what
    return ELSEWHERE


def check(folder: Path, pauses: bool = False) -> dict[str, Any]:
    """That a training which came to its end lost nothing on the way; gives what it told."""
    told: dict[str, Any] = json.loads((folder / "told.json").read_text("utf-8"))
    said = history(folder)
    out = {batch for first, end in told["skipped"] for batch in range(first, end)}
    # No batch is in the model twice, and none is missing that the account does not name.
    assert told["seen"] == [int(batch < told["position"] and batch not in out) for batch in range(BATCHES)]
    assert told["done"] == STEPS == sum(told["seen"])
    assert not any(told["seen"][batch] for window in BAD for batch in window)
    # One rollback for each bad window, and one pause for each slow one, however often the process ended within it.
    turns = [record["request"] for record in said if record["type"] == "turn" and record["ladder"]]
    paused = [record["request"] for record in said if record["type"] == "paused"]
    assert len(turns) == len(BAD) == len(set(turns))
    assert len(paused) == len(SLOW) * pauses == len(set(paused))
    answered = {record["id"]: record["state"] for record in said if record["type"] == "answer"}
    assert all(answered[request] == "done" for request in (*turns, *paused))
    assert "executing" not in answered.values()
    return told
