"""The program `vitals`, also `python -m vitalsdsl`."""

from __future__ import annotations

import gc
import importlib
import sys

OBJECTS = 100_000
"""So many new ones are waited for before Python looks for circles of dead ones: to start makes thousands of objects that
stay, and looking at them over and over would take a tenth of the time."""


def main() -> None:
    """Run the program; its exit codes are 0 fine, 1 findings, 2 wrong usage or unreadable input, 3 a level reached."""
    gc.set_threshold(OBJECTS, 20, 50)
    importlib.import_module("vitalsdsl.language.model").plain_ones()
    try:
        importlib.import_module("vitalsdsl.cli.app").vitals.main(prog_name="vitals", args=sys.argv[1:])
    finally:
        gc.freeze()  # all goes when the program ends: no need to look for what is dead among it


if __name__ == "__main__":
    main()
