"""Work that makes many objects that stay: Python need not look among them for circles of dead ones."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is collected while a large policy becomes objects: looking through them again and again would take a third
    of the time.

    >>> import gc
    >>> with uncollected():
    ...     gc.isenabled()
    False
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
