"""A folder for one guard alone."""

from __future__ import annotations

import logging
from pathlib import Path

from vitalsdsl.ground.errors import UsageError

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("vitalsdsl")


class Lock:
    """A folder for one guard alone, as long as its process lives. Processes that this one forks (a loader's workers) do
    not share it: they may outlive it for a while, and must not keep the run from being started again."""

    _held: set[Path] = set()

    def __init__(self, root: Path) -> None:
        self._root = root
        if root in self._held:
            raise UsageError(f"another guard of this process trains in {root}")
        self._file = (root / "lock").open("a")
        try:
            if fcntl is not None:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            self._file.close()
            raise UsageError(f"another process trains in {root}") from None
        except OSError:  # a file system without locks
            logger.debug("vitals: %s cannot be locked", root)
        self._held.add(root)

    def close(self) -> None:
        self._held.discard(self._root)
        self._file.close()
