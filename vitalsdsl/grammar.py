"""The tables made from grammar.lark, and one reading of a text with them."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lark

from vitalsdsl.builder import Builder

STARTS = ("start", "condition", "span", "duration", "value", "rung", "action", "setting")


class _Readings(threading.local):
    """The builders at work in this thread, innermost last: a message's fields are read while their rule is."""

    def __init__(self) -> None:
        self.builders: list[Builder] = []


_readings = _Readings()


class _Building:
    """Hands what the parser has just read to the builder of that reading; so no tree is made that is walked again."""

    def __getattr__(self, rule: str) -> Callable[[list[Any]], Any]:
        method = getattr(Builder, rule)
        return lambda children: method(_readings.builders[-1], children)


def read(text: str, start: str, builder: Builder) -> Any:
    """What a text says, read by this rule of the grammar; raises lark's UnexpectedInput where it says nothing."""
    _readings.builders.append(builder)
    try:
        return _tables().parse(text, start=start)
    finally:
        _readings.builders.pop()


_lock = threading.Lock()
_loaded: list[lark.Lark] = []


def _tables() -> lark.Lark:
    """Built once a process, and kept in the user's own cache folder between processes."""
    with _lock:
        if not _loaded:
            text = (Path(__file__).parent / "grammar.lark").read_text("utf-8")
            options: dict[str, Any] = {
                "parser": "lalr",
                "lexer": "contextual",
                "start": list(STARTS),
                "keep_all_tokens": True,
                "maybe_placeholders": False,
                "g_regex_flags": re.ASCII,
                "transformer": _Building(),
            }
            cache = _cache_file()
            _loaded.append(lark.Lark(text, cache=str(cache) if cache else False, **options))
    return _loaded[0]


def _cache_file() -> Path | None:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(root) / "vitalsdsl"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mine = os.access(folder, os.W_OK) and (not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid())
    except (OSError, RuntimeError):
        return None
    version = f"{lark.__version__}-{sys.version_info.major}.{sys.version_info.minor}"
    return folder / f"grammar-{version}.bin" if mine else None
