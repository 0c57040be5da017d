"""Records as JSON lines: what commands print for programs, and what files on a run hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def json_line(record: Mapping[str, Any]) -> str:
    """A record as one line. Its numbers are finite: what is not stands there as `"NaN"` or `"Infinity"` already.

    >>> json_line({"type": "pack", "name": "tägliche"})
    '{"type": "pack", "name": "tägliche"}'

    What of a file's name is no text stands there as JSON's own escape.
    """
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return line if line.isprintable() else line.encode("utf-8", "backslashreplace").decode()
