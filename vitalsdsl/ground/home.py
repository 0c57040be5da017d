"""The home of vitals on a disk: the folder of stores and journals, and names that are safe in it."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

HOME_VARIABLE = "VITALS_HOME"
"""Where the home is, if no command says otherwise."""

_LONGEST_NAME = 200
"""Bytes of a name; file systems take 255, of which endings need some."""


def home_of(given: str | os.PathLike[str] | None = None, configured: str | None = None) -> Path:
    """The home: as given, else VITALS_HOME, else as vitals.toml says, else `.vitals` in the working directory."""
    return Path(given or os.environ.get(HOME_VARIABLE) or configured or ".vitals")


def file_name(text: str) -> str:
    """A name as one part of a path, never one that leads elsewhere, and cut where a disk would not take it.

    >>> file_name("team/run 1"), file_name("..")
    ('team_run_1', '__')
    """
    name = re.sub(r"[^\w.-]", "_", text)
    if not name.strip("."):
        return "_" * max(1, len(name))
    if len(name.encode()) <= _LONGEST_NAME:
        return name
    rest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return name.encode()[: _LONGEST_NAME - 20].decode("utf-8", "ignore") + rest
