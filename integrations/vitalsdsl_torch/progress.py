"""How far a run has come: four numbers that outlive the process, at the price of a few writes to memory a step."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import NamedTuple

_FORMAT = struct.Struct("<qqqq")


class Reached(NamedTuple):
    """The newest step boundary: its attempt and step, how many batches had been drawn, and all updates ever made."""

    attempt: int = 0
    step: int = 0
    position: int = 0
    lived: int = 0


class Progress:
    """A file that is mapped into memory: what is written there survives the process, though not the machine. It only
    says what a restart has lost; where it is behind, less is said."""

    def __init__(self, path: Path) -> None:
        if not path.exists() or path.stat().st_size != _FORMAT.size:
            path.write_bytes(_FORMAT.pack(*Reached()))
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), _FORMAT.size)

    def read(self) -> Reached:
        return Reached(*_FORMAT.unpack_from(self._map))

    def write(self, reached: Reached) -> None:
        """Note where the run is; nothing once it is closed."""
        if not self._map.closed:
            _FORMAT.pack_into(self._map, 0, *reached)

    def close(self) -> None:
        self._map.close()
        self._file.close()
