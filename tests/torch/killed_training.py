"""A training that is killed: at its n-th write to the disk, or by somebody else at any moment."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from training_loops import Loop
from vitalsdsl_torch import Limits

BAD = (range(65, 70), range(130, 135))
STEPS = 300


def train(folder: str, home: str, kill_at: int | None, pause: float = 0.0) -> None:
    """All of it, in the process that calls; at the end the account is written down. `pause` is how many
    seconds each step takes beside its work."""
    os.environ["VITALS_HOME"] = home
    if kill_at is not None:
        die_at(kill_at)
    bad = [batch for window in BAD for batch in window]
    loop = Loop(Path(folder), bad=bad, every=10, keep=3, probation=5, margin=5, skip=8, grace=2,
                limits=Limits(total=5, window=5, near=20))  # type: ignore[arg-type]  # fmt: skip
    loop.train(STEPS, before=lambda step: time.sleep(pause))
    told = {"seen": loop.seen, "skipped": loop.guard.skipped, "position": loop.data.position, "done": loop.guard.done}
    Path(folder, "told.json").write_text(json.dumps(told), "utf-8")


def die_at(count: int) -> None:
    """Before each step of what has to be durable, the process may end: before a sync, a rename, a line of the history."""
    left = [count]

    def deadly(real: Any) -> Any:
        def called(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return called

    os.fsync, os.rename, os.unlink = deadly(os.fsync), deadly(os.rename), deadly(os.unlink)
    os.write = deadly(os.write)
