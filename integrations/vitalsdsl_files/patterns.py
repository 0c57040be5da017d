"""Patterns that are made when they are first used: a log is in one of twenty formats, and has no use for those of others."""

from __future__ import annotations

import re
from typing import Any, cast


class _Awaited:
    """A pattern that nobody has used yet. What is asked of it once is found without asking from then on."""

    def __init__(self, text: str, flags: int) -> None:
        self._made_of = (text, flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._made_of), name)
        setattr(self, name, value)
        return value


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """What `re.compile` makes of a text, when it is first used.

    >>> pattern(r"step (\\d+)").search("at step 12")[1]
    '12'
    """
    return cast("re.Pattern[str]", _Awaited(text, flags))
