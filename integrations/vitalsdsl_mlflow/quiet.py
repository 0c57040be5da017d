"""MLflow's own talk is none of ours: what it logs of its doings, and its bars, while it does something for us."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_TALK = {"mlflow": logging.WARNING, "urllib3.connectionpool": logging.ERROR}
"""Below which level nothing is heard: MLflow tells how long it waits, and what it asks with, of each try that fails."""

_BAR = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"

_lock = threading.Lock()
_inside = 0
_before: tuple[dict[str, int], str | None] = {}, None


@contextmanager
def quiet() -> Iterator[None]:
    """Leave it out; when the last thread is done all is as it was. MLflow has to be loaded: it sets its loggers up then."""
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = {name: logging.getLogger(name).level for name in _TALK}, os.environ.get(_BAR)
            for name, level in _TALK.items():
                logging.getLogger(name).setLevel(max(level, _before[0][name]))
            os.environ[_BAR] = "false"
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                levels, bar = _before
                for name, level in levels.items():
                    logging.getLogger(name).setLevel(level)
                if bar is None:
                    os.environ.pop(_BAR, None)
                else:
                    os.environ[_BAR] = bar
