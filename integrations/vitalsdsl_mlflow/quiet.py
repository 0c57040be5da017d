"""MLflow's own talk is none of ours: what it logs of its doings, while it does something for us."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_TALK = {"mlflow": logging.WARNING, "urllib3.connectionpool": logging.ERROR}
"""Below which level nothing is heard: MLflow tells how long it waits, and what it asks with, of each try that fails."""


@contextmanager
def quiet() -> Iterator[None]:
    """Leave it out; afterwards all is as it was. MLflow has to be loaded: it sets its loggers up then."""
    before = {name: logging.getLogger(name).level for name in _TALK}
    for name, level in _TALK.items():
        logging.getLogger(name).setLevel(max(level, before[name]))
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
