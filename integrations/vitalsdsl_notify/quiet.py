"""Silence while a message is sent: what libraries log on the way holds the secret address."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_OURS = "vitalsdsl"
_STATUS = re.compile(r"\berror=(\d{3})\b")


class _Hush(logging.Filter):
    """Drops what is logged in a thread that is sending, and keeps the HTTP status that it tells of."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: dict[int, list[int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        found = self.statuses.get(threading.get_ident())
        if found is None:
            return True
        found += [int(status) for status in _STATUS.findall(record.getMessage())]
        return False


_hush = _Hush()
_lock = threading.Lock()


@contextmanager
def quiet() -> Iterator[list[int]]:
    """Nothing that this thread logs in here gets out, whatever level loggers are at; other threads log on.

    Gives the list of the HTTP statuses of refusals that were told of, which fills meanwhile.
    """
    me, found = threading.get_ident(), list[int]()
    with _lock:
        _hush.statuses[me] = found
        for logger in _loggers():
            logger.addFilter(_hush)
    try:
        yield found
    finally:
        with _lock:
            del _hush.statuses[me]
            if not _hush.statuses:
                for logger in _loggers():
                    logger.removeFilter(_hush)


def _loggers() -> list[logging.Logger]:
    """All loggers but our own: libraries do not only log under their names."""
    known = logging.root.manager.loggerDict
    named = [one for name, one in list(known.items()) if name.partition(".")[0] != _OURS]
    return [logging.root, *(one for one in named if isinstance(one, logging.Logger))]
