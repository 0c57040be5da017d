"""Shipped and installed packs: rule files found by entry points, so that anyone can add theirs."""

from __future__ import annotations

import importlib.resources
from importlib.metadata import entry_points

from vitalsdsl.source import Source

GROUP = "vitalsdsl.packs"


def packs() -> dict[str, str]:
    """The names of all installed packs, with the import package that holds each."""
    found: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        try:
            folder = importlib.resources.files(point.value)
        except ModuleNotFoundError:
            continue  # an entry point that outlived its package
        for file in folder.iterdir():
            if file.name.endswith(".vitals"):
                found.setdefault(file.name.removesuffix(".vitals"), point.value)
    return dict(sorted(found.items()))


def pack(name: str) -> Source | None:
    """The text of a pack, None where there is none of that name."""
    package = packs().get(name)
    if package is None:
        return None
    text = importlib.resources.files(package).joinpath(f"{name}.vitals").read_text("utf-8")
    return Source(f"pack:{name}", text)
