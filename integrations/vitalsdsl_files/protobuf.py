"""The wire format of protocol buffers, as far as event files need it: the fields of one message.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """The fields of a message, in order: number, wire type, and an integer or the bytes. Raises ValueError where it is
    none.

    >>> list(fields(bytes([0x10, 0x96, 0x01, 0x1A, 0x02, 0x68, 0x69])))
    [(2, 0, 150), (3, 2, b'hi')]
    """
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield key >> 3, kind, value
            continue
        if kind == BYTES:
            size, at = _varint(message, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > end:
            raise ValueError("a field breaks off")
        yield key >> 3, kind, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("a number breaks off")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def signed(value: int) -> int:
    """An int64, which is written as if it had no sign.

    >>> signed(2**64 - 1)
    -1
    """
    return value - (1 << 64) if value >= 1 << 63 else value
