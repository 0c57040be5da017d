"""On which line of a TOML text a setting stands: its parser tells values, and no places."""

from __future__ import annotations

import re
from collections.abc import Sequence

Way = tuple[str | int, ...]
"""The way to a setting from the top: names, and numbers from 0 in arrays of tables."""

_TABLE = re.compile(r"\s*(?P<array>\[)?\[\s*(?P<name>[^\[\]]+?)\s*\]")
_SETTING = re.compile(r"""\s*(?P<name>[\w.-]+|"[^"]*"|'[^']*')\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """The line of a setting, or of what should hold it, counted from 1; None where neither is found.

    >>> text = '[[policies]]\\ntarget = "a"\\n[[policies]]\\nproject = "b"\\n'
    >>> line_of(text, ("policies", 1, "project")), line_of(text, ("policies", 1, "target"))
    (4, 3)
    """
    table: Way = ()
    counts: dict[Way, int] = {}
    found: dict[Way, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if (head := _TABLE.match(line)) is not None:
            table = _names(head["name"])
            if head["array"]:
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            found[table] = number
        elif (setting := _SETTING.match(line)) is not None:
            found.setdefault((*table, *_names(setting["name"])), number)
    parts = tuple(path)
    return next((found[parts[:end]] for end in range(len(parts), 0, -1) if parts[:end] in found), None)


def _names(dotted: str) -> Way:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))
