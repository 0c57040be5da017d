"""Words, lists and sets of keys as YAML text: quoted where any reader of YAML could take them for something else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

WIDTH = 100

_SAFE = re.compile(r"(?:[A-Za-z0-9_]|-(?=\d))(?:[A-Za-z0-9_./%*+ -]*[A-Za-z0-9_%*])?")
_NOT_TEXT = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}.*")


@dataclass(frozen=True)
class Quoted:
    """A text that always stands in quotes: expressions, messages."""

    text: str


@dataclass(frozen=True)
class Entry:
    """A key and its value, or an item of a list; with the comments above it."""

    value: Any
    key: str | None = None
    comments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entries:
    """Keys or items that stand one below the other; `apart` with a blank line between those of several lines."""

    entries: tuple[Entry, ...]
    apart: bool = False


def word(text: str) -> str:
    """A word, quoted where it must be.

    >>> word("20 steps"), word("off"), word('"a b"')
    ('20 steps', '"off"', '\\'"a b"\\'')
    """
    if _SAFE.fullmatch(text) and text.lower() not in _NOT_TEXT and not _DATE.fullmatch(text):
        return text
    return quoted(text)


def quoted(text: str) -> str:
    """A text in the quotes that need fewer escapes."""
    if text.isprintable() and ('"' in text or "\\" in text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char == "\n":
        return "\\n"
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def dump(value: Any, depth: int = 0) -> list[str]:
    """The lines of a value; the first is what follows a key on its line, and empty where nothing does."""
    if isinstance(value, Entries):
        return ["", *_entries(value, depth)]
    flow = _flow(value)
    if not isinstance(value, (dict, list)) or len(flow) + 2 * depth <= WIDTH:
        return [flow]
    if isinstance(value, dict):
        return dump(Entries(tuple(Entry(item, key) for key, item in value.items())), depth)
    return dump(Entries(tuple(Entry(item) for item in value)), depth)


def _entries(value: Entries, depth: int) -> Iterable[str]:
    indent, before = "  " * depth, 0
    for entry in value.entries:
        lines = list(_entry(entry, depth))
        if value.apart and before and max(before, len(lines)) > 1:
            yield ""
        yield from (indent + comment for comment in entry.comments)
        yield from (indent + lines[0], *lines[1:])
        before = len(lines) + len(entry.comments)


def _entry(entry: Entry, depth: int) -> Iterable[str]:
    """The lines of an entry, the first without its indentation."""
    lead = f"{_key(entry.key)}:" if entry.key is not None else "-"
    lines = dump(entry.value, depth + 1)
    if entry.key is None and not lines[0]:
        # The first key of an item stands behind its dash.
        yield f"- {lines[1].lstrip()}"
        yield from lines[2:]
        return
    yield f"{lead} {lines[0]}".rstrip()
    yield from lines[1:]


def _flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Quoted):
        return quoted(value.text)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return word(str(value))


def _key(key: str) -> str:
    # Our reader takes `on` as it stands, and so do people.
    return key if key == "on" else word(key)
