"""The program `vitals`, also `python -m vitalsdsl`."""

from __future__ import annotations

import sys

from vitalsdsl.cli.app import vitals


def main() -> None:
    """Run the program; its exit codes are 0 fine, 1 findings, 2 wrong usage or unreadable input, 3 a level reached."""
    vitals.main(prog_name="vitals", args=sys.argv[1:])


if __name__ == "__main__":
    main()
