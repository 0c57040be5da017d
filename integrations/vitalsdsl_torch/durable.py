"""Files that are there whole or not at all, after a crash as well."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20


def write(path: Path, data: bytes) -> None:
    """Write a new file down to the disk. Raises OSError."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, down to the disk."""
    if os.name != "posix" and path.is_dir():
        return  # where folders cannot be opened their names are written with the files
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest_of(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def json_bytes(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, sort_keys=True, default=str).encode("utf-8", "backslashreplace")
