"""Which formats there are: the modules of `formats`, and the entry points of the group `vitalsdsl.formats`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points

from vitalsdsl_files import formats
from vitalsdsl_files.format import BinaryFormat, Format

GROUP = "vitalsdsl.formats"


@cache
def known() -> tuple[tuple[Format, ...], tuple[BinaryFormat, ...], tuple[str, ...]]:
    """The formats of text in the order in which they are tried, the binary ones, and a note on each that could not be
    loaded.

    >>> known()[0][0].name
    'trainer_state.json'
    """
    found: list[Format | BinaryFormat] = [
        importlib.import_module(f"{formats.__name__}.{m.name}").FORMAT for m in pkgutil.iter_modules(formats.__path__)
    ]
    notes = []
    for entry in entry_points(group=GROUP):
        try:
            found.append(_checked(entry.load()))
        except Exception as problem:  # another package's own fault must not cost the other formats
            notes.append(f"the format `{entry.name}` of another package cannot be used: {problem}")
    text = sorted((one for one in found if isinstance(one, Format)), key=lambda one: (-one.priority, one.name))
    binary = (one for one in found if isinstance(one, BinaryFormat))
    return tuple(text), tuple(binary), tuple(notes)


def _checked(loaded: object) -> Format | BinaryFormat:
    if not isinstance(loaded, (Format, BinaryFormat)):
        raise TypeError(f"`{loaded}` is no vitalsdsl_files.Format object")
    return loaded
