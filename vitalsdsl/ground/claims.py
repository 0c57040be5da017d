"""What people write without a scheme: a path, or the address of a page, that is clearly of one tracker.

A tracker's integration says so by an entry point of the group `vitalsdsl.claims`, under the name of its scheme.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "vitalsdsl.claims"

Claims = Callable[[str], "str | None"]
"""The same reference with its scheme, where it is of this tracker; None where it is not. Raises UsageError, which says
what to write, where it is of this tracker and names nothing by itself."""

_ADDRESS = re.compile(r"https?://", re.IGNORECASE)


def is_address(reference: str) -> bool:
    """Whether this is the address of a page.

    >>> is_address("https://wandb.ai/team/llm/runs/3kx9"), is_address("wandb:team/llm/3kx9")
    (True, False)
    """
    return _ADDRESS.match(reference) is not None


def is_there(reference: str) -> bool:
    """Whether this is a path to something."""
    try:
        return Path(reference).exists()
    except (OSError, ValueError):  # no path can be written so
        return False


def in_full(reference: str) -> str:
    """A reference with its scheme, where a tracker knows it for one of its own; else as it is.

    Raises UsageError where a tracker knows it and cannot take it so.
    """
    for point in _points().values():
        try:
            claims: Claims = point.load()
        except ImportError:  # an optional package is missing: this tracker takes part in nothing
            continue
        found = claims(reference)
        if found is not None:
            return found
    return reference


def run_name(reference: str) -> str:
    """The run's own id, by which its journal and its control channel go, out of what people write for a run.

    >>> run_name("3kx9")
    '3kx9'
    """
    full = in_full(reference) if is_address(reference) else reference
    scheme, _, rest = full.partition(":")
    return rest.rstrip("/").rpartition("/")[2] if scheme in _points() and rest.strip("/") else reference


def _points() -> dict[str, EntryPoint]:
    # Loaded only here: `vitals check` of a file on disk asks nobody.
    entry_points = import_module("importlib.metadata").entry_points
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}
