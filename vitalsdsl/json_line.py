"""Records as JSON lines: what commands print for programs, and what files on a run hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def json_line(record: Mapping[str, Any]) -> str:
    """A record as one line. Its numbers are finite: what is not stands there as `"NaN"` or `"Infinity"` already.

    >>> json_line({"type": "pack", "name": "tägliche"})
    '{"type": "pack", "name": "tägliche"}'
    """
    return json.dumps(record, ensure_ascii=False, allow_nan=False)
