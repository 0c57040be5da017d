"""The records of an event file: length, checksum, data, checksum.

Source: https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/tensorflow_stub/pywrap_tensorflow.py
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from vitalsdsl_files.opening import up_to

CHECKED = 64 * 1024
"""Data longer than this is a picture or a graph: its checksum is not looked at. In bytes."""
_LONGEST = 1 << 31

_POLYNOMIAL = 0x82F63B78


def _table() -> tuple[int, ...]:
    table = []
    for entry in range(256):
        for _ in range(8):
            entry = (entry >> 1) ^ (_POLYNOMIAL if entry & 1 else 0)
        table.append(entry)
    return tuple(table)


_TABLE = _table()


def masked_checksum(data: bytes) -> int:
    """CRC-32C, turned and shifted as these files want it.

    >>> hex(masked_checksum(b"123456789"))
    '0xc78ab0e5'
    """
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum = _TABLE[(checksum ^ byte) & 0xFF] ^ (checksum >> 8)
    checksum ^= 0xFFFFFFFF
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class DamagedError(ValueError):
    """A record breaks off, or its checksum is wrong: what comes after it cannot be found."""


def records(file: BinaryIO) -> Iterator[bytes]:
    """The data of each record. Raises DamagedError at the first that is not whole."""
    while head := up_to(file, 12):
        if len(head) < 12:
            raise DamagedError("breaks off")
        size, checksum = struct.unpack("<QI", head)
        if size > _LONGEST or masked_checksum(head[:8]) != checksum:
            raise DamagedError("is damaged")
        data = up_to(file, size + 4)
        if len(data) < size + 4:
            raise DamagedError("breaks off")
        if size <= CHECKED and masked_checksum(data[:size]) != struct.unpack("<I", data[size:])[0]:
            raise DamagedError("is damaged")
        yield data[:size]
