"""Shipped and installed packs: rule files found by entry points, so that anyone can add theirs."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.source import Source

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "vitalsdsl.packs"
SHIPPED = "vitalsdsl"
"""The entry point of our own packs: nobody else's of the same name takes their place."""


def packs() -> dict[str, str]:
    """The names of all installed packs, with the import package that holds each.

    >>> packs()["core"]
    'vitalsdsl_rules'
    """
    # Loaded only here: a sixth of the time of a `vitals check` that uses no pack.
    entry_points = importlib.import_module("importlib.metadata").entry_points
    resources = importlib.import_module("importlib.resources")
    found: dict[str, str] = {}
    for point in _points(entry_points):
        try:
            names = [file.name for file in resources.files(point.value).iterdir()]
        except Exception:  # somebody's package that is gone, or fails when imported, must not hide the others
            continue
        for name in names:
            if name.endswith(".vitals"):
                found.setdefault(name.removesuffix(".vitals"), point.value)
    return dict(sorted(found.items()))


@functools.cache
def _points(entry_points: Callable[..., Iterable[EntryPoint]]) -> tuple[EntryPoint, ...]:
    """Ours first. Looked up once: what is installed is gone through for it, and a policy asks once for each `use`."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda p: (p.name != SHIPPED, p.name)))


def pack(name: str) -> Source | None:
    """The text of a pack, None where there is none of that name. Raises SourceError where it is not UTF-8 text."""
    package = packs().get(name)
    if package is None:
        return None
    try:
        resources = importlib.import_module("importlib.resources")
        text = resources.files(package).joinpath(f"{name}.vitals").read_text("utf-8")
    except UnicodeDecodeError:
        raise SourceError(f"the pack `{name}` of {package} is not UTF-8 text") from None
    return _source(name, text)


@functools.lru_cache(64)
def _source(name: str, text: str) -> Source:
    """The same for the same text: many packs use `core`, and what uses several reads it as often."""
    return Source(f"pack:{name}", text)


def tests_of_pack(name: str) -> Path | None:
    """The file of tests that a pack brings, where it does."""
    package = packs().get(name)
    if package is None:
        return None
    file = importlib.import_module("importlib.resources").files(package).joinpath(f"{name}.vtest.yaml")
    return file if isinstance(file, Path) and file.is_file() else None
