"""Texts in double quotes, as a policy writes them: odd names, titles, messages.

`\\"` stands for a double quote and `\\\\` for a backslash; a backslash before anything else stands for itself.
"""

from __future__ import annotations

import re

QUOTED = r'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"'
"""A text in its quotes, as a pattern; it stands on one line."""
STARTED = f"{QUOTED}?"
"""The same, also where the closing quote lacks."""

_ESCAPE = re.compile(r'\\(["\\])')
_TO_ESCAPE = re.compile(r'"|\\(?=["\\]|\Z)')


def quoted(text: str) -> str:
    r"""A text in quotes.

    >>> print(quoted('say "loss"'), quoted(r"C:\logs"), quoted("a" + chr(92)))
    "say \"loss\"" "C:\logs" "a\\"
    """
    return '"' + _TO_ESCAPE.sub(r"\\\g<0>", text) + '"'


def unquoted(text: str) -> str:
    """What a text in quotes stands for.

    >>> unquoted(quoted('say "loss"'))
    'say "loss"'
    """
    return _ESCAPE.sub(r"\1", text[1:-1])


def places(text: str, start: int) -> list[int]:
    """Where each character of what a text in quotes stands for is written, and where it ends; `start` is its quote's place.

    >>> places(quoted('a"b'), 10)
    [11, 12, 14, 15]
    """
    found: list[int] = []
    at, end = 1, len(text) - 1
    while at < end:
        found.append(start + at)
        at += 2 if _ESCAPE.match(text, at, end) else 1
    return [*found, start + end]
