"""Which formats there are: the modules of `formats`, and the entry points of the group `vitalsdsl.formats`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points

from vitalsdsl_files import formats
from vitalsdsl_files.format import Format

GROUP = "vitalsdsl.formats"


@cache
def known() -> tuple[tuple[Format, ...], tuple[str, ...]]:
    """The formats in the order in which they are tried, and a note on each that could not be loaded.

    >>> [found.name for found in known()[0]][:2]
    ['trainer_state.json', 'JSON lines']
    """
    found = [
        importlib.import_module(f"{formats.__name__}.{m.name}").FORMAT for m in pkgutil.iter_modules(formats.__path__)
    ]
    notes = []
    for entry in entry_points(group=GROUP):
        try:
            found.append(_checked(entry.load()))
        except Exception as problem:  # another package's own fault must not cost the other formats
            notes.append(f"the format `{entry.name}` of another package cannot be used: {problem}")
    return tuple(sorted(found, key=lambda one: (-one.priority, one.name))), tuple(notes)


def _checked(loaded: object) -> Format:
    if not isinstance(loaded, Format):
        raise TypeError(f"`{loaded}` is no vitalsdsl_files.Format object")
    return loaded
