"""The frame of W&B's `.wandb` files: a LevelDB log, from its bytes to whole records, whatever pieces it comes in.

Seven bytes of W&B's own (`:W&B`, 0xBEE1, a version), then blocks of 32 KiB counted from the first byte. A block holds
chunks: CRC-32 of kind and payload, length, kind (1 a whole record, 2 its first part, 3 a middle one, 4 its last),
payload. What is left of a block below seven bytes is padding.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from vitalsdsl.ground.errors import SourceError

BLOCK = 32 * 1024
HEADER = struct.Struct("<4sHB")
MAGIC = (b":W&B", 0xBEE1)
VERSION = 0
LARGEST = 64 * 1024 * 1024
"""A longer record is not held in memory: it counts as damage. In bytes; rows are some hundred bytes long."""

_CHUNK = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class Frames:
    """The records of one file, from an offset that an earlier reading gave (0: from the beginning).

    `feed` takes the bytes from `offset` on in pieces of any size. A record that is not whole waits for more. Damage
    costs the rest of its block and what reaches into it: it is counted in `damage`, and reading goes on at the next
    block. `torn` tells a later reading, with `offset`, that the block may begin within a record that was lost.
    """

    def __init__(self, name: str, offset: int = 0, torn: bool = False) -> None:
        self.name = name
        self.offset = offset
        self.torn = torn
        self.damage = 0
        self._buffer = b""
        self._at = offset
        self._skip = 0
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def waiting(self) -> int:
        """How many bytes were given that belong to no whole record yet."""
        return max(0, self._at + len(self._buffer) - self.offset)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The records that are whole with this piece. To be gone through before the next piece is given.

        Raises SourceError where this is no such file, or one of another version.
        """
        if self._skip:
            passed = min(self._skip, len(data))
            self._skip -= passed
            self._at += passed
            data = data[passed:]
        buffer = self._buffer + data if self._buffer else data
        base, at, end = self._at, 0, len(buffer)
        if base == 0:
            if end < HEADER.size:
                self._check(buffer)
                self._buffer = buffer
                return
            self._check(buffer)
            at = HEADER.size
            self.offset = max(self.offset, at)
        while at < end:
            room = BLOCK - (base + at) % BLOCK
            if room < 7:
                at = self._padded(base, min(at + room, end))
                continue
            if end - at < 7:
                break
            crc, length, kind = _CHUNK.unpack_from(buffer, at)
            after = at + 7 + length
            if kind == 0 and length == 0 and crc == 0:
                if end - at < room:
                    break
                if buffer.count(0, at, at + room) == room:  # space that was set aside and never written to
                    at = self._padded(base, at + room)
                    continue
            if kind > _LAST or kind == 0 or length + 7 > room:
                at = self._damaged(base, at, room)
                continue
            if after > end:
                break
            if zlib.crc32(buffer[at + 6 : after]) != crc:
                at = self._damaged(base, at, room)
                continue
            payload = buffer[at + 7 : after]
            at = after
            record = payload if kind == _FULL and not self._parts else self._join(kind, payload, base + at)
            if record is not None:
                self.offset, self.torn = base + at, False
                yield record
        self._skip = max(0, at - end)
        self._buffer = buffer[at:]
        self._at = base + min(at, end)

    def _check(self, head: bytes) -> None:
        whole = HEADER.pack(*MAGIC, VERSION)
        if head[:6] != whole[: len(head)][:6]:
            raise SourceError(f"`{self.name}` is no W&B run file: it does not begin as one")
        if len(head) >= HEADER.size and head[6] != VERSION:
            raise SourceError(
                f"`{self.name}` is in version {head[6]} of W&B's file format, and only version {VERSION} can be read "
                "here: a newer vitalsdsl may read it"
            )

    def _padded(self, base: int, at: int) -> int:
        if not self._parts:
            self.offset = base + at
        return at

    def _damaged(self, base: int, at: int, room: int) -> int:
        """The rest of the block is lost, with the parts of the record that was to go on in it."""
        self.damage += 1
        self._parts.clear()
        self._size = 0
        self.offset, self.torn = base + at + room, True
        return at + room

    def _join(self, kind: int, payload: bytes, end: int) -> bytes | None:
        """A part of a record: the whole of it, once this is its last part."""
        if kind in (_FULL, _FIRST):
            if self._parts:  # the record before has no end
                self.damage += 1
            self._parts = [] if kind == _FULL else [payload]
            self._size = len(payload)
            self.offset, self.torn = end - 7 - len(payload), False
            return payload if kind == _FULL else None
        if not self._parts:
            if not self.torn:
                self.damage += 1
            self.offset, self.torn = end, True
            return None
        self._parts.append(payload)
        self._size += len(payload)
        if self._size > LARGEST:
            self.damage += 1
            self._parts.clear()
            self.offset, self.torn = end, True
            return None
        if kind == _MIDDLE:
            return None
        record = b"".join(self._parts)
        self._parts.clear()
        return record
