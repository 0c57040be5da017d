"""What `vitals run` sets in the environment of a training, so that W&B's metrics are seen without a line changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

FLUSH = "WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL"


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The variables to be set, beside those given. W&B also writes its file every second, for whoever reads it."""
    path = [str(Path(__file__).parent / "launch"), *filter(None, [given.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(path), FLUSH: given.get(FLUSH, "1")}


def folder(given: Mapping[str, str]) -> str:
    """Where a training with this environment keeps its runs, as a target to be watched."""
    root = Path(given.get("WANDB_DIR") or ".")
    return f"wandb:{(root / 'wandb').absolute()}"
