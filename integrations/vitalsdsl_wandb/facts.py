"""What W&B says of a run beside its rows: times, the end of the history, the axes that the script defined."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from vitalsdsl.ground.points import number

# The fields of a metric's definition, as W&B numbers them within a run's configuration.
_GLOB, _STEP_NAME, _STEP_INDEX, _NAME = "2", "4", "5", "1"


def parse_config(text: object) -> dict[str, Any]:
    """A configuration as the service gives it: name to `{"value": …}`. Empty where it cannot be read."""
    try:
        config = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {}
    return {key: x.get("value") for key, x in config.items() if isinstance(x, dict)} if isinstance(config, dict) else {}


def definitions(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The calls of `define_metric` with a step metric: the metric, or how its name begins (`val/*`), and that."""
    own = config.get("_wandb")
    metrics = own.get("m") if isinstance(own, dict) else None
    if not isinstance(metrics, list):
        return []
    found = []
    for metric in metrics:
        if not isinstance(metric, dict):
            continue
        pattern, step, at = metric.get(_GLOB) or metric.get(_NAME), metric.get(_STEP_NAME), metric.get(_STEP_INDEX)
        if step is None and isinstance(at, int) and 0 < at <= len(metrics) and isinstance(metrics[at - 1], dict):
            step = metrics[at - 1].get(_NAME)
        if isinstance(pattern, str) and isinstance(step, str):
            found.append((pattern, step))
    return found


def last_step(run: Mapping[str, Any]) -> int | None:
    """The newest step of the history; None where there is none, or it is not said."""
    keys = run.get("historyKeys")
    if isinstance(keys, str):
        try:
            keys = json.loads(keys)
        except ValueError:
            return None
    last = number(keys.get("lastStep")) if isinstance(keys, dict) else None
    return int(last) if last is not None and math.isfinite(last) else None


def when(text: object) -> datetime | None:
    """A time, to the second: W&B's are in UTC, with or without saying so. None where there is none.

    >>> when("2026-05-01T10:11:12.123456789Z") == when("2026-05-01T10:11:12")
    True
    """
    try:
        at = datetime.fromisoformat(re.sub(r"\.\d+", "", str(text)).replace("Z", "+00:00"))
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)
